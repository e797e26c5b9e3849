//! The trait that a plugin implements. Called by the adapter inside Wasm and by [`testing`](crate::testing)
//! natively. Invariant: the host calls one function at a time and never re-enters, hence `&mut self`.

use crate::{Added, Deleted, Description, Failure, Outcome, Updated};

/// What [`Plugin::describe`] returns. Any error will do: `?` on anything, or `Err("why".into())`.
pub type Described = Result<Description, Box<dyn std::error::Error>>;

/// A plugin: what it wants to be told, and what it does then. Hand the type to [`export!`](crate::export).
///
/// The value is made by [`start`](Plugin::start) before the first event, and lives until the host drops the
/// instance: at a reload, or after a trap or a missed deadline. So what it remembers is a cache, never the
/// truth. A plugin that is to keep it over a reload implements [`Stateful`](crate::Stateful) too.
///
/// Handlers that are not written answer `Ok(())`.
pub trait Plugin: Sized + 'static {
    /// Says what the plugin is and what it wants.
    ///
    /// Called once for each version of the file or of its settings, in an instance of its own. An error
    /// refuses the version, and the one before stays: the place to check [`settings`](crate::settings).
    fn describe() -> Described;

    /// Makes the value that the handlers work on. After an error, the event that asked for it fails with it,
    /// and the next one tries again.
    fn start() -> Result<Self, Failure>;

    /// An object that was not there is there now.
    fn on_add(&mut self, event: Added) -> Outcome {
        let _ = event;
        Ok(())
    }

    /// An object changed.
    fn on_update(&mut self, event: Updated) -> Outcome {
        let _ = event;
        Ok(())
    }

    /// An object is gone.
    fn on_delete(&mut self, event: Deleted) -> Outcome {
        let _ = event;
        Ok(())
    }
}
