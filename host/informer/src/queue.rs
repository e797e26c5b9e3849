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
//! | update, never attempted | update back to what is no change to the registration's view | nothing |
//!
//! Merging happens once the queue is at its bound, while the key waits for a retry, while the queue is on hold (the
//! listener is in quarantine), and always in [`Merge::Latest`]. What a handler works on at the moment is never merged with.
//!
//! In [`Merge::Latest`] it gives what the plain [FIFO](crate::fifo) gives, in the same order, and besides that the
//! deletes of objects that a handler knows; a property test holds the two side by side. It is not built on that
//! queue, since the algebra is its generalisation: the FIFO keeps one value a key and forgets deletions, while here a
//! delete and an add behind it both wait, a failing key takes its old place again, and lanes share one order.
//!
//! A queue has one or more lanes, one for each handler of the listener. A key has one lane, by its hash; a lane
//! gives out one event at a time, so events of one key never overlap.
//!
//! Invariants: events of one key leave in the order in which they came, one at a time; the queue holds at most
//! its bound plus two entries for each key (client-go's buffer grows without bound: a deviation, (D)).

mod clear;
mod entry;
mod lane;
mod merge;
mod refit;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

pub(crate) use self::clear::{Cleared, Keep};
pub(crate) use self::entry::{Arrival, EntryKey, Taken};
use self::entry::{Entry, KeyQueue, KeyState};
use self::lane::Lane;
use self::merge::{Merged, merge};
use crate::handler::Event;
use crate::object::Object;
use crate::view::View;

/// When waiting events of a key are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Merge {
    /// Only when the queue is at its bound, the key waits for a retry, or the listener is in quarantine.
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

/// See the file's head.
pub(crate) struct Queue {
    bound: usize,
    merge: Merge,
    /// It merges whatever `merge` says.
    held: bool,
    keys: HashMap<EntryKey, KeyQueue>,
    /// Never empty.
    lanes: Vec<Lane>,
    /// Keys whose first entry waits for a retry, by the moment it is due, then its position.
    waiting: BTreeMap<(Instant, u64), EntryKey>,
    /// Initial adds of each registration that have not been dealt with, if there are any.
    initial: HashMap<u64, usize>,
    entries: usize,
    next: u64,
    merged: u64,
}

impl Queue {
    /// An empty queue with one lane.
    pub(crate) fn new(bound: usize, merge: Merge) -> Self {
        Self {
            bound,
            merge,
            held: false,
            keys: HashMap::new(),
            lanes: vec![Lane::default()],
            waiting: BTreeMap::new(),
            initial: HashMap::new(),
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

    /// Whether it is on hold: it merges what comes, until nobody holds it any more.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Events waiting or being handled.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Whether an event of this key waits or is being handled.
    pub(crate) fn contains(&self, id: &EntryKey) -> bool {
        self.keys.contains_key(id)
    }

    /// The number that the next event gets.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// The last event of this key that waits, with its number: not one that is being handled.
    pub(crate) fn last_waiting(&self, id: &EntryKey) -> Option<(u64, &Event)> {
        let key = self.keys.get(id)?;
        let free = key.entries.len() > usize::from(key.state == KeyState::InFlight);
        key.entries.back().filter(|_| free).map(|last| (last.sequence, &last.event))
    }

    /// The number of this key's delete of the object with this uid, if it waits or is being handled.
    pub(crate) fn delete_of(&self, id: &EntryKey, uid: &str) -> Option<u64> {
        let is_it = |event: &Event| matches!(event, Event::Delete { object, .. } if object.uid() == uid);
        let entries = self.keys.get(id)?.entries.iter();
        entries.rev().find(|entry| is_it(&entry.event)).map(|entry| entry.sequence)
    }

    /// Whether the queue is at its bound.
    pub(crate) fn full(&self) -> bool {
        self.entries >= self.bound
    }

    /// Keys that wait for a retry.
    pub(crate) fn retrying(&self) -> usize {
        self.waiting.len()
    }

    /// Merges and annihilations so far.
    pub(crate) fn merged(&self) -> u64 {
        self.merged
    }

    /// Initial adds of a registration that wait, are being handled, or are to be tried again.
    pub(crate) fn initial_left(&self, registration: u64) -> usize {
        self.initial.get(&registration).copied().unwrap_or_default()
    }

    /// When the next retry is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// Takes a new event in, of a registration with this view.
    pub(crate) fn push(&mut self, id: EntryKey, event: Event, arrived: Arrival, view: &View) -> Pushed {
        let entry = self.entry(event, arrived);
        self.push_entry(id, entry, Some(view))
    }

    /// Takes an initial add in that the cursor has read; `shown` if an earlier handler knows the object.
    pub(crate) fn push_initial(&mut self, id: EntryKey, object: Arc<Object>, arrived: Arrival, shown: bool) {
        let entry = self.entry(Event::Add { object, initial: true }, arrived);
        *self.initial.entry(id.registration).or_default() += 1;
        self.push_entry(id, Entry { shown, initial: true, ..entry }, None);
    }

    /// Takes an event in again that was given up, or another one of its object: a handler may know of that, so its
    /// delete must not vanish.
    pub(crate) fn push_again(&mut self, id: EntryKey, event: Event, arrived: Arrival, view: &View) -> Pushed {
        let entry = self.entry(event, arrived);
        self.push_entry(id, Entry { shown: true, ..entry }, Some(view))
    }

    fn entry(&mut self, event: Event, arrived: Arrival) -> Entry {
        let position = self.next;
        self.next += 1;
        Entry::new(position, event, arrived)
    }

    fn push_entry(&mut self, id: EntryKey, entry: Entry, view: Option<&View>) -> Pushed {
        let merging = self.full() || self.held || self.merge == Merge::Latest;
        let Some(key) = self.keys.get_mut(&id) else {
            self.stand_by(id, VecDeque::from([entry]));
            self.entries += 1;
            return Pushed::Queued;
        };
        let free = key.entries.len() > usize::from(key.state == KeyState::InFlight);
        if let Event::Update { resync: true, .. } = entry.event
            && free
        {
            return Pushed::Vanished;
        }
        let merging = merging || key.is_to_be_retried();
        if !(merging && free) {
            key.entries.push_back(entry);
            self.entries += 1;
            return Pushed::Queued;
        }
        self.merge_into_last(&id, entry, view)
    }

    /// Merges `entry` into the last entry of `id`, which exists and is not being handled. `view` says what is a
    /// change; none: everything.
    fn merge_into_last(&mut self, id: &EntryKey, entry: Entry, view: Option<&View>) -> Pushed {
        let Some(key) = self.keys.get_mut(id) else { return Pushed::Vanished };
        let Some(last) = key.entries.back_mut() else { return Pushed::Vanished };
        let is_change = |old: &_, new: &_| view.is_none_or(|view| view.is_change(old, new));
        match merge(&last.event, last.known(), &entry.event, is_change) {
            Merged::One(event) => {
                let twice = last.initial && entry.initial;
                last.absorb(event, &entry);
                self.merged += 1;
                if twice {
                    self.initial_done(id.registration);
                }
                Pushed::Merged
            }
            Merged::Nothing => {
                self.merged += 1;
                self.drop_last(id);
                Pushed::Vanished
            }
            Merged::Two => {
                key.entries.push_back(entry);
                self.entries += 1;
                Pushed::Queued
            }
        }
    }

    /// Forgets the last entry of `id`, which was never attempted.
    fn drop_last(&mut self, id: &EntryKey) {
        let Some(key) = self.keys.get_mut(id) else { return };
        let Some(entry) = key.entries.pop_back() else { return };
        self.entries -= 1;
        if key.entries.is_empty() {
            // It was the key's only entry, never attempted, so it was ready.
            self.lanes[key.lane].ready.remove(&entry.position);
            self.keys.remove(id);
        }
        if entry.initial {
            self.initial_done(id.registration);
        }
    }

    /// The next event to hand over at `now`, on a lane that is idle: retries that are due take their old places
    /// again.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Taken> {
        self.wake(now);
        let lane = self.next_lane()?;
        let position = *self.lanes[lane].ready.first_key_value()?.0;
        self.take_from(lane, position)
    }

    /// Whether an event could be taken whose key has not broken a handler since it was last handled well.
    pub(crate) fn has_unbroken(&mut self, now: Instant) -> bool {
        self.wake(now);
        self.ready_keys().any(|(breaks, ..)| breaks == 0)
    }

    /// As [`Queue::take`], but what has broken handlers least often comes first. It looks at all that is ready, so this
    /// is for rare moments.
    pub(crate) fn take_least_broken(&mut self, now: Instant) -> Option<Taken> {
        self.wake(now);
        let (_, position, lane) = self.ready_keys().min()?;
        self.take_from(lane, position)
    }

    /// What idle lanes could be given: how often it broke a handler, its position, the lane.
    fn ready_keys(&self) -> impl Iterator<Item = (u32, u64, usize)> + '_ {
        let lanes = self.lanes.iter().enumerate().filter(|(_, lane)| lane.busy.is_none());
        lanes.flat_map(move |(number, lane)| {
            lane.ready.iter().map(move |(position, id)| {
                let first = self.keys.get(id).and_then(|key| key.entries.front());
                (first.map_or(0, |first| first.breaks), *position, number)
            })
        })
    }

    /// Retries that are due at `now` take their old places again.
    fn wake(&mut self, now: Instant) {
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now
        {
            let ((_, position), id) = first.remove_entry();
            if let Some(key) = self.keys.get_mut(&id) {
                key.state = KeyState::Ready;
                self.lanes[key.lane].ready.insert(position, id);
            }
        }
    }

    fn take_from(&mut self, lane: usize, position: u64) -> Option<Taken> {
        let id = self.lanes[lane].ready.remove(&position)?;
        let key = self.keys.get_mut(&id)?;
        key.state = KeyState::InFlight;
        let first = key.entries.front_mut()?;
        first.attempts += 1;
        self.lanes[lane].busy = Some(id.clone());
        Some(first.taken(id, lane))
    }

    /// The event that was taken for `id` is done with: the key's next one may be taken.
    pub(crate) fn finish(&mut self, id: &EntryKey) {
        let Some(mut key) = self.in_flight(id) else { return };
        if let Some(done) = key.entries.pop_front() {
            self.entries -= 1;
            if done.initial {
                self.initial_done(id.registration);
            }
        }
        if !key.entries.is_empty() {
            self.stand_by(id.clone(), key.entries);
        }
    }

    /// The event that was taken for `id` is to be tried again at `due`; `broke` if the handler trapped or
    /// timed out. What waits behind it is merged into it.
    pub(crate) fn retry(&mut self, id: &EntryKey, due: Instant, broke: bool) {
        let Some(mut key) = self.in_flight(id) else { return };
        let behind = key.entries.split_off(key.entries.len().min(1));
        let Some(first) = key.entries.front_mut() else { return };
        first.breaks += u32::from(broke);
        first.failures = first.failures.saturating_add(1);
        self.waiting.insert((due, first.position), id.clone());
        key.state = KeyState::Waiting { until: due };
        self.keys.insert(id.clone(), key);
        self.entries -= behind.len();
        for entry in behind {
            // The first one was attempted, so nothing vanishes for having changed back.
            self.merge_into_last(id, entry, None);
        }
    }

    /// An attempt at the first event of `id` that failed is as if it had not: if that was all, it may be taken at once. The
    /// event is not being handled.
    pub(crate) fn forgive(&mut self, id: &EntryKey) {
        let Some(key) = self.keys.get_mut(id) else { return };
        let Some(first) = key.entries.front_mut() else { return };
        first.breaks = first.breaks.saturating_sub(1);
        first.failures = first.failures.saturating_sub(1);
        if let KeyState::Waiting { until } = key.state {
            self.waiting.remove(&(until, first.position));
            self.lanes[key.lane].ready.insert(first.position, id.clone());
            key.state = KeyState::Ready;
        }
    }

    /// Takes the key whose event was taken out of the queue, and frees its lane.
    fn in_flight(&mut self, id: &EntryKey) -> Option<KeyQueue> {
        let lane = self.keys.get(id).filter(|key| key.state == KeyState::InFlight)?.lane;
        self.lanes[lane].busy = None;
        self.keys.remove(id)
    }

    /// Puts a key in, with these entries (at least one), the first of which may be taken.
    fn stand_by(&mut self, id: EntryKey, entries: VecDeque<Entry>) {
        let Some(first) = entries.front() else { return };
        let lane = self.lane_of(&id);
        self.lanes[lane].ready.insert(first.position, id.clone());
        self.keys.insert(id, KeyQueue { state: KeyState::Ready, lane, entries });
    }

    /// An initial add of the registration needs no handling any more.
    fn initial_done(&mut self, registration: u64) {
        if let Some(left) = self.initial.get_mut(&registration) {
            *left -= 1;
            if *left == 0 {
                self.initial.remove(&registration);
            }
        }
    }
}

#[cfg(test)]
mod tests;
