//! The cache as a listener's handlers may read it: the objects of its own subscriptions.
//!
//! Used by handlers through [`CacheReader`]. Invariant: a subscription that has not got its first list answers
//! nothing.

use std::sync::Arc;

use super::state::Shared;
use crate::cache::{CacheProblem, CacheReader};
use crate::object::{Object, ObjectKey};
use crate::replay::Phase;
use crate::shared_informer::SharedInformer;

impl CacheReader for Shared {
    fn get(&self, subscription: u32, key: &ObjectKey) -> Result<Option<Arc<Object>>, CacheProblem> {
        let informers = self.informers(subscription)?;
        Ok(informers.iter().find_map(|informer| informer.core().indexer.get(key)))
    }

    fn list(
        &self,
        subscription: u32,
        namespace: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Object>>, CacheProblem> {
        let informers = self.informers(subscription)?;
        let ranges = informers.iter().map(|informer| informer.core().indexer.range(namespace, after, limit));
        let mut objects: Vec<Arc<Object>> = ranges.flatten().collect();
        objects.sort_by(|a, b| a.key().cmp(b.key()));
        objects.truncate(limit);
        Ok(objects)
    }
}

impl Shared {
    /// The informers of one subscription, all of them synced.
    fn informers(&self, number: u32) -> Result<Vec<Arc<SharedInformer>>, CacheProblem> {
        let state = self.lock();
        let mut informers = Vec::new();
        for registered in state.registrations.values().filter(|one| one.number == number) {
            if matches!(registered.phase, Phase::Waiting) {
                return Err(CacheProblem::NotSynced);
            }
            informers.push(registered.informer.clone());
        }
        if informers.is_empty() {
            return Err(CacheProblem::UnknownSubscription);
        }
        Ok(informers)
    }
}
