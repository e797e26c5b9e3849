//! What informers tell a listener.
//!
//! Called under an informer's lock. Invariant: nothing here waits, so no listener holds an informer back
//! (R-SP-3).

use super::state::{Shared, State};
use crate::handler::Event;
use crate::processor::Sink;
use crate::replay::Phase;

impl Sink for Shared {
    fn offer(&self, registration: u64, event: Event) {
        let mut state = self.lock();
        let taken = state.offer(registration, event);
        // An initial add that waited may have been cancelled.
        let synced = state.settle_sync(registration);
        drop(state);
        if taken || synced {
            self.wake.notify_one();
        }
        if synced {
            self.tell_waiters();
        }
    }

    fn synced(&self, registration: u64) {
        let mut state = self.lock();
        if let Some(registered) = state.registrations.get_mut(&registration)
            && matches!(registered.phase, Phase::Waiting)
        {
            registered.phase = Phase::Replaying(Box::default());
        }
        state.reconsider_gate(false);
        drop(state);
        self.wake.notify_one();
    }

    fn excused(&self, registration: u64, excused: bool) {
        let mut state = self.lock();
        if let Some(registered) = state.registrations.get_mut(&registration) {
            registered.excused = excused;
        }
        state.reconsider_gate(false);
        drop(state);
        self.tell_waiters();
        self.wake.notify_one();
    }
}

impl State {
    /// Whether there is something to do: the event is one for the queue, and not the cursor's to find, or it is too
    /// large and to be reported.
    fn offer(&mut self, registration: u64, event: Event) -> bool {
        let Some(registered) = self.registrations.get_mut(&registration) else { return false };
        let takes = match &mut registered.phase {
            Phase::Waiting => false,
            Phase::Replaying(replay) => replay.takes(&event),
            Phase::Live => true,
        };
        if takes {
            return self.admit(registration, event);
        }
        if let Phase::Replaying(replay) = &registered.phase {
            let known = replay.was_shown(event.key());
            registered.pass_by(&event, known, self.config.max_object);
        }
        false
    }
}
