//! How often plugins were compiled, found, refused, and how long compiling took.
//!
//! Counted by the compiler, read for the metrics. Invariant: numbers only rise.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::mode::Compile;
use crate::artefacts::CacheStats;

/// Everything of one mode, while it goes on.
#[derive(Debug, Default)]
struct ModeCounters {
    compiled: AtomicU64,
    cached: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    nanos: AtomicU64,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    optimized: ModeCounters,
    fast: ModeCounters,
}

/// What one compiler did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModeStats {
    /// Contents compiled.
    pub compiled: u64,
    /// Contents that were there already: in the artefact cache, or loaded under another name.
    pub cached: u64,
    /// Contents that Winch does not take and Cranelift does.
    pub refused: u64,
    /// Contents that could not be compiled; those that Winch does not take are among them.
    pub failed: u64,
    /// Time on the clock that it took to compile what was compiled.
    pub time: Duration,
}

/// What the compilers and the artefact cache did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompileStats {
    /// Cranelift.
    pub optimized: ModeStats,
    /// Winch.
    pub fast: ModeStats,
    /// None without a cache.
    pub cache: Option<CacheStats>,
}

impl CompileStats {
    /// Those of one mode.
    pub fn of(&self, mode: Compile) -> &ModeStats {
        match mode {
            Compile::Optimized => &self.optimized,
            Compile::Fast => &self.fast,
        }
    }
}

impl Counters {
    pub(super) fn compiled(&self, mode: Compile, took: Duration) {
        let counters = self.of(mode);
        add(&counters.compiled, 1);
        add(&counters.nanos, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn cached(&self, mode: Compile) {
        add(&self.of(mode).cached, 1);
    }

    pub(super) fn refused(&self, mode: Compile) {
        add(&self.of(mode).refused, 1);
    }

    pub(super) fn failed(&self, mode: Compile) {
        add(&self.of(mode).failed, 1);
    }

    pub(crate) fn read(&self, cache: Option<CacheStats>) -> CompileStats {
        CompileStats { optimized: self.optimized.read(), fast: self.fast.read(), cache }
    }

    fn of(&self, mode: Compile) -> &ModeCounters {
        match mode {
            Compile::Optimized => &self.optimized,
            Compile::Fast => &self.fast,
        }
    }
}

impl ModeCounters {
    fn read(&self) -> ModeStats {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        ModeStats {
            compiled: read(&self.compiled),
            cached: read(&self.cached),
            refused: read(&self.refused),
            failed: read(&self.failed),
            time: Duration::from_nanos(read(&self.nanos)),
        }
    }
}

fn add(number: &AtomicU64, more: u64) {
    number.fetch_add(more, Ordering::Relaxed);
}
