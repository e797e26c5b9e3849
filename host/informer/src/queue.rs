//! The queue of one listener: events waiting for a handler, in order per key, merged where the contract says.
//!
//! Used by the listener alone, under its lock; pure bookkeeping, without clocks or tasks, so that its rules can
//! be tested as a table. Delivery contract, sentence 8:
//!
//! | waiting | then comes | becomes |
//! | --- | --- | --- |
//! | add | update | add of the new state |
//! | update | update | update from the first old to the last new |
//! | update | delete | delete |
//! | add, never attempted | delete | nothing |
//! | add, attempted, or known to an earlier version of the handler | delete | delete |
//! | delete | add | both, in this order |
//!
//! Merging happens once the queue is at its bound, while the key waits for a retry, and always in
//! [`Merge::Latest`]. What a handler works on at the moment is never merged with.
//!
//! Invariants: events of one key leave in the order in which they came, one at a time; the queue holds at most
//! its bound plus two entries for each key (client-go's buffer grows without bound: a deviation, (D)).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use tokio::time::Instant;

use crate::handler::{Delivery, Event};
use crate::object::{Object, ObjectKey};

/// Whose event it is: one registration of the listener with one informer, and the object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EntryKey {
    pub(crate) registration: u64,
    pub(crate) object: ObjectKey,
}

/// When waiting events of a key are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Merge {
    /// Only when the queue is at its bound or the key waits for a retry.
    #[default]
    All,
    /// Always: a handler sees the newest state.
    Latest,
}

/// What the queue did with a new event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It waits by itself.
    Queued,
    /// It was merged with a waiting one.
    Merged,
    /// It and the add before it annihilated each other, or it had nothing new to say.
    Vanished,
}

/// The event that a handler gets next, with its attempt number.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(crate) id: EntryKey,
    pub(crate) sequence: u64,
    pub(crate) attempt: u32,
    pub(crate) breaks: u32,
    pub(crate) failures: u32,
    pub(crate) arrived: SystemTime,
    pub(crate) event: Event,
}

impl Taken {
    /// The handler's view of it, for subscription number `subscription`.
    pub(crate) fn delivery(&self, subscription: u32) -> Delivery {
        Delivery {
            subscription,
            sequence: self.sequence,
            attempt: self.attempt,
            arrived: self.arrived,
            event: self.event.clone(),
        }
    }
}

struct Entry {
    /// Place among all entries; kept when a later event is merged into it.
    position: u64,
    sequence: u64,
    arrived: SystemTime,
    event: Event,
    /// A handler knows the object already, although this entry was not attempted: an add that an earlier version
    /// of the handler was told of. Its delete must not vanish.
    shown: bool,
    /// Attempts made at this event; a later one that is merged into it starts afresh.
    attempts: u32,
    /// Attempts at this event that ended in a trap or time-out.
    breaks: u32,
    /// Attempts that failed since the object was last handled well: for the back-off, so kept by a merge.
    failures: u32,
}

/// What the first entry of a key is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyState {
    /// It stands in `ready`.
    Ready,
    /// A handler has it. Its entry is the first one, and is left alone.
    InFlight,
    /// It stands in `waiting`, to be tried again.
    Waiting { until: Instant },
}

struct KeyQueue {
    state: KeyState,
    /// Never empty.
    entries: VecDeque<Entry>,
}

/// See the file's head.
pub(crate) struct Queue {
    bound: usize,
    merge: Merge,
    keys: HashMap<EntryKey, KeyQueue>,
    /// Keys whose first entry may be taken now, by its position.
    ready: BTreeMap<u64, EntryKey>,
    /// Keys whose first entry waits for a retry, by the moment it is due, then its position.
    waiting: BTreeMap<(Instant, u64), EntryKey>,
    entries: usize,
    next: u64,
    merged: u64,
}

impl Queue {
    pub(crate) fn new(bound: usize, merge: Merge) -> Self {
        Self {
            bound,
            merge,
            keys: HashMap::new(),
            ready: BTreeMap::new(),
            waiting: BTreeMap::new(),
            entries: 0,
            next: 1,
            merged: 0,
        }
    }

    /// Changes when waiting events are merged, from the next one on.
    pub(crate) fn configure(&mut self, bound: usize, merge: Merge) {
        self.bound = bound;
        self.merge = merge;
    }

    /// Events waiting or being handled.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Keys that could be taken now.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Keys that wait for a retry.
    pub(crate) fn retrying(&self) -> usize {
        self.waiting.len()
    }

    /// Merges and annihilations so far.
    pub(crate) fn merged(&self) -> u64 {
        self.merged
    }

    /// When the next retry is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// Takes a new event in.
    pub(crate) fn push(&mut self, id: EntryKey, event: Event, arrived: SystemTime) -> Pushed {
        self.push_entry(id, event, arrived, false)
    }

    /// Takes an initial add in that the cursor has read; `shown` if an earlier handler knows the object.
    pub(crate) fn push_initial(
        &mut self,
        id: EntryKey,
        object: Arc<Object>,
        arrived: SystemTime,
        shown: bool,
    ) {
        self.push_entry(id, Event::Add { object, initial: true }, arrived, shown);
    }

    fn push_entry(&mut self, id: EntryKey, event: Event, arrived: SystemTime, shown: bool) -> Pushed {
        let sequence = self.next;
        self.next += 1;
        let full = self.entries >= self.bound || self.merge == Merge::Latest;
        let entry = Entry {
            position: sequence,
            sequence,
            arrived,
            event,
            shown,
            attempts: 0,
            breaks: 0,
            failures: 0,
        };
        let Some(key) = self.keys.get_mut(&id) else {
            self.ready.insert(sequence, id.clone());
            self.keys.insert(id, KeyQueue { state: KeyState::Ready, entries: VecDeque::from([entry]) });
            self.entries += 1;
            return Pushed::Queued;
        };
        let free = key.entries.len() > usize::from(key.state == KeyState::InFlight);
        if let Event::Update { resync: true, .. } = entry.event
            && free
        {
            return Pushed::Vanished;
        }
        let merging = full || matches!(key.state, KeyState::Waiting { .. });
        if !(merging && free) {
            key.entries.push_back(entry);
            self.entries += 1;
            return Pushed::Queued;
        }
        self.merge_into_last(&id, entry)
    }

    /// Merges `entry` into the last entry of `id`, which exists and is not being handled.
    fn merge_into_last(&mut self, id: &EntryKey, entry: Entry) -> Pushed {
        let Some(key) = self.keys.get_mut(id) else { return Pushed::Vanished };
        let Some(last) = key.entries.back_mut() else { return Pushed::Vanished };
        match merge(&last.event, last.attempts > 0 || last.shown, entry.event) {
            Merged::One(event) => {
                last.shown |= last.attempts > 0;
                (last.attempts, last.breaks) = (0, 0);
                last.event = event;
                last.sequence = entry.sequence;
                last.arrived = entry.arrived;
                self.merged += 1;
                Pushed::Merged
            }
            Merged::Nothing => {
                self.merged += 1;
                let position = last.position;
                key.entries.pop_back();
                self.entries -= 1;
                if key.entries.is_empty() {
                    // It was the key's only entry, never attempted, so it stood in `ready`.
                    self.ready.remove(&position);
                    self.keys.remove(id);
                }
                Pushed::Vanished
            }
            Merged::Two(event) => {
                key.entries.push_back(Entry { event, ..entry });
                self.entries += 1;
                Pushed::Queued
            }
        }
    }

    /// The next event to hand over at `now`: retries that are due take their old places again.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Taken> {
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now
        {
            let ((_, position), id) = first.remove_entry();
            if let Some(key) = self.keys.get_mut(&id) {
                key.state = KeyState::Ready;
            }
            self.ready.insert(position, id);
        }
        let (_, id) = self.ready.pop_first()?;
        let key = self.keys.get_mut(&id)?;
        key.state = KeyState::InFlight;
        let first = key.entries.front_mut()?;
        first.attempts += 1;
        Some(Taken {
            sequence: first.sequence,
            attempt: first.attempts,
            breaks: first.breaks,
            failures: first.failures,
            arrived: first.arrived,
            event: first.event.clone(),
            id,
        })
    }

    /// The event that was taken for `id` is done with: the key's next one may be taken.
    pub(crate) fn finish(&mut self, id: &EntryKey) {
        let Some(key) = self.keys.get_mut(id) else { return };
        if key.state != KeyState::InFlight {
            return;
        }
        key.entries.pop_front();
        self.entries -= 1;
        match key.entries.front() {
            Some(next) => {
                key.state = KeyState::Ready;
                self.ready.insert(next.position, id.clone());
            }
            None => {
                self.keys.remove(id);
            }
        }
    }

    /// The event that was taken for `id` is to be tried again at `due`; `broke` if the handler trapped or
    /// timed out. What waits behind it is merged into it.
    pub(crate) fn retry(&mut self, id: &EntryKey, due: Instant, broke: bool) {
        let Some(key) = self.keys.get_mut(id) else { return };
        let Some(first) = key.entries.front_mut().filter(|_| key.state == KeyState::InFlight) else { return };
        first.breaks += u32::from(broke);
        first.failures += 1;
        key.state = KeyState::Waiting { until: due };
        self.waiting.insert((due, first.position), id.clone());
        let behind: Vec<Entry> = key.entries.drain(1..).collect();
        self.entries -= behind.len();
        for entry in behind {
            self.merge_into_last(id, entry);
        }
    }

    /// Forgets every event of a registration but its deletes (none at all if `keep_deletes` is false), as a
    /// replay or a removal does: gives how many were dropped, and the keys whose adds were never attempted.
    /// Nothing may be in flight.
    pub(crate) fn clear(&mut self, registration: u64, keep_deletes: bool) -> Cleared {
        let ids: Vec<EntryKey> =
            self.keys.keys().filter(|id| id.registration == registration).cloned().collect();
        let mut cleared = Cleared::default();
        for id in ids {
            let Some(key) = self.keys.remove(&id) else { continue };
            if let Some(first) = key.entries.front() {
                self.ready.remove(&first.position);
                if let KeyState::Waiting { until } = key.state {
                    self.waiting.remove(&(until, first.position));
                }
            }
            self.entries -= key.entries.len();
            // Whether the incarnation that the entries have got to is one that no handler knows.
            let mut unseen = false;
            let mut kept: Option<Entry> = None;
            for entry in key.entries {
                let known = entry.attempts > 0 || entry.shown;
                match entry.event {
                    Event::Delete { .. } if keep_deletes && !unseen => {
                        // Of two waiting deletes of one key, the later one says all to a handler that starts
                        // afresh.
                        let entry = Entry { attempts: 0, breaks: 0, failures: 0, ..entry };
                        cleared.dropped += usize::from(kept.replace(entry).is_some());
                    }
                    Event::Delete { .. } => {
                        unseen = false;
                        cleared.dropped += 1;
                    }
                    Event::Add { .. } => {
                        unseen = !known;
                        cleared.dropped += 1;
                    }
                    Event::Update { .. } => cleared.dropped += 1,
                }
            }
            if unseen {
                cleared.unseen.push(id.object.clone());
            }
            if let Some(entry) = kept {
                self.ready.insert(entry.position, id.clone());
                self.keys.insert(id, KeyQueue { state: KeyState::Ready, entries: VecDeque::from([entry]) });
                self.entries += 1;
            }
        }
        cleared
    }
}

/// What [`Queue::clear`] did.
#[derive(Debug, Default)]
pub(crate) struct Cleared {
    /// Events dropped.
    pub(crate) dropped: usize,
    /// Objects whose add was waiting and never attempted: no handler knows them.
    pub(crate) unseen: Vec<ObjectKey>,
}

enum Merged {
    One(Event),
    Nothing,
    Two(Event),
}

/// The algebra of the file's head: `last` waits (known to a handler or not), `next` comes.
fn merge(last: &Event, known: bool, next: Event) -> Merged {
    match (last, next) {
        (Event::Add { initial, .. }, Event::Update { new, .. }) => {
            Merged::One(Event::Add { object: new, initial: *initial })
        }
        (Event::Update { old, .. }, Event::Update { new, .. }) => {
            Merged::One(Event::Update { old: old.clone(), new, resync: false })
        }
        (Event::Add { .. }, Event::Delete { .. }) if !known => Merged::Nothing,
        (Event::Add { .. } | Event::Update { .. }, next @ Event::Delete { .. }) => Merged::One(next),
        (_, next) => Merged::Two(next),
    }
}

#[cfg(test)]
mod tests;
