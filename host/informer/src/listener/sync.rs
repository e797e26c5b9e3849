//! When a registration has synced: every initial add was handled, not merely queued (R-EH-7).
//!
//! Used by the loop of `run`, and by whoever asks. Invariant: a registration turns synced in one place,
//! [`State::settle_sync`], which is asked whenever the last of its initial adds may be gone.

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
        just
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
