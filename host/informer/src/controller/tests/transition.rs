//! What each delta does to the cache and means to a handler, as a table.

use std::sync::Arc;

use super::super::transition::{events, store};
use super::line;
use crate::delta_fifo::{Delta, DeltaKind};
use crate::indexer::Indexer;
use crate::object::{Object, ObjectKey};
use crate::testing::{object, object_with};

const TOMBSTONE: bool = true;

/// `uid version` of an object that is always called the same; empty: there is none.
fn state(text: &str) -> Option<Arc<Object>> {
    text.split_once(' ').map(|(uid, version)| object("a", uid, version))
}

/// What the cache has afterwards, its version, and what a handler is told that knew what the cache had.
fn outcome(cached: &str, kind: DeltaKind, delta: &str, tombstone: bool) -> (String, String, Vec<String>) {
    let indexer = Indexer::new();
    if let Some(cached) = state(cached) {
        indexer.upsert(cached);
    }
    let delta = Delta { kind, object: state(delta).expect("a state"), final_state_unknown: tombstone };
    let known = store(&indexer, &delta);
    let told = events(known.as_ref(), &delta, true).map(|event| line(&event)).collect();
    let now = indexer.get(&ObjectKey::new("", "a"));
    let now = now.map(|object| format!("{} {}", object.uid(), object.resource_version()));
    (now.unwrap_or_default(), indexer.resource_version(), told)
}

#[test]
fn presence_version_and_uid_decide_what_a_delta_means() {
    use DeltaKind::{Added, Deleted, Replaced, Sync, Updated};
    type Case = (
        &'static str,
        &'static str,
        DeltaKind,
        &'static str,
        bool,
        [&'static str; 2],
        &'static [&'static str],
    );
    let cases: [Case; 15] = [
        ("R-PD-1", "", Added, "u 1", false, ["u 1", "1"], &["add a@1 initial"]),
        ("R-PD-1", "", Updated, "u 1", false, ["u 1", "1"], &["add a@1 initial"]),
        ("R-PD-1", "", Replaced, "u 1", false, ["u 1", "1"], &["add a@1 initial"]),
        ("Sync for Replaced, R-DF-4", "", Sync, "u 1", false, ["u 1", "1"], &["add a@1 initial"]),
        ("R-PD-1", "u 1", Added, "u 2", false, ["u 2", "2"], &["update a@1->2"]),
        ("R-PD-1", "u 1", Updated, "u 2", false, ["u 2", "2"], &["update a@1->2"]),
        ("contract 5", "u 1", Replaced, "u 1", false, ["u 1", "1"], &[]),
        ("7.12 no. 11, contract 5", "u 1", Updated, "u 1", false, ["u 1", "1"], &[]),
        ("a resync", "u 1", Sync, "u 1", false, ["u 1", "1"], &["update a@1->1 resync"]),
        ("contract 7", "u 1", Replaced, "v 2", false, ["v 2", "2"], &["delete a@1 unknown", "add a@2"]),
        ("contract 7", "u 1", Replaced, "v 1", false, ["v 1", "1"], &["delete a@1 unknown", "add a@1"]),
        ("R-PD-8, R-IX-9", "u 1", Deleted, "u 2", false, ["", "2"], &["delete a@2 deleted"]),
        ("R-PD-8, R-IX-9", "u 1", Deleted, "u 1", TOMBSTONE, ["", "1"], &["delete a@1 unknown"]),
        ("of a later one", "u 1", Deleted, "v 3", false, ["", "3"], &["delete a@1 unknown"]),
        ("7.12 no. 10, contract 6", "", Deleted, "u 2", false, ["", "2"], &[]),
    ];
    for (rule, cached, kind, delta, tombstone, [now, version], told) in cases {
        let got = outcome(cached, kind, delta, tombstone);
        let want = (now.to_owned(), version.to_owned(), told.iter().map(|line| (*line).to_owned()).collect());
        assert_eq!(got, want, "{rule}: {cached:?}, then {kind:?} {delta:?}");
    }
}

#[test]
fn the_cache_has_what_the_server_shows_even_if_versions_come_again() {
    // etcd was restored from a backup, and another change got the version that the cache knows.
    let indexer = Indexer::new();
    let before = object_with("a", "u", "7", r#""data":{"k":"before"}"#);
    let shown = object_with("a", "u", "7", r#""data":{"k":"shown"}"#);
    indexer.upsert(before.clone());
    let delta = Delta { kind: DeltaKind::Replaced, object: shown.clone(), final_state_unknown: false };
    assert_eq!(store(&indexer, &delta), Some(before.clone()));
    assert_eq!(
        indexer.get(before.key()).map(|object| object.json().to_owned()),
        Some(shown.json().to_owned())
    );
    assert_eq!(events(Some(&before), &delta, false).count(), 0, "contract 5: uid and version are the same");
}
