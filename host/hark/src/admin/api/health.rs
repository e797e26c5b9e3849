//! How a plugin's handlers fare, as `/api/plugins` says it.
//!
//! Used by the documents of the admin port. Invariant: times are those of the moment at which the document is made.

use std::time::{Duration, SystemTime};

use hark_informer::listener::Health;
use serde::Serialize;

use crate::timestamp::timestamp;

/// `health` of a plugin that runs.
#[derive(Serialize)]
pub(super) struct HealthDocument<'a> {
    /// `healthy`, `failing`, `quarantined` or `probing`.
    state: &'static str,
    /// When that began; a quarantine goes on over probes that fail.
    since: String,
    /// In quarantine, when an event is tried next.
    until: Option<String>,
    /// The last event that broke it, and how. Null if healthy.
    cause: Option<&'a str>,
    quarantines: u64,
}

impl<'a> HealthDocument<'a> {
    pub(super) fn of(health: &'a Health) -> Self {
        let now = SystemTime::now();
        Self {
            state: health.state.as_str(),
            since: timestamp(before(now, health.lasts)),
            until: health.until.map(|wait| timestamp(now + wait)),
            cause: health.cause.as_deref(),
            quarantines: health.quarantines,
        }
    }
}

/// A clock that was set back may know no such time.
fn before(now: SystemTime, lasts: Duration) -> SystemTime {
    now.checked_sub(lasts).unwrap_or(SystemTime::UNIX_EPOCH)
}
