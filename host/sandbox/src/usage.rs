//! What one plugin has used, and which limits it has hit, over all its versions and instances.
//!
//! Made by the host once a plugin, part of each version's `Context`, read by the host whenever somebody asks. The
//! counters are atomics that an event touches a few times at most. Invariant: counters only rise; gauges are given
//! back by whoever took them, when its store is dropped.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::cap::Cap;
use crate::thread_clock::ThreadClocks;

/// Why an instance was thrown away although its plugin goes on: what it held in memory is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Restart {
    /// It trapped.
    Trap,
    /// It overran a limit on time.
    Timeout,
    /// It has handled its share, or has grown too large (`limits.recycle_events`, `limits.recycle_memory`).
    Recycle,
}

impl Restart {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 3] = [Self::Trap, Self::Timeout, Self::Recycle];

    /// The word used in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Timeout => "timeout",
            Self::Recycle => "recycle",
        }
    }
}

/// See the file's head.
#[derive(Debug, Default)]
pub struct Usage {
    caps: [AtomicU64; Cap::ALL.len()],
    restarts: [AtomicU64; Restart::ALL.len()],
    starved: AtomicU64,
    host_calls: AtomicU64,
    instances: AtomicUsize,
    memory: AtomicUsize,
    memory_peak: AtomicUsize,
    clocks: Mutex<ThreadClocks>,
}

impl Usage {
    /// How often a cap was hit.
    pub fn cap_hits(&self, cap: Cap) -> u64 {
        self.caps[cap.index()].load(Relaxed)
    }

    /// How many instances were thrown away for a reason.
    pub fn restarts(&self, reason: Restart) -> u64 {
        self.restarts[reason as usize].load(Relaxed)
    }

    /// How often the host had no memory to start an instance.
    pub fn starved(&self) -> u64 {
        self.starved.load(Relaxed)
    }

    /// How often guest code has called into the host, to grow its memory included.
    pub fn host_calls(&self) -> u64 {
        self.host_calls.load(Relaxed)
    }

    /// Instances that are alive, those of `describe` not included.
    pub fn instances(&self) -> usize {
        self.instances.load(Relaxed)
    }

    /// Bytes of linear memory of all instances that are alive.
    pub fn memory(&self) -> usize {
        self.memory.load(Relaxed)
    }

    /// The most bytes of linear memory that one instance has had.
    pub fn memory_peak(&self) -> usize {
        self.memory_peak.load(Relaxed)
    }

    /// CPU time of the threads that have handled events or described the plugin, from their first call for it on.
    /// Reads the clocks of other threads: a system call or two each.
    pub fn cpu(&self) -> Duration {
        self.clocks().total()
    }

    pub(crate) fn hit(&self, cap: Cap) {
        self.caps[cap.index()].fetch_add(1, Relaxed);
    }

    pub(crate) fn restart(&self, reason: Restart) {
        self.restarts[reason as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn starve(&self) {
        self.starved.fetch_add(1, Relaxed);
    }

    pub(crate) fn called_host(&self, times: u64) {
        self.host_calls.fetch_add(times, Relaxed);
    }

    pub(crate) fn instance_begins(&self) {
        self.instances.fetch_add(1, Relaxed);
    }

    pub(crate) fn instance_ends(&self) {
        self.instances.fetch_sub(1, Relaxed);
    }

    /// An instance has grown by so much, and now has `instance` bytes.
    pub(crate) fn memory_grows(&self, by: usize, instance: usize) {
        self.memory.fetch_add(by, Relaxed);
        self.memory_peak.fetch_max(instance, Relaxed);
    }

    pub(crate) fn memory_shrinks(&self, by: usize) {
        self.memory.fetch_sub(by, Relaxed);
    }

    pub(crate) fn clocks(&self) -> std::sync::MutexGuard<'_, ThreadClocks> {
        // Plain values: a panic elsewhere cannot have left them half-written.
        self.clocks.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
