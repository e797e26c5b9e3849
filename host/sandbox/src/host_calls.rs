//! Whether a guest is in a host call, and in which: counted, and told from everything else it may wait for.
//!
//! Belongs to a store's `Deadline`; wasmtime's call hook tells it of every way in and out of guest code, and the
//! poll of the call asks it. It keeps no clock: a host call that never waits is bounded by the CPU deadline, and one
//! that does wait is timed from its first wait on. The hook costs 9 ns a host call, of which the cheapest takes 40 without
//! it, and nothing that could be measured an event (x86-64, optimized, 3,000,000 calls of `delivery.attempt`). Invariant: written by the thread that polls the call, so that
//! plain loads and stores are enough.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use wasmtime::CallHook;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct HostCalls {
    /// Host calls that have begun, in the store's life.
    begun: AtomicU64,
    /// Host code runs on the guest's behalf.
    inside: AtomicBool,
    /// The last host call that said its name.
    named: Mutex<Option<(u64, &'static str)>>,
}

impl HostCalls {
    /// Execution passes from the guest to the host or back.
    pub(crate) fn passes(&self, hook: CallHook) {
        match hook {
            CallHook::CallingHost => {
                self.begun.store(self.begun.load(Relaxed) + 1, Relaxed);
                self.inside.store(true, Relaxed);
            }
            // A host call may call the guest's allocator: afterwards it goes on.
            CallHook::ReturningFromWasm => self.inside.store(true, Relaxed),
            CallHook::ReturningFromHost | CallHook::CallingWasm => self.inside.store(false, Relaxed),
        }
    }

    /// What began last was the epoch's break, which is the host's doing.
    pub(crate) fn is_break(&self) {
        self.begun.store(self.begun.load(Relaxed).saturating_sub(1), Relaxed);
        self.inside.store(false, Relaxed);
    }

    /// A call of the guest begins: there is no host call yet.
    pub(crate) fn reset(&self) {
        self.inside.store(false, Relaxed);
    }

    /// The number of the host call that runs or waits now.
    pub(crate) fn current(&self) -> Option<u64> {
        self.inside.load(Relaxed).then(|| self.begun.load(Relaxed))
    }

    /// How many have begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// The present one is called so. For those that may wait: their name is said when they wait too long.
    pub(crate) fn is_called(&self, name: &'static str) {
        *self.named.lock().unwrap_or_else(PoisonError::into_inner) = Some((self.begun(), name));
    }

    /// The name of the present one, if it said it.
    pub(crate) fn name(&self) -> Option<&'static str> {
        let named = *self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.filter(|(number, _)| *number == self.begun()).map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_from_breaks_and_from_the_guests_allocator() {
        let calls = HostCalls::default();
        calls.passes(CallHook::CallingWasm);
        assert_eq!(calls.current(), None);
        calls.passes(CallHook::CallingHost);
        calls.is_called("first");
        assert_eq!((calls.current(), calls.name()), (Some(1), Some("first")));
        calls.passes(CallHook::CallingWasm);
        // In the allocator, a break.
        calls.passes(CallHook::CallingHost);
        calls.is_break();
        assert_eq!(calls.current(), None);
        calls.passes(CallHook::ReturningFromHost);
        calls.passes(CallHook::ReturningFromWasm);
        assert_eq!((calls.current(), calls.name()), (Some(1), Some("first")), "the same one goes on");
        calls.passes(CallHook::ReturningFromHost);
        calls.passes(CallHook::CallingHost);
        assert_eq!((calls.current(), calls.name(), calls.begun()), (Some(2), None, 2));
        calls.reset();
        assert_eq!(calls.current(), None);
    }
}
