//! Playing the host's part between two events: what a [`Stateful`] plugin is asked at a reload, when it is synced, and
//! at its end. Part of [`testing`](crate::testing). Invariant: as in the real host, the cache is not filled while a new
//! version starts and restores, and there is no delivery in any of these calls.

use serde_json::Value;

use super::Host;
use crate::{SavedState, StartReason, Stateful, StopReason};

impl<P: Stateful> Host<P> {
    /// A host for a plugin that is exported by [`export_stateful!`](crate::export_stateful), with this table of settings:
    /// its value is made by [`Stateful::begin`], the first one by the first call that needs it.
    ///
    /// # Panics
    /// If `settings` is not a JSON object.
    pub fn stateful(settings: Value) -> Self {
        Self { begin: Some(P::begin), ..Self::with_settings(settings) }
    }

    /// Starts an instance, in place of the one there is, as a new version or a fresh instance is started.
    ///
    /// # Errors
    /// The plugin's own; then it stays as it was.
    pub fn start(&mut self, reason: StartReason) -> Result<(), String> {
        let within_a_version = matches!(reason, StartReason::Restart | StartReason::Recycle);
        let begun = self.aside(within_a_version, |_| P::begin(reason));
        self.plugin = Some(begun.map_err(|failure| failure.to_string())?);
        Ok(())
    }

    /// Asks what the next instance is to be given.
    ///
    /// # Errors
    /// The plugin's own, or that of its start.
    pub fn save(&mut self) -> Result<Option<SavedState>, String> {
        self.ready()?;
        let saved = self.aside(true, |plugin| plugin.as_mut().map(Stateful::save));
        saved.unwrap_or(Ok(None)).map_err(|error| error.to_string())
    }

    /// Gives the plugin what another instance saved, or what a test says that one did.
    ///
    /// # Errors
    /// The plugin's own, or that of its start.
    pub fn restore(&mut self, saved: SavedState) -> Result<(), String> {
        self.ready()?;
        let restored = self.aside(false, |plugin| plugin.as_mut().map(|plugin| plugin.restore(saved)));
        restored.unwrap_or(Ok(())).map_err(|error| error.to_string())
    }

    /// Every initial add of a subscription has been handled.
    pub fn synced(&mut self, subscription: u32) {
        self.aside(true, |plugin| plugin.iter_mut().for_each(|plugin| plugin.synced(subscription)));
    }

    /// Ends the instance, which it is told; the next event begins another.
    pub fn stop(&mut self, reason: StopReason) {
        self.aside(true, |plugin| plugin.iter_mut().for_each(|plugin| plugin.stop(reason)));
        self.plugin = None;
    }

    /// Lets a new version of the plugin take over from itself, as the real host does it: the new one starts, the old one
    /// saves, the new one restores, the old one stops.
    ///
    /// # Errors
    /// Why what was held in memory is lost: the new version begins afresh then, and the real host tells it of every
    /// object again (see [`add_initial`](Host::add_initial)). If it does not even start, the old one stays.
    pub fn reload(&mut self) -> Result<(), String> {
        self.ready()?;
        let old = self.plugin.take();
        if let Err(why) = self.start(StartReason::Reload) {
            self.plugin = old;
            return Err(why);
        }
        let new = std::mem::replace(&mut self.plugin, old);
        let saved = self.save();
        let old = std::mem::replace(&mut self.plugin, new);
        let handed_over = match saved {
            Ok(Some(saved)) => self.restore(saved),
            Ok(None) => Ok(()),
            Err(why) => Err(why),
        };
        if handed_over.is_err() {
            self.start(StartReason::Reload)?;
        }
        let new = std::mem::replace(&mut self.plugin, old);
        self.stop(StopReason::Reload);
        self.plugin = new;
        handed_over
    }

    /// There is a value from now on.
    fn ready(&mut self) -> Result<(), String> {
        if self.plugin.is_some() { Ok(()) } else { self.start(StartReason::First) }
    }
}
