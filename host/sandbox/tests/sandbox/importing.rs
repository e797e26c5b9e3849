//! The imports of our world: `delivery`, `settings`. What `cache` answers has a file of its own.

use hark_informer::handler::Outcome;
use hark_sandbox::{Limits, LogSource};

use crate::support::{Guest, Host, OK, Objects, expect, log_at};

const IMPORTS: &str = r#"(import "hark:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
    (import "hark:plugin/delivery@0.1.0" "sequence" (func $sequence (result i64)))
    (import "hark:plugin/delivery@0.1.0" "attempt" (func $attempt (result i32)))
    (import "hark:plugin/delivery@0.1.0" "arrived-ms" (func $arrived (result i64)))
    (import "hark:plugin/settings@0.1.0" "get" (func $setting (param i32 i32 i32)))"#;

async fn says(add: &str, want: &[&str]) {
    let data = r#"(data (i32.const 4004) "channel")"#;
    let guest =
        Guest { imports: IMPORTS.into(), extra: data.into(), ..Guest::adding(&format!("{add} {OK}")) };
    let mut host = Host::with(guest.load(), Limits::default(), Objects::default());
    assert_eq!(host.add().await, Outcome::Ok);
    assert_eq!(host.lines.of(LogSource::Log), want);
}

#[tokio::test]
async fn delivery_tells_of_the_event() {
    let add = "(if (i64.ne (call $sequence) (i64.const 41)) (then unreachable))
               (if (i32.ne (call $attempt) (i32.const 2)) (then unreachable))
               (if (i64.ne (call $arrived) (i64.const 12345)) (then unreachable))";
    says(add, &[]).await;
}

#[tokio::test]
async fn settings_are_read_by_key() {
    let add = format!(
        "(call $setting (i32.const 4004) (i32.const 7) (i32.const 3000)) {} {}
         (call $setting (i32.const 4004) (i32.const 4) (i32.const 3000)) {}",
        expect(3000, 1),
        log_at(3004),
        expect(3000, 0),
    );
    says(&add, &["#ops"]).await;
}
