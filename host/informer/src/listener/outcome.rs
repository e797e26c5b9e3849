//! What becomes of an attempt (delivery contract 9).
//!
//! Used by the loop of `run` when a call is over. Invariant: every delivery is settled once, as done, to be tried
//! again, or given up.

use tokio::time::Instant;

use super::config::OnRestart;
use super::lanes::Done;
use super::state::{Shared, State};
use crate::handler::{Event, Outcome};

/// What to do with the event.
enum Verdict {
    Done,
    GiveUp,
    Again { at: Instant, broke: bool },
}

impl Shared {
    /// Settles a call that is over.
    pub(super) fn complete(&self, done: &Done) {
        let mut state = self.lock();
        let id = &done.taken.id;
        let verdict = state.judge(done);
        match verdict {
            Verdict::Again { at, broke } => state.queue.retry(id, at, broke),
            Verdict::Done | Verdict::GiveUp => state.queue.finish(id),
        }
        let gave_up = matches!(verdict, Verdict::GiveUp);
        state.consider_restart(done, gave_up);
        state.metrics.delivered(done);
        state.metrics.dead += u64::from(gave_up);
        let removed = !state.registrations.contains_key(&id.registration);
        let synced = state.settle_sync(id.registration);
        drop(state);
        if removed || synced {
            self.tell_waiters();
        }
        if gave_up {
            (self.dead_letter)(&done.delivery, &done.outcome);
        }
    }
}

impl State {
    /// Has everything replayed if the handler broke and wants that.
    fn consider_restart(&mut self, done: &Done, gave_up: bool) {
        let broke = matches!(done.outcome, Outcome::Trap(_) | Outcome::Timeout(_));
        if !broke || self.config.on_restart == OnRestart::Continue {
            return;
        }
        let id = &done.taken.id;
        self.restart = true;
        // What waits behind it is a newer state, which the replay is to find.
        if gave_up
            && !self.queue.contains(id)
            && !matches!(done.taken.event, Event::Delete { .. })
            && let Some(registered) = self.registrations.get_mut(&id.registration)
        {
            registered.given_up.insert(id.object.clone());
        }
    }

    /// A trap or time-out is repeated until the object's event has broken the handler `max_attempts` times; a
    /// retry for as long as it takes. A registration that was removed meanwhile has no further attempt.
    fn judge(&self, done: &Done) -> Verdict {
        let taken = &done.taken;
        if !self.registrations.contains_key(&taken.id.registration) {
            return Verdict::Done;
        }
        let back_off = || self.config.backoff(taken.failures);
        match &done.outcome {
            Outcome::Ok | Outcome::Permanent(_) => Verdict::Done,
            Outcome::Retry { after, .. } => {
                Verdict::Again { at: Instant::now() + after.unwrap_or_else(back_off), broke: false }
            }
            Outcome::Trap(_) | Outcome::Timeout(_) if taken.breaks + 1 >= self.config.max_attempts => {
                Verdict::GiveUp
            }
            Outcome::Trap(_) | Outcome::Timeout(_) => {
                Verdict::Again { at: Instant::now() + back_off(), broke: true }
            }
        }
    }
}
