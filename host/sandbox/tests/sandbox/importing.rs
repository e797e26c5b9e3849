//! The imports of our world: `cache`, `delivery`, `settings`.

use hark_informer::handler::Outcome;
use hark_sandbox::{Limits, LogSource};

use crate::support::{Guest, Host, OK, Objects, object};

const IMPORTS: &str = r#"(import "hark:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
    (import "hark:plugin/cache@0.1.0" "get" (func $get (param i32 i32 i32 i32 i32 i32)))
    (import "hark:plugin/cache@0.1.0" "list-objects" (func $list (param i32 i32 i32 i32 i32 i32 i32)))
    (import "hark:plugin/delivery@0.1.0" "sequence" (func $sequence (result i64)))
    (import "hark:plugin/delivery@0.1.0" "attempt" (func $attempt (result i32)))
    (import "hark:plugin/delivery@0.1.0" "arrived-ms" (func $arrived (result i64)))
    (import "hark:plugin/settings@0.1.0" "get" (func $setting (param i32 i32 i32)))"#;

fn guest(add: &str) -> Guest {
    let data =
        r#"(data (i32.const 4000) "n") (data (i32.const 4004) "channel") (data (i32.const 4012) "a/b/c")"#;
    Guest { imports: IMPORTS.into(), extra: data.into(), ..Guest::adding(&format!("{add} {OK}")) }
}

/// Logs the text whose pointer and length are at a place.
fn log_at(place: u32) -> String {
    format!("(call $log (i32.const 2) (i32.load (i32.const {place})) (i32.load (i32.const {})))", place + 4)
}

/// Traps unless the byte at a place is so.
fn expect(place: u32, byte: u32) -> String {
    format!("(if (i32.ne (i32.load8_u (i32.const {place})) (i32.const {byte})) (then unreachable))")
}

async fn says(guest: Guest, objects: Objects, want: &[&str]) {
    let mut host = Host::with(guest.load(), Limits::default(), objects);
    assert_eq!(host.add().await, Outcome::Ok);
    assert_eq!(host.lines.of(LogSource::Log), want);
}

#[tokio::test]
async fn delivery_tells_of_the_event() {
    let add = "(if (i64.ne (call $sequence) (i64.const 41)) (then unreachable))
               (if (i32.ne (call $attempt) (i32.const 2)) (then unreachable))
               (if (i64.ne (call $arrived) (i64.const 12345)) (then unreachable))";
    says(guest(add), Objects::default(), &[]).await;
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
    says(guest(&add), Objects::default(), &["#ops"]).await;
}

#[tokio::test]
async fn the_cache_gives_single_objects() {
    // The event's own object, then one that is not there, then from two other subscriptions.
    let get = |subscription: u32, name: &str| {
        format!(
            "(call $get (i32.const {subscription}) (local.get $ns) (local.get $ns_len) {name} (i32.const 3000))"
        )
    };
    let own = "(local.get $name) (local.get $name_len)";
    let add = [
        get(0, own) + &expect(3000, 0) + &expect(3004, 1) + &log_at(3008),
        get(0, "(i32.const 4000) (i32.const 1)") + &expect(3000, 0) + &expect(3004, 0),
        get(1, own) + &expect(3000, 1) + &expect(3004, 0),
        get(2, own) + &expect(3000, 1) + &expect(3004, 1),
    ];
    let stored = object("n", "a", 9);
    says(guest(&add.concat()), Objects(vec![stored.clone()]), &[stored.json()]).await;
}

/// Asks for a page and logs its token; `after` is the place of the token to go on from.
fn list(after: &str, limit: u32) -> String {
    format!(
        "(call $list (i32.const 0) (i32.const 4000) (i32.const 1) {after} (i32.const {limit}) (i32.const 3000)) {} {}",
        expect(3000, 0),
        log_at(3012),
    )
}

#[tokio::test]
async fn the_cache_gives_pages() {
    let first = |place: u32| {
        format!("(i32.store (i32.const 3100) (i32.load (i32.const {place}))) (i32.store (i32.const 3104) (i32.load (i32.const {})))
                 (call $log (i32.const 2) (i32.load (i32.load (i32.const 3100))) (i32.load offset=4 (i32.load (i32.const 3100))))", place + 4)
    };
    let token = "(i32.load (i32.const 3012)) (i32.load (i32.const 3016))";
    let add = list("(i32.const 0) (i32.const 0)", 2) + &list(token, 2) + &first(3004);
    let all: Vec<_> = ["a", "b", "c"].iter().map(|name| object("n", name, 0)).collect();
    let other = object("m", "x", 0);
    let objects = Objects([vec![other], all.clone()].concat());
    says(guest(&add), objects, &["n/b", "", all[2].json()]).await;
}

#[tokio::test]
async fn a_page_is_bounded_but_has_one_object() {
    let add = list("(i32.const 0) (i32.const 0)", 1000);
    let large: Vec<_> = ["a", "b", "c"].iter().map(|name| object("n", name, 2 << 20)).collect();
    let mut small = guest(&add);
    small.pages = 200;
    says(small, Objects(large), &["n/a"]).await;
    let mut huge = guest(&add);
    huge.pages = 200;
    says(huge, Objects(vec![object("n", "a", 5 << 20), object("n", "b", 0)]), &["n/a"]).await;
}

#[tokio::test]
async fn a_page_of_nothing_or_after_nonsense_is_invalid() {
    let invalid = |after: &str, limit: u32| {
        format!(
            "(call $list (i32.const 0) (i32.const 4000) (i32.const 1) {after} (i32.const {limit}) (i32.const 3000)) {} {}",
            expect(3000, 1),
            expect(3004, 2),
        )
    };
    let add = invalid("(i32.const 0) (i32.const 0)", 0) + &invalid("(i32.const 4012) (i32.const 5)", 1);
    says(guest(&add), Objects::default(), &[]).await;
}
