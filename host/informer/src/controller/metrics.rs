//! What a controller counts.
//!
//! Written by its process loop, read by anybody at any time. Invariant: counts only rise.

use std::sync::atomic::{AtomicU64, Ordering};

use super::ProcessError;

/// Counts since the controller was made.
#[derive(Debug, Default)]
pub struct ControllerMetrics {
    processed: AtomicU64,
    requeued: AtomicU64,
    given_up: AtomicU64,
    panicked: AtomicU64,
    resyncs: AtomicU64,
}

/// [`ControllerMetrics`] at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ControllerCounts {
    /// Deltas processed.
    pub processed: u64,
    /// Process steps after which a delta went back to the queue.
    pub requeued: u64,
    /// Deltas lost because the process gave them up.
    pub given_up: u64,
    /// Deltas lost because the process panicked.
    pub panicked: u64,
    /// Resyncs started.
    pub resyncs: u64,
}

impl ControllerMetrics {
    /// The counts now.
    pub fn counts(&self) -> ControllerCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ControllerCounts {
            processed: read(&self.processed),
            requeued: read(&self.requeued),
            given_up: read(&self.given_up),
            panicked: read(&self.panicked),
            resyncs: read(&self.resyncs),
        }
    }

    pub(super) fn processed(&self) {
        self.processed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn resynced(&self) {
        self.resyncs.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, error: &ProcessError) {
        let count = match error {
            ProcessError::Retry(_) => &self.requeued,
            ProcessError::GiveUp(_) => &self.given_up,
            ProcessError::Panicked(_) => &self.panicked,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
