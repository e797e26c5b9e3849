//! The import `cache`: single objects, pages, indexes, and `fields`.

use std::sync::Arc;

use hark_informer::cache::{CachePage, CacheProblem, CacheReader, ValuePage};
use hark_informer::handler::Outcome;
use hark_informer::object::{Object, ObjectKey};
use hark_sandbox::{Limits, LogSource};

use crate::support::{Guest, Host, OK, Objects, expect, log_at, object};

const IMPORTS: &str = r#"(import "hark:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))
    (import "hark:plugin/cache@0.1.0" "get" (func $get (param i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "hark:plugin/cache@0.1.0" "list-objects" (func $list (param i32 i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "hark:plugin/cache@0.1.0" "by-index"
        (func $by_index (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "hark:plugin/cache@0.1.0" "index-values" (func $values (param i32 i32 i32 i32 i32 i32 i32)))"#;

/// Texts at their places, and lists of one text each at 4100 (`/metadata/name`) and 4108 (`a/b/c`).
const DATA: &str = r#"(data (i32.const 4000) "n") (data (i32.const 4004) "x") (data (i32.const 4008) "xx")
    (data (i32.const 4012) "a/b/c") (data (i32.const 4018) "a") (data (i32.const 4020) "/metadata/name")
    (data (i32.const 4100) "\b4\0f\00\00\0e\00\00\00") (data (i32.const 4108) "\ac\0f\00\00\05\00\00\00")"#;

/// Arguments: a text or a list by its place and length.
const NONE: &str = "(i32.const 0) (i32.const 0)";
const NAMESPACE_N: &str = "(i32.const 4000) (i32.const 1)";
const NAME_A: &str = "(i32.const 4018) (i32.const 1)";
const INDEX_X: &str = "(i32.const 4004) (i32.const 1)";
const VALUE_XX: &str = "(i32.const 4008) (i32.const 2)";
const NONSENSE: &str = "(i32.const 4012) (i32.const 5)";
const NAME_ONLY: &str = "(i32.const 4100) (i32.const 1)";
const NO_POINTER: &str = "(i32.const 4108) (i32.const 1)";
/// The token of the page at 3000.
const NEXT: &str = "(i32.load (i32.const 3012)) (i32.load (i32.const 3016))";

fn guest(add: &str) -> Guest {
    Guest { imports: IMPORTS.into(), extra: DATA.into(), ..Guest::adding(&format!("{add} {OK}")) }
}

async fn says(guest: Guest, objects: impl CacheReader + 'static, want: &[&str]) {
    let mut host = Host::with(guest.load(), Limits::default(), objects);
    assert_eq!(host.add().await, Outcome::Ok);
    assert_eq!(host.lines.of(LogSource::Log), want);
}

fn get(subscription: u32, name: &str, fields: &str) -> String {
    format!("(call $get (i32.const {subscription}) {NAMESPACE_N} {name} {fields} (i32.const 3000))")
}

fn list(fields: &str, after: &str, limit: u32) -> String {
    format!("(call $list (i32.const 0) {NAMESPACE_N} {fields} {after} (i32.const {limit}) (i32.const 3000))")
}

fn by_index(index: &str, value: &str, fields: &str, after: &str, limit: u32) -> String {
    format!(
        "(call $by_index (i32.const 0) {index} {value} {fields} {after} (i32.const {limit}) (i32.const 3000))"
    )
}

fn values(index: &str, after: &str, limit: u32) -> String {
    format!("(call $values (i32.const 0) {index} {after} (i32.const {limit}) (i32.const 3000))")
}

/// Logs the token of the page at 3000.
fn log_token() -> String {
    expect(3000, 0) + &log_at(3012)
}

/// Logs an entry of the page at 3000, then its token.
fn log_entry(number: u32) -> String {
    let entry = format!("(i32.add (i32.load (i32.const 3004)) (i32.const {}))", 8 * number);
    let log = format!("(call $log (i32.const 2) (i32.load {entry}) (i32.load offset=4 {entry}))");
    expect(3000, 0) + &log + &log_token()
}

/// Traps unless the answer at 3000 is this problem.
fn problem(number: u32) -> String {
    expect(3000, 1) + &expect(3004, number)
}

fn named(names: &[&str], filler: usize) -> Vec<Arc<Object>> {
    names.iter().map(|name| object("n", name, filler)).collect()
}

#[tokio::test]
async fn single_objects_come_whole_or_in_parts() {
    // One that is there, one that is not, then from two other subscriptions, and a wrong question.
    let add = [
        get(0, NAME_A, NONE) + &expect(3000, 0) + &expect(3004, 1) + &log_at(3008),
        get(0, NAME_A, NAME_ONLY) + &expect(3000, 0) + &expect(3004, 1) + &log_at(3008),
        get(0, NONE, NONE) + &expect(3000, 0) + &expect(3004, 0),
        get(1, NAME_A, NONE) + &problem(0),
        get(2, NAME_A, NONE) + &problem(1),
        get(0, NAME_A, NO_POINTER) + &problem(3),
    ];
    let stored = object("n", "a", 9);
    let want = [stored.json(), r#"{"metadata":{"name":"a"}}"#];
    says(guest(&add.concat()), Objects(vec![stored.clone()]), &want).await;
}

#[tokio::test]
async fn pages_go_on_where_the_one_before_ended() {
    let add = list(NONE, NONE, 2) + &log_token() + &list(NONE, NEXT, 2) + &log_entry(0);
    let all = named(&["a", "b", "c"], 0);
    let objects = Objects([vec![object("m", "x", 0)], all.clone()].concat());
    says(guest(&add), objects, &["n/b", all[2].json(), ""]).await;
}

#[tokio::test]
async fn a_page_has_the_fields_asked_for() {
    let add = list(NAME_ONLY, NONE, 2) + &log_entry(1);
    says(guest(&add), Objects(named(&["a", "b"], 9)), &[r#"{"metadata":{"name":"b"}}"#, ""]).await;
}

#[tokio::test]
async fn a_page_is_bounded_but_has_one_object() {
    let add = list(NONE, NONE, 1000) + &log_token();
    for (objects, token) in [(named(&["a", "b", "c"], 2 << 20), "n/a"), (named(&["a", "b"], 5 << 20), "n/a")]
    {
        let roomy = Guest { pages: 200, ..guest(&add) };
        says(roomy, Objects(objects), &[token]).await;
    }
}

#[tokio::test]
async fn a_page_of_fields_ends_after_so_much_text_to_cut_them_from() {
    // 20 MiB: the third would be more than 16 MiB, though the names are a few bytes.
    let add = list(NAME_ONLY, NONE, 1000) + &log_entry(1);
    let objects = Objects(named(&["a", "b", "c"], 7 << 20));
    says(guest(&add), objects, &[r#"{"metadata":{"name":"b"}}"#, "n/b"]).await;
}

#[tokio::test]
async fn an_index_gives_its_objects_in_pages() {
    let two = [named(&["a"], 2), named(&["b"], 3), named(&["c", "d"], 2)].concat();
    let add = by_index(INDEX_X, VALUE_XX, NAME_ONLY, NONE, 2)
        + &log_entry(1)
        + &by_index(INDEX_X, VALUE_XX, NONE, NEXT, 2)
        + &log_entry(0);
    let want = [r#"{"metadata":{"name":"c"}}"#, "n/c", two[3].json(), ""];
    says(guest(&add), Objects(two.clone()), &want).await;
}

#[tokio::test]
async fn an_index_gives_its_values_in_pages_and_the_empty_one_is_one() {
    let objects = [named(&["a"], 2), named(&["b"], 0), named(&["c"], 2), named(&["d"], 1)].concat();
    let add = values(INDEX_X, NONE, 1)
        + &log_entry(0)
        + &values(INDEX_X, NEXT, 1)
        + &log_entry(0)
        + &values(INDEX_X, NEXT, 5)
        + &log_entry(0);
    says(guest(&add), Objects(objects), &["", "=", "x", "=x", "xx", ""]).await;
}

#[tokio::test]
async fn each_wrong_question_has_its_problem() {
    let add = [
        list(NONE, NONE, 0) + &problem(3),
        list(NONE, NONSENSE, 1) + &problem(3),
        list(NO_POINTER, NONE, 1) + &problem(3),
        by_index(NAMESPACE_N, VALUE_XX, NONE, NONE, 1) + &problem(2),
        by_index(INDEX_X, VALUE_XX, NONE, NONE, 0) + &problem(3),
        by_index(INDEX_X, VALUE_XX, NONE, NONSENSE, 1) + &problem(3),
        by_index(INDEX_X, VALUE_XX, NO_POINTER, NONE, 1) + &problem(3),
        values(NAMESPACE_N, NONE, 1) + &problem(2),
        values(INDEX_X, NONE, 0) + &problem(3),
        values(INDEX_X, NONSENSE, 1) + &problem(3),
    ];
    says(guest(&add.concat()), Objects::default(), &[]).await;
}

/// A reader whose pages are empty, and yet not the last ones.
struct Scanning;

impl CacheReader for Scanning {
    fn get(&self, _: u32, _: &ObjectKey) -> Result<Option<Arc<Object>>, CacheProblem> {
        Ok(None)
    }

    fn list(&self, _: u32, _: &str, _: Option<&ObjectKey>, _: usize) -> Result<CachePage, CacheProblem> {
        Ok(CachePage { objects: Vec::new(), next: Some(ObjectKey::new("n", "far")) })
    }

    fn by_index(
        &self,
        subscription: u32,
        _: &str,
        _: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<CachePage, CacheProblem> {
        self.list(subscription, "", after, limit)
    }

    fn index_values(&self, _: u32, _: &str, _: Option<&str>, _: usize) -> Result<ValuePage, CacheProblem> {
        Ok(ValuePage { values: Vec::new(), next: Some("far".to_owned()) })
    }
}

#[tokio::test]
async fn a_page_may_be_empty_without_being_the_last() {
    let add = [
        list(NONE, NONE, 2) + &expect(3008, 0) + &log_token(),
        by_index(INDEX_X, VALUE_XX, NONE, NONE, 2) + &expect(3008, 0) + &log_token(),
        values(INDEX_X, NONE, 2) + &expect(3008, 0) + &log_token(),
    ];
    says(guest(&add.concat()), Scanning, &["n/far", "n/far", "=far"]).await;
}
