//! What a plugin with `lifecycle` is asked between two events, or after the last one.
//!
//! Called by the listener through `EventHandler`, and after an event by `handler` itself for an instance that is due.
//! Invariants: each call has a budget of its own, as an event has; a plugin without `lifecycle` is asked nothing; what
//! goes wrong is either the answer or a line in the log, and never both.

use hark_informer::handler::{Legacy, Stop};

use super::setup::Unready;
use super::{Next, PluginHandler, Seat};
use crate::bindings::stateful::exports::hark::plugin::lifecycle::StopReason;
use crate::guest_log::LogLevel;
use crate::instance::Instance;
use crate::saved::{Saved, State};
use crate::starting::StartReason;

/// There is no instance that could be asked to save.
const LOST: &str = "its last instance is gone, and what that held in memory is lost";

/// A version takes the place of one that left nothing.
const NOTHING_LEFT: &str = "the version before it left nothing to go on from";

impl PluginHandler {
    /// What this version leaves to the next one.
    pub(super) async fn leave(&mut self) -> Result<Option<Legacy>, String> {
        if !self.setup.plugin.has_lifecycle() {
            return Ok(None);
        }
        let saved = match self.begin(None) {
            // What a recycled instance left waits for an event that has not come.
            Seat::Empty(next) => {
                let left = next.left.clone();
                self.seat = Seat::Empty(next);
                left.ok_or_else(|| LOST.to_owned())
            }
            Seat::Taken(mut instance) => {
                instance.sees(&self.setup.cache);
                let (instance, saved) = self.setup.save(instance).await;
                if let Some(instance) = instance {
                    self.seat = Seat::taken(instance);
                }
                saved
            }
        };
        self.setup.output.end();
        saved.map(|saved| Some(saved.into_legacy()))
    }

    /// Goes on from what the version before left. Whatever comes of it, the next event finds an instance in order.
    pub(super) async fn inherit(&mut self, legacy: Option<Legacy>) -> Result<(), String> {
        if !self.setup.plugin.has_lifecycle() {
            return Ok(());
        }
        let seat = self.begin(None);
        let answer = match legacy.as_ref().and_then(Saved::of) {
            Some(Saved::State(state)) => self.restore(seat, state).await,
            Some(Saved::Nothing) => {
                self.seat = seat;
                Ok(())
            }
            None => self.start_anew(seat).await,
        };
        self.setup.output.end();
        answer
    }

    async fn restore(&mut self, seat: Seat, state: &State) -> Result<(), String> {
        let instance = match seat {
            Seat::Taken(instance) => instance,
            Seat::Empty(_) => self.begin_again().await?,
        };
        match self.setup.restore(instance, state).await {
            Ok(instance) => {
                self.seat = Seat::taken(instance);
                Ok(())
            }
            Err(why) => Err(match self.begin_again().await {
                Ok(instance) => {
                    self.seat = Seat::taken(instance);
                    why
                }
                Err(more) => format!("{why}; then, as it started afresh: {more}"),
            }),
        }
    }

    /// There is nothing to go on from, which it is told by what is said; what it was given before, it forgets.
    async fn start_anew(&mut self, seat: Seat) -> Result<(), String> {
        self.seat = match seat {
            Seat::Taken(instance) if instance.is_restored() => {
                drop(instance);
                Seat::taken(self.begin_again().await?)
            }
            seat => seat,
        };
        Err(NOTHING_LEFT.to_owned())
    }

    /// An instance that begins for the version's own reason.
    ///
    /// # Errors
    /// Why it does not, for people: the next event begins one as after a trap.
    async fn begin_again(&mut self) -> Result<Instance, String> {
        match self.setup.begin(self.reason).await {
            Ok(instance) => Ok(instance),
            Err(not_begun) => {
                let Unready { outcome, .. } = self.setup.unready(not_begun, Next::after_a_fault());
                self.seat = Seat::Empty(Next::after_a_fault());
                Err(outcome.message().unwrap_or_default().to_owned())
            }
        }
    }

    /// Every initial add of a subscription has been handled.
    pub(super) async fn tell_synced(&mut self, subscription: u32) {
        if !self.setup.plugin.has_lifecycle() {
            return;
        }
        let seat = self.begin(None);
        let told = match self.setup.ready(seat).await {
            Ok(instance) => instance.synced(subscription).await.map_err(|broken| self.setup.lost(broken)),
            Err(Unready { outcome, next }) => {
                self.seat = Seat::Empty(next);
                Err(outcome.message().unwrap_or_default().to_owned())
            }
        };
        match told {
            Ok(instance) => self.seat = Seat::taken(instance),
            Err(why) => {
                let line = format!("it was not told that subscription {subscription} is synced: {why}");
                self.setup.output.host_line(LogLevel::Warn, &line);
            }
        }
        self.setup.output.end();
    }

    /// It gets no more events.
    pub(super) async fn end(&mut self, why: Stop) {
        if !self.setup.plugin.has_lifecycle() {
            return;
        }
        // One that broke is told nothing, and none is made to be told.
        if let Seat::Taken(mut instance) = self.begin(None) {
            instance.sees(&self.setup.cache);
            self.setup.stop(instance, reason(why)).await;
        }
        self.setup.output.end();
    }

    /// Replaces an instance that is due: what it saves is for the one that the next event begins.
    pub(super) async fn retire(&mut self) {
        self.is_due = false;
        let seat = std::mem::replace(&mut self.seat, Seat::Empty(Next::after_a_fault()));
        let mut next = Next { reason: StartReason::Recycle, left: None };
        if let (Seat::Taken(instance), true) = (seat, self.setup.plugin.has_lifecycle()) {
            self.begin(None);
            let (instance, saved) = self.setup.save(instance).await;
            match saved {
                Ok(saved) => next.left = Some(saved),
                Err(why) => {
                    let line = format!("what its recycled instance held in memory is lost: {why}");
                    self.setup.output.host_line(LogLevel::Warn, &line);
                }
            }
            if let Some(instance) = instance {
                self.setup.stop(instance.rests(), StopReason::Recycle).await;
            }
            self.setup.output.end();
        }
        self.seat = Seat::Empty(next);
    }
}

fn reason(why: Stop) -> StopReason {
    match why {
        Stop::Replaced => StopReason::Reload,
        Stop::Closed => StopReason::Removed,
        Stop::Drained => StopReason::Shutdown,
        Stop::Unused => StopReason::Unused,
    }
}
