//! The cache: every object of one informer, by key, with named indices over it.
//!
//! Written by one process loop, in the order of the events; read by handlers, listeners and, through them, by
//! plugins. Invariants: every answer comes from one consistent state (rule R-IX-1); an object that was handed
//! out is never changed (R-IX-10); items, indices and sums always agree.
//!
//! Answers are in key order, so that they are the same each time (client-go's are in any order). The namespace
//! index is built in: keys order by namespace first, so it is the map of objects itself (R-IX-12).
//!
//! Index functions cannot fail, unlike client-go's, whose error during a write ends the process (R-IX-3): one
//! that has no answer for an object files it under nothing. They run before anything is changed, so that one
//! that panics leaves the cache as it was. What they said is remembered with the object: they are asked once
//! for each state, and one that answers otherwise the next time cannot leave anything behind in its index.

mod index;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use self::index::IndexFn;
use self::index::{Index, Values};
pub use self::scan::Scan;
use crate::object::{Object, ObjectKey};

/// The name of the built-in index by `metadata.namespace` (R-IX-12).
pub const NAMESPACE_INDEX: &str = "namespace";

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
    indices: BTreeMap<String, Index>,
    /// Of the objects' texts.
    bytes: usize,
    resource_version: String,
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

    /// How many objects there are. Kept, not counted.
    pub fn len(&self) -> usize {
        self.read().items.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of JSON text held, managedFields not counted where they were stripped. Kept, not counted.
    pub fn bytes(&self) -> usize {
        self.read().bytes
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
        scan::range(&self.read().items, namespace, after).take(limit).cloned().collect()
    }

    /// Of the objects that [`Indexer::range`] would give, up to `limit` that satisfy `predicate`, after looking
    /// at no more than `scan_limit`: all of one state of the cache. `predicate` runs outside of the lock. Both
    /// limits are at least 1, so that whoever goes on from [`Scan::reached`] comes to the end.
    pub fn range_where(
        &self,
        namespace: &str,
        after: Option<&ObjectKey>,
        limit: usize,
        scan_limit: usize,
        predicate: impl FnMut(&Object) -> bool,
    ) -> Scan {
        // One more than may be looked at says whether that was the end.
        let ahead = scan_limit.max(1).saturating_add(1);
        Scan::of(self.range(namespace, after, ahead), limit.max(1), scan_limit.max(1), predicate)
    }

    /// Adds or replaces an object, keeping the indices and the store's resourceVersion (R-IX-2, R-IX-9);
    /// gives the object that was there.
    pub fn upsert(&self, object: Arc<Object>) -> Option<Arc<Object>> {
        let mut inner = self.write();
        let values: Vec<Values> = inner.indices.values().map(|index| index.values_of(&object)).collect();
        object.resource_version().clone_into(&mut inner.resource_version);
        for (index, values) in inner.indices.values_mut().zip(values) {
            index.file(object.key(), values);
        }
        inner.bytes += object.json().len();
        let old = inner.items.insert(object.key().clone(), object);
        inner.bytes -= old.as_ref().map_or(0, |old| old.json().len());
        old
    }

    /// Removes an object; gives the one that was there. An absent key is no error (R-IX-4). The store's
    /// resourceVersion stays.
    pub fn remove(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.write().remove(key)
    }

    /// Removes the object with the key of `last`, the state that its deletion left, and moves the store's
    /// resourceVersion to that of `last`, whether it was there or not (R-IX-9).
    pub fn remove_object(&self, last: &Object) -> Option<Arc<Object>> {
        let mut inner = self.write();
        last.resource_version().clone_into(&mut inner.resource_version);
        inner.remove(last.key())
    }

    /// Puts `objects` in place of everything, as of `resource_version`, and files them anew, in one step
    /// (R-IX-7). Of several with one key, the last stays.
    pub fn replace(&self, objects: Vec<Arc<Object>>, resource_version: &str) {
        let items: BTreeMap<_, _> =
            objects.into_iter().map(|object| (object.key().clone(), object)).collect();
        let bytes = items.values().map(|object| object.json().len()).sum();
        let mut inner = self.write();
        let indices =
            inner.indices.iter().map(|(name, index)| (name.clone(), index.rebuilt(&items))).collect();
        let resource_version = resource_version.to_owned();
        let old = mem::replace(&mut *inner, Inner { items, indices, bytes, resource_version });
        drop(inner);
        // Freeing many objects takes its time; readers need not wait for it.
        drop(old);
    }

    /// Adds indices, filing the objects that are there at once; all of them or none (R-IX-6). Possible at any
    /// time.
    ///
    /// # Errors
    /// [`IndexError::Conflict`] if one of the names is taken, or comes twice.
    pub fn add_indexers(&self, indexers: Vec<(String, IndexFn)>) -> Result<(), IndexError> {
        let mut inner = self.write();
        let mut added = BTreeMap::new();
        for (name, values_of) in indexers {
            let taken = name == NAMESPACE_INDEX || inner.indices.contains_key(&name);
            if taken || added.contains_key(&name) {
                return Err(IndexError::Conflict(name));
            }
            added.insert(name, Index::new(values_of).rebuilt(&inner.items));
        }
        inner.indices.extend(added);
        Ok(())
    }

    /// Removes an index; gives whether there was one. The built-in one stays.
    pub fn remove_indexer(&self, name: &str) -> bool {
        let removed = self.write().indices.remove(name);
        removed.is_some()
    }

    /// The names of the indices, in order, but for the built-in one.
    pub fn indexers(&self) -> Vec<String> {
        self.read().indices.keys().cloned().collect()
    }

    /// The objects that an index files under a value, in key order; none for an unknown value (R-IX-5).
    ///
    /// # Errors
    /// [`IndexError::Unknown`] if there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<Object>>, IndexError> {
        let inner = self.read();
        if name == NAMESPACE_INDEX {
            return Ok(inner.of_namespace(value, None).cloned().collect());
        }
        Ok(inner.objects(inner.index(name)?.keys(value)))
    }

    /// As [`Indexer::range_where`], of the objects that an index files under a value.
    ///
    /// # Errors
    /// [`IndexError::Unknown`] if there is no such index.
    pub fn by_index_where(
        &self,
        name: &str,
        value: &str,
        after: Option<&ObjectKey>,
        limit: usize,
        scan_limit: usize,
        predicate: impl FnMut(&Object) -> bool,
    ) -> Result<Scan, IndexError> {
        let ahead = scan_limit.max(1).saturating_add(1);
        let range = {
            let inner = self.read();
            if name == NAMESPACE_INDEX {
                inner.of_namespace(value, after).take(ahead).cloned().collect()
            } else {
                let keys = inner.index(name)?.keys_after(value, after);
                inner.objects(keys.take(ahead))
            }
        };
        Ok(Scan::of(range, limit.max(1), scan_limit.max(1), predicate))
    }

    /// The keys of the objects that an index files under a value, in order (R-IX-5).
    ///
    /// # Errors
    /// [`IndexError::Unknown`] if there is no such index.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        let inner = self.read();
        if name == NAMESPACE_INDEX {
            return Ok(inner.of_namespace(value, None).map(|object| object.key().clone()).collect());
        }
        Ok(inner.index(name)?.keys(value).cloned().collect())
    }

    /// The objects that share a value with `object`, which need not be in the cache: each once, in key order
    /// (R-IX-5).
    ///
    /// # Errors
    /// [`IndexError::Unknown`] if there is no such index.
    pub fn index(&self, name: &str, object: &Object) -> Result<Vec<Arc<Object>>, IndexError> {
        if name == NAMESPACE_INDEX {
            return self.by_index(name, object.key().namespace());
        }
        let inner = self.read();
        let index = inner.index(name)?;
        let keys: BTreeSet<_> = index.values_of(object).iter().flat_map(|value| index.keys(value)).collect();
        Ok(inner.objects(keys.into_iter()))
    }

    /// The values under which an index files anything at present, in order; none for an unknown index (R-IX-5,
    /// ListIndexFuncValues).
    pub fn index_values(&self, name: &str) -> Vec<String> {
        let inner = self.read();
        if name == NAMESPACE_INDEX {
            return scan::namespaces(&inner.items, None).collect();
        }
        inner.indices.get(name).map(Index::values).unwrap_or_default()
    }

    /// Up to `limit` of [`Indexer::index_values`] that are greater than `after`.
    pub fn index_values_after(&self, name: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let inner = self.read();
        if name == NAMESPACE_INDEX {
            return scan::namespaces(&inner.items, after).take(limit).collect();
        }
        inner.indices.get(name).map(|index| index.values_after(after, limit)).unwrap_or_default()
    }

    /// The resourceVersion of the last write, list or bookmark (R-IX-9); empty before the first list.
    pub fn resource_version(&self) -> String {
        self.read().resource_version.clone()
    }

    /// Moves the store's resourceVersion on, as a bookmark or a completed list does (R-IX-9).
    pub fn set_resource_version(&self, resource_version: &str) {
        resource_version.clone_into(&mut self.write().resource_version);
    }

    // Foreign code (index functions) runs under the lock only before anything is changed: a poisoned lock
    // is entered all the same.
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Object>> {
        let old = self.items.remove(key)?;
        for index in self.indices.values_mut() {
            index.file(key, Values::default());
        }
        self.bytes -= old.json().len();
        Some(old)
    }

    fn index(&self, name: &str) -> Result<&Index, IndexError> {
        self.indices.get(name).ok_or_else(|| IndexError::Unknown(name.to_owned()))
    }

    fn objects<'a>(&self, keys: impl Iterator<Item = &'a ObjectKey>) -> Vec<Arc<Object>> {
        keys.filter_map(|key| self.items.get(key).cloned()).collect()
    }

    /// Unlike for a range, an empty namespace stands for itself here: cluster-scoped objects.
    fn of_namespace<'a>(
        &'a self,
        namespace: &'a str,
        after: Option<&ObjectKey>,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        scan::of_namespace(&self.items, namespace, after)
    }
}

#[cfg(test)]
mod tests;
