//! The calls of the optional export `lifecycle`.
//!
//! Part of `instance`; called for plugins that have the export. Invariants: as for every call, an instance that gave no
//! answer is not given back; none of these calls is an event, so `delivery` answers 0 in them.

use std::sync::Arc;

use super::{Broken, Instance};
use crate::bindings::stateful::exports::hark::plugin::lifecycle::{
    self, SavedState, StartReason, StopReason,
};
use crate::entry::Entry;

/// The instance again, and what it said.
type Answered<T> = Result<(Instance, Result<T, String>), Broken>;

impl Instance {
    /// Tells a fresh instance why it begins.
    pub(crate) async fn start(mut self, why: StartReason) -> Answered<()> {
        let Some(lifecycle) = self.prepare_aside() else { return Ok((self, Ok(()))) };
        let call = lifecycle.call_start(&mut self.0.store, why);
        let answer = self.0.deadline.watch(call).await;
        self.answered(answer, Entry::Start)
    }

    /// Gives it what an instance before it saved.
    pub(crate) async fn restore(mut self, state: &SavedState) -> Answered<()> {
        let Some(lifecycle) = self.prepare_aside() else { return Ok((self, Ok(()))) };
        self.0.restored = true;
        let call = lifecycle.call_restore(&mut self.0.store, state);
        let answer = self.0.deadline.watch(call).await;
        self.answered(answer, Entry::Restore)
    }

    /// Asks what the next instance is to be given, of `most` bytes at most that it hands over.
    pub(crate) async fn save(mut self, most: usize) -> Answered<Option<SavedState>> {
        let Some(lifecycle) = self.prepare_aside() else { return Ok((self, Ok(None))) };
        let usual = self.0.store.hostcall_fuel();
        // What it hands to host functions meanwhile is bounded as ever.
        self.0.store.set_hostcall_fuel(most.max(usual));
        let call = lifecycle.call_save(&mut self.0.store);
        let answer = self.0.deadline.watch(call).await;
        self.0.store.set_hostcall_fuel(usual);
        self.answered(answer, Entry::Save)
    }

    /// Tells it that every object of a subscription has been handled.
    pub(crate) async fn synced(mut self, subscription: u32) -> Result<Self, Broken> {
        let Some(lifecycle) = self.prepare_aside() else { return Ok(self) };
        let call = lifecycle.call_synced(&mut self.0.store, subscription);
        let answer = self.0.deadline.watch(call).await;
        self.answered(answer.map(Ok), Entry::Synced).map(|(instance, _)| instance)
    }

    /// Tells it that it ends, which it does.
    pub(crate) async fn stop(mut self, why: StopReason) -> Result<(), Broken> {
        let Some(lifecycle) = self.prepare_aside() else { return Ok(()) };
        let call = lifecycle.call_stop(&mut self.0.store, why);
        let answer = self.0.deadline.watch(call).await;
        self.answered(answer.map(Ok), Entry::Stop).map(|_| ())
    }

    /// Whether it was given what an instance before it saved.
    pub(crate) fn is_restored(&self) -> bool {
        self.0.restored
    }

    /// The export, for a call that is no event.
    fn prepare_aside(&mut self) -> Option<Arc<lifecycle::Guest>> {
        let lifecycle = Arc::clone(self.0.guest.lifecycle.as_ref()?);
        self.prepare(None);
        Some(lifecycle)
    }

    fn answered<T>(self, answer: wasmtime::Result<Result<T, String>>, entry: Entry) -> Answered<T> {
        match answer {
            Ok(answer) => Ok((self, answer)),
            Err(error) => Err(self.broken(error, entry)),
        }
    }
}
