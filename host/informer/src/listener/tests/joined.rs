//! What a listener says of its subscriptions.

use super::*;
use crate::filter::{Condition, FilterSpec, Operator};
use crate::listener::Joined;
use crate::testing::object_with;
use crate::view::ViewSpec;

#[tokio::test(start_paused = true)]
async fn subscriptions_are_told_with_their_informers_and_the_failures_of_their_filters() {
    let (pods, maps, listener, told) = (informer("Pod"), informer("ConfigMap"), listener(), Told::default());
    assert_eq!(listener.joined(), []);
    let many = Condition { pointer: "/n".into(), operator: Operator::Gt, values: vec!["5".into()] };
    let spec = ViewSpec {
        filter: FilterSpec { conditions: vec![many], ..FilterSpec::default() },
        ..ViewSpec::default()
    };
    let view = pods.view(spec, || unreachable!("no namespaces")).expect("a view");
    let subscriptions = vec![
        subscription("maps", 1, &maps),
        Subscription { view, ..subscription("many", 0, &pods) },
        subscription("maps", 1, &pods),
    ];
    let (running, handlers) = (listener.clone(), vec![recorder(2, &told)]);
    tokio::spawn(async move { running.run(handlers, subscriptions).await });
    synced(&pods);
    synced(&maps);
    settle(&listener).await;
    process(&pods, DeltaKind::Added, &object_with("n/a", "u", "1", r#""n":"no number""#), false);
    settle(&listener).await;
    let one = |name: &str, kinds: &[&str], filter_failures| Joined {
        subscription: name.into(),
        informers: kinds.iter().map(|kind| informer(kind).selector().clone()).collect(),
        filter_failures,
    };
    assert_eq!(listener.joined(), [one("many", &["Pod"], 1), one("maps", &["ConfigMap", "Pod"], 0)]);
}
