//! How far one registration of a listener is in reading its informer's cache: the cursor.
//!
//! Used by the listener alone, under its lock. Initial adds are read from the cache in key order, a few at a
//! time, as the handler gets to them (delivery contract 4). Invariant: each object of the cache reaches the
//! handler once, either read by the cursor or as an event that came before the cursor was there.

use std::collections::HashSet;

use crate::handler::Event;
use crate::object::ObjectKey;

/// How far a registration is.
pub(crate) enum Phase {
    /// The informer's first list is not in the cache yet; events are ignored, since the cursor will read them.
    Waiting,
    /// The cursor is under way.
    Replaying(Box<Replay>),
    /// Every object of the cache has been handed over or is queued.
    Live,
}

/// The cursor through the cache.
#[derive(Default)]
pub(crate) struct Replay {
    /// Keys up to this one have been read.
    after: Option<ObjectKey>,
    /// Keys beyond it that came as events of their own, and are skipped.
    touched: HashSet<ObjectKey>,
    /// What the handler before knows: deletes of it are delivered although the cursor has not been there.
    known: Known,
}

/// Which objects an earlier handler of this registration was shown.
#[derive(Default, Clone)]
struct Known {
    reach: Reach,
    /// Within reach, but never shown.
    unseen: HashSet<ObjectKey>,
    /// Beyond reach, but shown.
    also: HashSet<ObjectKey>,
}

/// How far an earlier handler's knowledge reaches, in key order.
#[derive(Default, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// There was none, or it was shown nothing.
    #[default]
    Nothing,
    /// Up to this key.
    UpTo(ObjectKey),
    /// All of the cache.
    Everything,
}

impl Phase {
    /// A cursor at the start, for a handler that follows one which was shown what this phase says, but for the
    /// adds of `unseen`, which it never got. `queued` are objects whose add waits already, or is not to be
    /// read.
    pub(crate) fn restart(&self, unseen: Vec<ObjectKey>, queued: Vec<ObjectKey>) -> Box<Replay> {
        Box::new(Replay { known: self.known(unseen), touched: queued.into_iter().collect(), after: None })
    }

    fn known(&self, unseen: Vec<ObjectKey>) -> Known {
        let mut known = match self {
            Self::Waiting => Known::default(),
            Self::Replaying(replay) => replay.known_by_now(),
            Self::Live => Known { reach: Reach::Everything, ..Known::default() },
        };
        for key in unseen {
            known.also.remove(&key);
            known.unseen.insert(key);
        }
        known
    }
}

impl Replay {
    /// What the handler before knew, and what this one was shown by the cursor, or as an event of its own.
    fn known_by_now(&self) -> Known {
        let mut known = self.known.clone();
        if let Some(after) = &self.after {
            known.unseen.retain(|key| key > after);
            known.reach = known.reach.max(Reach::UpTo(after.clone()));
        }
        known.unseen.retain(|key| !self.touched.contains(key));
        known.also.extend(self.touched.iter().cloned());
        known
    }

    /// The last key read.
    pub(crate) fn after(&self) -> Option<&ObjectKey> {
        self.after.as_ref()
    }

    /// Moves on to `key`, the next one in the cache: none if the handler was told of it already, else whether an
    /// earlier handler knows it.
    pub(crate) fn pass(&mut self, key: &ObjectKey) -> Option<bool> {
        self.after = Some(key.clone());
        if self.touched.remove(key) { None } else { Some(self.known.has(key)) }
    }

    /// Moves on to `key`, up to which there is nothing else of the registration's.
    pub(crate) fn reach(&mut self, key: ObjectKey) {
        self.after = Some(key);
    }

    /// Whether an earlier handler was told of `key`.
    pub(crate) fn was_shown(&self, key: &ObjectKey) -> bool {
        self.known.has(key)
    }

    /// Whether the cursor is yet to come by `key`.
    pub(crate) fn will_read(&self, key: &ObjectKey) -> bool {
        self.after.as_ref().is_none_or(|after| key > after) && !self.touched.contains(key)
    }

    /// Whether an event of `key` is the handler's by itself, and not the cursor's to find.
    pub(crate) fn takes(&mut self, event: &Event) -> bool {
        let key = event.key();
        let passed = self.after.as_ref().is_some_and(|after| key <= after);
        if passed || self.touched.contains(key) {
            return true;
        }
        match event {
            Event::Add { .. } => {
                self.touched.insert(key.clone());
                true
            }
            Event::Update { .. } => false,
            Event::Delete { .. } => self.known.has(key),
        }
    }
}

impl Known {
    fn has(&self, key: &ObjectKey) -> bool {
        let within = match &self.reach {
            Reach::Nothing => false,
            Reach::UpTo(last) => key <= last,
            Reach::Everything => true,
        };
        self.also.contains(key) || within && !self.unseen.contains(key)
    }
}
