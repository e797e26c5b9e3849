//! The lines that wait for a stream's thread, and how many were lost.
//!
//! Filled by whoever has something to say, emptied by the [`super::writer`]. Invariants: no more waits than [`Bounds`]
//! allow; the lock is held for moments only, never while anything is written.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a waiting line costs beside its text, in bytes: a pointer, a length, and what the allocator wants.
const OVERHEAD: usize = 48;

/// Entries of the empty queue that are kept after a crowd.
const KEPT: usize = 64;

/// When a stream that fails is tried again, unless something is to be written before.
const AGAIN: Duration = Duration::from_secs(5);

/// Who speaks: plugins may leave the host no room, so a part of it is the host's alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    Host,
    Plugin,
}

/// Bytes that may wait, [`OVERHEAD`] included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) all: usize,
    /// With what plugins say.
    pub(super) plugins: usize,
}

impl Default for Bounds {
    /// Half a second of a plugin that may write 1,000 lines of 8 KiB (`limits.log_lines`, `log_line`).
    fn default() -> Self {
        Self { all: 4 << 20, plugins: 3 << 20 }
    }
}

/// What the thread is to do next.
pub(super) struct Work {
    /// The next line; none if it is only to be said what was lost.
    pub(super) line: Option<Box<[u8]>>,
    /// Lines lost that the stream does not tell of yet.
    pub(super) unsaid: u64,
}

/// See the file's head.
pub(super) struct Queue {
    bounds: Bounds,
    state: Mutex<State>,
    /// There is something to do for the thread.
    work: Condvar,
    /// There is nothing left to do.
    idle: Condvar,
    /// Since the start. Beside the lock, so that it can be read in any case.
    lost: AtomicU64,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Box<[u8]>>,
    /// Of the lines, [`OVERHEAD`] included.
    bytes: usize,
    /// Lost, and not told of.
    unsaid: u64,
    /// The last write failed.
    failing: bool,
    /// The thread has work in hand.
    busy: bool,
    closed: bool,
}

impl Queue {
    pub(super) fn new(bounds: Bounds) -> Self {
        let (state, work, idle) = (Mutex::default(), Condvar::new(), Condvar::new());
        Self { bounds, state, work, idle, lost: AtomicU64::new(0) }
    }

    /// Takes a line in, or counts it as lost.
    pub(super) fn push(&self, speaker: Speaker, line: &[u8]) {
        let bound = if speaker == Speaker::Host { self.bounds.all } else { self.bounds.plugins };
        let size = line.len().saturating_add(OVERHEAD);
        let mut state = self.state();
        if state.bytes.saturating_add(size) > bound {
            self.lose(&mut state);
        } else {
            state.bytes += size;
            state.lines.push_back(line.into());
        }
        self.work.notify_one();
    }

    /// Waits for work; none: everybody who could bring some is gone.
    pub(super) fn next(&self) -> Option<Work> {
        let mut state = self.state();
        state.busy = false;
        loop {
            let line = state.pop();
            if line.is_some() || (state.unsaid > 0 && !state.failing && !state.closed) {
                state.busy = true;
                return Some(Work { line, unsaid: state.unsaid });
            }
            self.idle.notify_all();
            if state.closed {
                return None;
            }
            if state.unsaid == 0 {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let waited = self.work.wait_timeout(state, AGAIN).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() && state.lines.is_empty() {
                return Some(Work { line: None, unsaid: state.unsaid });
            }
        }
    }

    /// A write failed, and with it a line, unless it was one that only told of lost ones.
    pub(super) fn failed(&self, is_line: bool) {
        let mut state = self.state();
        state.failing = true;
        if is_line {
            self.lose(&mut state);
        }
    }

    /// The stream tells of so many lost lines.
    pub(super) fn said(&self, lost: u64) {
        let mut state = self.state();
        state.failing = false;
        state.unsaid = state.unsaid.saturating_sub(lost);
    }

    /// Nobody will bring anything more.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.work.notify_one();
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until there is nothing left to do, but no longer than `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        let end = Instant::now() + limit;
        let mut state = self.state();
        while !state.is_idle() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.idle.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lines that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state().lines.len()
    }

    fn lose(&self, state: &mut State) {
        state.unsaid += 1;
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn pop(&mut self) -> Option<Box<[u8]>> {
        let line = self.lines.pop_front()?;
        self.bytes = self.bytes.saturating_sub(line.len() + OVERHEAD);
        if self.lines.is_empty() {
            self.lines.shrink_to(KEPT);
        }
        Some(line)
    }

    fn is_idle(&self) -> bool {
        self.lines.is_empty() && !self.busy && (self.unsaid == 0 || self.failing)
    }
}
