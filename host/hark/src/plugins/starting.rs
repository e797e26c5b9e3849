//! Instances that were started ahead of their events, from the thread that prepares a version to its handlers.
//!
//! Filled by `prepare`, taken by `running`. Only versions that export `lifecycle` have any. Invariant: an instance that
//! was started and is not taken is told so, on a thread of its own, whoever lets go of it: its file changed again or is
//! gone, its fellow did not start, the host stops. Only where the system gives no thread is it dropped without a word to
//! it, which is said.

use std::sync::Arc;
use std::thread::Builder;

use hark_sandbox::{LogLevel, StartError, StartReason, Started};
use tokio::sync::watch;

use super::running::{Version, guest_runtime};
use crate::output::Output;

/// See the file's head. Empty at first.
pub(crate) struct Ahead {
    plugin: String,
    reason: StartReason,
    output: Arc<Output>,
    unused: Unused,
    started: Vec<Started>,
}

/// Counts the threads on which instances are told that they are not needed. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Unused(Arc<watch::Sender<usize>>);

/// Why a version does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotStarted {
    #[error("cannot start a runtime to start it: {0}")]
    Runtime(std::io::Error),
    #[error(transparent)]
    Plugin(#[from] StartError),
}

impl NotStarted {
    /// Whether the machine lacks something, and the version is not to blame.
    pub(crate) fn is_want(&self) -> bool {
        matches!(self, Self::Runtime(_) | Self::Plugin(StartError::Starved(_)))
    }
}

impl Ahead {
    /// For a version of this plugin, which begins for this reason.
    pub(crate) fn new(plugin: &str, reason: StartReason, output: &Arc<Output>, unused: &Unused) -> Self {
        let (output, unused) = (output.clone(), unused.clone());
        Self { plugin: plugin.to_owned(), reason, output, unused, started: Vec::new() }
    }

    /// Why the version begins.
    pub(crate) fn reason(&self) -> StartReason {
        self.reason
    }

    /// Starts each instance of the version, one after the other. Foreign code: it may block this thread for as long as
    /// `limits.budget` says, for each of them.
    ///
    /// # Errors
    /// Why one does not start. Those before it are told that they are not needed.
    pub(crate) fn start(&mut self, version: &Version) -> Result<(), NotStarted> {
        let runtime = guest_runtime().map_err(NotStarted::Runtime)?;
        for _ in 0..version.treatment().concurrency {
            let start = version.plugin.start(&version.context, self.reason);
            match runtime.block_on(start) {
                Ok(started) => self.started.push(started),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next instance, for a handler.
    pub(crate) fn take(&mut self) -> Option<Started> {
        self.started.pop()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let started: Vec<Started> = self.started.drain(..).filter(Started::is_instance).collect();
        if started.is_empty() {
            return;
        }
        let count = started.len();
        let at_work = self.unused.begin();
        let thread = Builder::new().name(format!("unused:{}", self.plugin));
        let discard = move || {
            let _at_work = at_work;
            discard_all(started)
        };
        if let Err(error) = thread.spawn(discard) {
            let message = format!("{count} started instances are dropped without being stopped: {error}");
            self.output.news(&self.plugin, LogLevel::Warn, &message);
        }
    }
}

/// Without a runtime they go untold: their host functions would have no timers.
fn discard_all(started: Vec<Started>) {
    match guest_runtime() {
        Ok(runtime) => runtime.block_on(async {
            for one in started {
                one.discard().await;
            }
        }),
        Err(error) => tracing::warn!("started instances are dropped without being stopped: {error}"),
    }
}

/// One of those that are counted.
struct AtWork(Unused);

impl Unused {
    fn begin(&self) -> AtWork {
        self.0.send_modify(|count| *count += 1);
        AtWork(self.clone())
    }

    /// Waits until none is at work.
    pub(crate) async fn all_told(&self) {
        // The sender is here, so it does not end before.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
