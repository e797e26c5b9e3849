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
        let call = lifecycle.call_start(&mut self.store, why);
        let answer = self.deadline.watch(call).await;
        self.answered(answer, Entry::Start)
    }

    /// Gives it what an instance before it saved.
    pub(crate) async fn restore(mut self, state: &SavedState) -> Answered<()> {
        let Some(lifecycle) = self.prepare_aside() else { return Ok((self, Ok(()))) };
        self.restored = true;
        let call = lifecycle.call_restore(&mut self.store, state);
        let answer = self.deadline.watch(call).await;
        self.answered(answer, Entry::Restore)
    }

    /// Asks what the next instance is to be given, of `most` bytes at most that it hands over.
    pub(crate) async fn save(mut self, most: usize) -> Answered<Option<SavedState>> {
        let Some(lifecycle) = self.prepare_aside() else { return Ok((self, Ok(None))) };
        let usual = self.store.hostcall_fuel();
        // What it hands to host functions meanwhile is bounded as ever.
        self.store.set_hostcall_fuel(most.max(usual));
        let call = lifecycle.call_save(&mut self.store);
        let answer = self.deadline.watch(call).await;
        self.store.set_hostcall_fuel(usual);
        self.answered(answer, Entry::Save)
    }

    /// Tells it that every object of a subscription has been handled.
    pub(crate) async fn synced(mut self, subscription: u32) -> Result<Self, Broken> {
        let Some(lifecycle) = self.prepare_aside() else { return Ok(self) };
        let call = lifecycle.call_synced(&mut self.store, subscription);
        let answer = self.deadline.watch(call).await;
        self.answered(answer.map(Ok), Entry::Synced).map(|(instance, _)| instance)
    }

    /// Tells it that it ends, which it does.
    pub(crate) async fn stop(mut self, why: StopReason) -> Result<(), Broken> {
        let Some(lifecycle) = self.prepare_aside() else { return Ok(()) };
        let call = lifecycle.call_stop(&mut self.store, why);
        let answer = self.deadline.watch(call).await;
        self.answered(answer.map(Ok), Entry::Stop).map(|_| ())
    }

    /// Whether it was given what an instance before it saved.
    pub(crate) fn is_restored(&self) -> bool {
        self.restored
    }

    /// The export, for a call that is no event.
    fn prepare_aside(&mut self) -> Option<Arc<lifecycle::Guest>> {
        let lifecycle = Arc::clone(self.guest.lifecycle.as_ref()?);
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
