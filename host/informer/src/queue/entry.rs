//! What the queue keeps of an event, and what it gives out.
//!
//! Used by the queue and the listener. Invariant: an entry that a handler has is left alone; one that waits
//! absorbs later ones of its key by [`Entry::absorb`] only.

use std::collections::VecDeque;
use std::time::SystemTime;

use tokio::time::Instant;

use crate::handler::{Delivery, Event};
use crate::object::ObjectKey;

/// Whose event it is: one registration of the listener with one informer, and the object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EntryKey {
    pub(crate) registration: u64,
    pub(crate) object: ObjectKey,
}

/// When an event came to the listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// For people and handlers.
    pub(crate) wall: SystemTime,
    /// For measuring how long it waits.
    pub(crate) clock: Instant,
}

impl Arrival {
    pub(crate) fn now() -> Self {
        Self { wall: SystemTime::now(), clock: Instant::now() }
    }
}

/// The event that a handler gets next, with its attempt number.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(crate) id: EntryKey,
    /// Which handler gets it.
    pub(crate) lane: usize,
    pub(crate) sequence: u64,
    pub(crate) attempt: u32,
    pub(crate) breaks: u32,
    pub(crate) failures: u32,
    pub(crate) arrived: SystemTime,
    /// When the event came, if nothing of it was attempted before.
    pub(crate) untried_since: Option<Instant>,
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

pub(super) struct Entry {
    /// Place among all entries; kept when a later event is merged into it.
    pub(super) position: u64,
    pub(super) sequence: u64,
    pub(super) arrived: SystemTime,
    /// When it came; kept when a later event is merged into it.
    pub(super) since: Instant,
    pub(super) event: Event,
    /// A handler knows the object already, although this entry was not attempted: an add that an earlier version
    /// of the handler was told of. Its delete must not vanish.
    pub(super) shown: bool,
    /// It counts for the registration's sync: an initial add, or what became of one.
    pub(super) initial: bool,
    /// Attempts made at this event; a later one that is merged into it starts afresh.
    pub(super) attempts: u32,
    /// Attempts that ended in a trap or time-out since the object was last handled well. Kept by a merge, so
    /// that a poison object that changes all the time is given up like any other; the newest state has had an
    /// attempt of its own by then, since an event is given up after an attempt only. A delete starts afresh:
    /// it is another call of the handler, and nothing more is merged into it.
    pub(super) breaks: u32,
    /// Attempts that failed since the object was last handled well: for the back-off, so kept by a merge.
    pub(super) failures: u32,
}

impl Entry {
    pub(super) fn new(position: u64, event: Event, arrived: Arrival) -> Self {
        Self {
            position,
            sequence: position,
            arrived: arrived.wall,
            since: arrived.clock,
            event,
            shown: false,
            initial: false,
            attempts: 0,
            breaks: 0,
            failures: 0,
        }
    }

    /// Whether a handler knows the object's state, or may.
    pub(super) fn known(&self) -> bool {
        self.attempts > 0 || self.shown
    }

    /// Becomes `event`, which is what this entry and the `later` one come to.
    pub(super) fn absorb(&mut self, event: Event, later: &Self) {
        self.shown |= self.attempts > 0;
        self.attempts = 0;
        if matches!(event, Event::Delete { .. }) {
            self.breaks = 0;
        }
        self.event = event;
        self.initial |= later.initial;
        self.sequence = later.sequence;
        self.arrived = later.arrived;
    }

    pub(super) fn taken(&self, id: EntryKey, lane: usize) -> Taken {
        let untried = self.attempts == 1 && self.failures == 0;
        Taken {
            id,
            lane,
            sequence: self.sequence,
            attempt: self.attempts,
            breaks: self.breaks,
            failures: self.failures,
            arrived: self.arrived,
            untried_since: untried.then_some(self.since),
            event: self.event.clone(),
        }
    }
}

/// What the first entry of a key is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyState {
    /// It stands in its lane's `ready`.
    Ready,
    /// A handler has it. Its entry is the first one, and is left alone.
    InFlight,
    /// It stands in `waiting`, to be tried again.
    Waiting { until: Instant },
}

pub(super) struct KeyQueue {
    pub(super) state: KeyState,
    /// Which lane the key belongs to.
    pub(super) lane: usize,
    /// Never empty.
    pub(super) entries: VecDeque<Entry>,
}

impl KeyQueue {
    /// Whether the first entry failed and no handler has it at the moment: its retry may well be due, and stand in
    /// `ready`, while its lane is busy or nothing is handed over.
    pub(super) fn is_to_be_retried(&self) -> bool {
        let failed = self.entries.front().is_some_and(|first| first.failures > 0);
        failed && self.state != KeyState::InFlight
    }
}
