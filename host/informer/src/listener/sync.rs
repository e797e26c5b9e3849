//! When a registration has synced: every initial add was handled, not merely queued (R-EH-7).
//!
//! Used by the loop of `run`, and by whoever asks. Handlers are told of subscriptions, which may have several
//! registrations: once all of those have synced, and no lane has a delivery, so that it comes after the last initial add
//! and before whatever is begun later. Invariants: a registration turns synced in one place, [`State::settle_sync`],
//! which is asked whenever the last of its initial adds may be gone; handlers are told once, and once more after a
//! replay, but not those that take a queue over whose handlers were told.

use std::collections::BTreeSet;

use super::state::{Life, State};
use crate::replay::Phase;

impl State {
    /// Looks whether the registration has just synced: the cursor has read everything, and no initial add waits,
    /// is being handled, or is to be tried again; nor is everything about to be replayed.
    pub(super) fn settle_sync(&mut self, id: u64) -> bool {
        if self.restart {
            return false;
        }
        let Some(registered) = self.registrations.get_mut(&id) else { return false };
        let done = matches!(registered.phase, Phase::Live) && self.queue.initial_left(id) == 0;
        let just = done && !registered.synced;
        registered.synced |= done;
        self.sync_changed |= just;
        just
    }

    /// The number of a subscription that has synced, which the handlers have not been told. Not while events may not
    /// flow, when there is a subscription of which nothing is known.
    pub(super) fn synced_untold(&mut self) -> Option<u32> {
        if !self.open || !self.sync_changed {
            return None;
        }
        let all = || self.registrations.values();
        let untold: BTreeSet<u32> =
            all().filter(|one| one.synced && !one.told).map(|one| one.number).collect();
        let waits = |number: &u32| all().any(|one| one.number == *number && !one.synced);
        let number = untold.into_iter().find(|number| !waits(number));
        // What is left is looked at when another registration has synced.
        self.sync_changed = number.is_some();
        number
    }

    /// The handlers are about to be told that a subscription has synced.
    pub(super) fn tell_synced(&mut self, number: u32) {
        for (id, one) in self.registrations.iter_mut().filter(|(_, one)| one.number == number) {
            one.told = true;
            self.telling.push(*id);
        }
    }

    /// Whether all healthy registrations have synced; none before the listener runs.
    pub(super) fn synced(&self) -> Option<bool> {
        match self.life {
            Life::New => None,
            Life::Ended => Some(false),
            Life::Running | Life::Draining | Life::Closing => {
                Some(self.registrations.values().all(|one| one.excused || one.synced))
            }
        }
    }

    /// Whether all registrations of a subscription have synced; none if it has no registration.
    pub(super) fn subscription_synced(&self, name: &str) -> Option<bool> {
        let mut registered = self.registrations.values().filter(|one| one.name == name).peekable();
        registered.peek()?;
        Some(registered.all(|one| one.synced))
    }
}
