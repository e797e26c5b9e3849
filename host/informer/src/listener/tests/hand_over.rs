//! What handlers are asked besides events: to save, to restore, to forget, to stop; in which order, and what follows
//! where they cannot.

use tokio::sync::Semaphore;

use super::*;
use crate::handler::{AsideFuture, Legacy, NothingNeeded, Stop};

type Log = Arc<StdMutex<Vec<String>>>;

/// How a handler takes what it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mood {
    #[default]
    Fine,
    Refuses,
    Panics,
    /// Waits for a permit.
    Waits,
}
use Mood::{Fine, Panics, Refuses, Waits};

/// What a handler saves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Leaves {
    /// Its own name.
    #[default]
    State,
    NothingNeeded,
    Nothing,
}

/// Changes the handler of a lane.
type Set = fn(usize, &mut Heir);

/// Of a swap: the old ones, the new ones, and how many new ones.
type Handlers = (Set, Set, usize);

type Lines = &'static [&'static str];

/// Says what it is asked.
struct Heir {
    name: String,
    log: Log,
    leaves: Leaves,
    handle: Mood,
    save: Mood,
    restore: Mood,
    stop: Mood,
    gate: Arc<Semaphore>,
}

impl Heir {
    fn say(&self, what: &str) {
        self.log.lock().expect("log").push(format!("{} {what}", self.name));
    }

    async fn takes(&self, mood: Mood) -> Result<(), String> {
        match mood {
            Fine => Ok(()),
            Refuses => Err("not today".into()),
            Panics => panic!("oh no"),
            Waits => {
                self.gate.acquire().await.expect("the gate stays").forget();
                Ok(())
            }
        }
    }
}

impl EventHandler for Heir {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(async move {
            self.say(&format!("{} {}", delivery.event.op(), delivery.event.key()));
            self.takes(self.handle).await.map_or_else(Outcome::Permanent, |()| Outcome::Ok)
        })
    }

    fn save<'a>(&'a mut self) -> AsideFuture<'a, Result<Option<Legacy>, String>> {
        Box::pin(async move {
            self.say("save");
            self.takes(self.save).await?;
            let left: Option<Legacy> = match self.leaves {
                Leaves::State => Some(Arc::new(self.name.clone())),
                Leaves::NothingNeeded => Some(Arc::new(NothingNeeded)),
                Leaves::Nothing => None,
            };
            Ok(left)
        })
    }

    fn restore<'a>(&'a mut self, legacy: Option<Legacy>) -> AsideFuture<'a, Result<(), String>> {
        Box::pin(async move {
            self.say(&format!("restore {}", text(legacy.as_ref())));
            self.takes(self.restore).await
        })
    }

    fn stop<'a>(&'a mut self, why: Stop) -> AsideFuture<'a, ()> {
        Box::pin(async move {
            self.say(&format!("stop {why:?}"));
            let _ = self.takes(self.stop).await;
        })
    }
}

impl Drop for Heir {
    fn drop(&mut self) {
        self.say("dropped");
    }
}

fn text(legacy: Option<&Legacy>) -> String {
    match legacy {
        None => "none".into(),
        Some(legacy) if legacy.is::<NothingNeeded>() => "nothing-needed".into(),
        Some(legacy) => legacy.downcast_ref::<String>().expect("a name").clone(),
    }
}

fn texts(legacies: &[Option<Legacy>]) -> Vec<String> {
    legacies.iter().map(|legacy| text(legacy.as_ref())).collect()
}

/// A listener with one subscription of some objects, and what its handlers said.
struct Case {
    log: Log,
    listener: Listener,
    pods: Arc<SharedInformer>,
    gate: Arc<Semaphore>,
    task: tokio::task::JoinHandle<Ended>,
}

impl Case {
    /// Runs with so many handlers called `a`, which have been told of one object.
    async fn start(lanes: usize, set: impl Fn(usize, &mut Heir)) -> Self {
        Self::start_with(lanes, 0, set).await
    }

    /// The same, where somebody waits for so many permits until then.
    async fn start_with(lanes: usize, permits: usize, set: impl Fn(usize, &mut Heir)) -> Self {
        let (log, listener, pods) = (Log::default(), listener(), informer("Pod"));
        let gate = Arc::new(Semaphore::new(permits));
        put(&pods, "n/x", "u", 1);
        synced(&pods);
        let first = heirs(&log, &gate, "a", lanes, set);
        let task = super::start(&listener, first, &pods);
        assert!(listener.synced().await);
        idle().await;
        log.lock().expect("log").clear();
        Self { log, listener, pods, gate, task }
    }

    /// A swap to so many handlers called `name`.
    fn to(&self, name: &str, lanes: usize, on_swap: OnSwap, set: impl Fn(usize, &mut Heir)) -> Swap {
        let handlers = heirs(&self.log, &self.gate, name, lanes, set);
        Swap::new(handlers, vec![subscription("pods", 0, &self.pods)], on_swap)
    }

    /// What was said since the last look.
    fn said(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().expect("log"))
    }

    async fn swap(&self, swap: Swap) -> SwapReport {
        let report = self.listener.swap(swap).await.expect("it swapped");
        idle().await;
        report
    }
}

fn heirs(
    log: &Log,
    gate: &Arc<Semaphore>,
    name: &str,
    lanes: usize,
    set: impl Fn(usize, &mut Heir),
) -> Vec<Box<dyn EventHandler>> {
    let heir = |lane: usize| -> Box<dyn EventHandler> {
        let mut heir = Heir {
            name: format!("{name}{lane}"),
            log: log.clone(),
            leaves: Leaves::default(),
            handle: Fine,
            save: Fine,
            restore: Fine,
            stop: Fine,
            gate: gate.clone(),
        };
        set(lane, &mut heir);
        Box::new(heir)
    };
    (0..lanes).map(heir).collect()
}

fn as_usual(_: usize, _: &mut Heir) {}

#[tokio::test(start_paused = true)]
async fn what_each_lane_leaves_is_passed_on_then_the_old_ones_stop() {
    for (on_swap, events) in [(OnSwap::Continue, 0), (OnSwap::Replay, 1)] {
        let case = Case::start(2, as_usual).await;
        let report = case.swap(case.to("b", 2, on_swap, as_usual)).await;
        assert!(
            matches!(&report.hand_over, HandOver::Kept(kept) if texts(kept) == ["a0", "a1"]),
            "{report:?}"
        );
        assert_eq!(texts(&report.saved), ["a0", "a1"]);
        assert_eq!(counts(&report), (1, 0, 0, 0));
        let said = case.said();
        let (asides, told) = said.split_at(8);
        assert_eq!(
            asides,
            [
                "a0 save",
                "a1 save",
                "b0 restore a0",
                "b1 restore a1",
                "a0 stop Replaced",
                "a1 stop Replaced",
                "a0 dropped",
                "a1 dropped"
            ]
        );
        assert_eq!(told.len(), events, "{told:?}: a state that was restored changes nothing about on_swap");
    }
}

/// Whatever fails, the new handlers begin afresh, are told of everything, and it is said why.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_passed_on_makes_a_fresh_start_with_a_replay() {
    let second: fn(Mood) -> Set = |mood| match mood {
        Refuses => |lane, heir| heir.save = if lane == 1 { Refuses } else { Fine },
        _ => |lane, heir| heir.save = if lane == 1 { Panics } else { Fine },
    };
    let restores: Set = |lane, heir| heir.restore = if lane == 0 { Refuses } else { Fine };
    let panics: Set = |_, heir| heir.restore = Panics;
    let nothing: Set = |_, heir| heir.leaves = Leaves::Nothing;
    let cases: [(Handlers, &str, Lines, Lines); 6] = [
        ((second(Refuses), as_usual, 2), "instance 2 of 2: not today", &["a0", "none"], &[]),
        ((second(Panics), as_usual, 2), "instance 2 of 2: panicked: oh no", &["a0", "none"], &[]),
        (
            (as_usual, restores, 2),
            "instance 1 of 2: not today",
            &["a0", "a1"],
            &["b0 restore a0", "b1 restore a1", "b1 restore none"],
        ),
        (
            (as_usual, panics, 2),
            "instance 1 of 2: panicked: oh no",
            &["a0", "a1"],
            &["b0 restore a0", "b1 restore a1"],
        ),
        ((as_usual, as_usual, 3), "what 2 instances have saved cannot be given to 3", &["a0", "a1"], &[]),
        ((nothing, panics, 1), "panicked: oh no", &["none", "none"], &["b0 restore none"]),
    ];
    for ((old, new, lanes), want, saved, asked) in cases {
        let case = Case::start(2, old).await;
        put(&case.pods, "n/y", "u", 2);
        settle(&case.listener).await;
        case.said();
        let report = case.swap(case.to("b", lanes, OnSwap::Continue, new)).await;
        let HandOver::FellBack(why) = &report.hand_over else { panic!("{want}: {report:?}") };
        assert_eq!(why.to_string(), want);
        assert_eq!(texts(&report.saved), saved, "{want}");
        settle(&case.listener).await;
        let said = case.said();
        let of_new: Vec<&str> =
            said.iter().filter(|line| line.starts_with('b')).map(String::as_str).collect();
        let (asides, events) = of_new.split_at_checked(asked.len()).expect("what it was asked");
        assert_eq!(asides, asked, "{want}");
        assert_eq!(events.len(), 2, "{want}: {events:?}: every object again");
        assert_eq!(said.iter().filter(|line| line.contains("stop Replaced")).count(), 2, "{want}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_needs_nothing_is_passed_on_to_any_number_and_nothing_only_where_it_matters() {
    for (leaves, on_swap, asked) in [
        (Leaves::NothingNeeded, OnSwap::Continue, "restore nothing-needed"),
        (Leaves::NothingNeeded, OnSwap::Replay, "restore nothing-needed"),
        (Leaves::Nothing, OnSwap::Continue, "restore none"),
        (Leaves::Nothing, OnSwap::Replay, ""),
    ] {
        let case = Case::start(2, |_, heir| heir.leaves = leaves).await;
        let report = case.swap(case.to("b", 3, on_swap, |_, heir| heir.restore = Fine)).await;
        assert!(matches!(report.hand_over, HandOver::Nothing), "{leaves:?} {on_swap:?}: {report:?}");
        let said = case.said();
        let restores: Vec<&String> = said.iter().filter(|line| line.contains("restore")).collect();
        let want =
            if asked.is_empty() { vec![] } else { (0..3).map(|lane| format!("b{lane} {asked}")).collect() };
        assert_eq!(restores, want.iter().collect::<Vec<_>>(), "{leaves:?} {on_swap:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn handlers_may_be_given_what_others_left_before() {
    let case = Case::start(1, as_usual).await;
    let first = case.swap(case.to("b", 1, OnSwap::Continue, as_usual)).await;
    case.said();
    let back = Swap { inherit: Inherit::Given(first.saved), ..case.to("a", 1, OnSwap::Continue, as_usual) };
    let report = case.swap(back).await;
    assert!(matches!(&report.hand_over, HandOver::Kept(kept) if texts(kept) == ["a0"]), "{report:?}");
    assert!(report.saved.is_empty());
    assert_eq!(case.said(), ["a0 restore a0", "b0 stop Replaced", "b0 dropped"], "b is not asked to save");
    let other = Swap {
        inherit: Inherit::Given(vec![None, None]),
        ..case.to("c", 1, OnSwap::Continue, |_, heir| heir.restore = Refuses)
    };
    assert_eq!(case.swap(other).await.hand_over.fell_back(), Some("not today".into()));
}

#[tokio::test(start_paused = true)]
async fn handlers_that_need_nothing_go_on_whatever_those_before_them_save() {
    for (save, saved) in [(Fine, 2), (Refuses, 0)] {
        let case = Case::start(2, move |_, heir| heir.save = save).await;
        let next = case.to("b", 3, OnSwap::Continue, as_usual);
        let report = case.swap(Swap { inherit: Inherit::Nothing, ..next }).await;
        assert!(matches!(report.hand_over, HandOver::Nothing), "{report:?}");
        assert_eq!(report.saved.iter().flatten().count(), saved, "it is there for whoever keeps it");
        put(&case.pods, "n/y", "u", 2);
        idle().await;
        let said = case.said();
        let told: Vec<&String> =
            said.iter().filter(|line| line.starts_with('b') && line.contains(" add ")).collect();
        assert!(told.len() == 1 && told[0].ends_with("n/y"), "no replay: {told:?}");
    }
}

impl HandOver {
    fn fell_back(&self) -> Option<String> {
        if let Self::FellBack(why) = self { Some(why.to_string()) } else { None }
    }
}

#[tokio::test(start_paused = true)]
async fn while_handlers_hand_over_events_wait_and_the_next_swap_too() {
    let case = Case::start(1, |_, heir| heir.save = Waits).await;
    let first = case.listener.swap(case.to("b", 1, OnSwap::Continue, as_usual));
    idle().await;
    put(&case.pods, "n/y", "u", 2);
    let second = case.listener.swap(case.to("c", 1, OnSwap::Continue, as_usual));
    idle().await;
    assert_eq!(case.said(), ["a0 save"], "offering does not wait, and nothing is begun");
    assert_eq!((case.listener.stats().aside, case.listener.stats().pending), (Some(Aside::HandOver), 1));
    case.gate.add_permits(1);
    assert!(first.await.is_some());
    assert!(second.await.is_some());
    idle().await;
    let want = [
        "b0 restore a0",
        "a0 stop Replaced",
        "a0 dropped",
        "b0 save",
        "c0 restore b0",
        "b0 stop Replaced",
        "b0 dropped",
        "c0 add n/y",
    ];
    assert_eq!(case.said(), want);
    assert_eq!(case.listener.stats().aside, None);
}

#[tokio::test(start_paused = true)]
async fn a_swap_that_waits_for_the_lanes_is_overtaken() {
    let case = Case::start_with(1, 1, |_, heir| heir.handle = Waits).await;
    put(&case.pods, "n/y", "u", 2);
    idle().await;
    let first = case.listener.swap(case.to("b", 1, OnSwap::Continue, as_usual));
    let second = case.listener.swap(case.to("c", 1, OnSwap::Continue, as_usual));
    assert!(first.await.is_none());
    assert_eq!(case.said(), ["a0 add n/y"]);
    case.gate.add_permits(1);
    assert!(second.await.is_some());
    let want = ["a0 save", "c0 restore a0", "a0 stop Replaced", "a0 dropped", "b0 stop Unused", "b0 dropped"];
    assert_eq!(case.said(), want);
}

/// A listener that ends while handlers hand over: how far they get.
#[tokio::test(start_paused = true)]
async fn closing_ends_a_hand_over_between_its_steps_and_draining_waits_for_it() {
    let saving: (Set, Set) = (|_, heir| heir.save = Waits, as_usual);
    let restoring: (Set, Set) = (as_usual, |_, heir| heir.restore = Waits);
    let cases: [(&str, (Set, Set), bool, Lines); 4] = [
        ("closed, saving", saving, false, &["a0 save", "a0 stop Closed", "b0 stop Unused"]),
        (
            "closed, restoring",
            restoring,
            false,
            &["a0 save", "b0 restore a0", "a0 stop Closed", "b0 stop Unused"],
        ),
        (
            "drained, saving",
            saving,
            true,
            &["a0 save", "b0 restore a0", "a0 stop Replaced", "b0 add n/y", "b0 stop Drained"],
        ),
        (
            "drained, restoring",
            restoring,
            true,
            &["a0 save", "b0 restore a0", "a0 stop Replaced", "b0 add n/y", "b0 stop Drained"],
        ),
    ];
    for (name, (old, new), drains, want) in cases {
        let case = Case::start(1, old).await;
        let swap = case.listener.swap(case.to("b", 1, OnSwap::Continue, new));
        idle().await;
        put(&case.pods, "n/y", "u", 2);
        if drains {
            case.listener.drain()
        } else {
            case.listener.close()
        }
        idle().await;
        assert!(!case.task.is_finished(), "{name}: what is under way is waited for");
        let late = case.listener.swap(case.to("c", 1, OnSwap::Continue, as_usual));
        assert!(late.await.is_none(), "{name}");
        case.gate.add_permits(1);
        assert_eq!(swap.await.is_some(), drains, "{name}");
        let (log, gate) = (case.log.clone(), case.gate.clone());
        let ended = case.task.await.expect("it ends");
        assert_eq!(matches!(ended, Ended::Drained { abandoned: 0 }), drains, "{name}: {ended:?}");
        drop(gate);
        let said = std::mem::take(&mut *log.lock().expect("log"));
        let (of_late, said): (Vec<_>, Vec<_>) = said.into_iter().partition(|line| line.starts_with('c'));
        let said: Vec<_> = said.into_iter().filter(|line| !line.contains("dropped")).collect();
        assert_eq!(said, want, "{name}");
        assert_eq!(of_late.len(), 2, "{name}: {of_late:?}: stopped with the others, and dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_abandons_the_hand_over() {
    let case = Case::start(1, |_, heir| heir.save = Waits).await;
    let swap = case.listener.swap(case.to("b", 1, OnSwap::Continue, as_usual));
    let next = case.listener.swap(case.to("c", 1, OnSwap::Continue, as_usual));
    idle().await;
    case.task.abort();
    assert!(swap.await.is_none());
    assert!(next.await.is_none());
    assert_eq!(case.listener.close_and_wait().await, Ok(()));
    let mut said = std::mem::take(&mut *case.log.lock().expect("log"));
    said.sort();
    assert_eq!(said, ["a0 dropped", "a0 save", "b0 dropped", "c0 dropped"], "nobody is asked anything more");
    assert_eq!(Arc::strong_count(&case.pods), 1, "nobody holds the informer any more");
}

#[tokio::test(start_paused = true)]
async fn at_the_end_all_lanes_stop_at_once_inside_run_whatever_stop_does() {
    for drains in [true, false] {
        let case = Case::start(3, |lane, heir| heir.stop = if lane == 2 { Panics } else { Waits }).await;
        if drains {
            case.listener.drain()
        } else {
            case.listener.close()
        }
        idle().await;
        let why = if drains { "Drained" } else { "Closed" };
        assert_eq!(case.said(), [0, 1, 2].map(|lane| format!("a{lane} stop {why}")));
        assert!(!case.task.is_finished());
        assert_eq!(case.listener.stats().aside, Some(Aside::Stop));
        case.gate.add_permits(2);
        case.task.await.expect("it ends");
        assert_eq!(case.log.lock().expect("log").len(), 3, "dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn handlers_of_a_listener_that_was_closed_before_stop_too() {
    let (log, gate, pods) = (Log::default(), Arc::new(Semaphore::new(0)), informer("Pod"));
    let listener = listener();
    listener.close();
    let handlers = heirs(&log, &gate, "a", 1, as_usual);
    let ended = listener.run(handlers, vec![subscription("pods", 0, &pods)]).await;
    assert_eq!(ended, Ended::Closed { abandoned: 0 });
    assert_eq!(*log.lock().expect("log"), ["a0 stop Closed", "a0 dropped"]);
}

#[tokio::test(start_paused = true)]
async fn a_configuration_comes_with_the_handlers_that_it_is_for() {
    let case = Case::start_with(1, 1, |_, heir| heir.handle = Waits).await;
    put(&case.pods, "n/y", "u", 2);
    idle().await;
    let config = ListenerConfig { merge: Merge::Latest, ..ListenerConfig::default() };
    let swap =
        Swap { config: Some(config), ..case.to("b", 1, OnSwap::Continue, |_, heir| heir.handle = Waits) };
    let swapped = case.listener.swap(swap);
    put(&case.pods, "n/z", "u", 3);
    put(&case.pods, "n/z", "u", 4);
    assert_eq!(case.listener.stats().merged, 0, "the old ones are told of everything");
    case.gate.add_permits(1);
    swapped.await.expect("it swapped");
    idle().await;
    put(&case.pods, "n/z", "u", 5);
    put(&case.pods, "n/z", "u", 6);
    assert_eq!(case.listener.stats().merged, 2);
}

#[tokio::test(start_paused = true)]
async fn a_handler_cannot_wait_for_the_end_while_it_saves() {
    struct Ends(Listener, Arc<StdMutex<Option<Result<(), InsideHandler>>>>);
    impl EventHandler for Ends {
        fn handle<'a>(&'a mut self, _: &'a Delivery) -> HandleFuture<'a> {
            Box::pin(async { Outcome::Ok })
        }

        fn save<'a>(&'a mut self) -> AsideFuture<'a, Result<Option<Legacy>, String>> {
            Box::pin(async move {
                *self.1.lock().expect("seen") = Some(self.0.close_and_wait().await);
                Ok(None)
            })
        }
    }
    let (told, listener, pods, seen) = (Told::default(), listener(), informer("Pod"), Arc::default());
    synced(&pods);
    let task = start(&listener, vec![Box::new(Ends(listener.clone(), Arc::clone(&seen)))], &pods);
    assert!(listener.synced().await);
    assert!(listener.swap(Swap::new(vec![recorder(2, &told)], vec![], OnSwap::Replay)).await.is_none());
    assert_eq!(*seen.lock().expect("seen"), Some(Err(InsideHandler)));
    assert_eq!(task.await.expect("it ends"), Ended::Closed { abandoned: 0 });
}
