//! What subscriptions with conditions, `changed`, `fields`, live namespaces and indices are told, and may read.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::filter::{Condition, FilterSpec, Operator};
use crate::handler::DeleteReason;
use crate::testing::object_with;
use crate::view::{View, ViewSpec};

fn one_of(pointer: &str, value: &str) -> Condition {
    Condition { pointer: pointer.into(), operator: Operator::In, values: vec![value.into()] }
}

fn is_on() -> FilterSpec {
    FilterSpec { conditions: vec![one_of("/on", "true")], ..FilterSpec::default() }
}

fn view(pods: &Arc<SharedInformer>, filter: FilterSpec) -> Arc<View> {
    pods.view(ViewSpec { filter, ..ViewSpec::default() }, || unreachable!("no namespaces")).expect("a view")
}

fn viewing(pods: &Arc<SharedInformer>, view: &Arc<View>) -> Subscription {
    Subscription { view: view.clone(), ..subscription("pods", 0, pods) }
}

/// Sets an object to a version with these members.
fn set(pods: &SharedInformer, key: &str, version: u32, members: &str) {
    process(pods, DeltaKind::Updated, &object_with(key, "u", &version.to_string(), members), false);
}

fn run(listener: &Listener, told: &Told, subscriptions: Vec<Subscription>) {
    let (running, handlers) = (listener.clone(), vec![recorder(1, told)]);
    tokio::spawn(async move { running.run(handlers, subscriptions).await });
}

#[tokio::test(start_paused = true)]
async fn conditions_are_membership() {
    let (pods, listener, told) = (informer("Pod"), listener(), Told::default());
    set(&pods, "n/in", 1, r#""on":true"#);
    set(&pods, "n/out", 2, r#""on":false"#);
    synced(&pods);
    run(&listener, &told, vec![viewing(&pods, &view(&pods, is_on()))]);
    settle(&listener).await;
    set(&pods, "n/out", 3, r#""on":false,"x":1"#);
    set(&pods, "n/out", 4, r#""on":true"#);
    set(&pods, "n/out", 5, r#""on":true,"x":2"#);
    set(&pods, "n/in", 6, r#""on":false"#);
    remove(&pods, "n/in", "u", 7);
    // The deletion's own state does not matter: it was a member.
    remove(&pods, "n/out", "u", 8);
    settle(&listener).await;
    let want = [
        "add n/in 1 initial",
        "add n/out 4",
        "update n/out 4->5",
        "delete n/in 1 filtered",
        "delete n/out 8 deleted",
    ];
    assert_eq!(lines(&told), want);
}

#[tokio::test(start_paused = true)]
async fn what_leaves_a_selector_evaluated_here_is_deleted_as_by_the_server() {
    let (pods, listener, told) = (informer("Pod"), listener(), Told::default());
    let labelled = |on: &str| {
        let text = format!(
            r#"{{"metadata":{{"name":"a","namespace":"n","uid":"u","resourceVersion":"{on}","labels":{{"on":"{on}"}}}}}}"#
        );
        Object::parse(&text, None, crate::object::Ingest::default()).expect("an object")
    };
    synced(&pods);
    let spec = FilterSpec { label_selector: "on=1".into(), ..FilterSpec::default() };
    run(&listener, &told, vec![viewing(&pods, &view(&pods, spec))]);
    process(&pods, DeltaKind::Added, &labelled("1"), false);
    settle(&listener).await;
    process(&pods, DeltaKind::Updated, &labelled("2"), false);
    settle(&listener).await;
    assert_eq!(lines(&told), ["add n/a 1 initial", "delete n/a 1 deleted"]);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_changes_nothing_named_is_dropped_but_not_a_resync() {
    let (pods, listener, told) = (informer("Pod"), listener(), Told::default());
    synced(&pods);
    let spec = FilterSpec { changed: vec!["/x".into()], ..FilterSpec::default() };
    let every = Some(Duration::from_secs(60));
    run(&listener, &told, vec![Subscription { resync: every, ..viewing(&pods, &view(&pods, spec)) }]);
    set(&pods, "n/a", 1, r#""x":1"#);
    settle(&listener).await;
    set(&pods, "n/a", 2, r#""x":1,"y":1"#);
    set(&pods, "n/a", 3, r#""x":2,"y":1"#);
    settle(&listener).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    pods.core().with(|processor, _| processor.mark_due(Instant::now(), true));
    process(&pods, DeltaKind::Sync, &object_with("n/a", "u", "3", r#""x":2,"y":1"#), false);
    settle(&listener).await;
    assert_eq!(lines(&told), ["add n/a 1 initial", "update n/a 2->3", "update n/a 3->3 resync"]);
}

#[tokio::test(start_paused = true)]
async fn updates_that_wait_and_take_each_other_back_are_none() {
    let (pods, told) = (informer("Pod"), Told::default());
    let config = ListenerConfig { merge: Merge::Latest, ..ListenerConfig::default() };
    let listener = Listener::new(config, Arc::new(()));
    synced(&pods);
    let (handler, gate) = gated(&told);
    let spec = FilterSpec { changed: vec!["/x".into()], ..FilterSpec::default() };
    let (running, joined) = (listener.clone(), vec![viewing(&pods, &view(&pods, spec))]);
    tokio::spawn(async move { running.run(vec![handler], joined).await });
    set(&pods, "n/a", 1, r#""x":1"#);
    set(&pods, "n/b", 2, r#""x":1"#);
    idle().await;
    // n/a is being handled; what follows waits behind it.
    set(&pods, "n/a", 3, r#""x":2"#);
    set(&pods, "n/a", 4, r#""x":1,"y":1"#);
    gate.add_permits(5);
    settle(&listener).await;
    assert_eq!(lines(&told), ["add n/a 1 initial", "add n/b 2 initial"]);
    set(&pods, "n/a", 5, r#""x":3"#);
    settle(&listener).await;
    assert_eq!(lines(&told)[2..], ["update n/a 4->5"]);
}

#[tokio::test(start_paused = true)]
async fn handlers_are_shown_the_named_fields_and_two_that_ask_the_same_get_the_same_text() {
    let (pods, told) = (informer("Pod"), Told::default());
    let (first, second) = (listener(), listener());
    set(&pods, "n/a", 1, r#""x":{"y":1,"z":2},"big":"text""#);
    synced(&pods);
    let spec = FilterSpec { fields: vec!["/x/y".into()], ..FilterSpec::default() };
    let shared = view(&pods, spec.clone());
    assert!(Arc::ptr_eq(&shared, &view(&pods, spec)), "one view for all who ask the same");
    run(&first, &told, vec![viewing(&pods, &shared)]);
    settle(&first).await;
    run(&second, &told, vec![viewing(&pods, &shared)]);
    settle(&second).await;
    let told = told.lock().expect("told");
    let [(_, one), (_, two)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(one.object().json(), r#"{"x":{"y":1}}"#);
    assert!(Arc::ptr_eq(one.object(), two.object()), "projected once");
    assert_eq!(one.object().resource_version(), "1");
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_followed_live() {
    let (pods, namespaces) = (informer("Pod"), informer("Namespace"));
    let (listener, told) = (listener(), Told::default());
    for (version, key) in [(1, "a/1"), (2, "b/1")] {
        set(&pods, key, version, "");
    }
    put(&namespaces, "a", "ns-a", 1);
    synced(&pods);
    let spec = ViewSpec { namespace_selector: "team=web".into(), ..ViewSpec::default() };
    let view = pods.view(spec, || Ok(namespaces.clone())).expect("a view");
    run(&listener, &told, vec![viewing(&pods, &view)]);
    idle().await;
    assert_eq!(lines(&told), [""; 0], "nothing before the namespaces are known");
    synced(&namespaces);
    settle(&listener).await;
    assert_eq!(lines(&told), ["add a/1 1 initial"]);

    put(&namespaces, "b", "ns-b", 2);
    settle(&listener).await;
    set(&pods, "b/2", 3, "");
    remove(&namespaces, "a", "ns-a", 4);
    settle(&listener).await;
    set(&pods, "a/1", 5, "");
    remove(&pods, "a/1", "u", 6);
    settle(&listener).await;
    let want = ["add a/1 1 initial", "add b/1 2", "add b/2 3", "delete a/1 1 namespace-left"];
    let mut got = lines(&told);
    got.sort();
    let mut want = want.map(String::from);
    want.sort();
    assert_eq!(got, want);
}

#[tokio::test(start_paused = true)]
async fn forbidden_namespaces_hold_back_their_own_subscription_only() {
    let (pods, maps, namespaces) = (informer("Pod"), informer("ConfigMap"), informer("Namespace"));
    let (listener, told) = (listener(), Told::default());
    set(&pods, "a/1", 1, "");
    put(&maps, "a/map", "u", 1);
    synced(&pods);
    synced(&maps);
    let spec = ViewSpec { namespace_selector: "team=web".into(), ..ViewSpec::default() };
    let view = pods.view(spec, || Ok(namespaces.clone())).expect("a view");
    run(&listener, &told, vec![viewing(&pods, &view), subscription("maps", 1, &maps)]);
    idle().await;
    assert_eq!(lines(&told), [""; 0]);
    namespaces.core().with(|processor, _| processor.set_excused(true));
    settle(&listener).await;
    assert_eq!(lines(&told), ["add a/map 1 initial"]);
    namespaces.core().with(|processor, _| processor.set_excused(false));
    put(&namespaces, "a", "ns-a", 1);
    synced(&namespaces);
    idle().await;
    settle(&listener).await;
    assert_eq!(lines(&told)[1..], ["add a/1 1 initial"]);
}

#[tokio::test(start_paused = true)]
async fn the_cache_has_the_views_objects_only_and_its_indices_say_so_too() {
    let (pods, listener, told) = (informer("Pod"), listener(), Told::default());
    for number in 0..30 {
        let (on, node) = (number % 3 == 0, number % 4);
        set(&pods, &format!("n/{number:02}"), number + 1, &format!(r#""on":{on},"node":"node-{node}""#));
    }
    synced(&pods);
    let indexes = pods.indexes(&[("node".into(), "/node".into())]).expect("an index");
    run(&listener, &told, vec![Subscription { indexes, ..viewing(&pods, &view(&pods, is_on())) }]);
    settle(&listener).await;
    let cache = listener.cache();
    let key = |number: u32| ObjectKey::new("n", &format!("{number:02}"));
    assert!(cache.get(0, &key(3)).expect("synced").is_some());
    assert_eq!(cache.get(0, &key(4)), Ok(None), "not a member");
    let names = |objects: &[Arc<Object>]| -> Vec<String> {
        objects.iter().map(|object| object.key().name().to_owned()).collect()
    };
    let page = cache.list(0, "", None, 4).expect("synced");
    assert_eq!(names(&page.objects), ["00", "03", "06", "09"]);
    let page = cache.list(0, "n", page.next.as_ref(), 40).expect("synced");
    assert_eq!(names(&page.objects), ["12", "15", "18", "21", "24", "27"]);
    assert_eq!(page.next, None);
    let found = cache.by_index(0, "node", "node-1", None, 2).expect("an index");
    assert_eq!(names(&found.objects), ["09", "21"]);
    let values = cache.index_values(0, "node", None, 10).expect("an index");
    assert_eq!(values.values, ["node-0", "node-1", "node-2", "node-3"]);
    for number in [9, 21] {
        set(&pods, &format!("n/{number:02}"), 100 + number, r#""on":false,"node":"node-1""#);
    }
    let values = cache.index_values(0, "node", None, 10).expect("an index");
    assert_eq!(values.values, ["node-0", "node-2", "node-3"], "a value without members is none");
    assert_eq!(cache.by_index(0, "zone", "x", None, 1), Err(CacheProblem::UnknownIndex));
}

#[tokio::test(start_paused = true)]
async fn an_index_ends_with_its_last_user() {
    let pods = informer("Pod");
    let wanted = [("a".into(), "/x".into())];
    let (one, two) = (pods.indexes(&wanted).expect("an index"), pods.indexes(&wanted).expect("an index"));
    assert_eq!(pods.indexer().indexers().len(), 1, "one for both");
    drop(one);
    assert_eq!(pods.indexer().indexers().len(), 1);
    drop(two);
    assert_eq!(pods.indexer().indexers().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_swap_keeps_a_registration_with_the_same_objects_and_renews_one_with_others() {
    let (pods, listener, told) = (informer("Pod"), listener(), Told::default());
    set(&pods, "n/a", 1, r#""on":true,"x":1"#);
    synced(&pods);
    run(&listener, &told, vec![viewing(&pods, &view(&pods, is_on()))]);
    settle(&listener).await;
    let narrower = FilterSpec { fields: vec!["/x".into()], ..is_on() };
    let next = vec![viewing(&pods, &view(&pods, narrower))];
    let report =
        listener.swap(Swap::new(vec![recorder(2, &told)], next, OnSwap::Continue)).await.expect("swapped");
    assert_eq!((report.kept, report.added, report.removed), (1, 0, 0));
    set(&pods, "n/a", 2, r#""on":true,"x":2"#);
    settle(&listener).await;
    assert_eq!(told.lock().expect("told").last().expect("an event").1.object().json(), r#"{"x":2}"#);
    let others = FilterSpec { conditions: vec![one_of("/x", "2")], ..FilterSpec::default() };
    let next = vec![viewing(&pods, &view(&pods, others))];
    let report =
        listener.swap(Swap::new(vec![recorder(3, &told)], next, OnSwap::Continue)).await.expect("swapped");
    assert_eq!((report.kept, report.added, report.removed), (0, 1, 1));
    settle(&listener).await;
    assert_eq!(lines(&told), ["add n/a 1 initial", "update n/a 1->2", "add n/a 2 initial"]);
}

/// What a random script does to one of four objects in two namespaces.
#[derive(Debug, Clone)]
enum Act {
    Set {
        key: usize,
        on: bool,
        x: u8,
    },
    Remove(usize),
    /// The namespaces that match now.
    Namespaces(bool, bool),
    Swap(OnSwap),
    Run(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0..4_usize, any::<bool>(), 0..3_u8).prop_map(|(key, on, x)| Act::Set { key, on, x }),
        3 => (0..4_usize).prop_map(Act::Remove),
        2 => any::<(bool, bool)>().prop_map(|(a, b)| Act::Namespaces(a, b)),
        1 => Just(Act::Swap(OnSwap::Replay)),
        1 => Just(Act::Swap(OnSwap::Continue)),
        5 => (0..1500_u64).prop_map(Act::Run),
    ]
}

const KEYS: [&str; 4] = ["a/1", "a/2", "b/1", "b/2"];

/// What handlers know after all they were told, or what was wrong with it. `tried` are failed attempts.
fn known(told: &Told, tried: &Told, fresh: &[u32]) -> Result<BTreeMap<String, String>, String> {
    let mut known: BTreeMap<String, Arc<Object>> = BTreeMap::new();
    let mut generation = 0;
    for (of, event) in told.lock().expect("told").iter() {
        let replayed = fresh.iter().any(|start| (generation + 1..=*of).contains(start));
        generation = *of;
        if replayed {
            // A replay tells all again; what is gone was deleted before or after.
            known.clear();
        }
        let key = event.key().to_string();
        match event {
            Event::Add { object, .. } => {
                if known.insert(key.clone(), object.clone()).is_some() {
                    return Err(format!("{key} was added twice"));
                }
            }
            Event::Update { new, .. } => {
                if known.insert(key.clone(), new.clone()).is_none() {
                    return Err(format!("{key} was updated before it was added"));
                }
            }
            Event::Delete { reason, .. } => {
                let was_there = known.remove(&key).is_some();
                let tried = tried.lock().expect("tried");
                let was_tried = tried.iter().any(|(_, event)| event.key().to_string() == key);
                if !was_there && !was_tried && fresh.is_empty() {
                    return Err(format!("{key} was deleted ({reason:?}) before it was added"));
                }
            }
        }
    }
    // The text says what the handler was shown: only `x`.
    Ok(known.into_iter().map(|(key, object)| (key, object.json().to_owned())).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever happens to objects and namespaces, a handler ends up knowing what satisfies its view, by what it was
    /// shown; in between, each object is added, changed and deleted in turn.
    #[test]
    fn a_narrowed_subscription_ends_in_the_servers_view(acts in prop::collection::vec(act(), 1..40), latest in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let (pods, namespaces, told) = (informer("Pod"), informer("Namespace"), Told::default());
            let merge = if latest { Merge::Latest } else { Merge::All };
            let config = ListenerConfig { merge, bound: 3, ..ListenerConfig::default() };
            let listener = Listener::new(config, Arc::new(()));
            let filter = FilterSpec { fields: vec!["/x".into()], ..is_on() };
            let spec = ViewSpec { filter, namespace_selector: "team=web".into() };
            let view = pods.view(spec, || Ok(namespaces.clone())).expect("a view");
            synced(&pods);
            synced(&namespaces);
            let mut rng = 7_u32;
            let moods = move |_: &Delivery| {
                rng = rng.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if rng >> 30 == 0 { retry() } else { Outcome::Ok }
            };
            let (running, joined) = (listener.clone(), vec![viewing(&pods, &view)]);
            let tried = Told::default();
            let handler = Recorder { generation: 1, told: told.clone(), script: Box::new(moods), tried: tried.clone() };
            tokio::spawn(async move { running.run(vec![Box::new(handler)], joined).await });
            idle().await;
            let mut server: BTreeMap<&str, (bool, u8)> = BTreeMap::new();
            let (mut matching, mut fresh, mut generation) = ([false; 2], Vec::new(), 1);
            for (version, act) in (1_u32..).zip(acts) {
                match act {
                    Act::Set { key, on, x } => {
                        server.insert(KEYS[key], (on, x));
                        set(&pods, KEYS[key], version, &format!(r#""on":{on},"x":{x}"#));
                    }
                    Act::Remove(key) => {
                        if server.remove(KEYS[key]).is_some() {
                            remove(&pods, KEYS[key], "u", version);
                        }
                    }
                    Act::Namespaces(a, b) => {
                        for ((name, now), was) in [("a", a), ("b", b)].into_iter().zip(matching) {
                            match (was, now) {
                                (false, true) => put(&namespaces, name, "ns", version),
                                (true, false) => remove(&namespaces, name, "ns", version),
                                _ => {}
                            }
                        }
                        matching = [a, b];
                        idle().await;
                    }
                    Act::Swap(on_swap) => {
                        generation += 1;
                        if on_swap == OnSwap::Replay {
                            fresh.push(generation);
                        }
                        let handler = vec![recorder(generation, &told)];
                        listener.swap(Swap::new(handler, vec![viewing(&pods, &view)], on_swap)).await.expect("swapped");
                    }
                    Act::Run(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
                }
            }
            idle().await;
            tokio::time::sleep(Duration::from_secs(3600)).await;
            settle(&listener).await;
            let members = server.iter().filter(|(key, (on, _))| *on && matching[usize::from(key.starts_with('b'))]);
            let want: BTreeMap<String, String> =
                members.map(|(key, (_, x))| ((*key).to_owned(), format!(r#"{{"x":{x}}}"#))).collect();
            let got = known(&told, &tried, &fresh);
            let counted = listener.stats();
            prop_assert_eq!(got, Ok(want), "{:?}; {:?}", lines(&told), counted);
            Ok(())
        })?;
    }
}

#[test]
fn the_table_of_the_view_holds() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let _entered = runtime.enter();
    let view = view(&informer("Pod"), is_on());
    let state = |version: &str, on: bool| object_with("n/a", "u", version, &format!(r#""on":{on}"#));
    let narrowed = |was: bool, is: bool| {
        let (old, new) = (state("1", was), state("2", is));
        view.narrow(&Event::Update { old: old.clone(), new, resync: false }, &old)
    };
    assert_eq!(narrowed(false, false), None);
    assert_eq!(narrowed(false, true), Some(Event::Add { object: state("2", true), initial: false }));
    let gone = Event::Delete { object: state("1", true), reason: DeleteReason::Filtered };
    assert_eq!(narrowed(true, false), Some(gone));
    assert!(matches!(narrowed(true, true), Some(Event::Update { .. })));
}
