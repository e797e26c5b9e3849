//! Changing what waits, when another version takes the queue over that may be handed less.
//!
//! Used by the listener between two deliveries. Invariant: places, attempts and back-off of what stays are as they were.

use std::collections::VecDeque;

use super::entry::{Entry, KeyState};
use super::{EntryKey, KeyQueue, Queue};
use crate::handler::Event;
use crate::object::ObjectKey;

impl Queue {
    /// Replaces the waiting events of each of a registration's keys by what `left` makes of each of them, given with
    /// whether a handler knows the object; none: it goes. No delivery of the registration may be under way.
    pub(crate) fn refit(
        &mut self,
        registration: u64,
        mut left: impl FnMut(&ObjectKey, Vec<(Event, bool)>) -> Vec<Option<Event>>,
    ) {
        let of = self.keys.keys().filter(|id| id.registration == registration);
        let ids: Vec<EntryKey> = of.cloned().collect();
        for id in ids {
            let Some(key) = self.keys.remove(&id) else { continue };
            self.take_out(&key);
            let events = key.entries.iter().map(|entry| (entry.event.clone(), entry.known())).collect();
            let events = left(&id.object, events);
            let mut entries = VecDeque::new();
            for (entry, event) in key.entries.into_iter().zip(events) {
                match event {
                    Some(event) => entries.push_back(Entry { event, ..entry }),
                    None => self.gone(&id, &entry),
                }
            }
            self.put_back(id, key.state, entries);
        }
    }

    fn gone(&mut self, id: &EntryKey, entry: &Entry) {
        self.entries -= 1;
        if entry.initial {
            self.initial_done(id.registration);
        }
    }

    /// The first entry waits on if it is one that failed; another one is ready.
    fn put_back(&mut self, id: EntryKey, state: KeyState, entries: VecDeque<Entry>) {
        let Some(first) = entries.front() else { return };
        match state {
            KeyState::Waiting { until } if first.failures > 0 => {
                self.waiting.insert((until, first.position), id.clone());
                let lane = self.lane_of(&id);
                self.keys.insert(id, KeyQueue { state, lane, entries });
            }
            KeyState::Waiting { .. } | KeyState::Ready | KeyState::InFlight => self.stand_by(id, entries),
        }
    }
}
