//! What else is known of the event being handled. Used by plugin authors. Meaningful inside `on_add`,
//! `on_update` and `on_delete`; elsewhere every function answers 0 (or the epoch).

use std::time::{Duration, SystemTime};

use crate::host;

/// Number of the event: rising with arrival at the host, the same over retries, not kept over a restart of
/// the host.
pub fn sequence() -> u64 {
    host::sequence()
}

/// 1 for the first attempt at this event, 2 for the second, and so on.
pub fn attempt() -> u32 {
    host::attempt()
}

/// When the event arrived at the host.
pub fn arrived() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(host::arrived_ms())
}
