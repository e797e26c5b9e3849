//! One named index: which keys have which values.
//!
//! Used by [`super::Indexer`] under its lock. Invariants: `keys` and `filed` say the same from both sides; no
//! set and no list in them is empty (#84959).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use crate::object::{Object, ObjectKey};

/// Computes the values under which an index files an object: none, one or many, repeated or not (R-IX-3).
///
/// Called with the cache locked: it must not call the indexer, and what it takes its time for, readers wait for.
pub type IndexFn = Arc<dyn Fn(&Object) -> Vec<String> + Send + Sync>;

/// The values of one object: sorted, each once.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Values(Vec<Arc<str>>);

impl Values {
    fn new(mut values: Vec<String>) -> Self {
        values.sort_unstable();
        values.dedup();
        Self(values.into_iter().map(Arc::from).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|value| &**value)
    }
}

pub(super) struct Index {
    values_of: IndexFn,
    keys: BTreeMap<Arc<str>, BTreeSet<ObjectKey>>,
    filed: HashMap<ObjectKey, Values>,
}

impl Index {
    pub(super) fn new(values_of: IndexFn) -> Self {
        Self { values_of, keys: BTreeMap::new(), filed: HashMap::new() }
    }

    /// The same index over other items.
    pub(super) fn rebuilt(&self, items: &BTreeMap<ObjectKey, Arc<Object>>) -> Self {
        let mut index = Self::new(self.values_of.clone());
        for (key, object) in items {
            index.file(key, index.values_of(object));
        }
        index
    }

    /// Asks the function.
    pub(super) fn values_of(&self, object: &Object) -> Values {
        Values::new((self.values_of)(object))
    }

    /// Files `key` under `values` instead of what it is filed under (R-IX-2).
    pub(super) fn file(&mut self, key: &ObjectKey, values: Values) {
        if self.filed.get(key).is_some_and(|old| *old == values) {
            return;
        }
        for value in self.filed.remove(key).unwrap_or_default().0 {
            if let Some(keys) = self.keys.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&value);
                }
            }
        }
        for value in &values.0 {
            self.keys.entry(value.clone()).or_default().insert(key.clone());
        }
        if !values.0.is_empty() {
            self.filed.insert(key.clone(), values);
        }
    }

    /// The keys under a value, in order.
    pub(super) fn keys(&self, value: &str) -> impl Iterator<Item = &ObjectKey> {
        self.keys.get(value).into_iter().flatten()
    }

    /// The same, greater than `after`.
    pub(super) fn keys_after(
        &self,
        value: &str,
        after: Option<&ObjectKey>,
    ) -> impl Iterator<Item = &ObjectKey> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.keys.get(value).into_iter().flat_map(move |keys| keys.range((from, Bound::Unbounded)))
    }

    /// Up to `limit` values that have keys, greater than `after`, in order.
    pub(super) fn values_after(&self, after: Option<&str>, limit: usize) -> Vec<String> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let values = self.keys.range::<str, _>((from, Bound::Unbounded));
        values.take(limit).map(|(value, _)| value.to_string()).collect()
    }

    /// The values that have keys, in order.
    pub(super) fn values(&self) -> Vec<String> {
        self.keys.keys().map(|value| value.to_string()).collect()
    }
}
