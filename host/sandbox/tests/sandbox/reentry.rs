//! What a guest does while the host is in the middle of a call: its allocator and its post-return function run then,
//! and may do anything.

use std::time::Duration;

use hark_informer::handler::Outcome;
use hark_sandbox::{Limits, Restart};

use crate::support::{Guest, Host, Objects, load};

const LOG: &str = r#"(import "hark:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))"#;

/// The allocator's first lines; what comes before them runs at each allocation.
const ALLOCATOR: &str = "(local.set $at (global.get $heap))";

/// A plugin whose allocator does this, in every handler.
fn allocating(does: &str) -> String {
    let text = Guest { imports: LOG.into(), ..Guest::default() }.text();
    let changed = text.replacen(ALLOCATOR, &format!("{does} {ALLOCATOR}"), 1);
    assert_ne!(text, changed);
    changed
}

/// A plugin whose function after `on-add` does this.
fn returning(does: &str) -> String {
    let post = format!(r#"(func (export "cabi_post_hark:plugin/handler@0.1.0#on-add") (param i32) {does})"#);
    Guest { imports: LOG.into(), extra: post, ..Guest::default() }.text()
}

async fn host(text: &str) -> Host {
    let limits = Limits { deadline: Some(Duration::from_millis(50)), memory: 1 << 20, ..Limits::default() };
    Host::with(load(text).unwrap_or_else(|error| panic!("{error}\n{text}")), limits, Objects::default())
}

#[tokio::test]
async fn each_misdeed_has_its_outcome_and_costs_the_instance() {
    let log = "(call $log (i32.const 2) (i32.const 256) (i32.const 9))";
    let cases = [
        ("unreachable", Restart::Trap, "wasm trap: wasm `unreachable` instruction executed"),
        ("(loop $l (br $l))", Restart::Timeout, "used its deadline of 50ms (limits.deadline)"),
        ("(drop (memory.grow (i32.const 99)))", Restart::Trap, "its memory cap of 1 MiB is reached"),
        // The component model forbids it: the host is in the middle of a call.
        (log, Restart::Trap, "cannot leave component instance"),
    ];
    for (does, reason, says) in cases {
        for (place, text) in [("allocator", allocating(does)), ("after", returning(does))] {
            let mut host = host(&text).await;
            for time in 1..3 {
                let outcome = host.add().await;
                let message = outcome.message().unwrap_or_default();
                assert!(message.contains(says), "{place} {does}: {outcome:?}");
                assert_eq!(matches!(outcome, Outcome::Timeout(_)), reason == Restart::Timeout, "{outcome:?}");
                assert_eq!(host.usage.restarts(reason), time, "{place} {does}: a fresh one each time");
                assert_eq!(host.usage.instances(), 0);
            }
        }
    }
}

#[tokio::test]
async fn memory_may_grow_meanwhile_within_its_cap() {
    let grow = "(if (i32.lt_u (memory.size) (i32.const 12)) (then (drop (memory.grow (i32.const 1)))))";
    for text in [allocating(grow), returning(grow)] {
        let mut host = host(&text).await;
        for _ in 0..10 {
            assert_eq!(host.add().await, Outcome::Ok);
        }
        assert!(host.usage.memory() > 4 << 16 && host.usage.memory() == host.usage.memory_peak());
    }
}
