//! The queue between the reflector and the controller: per key, everything that happened since the key was
//! last popped.
//!
//! Filled by one reflector, drained by one [controller](crate::controller). It is client-go's classic DeltaFIFO:
//! deltas of a key stay together and in order (R-DF-10), keys leave in the order in which they first came.
//!
//! Invariants: the process function runs under the queue's lock, so that `replace` and `resync` always see
//! queue and cache agree; at most `capacity` deltas of single events wait, since the reflector is held back.
//!
//! # How it differs from client-go's newer in-order queue, and why a handler can trust it
//!
//! client-go has since come to prefer a flat list of deltas (RealFIFO). What a handler could notice (section 2.6
//! of the rules), and what it is promised here:
//!
//! | | RealFIFO | here | a handler relies on |
//! | --- | --- | --- | --- |
//! | across objects | order of arrival | later deltas of a waiting key are pulled forward to it | order per object only (contract 15) |
//! | a relist | deletions first | by place in the queue; keys that only the cache has come last | the same |
//! | delete of an object never shown | told | not an event (R-DF-3) | contract 6 |
//! | cache and event | the cache may be a batch ahead | the cache is at the event's state, or newer when the handler gets to it | contract 2 |
//! | an empty first list | synced once processed | synced at once, told by [`Popped::Synced`] in its turn | contract 3 |
//! | resync | expanded when it is processed | waiting keys are skipped (R-DF-6) | never an older state after a newer one |
//!
//! Both show each state of an object in the order of the watch, and neither merges two of them.
//!
//! # Deviations from the classic queue
//!
//! - A process function that fails can have its deltas put back ([`Processed::Requeue`]), as AddIfNotPresent did
//!   before it was dropped upstream (R-DF-7). Until they are through, the first list counts as not processed.
//! - Producers are turned away after [`DeltaFifo::close`] (R-DF-8 lets them go on): its consumer is gone, so what
//!   they would add could only grow, or hold them back for ever.
//! - The cache's version follows the order of arrival, and only once nothing waits; see [`DeltaFifo::bookmark`].
//! - Objects are transformed as they are decoded, long before they come here (R-DF-9).

mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;

use self::state::{Reached, State};
use crate::indexer::Indexer;
use crate::object::{Object, ObjectKey};

/// What a delta says about its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeltaKind {
    /// The watch reported it as added.
    Added,
    /// The watch reported it as modified.
    Updated,
    /// The watch reported it as deleted, or a relist no longer had it.
    Deleted,
    /// A list had it.
    Replaced,
    /// A resync is due; or a list had it, if [`DeltaFifoOptions::emits_replaced`] is off.
    Sync,
}

/// One thing that happened to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// What happened.
    pub kind: DeltaKind,
    /// The object's state; for a deletion noticed by a relist, the last one known.
    pub object: Arc<Object>,
    /// A deletion noticed only by a relist (client-go's `DeletedFinalStateUnknown`).
    pub final_state_unknown: bool,
}

/// What [`DeltaFifo::pop`] gives to its process function.
#[derive(Debug, PartialEq, Eq)]
pub enum Popped {
    /// Everything that happened to one key, oldest first.
    Deltas {
        /// The key.
        key: ObjectKey,
        /// Never empty.
        deltas: Vec<Delta>,
        /// They belong to the first list (R-SYN-3).
        initial: bool,
    },
    /// The first list has been processed. Given exactly once.
    Synced,
}

/// What a process function made of what it was given.
#[derive(Debug, PartialEq, Eq)]
pub enum Processed<R, B = Vec<Delta>> {
    /// It is done with.
    Done(R),
    /// This is to be popped again, as by [`DeltaFifo::add_if_not_present`]: the deltas that were not done, oldest
    /// first.
    Requeue(R, B),
}

/// Single-event deltas that may wait before the reflector is held back.
pub const DEFAULT_CAPACITY: usize = 1024;

/// What can be set about a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaFifoOptions {
    /// Deltas that may wait before producers of single events are held back; at least 1.
    pub capacity: usize,
    /// Tell what a list had as `Replaced`, and only resyncs as `Sync` (R-DF-4); off: both as `Sync`.
    pub emits_replaced: bool,
}

impl Default for DeltaFifoOptions {
    fn default() -> Self {
        Self { capacity: DEFAULT_CAPACITY, emits_replaced: true }
    }
}

/// Numbers about a queue, read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeltaFifoStats {
    /// Deltas that wait.
    pub depth: usize,
    /// How long the key has waited that comes next; none if none waits.
    pub oldest: Option<Duration>,
    /// Keys popped so far; one that was put back counts each time.
    pub taken: u64,
    /// How long those had waited, in all.
    pub waited: Duration,
}

/// See the file's head.
pub struct DeltaFifo {
    state: Mutex<State>,
    known: Arc<Indexer>,
    options: DeltaFifoOptions,
    // Both are told after the state has changed, and asked before it is looked at. So no change goes unnoticed:
    // `notify_one` leaves a permit if nobody waits yet, `notify_waiters` also wakes those who have only asked.
    // Whoever is woken and leaves something for others passes the word on.
    /// There is something to pop.
    filled: Notify,
    /// There is room for producers.
    drained: Notify,
}

impl DeltaFifo {
    /// An empty queue in front of `known`, the cache that its consumer fills.
    pub fn new(capacity: usize, known: Arc<Indexer>) -> Self {
        Self::with_options(DeltaFifoOptions { capacity, ..DeltaFifoOptions::default() }, known)
    }

    /// The same, with everything that can be set.
    pub fn with_options(options: DeltaFifoOptions, known: Arc<Indexer>) -> Self {
        let options = DeltaFifoOptions { capacity: options.capacity.max(1), ..options };
        Self { state: Mutex::default(), known, options, filled: Notify::new(), drained: Notify::new() }
    }

    /// An object was added. Waits while the queue is at its bound.
    pub async fn add(&self, object: Arc<Object>) {
        self.enqueue(DeltaKind::Added, object).await;
    }

    /// An object was modified. Waits while the queue is at its bound.
    pub async fn update(&self, object: Arc<Object>) {
        self.enqueue(DeltaKind::Updated, object).await;
    }

    /// An object was deleted; ignored if it is neither queued nor known (R-DF-3). Waits while the queue is at
    /// its bound.
    pub async fn delete(&self, object: Arc<Object>) {
        self.enqueue(DeltaKind::Deleted, object).await;
    }

    async fn enqueue(&self, kind: DeltaKind, object: Arc<Object>) {
        loop {
            let drained = self.drained.notified();
            if self.try_enqueue(kind, &object).is_ready() {
                return;
            }
            drained.await;
        }
    }

    fn try_enqueue(&self, kind: DeltaKind, object: &Arc<Object>) -> Poll<()> {
        let mut state = self.lock();
        if state.closed {
            return Poll::Ready(());
        }
        if !self.has_room(&state) {
            return Poll::Pending;
        }
        state.populated = true;
        if kind != DeltaKind::Deleted || state.has(object.key()) || self.known.get(object.key()).is_some() {
            state.push(Delta { kind, object: object.clone(), final_state_unknown: false });
        }
        // Also where nothing was queued: the watch has come as far as this.
        state.reached = Some(Reached::Event(object.clone()));
        state.settle(&self.known);
        let room = self.has_room(&state);
        drop(state);
        self.filled.notify_one();
        if room {
            self.drained.notify_one();
        }
        Poll::Ready(())
    }

    /// A complete list: every object of it is `Replaced`, and every queued or known key that it lacks is
    /// deleted with its last state (R-DF-4). Not held back: a list is in memory already.
    pub fn replace(&self, objects: Vec<Arc<Object>>, resource_version: &str) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let kind = if self.options.emits_replaced { DeltaKind::Replaced } else { DeltaKind::Sync };
        state.replace(objects, kind, self.known.list());
        state.reached = Some(Reached::Version(resource_version.to_owned()));
        drop(state);
        self.filled.notify_one();
    }

    /// Queues every known object that is not queued already as `Sync`, so that a resync never shows an older
    /// state after a newer one (R-DF-6).
    pub fn resync(&self) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        for object in self.known.list() {
            if !state.has(object.key()) {
                state.push(Delta { kind: DeltaKind::Sync, object, final_state_unknown: false });
            }
        }
        drop(state);
        self.filled.notify_one();
    }

    /// The server says that nothing else happened up to this version. The cache's version follows once
    /// everything queued before is in it; until then it is that of the object written last, which a later delta
    /// pulled forward may have brought ahead of others that still wait.
    pub fn bookmark(&self, resource_version: &str) {
        let mut state = self.lock();
        if !state.closed {
            state.reached = Some(Reached::Version(resource_version.to_owned()));
            state.settle(&self.known);
        }
    }

    /// Puts deltas of one key, oldest first, at the queue's tail, unless something newer of the key waits: then
    /// they are dropped, since it says all that matters now. Gives whether they were queued. For a consumer
    /// that tries again later; not held back, since they were in the queue before. Ignored once closed.
    pub fn add_if_not_present(&self, deltas: Vec<Delta>) -> bool {
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        state.populated = true;
        let queued = state.put_back(deltas, false);
        drop(state);
        self.filled.notify_one();
        queued
    }

    /// Whether the first list has been processed (R-SYN-2). Waits for a process function that is running.
    pub fn has_synced(&self) -> bool {
        self.lock().has_synced()
    }

    /// How many deltas wait.
    pub fn depth(&self) -> usize {
        self.lock().deltas()
    }

    /// Numbers of this moment.
    pub fn stats(&self) -> DeltaFifoStats {
        self.lock().stats()
    }

    /// Ends the queue: producers are ignored from now on, those held back are let go, and the popper drains what
    /// is left and then gets none (R-DF-8).
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_waiters();
        self.drained.notify_waiters();
    }

    /// Waits for the next thing, lets `process` work on it under the queue's lock, and gives its answer; none
    /// once the queue is closed and empty (R-DF-7). `process` must not call the queue, nor block.
    pub async fn pop<R>(&self, mut process: impl FnMut(Popped) -> R) -> Option<R> {
        self.pop_or_requeue(|popped| Processed::Done(process(popped))).await
    }

    /// The same for a process function that may fail and see what it was given again. What is put back goes to
    /// the tail, keeps its part in the first list, and stays in order with what comes later of the key. A closed
    /// queue takes nothing back, so that draining it ends.
    pub async fn pop_or_requeue<R>(&self, mut process: impl FnMut(Popped) -> Processed<R>) -> Option<R> {
        loop {
            let filled = self.filled.notified();
            if let Poll::Ready(answer) = self.try_pop(&mut process) {
                return answer;
            }
            filled.await;
        }
    }

    fn try_pop<R>(&self, process: &mut impl FnMut(Popped) -> Processed<R>) -> Poll<Option<R>> {
        let mut state = self.lock();
        let Some(popped) = state.take() else {
            return if state.closed { Poll::Ready(None) } else { Poll::Pending };
        };
        // Told also if `process` panics: the accounts are right by now.
        let mut news = News { fifo: self, filled: !state.is_empty(), drained: self.has_room(&state) };
        let initial = matches!(popped, Popped::Deltas { initial: true, .. });
        let answer = match process(popped) {
            Processed::Done(answer) => answer,
            Processed::Requeue(answer, deltas) => {
                news.filled |= !state.closed && state.put_back(deltas, initial);
                answer
            }
        };
        state.settle(&self.known);
        drop(state);
        Poll::Ready(Some(answer))
    }

    fn has_room(&self, state: &State) -> bool {
        state.deltas() < self.options.capacity
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // See Indexer: stopping for good would be worse than going on after a panic elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes whom it concerns when it is dropped.
struct News<'a> {
    fifo: &'a DeltaFifo,
    filled: bool,
    drained: bool,
}

impl Drop for News<'_> {
    fn drop(&mut self) {
        if self.filled {
            self.fifo.filled.notify_one();
        }
        if self.drained {
            self.fifo.drained.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
