//! The end of all plugins, when the host stops (design 4.14).
//!
//! Used by the manager, as its last deed. Invariant: it takes no longer than [`DRAIN_BUDGET`], and what is left undone then
//! is said.

use std::time::Duration;

use hark_informer::factory::Factory;
use hark_informer::listener::{Aside, ListenerStats};
use hark_sandbox::LogLevel;
use tokio::time::Instant;

use super::running::Running;
use super::starting::Unused;
use crate::output::Output;

/// How long plugins may go on handling what is queued after a signal.
const DRAIN_BUDGET: Duration = Duration::from_secs(10);

/// Stops the watches, lets every plugin finish what is queued, and waits for those that are `leaving` already and for
/// instances that never came into use, all within [`DRAIN_BUDGET`].
pub(crate) async fn stop_all(
    plugins: Vec<Running>,
    leaving: Vec<Running>,
    unused: &Unused,
    factory: &Factory,
    output: &Output,
) {
    let deadline = Instant::now() + DRAIN_BUDGET;
    // First, so that nothing new comes in. Its tasks end by themselves should this take too long.
    let _ = tokio::time::timeout_at(deadline, factory.shutdown()).await;
    for plugin in &plugins {
        plugin.drain();
    }
    for plugin in plugins.into_iter().chain(leaving) {
        let (name, listener) = (plugin.name.clone(), plugin.listener().clone());
        match tokio::time::timeout_at(deadline, plugin.ended()).await {
            Ok(Some(abandoned)) if abandoned > 0 => {
                output.news(&name, LogLevel::Warn, &abandons(abandoned));
            }
            Ok(_) => {}
            Err(_) => output.news(&name, LogLevel::Warn, &did_not_finish(&listener.stats())),
        }
    }
    if tokio::time::timeout_at(deadline, unused.all_told()).await.is_err() {
        let budget = DRAIN_BUDGET.as_secs();
        tracing::warn!("instances that never came into use have not stopped within {budget} s");
    }
}

/// What a plugin did not handle although it had the time.
fn abandons(events: usize) -> String {
    let (events, they) = match events {
        1 => ("1 event".into(), "it"),
        _ => (format!("{events} events"), "they"),
    };
    format!("stopped with {events} not handled: {they} waited for a retry, or for the end of quarantine")
}

/// What a plugin leaves: its events, the one in hand included, or what it is asked to do.
fn did_not_finish(stats: &ListenerStats) -> String {
    let budget = DRAIN_BUDGET.as_secs();
    let left = stats.pending;
    let doing = match stats.aside {
        Some(Aside::Stop) => "its stop is not over",
        Some(Aside::HandOver) => "a new version was taking over",
        Some(Aside::Synced) => "it was being told that a subscription has synced",
        None if left == 1 => "1 event is left, the one in hand included",
        None => {
            return format!(
                "did not finish within {budget} s: {left} events are left, the one in hand included"
            );
        }
    };
    format!("did not finish within {budget} s: {doing}")
}
