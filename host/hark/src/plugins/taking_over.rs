//! A version that is prepared, and takes over from another one as soon as no call is under way.
//!
//! Made by the manager, and waited for by a task of its own, whose result comes back to the manager's loop. Invariant:
//! whoever wonders why a new build does not run is told, once, after [`PATIENCE`].

use std::sync::Arc;
use std::time::Duration;

use hark_informer::listener::{Aside, Listener, SwapReport};
use hark_sandbox::LogLevel;

use super::running::Version;
use super::slot::Life;
use super::trial::Provenance;
use crate::output::Output;
use crate::timings::Timings;

/// How long a new version waits for the call under way until that is said.
const PATIENCE: Duration = Duration::from_secs(3);

/// See the file's head.
pub(super) struct TakingOver {
    pub(super) plugin: String,
    pub(super) life: Life,
    pub(super) version: Version,
    pub(super) provenance: Provenance,
    /// It is on trial.
    pub(super) on_trial: bool,
    /// What it took so far.
    pub(super) timings: Timings,
    /// `limits.budget` of the version that runs, which bounds the call under way.
    pub(super) budget: Duration,
    /// Whose handlers it replaces.
    pub(super) listener: Listener,
    pub(super) output: Arc<Output>,
}

/// A version that has taken over, or could not because the listener was gone.
pub(super) struct Swapped {
    pub(super) plugin: String,
    pub(super) life: Life,
    pub(super) version: Version,
    pub(super) provenance: Provenance,
    pub(super) on_trial: bool,
    pub(super) timings: Timings,
    pub(super) report: Option<SwapReport>,
}

impl TakingOver {
    /// Waits for the listener's answer.
    pub(super) async fn wait(self, swap: impl Future<Output = Option<SwapReport>>) -> Swapped {
        let report = patiently(swap, || self.say_that_it_waits()).await;
        let mut timings = self.timings;
        timings.swapped();
        let Self { plugin, life, version, provenance, on_trial, .. } = self;
        Swapped { plugin, life, version, provenance, on_trial, timings, report }
    }

    fn say_that_it_waits(&self) {
        let (new, budget) = (self.version.plugin.hash().short(), self.budget);
        let what = match self.listener.stats().aside {
            Some(Aside::HandOver) => "takes over, and waits for save, restore or stop,",
            Some(Aside::Synced | Aside::Stop) | None => "waits for the call under way,",
        };
        let message = format!("its new version {new} {what} which limits.budget ({budget:?}) bounds");
        self.output.news(&self.plugin, LogLevel::Info, &message);
    }
}

/// Waits for something, and says so once if it takes longer than [`PATIENCE`].
async fn patiently<T>(wait: impl Future<Output = T>, say: impl FnOnce()) -> T {
    let mut wait = std::pin::pin!(wait);
    match tokio::time::timeout(PATIENCE, &mut wait).await {
        Ok(done) => done,
        Err(_) => {
            say();
            wait.await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_long_wait_is_said_and_only_once() {
        for (seconds, want) in [(0, 0), (2, 0), (4, 1), (4000, 1)] {
            let said = Cell::new(0);
            let wait = tokio::time::sleep(Duration::from_secs(seconds));
            patiently(wait, || said.set(said.get() + 1)).await;
            assert_eq!(said.get(), want, "{seconds} s");
        }
    }
}
