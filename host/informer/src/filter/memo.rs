//! Projections that were made lately, so that several handlers, and the next update, get the same one.
//!
//! Used by [`Filter::project`](super::Filter::project). Invariants: bounded in number and in bytes; it keeps no
//! source object's text alive; for a source that lives, an entry is never another source's.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::object::Object;

/// Most projections kept by one filter.
const MAX_ENTRIES: usize = 1024;
/// Most bytes of projected text kept by one filter.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// See the file's head. Oldest out first.
#[derive(Debug, Default)]
pub(super) struct Memo {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// By the source's address. The weak reference keeps the address from being used for another object.
    entries: HashMap<usize, (Weak<Object>, Arc<Object>)>,
    order: VecDeque<usize>,
    bytes: usize,
}

impl Memo {
    /// The projection of `source`, if it is still known.
    pub(super) fn get(&self, source: &Arc<Object>) -> Option<Arc<Object>> {
        self.lock().entries.get(&address(source)).map(|(_, projection)| projection.clone())
    }

    /// Keeps the projection of `source`; gives the one to use, which is an earlier one if there is one.
    pub(super) fn put(&self, source: &Arc<Object>, projection: Arc<Object>) -> Arc<Object> {
        let mut inner = self.lock();
        let key = address(source);
        if let Some((_, earlier)) = inner.entries.get(&key) {
            return earlier.clone();
        }
        inner.bytes += projection.json().len();
        inner.entries.insert(key, (Arc::downgrade(source), projection.clone()));
        inner.order.push_back(key);
        inner.trim();
        projection
    }

    // A panic elsewhere leaves nothing half-written that could mislead: a poisoned lock is entered all the same.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Drops the oldest entries while a bound is exceeded or their sources are gone.
    fn trim(&mut self) {
        while let Some(key) = self.order.front() {
            let gone = self.entries.get(key).is_none_or(|(source, _)| source.strong_count() == 0);
            if self.order.len() <= MAX_ENTRIES && self.bytes <= MAX_BYTES && !gone {
                return;
            }
            if let Some((_, projection)) = self.order.pop_front().and_then(|key| self.entries.remove(&key)) {
                self.bytes -= projection.json().len();
            }
        }
    }
}

fn address(object: &Arc<Object>) -> usize {
    Arc::as_ptr(object).addr()
}
