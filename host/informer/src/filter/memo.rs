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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    fn source(number: usize) -> Arc<Object> {
        object(&format!("n/{number}"), "u", "1")
    }

    fn projection(source: &Arc<Object>, bytes: usize) -> Arc<Object> {
        Arc::new(source.with_json("x".repeat(bytes)))
    }

    fn sizes(memo: &Memo) -> (usize, usize, usize) {
        let inner = memo.lock();
        (inner.entries.len(), inner.order.len(), inner.bytes)
    }

    #[test]
    fn the_first_projection_of_an_object_is_the_one_for_all() {
        let memo = Memo::default();
        let source = source(1);
        assert_eq!(memo.get(&source), None);
        let first = memo.put(&source, projection(&source, 3));
        assert!(Arc::ptr_eq(&memo.get(&source).expect("known"), &first));
        assert!(Arc::ptr_eq(&memo.put(&source, projection(&source, 4)), &first), "two made it at once");
        assert_eq!(sizes(&memo), (1, 1, 3));
    }

    #[test]
    fn it_is_bounded_in_number_the_oldest_out_first() {
        let memo = Memo::default();
        let sources: Vec<_> = (0..=MAX_ENTRIES).map(source).collect();
        for source in &sources {
            memo.put(source, projection(source, 2));
        }
        assert_eq!(sizes(&memo), (MAX_ENTRIES, MAX_ENTRIES, 2 * MAX_ENTRIES));
        assert_eq!(memo.get(&sources[0]), None);
        assert!(memo.get(&sources[1]).is_some());
    }

    #[test]
    fn it_is_bounded_in_bytes_and_a_projection_above_the_bound_is_not_kept() {
        let memo = Memo::default();
        let sources: Vec<_> = (0..4).map(source).collect();
        for source in &sources[..3] {
            memo.put(source, projection(source, MAX_BYTES / 2));
        }
        assert_eq!(sizes(&memo), (2, 2, MAX_BYTES));
        assert_eq!(memo.get(&sources[0]), None);
        let large = memo.put(&sources[3], projection(&sources[3], MAX_BYTES + 1));
        assert_eq!(large.json().len(), MAX_BYTES + 1);
        assert_eq!(sizes(&memo), (0, 0, 0));
    }

    #[test]
    fn it_keeps_no_source_alive_and_lets_go_of_what_has_none() {
        let memo = Memo::default();
        let (gone, there) = (source(1), source(2));
        memo.put(&gone, projection(&gone, 5));
        assert_eq!(Arc::strong_count(&gone), 1);
        drop(gone);
        memo.put(&there, projection(&there, 7));
        assert_eq!(sizes(&memo), (1, 1, 7));
        assert!(memo.get(&there).is_some());
    }
}
