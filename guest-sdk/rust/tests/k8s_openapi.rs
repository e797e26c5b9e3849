//! The types of the `k8s-openapi` crate are usable as they are: in events, and from the cache. Invariant: the
//! SDK itself does not depend on them.

use hark_guest::testing::Host;
use hark_guest::{Added, Described, Failure, OrFailure, Outcome, Plugin, Subscription, Updated, cache, log};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

const DEPLOYMENTS: u32 = 0;

struct Typed;

impl Plugin for Typed {
    fn describe() -> Described {
        Ok(hark_guest::description!()
            .watch(Subscription::new("deployments", "apps/v1", "Deployment"))
            .watch(Subscription::new("pods", "v1", "Pod")))
    }

    fn start() -> Result<Self, Failure> {
        Ok(Self)
    }

    fn on_add(&mut self, event: Added) -> Outcome {
        let pod: Pod = event.object()?;
        let owners = pod.metadata.owner_references.unwrap_or_default();
        let owner = owners.first().ok_or("no owner").or_permanent("finding the owner")?;
        let owner: Option<Deployment> = cache::get(DEPLOYMENTS, "default", &owner.name)?;
        let replicas = owner.and_then(|owner| owner.spec.replicas);
        log::info!("{} is one of {}", event.target(), replicas.unwrap_or(0));
        Ok(())
    }

    fn on_update(&mut self, event: Updated) -> Outcome {
        let (old, new): (Deployment, Deployment) = (event.old_object()?, event.object()?);
        log::info!("{:?} -> {:?}", old.spec.replicas, new.spec.replicas);
        Ok(())
    }
}

#[test]
fn events_and_cache_decode_into_kubernetes_types() {
    let mut host = Host::<Typed>::new();
    let deployment = |replicas: i32| {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"namespace": "default", "name": "web"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}},
            },
        })
    };
    host.update(DEPLOYMENTS, &deployment(1), &deployment(3)).unwrap();
    let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1"});
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": "web-1", "ownerReferences": [owner]},
    });
    host.add(1, &pod).unwrap();
    assert_eq!(host.take_lines(), ["Some(1) -> Some(3)", "default/web-1 is one of 3"]);
}

#[test]
fn an_object_of_another_shape_is_a_permanent_failure() {
    let mut host = Host::<Typed>::new();
    let failure = host.add(1, &json!({"kind": "Pod", "apiVersion": "v1", "spec": 3})).unwrap_err();
    assert!(!failure.is_retry());
    assert!(failure.message().starts_with("cannot decode the object: "), "{failure}");
}
