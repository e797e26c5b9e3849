//! What a description keeps from a plugin, and how the cache answers with indexes and fields, through the public
//! interface alone: as the real host does it, in the fake one.

use hark_guest::testing::Host;
use hark_guest::{
    Added, Condition, DeleteReason, Deleted, Described, Failure, Outcome, Plugin, Subscription,
};
use hark_guest::{Updated, cache, log};
use serde_json::{Value, json};

/// Wants running pods, by their images, and knows which node has which; says what it is handed.
struct Images;

const PODS: u32 = 0;

impl Plugin for Images {
    fn describe() -> Described {
        log::debug!("described");
        let pods = Subscription::new("pods", "v1", "Pod")
            .when(Condition::equals("/status/phase", "Running"))
            .fields(["/spec/containers/*/image"])
            .index("node", "/spec/nodeName");
        Ok(hark_guest::description!().watch(pods))
    }

    fn start() -> Result<Self, Failure> {
        Ok(Self)
    }

    fn on_add(&mut self, event: Added) -> Outcome {
        log::info!("add {} {}", event.target(), event.json());
        Ok(())
    }

    fn on_update(&mut self, event: Updated) -> Outcome {
        log::info!("update {} {} {}", event.old_json(), event.json(), event.is_resync());
        Ok(())
    }

    fn on_delete(&mut self, event: Deleted) -> Outcome {
        log::info!("delete {} {} {}", event.target(), event.reason(), event.json());
        let nodes = cache::index_values(PODS, "node")?;
        log::info!("nodes {}", nodes.join(" "));
        let name = cache::fields(["/metadata/name", "/none"]);
        for pod in name.by_index::<Value>(PODS, "node", "n1") {
            log::info!("on n1: {}", pod?);
        }
        let one: Option<Value> = name.get(PODS, "a", "y")?;
        log::info!("y: {}", one.is_some());
        log::info!("n2 has {}", cache::by_index::<Value>(PODS, "node", "n2").count());
        Ok(())
    }
}

fn pod(name: &str, phase: &str, image: &str) -> Value {
    json!({
        "metadata": {"namespace": "a", "name": name},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": image}]},
        "status": {"phase": phase},
    })
}

const ONE: &str = r#"{"spec":{"containers":[{"image":"one"}]}}"#;
const TWO: &str = r#"{"spec":{"containers":[{"image":"two"}]}}"#;

#[test]
fn conditions_make_adds_and_deletes_of_updates() {
    let mut host = Host::<Images>::new();
    let [pending, running, done] = ["Pending", "Running", "Succeeded"].map(|phase| pod("x", phase, "one"));
    host.add(PODS, &pending).unwrap();
    host.update(PODS, &pending, &pending).unwrap();
    assert_eq!(
        host.take_lines(),
        [""; 0],
        "it is not the subscription's, and describe's lines are not an event's"
    );
    host.update(PODS, &pending, &running).unwrap();
    assert_eq!(host.take_lines(), [format!("add a/x {ONE}")]);
    host.update(PODS, &running, &done).unwrap();
    let lines = host.take_lines();
    assert_eq!(lines[..2], [format!("delete a/x filtered {ONE}"), "nodes ".to_owned()]);
    host.update(PODS, &done, &done).unwrap();
    host.resync(PODS, &done).unwrap();
    host.delete(PODS, &done, DeleteReason::Deleted).unwrap();
    assert_eq!(host.take_lines(), [""; 0], "it was gone before");
}

#[test]
fn an_update_is_handed_over_if_a_field_changed_and_has_the_fields() {
    let mut host = Host::<Images>::new();
    let (one, two) = (pod("x", "Running", "one"), pod("x", "Running", "two"));
    let mut moved = one.clone();
    moved["spec"]["nodeName"] = json!("n2");
    host.update(PODS, &one, &moved).unwrap();
    assert_eq!(host.take_lines(), [""; 0], "its node is not one of the fields");
    host.update(PODS, &moved, &two).unwrap();
    host.resync(PODS, &two).unwrap();
    assert_eq!(host.take_lines(), [format!("update {ONE} {TWO} false"), format!("update {TWO} {TWO} true")]);
}

#[test]
fn the_cache_answers_by_index_and_with_fields_of_the_question() {
    let mut host = Host::<Images>::new();
    host.cache(PODS, &pod("y", "Running", "one"));
    host.cache(PODS, &pod("z", "Pending", "one"));
    host.delete(PODS, &pod("x", "Running", "one"), DeleteReason::Unknown).unwrap();
    let want = ["nodes n1", r#"on n1: {"metadata":{"name":"y"}}"#, "y: true", "n2 has 0"];
    assert_eq!(host.take_lines()[1..], want);
}

#[test]
fn wrong_questions_are_permanent_failures() {
    struct Asks;
    impl Plugin for Asks {
        fn describe() -> Described {
            Ok(hark_guest::description!().watch(Subscription::new("x", "v1", "Pod")))
        }
        fn start() -> Result<Self, Failure> {
            Ok(Self)
        }
        fn on_add(&mut self, event: Added) -> Outcome {
            match event.target().name.as_str() {
                "index" => drop(cache::index_values(0, "node")?),
                "field" => drop(cache::fields(["no pointer"]).list::<Value>(0, "")?),
                _ => drop(cache::list::<Value>(1, "")?),
            }
            Ok(())
        }
    }
    let mut host = Host::<Asks>::new();
    let mut ask = |name: &str| host.add(0, &json!({"metadata": {"name": name}})).unwrap_err();
    assert_eq!(ask("index"), Failure::permanent("cache: no such index"));
    assert_eq!(ask("field"), Failure::permanent("cache: invalid question"));
    assert_eq!(ask("other"), Failure::permanent("cache: no such subscription"));
}

#[test]
#[should_panic(expected = "subscription `x`: pointer `/a/0`: a place in an array cannot be named")]
fn a_description_that_a_host_would_refuse_is_no_ground_for_events() {
    struct Wrong;
    impl Plugin for Wrong {
        fn describe() -> Described {
            Ok(hark_guest::description!().watch(Subscription::new("x", "v1", "Pod").fields(["/a/0"])))
        }
        fn start() -> Result<Self, Failure> {
            Ok(Self)
        }
    }
    drop(Host::<Wrong>::new().add(0, &json!({"metadata": {"name": "x"}})));
}
