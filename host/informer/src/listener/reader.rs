//! The cache as a listener's handlers may read it: the objects of its own subscriptions.
//!
//! Used by handlers through [`CacheReader`]. Invariant: a subscription that has not got its first list answers
//! nothing; an answer looks at no more than [`SCAN`] objects of each informer beyond those that it gives.

use std::sync::Arc;

use super::state::Shared;
use crate::cache::{CachePage, CacheProblem, CacheReader, ValuePage};
use crate::indexer::{IndexError, Indexer, Scan};
use crate::object::{Object, ObjectKey};
use crate::replay::Phase;
use crate::shared_informer::{Index, SharedInformer};
use crate::view::View;

/// Objects that one answer looks at, where a view has few of them.
const SCAN: usize = 10_000;

/// One informer of a subscription, and what of it is the subscription's.
struct Part {
    informer: Arc<SharedInformer>,
    view: Arc<View>,
    indexes: Vec<Index>,
}

impl CacheReader for Shared {
    fn get(&self, subscription: u32, key: &ObjectKey) -> Result<Option<Arc<Object>>, CacheProblem> {
        let parts = self.parts(subscription)?;
        let found = |part: &Part| part.indexer().get(key).filter(|object| part.view.has(object));
        Ok(parts.iter().find_map(found))
    }

    fn list(
        &self,
        subscription: u32,
        namespace: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<CachePage, CacheProblem> {
        let parts = self.parts(subscription)?;
        let scan = |part: &Part| {
            let has = |object: &Object| part.view.has(object);
            part.indexer().range_where(namespace, after, limit, part.ahead(limit), has)
        };
        Ok(page(parts.iter().map(scan).collect(), limit))
    }

    fn by_index(
        &self,
        subscription: u32,
        index: &str,
        value: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<CachePage, CacheProblem> {
        let parts = self.parts(subscription)?;
        let scan = |part: &Part| {
            let filed = part.index(index)?;
            let has = |object: &Object| part.view.has(object);
            Ok(part.indexer().by_index_where(filed, value, after, limit, part.ahead(limit), has)?)
        };
        Ok(page(parts.iter().map(scan).collect::<Result<_, CacheProblem>>()?, limit))
    }

    fn index_values(
        &self,
        subscription: u32,
        index: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ValuePage, CacheProblem> {
        let parts = self.parts(subscription)?;
        let values = |part: &Part| part.values(index, after, limit);
        let answers = parts.iter().map(values).collect::<Result<_, CacheProblem>>()?;
        let (values, next) = joined(answers, |value| value, limit);
        Ok(ValuePage { values, next })
    }
}

impl Shared {
    /// The informers of one subscription, all of them synced.
    fn parts(&self, number: u32) -> Result<Vec<Part>, CacheProblem> {
        let state = self.lock();
        let mut parts = Vec::new();
        for one in state.registrations.values().filter(|one| one.number == number) {
            if matches!(one.phase, Phase::Waiting) {
                return Err(CacheProblem::NotSynced);
            }
            parts.push(Part {
                informer: one.informer.clone(),
                view: one.view.clone(),
                indexes: one.indexes.clone(),
            });
        }
        if parts.is_empty() { Err(CacheProblem::UnknownSubscription) } else { Ok(parts) }
    }
}

impl Part {
    fn indexer(&self) -> &Indexer {
        self.informer.indexer()
    }

    /// How many objects to look at for so many.
    fn ahead(&self, limit: usize) -> usize {
        if self.view.has_all() { limit } else { SCAN.max(limit) }
    }

    fn index(&self, name: &str) -> Result<&str, CacheProblem> {
        let index = self.indexes.iter().find(|index| index.name == name);
        index.map(Index::filed_as).ok_or(CacheProblem::UnknownIndex)
    }

    fn values(
        &self,
        index: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Answer<String, String>, CacheProblem> {
        let filed = self.index(index)?;
        // One more than asked for says whether that is the end.
        let mut values = self.indexer().index_values_after(filed, after, limit.saturating_add(1));
        let is_last = values.len() <= limit;
        values.truncate(limit);
        let mut reached = values.last().filter(|_| !is_last).cloned();
        if self.view.has_all() {
            return Ok((values, reached));
        }
        let mut found = Vec::new();
        let mut scanned = 0;
        let mut before = None;
        for value in values {
            if scanned >= SCAN {
                reached = before;
                break;
            }
            let has = |object: &Object| self.view.has(object);
            let scan = self.indexer().by_index_where(filed, &value, None, 1, usize::MAX, has)?;
            scanned += scan.scanned;
            before = Some(value.clone());
            found.extend(Some(value).filter(|_| !scan.objects.is_empty()));
        }
        Ok((found, reached))
    }
}

fn page(scans: Vec<Scan>, limit: usize) -> CachePage {
    let answers = scans.into_iter().map(|scan| (scan.objects, scan.reached)).collect();
    let (objects, next) = joined(answers, |object: &Arc<Object>| object.key(), limit);
    CachePage { objects, next }
}

/// What one informer answered, in order, and where it stopped looking; none: at the end.
type Answer<T, K> = (Vec<T>, Option<K>);

/// The first `limit` items of all answers, each once, and where to go on: no further than every informer was looked
/// at.
fn joined<T, K: Ord + Clone>(
    answers: Vec<Answer<T, K>>,
    key: impl Fn(&T) -> &K,
    limit: usize,
) -> Answer<T, K> {
    let reached = answers.iter().filter_map(|(_, reached)| reached.clone()).min();
    let mut items: Vec<T> = answers.into_iter().flat_map(|(items, _)| items).collect();
    items.retain(|item| reached.as_ref().is_none_or(|reached| key(item) <= reached));
    items.sort_by(|a, b| key(a).cmp(key(b)));
    items.dedup_by(|a, b| key(a) == key(b));
    if items.len() > limit {
        items.truncate(limit);
        let last = items.last().map(|item| key(item).clone());
        return (items, last);
    }
    (items, reached)
}

impl From<IndexError> for CacheProblem {
    /// The index was given up between two looks: as if it had never been.
    fn from(_: IndexError) -> Self {
        Self::UnknownIndex
    }
}
