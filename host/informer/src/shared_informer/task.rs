//! The informer task: the crate's one process loop, with the shared informer's process function.
//!
//! Spawned by the shared informer. Invariant: however the task ends, no listener is left waiting at its gate for a
//! first list that will not come.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Parts;
use crate::controller::{Controller, Process, ProcessError};
use crate::delta_fifo::Delta;
use crate::reflector::{ReflectorMetrics, ReflectorStatus};

/// How often the operator is told that a first list is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

impl Process for Parts {
    /// Never fails: the cache takes everything, and listeners only queue.
    fn process(&self, delta: &Delta, _initial: bool) -> Result<(), ProcessError> {
        self.core.apply(delta);
        Ok(())
    }

    fn synced(&self) {
        tell_synced(self);
    }

    fn next_resync(&self) -> Option<Instant> {
        self.core.with(|processor, _| processor.next_resync())
    }

    fn should_resync(&self, now: Instant) -> bool {
        // The queue's lock is an outer one.
        let idle = self.fifo.depth() == 0;
        self.core.with(|processor, _| processor.mark_due(now, idle))
    }
}

/// Listeners first: whoever waits for the informer finds them told.
pub(super) fn tell_synced(parts: &Parts) {
    parts.core.become_synced();
    parts.synced.send_replace(true);
}

/// Runs until cancelled, or until the reflector is gone.
pub(super) async fn run(
    controller: Controller<Parts>,
    parts: Arc<Parts>,
    status: watch::Receiver<ReflectorStatus>,
    metrics: Arc<ReflectorMetrics>,
    stop: CancellationToken,
) {
    let release = ReleaseOnDrop(&parts);
    tokio::select! {
        () = controller.run(stop) => {}
        () = async { tokio::join!(excuse(&parts, status.clone()), patience(&parts, status.clone(), &metrics)); } => {}
    }
    drop(release);
}

/// Nothing new will come: whoever waits for the first list of this informer need not.
struct ReleaseOnDrop<'a>(&'a Parts);

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.core.with(|processor, _| processor.set_excused(true));
    }
}

/// Tells listeners whenever the resource turns refused or absent, or is not any more.
async fn excuse(parts: &Parts, mut news: watch::Receiver<ReflectorStatus>) {
    loop {
        let excused = excuses(&news.borrow_and_update());
        parts.core.with(|processor, _| processor.set_excused(excused));
        if news.changed().await.is_err() {
            return;
        }
    }
}

/// Whether the informer's trouble must not hold other subscriptions of a plugin back (delivery contract 3).
fn excuses(status: &ReflectorStatus) -> bool {
    status.problem.as_ref().is_some_and(|problem| !problem.kind.holds_others_back())
}

/// Says every now and then how far a first list is that takes long, if there is no trouble to report that would
/// explain it. That the server has not answered at all is said once.
async fn patience(parts: &Parts, status: watch::Receiver<ReflectorStatus>, metrics: &ReflectorMetrics) {
    let mut said = false;
    loop {
        tokio::time::sleep(PATIENCE).await;
        if *parts.synced.borrow() {
            return;
        }
        if status.borrow().problem.is_some() {
            continue;
        }
        match metrics.listing() {
            0 if !said => tracing::info!("still waiting for the API server to answer the first list"),
            0 => {}
            objects => tracing::info!("the first list: {objects} objects so far"),
        }
        said = true;
    }
}
