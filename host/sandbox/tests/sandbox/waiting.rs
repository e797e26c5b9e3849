//! Host calls: those that wait, those that are many, and what is counted of them.

use std::time::Duration;

use hark_informer::handler::Outcome;
use hark_sandbox::{Cap, Limits, LogSource};

use crate::support::{Guest, Host, OK, Objects, delete, short};
use crate::wasi;

const HOUR: &str = "(i64.const 3600000000000)";

async fn outcome(add: &str, limits: Limits) -> (Outcome, Host) {
    let mut host = Host::with(wasi::adding(add, 4), limits, Objects::default());
    (host.add().await, host)
}

#[tokio::test(start_paused = true)]
async fn a_host_call_that_waits_too_long_is_named() {
    let block = format!("(call $block (call $after {HOUR})) {OK}");
    let poll = format!(
        "(i32.store (i32.const 3000) (call $after {HOUR}))
         (call $poll (i32.const 3000) (i32.const 1) (i32.const 3100)) {OK}"
    );
    for (add, name) in [(block, "wasi:io/poll.pollable.block"), (poll, "wasi:io/poll.poll")] {
        let begun = tokio::time::Instant::now();
        let (outcome, mut host) = outcome(&add, Limits::default()).await;
        let want = format!("one host call, {name}, took longer than 10s (limits.host_call)");
        assert_eq!(outcome, Outcome::Timeout(want));
        assert_eq!(begun.elapsed().as_secs(), 10);
        assert_eq!((host.usage.cap_hits(Cap::HostCall), host.usage.cap_hits(Cap::Budget)), (1, 0));
        host.recovers().await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_host_call_may_wait_as_long_as_the_limit_and_the_event_as_long_as_its_budget() {
    let wait = "(call $block (call $after (i64.const 9000000000)))";
    let (three, _) = outcome(&format!("{}{OK}", wait.repeat(3)), Limits::default()).await;
    assert_eq!(three, Outcome::Ok, "27 s of 30, 9 of 10 each");
    let (four, host) = outcome(&format!("{}{OK}", wait.repeat(4)), Limits::default()).await;
    let want = "used its budget of 30s for one event (limits.budget)";
    assert_eq!(four, Outcome::Timeout(want.into()));
    assert_eq!((host.usage.cap_hits(Cap::HostCall), host.usage.cap_hits(Cap::Budget)), (0, 1));
}

#[tokio::test]
async fn a_flood_of_host_calls_ends_by_the_deadline_and_is_counted() {
    let guest = Guest {
        imports: r#"(import "hark:plugin/delivery@0.1.0" "attempt" (func $attempt (result i32)))"#.into(),
        ..Guest::adding("(loop $l (drop (call $attempt)) (br $l)) unreachable")
    };
    let mut host = Host::with(guest.load(), short(), Objects::default());
    assert!(matches!(host.add().await, Outcome::Timeout(message) if message.contains("(limits.deadline)")));
    // 50 ms of calls that take less than a microsecond in a release build, and a few in this one.
    assert!(host.usage.host_calls() > 1000, "{}", host.usage.host_calls());
}

#[tokio::test]
async fn host_calls_are_counted_exactly() {
    let guest = Guest {
        imports: r#"(import "hark:plugin/delivery@0.1.0" "attempt" (func $attempt (result i32)))"#.into(),
        ..Guest::adding(&format!("{}{OK}", "(drop (call $attempt))".repeat(7)))
    };
    let mut host = Host::new(guest.load());
    assert_eq!(host.add().await, Outcome::Ok);
    assert_eq!(host.usage.host_calls(), 7);
    assert_eq!(host.handle(delete("a")).await, Outcome::Ok);
    assert_eq!(host.usage.host_calls(), 7, "the delete makes none");
}

#[tokio::test]
async fn what_may_be_waited_for_at_once_is_bounded() {
    // One pollable (its handle is 1), named a hundred times.
    let add = format!(
        "(drop (call $after (i64.const 0))) {} (call $poll (i32.const 3000) (i32.const 100) (i32.const 2900)) {OK}",
        wasi::times(100, &wasi::list("(i32.const 1)"))
    );
    let few = Limits { handles: 99, ..Limits::default() };
    let (refused, mut host) = outcome(&add, few).await;
    let says = "it waits for 100 pollables at once, more than 99 (limits.handles)";
    assert!(matches!(&refused, Outcome::Trap(message) if message.starts_with(says)), "{refused:?}");
    assert_eq!(host.usage.cap_hits(Cap::Handles), 1);
    host.recovers().await;
    let enough = Limits { handles: 100, ..Limits::default() };
    assert_eq!(outcome(&add, enough).await.0, Outcome::Ok);
}

#[tokio::test]
async fn polling_thousands_of_pollables_over_and_over_ends_by_the_deadline() {
    // 2,000 of them, never ready, and one that always is.
    let add = format!(
        "{} (i32.store (i32.const 11000) (call $after (i64.const 0)))
         (loop $m (call $poll (i32.const 3000) (i32.const 2001) (i32.const 2900)) (call $forget) (br $m))
         unreachable",
        wasi::times(2000, &wasi::list(&format!("(call $after {HOUR})")))
    );
    let (outcome, mut host) = outcome(&add, short()).await;
    assert!(
        matches!(&outcome, Outcome::Timeout(message) if message.contains("(limits.deadline)")),
        "{outcome:?}"
    );
    host.recovers().await;
}

#[tokio::test]
async fn too_many_random_bytes_or_zeroes_are_refused() {
    for (count, fits) in [("1048576", true), ("1048577", false), ("-1", false)] {
        let add = format!("(call $random (i64.const {count}) (i32.const 3000)) {OK}");
        let mut host = Host::new(wasi::adding(&add, 40));
        let outcome = host.add().await;
        assert_eq!(matches!(outcome, Outcome::Ok), fits, "{count}: {outcome:?}");
        assert_eq!(matches!(outcome, Outcome::Trap(_)), !fits, "{count}: {outcome:?}");
    }
    for (count, fits) in [("65536", true), ("65537", false), ("-1", false)] {
        let add = format!("(call $zeroes (call $out) (i64.const {count}) (i32.const 3000)) {OK}");
        let mut host = Host::new(wasi::adding(&add, 4));
        assert_eq!(matches!(host.add().await, Outcome::Ok), fits, "{count}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_wait_takes_its_instance_along() {
    let mut host = Host::new(wasi::adding(&format!("(call $block (call $after {HOUR})) {OK}"), 4));
    let delivery = crate::support::delivery(crate::support::add("a"));
    let attempt = hark_informer::handler::EventHandler::handle(&mut host.handler, &delivery);
    assert!(tokio::time::timeout(Duration::from_secs(1), attempt).await.is_err(), "it waits");
    assert_eq!(host.usage.instances(), 0, "nobody can enter it again");
    assert_eq!(host.handle(delete("a")).await, Outcome::Ok);
    assert!(host.lines.of(LogSource::Host).is_empty(), "it was not its fault");
}
