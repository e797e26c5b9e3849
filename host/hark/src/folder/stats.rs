//! What the looks cost and find, for whoever asks.
//!
//! Written by the looker's thread, read by the admin port. Invariant: nobody waits for a look that hangs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What a look was had for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The file system told of a change.
    Told,
    /// It was time for one anyway.
    Clock,
    /// A file that was seen had to be looked at again: it was being written, or was gone.
    Due,
    /// The plugin manager asked for one.
    Asked,
}

impl Cause {
    /// Each of them.
    pub(crate) const ALL: [Self; 4] = [Self::Told, Self::Clock, Self::Due, Self::Asked];

    /// For metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Told => "event",
            Self::Clock => "clock",
            Self::Due => "due",
            Self::Asked => "asked",
        }
    }
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct LookStats {
    looks: [AtomicU64; Cause::ALL.len()],
    directories: AtomicU64,
    begun: Mutex<Option<Instant>>,
}

impl LookStats {
    /// A look begins.
    pub(super) fn begin(&self, cause: Cause) {
        self.looks[cause as usize].fetch_add(1, Relaxed);
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// It is over, and so many directories are watched.
    pub(super) fn end(&self, directories: usize) {
        self.directories.store(directories as u64, Relaxed);
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Looks begun so far.
    pub(crate) fn looks(&self, cause: Cause) -> u64 {
        self.looks[cause as usize].load(Relaxed)
    }

    /// Directories that the file system tells about.
    pub(crate) fn directories(&self) -> u64 {
        self.directories.load(Relaxed)
    }

    /// How long the look under way has taken so far; none if there is none.
    pub(crate) fn under_way(&self) -> Option<Duration> {
        let begun = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.map(|begun| begun.elapsed())
    }
}
