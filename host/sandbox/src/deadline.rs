//! How long a call has run: CPU time against the deadline, the clock against the budget, and each host call's wait
//! against its own limit.
//!
//! One [`Deadline`] belongs to one store. `instance` starts it before a call and polls the call through
//! [`Deadline::watch`], which keeps the ticker awake; so the store's epoch callback asks [`Deadline::tick`] every 10 ms
//! while the guest runs.
//! Invariants: CPU time is compared only between two readings within one poll, that is, on one thread; every call,
//! whatever its entry, goes through [`Deadline::watch`].

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::{Sleep, sleep};

use crate::host_calls::HostCalls;
use crate::limits::Limits;
use crate::thread_clock::cpu_time;
use crate::ticker::Ticker;
use crate::usage::Usage;

/// Which limit a call overran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Overrun {
    /// Its own CPU time.
    #[error("deadline overrun")]
    Deadline,
    /// The time of the event as a whole.
    #[error("budget overrun")]
    Budget,
    /// One host call waited too long: its name, where it is known.
    #[error("host call overrun")]
    HostCall(Option<&'static str>),
}

/// The clocks of one store.
#[derive(Debug)]
pub(crate) struct Deadline {
    clocks: Mutex<Clocks>,
    calls: HostCalls,
    /// How long one host call may wait.
    host_call: Duration,
    usage: Arc<Usage>,
    ticker: Arc<Ticker>,
}

#[derive(Debug)]
struct Clocks {
    /// CPU time that the call may use; none: what the budget allows.
    limit: Option<Duration>,
    /// When the event's budget is used up.
    ends: Instant,
    /// CPU time used in earlier polls of the call.
    used: Duration,
    /// The thread's CPU clock when the present poll began, as far as is known. A call that ends before the
    /// first tick never reads that clock (it is a system call, and most calls last microseconds).
    since: Option<Duration>,
}

/// The wait for one host call: its number, and when it has lasted too long.
type Wait = Option<(u64, Pin<Box<Sleep>>)>;

impl Deadline {
    pub(crate) fn new(limits: &Limits, usage: &Arc<Usage>, ticker: &Arc<Ticker>) -> Self {
        let clocks =
            Clocks { limit: limits.deadline, ends: limits.ends(), used: Duration::ZERO, since: None };
        Self {
            clocks: Mutex::new(clocks),
            calls: HostCalls::default(),
            host_call: limits.host_call,
            usage: Arc::clone(usage),
            ticker: Arc::clone(ticker),
        }
    }

    /// Sets the CPU clock to zero for a call whose event must be done at `ends`.
    pub(crate) fn start(&self, ends: Instant) {
        let mut clocks = self.clocks();
        clocks.ends = ends;
        clocks.used = Duration::ZERO;
        clocks.since = None;
        self.calls.reset();
    }

    /// The host calls of the store.
    pub(crate) fn calls(&self) -> &HostCalls {
        &self.calls
    }

    /// Called while the guest runs: may it go on?
    pub(crate) fn tick(&self) -> Result<(), Overrun> {
        self.calls.is_break();
        let mut clocks = self.clocks();
        if let Some(limit) = clocks.limit {
            let now = cpu_time();
            let since = *clocks.since.get_or_insert(now);
            if clocks.used + now.saturating_sub(since) >= limit {
                return Err(Overrun::Deadline);
            }
        }
        if Instant::now() >= clocks.ends {
            return Err(Overrun::Budget);
        }
        Ok(())
    }

    /// The call, with its CPU time counted over all its polls, and ended when a host call waits too long.
    ///
    /// # Errors
    /// The call's own, or [`Overrun::HostCall`].
    pub(crate) async fn watch<T>(
        &self,
        call: impl Future<Output = wasmtime::Result<T>>,
    ) -> wasmtime::Result<T> {
        let _ticks = self.ticker.call();
        let _count = Count { deadline: self, before: self.calls.begun() };
        let mut call = pin!(call);
        let mut wait: Wait = None;
        let mut first = true;
        poll_fn(|context| {
            if !first {
                self.resume();
            }
            first = false;
            let answer = call.as_mut().poll(context);
            if answer.is_ready() {
                return answer;
            }
            self.pause();
            self.waits_too_long(&mut wait, context).map(|overrun| Err(overrun.into()))
        })
        .await
    }

    fn resume(&self) {
        let mut clocks = self.clocks();
        if clocks.limit.is_some() {
            clocks.since = Some(cpu_time());
        }
    }

    fn pause(&self) {
        let mut clocks = self.clocks();
        if let Some(since) = clocks.since.take() {
            clocks.used += cpu_time().saturating_sub(since);
        }
    }

    /// The call is pending: if that is because of a host call, for how long already?
    fn waits_too_long(&self, wait: &mut Wait, context: &mut Context<'_>) -> Poll<Overrun> {
        let Some(number) = self.calls.current() else {
            *wait = None;
            return Poll::Pending;
        };
        if wait.as_ref().is_none_or(|(waits_for, _)| *waits_for != number) {
            *wait = Some((number, Box::pin(sleep(self.host_call))));
        }
        match wait {
            Some((_, over)) => over.as_mut().poll(context).map(|()| Overrun::HostCall(self.calls.name())),
            None => Poll::Pending,
        }
    }

    fn clocks(&self) -> MutexGuard<'_, Clocks> {
        // Plain values: a panic elsewhere cannot have left them half-written.
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the host calls of one call to what the plugin has used, also if the call is abandoned.
struct Count<'a> {
    deadline: &'a Deadline,
    before: u64,
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        let Deadline { calls, usage, .. } = self.deadline;
        usage.called_host(calls.begun().saturating_sub(self.before));
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::CallHook;

    use super::*;

    const FAR: Duration = Duration::from_secs(3600);

    fn deadline(limit: Option<Duration>, budget: Duration) -> Deadline {
        let limits = Limits { deadline: limit, budget, ..Limits::default() };
        let ticker = Ticker::start(Vec::new()).expect("a thread");
        Deadline::new(&limits, &Arc::default(), &ticker)
    }

    fn spin_until(mut done: impl FnMut() -> bool) {
        while !done() {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn spinning_ends_at_the_deadline() {
        let deadline = deadline(Some(Duration::from_millis(5)), FAR);
        let mut answer = Ok(());
        spin_until(|| {
            answer = deadline.tick();
            answer.is_err()
        });
        assert_eq!(answer, Err(Overrun::Deadline));
    }

    #[test]
    fn waiting_ends_at_the_budget_whether_there_is_a_deadline_or_not() {
        for limit in [Some(FAR), None] {
            assert_eq!(deadline(limit, Duration::ZERO).tick(), Err(Overrun::Budget));
        }
    }

    #[test]
    fn a_new_call_starts_afresh() {
        let deadline = deadline(Some(Duration::from_millis(1)), FAR);
        spin_until(|| deadline.tick().is_err());
        deadline.start(Instant::now() + FAR);
        assert_eq!(deadline.tick(), Ok(()));
    }

    #[tokio::test]
    async fn time_adds_up_over_the_polls_of_a_call() {
        let deadline = deadline(Some(Duration::from_millis(20)), FAR);
        let mut ticks = 0;
        let call = async {
            while deadline.tick().is_ok() {
                ticks += 1;
                tokio::task::yield_now().await;
            }
            Ok(())
        };
        deadline.watch(call).await.expect("its own answer");
        assert!(ticks > 1, "each poll alone is far below the limit");
    }

    #[tokio::test(start_paused = true)]
    async fn each_host_call_has_the_limit_for_itself_and_is_named() {
        let (deadline, begun) = (deadline(None, FAR), tokio::time::Instant::now());
        let waits = async |name, seconds| {
            deadline.calls().passes(CallHook::CallingHost);
            deadline.calls().is_called(name);
            sleep(Duration::from_secs(seconds)).await;
            deadline.calls().passes(CallHook::ReturningFromHost);
        };
        let call = async {
            waits("one", 9).await;
            waits("two", 9).await;
            waits("three", 11).await;
            Ok(())
        };
        let error = deadline.watch(call).await.expect_err("the third one waits too long");
        assert_eq!(error.downcast_ref(), Some(&Overrun::HostCall(Some("three"))));
        assert_eq!((begun.elapsed().as_secs(), deadline.usage.host_calls()), (28, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_outside_of_host_calls_is_the_budgets_business() {
        let deadline = deadline(None, FAR);
        let call = async {
            sleep(FAR).await;
            Ok(7)
        };
        assert_eq!(deadline.watch(call).await.expect("an answer"), 7);
    }
}
