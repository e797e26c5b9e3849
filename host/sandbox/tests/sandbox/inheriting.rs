//! What a plugin saves for its next version, or its next instance, and what becomes of it when one of the two breaks.

use std::sync::Arc;

use hark_informer::handler::{EventHandler, Legacy, NothingNeeded, Outcome};
use hark_sandbox::{Cap, Limits, PluginHandler, Restart, Saved, StartReason};

use crate::stateful::{Lives, REFUSE, SAVE_NOTHING, SPIN, TRAP};
use crate::support::{Host, Objects, add, context, delivery, short};

const NOTHING_LEFT: &str = "the version before it left nothing to go on from";
const LOST: &str = "its last instance is gone, and what that held in memory is lost";

async fn started(lives: &Lives, reason: StartReason) -> Host {
    Host::started(lives.guest().load(), short(), reason).await.expect("it starts")
}

/// A version that has handled so many events, and what it leaves.
async fn left(events: usize) -> Option<Legacy> {
    let mut host = started(&Lives::default(), StartReason::First).await;
    for _ in 0..events {
        assert_eq!(host.add().await, Outcome::Ok);
    }
    host.handler.save().await.expect("it saves")
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

// === from version to version ===

#[tokio::test]
async fn a_version_goes_on_from_what_the_one_before_saved() {
    let left = left(3).await;
    let Some(Saved::State(state)) = left.as_ref().and_then(Saved::of) else { panic!("a state") };
    assert_eq!((state.format(), state.data(), state.bytes()), ("v1", &[3][..], 3));
    let mut host = started(&Lives::default(), StartReason::Reload).await;
    assert_eq!(host.handler.restore(left).await, Ok(()));
    assert_eq!(host.add().await, Outcome::Ok);
    assert_eq!(host.said(), (lines(&["start 1", "restore 3", "add 4"]), vec![]));
}

#[tokio::test]
async fn one_that_was_not_started_ahead_is_started_to_restore() {
    let (context, said) = context(short());
    let (plugin, cache) = (Lives::default().guest().load(), Arc::new(Objects::default()));
    let mut handler = PluginHandler::new(plugin, context, cache, None, StartReason::Settings);
    assert_eq!(handler.restore(left(2).await).await, Ok(()));
    let said: Vec<_> = said.all().into_iter().map(|line| line.message).collect();
    assert_eq!(said, ["start 2", "restore 2"]);
}

#[tokio::test]
async fn who_saves_nothing_needs_nothing() {
    let mut host =
        started(&Lives { save: SAVE_NOTHING.into(), ..Lives::default() }, StartReason::First).await;
    let left = host.handler.save().await.expect("an answer");
    assert!(left.as_ref().is_some_and(|left| left.is::<NothingNeeded>()));
    assert!(matches!(left.as_ref().and_then(Saved::of), Some(Saved::Nothing)));
    let mut next = started(&Lives::default(), StartReason::Reload).await;
    assert_eq!(next.handler.restore(left).await, Ok(()));
    assert_eq!(next.said().0, ["start 1"], "and is not asked to restore");
}

#[tokio::test]
async fn without_anything_left_it_cannot_go_on_and_is_as_it_started() {
    let mut host = started(&Lives::default(), StartReason::Reload).await;
    assert_eq!(host.handler.restore(None).await, Err(NOTHING_LEFT.into()));
    let foreign: Legacy = Arc::new("not a plugin's");
    assert_eq!(host.handler.restore(Some(foreign)).await, Err(NOTHING_LEFT.into()));
    assert_eq!(host.add().await, Outcome::Ok);
    assert_eq!(host.said(), (lines(&["start 1", "add 1"]), vec![]));
}

#[tokio::test]
async fn one_that_restored_forgets_it_when_the_whole_version_begins_afresh() {
    let mut host = started(&Lives::default(), StartReason::Reload).await;
    assert_eq!(host.handler.restore(left(3).await).await, Ok(()));
    assert_eq!(host.handler.restore(None).await, Err(NOTHING_LEFT.into()));
    assert_eq!(host.add().await, Outcome::Ok);
    assert_eq!(host.said().0, ["start 1", "restore 3", "start 1", "add 1"]);
    assert_eq!(host.usage.instances(), 1);
}

#[tokio::test]
async fn after_a_restore_that_failed_it_begins_afresh_for_the_same_reason() {
    let cases = [
        (REFUSE, "it refuses to restore: not today", [0, 0, 0]),
        (TRAP, "in restore: wasm trap: wasm `unreachable` instruction executed in restore", [1, 0, 0]),
        (SPIN, "in restore: used its deadline of 50ms (limits.deadline) in restore", [0, 1, 0]),
    ];
    for (fault, want, restarts) in cases {
        let mut host =
            started(&Lives { restore: fault.into(), ..Lives::default() }, StartReason::Rollback).await;
        assert_eq!(host.handler.restore(left(3).await).await, Err(want.into()));
        assert_eq!(host.usage.instances(), 1);
        assert_eq!(host.add().await, Outcome::Ok);
        assert_eq!(host.said(), (lines(&["start 5", "restore 3", "start 5", "add 1"]), vec![]));
        assert_eq!(Restart::ALL.map(|reason| host.usage.restarts(reason)), restarts);
    }
}

#[tokio::test]
async fn where_that_fails_too_the_next_event_begins_as_after_a_trap() {
    let plugin = Lives { restore: REFUSE.into(), ..Lives::default() }.guest().load();
    let (enough, _) = context(short());
    let started = plugin.start(&enough, StartReason::Reload).await.expect("it starts");
    // No second instance has room.
    let (little, lines) = context(Limits { memory: 1 << 16, ..short() });
    let cache = Arc::new(Objects::default());
    let mut handler = PluginHandler::new(plugin, little, cache, Some(started), StartReason::Reload);
    let full = "while starting an instance: its memory cap of 64 KiB is reached: it asked for 256 KiB (limits.memory)";
    let says = format!("it refuses to restore: not today; then, as it started afresh: {full}");
    assert_eq!(handler.restore(left(1).await).await, Err(says));
    assert_eq!(handler.save().await.map(|_| ()), Err(LOST.into()));
    assert_eq!(handler.handle(&delivery(add("a"))).await, Outcome::Trap(full.into()));
    assert!(lines.all().is_empty(), "the answers say it all");
}

#[tokio::test]
async fn why_it_does_not_save_is_told() {
    let cases = [
        (REFUSE, "it refuses to save: not today", true),
        (TRAP, "in save: wasm trap: wasm `unreachable` instruction executed in save", false),
        (SPIN, "in save: used its deadline of 50ms (limits.deadline) in save", false),
    ];
    for (fault, want, lives_on) in cases {
        let mut host = started(&Lives { save: fault.into(), ..Lives::default() }, StartReason::First).await;
        assert_eq!(host.add().await, Outcome::Ok);
        assert_eq!(host.handler.save().await.map(|_| ()), Err(want.into()));
        assert_eq!(host.usage.instances(), usize::from(lives_on));
        assert_eq!(host.add().await, Outcome::Ok);
        let on = if lives_on { vec!["add 2"] } else { vec!["start 3", "add 1"] };
        assert_eq!(host.said(), (lines(&[&["start 0", "add 1", "save 1"], &on[..]].concat()), vec![]));
    }
}

#[tokio::test]
async fn what_a_lost_instance_held_cannot_be_saved() {
    let mut host = started(&Lives { add: TRAP.into(), ..Lives::default() }, StartReason::First).await;
    assert!(matches!(host.add().await, Outcome::Trap(_)));
    assert_eq!(host.handler.save().await.map(|_| ()), Err(LOST.into()));
    assert_eq!(host.said().0, ["start 0", "add 1"], "no other is made to be asked");
}

/// Lets `save` give so many bytes of data.
fn saving(bytes: usize) -> Lives {
    Lives { save: format!("(i32.store (i32.const 8084) (i32.const {bytes}))"), ..Lives::default() }
}

#[tokio::test]
async fn what_is_saved_is_bounded_with_its_format() {
    let limits = Limits { state: 1000, ..short() };
    let host = async |bytes| {
        let plugin = saving(bytes).guest().load();
        Host::started(plugin, limits.clone(), StartReason::First).await.expect("it starts")
    };
    let left = host(998).await.handler.save().await.expect("it saves");
    assert_eq!(left.as_ref().and_then(Saved::of).map(Saved::bytes), Some(1000));
    let says = "in save: it saves more than 1000 bytes (limits.state)";
    let mut over = host(999).await;
    assert_eq!(over.handler.save().await.map(|_| ()), Err(says.into()));
    assert_eq!((over.usage.cap_hits(Cap::State), over.usage.instances()), (1, 1), "it is in order");
}

#[tokio::test]
async fn far_more_than_may_be_saved_is_never_copied() {
    let limits = Limits { state: 1 << 10, call_bytes: 1 << 10, ..short() };
    let plugin = saving(100 << 10).guest().load();
    let mut host = Host::started(plugin, limits, StartReason::First).await.expect("it starts");
    let error = host.handler.save().await.map(|_| ()).expect_err("too much");
    assert!(error.starts_with("in save: it saves more than 1 KiB (limits.state)"), "{error}");
    assert_eq!((host.usage.cap_hits(Cap::State), host.usage.cap_hits(Cap::CallBytes)), (1, 0));
    // What it may hand over otherwise is as before.
    assert_eq!(host.add().await, Outcome::Ok);
}

#[tokio::test]
async fn more_may_be_saved_than_handed_over_in_other_calls() {
    let limits = Limits { state: 200 << 10, call_bytes: 1 << 10, ..short() };
    let plugin = saving(150 << 10).guest().load();
    let mut host = Host::started(plugin, limits.clone(), StartReason::First).await.expect("it starts");
    let left = host.handler.save().await.expect("it saves");
    let mut next =
        Host::started(Lives::default().guest().load(), limits, StartReason::Reload).await.expect("starts");
    assert_eq!(next.handler.restore(left).await, Ok(()), "what it is given is not handed over by it");
}

// === from instance to instance ===

/// Replaced after each second event.
fn recycling(lives: &Lives) -> Host {
    let limits = Limits { recycle_events: Some(2), ..short() };
    Host::with(lives.guest().load(), limits, Objects::default())
}

const RECYCLED: &str = "its instance is recycled, and saves what it holds in memory: it has handled 2 events, its share \
                        of 2 (limits.recycle_events)";

#[tokio::test]
async fn what_a_recycled_instance_held_goes_on_in_the_next_one() {
    let mut host = recycling(&Lives::default());
    for _ in 0..3 {
        assert_eq!(host.add().await, Outcome::Ok);
    }
    let want = ["start 0", "add 1", "add 2", "save 2", "stop 1", "start 4", "restore 2", "add 3"];
    assert_eq!(host.said(), (lines(&want), lines(&[RECYCLED])));
    assert_eq!(Restart::ALL.map(|reason| host.usage.restarts(reason)), [0, 0, 1]);
}

#[tokio::test]
async fn what_waits_for_the_next_instance_can_be_saved_for_the_next_version() {
    let mut host = recycling(&Lives::default());
    for _ in 0..2 {
        assert_eq!(host.add().await, Outcome::Ok);
    }
    assert_eq!(host.usage.instances(), 0);
    for _ in 0..2 {
        let left = host.handler.save().await.expect("it was saved");
        assert_eq!(left.as_ref().and_then(Saved::of).map(Saved::bytes), Some(3));
    }
    assert_eq!(host.add().await, Outcome::Ok);
    let want = ["start 0", "add 1", "add 2", "save 2", "stop 1", "start 4", "restore 2", "add 3"];
    assert_eq!(host.said().0, want);
}

#[tokio::test]
async fn a_recycled_instance_that_does_not_save_leaves_nothing_and_that_is_said() {
    let cases = [
        (REFUSE, "it refuses to save: not today", vec!["stop 1"]),
        (TRAP, "in save: wasm trap: wasm `unreachable` instruction executed in save", vec![]),
    ];
    for (fault, why, stops) in cases {
        let mut host = recycling(&Lives { save: fault.into(), ..Lives::default() });
        for _ in 0..3 {
            assert_eq!(host.add().await, Outcome::Ok);
        }
        let want = [&["start 0", "add 1", "add 2", "save 2"], &stops[..], &["start 4", "add 1"]].concat();
        let lost = format!("what its recycled instance held in memory is lost: {why}");
        assert_eq!(host.said(), (lines(&want), lines(&[RECYCLED, &lost])));
    }
}

#[tokio::test]
async fn an_instance_that_does_not_restore_begins_afresh_and_that_is_said() {
    let cases = [
        (REFUSE, "it refuses to restore: not today"),
        (TRAP, "in restore: wasm trap: wasm `unreachable` instruction executed in restore"),
    ];
    for (fault, why) in cases {
        let mut host = recycling(&Lives { restore: fault.into(), ..Lives::default() });
        for _ in 0..3 {
            assert_eq!(host.add().await, Outcome::Ok);
        }
        let want =
            ["start 0", "add 1", "add 2", "save 2", "stop 1", "start 4", "restore 2", "start 4", "add 1"];
        let lost = format!("what its recycled instance held in memory is lost, and it starts afresh: {why}");
        assert_eq!(host.said(), (lines(&want), lines(&[RECYCLED, &lost])));
    }
}

#[tokio::test]
async fn what_waits_outlives_a_start_that_is_refused_but_not_one_that_traps() {
    let mut host = recycling(&Lives::starting(&[4], REFUSE));
    for _ in 0..2 {
        assert_eq!(host.add().await, Outcome::Ok);
    }
    let refused = Outcome::Retry { message: "it refuses to start: not today".into(), after: None };
    assert_eq!(host.add().await, refused);
    let left = host.handler.save().await.expect("it still waits");
    assert_eq!(left.as_ref().and_then(Saved::of).map(Saved::bytes), Some(3));

    let mut host = recycling(&Lives::starting(&[4], TRAP));
    for _ in 0..2 {
        assert_eq!(host.add().await, Outcome::Ok);
    }
    assert!(matches!(host.add().await, Outcome::Trap(message) if message.starts_with("in start: ")));
    assert_eq!(host.handler.save().await.map(|_| ()), Err(LOST.into()));
    assert_eq!(host.add().await, Outcome::Ok);
    assert_eq!(host.said().0.last().map(String::as_str), Some("add 1"));
}
