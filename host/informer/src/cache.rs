//! Reading the cache as a plugin may: only the objects of its own subscriptions, one consistent state per
//! answer.
//!
//! [`CacheReader`] is implemented by the listener and used by the sandbox's `cache` import. Invariant: a
//! reader never waits for the API server, and never writes. How many objects a page has at most is the
//! reader's to keep, how many bytes is its caller's, who alone knows what becomes of the objects.

use std::sync::Arc;

use crate::object::{Object, ObjectKey};

/// Why a question to the cache has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CacheProblem {
    /// The subscription's first list is not in the cache yet.
    #[error("the subscription's first list is not in the cache yet")]
    NotSynced,
    /// No subscription has this number.
    #[error("no subscription has this number")]
    UnknownSubscription,
    /// The subscription has no index of this name.
    #[error("the subscription has no index of this name")]
    UnknownIndex,
}

/// Some objects, and where to go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CachePage {
    /// In key order.
    pub objects: Vec<Arc<Object>>,
    /// Go on after this key; none: this is the last page. May be set with fewer objects than asked for.
    pub next: Option<ObjectKey>,
}

/// Some values of an index, and where to go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValuePage {
    /// Ordered by bytes, each once.
    pub values: Vec<String>,
    /// Go on after this value; none: this is the last page. May be set with fewer values than asked for.
    pub next: Option<String>,
}

/// The objects of one listener's subscriptions.
pub trait CacheReader: Send + Sync {
    /// One object of a subscription.
    ///
    /// # Errors
    /// [`CacheProblem`] if the subscription is unknown or not synced.
    fn get(&self, subscription: u32, key: &ObjectKey) -> Result<Option<Arc<Object>>, CacheProblem>;

    /// Up to `limit` (at least 1) objects with a key greater than `after`; of one namespace if `namespace` is
    /// not empty.
    ///
    /// # Errors
    /// As for [`CacheReader::get`].
    fn list(
        &self,
        subscription: u32,
        namespace: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<CachePage, CacheProblem>;

    /// Up to `limit` (at least 1) objects that an index files under `value`, with a key greater than `after`.
    ///
    /// # Errors
    /// As for [`CacheReader::get`], and if the subscription has no such index.
    fn by_index(
        &self,
        subscription: u32,
        index: &str,
        value: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<CachePage, CacheProblem>;

    /// Up to `limit` (at least 1) values greater than `after` under which an index files at least one object.
    ///
    /// # Errors
    /// As for [`CacheReader::by_index`].
    fn index_values(
        &self,
        subscription: u32,
        index: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ValuePage, CacheProblem>;
}
