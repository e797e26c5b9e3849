//! How many processes compile at a time.
//!
//! Used by the compiler: whoever has a large file waits here for a turn, on a thread of its own, with nothing but the file's
//! bytes. Invariant: a turn that was taken is given back, whatever happens to the process.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Processes at a time: each uses every core by itself, and up to some 400 MB. The second one is for a file that compiles
/// fast beside one that does not.
const TURNS: usize = 2;

/// Time between two looks at whether a result is still wanted.
const POLL: Duration = Duration::from_millis(50);

/// See the file's head.
pub(super) struct Turns {
    free: Mutex<usize>,
    given_back: Condvar,
}

/// Whoever has it may compile.
pub(super) struct Turn<'a>(&'a Turns);

impl Default for Turns {
    fn default() -> Self {
        Self { free: Mutex::new(TURNS), given_back: Condvar::new() }
    }
}

impl Turns {
    /// Waits for a turn; none if it is no longer wanted.
    pub(super) fn take(&self, wanted: &dyn Fn() -> bool) -> Option<Turn<'_>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if *free > 0 {
                *free -= 1;
                return Some(Turn(self));
            }
            free = self.given_back.wait_timeout(free, POLL).unwrap_or_else(PoisonError::into_inner).0;
            // It may look at a file, which nobody else has to wait for.
            drop(free);
            if !wanted() {
                return None;
            }
            free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_turn_is_waited_for_until_one_is_given_back_or_it_is_not_wanted() {
        let turns = Turns::default();
        let taken: Vec<_> = (0..TURNS).map(|_| turns.take(&|| true).expect("free")).collect();
        assert!(turns.take(&|| false).is_none());
        let asked = AtomicBool::new(false);
        let wanted = || {
            asked.store(true, Ordering::SeqCst);
            true
        };
        thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.take(&wanted).is_some());
            while !asked.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            assert!(!waiting.is_finished());
            drop(taken);
            assert!(waiting.join().expect("no panic"));
        });
        assert_eq!(*turns.free.lock().expect("no panic"), TURNS, "all were given back");
    }
}
