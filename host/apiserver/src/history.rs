//! One collection of objects with its recent past: what lists, watches and consistent pages are made from.
//!
//! Used by the store only. Invariant: every change since `floor` is in `changes`, oldest first; so a watch can
//! resume from, and a list can be answered at, exactly the revisions from `floor` on.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use crate::object::Stored;

/// One committed change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: String,
    pub(crate) old: Option<Arc<Stored>>,
    /// For a deletion, the last state under the revision of the deletion.
    pub(crate) new: Arc<Stored>,
    pub(crate) deleted: bool,
    /// Injected fault: watchers are never told.
    pub(crate) lost: bool,
}

impl Change {
    /// The state after the change, `None` if there is none.
    pub(crate) fn after(&self) -> Option<&Arc<Stored>> {
        (!self.deleted).then_some(&self.new)
    }
}

/// The objects of one resource and their recent changes.
#[derive(Debug)]
pub(crate) struct Collection {
    pub(crate) objects: BTreeMap<String, Arc<Stored>>,
    changes: VecDeque<Arc<Change>>,
    floor: u64,
    capacity: usize,
}

/// A past revision that is not remembered any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooOld {
    pub(crate) floor: u64,
}

impl Collection {
    pub(crate) fn new(floor: u64, capacity: usize) -> Self {
        Collection { objects: BTreeMap::new(), changes: VecDeque::new(), floor, capacity: capacity.max(1) }
    }

    pub(crate) fn record(&mut self, change: Arc<Change>) {
        match change.after() {
            Some(new) => self.objects.insert(change.key.clone(), Arc::clone(new)),
            None => self.objects.remove(&change.key),
        };
        if self.changes.len() >= self.capacity
            && let Some(evicted) = self.changes.pop_front()
        {
            self.floor = self.floor.max(evicted.revision);
        }
        self.changes.push_back(change);
    }

    /// Forgets what happened up to a revision.
    pub(crate) fn compact(&mut self, revision: u64) {
        while self.changes.front().is_some_and(|c| c.revision <= revision) {
            self.changes.pop_front();
        }
        self.floor = self.floor.max(revision);
    }

    /// Goes back to a past revision, and forgets everything before it and after it. No effect if it is not
    /// remembered.
    pub(crate) fn restore(&mut self, revision: u64) {
        if let Ok(objects) = self.range_at("", "", revision) {
            self.objects = objects.into_iter().collect();
            self.changes.clear();
            self.floor = revision;
        }
    }

    /// The changes after a revision, oldest first.
    pub(crate) fn since(&self, revision: u64) -> Result<Vec<Arc<Change>>, TooOld> {
        if revision < self.floor {
            return Err(TooOld { floor: self.floor });
        }
        let start = self.changes.partition_point(|c| c.revision <= revision);
        Ok(self.changes.range(start..).cloned().collect())
    }

    /// Objects from a key on while it starts with a prefix, as of now.
    pub(crate) fn range<'a>(
        &'a self,
        prefix: &'a str,
        start: &str,
    ) -> impl Iterator<Item = (&'a str, &'a Arc<Stored>)> {
        let lower = if start > prefix { start } else { prefix };
        self.objects
            .range::<str, _>((Bound::Included(lower), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(key, object)| (key.as_str(), object))
    }

    /// The same as of a past revision: today's objects with later changes undone.
    pub(crate) fn range_at(
        &self,
        prefix: &str,
        start: &str,
        revision: u64,
    ) -> Result<Vec<(String, Arc<Stored>)>, TooOld> {
        let mut then: BTreeMap<&str, Option<&Arc<Stored>>> =
            self.range(prefix, start).map(|(key, object)| (key, Some(object))).collect();
        if revision < self.floor {
            return Err(TooOld { floor: self.floor });
        }
        let later = self.changes.iter().rev().take_while(|c| c.revision > revision);
        for change in later.filter(|c| c.key.starts_with(prefix) && c.key.as_str() >= start) {
            then.insert(&change.key, change.old.as_ref());
        }
        Ok(then.into_iter().filter_map(|(k, v)| Some((k.to_owned(), Arc::clone(v?)))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stored(name: &str, revision: u64) -> Arc<Stored> {
        Arc::new(Stored::new(json!({"metadata": {"name": name}}), revision, false))
    }

    fn put(c: &mut Collection, key: &str, revision: u64) {
        let old = c.objects.get(key).cloned();
        let new = stored(key, revision);
        c.record(Arc::new(Change { revision, key: key.into(), old, new, deleted: false, lost: false }));
    }

    fn delete(c: &mut Collection, key: &str, revision: u64) {
        let old = c.objects.get(key).cloned();
        let new = stored(key, revision);
        c.record(Arc::new(Change { revision, key: key.into(), old, new, deleted: true, lost: false }));
    }

    fn at(c: &Collection, revision: u64) -> Result<Vec<(String, u64)>, TooOld> {
        Ok(c.range_at("", "", revision)?.into_iter().map(|(k, o)| (k, o.revision)).collect())
    }

    #[test]
    fn the_past_is_exact_back_to_the_floor() {
        let mut c = Collection::new(10, 100);
        put(&mut c, "a", 11);
        put(&mut c, "b", 12);
        put(&mut c, "a", 13);
        delete(&mut c, "b", 14);
        put(&mut c, "b", 15);
        assert_eq!(at(&c, 9), Err(TooOld { floor: 10 }));
        assert_eq!(at(&c, 10), Ok(vec![]));
        assert_eq!(at(&c, 12), Ok(vec![("a".into(), 11), ("b".into(), 12)]));
        assert_eq!(at(&c, 14), Ok(vec![("a".into(), 13)]));
        assert_eq!(at(&c, 99), Ok(vec![("a".into(), 13), ("b".into(), 15)]));
    }

    #[test]
    fn a_full_history_forgets_the_oldest_and_says_so() {
        let mut c = Collection::new(0, 2);
        for revision in 1..=5 {
            put(&mut c, "a", revision);
        }
        assert_eq!(c.since(2).map(|v| v.len()), Err(TooOld { floor: 3 }));
        assert_eq!(c.since(3).map(|v| v.len()), Ok(2));
        assert_eq!(c.since(5).map(|v| v.len()), Ok(0));
    }

    #[test]
    fn a_restored_collection_is_what_it_was_and_has_no_past() {
        let mut c = Collection::new(10, 100);
        put(&mut c, "a", 11);
        put(&mut c, "b", 12);
        delete(&mut c, "a", 13);
        c.restore(9);
        assert_eq!(at(&c, 13), Ok(vec![("b".into(), 12)]), "not remembered: nothing happens");
        c.restore(11);
        assert_eq!(at(&c, 11), Ok(vec![("a".into(), 11)]));
        assert_eq!(c.since(11).map(|v| v.len()), Ok(0));
        assert_eq!(c.since(10).map(|v| v.len()), Err(TooOld { floor: 11 }));
    }

    #[test]
    fn compaction_moves_the_floor_even_without_changes() {
        let mut c = Collection::new(0, 10);
        put(&mut c, "a", 1);
        put(&mut c, "a", 2);
        c.compact(1);
        assert_eq!(c.since(0).map(|v| v.len()), Err(TooOld { floor: 1 }));
        assert_eq!(c.since(1).map(|v| v.len()), Ok(1));
        c.compact(7);
        assert_eq!(c.since(6).map(|v| v.len()), Err(TooOld { floor: 7 }));
    }

    #[test]
    fn keys_are_listed_in_the_order_of_etcd() {
        let mut c = Collection::new(0, 10);
        for (i, key) in ["a/x", "a-b/x", "a/y"].into_iter().enumerate() {
            put(&mut c, key, i as u64 + 1);
        }
        let all: Vec<&str> = c.range("", "").map(|(k, _)| k).collect();
        assert_eq!(all, ["a-b/x", "a/x", "a/y"]);
        let one: Vec<&str> = c.range("a/", "a/x\0").map(|(k, _)| k).collect();
        assert_eq!(one, ["a/y"]);
    }
}
