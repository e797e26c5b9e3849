//! The cache: client-go's own cases, one state per answer, and a model.

mod indices;
mod model;
mod reading;

use std::sync::Arc;

use super::*;
use crate::testing::object;

fn names(objects: &[Arc<Object>]) -> Vec<String> {
    objects.iter().map(|object| object.key().to_string()).collect()
}

/// Files an object under the comma-separated parts of its uid.
fn by_uid() -> IndexFn {
    Arc::new(|object| object.uid().split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect())
}

/// An indexer with the index `uid` and these objects: `key=uid`, all at version 1.
fn indexer(objects: &str) -> Indexer {
    let indexer = Indexer::new();
    indexer.add_indexers(vec![("uid".into(), by_uid())]).expect("no conflict");
    objects.split_whitespace().for_each(|text| put(&indexer, text));
    indexer
}

fn put(indexer: &Indexer, text: &str) {
    let (key, uid) = text.split_once('=').expect("key=uid");
    indexer.upsert(object(key, uid, "1"));
}

fn remove(indexer: &Indexer, name: &str) {
    indexer.remove(&ObjectKey::new("", name));
}

#[test]
fn the_store_keeps_the_version_of_its_last_write() {
    let indexer = Indexer::new();
    let version = || indexer.resource_version();
    assert_eq!(version(), "");
    for written in ["10", "10", "20"] {
        indexer.upsert(object("a", "u", written));
        assert_eq!(version(), written);
    }
    assert!(indexer.remove_object(&object("a", "u", "30")).is_some());
    assert_eq!(version(), "30");
    indexer.upsert(object("a", "u", "40"));
    remove(&indexer, "a");
    assert_eq!(version(), "40", "by key only: it stays");
    assert_eq!(indexer.remove(&ObjectKey::new("a", "9")), None);
    indexer.replace(vec![object("a", "u", "30"), object("b", "u", "40")], "50");
    assert_eq!(version(), "50");
    assert_eq!(indexer.remove_object(&object("absent", "u", "20")), None);
    assert_eq!(version(), "20", "TestThreadSafeStoreRV, R-IX-9: no monotonicity check, absent or not");
    indexer.set_resource_version("60");
    assert_eq!(version(), "60");
}

#[test]
fn a_store_adds_updates_deletes_lists_and_is_replaced() {
    let indexer = Indexer::new();
    let (a, b, c) = (object("a", "u", "1"), object("b", "u", "1"), object("c", "u", "1"));
    assert_eq!(indexer.upsert(a.clone()), None);
    assert_eq!(indexer.get(a.key()), Some(a.clone()), "TestCache");
    let newer = object("a", "u", "2");
    assert_eq!(indexer.upsert(newer.clone()), Some(a.clone()));
    assert_eq!(indexer.get(a.key()), Some(newer.clone()));
    assert_eq!(indexer.remove(a.key()), Some(newer));
    assert_eq!((indexer.get(a.key()), indexer.is_empty(), indexer.bytes()), (None, true, 0));
    for object in [&c, &a, &b] {
        indexer.upsert(object.clone());
    }
    assert_eq!(indexer.list(), [a, b.clone(), c.clone()]);
    let d = object("d", "u", "1");
    indexer.replace(vec![d.clone(), c.clone(), d.clone()], "3");
    assert_eq!(indexer.list(), [c.clone(), d.clone()]);
    assert_eq!(indexer.keys(), [c.key().clone(), d.key().clone()]);
    assert_eq!(indexer.bytes(), c.json().len() + d.json().len());
}
