//! How long a call has run: CPU time against the deadline, the clock against the budget.
//!
//! One [`Deadline`] belongs to one store. `instance` starts it before a call and polls the call through
//! [`Deadline::watch`]; the store's epoch callback asks [`Deadline::tick`] every 10 ms while the guest runs.
//! Invariant: CPU time is compared only between two readings within one poll, that is, on one thread.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Which limit a call overran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Overrun {
    /// Its own CPU time.
    #[error("deadline overrun")]
    Deadline,
    /// The time of the event as a whole.
    #[error("budget overrun")]
    Budget,
}

/// The clocks of one store.
#[derive(Debug)]
pub(crate) struct Deadline(Mutex<Clocks>);

#[derive(Debug)]
struct Clocks {
    /// CPU time that the call may use.
    limit: Duration,
    /// When the event's budget is used up.
    ends: Instant,
    /// CPU time used in earlier polls of the call.
    used: Duration,
    /// The thread's CPU clock when the present poll began, as far as is known. A call that ends before the
    /// first tick never reads that clock (it is a system call, and most calls last microseconds).
    since: Option<Duration>,
}

impl Deadline {
    pub(crate) fn new(limit: Duration, ends: Instant) -> Self {
        Self(Mutex::new(Clocks { limit, ends, used: Duration::ZERO, since: None }))
    }

    /// Sets the CPU clock to zero for a call whose event must be done at `ends`.
    pub(crate) fn start(&self, ends: Instant) {
        let mut clocks = self.clocks();
        clocks.ends = ends;
        clocks.used = Duration::ZERO;
        clocks.since = None;
    }

    /// Called while the guest runs: may it go on?
    pub(crate) fn tick(&self) -> Result<(), Overrun> {
        let mut clocks = self.clocks();
        let now = cpu_time();
        let since = *clocks.since.get_or_insert(now);
        if clocks.used + now.saturating_sub(since) >= clocks.limit {
            return Err(Overrun::Deadline);
        }
        if Instant::now() >= clocks.ends {
            return Err(Overrun::Budget);
        }
        Ok(())
    }

    /// The call, with its CPU time counted over all its polls.
    pub(crate) async fn watch<F: Future>(&self, call: F) -> F::Output {
        let mut call = pin!(call);
        let mut first = true;
        poll_fn(|context| {
            if !first {
                self.clocks().since = Some(cpu_time());
            }
            first = false;
            let answer = call.as_mut().poll(context);
            if answer.is_pending() {
                let mut clocks = self.clocks();
                if let Some(since) = clocks.since.take() {
                    clocks.used += cpu_time().saturating_sub(since);
                }
            }
            answer
        })
        .await
    }

    fn clocks(&self) -> MutexGuard<'_, Clocks> {
        // Plain values: a panic elsewhere cannot have left them half-written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The CPU time of the present thread.
fn cpu_time() -> Duration {
    // The kernel never gives a negative CPU time.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    fn spin_until(mut done: impl FnMut() -> bool) {
        while !done() {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn spinning_ends_at_the_deadline() {
        let deadline = Deadline::new(Duration::from_millis(5), far());
        let mut answer = Ok(());
        spin_until(|| {
            answer = deadline.tick();
            answer.is_err()
        });
        assert_eq!(answer, Err(Overrun::Deadline));
    }

    #[test]
    fn waiting_ends_at_the_budget() {
        let deadline = Deadline::new(Duration::from_secs(3600), Instant::now());
        assert_eq!(deadline.tick(), Err(Overrun::Budget));
    }

    #[test]
    fn a_new_call_starts_afresh() {
        let deadline = Deadline::new(Duration::from_millis(1), far());
        spin_until(|| deadline.tick().is_err());
        deadline.start(far());
        assert_eq!(deadline.tick(), Ok(()));
    }

    #[tokio::test]
    async fn time_adds_up_over_the_polls_of_a_call() {
        let deadline = Deadline::new(Duration::from_millis(20), far());
        let mut ticks = 0;
        deadline
            .watch(async {
                while deadline.tick().is_ok() {
                    ticks += 1;
                    tokio::task::yield_now().await;
                }
            })
            .await;
        assert!(ticks > 1, "each poll alone is far below the limit");
    }
}
