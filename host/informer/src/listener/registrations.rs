//! Which informers a listener has joined: swaps, removal, and the gate.
//!
//! Used by the loop between two deliveries, and by whoever removes a subscription. Invariant: a registration's
//! number is never used again, so an event, a delivery or a waiter of one that is gone cannot be taken for
//! another's.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::config::{Removed, Subscription};
use super::oversized::Withheld;
use super::reach::Reach;
use super::state::{Shared, State, sink};
use super::swap::{OnSwap, SwapReport};
use crate::object::ObjectKey;
use crate::queue::{Cleared, Keep};
use crate::replay::Phase;
use crate::shared_informer::{Index, SharedInformer};
use crate::view::View;

/// One informer that the listener has joined.
pub(super) struct Registered {
    pub(super) name: String,
    pub(super) number: u32,
    pub(super) reach: Arc<Reach>,
    pub(super) informer: Arc<SharedInformer>,
    pub(super) view: Arc<View>,
    pub(super) indexes: Vec<Index>,
    pub(super) phase: Phase,
    /// Its resource is forbidden or absent: it holds nobody back.
    pub(super) excused: bool,
    /// Every initial add has been handled.
    pub(super) synced: bool,
    /// The handlers were told so.
    pub(super) told: bool,
    /// Objects whose event was given up, and of which nothing came since, with what the handler missed: a restart
    /// must not offer them again, and a redelivery goes by it.
    pub(super) given_up: HashMap<ObjectKey, Missed>,
    /// Objects whose present state is too large.
    pub(super) withheld: HashMap<ObjectKey, Withheld>,
}

/// What a handler did not get to know, because it was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missed {
    /// That the object is there.
    Object,
    /// A change of an object that it had been told of.
    Change,
}

impl Shared {
    /// Makes the registrations those of `subscriptions`. Runs between two deliveries. Of the report, it fills in what
    /// became of registrations.
    pub(super) fn resubscribe(
        self: &Arc<Self>,
        subscriptions: Vec<Subscription>,
        on_swap: OnSwap,
    ) -> SwapReport {
        let mut old = self.registrations();
        let (mut dropped, mut kept) = (0, BTreeSet::new());
        let names: BTreeSet<String> = subscriptions.iter().map(|one| one.name.clone()).collect();
        let before: BTreeSet<String> = old.iter().map(|one| one.name.clone()).collect();
        for subscription in subscriptions {
            if let Some(place) = old.iter().position(|one| one.serves(&subscription)) {
                kept.insert(subscription.name.clone());
                let id = old.swap_remove(place).id;
                self.stay(id, subscription, on_swap);
            } else {
                self.join(subscription);
            }
        }
        for gone in old {
            dropped += self.leave(gone.id, &gone.informer);
        }
        let mut state = self.lock();
        state.reconsider_gate(true);
        // A registration whose subscription was not complete may be gone.
        state.sync_changed = true;
        drop(state);
        self.tell_waiters();
        let anew = |names: BTreeSet<String>| names.difference(&kept).count();
        let (added, removed) = (anew(names), anew(before));
        SwapReport { kept: kept.len(), added, removed, dropped, ..SwapReport::default() }
    }

    /// Leaves the informers of the subscription with this name; gives their registrations as well.
    pub(super) fn unsubscribe(self: &Arc<Self>, name: &str) -> (Removed, Vec<u64>) {
        let mut removed = Removed::default();
        let mut ids = Vec::new();
        for gone in self.registrations().into_iter().filter(|one| one.name == name) {
            removed.registrations += 1;
            removed.dropped += self.leave(gone.id, &gone.informer);
            ids.push(gone.id);
        }
        self.lock().reconsider_gate(false);
        self.tell_waiters();
        self.wake.notify_one();
        (removed, ids)
    }

    /// In one step with the informer, so that whoever removes the registration finds it there too.
    fn join(self: &Arc<Self>, subscription: Subscription) {
        let (informer, view) = (subscription.informer.clone(), subscription.view.clone());
        informer.core().with(|processor, _| {
            let resync = subscription.resync;
            let id = self.lock().insert(subscription);
            processor.register(&sink(self), id, resync, &view);
        });
        informer.wake_resync();
    }

    /// A registration goes on under new handlers.
    fn stay(self: &Arc<Self>, id: u64, subscription: Subscription, on_swap: OnSwap) {
        let informer = subscription.informer.clone();
        let outdated = informer.core().with(|processor, indexer| {
            processor.rebind(&sink(self), id, subscription.resync, &subscription.view);
            let mut state = self.lock();
            let outdated = state.keep(id, subscription, on_swap);
            if on_swap == OnSwap::Continue {
                state.readmit(id, indexer);
                // A restart that does not come any more may have held it up.
                state.settle_sync(id);
            }
            outdated
        });
        // Its index may end here, which takes a lock of the informer's.
        drop(outdated);
        informer.wake_resync();
    }

    /// Gives how many waiting events were dropped.
    fn leave(self: &Arc<Self>, id: u64, informer: &SharedInformer) -> usize {
        informer.core().with(|processor, _| processor.unregister(&sink(self), id));
        let (dropped, registered) = self.lock().remove(id);
        // The informer may stop here, when its last user is gone: outside every lock.
        drop(registered);
        dropped
    }
}

impl State {
    /// Gives the new registration's number.
    fn insert(&mut self, subscription: Subscription) -> u64 {
        let Subscription { name, number, reach, informer, view, indexes, .. } = subscription;
        let registered = Registered {
            name,
            number,
            reach,
            informer,
            view,
            indexes,
            phase: Phase::Waiting,
            excused: false,
            synced: false,
            told: false,
            given_up: HashMap::new(),
            withheld: HashMap::new(),
        };
        let id = self.next_registration;
        self.next_registration += 1;
        self.registrations.insert(id, registered);
        id
    }

    /// Gives what the registration does not use any more.
    fn keep(&mut self, id: u64, new: Subscription, on_swap: OnSwap) -> Option<(Arc<View>, Vec<Index>)> {
        let registered = self.registrations.get_mut(&id)?;
        registered.number = new.number;
        let view = std::mem::replace(&mut registered.view, new.view);
        let indexes = std::mem::replace(&mut registered.indexes, new.indexes);
        if on_swap == OnSwap::Replay {
            self.replay(id, Keep::Deletes);
        }
        Some((view, indexes))
    }

    /// A handler broke: every registration is replayed, but for what is failing or was given up.
    pub(super) fn replay_all(&mut self) {
        self.restart = false;
        self.metrics.restarts += 1;
        let ids: Vec<u64> = self.registrations.keys().copied().collect();
        for id in ids {
            self.replay(id, Keep::DeletesAndFailing);
        }
    }

    /// Sets the cursor of a registration back, if it has begun. No delivery of it may be under way.
    pub(super) fn replay(&mut self, id: u64, keep: Keep) {
        let Some(registered) = self.registrations.get_mut(&id) else { return };
        if matches!(registered.phase, Phase::Waiting) {
            return;
        }
        let Cleared { unseen, failing: mut queued, .. } = self.queue.clear(id, keep);
        if keep == Keep::DeletesAndFailing {
            queued.extend(registered.given_up.keys().cloned());
        } else {
            registered.given_up.clear();
        }
        registered.phase = Phase::Replaying(registered.phase.restart(unseen, queued));
        registered.synced = false;
        registered.told = false;
    }

    fn remove(&mut self, id: u64) -> (usize, Option<Registered>) {
        let registered = self.registrations.remove(&id);
        let dropped = self.queue.clear(id, Keep::Nothing).dropped;
        self.metrics.dropped += dropped as u64;
        (dropped, registered)
    }

    /// Opens the gate if no healthy registration waits for its first list. An open one closes only for new
    /// registrations (`fresh`).
    pub(super) fn reconsider_gate(&mut self, fresh: bool) {
        let ready = |one: &Registered| one.excused || !matches!(one.phase, Phase::Waiting);
        if fresh || !self.open {
            self.open = self.registrations.values().all(ready);
        }
    }
}
