//! What the queue takes in: events as they come, objects as the cursor reads them, and what another version takes over.
//!
//! Used by `sink`, `cursor` and swaps, under the listener's lock. Invariant: nothing gets into the queue but through here
//! or as a redelivery, and both keep to [`oversized`](super::oversized).

use std::sync::Arc;

use super::observer::Oversized;
use super::oversized::{Left, Measure, sift, sift_again};
use super::state::{Report, State};
use crate::handler::{Delivery, Event};
use crate::indexer::Indexer;
use crate::object::{Object, ObjectKey};
use crate::queue::{Arrival, EntryKey};
use crate::replay::Phase;

impl State {
    /// Queues what is left of an event; false if there is nothing to do for the loop.
    pub(super) fn admit(&mut self, id: u64, event: Event) -> bool {
        let max = self.config.max_object;
        let Some(registered) = self.registrations.get_mut(&id) else { return false };
        let measure = Measure { view: &registered.view, max };
        let left = sift(&mut registered.withheld, &event, measure);
        if let Left::Event(_) | Left::Again(_) = left {
            registered.given_up.remove(event.key());
        }
        let entry = EntryKey { registration: id, object: event.key().clone() };
        match left {
            Left::Event(event) => self.queue.push(entry, event, Arrival::now(), &registered.view),
            Left::Again(event) => self.queue.push_again(entry, event, Arrival::now(), &registered.view),
            Left::Nothing => return false,
            Left::TooLarge(report) => {
                self.leave_out(id, event, report);
                return report;
            }
        };
        true
    }

    /// Queues an object that the cursor has come by, or leaves it out; `shown` as the cursor knows.
    pub(super) fn admit_initial(&mut self, id: u64, object: Arc<Object>, shown: bool) {
        let max = self.config.max_object;
        let Some(registered) = self.registrations.get_mut(&id) else { return };
        match registered.read(&object, shown, max) {
            Ok(shown) => {
                let entry = EntryKey { registration: id, object: object.key().clone() };
                self.queue.push_initial(entry, object, Arrival::now(), shown);
            }
            Err(report) => self.leave_out(id, Event::Add { object, initial: true }, report),
        }
    }

    /// Other handlers take the queue over. The limit, or what is shown of each object, may be another one: what is too
    /// large by now is left out, and what fits now is theirs. No delivery is under way. Called under the informer's
    /// lock.
    pub(super) fn readmit(&mut self, id: u64, indexer: &Indexer) {
        let Self { queue, registrations, config, .. } = self;
        let Some(registered) = registrations.get_mut(&id) else { return };
        let measure = Measure { view: &registered.view, max: config.max_object };
        let (withheld, mut large) = (&mut registered.withheld, Vec::new());
        queue.refit(id, |key, events| sift_again(withheld, key, events, measure, &mut large));
        for (event, report) in large {
            self.leave_out(id, event, report);
        }
        self.admit_what_fits(id, indexer);
    }

    fn admit_what_fits(&mut self, id: u64, indexer: &Indexer) {
        let max = self.config.max_object;
        let Some(registered) = self.registrations.get(&id) else { return };
        let fits = |object: &Arc<Object>| registered.view.has(object) && registered.measure(max).fits(object);
        // What the cursor is yet to come by, it finds by itself: else there would be two adds.
        let is_ahead = |key: &ObjectKey| match &registered.phase {
            Phase::Waiting => true,
            Phase::Replaying(replay) => replay.will_read(key),
            Phase::Live => false,
        };
        let ours = registered.withheld.keys().filter(|key| !is_ahead(key));
        let present = ours.filter_map(|key| indexer.get(key));
        let fitting: Vec<Arc<Object>> = present.filter(fits).collect();
        for object in fitting {
            self.admit(id, Event::Update { old: object.clone(), new: object, resync: false });
        }
    }

    fn leave_out(&mut self, id: u64, event: Event, report: bool) {
        self.metrics.oversized += 1;
        let Some(registered) = self.registrations.get(&id).filter(|_| report) else { return };
        let shown = registered.view.shown_bytes(event.object());
        let arrival = Arrival::now();
        let delivery = Delivery {
            subscription: registered.number,
            sequence: self.queue.next_sequence(),
            attempt: 0,
            arrived: arrival.wall,
            event,
        };
        let (subscription, limit) = (registered.name.clone(), self.config.max_object.unwrap_or(usize::MAX));
        self.report(Report::Oversized(Oversized { subscription, delivery, bytes: shown, limit }));
    }

    /// Objects whose present state is too large.
    pub(super) fn withheld(&self) -> usize {
        self.registrations.values().map(|one| one.withheld.len()).sum()
    }
}
