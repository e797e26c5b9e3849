//! Counts what one store holds: memory, tables, instances.
//!
//! Asked by wasmtime before a guest gets any of it, and part of every store. Invariants: growing past a cap traps
//! rather than fails, because guests abort when memory runs out anyway, and the trap names the cap; what a store
//! has is given back to the plugin's `Usage` when the store is dropped.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use crate::cap::Cap;
use crate::limits::Limits;
use crate::text;
use crate::usage::Usage;

/// A guest asked for more than its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CapExceeded {
    #[error("its memory cap of {} is reached: it asked for {} (limits.memory)", text::bytes(*.cap), text::bytes(*.wanted))]
    Memory { cap: usize, wanted: usize },
    #[error("its tables would have {wanted} elements, more than {cap} (limits.tables)")]
    Tables { cap: usize, wanted: usize },
    #[error("it waits for {wanted} pollables at once, more than {cap} (limits.handles)")]
    Pollables { cap: usize, wanted: usize },
}

impl CapExceeded {
    /// Which one.
    pub(crate) fn cap(&self) -> Cap {
        match self {
            Self::Memory { .. } => Cap::Memory,
            Self::Tables { .. } => Cap::Tables,
            Self::Pollables { .. } => Cap::Handles,
        }
    }
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Limiter {
    memory_cap: usize,
    tables_cap: usize,
    instances_cap: usize,
    memory: usize,
    elements: usize,
    /// What the last growth added, to take back if the growth fails after all.
    last: usize,
    usage: Arc<Usage>,
    /// The store is counted as an instance.
    counted: bool,
}

impl Limiter {
    /// `counted`: it is for events, not for `describe`.
    pub(crate) fn new(limits: &Limits, usage: &Arc<Usage>, counted: bool) -> Self {
        if counted {
            usage.instance_begins();
        }
        Self {
            memory_cap: limits.memory,
            tables_cap: limits.tables,
            instances_cap: limits.instances,
            memory: 0,
            elements: 0,
            last: 0,
            usage: Arc::clone(usage),
            counted,
        }
    }

    /// Bytes of linear memory that the store has.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        self.usage.memory_shrinks(self.memory);
        if self.counted {
            self.usage.instance_ends();
        }
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        self.last = desired.saturating_sub(current);
        let wanted = self.memory.saturating_add(self.last);
        if wanted > self.memory_cap {
            return Err(CapExceeded::Memory { cap: self.memory_cap, wanted }.into());
        }
        self.memory = wanted;
        self.usage.memory_grows(self.last, wanted);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        let last = std::mem::take(&mut self.last).min(self.memory);
        self.memory -= last;
        self.usage.memory_shrinks(last);
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        self.last = desired.saturating_sub(current);
        let wanted = self.elements.saturating_add(self.last);
        if wanted > self.tables_cap {
            return Err(CapExceeded::Tables { cap: self.tables_cap, wanted }.into());
        }
        self.elements = wanted;
        Ok(true)
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.elements = self.elements.saturating_sub(std::mem::take(&mut self.last));
        Ok(())
    }

    fn instances(&self) -> usize {
        self.instances_cap
    }

    fn tables(&self) -> usize {
        self.instances_cap
    }

    fn memories(&self) -> usize {
        self.instances_cap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(memory: usize) -> Limiter {
        Limiter::new(&Limits { memory, tables: 100, ..Limits::default() }, &Arc::default(), true)
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
        assert_eq!(limiter.usage.memory(), 0);
        assert!(limiter.memory_growing(0, 100, None).is_ok());
    }

    #[test]
    fn tables_are_capped() {
        let mut limiter = limiter(0);
        assert!(limiter.table_growing(0, 100, None).is_ok());
        let error = limiter.table_growing(100, usize::MAX, None).expect_err("over the cap");
        assert_eq!(error.downcast_ref(), Some(&CapExceeded::Tables { cap: 100, wanted: usize::MAX }));
    }

    #[test]
    fn what_instances_have_is_added_up_and_given_back() {
        let usage = Arc::new(Usage::default());
        let [mut one, mut two] = [true, true].map(|_| Limiter::new(&Limits::default(), &usage, true));
        let _describes = Limiter::new(&Limits::default(), &usage, false);
        assert!(one.memory_growing(0, 100, None).is_ok() && two.memory_growing(0, 30, None).is_ok());
        assert_eq!((usage.instances(), usage.memory(), usage.memory_peak()), (2, 130, 100));
        drop(one);
        assert_eq!((usage.instances(), usage.memory(), usage.memory_peak()), (1, 30, 100));
    }

    #[test]
    fn the_message_names_cap_and_setting() {
        let message = CapExceeded::Memory { cap: 64 << 20, wanted: 65 << 20 }.to_string();
        assert_eq!(message, "its memory cap of 64 MiB is reached: it asked for 65 MiB (limits.memory)");
    }
}
