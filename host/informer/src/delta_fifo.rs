//! The queue between the reflector and the shared informer: per key, everything that happened since the key
//! was last popped.
//!
//! Filled by one reflector, drained by one shared informer. It is client-go's classic DeltaFIFO: deltas of a
//! key stay together and in order (R-DF-10), keys leave in the order in which they first came. client-go's
//! newer in-order queue (RealFIFO) keeps the arrival order across keys as well; a handler of ours is promised
//! order per key only, and is never told of a delete of an object that it was not shown (R-DF-3), which is
//! what the classic queue gives.
//!
//! Invariants: the process function runs under the queue's lock, so that `replace` and `resync` always see
//! queue and cache agree; at most `capacity` deltas of single events wait, since the reflector is held back.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

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
    /// A resync is due.
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

/// Single-event deltas that may wait before the reflector is held back.
pub const DEFAULT_CAPACITY: usize = 1024;

/// See the file's head.
pub struct DeltaFifo {
    state: Mutex<State>,
    known: Arc<Indexer>,
    capacity: usize,
    /// Wakes the one popper.
    filled: Notify,
    /// Wakes the one producer.
    drained: Notify,
}

#[derive(Default)]
struct State {
    items: HashMap<ObjectKey, Vec<Delta>>,
    order: VecDeque<ObjectKey>,
    deltas: usize,
    populated: bool,
    initial_population: usize,
    synced_told: bool,
    bookmark: Option<String>,
    closed: bool,
}

impl DeltaFifo {
    /// An empty queue in front of `known`, the cache that its consumer fills.
    pub fn new(capacity: usize, known: Arc<Indexer>) -> Self {
        Self {
            state: Mutex::default(),
            known,
            capacity: capacity.max(1),
            filled: Notify::new(),
            drained: Notify::new(),
        }
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
            {
                let mut state = self.lock();
                if state.closed {
                    return;
                }
                if state.deltas < self.capacity {
                    state.populated = true;
                    let unknown = || self.known.get(object.key()).is_none();
                    if kind != DeltaKind::Deleted || state.items.contains_key(object.key()) || !unknown() {
                        state.push(Delta { kind, object, final_state_unknown: false });
                    }
                    break;
                }
            }
            drained.await;
        }
        self.filled.notify_one();
    }

    /// A complete list: every object of it is `Replaced`, and every queued or known key that it lacks is
    /// deleted with its last state (R-DF-4). Not held back: a list is in memory already.
    pub fn replace(&self, objects: Vec<Arc<Object>>, resource_version: &str) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let listed: HashSet<ObjectKey> = objects.iter().map(|object| object.key().clone()).collect();
        let mut gone: Vec<Arc<Object>> = Vec::new();
        for (key, deltas) in &state.items {
            if !listed.contains(key)
                && let Some(newest) = deltas.last()
            {
                gone.push(newest.object.clone());
            }
        }
        for object in self.known.list() {
            if !listed.contains(object.key()) && !state.items.contains_key(object.key()) {
                gone.push(object);
            }
        }
        let population = listed.len() + gone.len();
        for object in objects {
            state.push(Delta { kind: DeltaKind::Replaced, object, final_state_unknown: false });
        }
        for object in gone {
            state.push(Delta { kind: DeltaKind::Deleted, object, final_state_unknown: true });
        }
        if !state.populated {
            state.populated = true;
            state.initial_population = population;
        }
        state.bookmark = Some(resource_version.to_owned());
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
            if !state.items.contains_key(object.key()) {
                state.push(Delta { kind: DeltaKind::Sync, object, final_state_unknown: false });
            }
        }
        drop(state);
        self.filled.notify_one();
    }

    /// The server says that nothing else happened up to this version: the cache's version follows once
    /// everything queued before is in it.
    pub fn bookmark(&self, resource_version: &str) {
        let mut state = self.lock();
        state.bookmark = Some(resource_version.to_owned());
        state.settle_bookmark(&self.known);
    }

    /// Whether the first list has been processed (R-SYN-2).
    pub fn has_synced(&self) -> bool {
        self.lock().has_synced()
    }

    /// How many deltas wait.
    pub fn depth(&self) -> usize {
        self.lock().deltas
    }

    /// Ends the queue: producers are ignored from now on, the popper drains what is left and then gets none.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
        self.drained.notify_one();
    }

    /// Waits for the next thing, lets `process` work on it under the queue's lock, and gives its answer; none
    /// once the queue is closed and empty (R-DF-7). `process` must not call the queue, nor block.
    pub async fn pop<R>(&self, mut process: impl FnMut(Popped) -> R) -> Option<R> {
        loop {
            let filled = self.filled.notified();
            {
                let mut state = self.lock();
                if let Some((popped, counted)) = state.next() {
                    let answer = process(popped);
                    state.initial_population -= usize::from(counted);
                    state.settle_bookmark(&self.known);
                    let room = state.deltas < self.capacity;
                    drop(state);
                    if room {
                        self.drained.notify_one();
                    }
                    return Some(answer);
                }
                if state.closed {
                    return None;
                }
            }
            filled.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // See Indexer: stopping for good would be worse than going on after a panic elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_synced(&self) -> bool {
        self.populated && self.initial_population == 0
    }

    /// Appends a delta to its key's list, merging two deletions (R-DF-1, R-DF-2).
    fn push(&mut self, delta: Delta) {
        let key = delta.object.key().clone();
        let Some(deltas) = self.items.get_mut(&key) else {
            self.items.insert(key.clone(), vec![delta]);
            self.order.push_back(key);
            self.deltas += 1;
            return;
        };
        match deltas.last_mut() {
            Some(last) if last.kind == DeltaKind::Deleted && delta.kind == DeltaKind::Deleted => {
                if last.final_state_unknown {
                    *last = delta;
                }
            }
            _ => {
                deltas.push(delta);
                self.deltas += 1;
            }
        }
    }

    /// The next thing to process, and whether it counts against the initial population.
    fn next(&mut self) -> Option<(Popped, bool)> {
        if self.has_synced() && !self.synced_told {
            self.synced_told = true;
            return Some((Popped::Synced, false));
        }
        let key = self.order.pop_front()?;
        // Every key in `order` has an entry: `push` adds and `next` removes both together.
        let deltas = self.items.remove(&key).unwrap_or_default();
        self.deltas -= deltas.len();
        let initial = !self.has_synced();
        let counted = self.initial_population > 0;
        Some((Popped::Deltas { key, deltas, initial }, counted))
    }

    /// Hands the remembered version to the cache once nothing older is queued.
    fn settle_bookmark(&mut self, known: &Indexer) {
        if self.items.is_empty()
            && let Some(version) = self.bookmark.take()
        {
            known.set_resource_version(&version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    fn fifo(known: &[Arc<Object>]) -> DeltaFifo {
        let indexer = Arc::new(Indexer::new());
        for object in known {
            indexer.upsert(object.clone());
        }
        DeltaFifo::new(DEFAULT_CAPACITY, indexer)
    }

    /// Pops everything that is queued: `key: Kind@version …`, a tombstone marked with `?`.
    fn drain(fifo: &DeltaFifo) -> Vec<String> {
        fifo.close();
        let mut seen = Vec::new();
        let popping = async {
            while let Some(line) = fifo
                .pop(|popped| match popped {
                    Popped::Synced => "synced".to_owned(),
                    Popped::Deltas { key, deltas, .. } => {
                        let deltas: Vec<String> = deltas
                            .iter()
                            .map(|delta| {
                                let unknown = if delta.final_state_unknown { "?" } else { "" };
                                format!("{:?}@{}{unknown}", delta.kind, delta.object.resource_version())
                            })
                            .collect();
                        format!("{key}: {}", deltas.join(" "))
                    }
                })
                .await
            {
                seen.push(line);
            }
        };
        now(popping);
        seen
    }

    /// Runs a future that never has to wait for another task.
    fn now<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
    }

    #[test]
    fn deltas_of_a_key_stay_together_and_keys_keep_their_first_place() {
        let fifo = fifo(&[]);
        fifo.replace(vec![], "1");
        now(async {
            fifo.add(object("foo", "u", "10")).await;
            fifo.add(object("bar", "u", "1")).await;
            fifo.update(object("foo", "u", "12")).await;
            fifo.delete(object("foo", "u", "15")).await;
        });
        assert_eq!(drain(&fifo), ["synced", "foo: Added@10 Updated@12 Deleted@15", "bar: Added@1"]);
    }

    #[test]
    fn deleting_what_is_neither_queued_nor_known_is_ignored() {
        let fifo = fifo(&[object("baz", "u", "7")]);
        now(async {
            fifo.delete(object("qux", "u", "20")).await;
            fifo.delete(object("baz", "u", "20")).await;
        });
        assert_eq!(drain(&fifo), ["synced", "baz: Deleted@20"]);
    }

    #[test]
    fn replace_deletes_what_only_the_cache_or_only_the_queue_has() {
        // Cases (1) to (5) of client-go's TestDeltaFIFO_ReplaceMakesDeletions, with Replaced for Sync.
        let known = || [object("foo", "u", "5"), object("bar", "u", "6"), object("baz", "u", "7")];
        let first = fifo(&known());
        now(first.delete(object("baz", "u", "10")));
        first.replace(vec![object("foo", "u", "5")], "11");
        assert_eq!(drain(&first), ["synced", "baz: Deleted@10", "foo: Replaced@5", "bar: Deleted@6?"]);

        let second = fifo(&known());
        now(second.add(object("baz", "u", "10")));
        second.replace(vec![object("foo", "u", "5")], "11");
        assert_eq!(
            drain(&second),
            ["synced", "baz: Added@10 Deleted@10?", "foo: Replaced@5", "bar: Deleted@6?"]
        );

        let third = fifo(&known());
        now(async {
            third.delete(object("bar", "u", "6")).await;
            third.add(object("bar", "u", "100")).await;
        });
        third.replace(vec![object("foo", "u", "5")], "101");
        assert_eq!(
            drain(&third),
            ["synced", "bar: Deleted@6 Added@100 Deleted@100?", "foo: Replaced@5", "baz: Deleted@7?"]
        );

        let fifth = fifo(&[]);
        now(fifth.add(object("baz", "u", "10")));
        fifth.replace(vec![object("foo", "u", "5")], "11");
        assert_eq!(drain(&fifth), ["synced", "baz: Added@10 Deleted@10?", "foo: Replaced@5"]);
    }

    #[test]
    fn a_delete_before_a_relist_that_has_the_object_again_is_kept() {
        // client-go's TestDeltaFIFO_replaceWithDeleteDeltaIn (kubernetes#83810).
        let fifo = fifo(&[object("foo", "u", "1")]);
        now(fifo.delete(object("foo", "u", "1")));
        fifo.replace(vec![object("foo", "v", "2")], "2");
        assert_eq!(drain(&fifo), ["synced", "foo: Deleted@1 Replaced@2"]);
    }

    #[test]
    fn resync_takes_known_objects_that_are_not_queued() {
        let fifo = fifo(&[object("foo", "u", "5"), object("bar", "u", "5")]);
        now(fifo.update(object("foo", "u", "6")));
        fifo.resync();
        assert_eq!(drain(&fifo), ["synced", "foo: Updated@6", "bar: Sync@5"]);
    }

    #[test]
    fn synced_comes_after_the_whole_first_list_and_once() {
        let fifo = fifo(&[object("bar", "u", "5")]);
        assert!(!fifo.has_synced());
        fifo.replace(vec![object("foo", "u", "5")], "5");
        assert!(!fifo.has_synced());
        fifo.replace(vec![object("foo", "u", "5")], "6");
        assert_eq!(
            drain(&fifo),
            ["foo: Replaced@5 Replaced@5", "bar: Deleted@5?", "synced"],
            "two deletions of one key by relists are one"
        );
        assert!(fifo.has_synced());
    }

    #[test]
    fn an_empty_first_list_is_synced_at_once() {
        let fifo = fifo(&[]);
        fifo.replace(vec![], "3");
        assert!(fifo.has_synced());
        assert_eq!(drain(&fifo), ["synced"]);
    }

    #[tokio::test]
    async fn the_producer_is_held_back_at_the_bound() {
        let fifo = DeltaFifo::new(1, Arc::new(Indexer::new()));
        fifo.add(object("a", "u", "1")).await;
        let second = fifo.add(object("b", "u", "2"));
        tokio::pin!(second);
        tokio::select! {
            biased;
            () = &mut second => panic!("went over the bound"),
            () = tokio::task::yield_now() => {}
        }
        assert_eq!(fifo.pop(|popped| popped).await, Some(Popped::Synced));
        assert!(matches!(fifo.pop(|popped| popped).await, Some(Popped::Deltas { .. })));
        second.await;
        assert_eq!(fifo.depth(), 1);
    }

    #[test]
    fn the_cache_version_follows_when_the_queue_is_empty() {
        let known = Arc::new(Indexer::new());
        let fifo = DeltaFifo::new(9, known.clone());
        fifo.replace(vec![object("a", "u", "1")], "4");
        fifo.bookmark("8");
        assert_eq!(known.resource_version(), "");
        assert_eq!(drain(&fifo), ["a: Replaced@1", "synced"]);
        assert_eq!(known.resource_version(), "8");
        fifo.bookmark("9");
        assert_eq!(known.resource_version(), "9");
    }
}
