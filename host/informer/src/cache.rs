//! Reading the cache as a plugin may: only the objects of its own subscriptions, one consistent state per
//! answer.
//!
//! [`CacheReader`] is implemented by the listener and used by the sandbox's `cache` import. Invariant: a
//! reader never waits for the API server, and never writes.

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
}

/// The objects of one listener's subscriptions.
pub trait CacheReader: Send + Sync {
    /// One object of a subscription.
    ///
    /// # Errors
    /// [`CacheProblem`] if the subscription is unknown or not synced.
    fn get(&self, subscription: u32, key: &ObjectKey) -> Result<Option<Arc<Object>>, CacheProblem>;

    /// Up to `limit` objects with a key greater than `after`, in key order; of one namespace if `namespace`
    /// is not empty.
    ///
    /// # Errors
    /// As for [`CacheReader::get`].
    fn list(
        &self,
        subscription: u32,
        namespace: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Object>>, CacheProblem>;
}
