//! The process loop: pops the [DeltaFIFO](crate::delta_fifo), hands each delta to a [`Process`], and starts resyncs.
//!
//! The one loop of this crate between a queue and its handlers. An [`Informer`] puts it together with a reflector,
//! a cache and one handler (client-go's non-shared informer); the shared informer has a process of its own that
//! tells many. Invariant: deltas are processed one at a time, each key's in order (R-CT-1).
//!
//! # Failures
//!
//! A process step that fails never ends the loop, and is never silent (client-go drops the error, R-CT-3):
//!
//! | the step says | the delta, and those of its key after it | the loop |
//! | --- | --- | --- |
//! | [`ProcessError::Retry`] | go back to the queue's tail, as AddIfNotPresent did | pauses: 10 ms, doubling to 1 s while nothing succeeds |
//! | [`ProcessError::GiveUp`] | is lost; those after it are processed | goes on |
//! | it panics | is lost; those after it are processed | goes on (client-go crashes, or pauses for 1 s: R-CT-4) |
//!
//! Each is counted in [`ControllerMetrics`]. The first of a row is logged as a warning, the rest for debugging.
//! While deltas of the first list are tried again, the first list counts as not processed: a process that may
//! fail for ever has to give up at some time.
//!
//! # Resync
//!
//! The timer lives here, not in the reflector, so that a relist does not set it back (R-RS-3 (D)). When it goes
//! off, and what is due, the process says (R-RS-1, R-RS-2): its answer may change at any time, see
//! [`Controller::rescheduler`]. A resync only repeats what the cache has (R-RS-4).
//!
//! # Example
//!
//! A process that only counts, on a queue that a [reflector](crate::reflector) fills:
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! use hark_informer::controller::{Controller, Process, ProcessError};
//! use hark_informer::delta_fifo::{DEFAULT_CAPACITY, Delta, DeltaFifo};
//! use hark_informer::indexer::Indexer;
//! use tokio::time::Instant;
//! use tokio_util::sync::CancellationToken;
//!
//! #[derive(Default)]
//! struct Count(AtomicU64);
//!
//! impl Process for Count {
//!     fn process(&self, _: &Delta, _initial: bool) -> Result<(), ProcessError> {
//!         self.0.fetch_add(1, Ordering::Relaxed);
//!         Ok(())
//!     }
//!     fn synced(&self) {
//!         println!("the first list had {} objects", self.0.load(Ordering::Relaxed));
//!     }
//!     fn next_resync(&self) -> Option<Instant> {
//!         None
//!     }
//!     fn should_resync(&self, _: Instant) -> bool {
//!         false
//!     }
//! }
//!
//! # async fn example() {
//! let fifo = Arc::new(DeltaFifo::new(DEFAULT_CAPACITY, Arc::new(Indexer::new())));
//! let controller = Controller::new(fifo, Arc::new(Count::default()));
//! controller.run(CancellationToken::new()).await;
//! # }
//! ```

mod handling;
mod informer;
mod metrics;
pub(crate) mod transition;

use std::any::Any;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

pub use self::handling::{DEFAULT_MAX_ATTEMPTS, ResourceEventHandler};
pub use self::informer::{Informer, InformerHandle, InformerOptions};
pub use self::metrics::{ControllerCounts, ControllerMetrics};
use crate::delta_fifo::{Delta, DeltaFifo, Popped, Processed};

/// The loop's pause after a first failure.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Its longest one; client-go waits as long after a panic.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// What a controller does with what it pops, and when it resyncs.
///
/// All but [`Process::next_resync`] and [`Process::should_resync`] are called under the queue's lock: they must not
/// call the queue, and what they block is the reflector. After a panic the process is called again, so what it
/// keeps has to be right at any place where it may panic.
pub trait Process: Send + Sync {
    /// Brings one delta into the cache and tells of it. `initial`: it belongs to the first list.
    ///
    /// # Errors
    /// [`ProcessError`], which says what becomes of the delta.
    fn process(&self, delta: &Delta, initial: bool) -> Result<(), ProcessError>;

    /// The first list has been processed. Called once.
    fn synced(&self);

    /// When a resync is due next; none: not before the [rescheduler](Controller::rescheduler) is told.
    fn next_resync(&self) -> Option<Instant>;

    /// Notes what is due at `now`, and says whether anything is. Afterwards [`Process::next_resync`] is later
    /// than `now`.
    fn should_resync(&self, now: Instant) -> bool;
}

/// Why a delta was not processed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    /// It may work later.
    #[error("{0}")]
    Retry(String),
    /// It will not work.
    #[error("{0}")]
    GiveUp(String),
    /// The process panicked, with this message.
    #[error("panicked: {0}")]
    Panicked(String),
}

/// See the file's head.
pub struct Controller<P> {
    fifo: Arc<DeltaFifo>,
    process: Arc<P>,
    rescheduled: Arc<Notify>,
    metrics: Arc<ControllerMetrics>,
    /// Pops in a row that did not wholly succeed.
    failures: AtomicU32,
}

/// How a pop went, for the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Done,
    /// Something went back to the queue.
    Failed,
}

impl<P: Process> Controller<P> {
    /// A controller that has done nothing yet. Nobody else may pop `fifo`.
    pub fn new(fifo: Arc<DeltaFifo>, process: Arc<P>) -> Self {
        Self {
            fifo,
            process,
            rescheduled: Arc::default(),
            metrics: Arc::default(),
            failures: AtomicU32::new(0),
        }
    }

    /// To be told (`notify_one`) when the answer of [`Process::next_resync`] has changed. It is asked again by
    /// itself after a resync, and after [`Process::synced`].
    pub fn rescheduler(&self) -> Arc<Notify> {
        self.rescheduled.clone()
    }

    /// What it has done, readable at any time.
    pub fn metrics(&self) -> Arc<ControllerMetrics> {
        self.metrics.clone()
    }

    /// Processes until cancelled, which is looked at before each pop: what waits is then left (R-CT-2). The queue
    /// is closed at the end, also if the future is dropped, so that a producer held back is let go.
    pub async fn run(self, cancel: CancellationToken) {
        let _close = CloseOnDrop(&self.fifo);
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            never = self.resync_loop() => match never {},
            () = self.process_loop(&cancel) => {}
        }
    }

    async fn process_loop(&self, cancel: &CancellationToken) {
        while !cancel.is_cancelled() {
            match self.fifo.pop_or_requeue(|popped| self.step(popped)).await {
                // A long list must not keep its thread from the other tasks.
                Some(Step::Done) => tokio::task::consume_budget().await,
                Some(Step::Failed) => sleep(pause(self.failures.load(Ordering::Relaxed))).await,
                None => return,
            }
        }
    }

    fn step(&self, popped: Popped) -> Processed<Step> {
        let (mut deltas, initial) = match popped {
            Popped::Deltas { deltas, initial, .. } => (deltas, initial),
            Popped::Synced => {
                self.tell_synced();
                return Processed::Done(Step::Done);
            }
        };
        let mut clean = true;
        for at in 0..deltas.len() {
            let Err(error) = guarded(|| self.process.process(&deltas[at], initial)) else {
                self.metrics.processed();
                continue;
            };
            self.report(&deltas[at], &error);
            clean = false;
            if matches!(error, ProcessError::Retry(_)) {
                return Processed::Requeue(Step::Failed, deltas.split_off(at));
            }
        }
        if clean {
            self.failures.store(0, Ordering::Relaxed);
        }
        Processed::Done(Step::Done)
    }

    fn tell_synced(&self) {
        let told = guarded(|| {
            self.process.synced();
            Ok(())
        });
        if let Err(error) = told {
            self.metrics.failed(&error);
            tracing::error!("telling that the first list is processed: {error}");
        }
        self.rescheduled.notify_one();
    }

    fn report(&self, delta: &Delta, error: &ProcessError) {
        self.metrics.failed(error);
        let first = self.failures.fetch_add(1, Ordering::Relaxed) == 0;
        let becomes = if matches!(error, ProcessError::Retry(_)) { "to be tried again" } else { "given up" };
        let (kind, object) = (delta.kind, &delta.object);
        if first {
            tracing::warn!("processing {kind:?} {object:?}: {error}; {becomes}");
        } else {
            tracing::debug!("processing {kind:?} {object:?}: {error}; {becomes}");
        }
    }

    async fn resync_loop(&self) -> Infallible {
        loop {
            let rescheduled = self.rescheduled.notified();
            match self.process.next_resync() {
                None => rescheduled.await,
                Some(next) => tokio::select! { () = rescheduled => {}, () = sleep_until(next) => {} },
            }
            if self.process.should_resync(Instant::now()) {
                self.metrics.resynced();
                self.fifo.resync();
            }
        }
    }
}

struct CloseOnDrop<'a>(&'a DeltaFifo);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The pause after so many failures in a row.
fn pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    (FIRST_PAUSE * 2_u32.pow(doublings)).min(MAX_PAUSE)
}

/// Runs foreign code so that its panic is an error like others.
fn guarded<R>(work: impl FnOnce() -> Result<R, ProcessError>) -> Result<R, ProcessError> {
    // What `work` keeps is looked at again only by itself, which Process and ResourceEventHandler ask it to bear.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(ProcessError::Panicked(panic_message(&*payload))))
}

/// The text that a panic was given, if it was given one.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests;
