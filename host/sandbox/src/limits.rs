//! What one plugin may use, and the part of it that is counted in memory.
//!
//! [`Limits`] comes from the operator's file. [`Limiter`] is asked by wasmtime before a guest gets memory,
//! tables or instances. Invariant: every store has one (see `instance`), so no guest runs without caps.

use std::time::{Duration, Instant};

use wasmtime::ResourceLimiter;

use crate::text;

/// What each call of one plugin may use. The keys named are those of `limits` in `hark.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `memory`: bytes of linear memory of one instance, all its memories together. Default 64 MiB. Asking for
    /// more traps.
    pub memory: usize,
    /// `deadline`: CPU time of the plugin's thread in one call, host functions included. Default 1 s.
    /// Noticed within 20 ms. Starting an instance is a call too.
    pub deadline: Duration,
    /// `budget`: time on the clock for one event, from starting an instance (if need be) to the answer,
    /// waits included. Default 30 s.
    pub budget: Duration,
    /// `object`: bytes of one object's text handed over. Default 4 MiB (etcd's own limit is 1.5 MiB). An event
    /// with a larger one is given up as permanent.
    pub object: usize,
    /// `log_lines`: lines a second, standard output and error included. Default 1,000. The rest is dropped and
    /// counted.
    pub log_lines: u32,
    /// `log_line`: bytes of one line. Default 8 KiB. The rest is cut.
    pub log_line: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            deadline: Duration::from_secs(1),
            budget: Duration::from_secs(30),
            object: 4 << 20,
            log_lines: 1000,
            log_line: 8 << 10,
        }
    }
}

impl Limits {
    /// When an event that begins now must be done. A budget beyond what a clock can tell counts as a day.
    pub(crate) fn ends(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.budget).unwrap_or_else(|| now + Duration::from_secs(86_400))
    }
}

/// Elements of all tables of an instance. A component of Python or SpiderMonkey has about 20,000 functions in
/// its table; an element costs the host 8 to 16 bytes.
const TABLE_ELEMENTS: usize = 1 << 20;
/// Core instances: a component made of a module and an adapter has 4, one of a Python program about 40.
const INSTANCES: usize = 256;
/// Tables and memories: a handful each in what today's toolchains make.
const TABLES: usize = 64;
const MEMORIES: usize = 16;

/// A guest asked for more than its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CapExceeded {
    #[error("its memory cap of {} is reached: it asked for {} (limits.memory)", text::bytes(*.cap), text::bytes(*.wanted))]
    Memory { cap: usize, wanted: usize },
    #[error("its tables would have {wanted} elements, more than {TABLE_ELEMENTS}")]
    Table { wanted: usize },
}

/// Counts what one store holds. Growing past a cap traps rather than fails, because guests abort when memory
/// runs out anyway, and the trap names the cap.
#[derive(Debug)]
pub(crate) struct Limiter {
    cap: usize,
    memory: usize,
    elements: usize,
    /// What the last growth added, to take back if the growth fails after all.
    last: usize,
}

impl Limiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { cap: limits.memory, memory: 0, elements: 0, last: 0 }
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        self.last = desired.saturating_sub(current);
        let wanted = self.memory.saturating_add(self.last);
        if wanted > self.cap {
            return Err(CapExceeded::Memory { cap: self.cap, wanted }.into());
        }
        self.memory = wanted;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory = self.memory.saturating_sub(self.last);
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        self.last = desired.saturating_sub(current);
        let wanted = self.elements.saturating_add(self.last);
        if wanted > TABLE_ELEMENTS {
            return Err(CapExceeded::Table { wanted }.into());
        }
        self.elements = wanted;
        Ok(true)
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.elements = self.elements.saturating_sub(self.last);
        Ok(())
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(memory: usize) -> Limiter {
        Limiter::new(&Limits { memory, ..Limits::default() })
    }

    #[test]
    fn all_memories_count_together() {
        let mut limiter = limiter(100);
        assert!(limiter.memory_growing(0, 60, None).is_ok());
        assert!(limiter.memory_growing(0, 40, None).is_ok());
        let error = limiter.memory_growing(40, 41, None).expect_err("over the cap");
        assert_eq!(error.downcast_ref(), Some(&CapExceeded::Memory { cap: 100, wanted: 101 }));
    }

    #[test]
    fn a_growth_that_fails_is_given_back() {
        let mut limiter = limiter(100);
        assert!(limiter.memory_growing(0, 100, None).is_ok());
        assert!(limiter.memory_grow_failed(wasmtime::format_err!("no pages")).is_ok());
        assert!(limiter.memory_growing(0, 100, None).is_ok());
    }

    #[test]
    fn tables_are_capped() {
        let mut limiter = limiter(0);
        assert!(limiter.table_growing(0, TABLE_ELEMENTS, None).is_ok());
        assert!(limiter.table_growing(TABLE_ELEMENTS, usize::MAX, None).is_err());
    }

    #[test]
    fn a_budget_without_end_is_no_panic() {
        let limits = Limits { budget: Duration::MAX, ..Limits::default() };
        assert!(limits.ends() > Instant::now());
    }

    #[test]
    fn the_message_names_cap_and_setting() {
        let message = CapExceeded::Memory { cap: 64 << 20, wanted: 65 << 20 }.to_string();
        assert_eq!(message, "its memory cap of 64 MiB is reached: it asked for 65 MiB (limits.memory)");
    }
}
