//! What a plugin runs with: settings, limits, and where its words, its use and its remains go.
//!
//! Made by the host from its configuration, once per version of a plugin; used by every instance of it.

use std::sync::Arc;

use crate::core_dump::CoreDumps;
use crate::guest_log::GuestLog;
use crate::limits::Limits;
use crate::settings::Settings;
use crate::usage::Usage;

/// What the instances of one plugin run with. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The operator's settings for the plugin.
    pub settings: Arc<Settings>,
    /// What each call may use.
    pub limits: Limits,
    /// Receives what the plugin says.
    pub log: Arc<dyn GuestLog>,
    /// Counts what the plugin uses, over all its versions.
    pub usage: Arc<Usage>,
    /// Receives what remains of an instance that trapped. None: nothing is kept. It gets something only if the engine
    /// was told to keep core dumps.
    pub core_dumps: Option<Arc<dyn CoreDumps>>,
}
