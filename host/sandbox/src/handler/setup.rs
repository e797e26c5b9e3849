//! Makes the instances of one handler, and does what a fault of one needs.
//!
//! Used by the handler's calls. Invariants: an instance is told why it begins before it is called for anything else; one
//! that begins with a version sees its cache from the first call after `restore` on, one that takes another's place within
//! a version from the start.

use std::sync::Arc;

use hark_informer::cache::CacheReader;
use hark_informer::handler::Outcome;

use super::{Next, Seat};
use crate::bindings::stateful::exports::hark::plugin::lifecycle::StopReason;
use crate::cap::Cap;
use crate::context::Context;
use crate::guest_log::LogLevel;
use crate::instance::{Broken, Instance};
use crate::outcome::{self, Fault, FaultKind};
use crate::output::Output;
use crate::plugin::Plugin;
use crate::saved::{self, Saved, State};
use crate::starting::{self, StartReason};

/// What instances are made of.
pub(super) struct Setup {
    pub(super) plugin: Plugin,
    pub(super) context: Context,
    pub(super) cache: Arc<dyn CacheReader>,
    pub(super) output: Arc<Output>,
}

/// There is no instance for a call.
pub(super) struct Unready {
    /// What that is for an event.
    pub(super) outcome: Outcome,
    /// What the next attempt begins with.
    pub(super) next: Next,
}

/// Why an instance does not begin.
pub(super) enum NotBegun {
    /// It said so.
    Refused(String),
    Fault(Fault),
}

impl Setup {
    /// The instance for a call that is no `restore`: the one that there is, or a fresh one on the call's budget.
    pub(super) async fn ready(&self, seat: Seat) -> Result<Instance, Unready> {
        let mut instance = match seat {
            Seat::Taken(instance) => instance,
            Seat::Empty(next) => self.make(next).await?,
        };
        instance.sees(&self.cache);
        Ok(instance)
    }

    /// A fresh instance, on the budget of the call that it is for.
    pub(super) async fn make(&self, next: Next) -> Result<Instance, Unready> {
        let reason = next.reason;
        let instance = match self.begin(reason).await {
            Ok(instance) => instance,
            Err(not_begun) => return Err(self.unready(not_begun, next)),
        };
        let Some(Saved::State(state)) = next.left else { return Ok(instance) };
        let why = match self.restore(instance, &state).await {
            Ok(instance) => return Ok(instance),
            Err(why) => why,
        };
        let line = format!("what its recycled instance held in memory is lost, and it starts afresh: {why}");
        self.output.host_line(LogLevel::Warn, &line);
        let next = Next { reason, left: None };
        self.begin(reason).await.map_err(|not_begun| self.unready(not_begun, next))
    }

    /// Makes an instance and tells it why it begins.
    pub(super) async fn begin(&self, reason: StartReason) -> Result<Instance, NotBegun> {
        let sees = reason.is_within_a_version() || !self.plugin.has_lifecycle();
        let cache = sees.then(|| Arc::clone(&self.cache));
        match starting::begin(&self.plugin, &self.context, &self.output, cache, reason).await {
            Ok(begun) => begun.map_err(NotBegun::Refused),
            Err(broken) => Err(NotBegun::Fault(self.examine(broken))),
        }
    }

    /// Gives it what another instance saved.
    ///
    /// # Errors
    /// Why it cannot go on from there, for people; it is gone.
    pub(super) async fn restore(&self, instance: Instance, state: &State) -> Result<Instance, String> {
        match instance.restore(state.saved()).await {
            Ok((instance, Ok(()))) => Ok(instance),
            Ok((_, Err(message))) => Err(format!("it refuses to restore: {}", outcome::message(&message))),
            Err(broken) => Err(self.lost(broken)),
        }
    }

    /// Asks it what the next one is to be given; the instance again, unless it broke.
    ///
    /// # Errors
    /// Why it says nothing, for people.
    pub(super) async fn save(&self, instance: Instance) -> (Option<Instance>, Result<Saved, String>) {
        let limits = &self.context.limits;
        match instance.save(limits.state).await {
            Ok((instance, Ok(Some(state)))) if saved::size(&state) > limits.state => {
                self.context.usage.hit(Cap::State);
                (Some(instance), Err(format!("in save: {}", outcome::state_cause(limits))))
            }
            Ok((instance, Ok(state))) => (Some(instance), Ok(Saved::new(state))),
            Ok((instance, Err(message))) => {
                (Some(instance), Err(format!("it refuses to save: {}", outcome::message(&message))))
            }
            Err(broken) => (None, Err(self.lost(broken))),
        }
    }

    /// Tells it that it ends.
    pub(super) async fn stop(&self, instance: Instance, why: StopReason) {
        if let Err(broken) = instance.stop(why).await {
            self.context.is_stopped_by(broken, &self.output);
        }
    }

    pub(super) fn examine(&self, broken: Broken) -> Fault {
        self.context.examine(broken)
    }

    /// Counts that an instance is lost; whoever is given the outcome says so.
    pub(super) fn thrown_away(&self, fault: Fault) -> Outcome {
        let usage = &self.context.usage;
        match fault.restart() {
            Some(reason) => usage.restart(reason),
            None => usage.starve(),
        }
        fault.cap.into_iter().for_each(|cap| usage.hit(cap));
        fault.into()
    }

    /// Counts that an instance is lost outside of an event: why, for people.
    pub(super) fn lost(&self, broken: Broken) -> String {
        let fault = self.examine(broken);
        let message = fault.message.clone();
        self.thrown_away(fault);
        message
    }

    /// There is no instance: what that is for an event, and what the next attempt begins with.
    pub(super) fn unready(&self, not_begun: NotBegun, next: Next) -> Unready {
        match not_begun {
            NotBegun::Refused(message) => {
                let message = format!("it refuses to start: {message}");
                Unready { outcome: Outcome::Retry { message, after: None }, next }
            }
            NotBegun::Fault(fault) => {
                // Nothing of the plugin's has run where the host lacked memory: what was left still waits.
                let next = if fault.kind == FaultKind::Starved { next } else { Next::after_a_fault() };
                Unready { outcome: self.thrown_away(fault), next }
            }
        }
    }
}
