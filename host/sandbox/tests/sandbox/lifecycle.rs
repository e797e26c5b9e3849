//! The export `lifecycle`: what is called when, what its faults cost, and what is counted meanwhile. How state goes from
//! one instance to the next is in `inheriting`.

use std::sync::Arc;
use std::time::Duration;

use hark_informer::handler::{EventHandler, Outcome, Stop};
use hark_sandbox::{Cap, Limits, PluginHandler, Restart, StartError, StartReason};

use crate::stateful::{ASK, Lives, REFUSE, SPIN, TRAP, on};
use crate::support::{Guest, Host, Objects, add, context, delete, delivery, short};
use crate::wasi;

const REASONS: [StartReason; 6] = [
    StartReason::First,
    StartReason::Reload,
    StartReason::Settings,
    StartReason::Restart,
    StartReason::Recycle,
    StartReason::Rollback,
];

const NO_LINES: [&str; 0] = [];

async fn started(lives: &Lives) -> Host {
    Host::started(lives.guest().load(), short(), StartReason::First).await.expect("it starts")
}

// === without the export ===

#[tokio::test]
async fn a_plugin_without_it_is_asked_nothing_and_has_no_instance_before_its_first_event() {
    let plugin = Guest::default().load();
    assert!(!plugin.has_lifecycle());
    let mut host =
        Host::started(plugin, short(), StartReason::Reload).await.expect("there is nothing to start");
    assert_eq!(host.usage.instances(), 0);
    let left: hark_informer::handler::Legacy = Arc::new(7);
    assert_eq!(host.handler.restore(Some(left)).await, Ok(()));
    host.handler.synced(0).await;
    assert!(host.handler.save().await.expect("no answer").is_none());
    assert_eq!((host.usage.instances(), host.usage.host_calls()), (0, 0));
    assert_eq!((host.add().await, host.usage.instances()), (Outcome::Ok, 1));
    assert!(host.handler.save().await.expect("no answer").is_none());
    host.handler.stop(Stop::Drained).await;
    assert_eq!(host.add().await, Outcome::Ok, "it was told nothing");
    assert!(host.lines.all().is_empty());
}

// === the way of an instance ===

#[tokio::test]
async fn an_instance_starts_before_its_events_and_stops_after_them() {
    for (number, reason) in (0..).zip(REASONS) {
        let plugin = Lives::default().guest().load();
        assert!(plugin.has_lifecycle());
        let mut host = Host::started(plugin, short(), reason).await.expect("it starts");
        assert_eq!(host.usage.instances(), 1);
        host.add().await;
        host.handler.synced(7).await;
        host.add().await;
        host.handler.stop(Stop::Drained).await;
        let start = format!("start {number}");
        let want = [start.as_str(), "add 1", "synced 7", "add 2", "stop 3"];
        assert_eq!(host.said().0, want, "{reason:?}");
        assert_eq!(host.usage.instances(), 0);
    }
}

#[tokio::test]
async fn why_it_stops_is_told() {
    for (why, number) in [(Stop::Replaced, 0), (Stop::Closed, 2), (Stop::Drained, 3), (Stop::Unused, 4)] {
        let mut host = started(&Lives::default()).await;
        host.handler.stop(why).await;
        assert_eq!(host.said().0, ["start 0".to_owned(), format!("stop {number}")]);
    }
}

#[tokio::test]
async fn one_that_is_never_needed_is_told_so() {
    let (context, lines) = context(short());
    let plugin = Lives { stop: TRAP.into(), ..Lives::default() }.guest().load();
    let started = plugin.start(&context, StartReason::Reload).await.expect("it starts");
    assert!(started.is_instance());
    started.discard().await;
    let lines: Vec<_> = lines.all().into_iter().map(|line| line.message).collect();
    let trap = "in stop: wasm trap: wasm `unreachable` instruction executed in stop";
    assert_eq!(lines, ["start 1", "stop 4", trap]);
    assert_eq!((context.usage.instances(), context.usage.memory()), (0, 0));
    Guest::default().load().start(&context, StartReason::First).await.expect("nothing").discard().await;
}

#[tokio::test]
async fn without_a_start_ahead_the_first_event_starts_it() {
    let (context, lines) = context(short());
    let plugin = Lives::default().guest().load();
    let mut handler =
        PluginHandler::new(plugin, context, Arc::new(Objects::default()), None, StartReason::Rollback);
    let event = delivery(add("a"));
    assert_eq!(handler.handle(&event).await, Outcome::Ok);
    let said: Vec<_> = lines.all().into_iter().map(|line| (line.message, line.key)).collect();
    let of_event = |message: &str| (message.to_owned(), Some("n/a".to_owned()));
    assert_eq!(said, [of_event("start 5"), of_event("add 1")]);
}

#[tokio::test]
async fn after_a_fault_the_next_event_starts_another() {
    let mut host = started(&Lives { add: on(0, TRAP).replace("$n", "$sub"), ..Lives::default() }).await;
    assert!(matches!(host.add().await, Outcome::Trap(_)));
    assert_eq!(host.handle(delete("a")).await, Outcome::Ok);
    host.handler.stop(Stop::Replaced).await;
    assert_eq!(host.said(), (["start 0", "add 1", "start 3", "stop 0"].map(Into::into).into(), vec![]));
    assert_eq!(Restart::ALL.map(|reason| host.usage.restarts(reason)), [1, 0, 0]);
}

#[tokio::test]
async fn one_that_broke_is_not_told_that_it_ends() {
    let mut host = started(&Lives { add: TRAP.into(), ..Lives::default() }).await;
    assert!(matches!(host.add().await, Outcome::Trap(_)));
    host.handler.stop(Stop::Drained).await;
    assert_eq!(host.said().0, ["start 0", "add 1"]);
}

#[tokio::test]
async fn the_next_event_starts_another_on_its_own_account() {
    let trap = "in start: wasm trap: wasm `unreachable` instruction executed in start";
    let cases = [
        (REFUSE, Outcome::Retry { message: "it refuses to start: not today".into(), after: None }, [1, 0, 0]),
        (TRAP, Outcome::Trap(trap.into()), [2, 0, 0]),
        (
            SPIN,
            Outcome::Timeout("in start: used its deadline of 50ms (limits.deadline) in start".into()),
            [1, 1, 0],
        ),
    ];
    for (fault, want, restarts) in cases {
        let mut host = started(&Lives { add: TRAP.into(), ..Lives::starting(&[3], fault) }).await;
        assert!(matches!(host.add().await, Outcome::Trap(_)));
        assert_eq!(host.handle(delete("a")).await, want);
        assert_eq!(Restart::ALL.map(|reason| host.usage.restarts(reason)), restarts);
        assert_eq!(host.handle(delete("a")).await, want, "and is tried again");
        assert_eq!(host.usage.instances(), 0);
        assert_eq!(host.said(), (["start 0", "add 1", "start 3", "start 3"].map(Into::into).into(), vec![]));
    }
}

// === start ===

#[tokio::test]
async fn why_it_does_not_start_is_told() {
    let unreachable = "in start: wasm trap: wasm `unreachable` instruction executed in start";
    let cases = [
        (REFUSE, StartError::Refused("not today".into()), "it refuses to start: not today"),
        (TRAP, StartError::Trap(unreachable.into()), "it does not start: in start: wasm trap: "),
        (
            SPIN,
            StartError::Timeout("in start: used its deadline of 50ms (limits.deadline) in start".into()),
            "it does not start in time: in start: used its deadline",
        ),
    ];
    for (fault, want, says) in cases {
        for reason in REASONS {
            let plugin = Lives { start: fault.into(), ..Lives::default() }.guest().load();
            let (context, _) = context(short());
            let error = plugin.start(&context, reason).await.expect_err("it does not start");
            assert_eq!(error, want);
            assert!(error.to_string().starts_with(says), "{error}");
            let hits = usize::from(fault == SPIN);
            assert_eq!(context.usage.cap_hits(Cap::Deadline), hits as u64);
            assert_eq!((context.usage.instances(), context.usage.memory()), (0, 0));
            assert_eq!(Restart::ALL.map(|reason| context.usage.restarts(reason)), [0, 0, 0]);
        }
    }
}

#[tokio::test]
async fn one_that_cannot_even_be_made_does_not_start() {
    let plugin = Guest { pages: 20, ..Lives::default().guest() }.load();
    let (context, _) = context(Limits { memory: 1 << 20, ..short() });
    let error = plugin.start(&context, StartReason::First).await.expect_err("too large");
    let want = "it does not start: while starting an instance: its memory cap of 1 MiB is reached: ";
    assert!(error.to_string().starts_with(want), "{error}");
    assert_eq!(context.usage.cap_hits(Cap::Memory), 1);
}

#[tokio::test]
async fn it_may_be_started_on_another_thread_and_is_counted_all_the_same() {
    let (context, _) = context(Limits { deadline: None, ..Limits::default() });
    let plugin = Lives { start: WORK.into(), add: WORK.into(), ..Lives::default() }.guest().load();
    let thread = {
        let (plugin, context) = (plugin.clone(), context.clone());
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
            runtime.block_on(plugin.start(&context, StartReason::First)).expect("it starts")
        })
    };
    let started = thread.join().expect("no panic");
    let usage = Arc::clone(&context.usage);
    let after_start = usage.cpu();
    assert!(after_start > Duration::ZERO, "the time of the other thread");
    assert_eq!((usage.instances(), usage.memory()), (1, 4 << 16));
    let cache = Arc::new(Objects::default());
    let mut handler = PluginHandler::new(plugin, context, cache, Some(started), StartReason::First);
    assert_eq!(handler.handle(&delivery(add("a"))).await, Outcome::Ok);
    assert_eq!((usage.instances(), usage.memory()), (1, 4 << 16));
    drop(handler);
    assert!(usage.cpu() > after_start);
    assert_eq!((usage.instances(), usage.memory()), (0, 0));
}

/// Some milliseconds of work.
const WORK: &str = "(i32.store (i32.const 8600) (i32.const 0))
    (loop $l
        (i32.store (i32.const 8600) (i32.add (i32.load (i32.const 8600)) (i32.const 1)))
        (br_if $l (i32.lt_u (i32.load (i32.const 8600)) (i32.const 3000000))))";

#[tokio::test(start_paused = true)]
async fn what_is_started_for_an_event_is_on_its_budget_and_what_is_started_ahead_has_its_own() {
    let wait = "(call $block (call $after (i64.const 9000000000)))".repeat(2);
    let lives = Lives { start: wait.clone(), add: wait, imports: wasi::IMPORTS.into(), ..Lives::default() };
    let plugin = wasi::stateful(&lives.guest());
    let mut host = Host::started(plugin, Limits::default(), StartReason::First).await.expect("18 s of 30");
    for _ in 0..2 {
        assert_eq!(host.add().await, Outcome::Ok, "18 s of 30 for each event");
    }
    let mut host = Host::with(wasi::stateful(&lives.guest()), Limits::default(), Objects::default());
    let want = "used its budget of 30s for one event (limits.budget)";
    assert_eq!(host.add().await, Outcome::Timeout(want.into()), "36 s of 30");
}

// === synced, stop ===

#[tokio::test]
async fn a_fault_when_it_is_told_that_it_is_synced_costs_the_instance_and_nothing_else() {
    let says = "it was not told that subscription 0 is synced: in synced: ";
    let cases = [
        (TRAP, "wasm trap: wasm `unreachable` instruction executed in synced", [1, 0, 0]),
        (SPIN, "used its deadline of 50ms (limits.deadline) in synced", [0, 1, 0]),
    ];
    for (fault, cause, restarts) in cases {
        let mut host = started(&Lives { synced: fault.into(), ..Lives::default() }).await;
        host.handler.synced(0).await;
        assert_eq!(host.said().1, [format!("{says}{cause}")]);
        assert_eq!(Restart::ALL.map(|reason| host.usage.restarts(reason)), restarts);
        assert_eq!(host.add().await, Outcome::Ok);
        assert_eq!(host.said(), (["start 3", "add 1"].map(Into::into).into(), vec![]));
    }
}

#[tokio::test]
async fn a_fresh_instance_is_made_to_be_told_that_it_is_synced() {
    let mut host = started(&Lives { add: TRAP.into(), ..Lives::default() }).await;
    assert!(matches!(host.add().await, Outcome::Trap(_)));
    host.handler.synced(2).await;
    assert_eq!(host.said(), (["start 0", "add 1", "start 3", "synced 2"].map(Into::into).into(), vec![]));
    let mut host = started(&Lives { add: TRAP.into(), ..Lives::starting(&[3], REFUSE) }).await;
    assert!(matches!(host.add().await, Outcome::Trap(_)));
    host.handler.synced(2).await;
    let says = "it was not told that subscription 2 is synced: it refuses to start: not today";
    assert_eq!(host.said().1, [says]);
}

#[tokio::test]
async fn a_fault_when_it_is_told_that_it_ends_is_logged() {
    let cases = [
        (TRAP, "in stop: wasm trap: wasm `unreachable` instruction executed in stop"),
        (SPIN, "in stop: used its deadline of 50ms (limits.deadline) in stop"),
    ];
    for (fault, want) in cases {
        let mut host = started(&Lives { stop: fault.into(), ..Lives::default() }).await;
        host.handler.stop(Stop::Closed).await;
        assert_eq!(host.said(), (["start 0", "stop 2"].map(Into::into).into(), vec![want.into()]));
        assert_eq!(host.usage.instances(), 0);
        assert_eq!(Restart::ALL.map(|reason| host.usage.restarts(reason)), [0, 0, 0], "nothing goes on");
        assert_eq!(host.usage.cap_hits(Cap::Deadline), u64::from(fault == SPIN));
    }
}

// === what it sees meanwhile ===

#[tokio::test]
async fn a_new_version_sees_its_cache_from_the_first_call_after_its_start_on() {
    let asks = || Lives {
        start: ASK.into(),
        restore: ASK.into(),
        save: ASK.into(),
        stop: ASK.into(),
        synced: ASK.into(),
        add: format!("{ASK} {}", on(0, "unreachable").replace("$n", "$initial")),
        ..Lives::default()
    };
    let mut host = started(&asks()).await;
    assert_eq!(host.said().0, ["start 0", "cache 0"]);
    host.handler.synced(0).await;
    assert_eq!(host.said().0, ["synced 0", "cache 1"]);
    let left = host.handler.save().await.expect("it saves");
    assert_eq!(host.said().0, ["save 0", "cache 1"]);
    let mut next =
        Host::started(asks().guest().load(), short(), StartReason::Reload).await.expect("it starts");
    next.handler.restore(left).await.expect("it restores");
    assert_eq!(next.said().0, ["start 1", "cache 0", "restore 0", "cache 0"]);
    next.handler.stop(Stop::Drained).await;
    assert_eq!(next.said().0, ["stop 3", "cache 1"]);
    let mut event = add("a");
    if let hark_informer::handler::Event::Add { initial, .. } = &mut event {
        *initial = false;
    }
    assert!(matches!(host.handle(event).await, Outcome::Trap(_)));
    assert_eq!(host.add().await, Outcome::Ok);
    let want = ["add 1", "cache 1", "start 3", "cache 1", "add 1", "cache 1"];
    assert_eq!(host.said().0, want, "after a trap it sees it at once");
}

#[tokio::test]
async fn none_of_its_calls_is_an_event() {
    let attempts = "(call $attempts)";
    let mut host = started(&Lives {
        start: attempts.into(),
        save: attempts.into(),
        stop: attempts.into(),
        synced: attempts.into(),
        add: attempts.into(),
        ..Lives::default()
    })
    .await;
    host.add().await;
    host.handler.synced(0).await;
    host.handler.save().await.expect("it saves");
    host.handler.stop(Stop::Closed).await;
    let said: Vec<_> = host.lines.all().into_iter().map(|line| (line.message, line.key.is_some())).collect();
    let want = [
        ("start 0", false),
        ("attempt 0", false),
        ("add 1", true),
        ("attempt 2", true),
        ("synced 0", false),
        ("attempt 0", false),
        ("save 1", false),
        ("attempt 0", false),
        ("stop 2", false),
        ("attempt 0", false),
    ];
    assert_eq!(said, want.map(|(line, of_event)| (line.to_owned(), of_event)));
    assert_eq!(host.said().1, NO_LINES);
}
