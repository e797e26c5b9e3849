//! The lanes of a queue: which handler gets a key, and which lane is next.
//!
//! Used by the queue alone. Invariants: a key has the same lane for as long as the number of lanes is the same;
//! a lane gives out one event at a time.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use tokio::time::Instant;

use super::{EntryKey, KeyState, Queue};

/// One lane.
#[derive(Default)]
pub(super) struct Lane {
    /// Keys whose first entry may be taken now, by its position.
    pub(super) ready: BTreeMap<u64, EntryKey>,
    /// The key whose event its handler has.
    pub(super) busy: Option<EntryKey>,
}

impl Queue {
    /// Changes the number of lanes (at least one), and gives every key its new one. Nothing may be in flight.
    pub(crate) fn set_lanes(&mut self, lanes: usize) {
        let lanes = lanes.max(1);
        if lanes == self.lanes.len() {
            return;
        }
        self.lanes = Vec::new();
        self.lanes.resize_with(lanes, Lane::default);
        for (id, key) in &mut self.keys {
            key.lane = lane_of(id, lanes);
            if let (KeyState::Ready, Some(first)) = (key.state, key.entries.front()) {
                self.lanes[key.lane].ready.insert(first.position, id.clone());
            }
        }
    }

    /// Which lane a key belongs to.
    pub(crate) fn lane_of(&self, id: &EntryKey) -> usize {
        lane_of(id, self.lanes.len())
    }

    /// The idle lane that has the event which came first.
    pub(super) fn next_lane(&self) -> Option<usize> {
        let lanes = self.lanes.iter().enumerate().filter(|(_, lane)| lane.busy.is_none());
        let firsts = lanes.filter_map(|(number, lane)| Some((*lane.ready.first_key_value()?.0, number)));
        firsts.min().map(|(_, number)| number)
    }

    /// Keys that could be taken as soon as their lane is idle.
    pub(crate) fn ready(&self) -> usize {
        self.lanes.iter().map(|lane| lane.ready.len()).sum()
    }

    /// Whether a lane has nothing to do.
    pub(crate) fn hungry(&self) -> bool {
        self.lanes.iter().any(|lane| lane.busy.is_none() && lane.ready.is_empty())
    }

    /// Events that handlers have at the moment.
    pub(crate) fn handing_over(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.busy.is_some()).count()
    }

    /// Whether a handler has an event of this registration at the moment.
    pub(crate) fn handing_over_of(&self, registration: u64) -> bool {
        let mut busy = self.lanes.iter().filter_map(|lane| lane.busy.as_ref());
        busy.any(|id| id.registration == registration)
    }

    /// Since when the oldest event waits that no handler has at the moment.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let ready = self.lanes.iter().filter_map(|lane| Some(lane.ready.first_key_value()?.1));
        let first = ready.chain(self.waiting.values());
        let first = first.filter_map(|id| self.keys.get(id)?.entries.front());
        let busy = self.lanes.iter().filter_map(|lane| lane.busy.as_ref());
        let behind = busy.filter_map(|id| self.keys.get(id)?.entries.get(1));
        first.chain(behind).map(|entry| entry.since).min()
    }
}

/// The same for the same key, on every run of the program.
fn lane_of(id: &EntryKey, lanes: usize) -> usize {
    if lanes <= 1 {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    // The remainder is below `lanes`, a usize.
    usize::try_from(hasher.finish() % lanes as u64).unwrap_or_default()
}
