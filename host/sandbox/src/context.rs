//! What a plugin runs with: settings, limits, and where its words go.
//!
//! Made by the host from its configuration, once per version of a plugin; used by every instance of it.

use std::sync::Arc;

use crate::guest_log::GuestLog;
use crate::limits::Limits;
use crate::settings::Settings;

/// What the instances of one plugin run with. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The operator's settings for the plugin.
    pub settings: Arc<Settings>,
    /// What each call may use.
    pub limits: Limits,
    /// Receives what the plugin says.
    pub log: Arc<dyn GuestLog>,
}
