//! Objects that are too large, through a listener's life: first lists, changes, merges, restarts, swaps, redeliveries.

use super::*;
use crate::testing::object_with;

const MAX: usize = 500;

/// What was reported, as `op key version bytes>limit`.
#[derive(Default)]
struct Reported(StdMutex<Vec<String>>);

impl Observer for Reported {
    fn oversized(&self, oversized: &Oversized) {
        let Oversized { subscription, delivery, bytes, limit } = oversized;
        assert_eq!((subscription.as_str(), delivery.attempt), ("pods", 0));
        assert!(bytes > limit);
        let event = &delivery.event;
        let line = format!("{} {} {}", event.op(), event.key(), event.object().resource_version());
        self.0.lock().expect("reported").push(line);
    }
}

struct Case {
    listener: Listener,
    pods: Arc<SharedInformer>,
    told: Told,
    reported: Arc<Reported>,
}

impl Case {
    fn new(on_restart: OnRestart) -> Self {
        let reported = Arc::new(Reported::default());
        let listener = Listener::new(config(Some(MAX), on_restart), reported.clone());
        Self { listener, pods: informer("Pod"), told: Told::default(), reported }
    }

    /// One whose handler has been told of what is there.
    async fn with(states: &[(&str, u32, bool)]) -> Self {
        let case = Self::new(OnRestart::Continue);
        case.put(states);
        synced(&case.pods);
        start(&case.listener, vec![recorder(1, &case.told)], &case.pods);
        assert!(case.listener.synced().await);
        case
    }

    /// Key, version, and whether it is too large.
    fn put(&self, states: &[(&str, u32, bool)]) {
        for (key, version, is_large) in states {
            let filler = if *is_large { format!(r#""x":"{}""#, "x".repeat(MAX)) } else { String::new() };
            let object = object_with(key, "u", &version.to_string(), &filler);
            process(&self.pods, DeltaKind::Updated, &object, false);
        }
    }

    async fn hears(&self) -> Vec<String> {
        settle(&self.listener).await;
        let lines = lines(&self.told);
        self.told.lock().expect("told").clear();
        lines
    }

    fn reported(&self) -> Vec<String> {
        std::mem::take(&mut *self.reported.0.lock().expect("reported"))
    }

    async fn swap(&self, on_swap: OnSwap, max: Option<usize>) {
        self.listener.configure(config(max, OnRestart::Continue));
        let joined = vec![subscription("pods", 0, &self.pods)];
        self.listener
            .swap(Swap::new(vec![recorder(2, &self.told)], joined, on_swap))
            .await
            .expect("it swapped");
    }

    fn withheld(&self) -> (u64, usize) {
        let stats = self.listener.stats();
        (stats.oversized, stats.withheld)
    }
}

fn config(max_object: Option<usize>, on_restart: OnRestart) -> ListenerConfig {
    ListenerConfig { max_object, on_restart, ..ListenerConfig::default() }
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_at_first_is_an_add_once_it_fits_and_counts_for_the_sync() {
    let case = Case::with(&[("n/a", 1, false), ("n/b", 1, true)]).await;
    assert_eq!(case.hears().await, ["add n/a 1 initial"]);
    assert_eq!((case.reported(), case.withheld()), (vec!["add n/b 1".into()], (1, 1)));
    case.put(&[("n/b", 2, true), ("n/b", 3, false), ("n/b", 4, false)]);
    assert_eq!(case.hears().await, ["add n/b 3", "update n/b 3->4"]);
    assert_eq!((case.reported(), case.withheld()), (vec![], (2, 0)), "it was reported");
    case.put(&[("n/b", 5, true)]);
    assert_eq!(case.hears().await, [""; 0]);
    assert_eq!(
        (case.reported(), case.withheld()),
        (vec!["update n/b 5".into()], (3, 1)),
        "since it was told"
    );
}

#[tokio::test(start_paused = true)]
async fn what_grew_is_updated_from_what_was_told_or_deleted_as_that() {
    let case = Case::with(&[("n/a", 1, false), ("n/b", 1, false), ("n/c", 1, true)]).await;
    case.hears().await;
    case.put(&[("n/a", 2, true), ("n/a", 3, true), ("n/a", 4, false), ("n/b", 2, true)]);
    assert_eq!(case.hears().await, ["update n/a 1->4"]);
    for key in ["n/b", "n/c"] {
        remove(&case.pods, key, "u", 9);
    }
    assert_eq!(case.hears().await, ["delete n/b 1 deleted"], "nobody knows n/c");
    assert_eq!(case.withheld().1, 0);
}

#[tokio::test(start_paused = true)]
async fn a_swap_that_continues_goes_on_from_what_was_told_and_one_that_replays_begins_with_an_add() {
    for (on_swap, want) in [(OnSwap::Continue, "update n/a 1->3"), (OnSwap::Replay, "add n/a 3")] {
        let case = Case::with(&[("n/a", 1, false), ("n/b", 1, false), ("n/c", 1, true)]).await;
        case.put(&[("n/a", 2, true), ("n/b", 2, true)]);
        case.hears().await;
        case.reported();
        case.swap(on_swap, Some(MAX)).await;
        assert_eq!((case.hears().await, case.reported()), (vec![], vec![]), "{on_swap:?}");
        assert!(case.listener.has_synced());
        case.put(&[("n/a", 3, false)]);
        assert_eq!(case.hears().await, [want]);
        for key in ["n/b", "n/c"] {
            remove(&case.pods, key, "u", 9);
        }
        assert_eq!(case.hears().await, ["delete n/b 1 deleted"], "an earlier version knows it");
    }
}

#[tokio::test(start_paused = true)]
async fn another_limit_acts_with_the_swap_that_brings_it() {
    for on_swap in [OnSwap::Continue, OnSwap::Replay] {
        let case = Case::with(&[("n/a", 1, false), ("n/b", 1, true)]).await;
        case.put(&[("n/a", 2, true)]);
        case.hears().await;
        case.reported();
        case.swap(on_swap, None).await;
        let want = match on_swap {
            OnSwap::Continue => ["update n/a 1->2", "add n/b 1"],
            OnSwap::Replay => ["add n/a 2 initial", "add n/b 1 initial"],
        };
        let mut heard = case.hears().await;
        heard.sort_by_key(|line| line.starts_with("add n/b"));
        assert_eq!((heard, case.withheld().1), (want.map(String::from).to_vec(), 0));
        // And back: what was told is too large by now.
        case.swap(on_swap, Some(MAX)).await;
        assert_eq!(case.hears().await, [""; 0]);
        remove(&case.pods, "n/b", "u", 9);
        let gone = case.told.clone();
        settle(&case.listener).await;
        let event = gone.lock().expect("told")[0].1.clone();
        assert!(matches!(event, Event::Delete { .. }) && event.object().json().len() < 200, "{event:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_left_out_too_when_a_lower_limit_takes_the_queue_over() {
    let (told, reported, pods) = (Told::default(), Arc::new(Reported::default()), informer("Pod"));
    let listener = Listener::new(config(None, OnRestart::Continue), reported.clone());
    let case = Case { listener, pods, told: told.clone(), reported };
    synced(&case.pods);
    // Everything but adds fails, so that all else waits.
    let handler = scripted(&told, |delivery| match delivery.event {
        Event::Add { .. } if delivery.event.key().name() != "new" => Outcome::Ok,
        _ => retry(),
    });
    start(&case.listener, vec![handler], &case.pods);
    case.put(&[("n/a", 1, false), ("n/b", 1, false), ("n/c", 1, true)]);
    assert_eq!(case.hears().await.len(), 3);
    case.put(&[("n/a", 2, true), ("n/b", 2, true), ("n/new", 2, true), ("n/c", 3, false)]);
    remove(&case.pods, "n/b", "u", 4);
    idle().await;
    case.swap(OnSwap::Continue, Some(MAX)).await;
    let heard = case.hears().await;
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(
        heard.contains(&"delete n/b 4 deleted".into()) && heard.contains(&"update n/c 1->3".into()),
        "{heard:?}"
    );
    assert_eq!((case.withheld().1, case.listener.stats().pending), (2, 0));
    case.put(&[("n/a", 5, false), ("n/new", 5, false)]);
    assert_eq!(case.hears().await, ["update n/a 1->5", "add n/new 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_replay_leaves_it_out_again_and_says_nothing_twice() {
    let case = Case::new(OnRestart::Replay);
    case.put(&[("n/a", 1, false), ("n/b", 1, false)]);
    synced(&case.pods);
    let handler = scripted(&case.told, |delivery| match (delivery.event.op(), delivery.attempt) {
        ("update", 1) => Outcome::Trap("boom".into()),
        _ => Outcome::Ok,
    });
    start(&case.listener, vec![handler], &case.pods);
    case.hears().await;
    case.put(&[("n/b", 2, true), ("n/a", 2, false)]);
    assert_eq!(case.hears().await, ["add n/a 2 initial"], "n/b is too large");
    assert_eq!((case.reported(), case.listener.has_synced()), (vec!["update n/b 2".into()], true));
    case.put(&[("n/b", 3, false)]);
    assert_eq!(case.hears().await, ["add n/b 3"], "the fresh instance does not know it");
}

#[tokio::test(start_paused = true)]
async fn a_letter_is_replayed_once_the_object_fits() {
    let case = Case::with(&[("n/a", 1, true)]).await;
    let lost = Lost { key: ObjectKey::new("n", "a"), uid: "u".into(), event: LostEvent::Add };
    assert_eq!(case.listener.redeliver("pods", &lost), Redelivered::Oversized);
    assert_eq!(case.hears().await, [""; 0]);
    case.put(&[("n/a", 2, false)]);
    assert_eq!(case.hears().await, ["add n/a 2"]);
    assert!(matches!(case.listener.redeliver("pods", &lost), Redelivered::Queued { .. }));
    assert_eq!(case.hears().await, ["update n/a 2->2 resync"]);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_was_told_of_vanishes_although_a_replay_has_read_it() {
    let case = Case::with(&[("n/a", 1, false), ("n/z", 1, true)]).await;
    case.hears().await;
    case.listener.configure(ListenerConfig { merge: Merge::Latest, ..ListenerConfig::default() });
    let (handler, gate) = gated(&case.told);
    let joined = vec![subscription("pods", 0, &case.pods)];
    case.listener.swap(Swap::new(vec![handler], joined, OnSwap::Replay)).await.expect("it swapped");
    idle().await;
    assert_eq!(case.listener.stats().pending, 2, "the handler has n/a, and n/z, which fits, waits");
    remove(&case.pods, "n/z", "u", 2);
    gate.add_permits(9);
    assert_eq!(case.hears().await, ["add n/a 1 initial"]);
}

#[tokio::test(start_paused = true)]
async fn what_grows_and_goes_before_a_replay_has_come_by_is_deleted_as_it_was_told() {
    let names: Vec<String> = (0..500).map(|number| format!("n/{number:03}")).collect();
    let states: Vec<(&str, u32, bool)> = names.iter().map(|name| (name.as_str(), 1, false)).collect();
    let case = Case::with(&states).await;
    case.hears().await;
    let (handler, gate) = gated(&case.told);
    let joined = vec![subscription("pods", 0, &case.pods)];
    case.listener.swap(Swap::new(vec![handler], joined, OnSwap::Replay)).await.expect("it swapped");
    idle().await;
    assert!(case.listener.stats().pending < 400, "the cursor waits");
    case.put(&[("n/498", 2, true), ("n/499", 2, true)]);
    remove(&case.pods, "n/499", "u", 9);
    gate.add_permits(9999);
    let heard = case.hears().await;
    assert!(heard.contains(&"delete n/499 1 deleted".into()), "it was told so by an earlier version");
    assert_eq!((heard.len(), case.reported()), (499, vec!["add n/498 2".into()]));
    remove(&case.pods, "n/498", "u", 9);
    assert_eq!(case.hears().await, ["delete n/498 1 deleted"]);
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_was_given_up_is_replayed_before_its_successor_is_told() {
    let case = Case::new(OnRestart::Continue);
    case.listener.configure(ListenerConfig { max_attempts: 1, ..config(Some(MAX), OnRestart::Continue) });
    case.put(&[("n/a", 1, false)]);
    synced(&case.pods);
    let broken = Arc::new(StdMutex::new(true));
    let breaks = broken.clone();
    let handler = scripted(&case.told, move |delivery| match delivery.event {
        Event::Delete { .. } if *breaks.lock().expect("broken") => Outcome::Trap("boom".into()),
        _ => Outcome::Ok,
    });
    start(&case.listener, vec![handler], &case.pods);
    case.hears().await;
    remove(&case.pods, "n/a", "u", 2);
    assert_eq!(case.hears().await, [""; 0], "it is given up");
    let filler = format!(r#""x":"{}""#, "x".repeat(MAX));
    process(&case.pods, DeltaKind::Updated, &object_with("n/a", "v", "3", &filler), false);
    assert_eq!((case.hears().await, case.withheld().1), (vec![], 1));
    *broken.lock().expect("broken") = false;
    let event =
        LostEvent::Delete { object: object("n/a", "u", "2"), reason: crate::handler::DeleteReason::Deleted };
    let lost = Lost { key: ObjectKey::new("n", "a"), uid: "u".into(), event };
    assert!(matches!(case.listener.redeliver("pods", &lost), Redelivered::Queued { .. }));
    assert_eq!(case.hears().await, ["delete n/a 2 deleted"]);
    process(&case.pods, DeltaKind::Updated, &object("n/a", "v", "4"), false);
    assert_eq!(case.hears().await, ["add n/a 4"]);
}
