//! What the suites share: a real or an embedded API server, the built `hark` binary as a user runs it, the
//! trace that it writes, and the guests that misbehave.
//!
//! Used by the files of `tests/`. Invariants: everything listens on loopback and ends with its owner; nothing
//! waits for a time to pass, only for a condition, within a limit.

pub mod asking;
pub mod cluster;
pub mod differential;
mod go_binary;
pub mod guests;
pub mod hark;
pub mod hostile;
pub mod http;
pub mod large;
pub mod latency;
pub mod ledger;
pub mod long;
pub mod measure;
pub mod prometheus;
pub mod proxy;
pub mod realserver;
pub mod reload;
pub mod reloads;
pub mod stream;
pub mod tail;
pub mod trace;
pub mod ways;

use std::time::{Duration, Instant};

/// The longest that anything may take before a test gives up: generous, since the machine may be busy.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Asks again and again until there is an answer.
///
/// # Panics
/// After [`LIMIT`], with `what` was waited for and what `state` says then.
pub async fn eventually<T>(
    what: &str,
    state: impl Fn() -> String,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begun.elapsed() < LIMIT, "waited in vain for {what}\n{}", state());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
