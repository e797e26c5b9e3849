//! The plain queue: per key, the newest state and nothing of how it came about (client-go's FIFO).
//!
//! For consumers who want what is true now, in the order in which keys first had something to tell; also the
//! meaning of a listener's "latest" delivery. [`Latest`] is the queue itself, without locks, for use under
//! somebody else's; [`Fifo`] adds the waiting popper, the account of the first list, and the end. Invariant: a
//! key waits once, so the queue is bounded by the number of keys.
//!
//! | then comes, of a key that | waits | does not wait |
//! | --- | --- | --- |
//! | a state | it replaces the one that waits, in its place | the key joins at the tail |
//! | a deletion | the key leaves the queue, untold | nothing |
//!
//! Nobody is told of deletions. That makes this queue the wrong one behind a cache: there it is the
//! [DeltaFIFO](crate::delta_fifo) that is needed.
//!
//! Deviations from client-go's: a deleted key that comes again joins at the tail, not in the place that it left
//! (its queue keeps places of deleted keys, and grows with them); an item of the first list that is deleted or
//! replaced away counts as processed at once, not when a pop comes to its place; producers are turned away after
//! the end, as by the DeltaFIFO. There is no resync: client-go's makes sure that every item has a place in the
//! queue, which nothing here can take away from it.

mod latest;

use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::sync::Notify;

pub use self::latest::Latest;
use crate::delta_fifo::Processed;

/// See the file's head.
pub struct Fifo<K, V> {
    state: Mutex<State<K, V>>,
    // Told after the state has changed and asked before it is looked at, as in the DeltaFIFO.
    filled: Notify,
}

struct State<K, V> {
    items: Latest<K, Item<V>>,
    /// Anything was ever put in or taken out by name (R-SYN-1).
    populated: bool,
    /// Items that are marked as such.
    initial: usize,
    closed: bool,
}

struct Item<V> {
    value: V,
    /// Of the first list.
    initial: bool,
}

impl<K: Hash + Eq + Clone, V> Default for Fifo<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Hash + Eq + Clone, V> Fifo<K, V> {
    /// An empty queue.
    pub fn new() -> Self {
        let state = State { items: Latest::new(), populated: false, initial: 0, closed: false };
        Self { state: Mutex::new(state), filled: Notify::new() }
    }

    /// The newest state of a key, new or not. Ignored once closed.
    pub fn add(&self, key: K, value: V) {
        let Some(mut state) = self.open() else { return };
        state.populated = true;
        match state.items.get_mut(&key) {
            Some(item) => item.value = value,
            None => drop(state.items.insert(key, Item { value, initial: false })),
        }
        drop(state);
        self.filled.notify_one();
    }

    /// The same, unless the key waits: what waits is newer. Gives whether it was taken. For a consumer that tries
    /// again later.
    pub fn add_if_not_present(&self, key: K, value: V) -> bool {
        let Some(mut state) = self.open() else { return false };
        state.populated = true;
        let added = state.items.insert_if_absent(key, Item { value, initial: false });
        drop(state);
        self.filled.notify_one();
        added
    }

    /// The key has no state any more: what waits of it is given back instead of being popped.
    pub fn delete(&self, key: &K) -> Option<V> {
        let mut state = self.open()?;
        state.populated = true;
        let item = state.items.remove(key)?;
        state.initial -= usize::from(item.initial);
        Some(item.value)
    }

    /// From now on these states wait, in this order, and nothing else: what they do not name is dropped untold.
    pub fn replace(&self, items: impl IntoIterator<Item = (K, V)>) {
        let Some(mut state) = self.open() else { return };
        let first = !std::mem::replace(&mut state.populated, true);
        let mut before = std::mem::take(&mut state.items);
        for (key, value) in items {
            let initial = first || before.remove(&key).is_some_and(|item| item.initial);
            let again = state.items.get_mut(&key);
            match again {
                Some(item) => item.value = value,
                None => drop(state.items.insert(key, Item { value, initial })),
            }
        }
        state.initial = state.items.iter().filter(|(_, item)| item.initial).count();
        drop(state);
        self.filled.notify_one();
    }

    /// What waits of a key.
    pub fn get(&self, key: &K) -> Option<V>
    where
        V: Clone,
    {
        self.lock().items.get(key).map(|item| item.value.clone())
    }

    /// The keys that wait, in the order in which they will be popped.
    pub fn keys(&self) -> Vec<K> {
        self.lock().items.iter().map(|(key, _)| key.clone()).collect()
    }

    /// How many keys wait.
    pub fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the first list has been processed (R-SYN-2). Waits for a process function that is running.
    pub fn has_synced(&self) -> bool {
        let state = self.lock();
        state.populated && state.initial == 0
    }

    /// Ends the queue: producers are ignored from now on, poppers drain what is left and then get none (R-DF-8).
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_waiters();
    }

    /// Waits for the next key, lets `process` work on it under the queue's lock, and gives its answer; none once
    /// the queue is closed and empty. `process` must not call the queue, nor block. What it asks to put back
    /// goes to the tail and keeps its part in the first list; a closed queue takes nothing back.
    pub async fn pop<R>(&self, mut process: impl FnMut(K, V) -> Processed<R, V>) -> Option<R> {
        loop {
            let filled = self.filled.notified();
            if let Poll::Ready(answer) = self.try_pop(&mut process) {
                return answer;
            }
            filled.await;
        }
    }

    fn try_pop<R>(&self, process: &mut impl FnMut(K, V) -> Processed<R, V>) -> Poll<Option<R>> {
        let mut state = self.lock();
        let Some((key, item)) = state.items.pop() else {
            return if state.closed { Poll::Ready(None) } else { Poll::Pending };
        };
        state.initial -= usize::from(item.initial);
        // For another popper, also if `process` panics.
        let _more = Wake((!state.items.is_empty()).then_some(&self.filled));
        let answer = match process(key.clone(), item.value) {
            Processed::Done(answer) => answer,
            Processed::Requeue(answer, value) => {
                if !state.closed && state.items.insert_if_absent(key, Item { value, ..item }) {
                    state.initial += usize::from(item.initial);
                    self.filled.notify_one();
                }
                answer
            }
        };
        Poll::Ready(Some(answer))
    }

    fn open(&self) -> Option<MutexGuard<'_, State<K, V>>> {
        Some(self.lock()).filter(|state| !state.closed)
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        // The accounts are right whenever foreign code runs: a poisoned lock is entered all the same.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Wake<'a>(Option<&'a Notify>);

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        if let Some(notify) = self.0 {
            notify.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
