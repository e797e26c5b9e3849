//! Between the generated bindings and a [`Stateful`] plugin. Reached through
//! [`export_stateful!`](crate::export_stateful) only. Invariant: the value is made by `start`, which the host calls first.

use super::{Exported, Slot};
use crate::lifecycle_bindings::exports::hark::plugin::lifecycle as wit;
use crate::{SavedState, StartReason, Stateful, StopReason};

/// The type that `export_stateful!` makes in the author's crate: finds the slot of its value.
pub trait ExportedStateful: Exported<Plugin: Stateful> {
    /// Does something with the slot.
    fn slot<R>(work: impl FnOnce(&Slot<Self::Plugin>) -> R) -> R;
}

/// There is no value: `start` failed, and the host goes on all the same.
const NOT_STARTED: &str = "it was not started";

impl<E: ExportedStateful> wit::Guest for E {
    fn start(reason: wit::StartReason) -> Result<(), String> {
        crate::log::catch_panics();
        let plugin = E::Plugin::begin(reason.into()).map_err(|failure| failure.to_string())?;
        E::slot(|slot| slot.put(plugin));
        Ok(())
    }

    fn stop(reason: wit::StopReason) {
        E::slot(|slot| slot.ask(|plugin| plugin.stop(reason.into())));
    }

    fn save() -> Result<Option<wit::SavedState>, String> {
        let saved = E::slot(|slot| slot.ask(Stateful::save)).ok_or(NOT_STARTED)?;
        Ok(saved.map_err(|error| error.to_string())?.map(Into::into))
    }

    fn restore(state: wit::SavedState) -> Result<(), String> {
        let restored = E::slot(|slot| slot.ask(|plugin| plugin.restore(state.into()))).ok_or(NOT_STARTED)?;
        restored.map_err(|error| error.to_string())
    }

    fn synced(subscription: u32) {
        E::slot(|slot| slot.ask(|plugin| plugin.synced(subscription)));
    }
}

impl From<wit::SavedState> for SavedState {
    fn from(state: wit::SavedState) -> Self {
        Self { format: state.format, data: state.data }
    }
}

impl From<SavedState> for wit::SavedState {
    fn from(state: SavedState) -> Self {
        Self { format: state.format, data: state.data }
    }
}

impl From<wit::StartReason> for StartReason {
    fn from(reason: wit::StartReason) -> Self {
        match reason {
            wit::StartReason::First => Self::First,
            wit::StartReason::Reload => Self::Reload,
            wit::StartReason::Settings => Self::Settings,
            wit::StartReason::Restart => Self::Restart,
            wit::StartReason::Recycle => Self::Recycle,
            wit::StartReason::Rollback => Self::Rollback,
            wit::StartReason::Other => Self::Other,
        }
    }
}

impl From<wit::StopReason> for StopReason {
    fn from(reason: wit::StopReason) -> Self {
        match reason {
            wit::StopReason::Reload => Self::Reload,
            wit::StopReason::Recycle => Self::Recycle,
            wit::StopReason::Removed => Self::Removed,
            wit::StopReason::Shutdown => Self::Shutdown,
            wit::StopReason::Unused => Self::Unused,
            wit::StopReason::Other => Self::Other,
        }
    }
}
