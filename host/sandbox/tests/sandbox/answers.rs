//! What handlers are given, and what their answers become.

use std::time::Duration;

use hark_informer::handler::{DeleteReason, Event, EventHandler, Outcome};
use hark_sandbox::{Limits, LogSource};

use crate::support::{Guest, Host, OK, Objects, PERMANENT, RETRY, add, delivery, object};

const LOG: &str = r#"(import "hark:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))"#;

#[tokio::test]
async fn each_answer_has_its_outcome() {
    let guest = Guest { update: RETRY.into(), delete: PERMANENT.into(), ..Guest::default() };
    let mut host = Host::new(guest.load());
    let (old, new) = (object("n", "a", 0), object("n", "a", 1));
    let retry = Outcome::Retry { message: "try later".into(), after: Some(Duration::from_millis(1500)) };
    assert_eq!(host.add().await, Outcome::Ok);
    assert_eq!(host.handle(Event::Update { old, new: new.clone(), resync: false }).await, retry);
    let gone = Event::Delete { object: new, reason: DeleteReason::Deleted };
    assert_eq!(host.handle(gone).await, Outcome::Permanent("never".into()));
    assert!(host.lines.all().is_empty(), "none of these costs the instance");
}

#[tokio::test]
async fn a_handler_gets_the_object_and_its_reference() {
    let all = ["$ns", "$name", "$uid", "$rv", "$object"];
    let logs = |names: &[&str]| {
        let call =
            |name: &&str| format!("(call $log (i32.const 2) (local.get {name}) (local.get {name}_len))");
        names.iter().map(call).collect::<String>()
    };
    let guest = Guest {
        imports: LOG.into(),
        add: logs(&all) + OK,
        update: logs(&["$object", "$new"]) + OK,
        delete: logs(&["$rv", "$object"]) + OK,
        ..Guest::default()
    };
    let mut host = Host::new(guest.load());
    let (old, new) = (object("", "node", 3), object("", "node", 5));
    let cases = [
        (Event::Add { object: old.clone(), initial: false }, vec!["", "node", "u-node", "7", old.json()]),
        (Event::Update { old: old.clone(), new: new.clone(), resync: true }, vec![old.json(), new.json()]),
        (Event::Delete { object: new.clone(), reason: DeleteReason::Deleted }, vec!["7", new.json()]),
    ];
    for (event, want) in cases {
        let before = host.lines.all().len();
        assert_eq!(host.handle(event).await, Outcome::Ok);
        let lines = host.lines.all().split_off(before);
        assert_eq!(lines.iter().map(|line| line.message.as_str()).collect::<Vec<_>>(), want);
        assert!(lines.iter().all(|line| line.key.as_deref() == Some("node")));
    }
}

#[tokio::test]
async fn flags_and_reasons_arrive() {
    // Ok if the number is as expected, a trap if not.
    let expect = |what: &str, number: u32| {
        format!("(if (i32.ne (local.get {what}) (i32.const {number})) (then unreachable)) {OK}")
    };
    let guest = Guest {
        add: expect("$initial", 1),
        update: expect("$resync", 1),
        delete: expect("$reason", 1),
        ..Guest::default()
    };
    let mut host = Host::new(guest.load());
    let (old, new) = (object("n", "a", 0), object("n", "a", 0));
    let events = [
        Event::Add { object: new.clone(), initial: true },
        Event::Update { old, new: new.clone(), resync: true },
        Event::Delete { object: new, reason: DeleteReason::Unknown },
    ];
    for event in events {
        assert_eq!(host.handle(event).await, Outcome::Ok);
    }
}

#[tokio::test]
async fn each_reason_of_a_delete_has_its_number() {
    let guest = Guest {
        extra: "(global $count (mut i32) (i32.const -1))".into(),
        delete: format!(
            "(global.set $count (i32.add (global.get $count) (i32.const 1)))
             (if (i32.ne (local.get $reason) (global.get $count)) (then unreachable)) {OK}"
        ),
        ..Guest::default()
    };
    let mut host = Host::new(guest.load());
    let reasons =
        [DeleteReason::Deleted, DeleteReason::Unknown, DeleteReason::Filtered, DeleteReason::NamespaceLeft];
    for reason in reasons {
        assert_eq!(
            host.handle(Event::Delete { object: object("n", "a", 0), reason }).await,
            Outcome::Ok,
            "{reason:?}"
        );
    }
}

#[tokio::test]
async fn an_instance_keeps_its_memory_from_event_to_event() {
    let guest = Guest {
        extra: "(global $count (mut i32) (i32.const 0))".into(),
        add: format!(
            "(global.set $count (i32.add (global.get $count) (i32.const 1)))
             (if (result i32) (i32.eq (global.get $count) (i32.const 3)) (then {PERMANENT}) (else {OK}))"
        ),
        ..Guest::default()
    };
    let mut host = Host::new(guest.load());
    assert_eq!(host.add().await, Outcome::Ok);
    assert_eq!(host.add().await, Outcome::Ok);
    assert_eq!(host.add().await, Outcome::Permanent("never".into()));
}

#[tokio::test]
async fn an_object_above_the_limit_is_given_up_without_a_call() {
    let limits = Limits { object: 1000, ..Limits::default() };
    let mut host = Host::with(Guest::adding("unreachable").load(), limits, Objects::default());
    let large = Event::Add { object: object("n", "a", 1000), initial: false };
    let Outcome::Permanent(message) = host.handle(large).await else { panic!("too large") };
    assert!(
        message.ends_with("more than the 1000 bytes that the plugin may be handed (limits.object)"),
        "{message}"
    );
}

#[tokio::test]
async fn an_abandoned_attempt_takes_its_instance_along() {
    let guest = Guest { add: "(loop $l (br $l)) unreachable".into(), ..Guest::default() };
    let mut host = Host::new(guest.load());
    let delivery = delivery(add("a"));
    let attempt = host.handler.handle(&delivery);
    // The guest gives way at each tick, so a host that wants to stop need not wait for the deadline.
    assert!(tokio::time::timeout(Duration::ZERO, attempt).await.is_err());
    assert_eq!(host.handle(crate::support::delete("a")).await, Outcome::Ok);
    assert!(host.lines.of(LogSource::Host).is_empty());
}
