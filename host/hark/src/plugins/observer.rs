//! What is made of what a running plugin's listener reports: lines for people, and dead letters.
//!
//! Owned by a running plugin, used by its handlers and its listener, on its threads. Invariant: a letter names the
//! version whose event it was: another one is at work only once the listener says that it has taken over, and versions
//! change only while no delivery is under way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hark_informer::handler::{Delivery, Outcome};
use hark_informer::listener::{HealthChange, Observer, Oversized, TrialVerdict};
use hark_sandbox::LogLevel;
use tokio::sync::oneshot;

use crate::dead_letters::{DeadLetters, Letter, Worker};
use crate::output::{FaultLines, Output};

/// See the file's head.
pub(crate) struct PluginObserver {
    plugin: String,
    kept: DeadLetters,
    output: Arc<Output>,
    /// Which of its failures have a line in the log.
    pub(super) faults: FaultLines,
    versions: Mutex<Versions>,
}

struct Versions {
    at_work: AtWork,
    /// What takes over with the swap under way, if there is one.
    next: Option<AtWork>,
    /// The generation that passed its trial last; 0: none did.
    passed: u64,
}

/// A version, and who waits for the verdict if it is on trial.
pub(crate) struct AtWork {
    pub(crate) worker: Arc<Worker>,
    pub(crate) verdict: Option<oneshot::Sender<TrialVerdict>>,
}

impl PluginObserver {
    /// For a plugin whose first version is `first`.
    pub(crate) fn new(first: AtWork, kept: DeadLetters, output: Arc<Output>) -> Arc<Self> {
        let plugin = first.worker.plugin.clone();
        let versions = Mutex::new(Versions { at_work: first, next: None, passed: 0 });
        Arc::new(Self { plugin, kept, output, faults: FaultLines::default(), versions })
    }

    /// Another version is about to take over.
    pub(crate) fn expect(&self, next: AtWork) {
        self.versions().next = Some(next);
    }

    /// Whether a generation has passed its trial, unless a later one has.
    pub(crate) fn has_passed(&self, generation: u64) -> bool {
        self.versions().passed == generation
    }

    /// An attempt is over.
    pub(crate) fn attempted(&self, worker: &Worker, delivery: &Delivery, outcome: &Outcome) {
        if !matches!(outcome, Outcome::Ok | Outcome::Permanent(_)) {
            return;
        }
        let number = usize::try_from(delivery.subscription).unwrap_or(usize::MAX);
        if let Some(subscription) = worker.description.subscriptions.get(number) {
            self.kept.handled(&self.plugin, &subscription.name, delivery);
        }
    }

    fn versions(&self) -> MutexGuard<'_, Versions> {
        // A panic elsewhere leaves nothing half-written here.
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at_work(&self) -> Arc<Worker> {
        self.versions().at_work.worker.clone()
    }
}

impl Observer for PluginObserver {
    fn given_up(&self, delivery: &Delivery, outcome: &Outcome) {
        let (op, key, attempts) = (delivery.event.op(), delivery.event.key(), delivery.attempt);
        let why = outcome.message().unwrap_or_default();
        let message = format!("{op} {key} is given up (attempt {attempts} at this state): {why}");
        self.output.news(&self.plugin, LogLevel::Error, &message);
        self.kept.keep(Letter::new(&self.at_work(), delivery, outcome), delivery);
    }

    fn health(&self, change: &HealthChange) {
        match described(change) {
            Some((level, message)) => self.output.news(&self.plugin, level, &message),
            None => tracing::debug!("{}: {change:?}", self.plugin),
        }
    }

    fn oversized(&self, oversized: &Oversized) {
        let key = oversized.delivery.event.key();
        let message = too_large(oversized);
        let line = format!("{} {key} is not handed over: {message}", oversized.subscription);
        self.output.news(&self.plugin, LogLevel::Warn, &line);
        let letter = Letter::oversized(&self.at_work(), &oversized.delivery, &message);
        self.kept.keep(letter, &oversized.delivery);
    }

    fn trial(&self, verdict: &TrialVerdict) {
        let mut versions = self.versions();
        if *verdict == TrialVerdict::Passed {
            versions.passed = versions.at_work.worker.generation;
        }
        let waits = versions.at_work.verdict.take();
        drop(versions);
        if let Some(waits) = waits {
            // The manager is gone only when the host stops.
            let _ = waits.send(verdict.clone());
        }
    }

    fn swapped(&self) {
        let mut versions = self.versions();
        if let Some(next) = versions.next.take() {
            versions.at_work = next;
        }
    }
}

/// The line about a transition. Those from healthy to failing and back have none above debug: the fault has its own, and
/// a plugin may fail every other time.
fn described(change: &HealthChange) -> Option<(LogLevel, String)> {
    use hark_informer::listener::HealthState::{Failing, Healthy};
    let change = match change {
        HealthChange::Quarantined { wait, events, cause } => {
            let wait = seconds(*wait);
            let message = format!(
                "quarantined for {wait}: {events} different events broke it, and none was handled between them; \
                 events wait and are merged; the last one: {cause}"
            );
            (LogLevel::Error, message)
        }
        HealthChange::Probing { event } => (LogLevel::Info, format!("quarantine: trying {event}")),
        HealthChange::ProbeFailed { wait, cause } => {
            (LogLevel::Warn, format!("quarantined for another {}: {cause}", seconds(*wait)))
        }
        HealthChange::Failing { .. } => return None,
        HealthChange::Recovered { from: Failing | Healthy, .. } => return None,
        HealthChange::Replaced { from: Failing | Healthy, .. } => return None,
        HealthChange::Recovered { lasted, .. } => {
            (LogLevel::Info, format!("recovered: quarantine ends after {}", seconds(*lasted)))
        }
        HealthChange::Replaced { lasted, .. } => {
            let lasted = seconds(*lasted);
            (LogLevel::Info, format!("quarantine ends after {lasted}: another version begins afresh"))
        }
    };
    Some(change)
}

fn too_large(oversized: &Oversized) -> String {
    let Oversized { bytes, limit, .. } = oversized;
    format!(
        "the object has {bytes} bytes, more than the {limit} that the plugin may be handed (limits.object)"
    )
}

fn seconds(duration: Duration) -> String {
    format!("{:.1}s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use hark_informer::listener::HealthState;

    use super::*;

    #[test]
    fn quarantine_is_news_and_a_single_fault_is_not() {
        let (wait, lasted) = (Duration::from_millis(2140), Duration::from_secs(63));
        let cause: Arc<str> = "add n/a: trap: boom".into();
        let recovered = |from| HealthChange::Recovered { from, lasted };
        let replaced = |from| HealthChange::Replaced { from, lasted };
        for (change, want) in [
            (HealthChange::Failing { cause: cause.clone() }, None),
            (recovered(HealthState::Failing), None),
            (replaced(HealthState::Failing), None),
            (HealthChange::Probing { event: "add n/a".into() }, Some("quarantine: trying add n/a")),
            (recovered(HealthState::Probing), Some("recovered: quarantine ends after 63.0s")),
            (
                replaced(HealthState::Quarantined),
                Some("quarantine ends after 63.0s: another version begins afresh"),
            ),
            (
                HealthChange::ProbeFailed { wait, cause: cause.clone() },
                Some("quarantined for another 2.1s: add n/a: trap: boom"),
            ),
            (
                HealthChange::Quarantined { wait, events: 5, cause },
                Some(
                    "quarantined for 2.1s: 5 different events broke it, and none was handled between them; \
                     events wait and are merged; the last one: add n/a: trap: boom",
                ),
            ),
        ] {
            assert_eq!(described(&change).map(|(_, message)| message).as_deref(), want, "{change:?}");
        }
    }
}
