//! Waiting until informers have synced, with a line now and then for lists that take long.
//!
//! Used by whoever wants full caches before it begins; listeners have a gate of their own and need not. Invariant:
//! an informer that has synced counts as such, also if the waiting ends at the same moment (R-SI-6).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use crate::resource::Selector;
use crate::shared_informer::SharedInformer;

/// How often a list that takes long is spoken of.
const PROGRESS: Duration = Duration::from_secs(5);

/// Which informers have synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncResult {
    /// Each informer that was waited for, and whether its first list is in the cache.
    pub synced: BTreeMap<Selector, bool>,
    /// Why the waiting ended, if it was not because all have.
    pub cause: Option<Cause>,
}

/// Why not all informers have synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The waiting was cancelled.
    #[error("the waiting was cancelled")]
    Cancelled,
    /// One of the informers was stopped.
    #[error("an informer was stopped")]
    Stopped,
}

/// Not all informers have synced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to sync all caches: {}: {cause}", names(.missing))]
pub struct NotSynced {
    /// Those that have not, in order.
    pub missing: Vec<Selector>,
    /// Why nobody waits for them any more.
    pub cause: Cause,
}

fn names(selectors: &[Selector]) -> String {
    selectors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl SyncResult {
    /// The result as one (client-go's `SyncResult.AsError`, R-FA-5).
    ///
    /// # Errors
    /// [`NotSynced`], naming the informers that have not.
    pub fn into_result(self) -> Result<(), NotSynced> {
        let Some(cause) = self.cause else { return Ok(()) };
        let missing = self.synced.into_iter().filter(|(_, synced)| !synced).map(|(selector, _)| selector);
        Err(NotSynced { missing: missing.collect(), cause })
    }
}

/// Waits until the first list of each of `informers` is in its cache: until all have, all that remain were stopped, or
/// `cancel`. None at all: at once. Says which have, and every 5 s how far the others are.
pub async fn wait_for_sync(informers: &[Arc<SharedInformer>], cancel: &CancellationToken) -> SyncResult {
    let began = Instant::now();
    let mut synced: BTreeMap<Selector, bool> =
        informers.iter().map(|informer| (informer.selector().clone(), false)).collect();
    let mut waiting: FuturesUnordered<_> = informers
        .iter()
        .map(|informer| async move { (informer.selector(), informer.synced().await) })
        .collect();
    let mut progress = interval_at(began + PROGRESS, PROGRESS);
    progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut cause = None;
    loop {
        tokio::select! {
            biased;
            next = waiting.next() => match next {
                None => break,
                Some((selector, true)) => {
                    tracing::debug!("{selector} has synced after {:?}", began.elapsed());
                    synced.insert(selector.clone(), true);
                }
                Some((_, false)) => cause = Some(Cause::Stopped),
            },
            () = cancel.cancelled() => {
                cause = Some(Cause::Cancelled);
                break;
            }
            _ = progress.tick() => informers.iter().for_each(|informer| tell_progress(informer, began)),
        }
    }
    SyncResult { synced, cause }
}

fn tell_progress(informer: &SharedInformer, began: Instant) {
    if informer.has_synced() || informer.is_stopped() {
        return;
    }
    // A list that has been read whole is in the queue before it is in the cache.
    let objects =
        informer.metrics().listing().max(u64::try_from(informer.indexer().len()).unwrap_or(u64::MAX));
    let (selector, seconds) = (informer.selector(), began.elapsed().as_secs());
    match &informer.status().borrow().problem {
        Some(problem) => tracing::info!("still waiting for the first list of {selector}: {problem}"),
        None => tracing::info!("the first list of {selector}: {objects} objects so far, after {seconds} s"),
    }
}
