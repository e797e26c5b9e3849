//! The listener with real informers' caches and hand-made deltas: the gate, the cursor, retries, swaps; and a
//! model test in which random scripts must leave every handler with the server's view.

use std::collections::BTreeMap;
use std::sync::Mutex as StdMutex;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::delta_fifo::{Delta, DeltaKind, Popped};
use crate::handler::HandleFuture;
use crate::queue::Merge;
use crate::resource::Selector;
use crate::testing::object;

/// What handlers were told, in order: generation and event.
type Told = Arc<StdMutex<Vec<(u32, Event)>>>;

/// Decides what an attempt comes to.
type Script = Box<dyn FnMut(&Delivery) -> Outcome + Send>;

struct Recorder {
    generation: u32,
    told: Told,
    script: Script,
    /// Attempts that failed.
    tried: Told,
}

impl EventHandler for Recorder {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(async move {
            let outcome = (self.script)(delivery);
            let told = if outcome == Outcome::Ok { &self.told } else { &self.tried };
            told.lock().expect("told").push((self.generation, delivery.event.clone()));
            tokio::task::yield_now().await;
            outcome
        })
    }
}

fn recorder(generation: u32, told: &Told) -> Box<dyn EventHandler> {
    Box::new(Recorder {
        generation,
        told: told.clone(),
        script: Box::new(|_| Outcome::Ok),
        tried: Told::default(),
    })
}

fn scripted(told: &Told, script: impl FnMut(&Delivery) -> Outcome + Send + 'static) -> Box<dyn EventHandler> {
    Box::new(Recorder { generation: 1, told: told.clone(), script: Box::new(script), tried: Told::default() })
}

fn retry() -> Outcome {
    Outcome::Retry { message: "not now".into(), after: None }
}

fn informer(kind: &str) -> Arc<SharedInformer> {
    Arc::new(SharedInformer::idle(Selector::new("v1", kind)))
}

fn subscription(name: &str, number: u32, informer: &Arc<SharedInformer>) -> Subscription {
    Subscription { name: name.into(), number, informer: informer.clone(), resync: None }
}

fn listener() -> Listener {
    Listener::new(ListenerConfig::default(), Arc::new(|_, _| {}))
}

fn process(informer: &SharedInformer, kind: DeltaKind, object: &Arc<Object>, unknown: bool) {
    let delta = Delta { kind, object: object.clone(), final_state_unknown: unknown };
    informer.core().process(Popped::Deltas {
        key: object.key().clone(),
        deltas: vec![delta],
        initial: false,
    });
}

fn put(informer: &SharedInformer, key: &str, uid: &str, version: u32) {
    process(informer, DeltaKind::Updated, &object(key, uid, &version.to_string()), false);
}

fn remove(informer: &SharedInformer, key: &str, uid: &str, version: u32) {
    process(informer, DeltaKind::Deleted, &object(key, uid, &version.to_string()), false);
}

fn synced(informer: &SharedInformer) {
    informer.core().process(Popped::Synced);
}

/// Lets everything that can happen happen. Time is paused, so this waits for nothing but the tasks, and moves
/// on to the next retry when they are idle.
async fn settle(listener: &Listener) {
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let state = listener.shared.lock();
        let idle = state.queue.len() == 0 && state.reading().is_none() && state.swap.is_none();
        if idle || !state.open {
            return;
        }
    }
}

fn lines(told: &Told) -> Vec<String> {
    let told = told.lock().expect("told");
    told.iter()
        .map(|(_, event)| {
            let version = event.object().resource_version();
            let (op, key) = (event.op(), event.key());
            match event {
                Event::Add { initial: true, .. } => format!("{op} {key} {version} initial"),
                Event::Add { .. } => format!("{op} {key} {version}"),
                Event::Update { old, resync, .. } => {
                    format!(
                        "{op} {key} {}->{version}{}",
                        old.resource_version(),
                        if *resync { " resync" } else { "" }
                    )
                }
                Event::Delete { reason, .. } => format!("{op} {key} {version} {}", reason.as_str()),
            }
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_delivered_before_every_healthy_first_list() {
    let (told, listener) = (Told::default(), listener());
    let (pods, nodes) = (informer("Pod"), informer("Node"));
    let joined = vec![subscription("pods", 0, &pods), subscription("nodes", 1, &nodes)];
    let running = listener.clone();
    let handler = recorder(1, &told);
    let task = tokio::spawn(async move { running.run(handler, joined).await });
    put(&pods, "n/a", "u", 1);
    synced(&pods);
    put(&pods, "n/a", "u", 2);
    settle(&listener).await;
    assert_eq!(lines(&told), [""; 0]);
    assert!(!listener.stats().open);
    nodes.core().with(|processor, _| processor.set_excused(true));
    settle(&listener).await;
    assert_eq!(lines(&told), ["add n/a 2 initial"], "a forbidden resource holds nobody back");
    put(&nodes, "x", "u", 1);
    nodes.core().with(|processor, _| processor.set_excused(false));
    synced(&nodes);
    put(&pods, "n/a", "u", 3);
    settle(&listener).await;
    let mut seen = lines(&told);
    seen.sort();
    assert_eq!(seen, ["add n/a 2 initial", "add x 1 initial", "update n/a 2->3"]);
    listener.drain();
    assert_eq!(task.await.expect("it ends"), Ended::Drained { abandoned: 0 });
}

#[tokio::test(start_paused = true)]
async fn the_cursor_and_live_events_tell_each_object_once() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    for number in 0..200 {
        put(&pods, &format!("n/{number:03}"), "u", 1);
    }
    synced(&pods);
    let joined = vec![subscription("pods", 0, &pods)];
    let (running, source) = (listener.clone(), pods.clone());
    let handler = scripted(&told, move |delivery| {
        // Everything below happens before the cursor gets beyond its first batch.
        if delivery.sequence == 1 {
            put(&source, "n/150", "u", 2);
            remove(&source, "n/160", "u", 3);
            remove(&source, "n/170", "u", 4);
            put(&source, "n/170", "v", 5);
            put(&source, "n/199x", "u", 6);
            remove(&source, "n/199x", "u", 7);
            put(&source, "n/199y", "u", 8);
            put(&source, "n/199y", "u", 9);
        }
        Outcome::Ok
    });
    tokio::spawn(async move { running.run(handler, joined).await });
    settle(&listener).await;
    let seen = lines(&told);
    let of = |key: &str| -> Vec<&str> {
        let of_key = seen.iter().map(String::as_str).filter(|line| line.split(' ').nth(1) == Some(key));
        of_key.collect()
    };
    assert_eq!(of("n/150"), ["add n/150 2 initial"]);
    assert_eq!(of("n/160"), [""; 0], "it was never handed over");
    assert_eq!(
        of("n/170"),
        ["add n/170 5"],
        "the one that existed at the start is gone, the new one came later"
    );
    assert_eq!(of("n/199x"), ["add n/199x 6", "delete n/199x 7 deleted"]);
    assert_eq!(of("n/199y"), ["add n/199y 8", "update n/199y 8->9"]);
    assert_eq!(seen.iter().filter(|line| line.ends_with("initial")).count(), 198);
    listener.close();
}

#[tokio::test(start_paused = true)]
async fn recreation_relist_and_unchanged_objects_are_told_as_promised() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    synced(&pods);
    let (running, handler, joined) =
        (listener.clone(), recorder(1, &told), vec![subscription("pods", 0, &pods)]);
    tokio::spawn(async move { running.run(handler, joined).await });
    settle(&listener).await;
    put(&pods, "n/a", "u", 1);
    process(&pods, DeltaKind::Replaced, &object("n/a", "u", "1"), false);
    process(&pods, DeltaKind::Replaced, &object("n/a", "v", "5"), false);
    process(&pods, DeltaKind::Deleted, &object("n/a", "v", "5"), true);
    remove(&pods, "n/a", "v", 6);
    settle(&listener).await;
    assert_eq!(
        lines(&told),
        ["add n/a 1", "delete n/a 1 unknown", "add n/a 5", "delete n/a 5 unknown"],
        "unchanged is no event; another uid is delete and add; what is gone is not deleted again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_comes_as_often_as_it_takes_and_holds_only_its_own_key() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    synced(&pods);
    let handler = scripted(&told, |delivery| {
        if delivery.event.key().name() == "a" && delivery.attempt < 20 { retry() } else { Outcome::Ok }
    });
    let (running, joined) = (listener.clone(), vec![subscription("pods", 0, &pods)]);
    tokio::spawn(async move { running.run(handler, joined).await });
    settle(&listener).await;
    put(&pods, "n/a", "u", 1);
    put(&pods, "n/b", "u", 1);
    let begun = Instant::now();
    settle(&listener).await;
    assert_eq!(lines(&told), ["add n/b 1", "add n/a 1"]);
    // 0.5 s doubled nine times reaches the 5 minutes; the other ten attempts wait those.
    let waited = begun.elapsed();
    assert!(waited > Duration::from_secs(10 * 300 + 255), "{waited:?}");
    assert!(waited < Duration::from_secs((10 * 300 + 256) * 11 / 10), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_kills_its_handler_each_time_is_given_up_and_reported() {
    let letters = Arc::new(StdMutex::new(Vec::new()));
    let (told, pods) = (Told::default(), informer("Pod"));
    let reported = letters.clone();
    let dead_letter = move |delivery: &Delivery, outcome: &Outcome| {
        let line = format!("{} {} {}", delivery.event.key(), delivery.attempt, outcome.as_str());
        reported.lock().expect("letters").push(line);
    };
    let listener = Listener::new(ListenerConfig::default(), Arc::new(dead_letter));
    synced(&pods);
    let handler = scripted(&told, |delivery| match delivery.event.key().name() {
        "a" => Outcome::Trap("boom".into()),
        _ => Outcome::Ok,
    });
    let (running, joined) = (listener.clone(), vec![subscription("pods", 0, &pods)]);
    tokio::spawn(async move { running.run(handler, joined).await });
    settle(&listener).await;
    put(&pods, "n/a", "u", 1);
    put(&pods, "n/b", "u", 2);
    settle(&listener).await;
    assert_eq!(*letters.lock().expect("letters"), ["n/a 10 trap"]);
    assert_eq!(listener.stats().dead, 1);
    put(&pods, "n/a", "u", 3);
    settle(&listener).await;
    assert_eq!(letters.lock().expect("letters").len(), 2, "the next event of the key is tried afresh");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_merged_into_a_failing_one_has_all_its_attempts() {
    let letters = Arc::new(StdMutex::new(Vec::new()));
    let (told, pods, reported) = (Told::default(), informer("Pod"), letters.clone());
    let dead_letter = move |delivery: &Delivery, _: &Outcome| {
        reported.lock().expect("letters").push((delivery.event.op(), delivery.attempt));
    };
    let config = ListenerConfig { max_attempts: 3, ..ListenerConfig::default() };
    let listener = Listener::new(config, Arc::new(dead_letter));
    synced(&pods);
    let source = pods.clone();
    let handler = scripted(&told, move |delivery| {
        // The object goes while its add is at its second attempt of three.
        if delivery.event.op() == "add" && delivery.attempt == 2 {
            remove(&source, "n/a", "u", 2);
        }
        if delivery.attempt < 3 { Outcome::Trap("boom".into()) } else { Outcome::Ok }
    });
    let (running, joined) = (listener.clone(), vec![subscription("pods", 0, &pods)]);
    tokio::spawn(async move { running.run(handler, joined).await });
    settle(&listener).await;
    put(&pods, "n/a", "u", 1);
    settle(&listener).await;
    assert_eq!(lines(&told), ["delete n/a 2 deleted"], "at its own third attempt");
    assert_eq!(*letters.lock().expect("letters"), []);
}

#[tokio::test(start_paused = true)]
async fn continue_takes_the_queue_over_and_replay_starts_afresh() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    for key in ["n/a", "n/b", "n/c"] {
        put(&pods, key, "u", 1);
    }
    synced(&pods);
    let handler = scripted(&told, |delivery| match delivery.event {
        Event::Add { .. } => Outcome::Ok,
        _ => retry(),
    });
    let (running, joined) = (listener.clone(), vec![subscription("pods", 0, &pods)]);
    tokio::spawn(async move { running.run(handler, joined).await });
    settle(&listener).await;
    told.lock().expect("told").clear();
    put(&pods, "n/a", "u", 2);
    remove(&pods, "n/b", "u", 3);
    let swapped = listener.swap(
        scripted(&told, |delivery| match delivery.event {
            Event::Delete { .. } => retry(),
            _ => Outcome::Ok,
        }),
        vec![subscription("pods", 0, &pods)],
        OnSwap::Continue,
    );
    let report = swapped.await.expect("it swapped");
    assert_eq!(report, SwapReport { kept: 1, ..SwapReport::default() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(lines(&told), ["update n/a 1->2"], "the waiting events, no replay");
    told.lock().expect("told").clear();
    let swapped = listener.swap(recorder(2, &told), vec![subscription("pods", 0, &pods)], OnSwap::Replay);
    swapped.await.expect("it swapped");
    settle(&listener).await;
    assert_eq!(lines(&told), ["delete n/b 3 deleted", "add n/a 2 initial", "add n/c 1 initial"]);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_are_matched_by_name_and_informer() {
    let (told, listener) = (Told::default(), listener());
    let (pods, nodes, secrets) = (informer("Pod"), informer("Node"), informer("Secret"));
    for source in [&pods, &nodes, &secrets] {
        synced(source);
    }
    put(&pods, "n/a", "u", 1);
    put(&nodes, "x", "u", 1);
    put(&secrets, "n/s", "u", 1);
    let (running, handler) = (listener.clone(), scripted(&told, |_| retry()));
    let joined = vec![subscription("pods", 0, &pods), subscription("nodes", 1, &nodes)];
    tokio::spawn(async move { running.run(handler, joined).await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let next = vec![subscription("secrets", 0, &secrets), subscription("pods", 1, &pods)];
    let report = listener.swap(recorder(2, &told), next, OnSwap::Continue).await.expect("it swapped");
    assert_eq!(report, SwapReport { kept: 1, added: 1, removed: 1, dropped: 1 });
    settle(&listener).await;
    let mut seen = lines(&told);
    seen.sort();
    assert_eq!(seen, ["add n/a 1 initial", "add n/s 1 initial"]);
    put(&nodes, "x", "u", 2);
    settle(&listener).await;
    assert_eq!(lines(&told).len(), 2, "nobody listens to nodes any more");
    let cache = listener.cache();
    let key = ObjectKey::new("n", "s");
    assert_eq!(cache.get(0, &key).expect("synced").map(|object| object.key().clone()), Some(key));
    assert_eq!(cache.get(2, &ObjectKey::new("", "x")), Err(CacheProblem::UnknownSubscription));
}

#[tokio::test(start_paused = true)]
async fn a_resync_goes_to_those_that_asked_and_are_due() {
    let (told, silent) = (Told::default(), Told::default());
    let pods = informer("Pod");
    put(&pods, "n/a", "u", 1);
    synced(&pods);
    let (asks, other) = (listener(), listener());
    let with_resync =
        Subscription { resync: Some(Duration::from_secs(60)), ..subscription("pods", 0, &pods) };
    let (running, handler) = (asks.clone(), recorder(1, &told));
    tokio::spawn(async move { running.run(handler, vec![with_resync]).await });
    let (running, handler, joined) =
        (other.clone(), recorder(1, &silent), vec![subscription("pods", 0, &pods)]);
    tokio::spawn(async move { running.run(handler, joined).await });
    settle(&asks).await;
    let due = |after| Instant::now() + Duration::from_secs(after);
    assert!(!pods.core().with(|processor, _| processor.mark_due(due(30))));
    process(&pods, DeltaKind::Sync, &object("n/a", "u", "1"), false);
    assert!(pods.core().with(|processor, _| processor.mark_due(due(61))));
    process(&pods, DeltaKind::Sync, &object("n/a", "u", "1"), false);
    settle(&asks).await;
    settle(&other).await;
    assert_eq!(lines(&told), ["add n/a 1 initial", "update n/a 1->1 resync"]);
    assert_eq!(lines(&silent), ["add n/a 1 initial"]);
}

#[tokio::test(start_paused = true)]
async fn a_swap_is_answered_although_the_listener_ends() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    synced(&pods);
    let (running, handler, joined) =
        (listener.clone(), recorder(1, &told), vec![subscription("pods", 0, &pods)]);
    let task = tokio::spawn(async move { running.run(handler, joined).await });
    settle(&listener).await;
    // Both are there when the loop looks next: the end goes first.
    let swap = listener.swap(recorder(2, &told), vec![], OnSwap::Continue);
    let (answer, ()) = tokio::join!(swap, async { listener.close() });
    assert_eq!(answer, None);
    assert_eq!(task.await.expect("it ends"), Ended::Closed { abandoned: 0 });
    assert_eq!(listener.swap(recorder(3, &told), vec![], OnSwap::Continue).await, None);
}

/// What a random script does next.
#[derive(Debug, Clone)]
enum Act {
    Put(usize),
    Remove(usize),
    /// A deletion and a re-creation of which only the outcome is seen.
    Recreate(usize),
    /// A deletion that only a relist notices.
    Lose(usize),
    Sync,
    Swap(OnSwap),
    /// Lets the handler work for a while.
    Run(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let key = 0..6_usize;
    prop_oneof![
        8 => key.clone().prop_map(Act::Put),
        4 => key.clone().prop_map(Act::Remove),
        2 => key.clone().prop_map(Act::Recreate),
        2 => key.prop_map(Act::Lose),
        1 => Just(Act::Sync),
        1 => Just(Act::Swap(OnSwap::Replay)),
        1 => Just(Act::Swap(OnSwap::Continue)),
        6 => (0..1500_u64).prop_map(Act::Run),
    ]
}

/// The server's side of a script: object key to uid and version.
#[derive(Default)]
struct Server {
    objects: BTreeMap<String, (u32, u32)>,
    clock: u32,
}

impl Server {
    fn act(&mut self, informer: &SharedInformer, act: &Act) {
        self.clock += 1;
        let now = self.clock;
        let name = |key: &usize| format!("n/{key}");
        let state =
            |key: &str, (uid, version): (u32, u32)| object(key, &uid.to_string(), &version.to_string());
        match act {
            Act::Put(key) => {
                let key = name(key);
                let next = self.objects.get(&key).map_or((now, now), |(uid, _)| (*uid, now));
                process(informer, DeltaKind::Updated, &state(&key, next), false);
                self.objects.insert(key, next);
            }
            Act::Recreate(key) => {
                let key = name(key);
                process(informer, DeltaKind::Replaced, &state(&key, (now, now)), false);
                self.objects.insert(key, (now, now));
            }
            Act::Remove(key) | Act::Lose(key) => {
                let key = name(key);
                if let Some((uid, version)) = self.objects.remove(&key) {
                    let lost = matches!(act, Act::Lose(_));
                    let last = if lost { version } else { now };
                    process(informer, DeltaKind::Deleted, &state(&key, (uid, last)), lost);
                }
            }
            Act::Sync | Act::Swap(_) | Act::Run(_) => {}
        }
    }
}

/// Fails now and then, in every way but for good.
fn moody(seed: u32) -> Script {
    let mut state = seed;
    Box::new(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        match state >> 28 {
            0..=2 => retry(),
            3 => Outcome::Trap("mood".into()),
            _ => Outcome::Ok,
        }
    })
}

/// Checks one key's events against what may be told of one object: no state twice, none out of order, updates
/// from the state told before, deletes of a uid that was told or `tried`. `fresh` generations begin with any state.
fn check_key(
    events: &[(u32, Event)],
    tried: &[(u32, Event)],
    fresh: &[u32],
) -> Result<Option<(String, String)>, String> {
    let mut known: Option<Arc<Object>> = None;
    let mut generation = 0;
    for (of, event) in events {
        let replayed = fresh.iter().any(|start| (generation + 1..=*of).contains(start));
        generation = *of;
        let (new, bad) = match event {
            Event::Add { object, .. } => (Some(object.clone()), known.is_some() && !replayed),
            Event::Update { old, new, .. } => {
                let follows = known.as_ref().is_some_and(|known| {
                    known.resource_version() == old.resource_version() && known.uid() == new.uid()
                });
                (Some(new.clone()), !follows)
            }
            Event::Delete { object, .. } => {
                let was_tried = tried.iter().any(|(_, event)| event.object().uid() == object.uid());
                let was_told = known.as_ref().is_some_and(|known| known.uid() == object.uid());
                (None, !(was_told || known.is_none() && was_tried))
            }
        };
        let version = |object: &Object| object.resource_version().parse::<u32>().unwrap_or_default();
        let backwards =
            matches!((&known, &new), (Some(known), Some(new)) if !replayed && version(new) <= version(known));
        if bad || backwards {
            return Err(format!("{event:?} after {known:?} in generation {of} of {events:?}"));
        }
        known = new;
    }
    Ok(known.map(|object| (object.uid().to_owned(), object.resource_version().to_owned())))
}

fn run_script(acts: &[Act], bound: usize, merge: Merge, seed: u32) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let (told, tried, pods) = (Told::default(), Told::default(), informer("Pod"));
        let config = ListenerConfig { bound, merge, max_attempts: u32::MAX, ..ListenerConfig::default() };
        let listener = Listener::new(config, Arc::new(|_, _| {}));
        let make = |generation: u32| -> Box<dyn EventHandler> {
            Box::new(Recorder {
                generation,
                told: told.clone(),
                script: moody(seed + generation),
                tried: tried.clone(),
            })
        };
        let joined = || vec![subscription("pods", 0, &pods)];
        let (running, handler, first) = (listener.clone(), make(1), joined());
        tokio::spawn(async move { running.run(handler, first).await });
        let (mut server, mut is_synced, mut generation, mut fresh) = (Server::default(), false, 1, vec![]);
        for act in acts {
            server.act(&pods, act);
            match act {
                Act::Sync if !is_synced => {
                    is_synced = true;
                    synced(&pods);
                }
                Act::Swap(on_swap) => {
                    generation += 1;
                    if *on_swap == OnSwap::Replay {
                        fresh.push(generation);
                    }
                    listener.swap(make(generation), joined(), *on_swap).await.ok_or("no swap")?;
                }
                Act::Run(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
                _ => {}
            }
        }
        if !is_synced {
            synced(&pods);
        }
        settle(&listener).await;
        let mut by_key: BTreeMap<String, Vec<(u32, Event)>> = BTreeMap::new();
        for (generation, event) in told.lock().expect("told").iter() {
            by_key.entry(event.key().to_string()).or_default().push((*generation, event.clone()));
        }
        let mut view = BTreeMap::new();
        for (key, events) in by_key {
            if let Some((uid, version)) = check_key(&events, &tried.lock().expect("tried"), &fresh)? {
                view.insert(key, (uid, version));
            }
        }
        let want: BTreeMap<String, (String, String)> = server
            .objects
            .iter()
            .map(|(key, (uid, version))| (key.clone(), (uid.to_string(), version.to_string())))
            .collect();
        if view == want { Ok(()) } else { Err(format!("the handler sees {view:?}, the server has {want:?}")) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Delivery contract 1, 4, 6, 7, 8, 10 together: whatever happens, and whenever the handler is replaced,
    /// each object's events make sense in their order, and in the end the handler sees what the server has.
    #[test]
    fn every_script_ends_in_the_servers_view(
        acts in proptest::collection::vec(act(), 0..60),
        bound in prop_oneof![Just(1_usize), Just(3), Just(10_000)],
        latest in any::<bool>(),
        seed in any::<u16>(),
    ) {
        let merge = if latest { Merge::Latest } else { Merge::All };
        if let Err(problem) = run_script(&acts, bound, merge, u32::from(seed)) {
            return Err(TestCaseError::fail(problem));
        }
    }
}
