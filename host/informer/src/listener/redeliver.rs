//! Telling a handler again what was given up: a dead letter that somebody wants replayed (delivery contract 9).
//!
//! Used by whoever keeps dead letters. Invariant: it looks at the cache and puts its event into the queue under
//! the informer's lock, as the cursor does; so an older state never comes after a newer one, and what waits for the
//! object already is not doubled.
//!
//! | given up | the object is | becomes |
//! | --- | --- | --- |
//! | add or update | there, with this uid | an update that says nothing changed (a resync), of the present state |
//! | add, and nothing came of the object since | there, with this uid | an add of the present state, not initial |
//! | add or update | there, and too large | nothing yet |
//! | add or update | gone, or another one has its name | nothing: its delete was an event of its own |
//! | delete | not there, or another one has its name of which nothing was told yet | the delete, as it was |
//! | delete | there, it or another one | nothing: the handler was told of that later |
//!
//! Of two objects that had the same name and are both gone, the deletes come in the order in which they are asked for:
//! whose it is, its uid says.

use std::sync::Arc;

use super::Listener;
use super::oversized::Withheld;
use super::registrations::Missed;
use super::state::{Shared, State};
use crate::handler::{DeleteReason, Event};
use crate::object::{Object, ObjectKey};
use crate::queue::{Arrival, EntryKey};
use crate::replay::Phase;
use crate::shared_informer::SharedInformer;

/// An event that was given up.
#[derive(Debug, Clone)]
pub struct Lost {
    /// The object's key.
    pub key: ObjectKey,
    /// Its uid: under the same name there may be another one by now.
    pub uid: String,
    /// What the handler was not told.
    pub event: LostEvent,
}

/// What was given up.
#[derive(Debug, Clone)]
pub enum LostEvent {
    /// That the object is there.
    Add,
    /// That it changed.
    Update,
    /// That it is gone.
    Delete {
        /// Its last state, as the handler is to be shown it.
        object: Arc<Object>,
        /// How its end was learned of.
        reason: DeleteReason,
    },
}

/// What became of a redelivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redelivered {
    /// The handler will be told. The first delivery of the object with this sequence or a later one has it in it.
    Queued {
        /// See [`Delivery::sequence`](crate::handler::Delivery::sequence).
        sequence: u64,
    },
    /// There is nothing left to tell.
    Obsolete(Obsolete),
    /// The listener has no subscription of this name (any more), or none that the object can belong to.
    UnknownSubscription,
    /// The first list is not in the cache yet, so nobody knows whether the object is there.
    NotSynced,
    /// The object's present state is too large to be handed over.
    Oversized,
    /// Later events of that name wait, which a delete must not be put behind: to be asked again once they are
    /// handled.
    Busy,
}

/// Why there is nothing left to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obsolete {
    /// The object is gone, and its delete was an event of its own.
    Gone,
    /// Another object has its name.
    Replaced,
    /// It was a delete, and the object is there again: the subscription's after it had not been for a while.
    Back,
}

impl Listener {
    /// Puts an event that was given up into the queue again, as one of the subscription of this name; see the
    /// table in the file's head. Its attempts begin anew. Does not wait.
    pub fn redeliver(&self, subscription: &str, lost: &Lost) -> Redelivered {
        self.shared.redeliver(subscription, lost)
    }
}

impl Shared {
    fn redeliver(&self, subscription: &str, lost: &Lost) -> Redelivered {
        let Some((id, informer)) = self.registration_for(subscription, &lost.key) else {
            return Redelivered::UnknownSubscription;
        };
        let redelivered = informer.core().with(|_, indexer| {
            let present = indexer.get(&lost.key);
            self.lock().redeliver(id, present, lost)
        });
        self.wake.notify_one();
        redelivered
    }

    /// The registration that has the key's namespace: one for that alone, else one for all.
    fn registration_for(&self, subscription: &str, key: &ObjectKey) -> Option<(u64, Arc<SharedInformer>)> {
        let state = self.lock();
        let of = |namespace: &str| {
            let mut all = state.registrations.iter().filter(|(_, one)| one.name == subscription);
            all.find(|(_, one)| one.informer.selector().namespace == namespace)
        };
        let (id, one) = of(key.namespace()).or_else(|| of(""))?;
        Some((*id, one.informer.clone()))
    }
}

impl State {
    /// `present` is what the informer has under the key. Called under the informer's lock.
    fn redeliver(&mut self, id: u64, present: Option<Arc<Object>>, lost: &Lost) -> Redelivered {
        let Some(registered) = self.registrations.get(&id) else { return Redelivered::UnknownSubscription };
        if matches!(registered.phase, Phase::Waiting) {
            return Redelivered::NotSynced;
        }
        let present = present.filter(|object| registered.view.has(object));
        match (&lost.event, present) {
            (LostEvent::Delete { object, reason }, present) => {
                let object = registered.measure(self.config.max_object).shrunk(object.clone());
                let event = Event::Delete { object, reason: *reason };
                self.redeliver_delete(id, event, &lost.uid, present)
            }
            (_, None) => Redelivered::Obsolete(Obsolete::Gone),
            (_, Some(object)) if object.uid() != lost.uid => Redelivered::Obsolete(Obsolete::Replaced),
            (_, Some(object)) => self.redeliver_state(id, object),
        }
    }

    fn redeliver_state(&mut self, id: u64, object: Arc<Object>) -> Redelivered {
        let sequence = self.queue.next_sequence();
        let entry = EntryKey { registration: id, object: object.key().clone() };
        let Some(registered) = self.registrations.get_mut(&id) else {
            return Redelivered::UnknownSubscription;
        };
        if !registered.measure(self.config.max_object).fits(&object) {
            return Redelivered::Oversized;
        }
        if matches!(&registered.phase, Phase::Replaying(replay) if replay.will_read(object.key())) {
            // The cursor finds it, and gives it a number then.
            return Redelivered::Queued { sequence };
        }
        if let Some((sequence, Event::Add { .. } | Event::Update { .. })) = self.queue.last_waiting(&entry) {
            // The handler has not been told of this state yet.
            return Redelivered::Queued { sequence };
        }
        let event = match registered.given_up.remove(object.key()) {
            Some(Missed::Object) => Event::Add { object, initial: false },
            Some(Missed::Change) | None => Event::Update { old: object.clone(), new: object, resync: true },
        };
        self.queue.push_again(entry, event, Arrival::now(), &registered.view);
        Redelivered::Queued { sequence }
    }

    /// `present` is what the subscription has under the name now.
    fn redeliver_delete(
        &mut self,
        id: u64,
        event: Event,
        uid: &str,
        present: Option<Arc<Object>>,
    ) -> Redelivered {
        let entry = EntryKey { registration: id, object: event.key().clone() };
        let Some(registered) = self.registrations.get(&id) else { return Redelivered::UnknownSubscription };
        if let Some(sequence) = self.queue.delete_of(&entry, uid) {
            return Redelivered::Queued { sequence };
        }
        let is_ahead = matches!(&registered.phase, Phase::Replaying(replay) if replay.will_read(event.key()));
        // An add that waits may yet vanish together with its delete: then nothing tells the end of this object.
        if self.queue.last_waiting(&entry).is_some() || (is_ahead && present.is_some()) {
            return Redelivered::Busy;
        }
        let is_missed = registered.given_up.get(event.key()) == Some(&Missed::Object)
            || registered.withheld.get(event.key()).is_some_and(Withheld::is_unknown);
        match present {
            Some(object) if object.uid() == uid => return Redelivered::Obsolete(Obsolete::Back),
            Some(_) if !is_missed => return Redelivered::Obsolete(Obsolete::Replaced),
            // The handler does not know the other object yet, so the delete comes before its add.
            Some(_) | None => {}
        }
        let sequence = self.queue.next_sequence();
        self.queue.push_again(entry, event, Arrival::now(), &registered.view);
        Redelivered::Queued { sequence }
    }
}
