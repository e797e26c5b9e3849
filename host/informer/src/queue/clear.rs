//! Forgetting what waits, when a registration goes or starts afresh.
//!
//! Used by the listener at a removal, a swap with replay, and a restart with replay. Invariants: what a handler
//! has at the moment is left alone; a delete of what a handler knows is not lost by a replay.

use super::entry::KeyState;
use super::{Entry, EntryKey, KeyQueue, Queue};
use crate::handler::Event;
use crate::object::ObjectKey;

/// What of a registration's queue stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Nothing: it goes.
    Nothing,
    /// Deletes that tell something, with attempts and back-off afresh: another handler takes over.
    Deletes,
    /// Deletes that tell something, and keys that are failing, with their attempts and back-off: the same
    /// handler starts again. What fails becomes an initial add, unless it is a delete.
    DeletesAndFailing,
}

/// What [`Queue::clear`] did.
#[derive(Debug, Default)]
pub(crate) struct Cleared {
    /// Events dropped.
    pub(crate) dropped: usize,
    /// Objects whose add was waiting and never attempted: no handler knows them.
    pub(crate) unseen: Vec<ObjectKey>,
    /// Objects whose add still waits, and which the cursor must therefore not read.
    pub(crate) failing: Vec<ObjectKey>,
}

/// What becomes of one key.
#[derive(Default)]
struct Sorted {
    kept: Option<Entry>,
    dropped: usize,
    /// The incarnation that the entries have got to is one that no handler knows.
    unseen: bool,
}

impl Queue {
    /// Forgets the waiting events of a registration, but for what `keep` says.
    pub(crate) fn clear(&mut self, registration: u64, keep: Keep) -> Cleared {
        let of = self.keys.keys().filter(|id| id.registration == registration);
        let ids: Vec<EntryKey> = of.cloned().collect();
        let mut cleared = Cleared::default();
        self.initial.remove(&registration);
        for id in ids {
            let Some(key) = self.keys.remove(&id) else { continue };
            let failing = key.entries.front().is_some_and(|first| first.failures > 0);
            if key.state == KeyState::InFlight {
                self.clear_behind(id, key, &mut cleared);
            } else if failing && keep == Keep::DeletesAndFailing {
                self.clear_failing(id, key, &mut cleared);
            } else {
                self.clear_key(id, key, keep, &mut cleared);
            }
        }
        cleared
    }

    /// A handler has the first entry: it may end.
    fn clear_behind(&mut self, id: EntryKey, mut key: KeyQueue, cleared: &mut Cleared) {
        let behind = key.entries.len().saturating_sub(1);
        key.entries.truncate(1);
        if let Some(first) = key.entries.front_mut() {
            first.initial = false;
        }
        cleared.dropped += behind;
        self.entries -= behind;
        self.keys.insert(id, key);
    }

    /// The first entry has failed, and keeps its place.
    fn clear_failing(&mut self, id: EntryKey, mut key: KeyQueue, cleared: &mut Cleared) {
        let behind = key.entries.len().saturating_sub(1);
        key.entries.truncate(1);
        cleared.dropped += behind;
        self.entries -= behind;
        let Some(first) = key.entries.front_mut() else { return };
        if let Event::Add { object, .. } | Event::Update { new: object, .. } = &first.event {
            first.shown = true;
            first.initial = true;
            first.event = Event::Add { object: object.clone(), initial: true };
            *self.initial.entry(id.registration).or_default() += 1;
            cleared.failing.push(id.object.clone());
        } else {
            first.initial = false;
            // An add behind the delete was never attempted: the cursor finds its object.
            if behind > 0 {
                cleared.unseen.push(id.object.clone());
            }
        }
        self.keys.insert(id, key);
    }

    fn clear_key(&mut self, id: EntryKey, key: KeyQueue, keep: Keep, cleared: &mut Cleared) {
        self.take_out(&key);
        self.entries -= key.entries.len();
        let mut sorted = Sorted::default();
        for entry in key.entries {
            sorted.sort(entry, keep != Keep::Nothing);
        }
        cleared.dropped += sorted.dropped;
        if sorted.unseen {
            cleared.unseen.push(id.object.clone());
        }
        if let Some(entry) = sorted.kept {
            self.entries += 1;
            self.stand_by(id, [entry].into());
        }
    }
}

impl Queue {
    /// Nothing gives out this key's first entry any more.
    pub(super) fn take_out(&mut self, key: &KeyQueue) {
        let Some(first) = key.entries.front() else { return };
        match key.state {
            KeyState::Waiting { until } => {
                self.waiting.remove(&(until, first.position));
            }
            KeyState::Ready | KeyState::InFlight => {
                self.lanes[key.lane].ready.remove(&first.position);
            }
        }
    }
}

impl Sorted {
    fn sort(&mut self, entry: Entry, keep_deletes: bool) {
        match entry.event {
            Event::Delete { .. } if keep_deletes && !self.unseen => {
                // Of two waiting deletes of one key, the later one says all to a handler that starts afresh.
                let entry = Entry { initial: false, attempts: 0, breaks: 0, failures: 0, ..entry };
                self.dropped += usize::from(self.kept.replace(entry).is_some());
            }
            Event::Delete { .. } => {
                self.unseen = false;
                self.dropped += 1;
            }
            Event::Add { .. } => {
                self.unseen = !entry.known();
                self.dropped += 1;
            }
            Event::Update { .. } => self.dropped += 1,
        }
    }
}
