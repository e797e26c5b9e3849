//! The cache as a listener's handlers may read it: the objects of its own subscriptions.
//!
//! Used by handlers through [`CacheReader`]. Invariant: a subscription that has not got its first list answers
//! nothing.

use std::sync::Arc;

use super::state::Shared;
use crate::cache::{CachePage, CacheProblem, CacheReader, ValuePage};
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
    ) -> Result<CachePage, CacheProblem> {
        let informers = self.informers(subscription)?;
        // One more than asked for tells whether this is the last page.
        let ask = limit.saturating_add(1);
        let ranges = informers.iter().map(|informer| informer.core().indexer.range(namespace, after, ask));
        let mut objects: Vec<Arc<Object>> = ranges.flatten().collect();
        objects.sort_by(|a, b| a.key().cmp(b.key()));
        let more = objects.len() > limit;
        objects.truncate(limit);
        let next = objects.last().filter(|_| more).map(|object| object.key().clone());
        Ok(CachePage { objects, next })
    }

    /// No subscription of a listener has an index.
    fn by_index(
        &self,
        subscription: u32,
        _index: &str,
        _value: &str,
        _after: Option<&ObjectKey>,
        _limit: usize,
    ) -> Result<CachePage, CacheProblem> {
        self.informers(subscription)?;
        Err(CacheProblem::UnknownIndex)
    }

    fn index_values(
        &self,
        subscription: u32,
        _index: &str,
        _after: Option<&str>,
        _limit: usize,
    ) -> Result<ValuePage, CacheProblem> {
        self.informers(subscription)?;
        Err(CacheProblem::UnknownIndex)
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
