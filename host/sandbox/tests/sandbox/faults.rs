//! Guests that misbehave: each costs its own instance, and the next event works.

use std::time::Duration;

use hark_informer::handler::Outcome;
use hark_sandbox::Limits;

use crate::support::{Guest, Host, OK, Objects, add, short};

async fn traps(guest: Guest, limits: Limits, says: &str) {
    let mut host = Host::with(guest.load(), limits, Objects::default());
    let outcome = host.add().await;
    assert!(
        matches!(&outcome, Outcome::Trap(message) if message.contains(says)),
        "{outcome:?} lacks {says:?}"
    );
    host.recovers().await;
}

async fn times_out(guest: Guest, limits: Limits, says: &str) {
    let mut host = Host::with(guest.load(), limits, Objects::default());
    let outcome = host.add().await;
    assert!(
        matches!(&outcome, Outcome::Timeout(message) if message.contains(says)),
        "{outcome:?} lacks {says:?}"
    );
    host.recovers().await;
}

#[tokio::test]
async fn a_trap_names_its_cause_and_place() {
    let guest = Guest {
        extra: "(func $_ZN9pod_audit5check17h0123456789abcdefE unreachable)".into(),
        ..Guest::adding("(call $_ZN9pod_audit5check17h0123456789abcdefE) unreachable")
    };
    let says = "wasm trap: wasm `unreachable` instruction executed in pod_audit::check < on_add";
    traps(guest, Limits::default(), says).await;
}

#[tokio::test]
async fn a_spinning_guest_ends_by_its_deadline() {
    let guest = Guest::adding("(loop $l (br $l)) unreachable");
    times_out(guest, short(), "used its deadline of 50ms (limits.deadline) in on_add").await;
}

#[tokio::test]
async fn a_guest_that_spins_through_host_calls_ends_too() {
    let guest = Guest {
        imports: r#"(import "hark:plugin/delivery@0.1.0" "attempt" (func $attempt (result i32)))"#.into(),
        ..Guest::adding("(loop $l (drop (call $attempt)) (br $l)) unreachable")
    };
    times_out(guest, short(), "(limits.deadline)").await;
}

#[tokio::test]
async fn the_budget_ends_a_spinning_guest_whose_deadline_is_longer() {
    let limits = Limits {
        budget: Duration::from_millis(50),
        deadline: Some(Duration::from_secs(60)),
        ..Limits::default()
    };
    let guest = Guest::adding("(loop $l (br $l)) unreachable");
    times_out(guest, limits, "used its budget of 50ms for one event (limits.budget)").await;
}

/// Sleeps an hour with wasip1's `poll_oneoff`, through the adapter.
fn sleeper() -> Guest {
    Guest {
        imports: r#"(import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))"#
            .into(),
        // A subscription to the monotonic clock (id 1 at offset 16), relative, with its time at 24.
        add: format!(
            "(i64.store (i32.const 3008) (i64.const 0))
             (i32.store (i32.const 3016) (i32.const 1))
             (i64.store (i32.const 3024) (i64.const 3600000000000))
             (drop (call $poll (i32.const 3000) (i32.const 3200) (i32.const 1) (i32.const 3100)))
             {OK}"
        ),
        ..Guest::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_guest_ends_by_the_budget_if_its_host_call_may_last_longer() {
    let limits = Limits { host_call: Duration::from_secs(7200), ..Limits::default() };
    times_out(sleeper(), limits, "used its budget of 30s for one event (limits.budget)").await;
}

#[tokio::test(start_paused = true)]
async fn a_guest_may_sleep_within_its_budget() {
    let hours = Duration::from_secs(7200);
    let limits = Limits { budget: hours, host_call: hours, ..Limits::default() };
    let mut host = Host::with(sleeper().load(), limits, Objects::default());
    assert_eq!(host.add().await, Outcome::Ok);
}

#[tokio::test]
async fn memory_within_the_cap_is_given() {
    let guest = Guest::adding(&format!(
        "(if (i32.eq (memory.grow (i32.const 900)) (i32.const -1)) (then unreachable)) {OK}"
    ));
    assert_eq!(Host::new(guest.load()).add().await, Outcome::Ok);
}

#[tokio::test]
async fn a_start_function_may_spin_or_trap() {
    let mut host = Host::with(
        Guest { extra: "(func $s (loop $l (br $l))) (start $s)".into(), ..Guest::default() }.load(),
        short(),
        Objects::default(),
    );
    for _ in 0..2 {
        let outcome = host.add().await;
        let says = "while starting an instance: used its deadline of 50ms (limits.deadline)";
        assert!(matches!(&outcome, Outcome::Timeout(message) if message.starts_with(says)), "{outcome:?}");
    }
    let mut host =
        Host::new(Guest { extra: "(func $s unreachable) (start $s)".into(), ..Guest::default() }.load());
    let outcome = host.add().await;
    assert!(
        matches!(&outcome, Outcome::Trap(message) if message.starts_with("while starting")),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn answers_that_break_the_contract_are_traps() {
    let cases = [
        // Beyond memory, not aligned, no such case, no such failure.
        "(i32.const 0x7ffffff0)",
        "(i32.const 65)",
        "(i32.store (i32.const 2048) (i32.const 9)) (i32.const 2048)",
        "(i32.store (i32.const 2048) (i32.const 1)) (i32.store (i32.const 2052) (i32.const 9)) (i32.const 2048)",
        // A message beyond memory, one that is not UTF-8.
        "(i32.store (i32.const 104) (i32.const 0x7ffffff0)) (i32.const 96)",
        "(i32.store8 (i32.const 256) (i32.const 0xff)) (i32.const 96)",
    ];
    for answer in cases {
        traps(Guest::adding(answer), Limits::default(), "").await;
    }
}

#[tokio::test]
async fn an_allocator_that_lies_is_a_trap() {
    let text = Guest::default().text();
    // Every text goes where there is no memory.
    let lying = text.replacen("(local.get $at))", "(i32.const 0x7ffffff0))", 1);
    assert_ne!(text, lying);
    let mut host = Host::new(crate::support::load(&lying).expect("loads"));
    for _ in 0..2 {
        let outcome = host.add().await;
        assert!(matches!(outcome, Outcome::Trap(_)), "{outcome:?}");
    }
}

#[tokio::test]
async fn exiting_is_a_trap_that_says_so() {
    let guest = Guest {
        imports: r#"(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))"#.into(),
        ..Guest::adding("(call $exit (i32.const 0)) unreachable")
    };
    traps(guest, Limits::default(), "it ended itself with exit status 0").await;
}

#[tokio::test]
async fn a_fault_every_time_costs_an_instance_every_time() {
    // An instance that saw an event before would answer.
    let guest = Guest {
        extra: "(global $seen (mut i32) (i32.const 0))".into(),
        add: format!(
            "(if (i32.eqz (global.get $seen)) (then (global.set $seen (i32.const 1)) unreachable))
             {OK}"
        ),
        ..Guest::default()
    };
    let mut host = Host::new(guest.load());
    for _ in 0..20 {
        assert!(matches!(host.handle(add("a")).await, Outcome::Trap(_)));
    }
}
