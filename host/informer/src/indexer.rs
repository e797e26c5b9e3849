//! The cache: every object of one informer, by key, with named indices over it.
//!
//! Written by the shared informer alone, in the order of the events; read by listeners and, through them, by
//! plugins. Invariant: every answer comes from one consistent state (rule R-IX-1), and an object that was
//! handed out is never changed (R-IX-10).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::object::{Object, ObjectKey};

/// Computes the values under which an index files an object: none, one or many (R-IX-3).
pub type IndexFn = Arc<dyn Fn(&Object) -> Vec<String> + Send + Sync>;

/// Why an index could not be added or asked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// Another index has the name (R-IX-6).
    #[error("indexer conflict: there is an index named {0} already")]
    Conflict(String),
    /// No index has the name (R-IX-5).
    #[error("Index with name {0} does not exist")]
    Unknown(String),
}

/// A thread-safe store of objects with named indices. Cheap reads; one writer.
#[derive(Default)]
pub struct Indexer {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    items: BTreeMap<ObjectKey, Arc<Object>>,
    indices: HashMap<String, Index>,
    resource_version: String,
}

struct Index {
    values_of: IndexFn,
    keys: HashMap<String, BTreeSet<ObjectKey>>,
}

impl Indexer {
    /// An empty indexer.
    pub fn new() -> Self {
        Self::default()
    }

    /// The object with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.read().items.get(key).cloned()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.read().items.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every object, in key order.
    pub fn list(&self) -> Vec<Arc<Object>> {
        self.read().items.values().cloned().collect()
    }

    /// Every key, in order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.read().items.keys().cloned().collect()
    }

    /// Up to `limit` objects with a key greater than `after`, in key order; those of one namespace if
    /// `namespace` is not empty (the built-in namespace index, R-IX-12).
    pub fn range(&self, namespace: &str, after: Option<&ObjectKey>, limit: usize) -> Vec<Arc<Object>> {
        let first = ObjectKey::new(namespace, "");
        let start = match after {
            Some(key) if namespace.is_empty() || *key > first => Bound::Excluded(key.clone()),
            _ => Bound::Included(first),
        };
        self.read()
            .items
            .range((start, Bound::Unbounded))
            .take_while(|(key, _)| namespace.is_empty() || key.namespace() == namespace)
            .take(limit)
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Adds or replaces an object, keeping the indices and the store's resourceVersion (R-IX-2, R-IX-9);
    /// gives the object that was there.
    pub fn upsert(&self, object: Arc<Object>) -> Option<Arc<Object>> {
        let mut inner = self.write();
        inner.resource_version = object.resource_version().to_owned();
        let old = inner.items.insert(object.key().clone(), object.clone());
        for index in inner.indices.values_mut() {
            index.change(object.key(), old.as_deref(), Some(&object));
        }
        old
    }

    /// Removes an object; gives the one that was there. An absent key is no error (R-IX-4).
    pub fn remove(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        let mut inner = self.write();
        let old = inner.items.remove(key)?;
        for index in inner.indices.values_mut() {
            index.change(key, Some(&old), None);
        }
        Some(old)
    }

    /// Adds indices, filing the objects that are there at once; all of them or none (R-IX-6).
    ///
    /// # Errors
    /// [`IndexError::Conflict`] if one of the names is taken.
    pub fn add_indexers(&self, indexers: Vec<(String, IndexFn)>) -> Result<(), IndexError> {
        let mut inner = self.write();
        if let Some((name, _)) = indexers.iter().find(|(name, _)| inner.indices.contains_key(name)) {
            return Err(IndexError::Conflict(name.clone()));
        }
        for (name, values_of) in indexers {
            let mut index = Index { values_of, keys: HashMap::new() };
            for (key, object) in &inner.items {
                index.change(key, None, Some(object));
            }
            inner.indices.insert(name, index);
        }
        Ok(())
    }

    /// The objects that an index files under a value, in key order (R-IX-5).
    ///
    /// # Errors
    /// [`IndexError::Unknown`] if there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<Object>>, IndexError> {
        let inner = self.read();
        let index = inner.indices.get(name).ok_or_else(|| IndexError::Unknown(name.to_owned()))?;
        let keys = index.keys.get(value).into_iter().flatten();
        Ok(keys.filter_map(|key| inner.items.get(key).cloned()).collect())
    }

    /// The values that an index has at present, in no order (R-IX-5: an unknown index has none).
    pub fn index_values(&self, name: &str) -> Vec<String> {
        self.read().indices.get(name).map(|index| index.keys.keys().cloned().collect()).unwrap_or_default()
    }

    /// The resourceVersion up to which the cache is known to be current; empty before the first list.
    pub fn resource_version(&self) -> String {
        self.read().resource_version.clone()
    }

    /// Moves the store's resourceVersion on, as a bookmark or a completed list does (R-IX-9).
    pub fn set_resource_version(&self, resource_version: &str) {
        resource_version.clone_into(&mut self.write().resource_version);
    }

    // A panic elsewhere cannot leave `Inner` half-written in a way that matters more than stopping would:
    // a poisoned lock is entered all the same.
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index {
    /// Moves `key` from the values of `old` to those of `new`. Empty sets are removed (R-IX-2).
    fn change(&mut self, key: &ObjectKey, old: Option<&Object>, new: Option<&Object>) {
        for value in old.map(|object| (self.values_of)(object)).unwrap_or_default() {
            if let Some(keys) = self.keys.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&value);
                }
            }
        }
        for value in new.map(|object| (self.values_of)(object)).unwrap_or_default() {
            self.keys.entry(value).or_default().insert(key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    fn names(objects: &[Arc<Object>]) -> Vec<String> {
        objects.iter().map(|object| object.key().to_string()).collect()
    }

    #[test]
    fn range_pages_in_key_order_and_by_namespace() {
        let indexer = Indexer::new();
        for key in ["b/1", "a/2", "a/1", "c/1", "a/3"] {
            indexer.upsert(object(key, "u", "1"));
        }
        assert_eq!(names(&indexer.range("", None, 2)), ["a/1", "a/2"]);
        let after = ObjectKey::new("a", "2");
        assert_eq!(names(&indexer.range("", Some(&after), 9)), ["a/3", "b/1", "c/1"]);
        assert_eq!(names(&indexer.range("a", Some(&after), 9)), ["a/3"]);
        assert_eq!(names(&indexer.range("b", Some(&after), 9)), ["b/1"]);
        assert_eq!(names(&indexer.range("a", Some(&ObjectKey::new("b", "0")), 9)), [""; 0]);
    }

    #[test]
    fn indices_follow_every_write_and_drop_empty_values() {
        let indexer = Indexer::new();
        indexer.upsert(object("a/1", "u1", "1"));
        let by_version: IndexFn = Arc::new(|object| vec![object.resource_version().to_owned()]);
        indexer.add_indexers(vec![("rv".into(), by_version.clone())]).expect("no conflict");
        indexer.upsert(object("a/2", "u2", "1"));
        assert_eq!(names(&indexer.by_index("rv", "1").expect("an index")), ["a/1", "a/2"]);
        indexer.upsert(object("a/1", "u1", "2"));
        indexer.remove(&ObjectKey::new("a", "2"));
        assert_eq!(names(&indexer.by_index("rv", "1").expect("an index")), [""; 0]);
        assert_eq!(indexer.index_values("rv"), ["2"]);
        assert_eq!(
            indexer.add_indexers(vec![("rv".into(), by_version)]),
            Err(IndexError::Conflict("rv".into()))
        );
        assert_eq!(indexer.by_index("x", "1"), Err(IndexError::Unknown("x".into())));
    }

    #[test]
    fn the_store_keeps_the_version_of_its_last_write() {
        let indexer = Indexer::new();
        assert_eq!(indexer.resource_version(), "");
        indexer.upsert(object("a/1", "u", "7"));
        assert_eq!(indexer.resource_version(), "7");
        indexer.set_resource_version("9");
        assert_eq!(indexer.resource_version(), "9");
        assert_eq!(indexer.remove(&ObjectKey::new("a", "9")), None);
    }
}
