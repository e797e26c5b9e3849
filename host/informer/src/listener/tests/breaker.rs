//! Quarantine: the table of transitions, then what a listener does in each of its states (design section 5).

use super::*;
use crate::listener::breaker::{Breaker, Gate};
use crate::queue::EntryKey;

/// What happens to a breaker.
#[derive(Debug, Clone, Copy)]
enum Act {
    Answer,
    /// An event of the object with this number breaks its handler.
    Break(u8),
    /// So many seconds pass.
    Wait(u64),
    /// The loop looks, and has an event.
    Look,
    Swap,
}

/// Waits are a second, doubled, and at most four; two different events bring quarantine on.
fn config() -> ListenerConfig {
    ListenerConfig {
        quarantine_after: Some(2),
        first_quarantine: Duration::from_secs(1),
        max_quarantine: Duration::from_secs(4),
        ..ListenerConfig::default()
    }
}

fn key(number: u8) -> EntryKey {
    EntryKey { registration: u64::from(number % 2), object: ObjectKey::new("n", &format!("{}", number / 2)) }
}

/// The states that the steps lead through.
fn states(config: &ListenerConfig, steps: &[Act]) -> Vec<&'static str> {
    let mut now = Instant::now();
    let mut breaker = Breaker::new(now);
    let mut seen = Vec::new();
    for step in steps {
        let before = breaker.state();
        let change = match step {
            Act::Answer => breaker.answered(now),
            Act::Break(number) => breaker.broke(&key(*number), "boom".into(), now, config),
            Act::Wait(seconds) => {
                now += Duration::from_secs(*seconds);
                None
            }
            Act::Look if breaker.gate(now) == Gate::Probe => breaker.probe("add n/a".into()),
            Act::Look => None,
            Act::Swap => breaker.replaced(now),
        };
        assert_eq!(change.is_some(), breaker.state() != before, "each transition is told once: {steps:?}");
        let health = breaker.health(now);
        assert_eq!(health.cause.is_some(), health.state != HealthState::Healthy, "{steps:?}");
        seen.push(health.state.as_str());
    }
    seen
}

#[test]
fn the_states_follow_the_table() {
    use Act::{Answer, Break, Look, Swap, Wait};
    let quarantine = [Break(0), Break(1)];
    for (before, steps, want) in [
        (&[][..], vec![Answer, Look, Swap], vec!["healthy"; 3]),
        (&[], vec![Break(0), Answer], vec!["failing", "healthy"]),
        (&[], vec![Break(0), Swap], vec!["failing", "healthy"]),
        (&[], vec![Break(0), Break(0), Break(0), Look], vec!["failing"; 4]),
        // The same object of another registration is another event.
        (&[], vec![Break(0), Break(1)], vec!["failing", "quarantined"]),
        (&[], vec![Break(0), Answer, Break(1)], vec!["failing", "healthy", "failing"]),
        (&quarantine, vec![Answer], vec!["healthy"]),
        (&quarantine, vec![Swap], vec!["healthy"]),
        (&quarantine, vec![Break(3), Look], vec!["quarantined"; 2]),
        (&quarantine, vec![Wait(2), Look, Answer], vec!["quarantined", "probing", "healthy"]),
        (&quarantine, vec![Wait(2), Look, Look, Swap], vec!["quarantined", "probing", "probing", "healthy"]),
        (
            &quarantine,
            vec![Wait(2), Look, Break(0), Wait(1), Look, Wait(2), Look],
            vec![
                "quarantined",
                "probing",
                "quarantined",
                "quarantined",
                "quarantined",
                "quarantined",
                "probing",
            ],
        ),
        // After an answer the count begins anew.
        (&quarantine, vec![Answer, Break(0)], vec!["healthy", "failing"]),
    ] {
        let all = [before, &steps].concat();
        assert_eq!(states(&config(), &all)[before.len()..], want, "{steps:?} after {before:?}");
    }
}

#[test]
fn switched_off_it_is_never_in_quarantine() {
    let off = ListenerConfig { quarantine_after: None, ..config() };
    let steps: Vec<Act> = (0..100).map(Act::Break).collect();
    assert_eq!(states(&off, &steps), ["failing"; 100]);
}

#[test]
fn each_probe_that_fails_doubles_the_wait_up_to_the_longest() {
    let (config, now) = (config(), Instant::now());
    let mut breaker = Breaker::new(now);
    breaker.broke(&key(0), "boom".into(), now, &config);
    let mut waits = Vec::new();
    for _ in 0..4 {
        let change = breaker.broke(&key(1), "boom".into(), now, &config);
        let (Some(HealthChange::Quarantined { wait, .. }) | Some(HealthChange::ProbeFailed { wait, .. })) =
            change
        else {
            panic!("{change:?}")
        };
        waits.push(wait);
        breaker.probe("add n/a".into());
    }
    for (wait, seconds) in waits.into_iter().zip([1, 2, 4, 4]) {
        let least = Duration::from_secs(seconds);
        assert!((least..=least.mul_f64(1.1)).contains(&wait), "{wait:?} is {seconds} s and up to a tenth");
    }
    assert_eq!(breaker.health(now).quarantines, 1, "a probe that fails begins no other quarantine");
}

/// What an observer was told, as lines.
#[derive(Default)]
struct Watch {
    said: StdMutex<Vec<String>>,
    letters: StdMutex<Vec<String>>,
}

impl Observer for Watch {
    fn given_up(&self, delivery: &Delivery, _: &Outcome) {
        self.letters.lock().expect("letters").push(delivery.event.key().to_string());
    }

    fn health(&self, change: &HealthChange) {
        self.said.lock().expect("said").push(match change {
            HealthChange::Failing { cause } => format!("failing: {cause}"),
            HealthChange::Quarantined { wait, events, cause } => {
                format!("quarantined {}s after {events}: {cause}", wait.as_secs())
            }
            HealthChange::Probing { event } => format!("probing {event}"),
            HealthChange::ProbeFailed { wait, cause } => format!("again {}s: {cause}", wait.as_secs()),
            HealthChange::Recovered { from, .. } => format!("recovered from {}", from.as_str()),
            HealthChange::Replaced { from, .. } => format!("replaced while {}", from.as_str()),
        });
    }
}

/// A listener whose handlers break at the objects named in `poison`, and what is seen of it.
struct Case {
    listener: Listener,
    pods: Arc<SharedInformer>,
    told: Told,
    /// Attempts, whatever came of them: `key #attempt`.
    tries: Arc<StdMutex<Vec<String>>>,
    poison: Arc<StdMutex<Vec<&'static str>>>,
    watch: Arc<Watch>,
}

impl Case {
    fn new(config: ListenerConfig, poison: &[&'static str]) -> Self {
        let watch = Arc::new(Watch::default());
        Self {
            listener: Listener::new(config, watch.clone()),
            pods: informer("Pod"),
            told: Told::default(),
            tries: Arc::default(),
            poison: Arc::new(StdMutex::new(poison.to_vec())),
            watch,
        }
    }

    fn handler(&self) -> Box<dyn EventHandler> {
        let (tries, poison) = (self.tries.clone(), self.poison.clone());
        scripted(&self.told, move |delivery| {
            let name = delivery.event.key().name();
            tries.lock().expect("tries").push(format!("{name} #{}", delivery.attempt));
            let breaks = poison.lock().expect("poison").iter().any(|one| *one == name || *one == "*");
            if breaks { Outcome::Trap("boom".into()) } else { Outcome::Ok }
        })
    }

    fn put(&self, names: &[&str], version: u32) {
        for name in names {
            put(&self.pods, &format!("n/{name}"), "u", version);
        }
    }

    fn mend(&self) {
        self.poison.lock().expect("poison").clear();
    }

    fn state(&self) -> HealthState {
        self.listener.health().state
    }

    fn tries(&self) -> Vec<String> {
        std::mem::take(&mut *self.tries.lock().expect("tries"))
    }

    fn said(&self) -> Vec<String> {
        std::mem::take(&mut *self.watch.said.lock().expect("said"))
    }

    /// Time goes on until an event has been tried in quarantine, and no longer.
    async fn probe(&self) {
        let count = || {
            let said = self.watch.said.lock().expect("said");
            said.iter().filter(|line| line.starts_with("probing")).count()
        };
        let before = count();
        for _ in 0..100_000 {
            if count() > before {
                return idle().await;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("there is no probe: {:?}", self.listener.health());
    }

    /// Time goes on until the listener is in this state.
    async fn until(&self, state: HealthState) {
        for _ in 0..100_000 {
            if self.state() == state {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it is {:?}, not {state:?}", self.listener.health());
    }
}

/// A listener with five poison objects, which it has tried once each.
async fn quarantined(config: ListenerConfig) -> Case {
    let case = Case::new(config, &["a", "b", "c", "d", "e"]);
    synced(&case.pods);
    start(&case.listener, vec![case.handler()], &case.pods);
    idle().await;
    case.put(&["a", "b", "c", "d", "e"], 1);
    idle().await;
    assert_eq!(case.tries(), ["a #1", "b #1", "c #1", "d #1", "e #1"]);
    assert_eq!(case.said(), ["failing: add n/a: trap: boom", "quarantined 1s after 5: add n/e: trap: boom"]);
    case
}

#[tokio::test(start_paused = true)]
async fn one_poison_object_brings_no_quarantine_on_and_holds_nobody_back() {
    let case = Case::new(ListenerConfig::default(), &["a"]);
    synced(&case.pods);
    start(&case.listener, vec![case.handler()], &case.pods);
    case.put(&["a"], 1);
    settle(&case.listener).await;
    assert_eq!(case.said(), ["failing: add n/a: trap: boom"], "ten attempts, one event");
    assert_eq!(*case.watch.letters.lock().expect("letters"), ["n/a"]);
    case.put(&["b"], 2);
    idle().await;
    assert_eq!(
        (lines(&case.told), case.said()),
        (vec!["add n/b 2".into()], vec!["recovered from failing".into()])
    );
    assert_eq!(case.listener.stats().quarantines, 0);
}

#[tokio::test(start_paused = true)]
async fn the_probe_is_an_event_that_has_not_failed_and_its_answer_ends_quarantine() {
    let case = quarantined(ListenerConfig::default()).await;
    case.put(&["z"], 2);
    idle().await;
    assert_eq!(case.tries(), [""; 0], "nothing is handed over");
    let health = case.listener.health();
    assert_eq!((health.state, health.quarantines), (HealthState::Quarantined, 1));
    assert!(health.until.is_some_and(|until| until >= Duration::from_secs(1)), "{health:?}");
    // By then the poison objects are due again, and came before it.
    case.probe().await;
    assert_eq!(case.tries()[..2], ["z #1", "a #2"]);
    assert_eq!(case.said()[..2], ["probing add n/z", "recovered from probing"]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_breaks_makes_quarantine_longer_and_its_attempts_count() {
    let config = ListenerConfig { max_attempts: 2, ..ListenerConfig::default() };
    let case = quarantined(config).await;
    case.probe().await;
    assert_eq!(case.tries(), ["a #2"], "one delivery, although all five are due");
    assert_eq!(case.said(), ["probing add n/a", "again 2s: add n/a: trap: boom"]);
    assert_eq!(*case.watch.letters.lock().expect("letters"), ["n/a"]);
    settle(&case.listener).await;
    let want = ["b #2", "c #2", "d #2", "e #2"];
    assert_eq!(case.tries(), want, "each ends in the dead letters, one probe at a time");
    assert_eq!(case.state(), HealthState::Quarantined, "until an event is answered");
    case.put(&["z"], 2);
    settle(&case.listener).await;
    assert_eq!((case.state(), lines(&case.told)), (HealthState::Healthy, vec!["add n/z 2".into()]));
}

#[tokio::test(start_paused = true)]
async fn probes_go_round_so_that_one_poison_object_does_not_hold_back_what_has_been_mended() {
    let case = quarantined(ListenerConfig::default()).await;
    *case.poison.lock().expect("poison") = vec!["a"];
    case.probe().await;
    case.probe().await;
    assert_eq!(case.tries()[..2], ["a #2", "b #2"]);
    assert_eq!(case.said()[3..4], ["recovered from probing"]);
}

#[tokio::test(start_paused = true)]
async fn in_quarantine_the_queue_merges_whatever_the_mode() {
    let case = quarantined(ListenerConfig::default()).await;
    for version in 2..50 {
        case.put(&["z"], version);
    }
    remove(&case.pods, "n/y", "u", 60);
    assert_eq!(case.listener.stats().pending, 6);
    case.mend();
    settle(&case.listener).await;
    assert!(lines(&case.told).contains(&"add n/z 49".into()), "{:?}", lines(&case.told));
    for version in 50..53 {
        case.put(&["z"], version);
    }
    settle(&case.listener).await;
    let last: Vec<String> = lines(&case.told).split_off(6);
    assert_eq!(last, ["update n/z 49->50", "update n/z 50->51", "update n/z 51->52"], "and not afterwards");
}

#[tokio::test(start_paused = true)]
async fn a_swap_of_either_kind_begins_healthy() {
    for on_swap in [OnSwap::Replay, OnSwap::Continue] {
        let case = quarantined(ListenerConfig::default()).await;
        case.mend();
        let joined = vec![subscription("pods", 0, &case.pods)];
        case.listener.swap(Swap::new(vec![case.handler()], joined, on_swap)).await.expect("it swapped");
        idle().await;
        assert_eq!(case.said(), ["replaced while quarantined"]);
        let replayed = on_swap == OnSwap::Replay;
        assert_eq!(
            case.tries().len(),
            if replayed { 5 } else { 0 },
            "with continue they wait for their retry"
        );
        settle(&case.listener).await;
        assert_eq!((case.state(), lines(&case.told).len()), (HealthState::Healthy, 5));
        assert!(case.listener.has_synced());
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_and_a_removal_do_not_wait_for_quarantine() {
    for drain in [true, false] {
        let case = Case::new(ListenerConfig::default(), &["*"]);
        synced(&case.pods);
        let task = start(&case.listener, vec![case.handler()], &case.pods);
        case.put(&["a", "b", "c", "d", "e"], 1);
        idle().await;
        case.put(&["z"], 2);
        let begun = Instant::now();
        if drain {
            case.listener.drain();
            assert_eq!(task.await.expect("it ends"), Ended::Drained { abandoned: 6 });
        } else {
            assert_eq!(
                case.listener.remove_and_wait("pods").await,
                Ok(Removed { registrations: 1, dropped: 6 })
            );
            assert_eq!(case.state(), HealthState::Quarantined);
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_replay_reads_the_cache_once_for_each_probe() {
    let config = ListenerConfig { on_restart: OnRestart::Replay, ..ListenerConfig::default() };
    let case = Case::new(config, &["*"]);
    for number in 0..300 {
        put(&case.pods, &format!("n/{number:03}"), "u", 1);
    }
    synced(&case.pods);
    start(&case.listener, vec![case.handler()], &case.pods);
    case.until(HealthState::Quarantined).await;
    assert_eq!(case.listener.stats().restarts, 5, "one for each break");
    assert!(!case.listener.has_synced());
    assert_eq!(case.listener.stats().pending, 5, "what has failed; the cache is read when there is a probe");
    case.tries();
    for restarts in 6..9 {
        case.probe().await;
        assert_eq!((case.listener.stats().restarts, case.tries().len()), (restarts, 1));
        let pending = case.listener.stats().pending;
        assert_eq!(pending, usize::try_from(restarts).expect("few"), "what has failed, and no more");
    }
    case.mend();
    assert!(case.listener.synced().await);
    settle(&case.listener).await;
    assert_eq!(lines(&case.told).len(), 300, "each object once");
}

#[tokio::test(start_paused = true)]
async fn a_delivery_from_before_is_waited_for_and_its_answer_ends_quarantine() {
    let (slow, quick) = lanes::two_keys();
    let (told, pods, watch) = (Told::default(), informer("Pod"), Arc::new(Watch::default()));
    let config = ListenerConfig { quarantine_after: Some(1), ..ListenerConfig::default() };
    let listener = Listener::new(config, watch.clone());
    synced(&pods);
    let (stuck, gate) = gated(&told);
    let broken = scripted(&told, |delivery| match delivery.attempt {
        1 => Outcome::Trap("boom".into()),
        _ => Outcome::Ok,
    });
    start(&listener, vec![stuck, broken], &pods);
    put(&pods, &slow, "u", 1);
    put(&pods, &quick, "u", 1);
    idle().await;
    assert_eq!(listener.health().state, HealthState::Quarantined);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(listener.health().state, HealthState::Quarantined, "a probe is the only delivery");
    assert_eq!(listener.stats().outcomes.ok, 0);
    gate.add_permits(9);
    settle(&listener).await;
    assert_eq!(listener.stats().outcomes.ok, 2);
    let want =
        [format!("quarantined 1s after 1: add {quick}: trap: boom"), "recovered from quarantined".into()];
    assert_eq!(*watch.said.lock().expect("said"), want);
}

#[tokio::test(start_paused = true)]
async fn whatever_the_guest_answers_is_an_answer() {
    for answer in [Outcome::Ok, retry(), Outcome::Permanent("no".into())] {
        let case = quarantined(ListenerConfig::default()).await;
        let joined = vec![subscription("pods", 0, &case.pods)];
        let says = answer.clone();
        let handler = scripted(&case.told, move |delivery| match delivery.event.key().name() {
            "z" => says.clone(),
            _ => Outcome::Timeout("slow".into()),
        });
        // The same quarantine, of other handlers.
        case.listener.swap(Swap::new(vec![handler], joined, OnSwap::Replay)).await.expect("it swapped");
        case.until(HealthState::Quarantined).await;
        case.put(&["z"], 2);
        case.said();
        case.probe().await;
        assert!(case.said().contains(&"recovered from probing".into()), "{answer:?}");
    }
}
