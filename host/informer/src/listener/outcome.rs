//! What becomes of an attempt (delivery contract 9).
//!
//! Used by the loop of `run` when a call is over. Invariant: every delivery is settled once, as done, to be tried
//! again, or given up.

use std::sync::Arc;

use tokio::time::Instant;

use super::config::{ListenerConfig, OnRestart};
use super::lanes::Done;
use super::registrations::Missed;
use super::state::{Report, Shared, State};
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
        if gave_up {
            state.note_given_up(done);
        }
        state.consider_restart(done);
        state.consider_health(done);
        state.metrics.delivered(done);
        state.metrics.dead += u64::from(gave_up);
        let removed = !state.registrations.contains_key(&id.registration);
        let synced = state.settle_sync(id.registration);
        drop(state);
        if removed || synced {
            self.tell_waiters();
        }
        if gave_up {
            self.observer.given_up(&done.delivery, &done.outcome);
        }
    }
}

impl State {
    /// Keeps in mind what the handler missed. What waits behind is a newer state, which tells it.
    fn note_given_up(&mut self, done: &Done) {
        let id = &done.taken.id;
        let missed = match &done.taken.event {
            Event::Add { .. } => Missed::Object,
            Event::Update { .. } => Missed::Change,
            Event::Delete { .. } => return,
        };
        if !self.queue.contains(id)
            && let Some(registered) = self.registrations.get_mut(&id.registration)
        {
            registered.given_up.insert(id.object.clone(), missed);
        }
    }

    /// Has everything replayed if the handler broke and wants that.
    fn consider_restart(&mut self, done: &Done) {
        if !done.outcome.is_break() || self.config.on_restart == OnRestart::Continue {
            return;
        }
        self.restart = true;
    }

    /// Tells the breaker, and the trial. A trial is bounded itself, so there is no quarantine meanwhile.
    fn consider_health(&mut self, done: &Done) {
        let now = Instant::now();
        let (change, verdict) = if done.outcome.is_break() {
            let (event, outcome) = (&done.taken.event, &done.outcome);
            let message = outcome.message().unwrap_or_default();
            let cause = format!("{} {}: {}: {message}", event.op(), event.key(), outcome.as_str());
            let (id, cause) = (&done.taken.id, Arc::from(cause));
            let config = if self.trial.spares() {
                &ListenerConfig { quarantine_after: None, ..self.config.clone() }
            } else {
                &self.config
            };
            let change = self.breaker.broke(id, Arc::clone(&cause), now, config);
            (change, self.trial.broke(id, &cause))
        } else {
            (self.breaker.answered(now), self.trial.answered())
        };
        if let Some(verdict) = verdict {
            self.report(Report::Trial(verdict));
        }
        if change.is_some() {
            self.note(change);
        }
    }

    /// A trap or time-out is repeated until the object's event has broken the handler `max_attempts` times, and for as
    /// long as the handler is on trial; a retry for as long as it takes. A registration that was removed meanwhile has no further attempt.
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
            Outcome::Trap(_) | Outcome::Timeout(_)
                if !self.trial.spares() && taken.breaks.saturating_add(1) >= self.config.max_attempts =>
            {
                Verdict::GiveUp
            }
            Outcome::Trap(_) | Outcome::Timeout(_) => {
                Verdict::Again { at: Instant::now() + back_off(), broke: true }
            }
        }
    }
}
