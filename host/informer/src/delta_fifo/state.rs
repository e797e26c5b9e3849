//! What the DeltaFIFO holds, without locks or waiting.
//!
//! Used by [`super::DeltaFifo`] under its lock. Invariants: `order` has each key of `items` once, and no other;
//! no list of deltas is empty; `initial` counts the entries that are marked so.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Delta, DeltaFifoStats, DeltaKind, Popped};
use crate::indexer::Indexer;
use crate::object::{Object, ObjectKey};

/// How far the reflector has come.
pub(super) enum Reached {
    /// A list or a bookmark said so.
    Version(String),
    /// To this object's version.
    Event(Arc<Object>),
}

impl Reached {
    fn version(&self) -> &str {
        match self {
            Self::Version(version) => version,
            Self::Event(object) => object.resource_version(),
        }
    }
}

struct Entry {
    deltas: Vec<Delta>,
    /// Of the first list. Marked by entry, not counted by pops as client-go does, since an entry that is put
    /// back changes its place among the others.
    initial: bool,
    /// When the first of them came.
    since: Instant,
}

#[derive(Default)]
pub(super) struct State {
    items: HashMap<ObjectKey, Entry>,
    order: VecDeque<ObjectKey>,
    deltas: usize,
    /// Anything was ever put in (R-SYN-1).
    pub(super) populated: bool,
    initial: usize,
    synced_told: bool,
    /// Where the cache's version goes once nothing waits.
    pub(super) reached: Option<Reached>,
    pub(super) closed: bool,
    /// Entries taken so far, and how long they had waited in all.
    taken: u64,
    waited: Duration,
}

impl State {
    /// R-SYN-2.
    pub(super) fn has_synced(&self) -> bool {
        self.populated && self.initial == 0
    }

    pub(super) fn has(&self, key: &ObjectKey) -> bool {
        self.items.contains_key(key)
    }

    pub(super) fn deltas(&self) -> usize {
        self.deltas
    }

    pub(super) fn stats(&self) -> DeltaFifoStats {
        // An entry keeps its place while it waits, so the first one is the oldest.
        let oldest = self.order.front().and_then(|key| self.items.get(key));
        DeltaFifoStats {
            depth: self.deltas,
            oldest: oldest.map(|entry| entry.since.elapsed()),
            taken: self.taken,
            waited: self.waited,
        }
    }

    /// Whether there is nothing to take.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && !self.tells_synced()
    }

    fn tells_synced(&self) -> bool {
        self.has_synced() && !self.synced_told
    }

    /// Appends a delta to its key's list, merging two deletions (R-DF-1, R-DF-2).
    pub(super) fn push(&mut self, delta: Delta) {
        let entry = match self.items.entry(delta.object.key().clone()) {
            Slot::Occupied(entry) => entry.into_mut(),
            Slot::Vacant(slot) => {
                self.order.push_back(slot.key().clone());
                slot.insert(Entry { deltas: Vec::with_capacity(1), initial: false, since: Instant::now() })
            }
        };
        match entry.deltas.last_mut() {
            Some(last) if last.kind == DeltaKind::Deleted && delta.kind == DeltaKind::Deleted => {
                if last.final_state_unknown {
                    *last = delta;
                }
            }
            _ => {
                entry.deltas.push(delta);
                self.deltas += 1;
            }
        }
    }

    /// R-DF-4, with `kind` for what the list has.
    pub(super) fn replace(&mut self, objects: Vec<Arc<Object>>, kind: DeltaKind, known: Vec<Arc<Object>>) {
        let gone = self.missing_from(&objects, known);
        for object in objects {
            self.push(Delta { kind, object, final_state_unknown: false });
        }
        for object in gone {
            self.push(Delta { kind: DeltaKind::Deleted, object, final_state_unknown: true });
        }
        if !self.populated {
            self.populated = true;
            self.initial = self.items.len();
            self.items.values_mut().for_each(|entry| entry.initial = true);
        }
    }

    /// The newest states of the queued and known keys that `objects` lacks.
    fn missing_from(&self, objects: &[Arc<Object>], known: Vec<Arc<Object>>) -> Vec<Arc<Object>> {
        let listed: HashSet<&ObjectKey> = objects.iter().map(|object| object.key()).collect();
        let queued = self.items.iter().filter(|(key, _)| !listed.contains(key));
        let mut gone: Vec<_> =
            queued.filter_map(|(_, entry)| Some(entry.deltas.last()?.object.clone())).collect();
        gone.extend(
            known.into_iter().filter(|object| !listed.contains(object.key()) && !self.has(object.key())),
        );
        gone
    }

    /// The next thing to process. It is accounted for as processed at once (R-SYN-4).
    pub(super) fn take(&mut self) -> Option<Popped> {
        if self.tells_synced() {
            self.synced_told = true;
            return Some(Popped::Synced);
        }
        let key = self.order.pop_front()?;
        let Entry { deltas, initial, since } = self.items.remove(&key)?;
        self.taken += 1;
        self.waited = self.waited.saturating_add(since.elapsed());
        self.deltas -= deltas.len();
        self.initial -= usize::from(initial);
        Some(Popped::Deltas { key, deltas, initial })
    }

    /// Undoes [`State::take`], but for the place, if nothing newer of the key has come; gives whether it did.
    pub(super) fn put_back(&mut self, deltas: Vec<Delta>, initial: bool) -> bool {
        let Some(key) = deltas.first().map(|delta| delta.object.key().clone()) else { return false };
        let Slot::Vacant(slot) = self.items.entry(key.clone()) else { return false };
        self.deltas += deltas.len();
        self.initial += usize::from(initial);
        slot.insert(Entry { deltas, initial, since: Instant::now() });
        self.order.push_back(key);
        true
    }

    /// Hands the version that was reached to the cache once nothing older is queued.
    pub(super) fn settle(&mut self, known: &Indexer) {
        if self.items.is_empty()
            && let Some(reached) = self.reached.take()
            && !reached.version().is_empty()
        {
            known.set_resource_version(reached.version());
        }
    }
}
