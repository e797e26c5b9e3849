//! Trial: the table of transitions, then what a listener does in each of its states.

use std::num::NonZeroU32;

use super::*;
use crate::listener::trial::Trial;
use crate::queue::EntryKey;

/// What happens to a trial.
#[derive(Debug, Clone, Copy)]
enum Act {
    Answer,
    Break,
    /// Others begin: on trial for so many attempts, or, with 0, not.
    Swap(u32),
    GoOn,
}

fn of(attempts: u32) -> NonZeroU32 {
    NonZeroU32::new(attempts).expect("at least one")
}

fn key(name: &str) -> EntryKey {
    EntryKey { registration: 0, object: ObjectKey::new("n", name) }
}

/// The states that the steps lead through, and the verdicts.
fn states(steps: &[Act]) -> Vec<String> {
    let (mut trial, mut seen) = (Trial::default(), Vec::new());
    for step in steps {
        let verdict = match step {
            Act::Answer => trial.answered(),
            Act::Break => trial.broke(&key("a"), &Arc::from("boom")),
            Act::Swap(attempts) => {
                trial.begin(NonZeroU32::new(*attempts));
                None
            }
            Act::GoOn => {
                trial.go_on();
                None
            }
        };
        let state = match trial.state() {
            TrialState::Settled => "settled".to_owned(),
            TrialState::OnTrial { broke, of } => format!("{broke}/{of}"),
            TrialState::Failed => "failed".to_owned(),
        };
        assert_eq!(trial.holds(), trial.state() == TrialState::Failed, "{steps:?}");
        assert_eq!(trial.spares(), trial.state() != TrialState::Settled, "{steps:?}");
        seen.push(match verdict {
            None => state,
            Some(TrialVerdict::Passed) => format!("{state}, passed"),
            Some(TrialVerdict::Failed { attempts, .. }) => format!("{state}, failed after {attempts}"),
        });
    }
    seen
}

#[test]
fn the_states_follow_the_table() {
    use Act::{Answer, Break, GoOn, Swap};
    for (steps, want) in [
        (vec![Answer, Break, Swap(0), GoOn], vec!["settled"; 4]),
        (vec![Swap(2), Answer, Break, Break], vec!["0/2", "settled, passed", "settled", "settled"]),
        (vec![Swap(2), Break, Answer], vec!["0/2", "1/2", "settled, passed"]),
        (vec![Swap(2), GoOn, Break, GoOn], vec!["0/2", "0/2", "1/2", "1/2"]),
        (vec![Swap(1), Break, Break, Answer], vec!["0/1", "failed, failed after 1", "failed", "failed"]),
        (
            vec![Swap(2), Break, Break, GoOn, Break],
            vec!["0/2", "1/2", "failed, failed after 2", "settled", "settled"],
        ),
        (vec![Swap(2), Break, Swap(3), Break], vec!["0/2", "1/2", "0/3", "1/3"]),
        (vec![Swap(2), Break, Swap(0), Break], vec!["0/2", "1/2", "settled", "settled"]),
        (
            vec![Swap(1), Break, Swap(1), Break],
            vec!["0/1", "failed, failed after 1", "0/1", "failed, failed after 1"],
        ),
        (vec![Swap(1), Break, Swap(0), Break], vec!["0/1", "failed, failed after 1", "settled", "settled"]),
    ] {
        assert_eq!(states(&steps), want, "{steps:?}");
    }
}

#[test]
fn what_broke_is_forgiven_once_each_unless_the_trial_was_passed_or_overruled() {
    let mut trial = Trial::default();
    trial.begin(Some(of(3)));
    for name in ["a", "b", "a", "c"] {
        trial.broke(&key(name), &Arc::from("boom"));
    }
    assert_eq!(trial.begin(None), [key("a"), key("b"), key("a"), key("c")], "what came back afterwards too");
    assert_eq!(trial.begin(Some(of(1))), [], "once");
    trial.broke(&key("a"), &Arc::from("boom"));
    assert!(trial.go_on());
    assert_eq!(trial.begin(Some(of(2))), [], "overruled");
    trial.broke(&key("a"), &Arc::from("boom"));
    trial.answered();
    assert_eq!(trial.begin(None), [], "passed");
}

/// What an observer was told, as lines.
#[derive(Default)]
struct Watch(StdMutex<Vec<String>>);

impl Watch {
    fn say(&self, line: String) {
        self.0.lock().expect("said").push(line);
    }

    fn said(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("said"))
    }
}

impl Observer for Watch {
    fn given_up(&self, delivery: &Delivery, _: &Outcome) {
        self.say(format!("given up {}", delivery.event.key()));
    }

    fn health(&self, change: &HealthChange) {
        if let HealthChange::Quarantined { .. } = change {
            self.say("quarantined".into());
        }
    }

    fn trial(&self, verdict: &TrialVerdict) {
        self.say(match verdict {
            TrialVerdict::Passed => "passed".into(),
            TrialVerdict::Failed { attempts, cause } => format!("failed after {attempts}: {cause}"),
        });
    }

    fn swapped(&self) {
        self.say("swapped".into());
    }
}

/// A listener that runs with a good handler, and what is seen of it.
struct Case {
    listener: Listener,
    pods: Arc<SharedInformer>,
    told: Told,
    watch: Arc<Watch>,
    task: tokio::task::JoinHandle<Ended>,
}

impl Case {
    async fn new(config: ListenerConfig) -> Self {
        let (watch, pods, told) = (Arc::new(Watch::default()), informer("Pod"), Told::default());
        let listener = Listener::new(config, watch.clone());
        synced(&pods);
        let task = start(&listener, vec![recorder(1, &told)], &pods);
        idle().await;
        Self { listener, pods, told, watch, task }
    }

    async fn swap(&self, handlers: Vec<Box<dyn EventHandler>>, on_swap: OnSwap, attempts: u32) {
        let joined = vec![subscription("pods", 0, &self.pods)];
        let swap = Swap { trial: NonZeroU32::new(attempts), ..Swap::new(handlers, joined, on_swap) };
        self.listener.swap(swap).await.expect("it swapped");
    }

    /// A handler that breaks at each event, and says which attempt it was.
    fn broken(&self) -> Box<dyn EventHandler> {
        let watch = self.watch.clone();
        scripted(&self.told, move |delivery| {
            watch.say(format!("{} #{}", delivery.event.key().name(), delivery.attempt));
            Outcome::Trap("boom".into())
        })
    }

    fn put(&self, names: &[&str], version: u32) {
        for name in names {
            put(&self.pods, &format!("n/{name}"), "u", version);
        }
    }

    fn told(&self) -> Vec<String> {
        let lines = lines(&self.told);
        self.told.lock().expect("told").clear();
        lines
    }
}

/// One whose handlers have failed their trial at `a`, `a` again, and `b`.
async fn failed(config: ListenerConfig) -> Case {
    let case = Case::new(config).await;
    case.swap(vec![case.broken()], OnSwap::Continue, 3).await;
    case.put(&["a"], 1);
    tokio::time::sleep(Duration::from_millis(700)).await;
    case.put(&["b"], 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let want = ["swapped", "a #1", "a #2", "b #1", "failed after 3: add n/b: trap: boom"];
    assert_eq!(case.watch.said(), want, "it is told once, and nothing is handed over afterwards");
    assert_eq!(case.listener.trial(), TrialState::Failed);
    case
}

#[tokio::test(start_paused = true)]
async fn others_take_a_failed_ones_queue_over_and_what_it_broke_at_is_forgiven() {
    for on_swap in [OnSwap::Continue, OnSwap::Replay] {
        // Each of them would have been given up at once.
        let config =
            ListenerConfig { max_attempts: 1, quarantine_after: Some(1), ..ListenerConfig::default() };
        let case = failed(config).await;
        case.put(&["c"], 2);
        remove(&case.pods, "n/b", "u", 3);
        case.swap(vec![recorder(3, &case.told)], on_swap, 0).await;
        idle().await;
        let initial = if on_swap == OnSwap::Replay { " initial" } else { "" };
        let mut told = case.told();
        told.sort();
        let want =
            [format!("add n/a 1{initial}"), format!("add n/c 2{initial}"), "delete n/b 3 deleted".into()];
        assert_eq!(told, want, "without waiting for any back-off");
        assert_eq!(case.watch.said(), ["swapped"], "nothing is given up, and there is no quarantine");
        assert_eq!((case.listener.trial(), case.listener.stats().pending), (TrialState::Settled, 0));
        assert_eq!(case.listener.stats().retrying, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn breaks_from_before_the_trial_count_on_after_it() {
    let config = ListenerConfig { max_attempts: 3, ..ListenerConfig::default() };
    let case = Case::new(config).await;
    case.swap(vec![case.broken()], OnSwap::Continue, 0).await;
    case.put(&["a"], 1);
    idle().await;
    // One break that counts, then two that do not, then one that does.
    case.swap(vec![case.broken()], OnSwap::Continue, 2).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    case.swap(vec![case.broken()], OnSwap::Continue, 0).await;
    idle().await;
    let want = [
        "swapped",
        "a #1",
        "swapped",
        "a #2",
        "a #3",
        "failed after 2: add n/a: trap: boom",
        "swapped",
        "a #4",
    ];
    assert_eq!(case.watch.said(), want);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(case.watch.said(), ["a #5", "given up n/a"]);
}

#[tokio::test(start_paused = true)]
async fn a_trial_is_passed_by_any_answer_and_what_broke_before_it_counts() {
    for answer in [Outcome::Ok, retry(), Outcome::Permanent("no".into())] {
        let config = ListenerConfig { max_attempts: 2, ..ListenerConfig::default() };
        let case = Case::new(config).await;
        let handler = scripted(&case.told, move |delivery| match delivery.event.key().name() {
            "z" => answer.clone(),
            _ => Outcome::Timeout("slow".into()),
        });
        case.swap(vec![handler], OnSwap::Replay, 3).await;
        case.put(&["a"], 1);
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert_eq!(case.watch.said(), ["swapped"], "two breaks, and nothing is given up on trial");
        case.put(&["z"], 2);
        idle().await;
        assert_eq!(case.watch.said(), ["passed"]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(case.watch.said(), ["given up n/a"], "at its next break");
    }
}

#[tokio::test(start_paused = true)]
async fn told_to_go_on_it_does_as_without_a_trial() {
    let case = failed(ListenerConfig { max_attempts: 3, ..ListenerConfig::default() }).await;
    case.listener.go_on();
    case.listener.go_on();
    idle().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let said = case.watch.said();
    assert_eq!(said, ["a #3", "given up n/a", "b #2", "b #3", "given up n/b"]);
    assert_eq!(case.listener.trial(), TrialState::Settled);
    assert_eq!(case.listener.stats().dead, 2);
}

#[tokio::test(start_paused = true)]
async fn another_swap_cuts_a_trial_short_without_a_verdict() {
    let case = Case::new(ListenerConfig::default()).await;
    case.swap(vec![case.broken()], OnSwap::Continue, 2).await;
    case.put(&["a"], 1);
    idle().await;
    assert_eq!(case.listener.trial(), TrialState::OnTrial { broke: 1, of: of(2) });
    case.swap(vec![case.broken()], OnSwap::Continue, 2).await;
    idle().await;
    assert_eq!(case.listener.trial(), TrialState::OnTrial { broke: 1, of: of(2) });
    assert_eq!(case.watch.said(), ["swapped", "a #1", "swapped", "a #2"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_handlers_may_be_on_trial_too() {
    let (watch, pods, told) = (Arc::new(Watch::default()), informer("Pod"), Told::default());
    let listener = Listener::new(ListenerConfig::default(), watch.clone());
    listener.put_on_trial(of(2));
    put(&pods, "n/a", "u", 1);
    put(&pods, "n/b", "u", 1);
    synced(&pods);
    let task = start(&listener, vec![scripted(&told, |_| Outcome::Trap("boom".into()))], &pods);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(watch.said(), ["failed after 2: add n/b: trap: boom"]);
    assert_eq!((listener.stats().pending, listener.has_synced()), (2, false));
    listener.close();
    assert_eq!(task.await.expect("it ends"), Ended::Closed { abandoned: 2 });
}

#[tokio::test(start_paused = true)]
async fn the_end_and_a_removal_do_not_wait_for_a_failed_ones_successor() {
    for drain in [true, false] {
        let case = failed(ListenerConfig::default()).await;
        let begun = Instant::now();
        case.put(&["z"], 2);
        if drain {
            case.listener.drain();
            assert_eq!(case.task.await.expect("it ends"), Ended::Drained { abandoned: 3 });
        } else {
            let removed = case.listener.remove_and_wait("pods").await;
            assert_eq!(removed, Ok(Removed { registrations: 1, dropped: 3 }));
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(case.watch.said(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_replay_waits_for_what_becomes_of_a_failed_trial() {
    let config = ListenerConfig { on_restart: OnRestart::Replay, ..ListenerConfig::default() };
    let case = Case::new(config).await;
    case.put(&["x", "y"], 1);
    settle(&case.listener).await;
    case.told();
    case.swap(vec![case.broken()], OnSwap::Continue, 1).await;
    case.put(&["a"], 2);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(case.listener.stats().restarts, 0);
    case.swap(vec![recorder(3, &case.told)], OnSwap::Continue, 0).await;
    settle(&case.listener).await;
    assert_eq!(case.told(), ["add n/a 2"], "those that it was for are gone");
}

#[tokio::test(start_paused = true)]
async fn on_trial_one_event_is_handed_over_at_a_time_so_no_answer_comes_late() {
    let (slow, quick) = lanes::two_keys();
    let case = Case::new(ListenerConfig::default()).await;
    let (stuck, gate) = gated(&case.told);
    case.swap(vec![stuck, case.broken()], OnSwap::Continue, 1).await;
    put(&case.pods, &slow, "u", 1);
    put(&case.pods, &quick, "u", 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(case.listener.trial(), TrialState::OnTrial { broke: 0, of: of(1) });
    assert_eq!(case.watch.said(), ["swapped"], "the other lane waits for the answer");
    gate.add_permits(1);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let name = quick.trim_start_matches("n/");
    assert_eq!(case.watch.said(), ["passed".to_owned(), format!("{name} #1")], "and then goes on");
}

#[tokio::test(start_paused = true)]
async fn attempts_count_over_all_lanes_and_what_takes_over_is_told_all_of_it() {
    let (one, other) = lanes::two_keys();
    let case = Case::new(ListenerConfig::default()).await;
    case.swap(vec![case.broken(), case.broken()], OnSwap::Continue, 2).await;
    put(&case.pods, &one, "u", 1);
    put(&case.pods, &other, "u", 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((case.listener.trial(), case.listener.stats().outcomes.trap), (TrialState::Failed, 2));
    case.told();
    case.swap(vec![recorder(3, &case.told)], OnSwap::Continue, 0).await;
    settle(&case.listener).await;
    let (mut told, mut want) = (case.told(), vec![format!("add {one} 1"), format!("add {other} 1")]);
    told.sort();
    want.sort();
    assert_eq!(told, want);
}
