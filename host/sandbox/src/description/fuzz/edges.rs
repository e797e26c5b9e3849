//! Target `edges`: right descriptions of which one thing is as large as it may be, or one larger.
//!
//! The first are taken, the others refused, with one problem: no bound is off by one, and none is kept twice.

use std::time::Duration;

use hark_fuzz::Target;
use hark_informer::filter::{MAX_CONDITIONS, MAX_POINTER, MAX_POINTERS, MAX_SEGMENTS, MAX_VALUE, MAX_VALUES};
use proptest::prelude::*;

use super::super::*;

/// What may be too large, and how large it may be.
const EDGES: &[(&str, usize)] = &[
    ("subscriptions", SUBSCRIPTIONS),
    ("concurrency", CONCURRENCY as usize),
    ("extra", EXTRAS),
    ("extra of a subscription", EXTRAS),
    ("bytes of an extra", EXTRA_BYTES),
    ("bytes of a name", NAME_BYTES),
    ("bytes of a version", LABEL_BYTES),
    ("bytes of a kind", LABEL_BYTES),
    ("namespaces", NAMESPACES),
    ("bytes of a namespace", 63),
    ("bytes of a namespace selector", SELECTOR_BYTES),
    ("bytes of a label selector", SELECTOR_BYTES),
    ("bytes of a field selector", SELECTOR_BYTES),
    ("conditions", MAX_CONDITIONS),
    ("values", MAX_VALUES),
    ("bytes of a value", MAX_VALUE),
    ("changed", MAX_POINTERS),
    ("fields", MAX_POINTERS),
    ("bytes of a pointer", MAX_POINTER),
    ("segments of a pointer", MAX_SEGMENTS),
    ("indexes", INDEXES),
    ("bytes of an index's name", NAME_BYTES),
];

fn right(name: String) -> wit::Subscription {
    wit::Subscription {
        name,
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespaces: vec![],
        namespace_selector: String::new(),
        label_selector: String::new(),
        field_selector: String::new(),
        conditions: vec![],
        changed: vec![],
        fields: vec![],
        indexes: vec![],
        resync_seconds: 0,
        extra: vec![],
    }
}

/// Requirements that are together so long: `aa,a,a,a`.
fn selector(size: usize) -> String {
    format!("{}{}", if size.is_multiple_of(2) { "aa" } else { "a" }, ",a".repeat((size - 1) / 2))
}

fn condition(values: Vec<String>) -> wit::Condition {
    wit::Condition { pointer: "/a".into(), comparison: wit::Comparison::OneOf, values }
}

/// A description in which one thing has this size, in the subscription that counts.
fn sized(what: &str, size: usize) -> wit::Description {
    let pairs = |count| (0..count).map(|n| (format!("k{n}"), String::new())).collect();
    let pointers = |count| (0..count).map(|n| format!("/f{n}")).collect();
    let proposal = wit::Proposal { on_reload: None, on_restart: None, delivery: None, concurrency: None };
    let mut from = wit::Description {
        name: "p".into(),
        version: "1".into(),
        subscriptions: vec![right("s".into())],
        proposal,
        extra: vec![],
    };
    let one = &mut from.subscriptions[0];
    match what {
        "bytes of an extra" => one.extra = vec![("k".into(), "v".repeat(size - 1))],
        "extra of a subscription" => one.extra = pairs(size),
        "bytes of a name" => one.name = "n".repeat(size),
        "bytes of a version" => one.api_version = format!("apps/{}", "v".repeat(size - 5)),
        "bytes of a kind" => one.kind = "K".repeat(size),
        "namespaces" => one.namespaces = (0..size).map(|n| format!("n{n}")).collect(),
        "bytes of a namespace" => one.namespaces = vec!["n".repeat(size)],
        "bytes of a namespace selector" => one.namespace_selector = selector(size),
        "bytes of a label selector" => one.label_selector = selector(size),
        "bytes of a field selector" => one.field_selector = format!("a={}", "b".repeat(size - 2)),
        "conditions" => one.conditions = vec![condition(vec!["v".into()]); size],
        "values" => one.conditions = vec![condition((0..size).map(|n| n.to_string()).collect())],
        "bytes of a value" => one.conditions = vec![condition(vec!["v".repeat(size)])],
        "changed" => one.changed = pointers(size),
        "fields" => one.fields = pointers(size),
        "bytes of a pointer" => one.fields = vec![format!("/{}", "f".repeat(size - 1))],
        "segments of a pointer" => one.changed = vec!["/f".repeat(size)],
        "indexes" => one.indexes = (0..size).map(|n| index(format!("i{n}"))).collect(),
        "bytes of an index's name" => one.indexes = vec![index("i".repeat(size))],
        "subscriptions" => from.subscriptions = (0..size).map(|n| right(format!("s{n}"))).collect(),
        "concurrency" => from.proposal.concurrency = u32::try_from(size).ok(),
        _ => from.extra = pairs(size),
    }
    from
}

fn index(name: String) -> wit::IndexDefinition {
    wit::IndexDefinition { name, pointer: "/a".into() }
}

#[test]
fn fuzz_edges() {
    let target = Target { name: "edges", cases: 300, within: Duration::from_secs(1) };
    let input = || (prop::sample::select(EDGES), prop_oneof![Just(-1_isize), Just(0), Just(1)]);
    hark_fuzz::values(target, input, |((what, bound), beyond)| {
        let taken = check(sized(what, bound.saturating_add_signed(*beyond)));
        if *beyond <= 0 {
            prop_assert!(taken.is_ok(), "{what} {bound}{beyond:+}: {:?}", taken.err());
        } else {
            prop_assert_eq!(taken.err().map(|problems| problems.len()), Some(1), "{} {}", what, bound);
        }
        Ok(())
    });
}
