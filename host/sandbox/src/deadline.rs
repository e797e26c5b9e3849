//! How long a call has run: its CPU time against the deadline, each host call's wait against its own limit, and both
//! together, for a whole event, against the budget.
//!
//! Time in which the machine had no core for the guest is neither, so it is charged to nobody.
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
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

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
    /// What the event may take.
    budget: Duration,
    /// What the event has taken in earlier polls, of this call and of those before it: CPU time, and waits.
    spent: Duration,
    /// CPU time used in earlier polls of the call.
    used: Duration,
    /// The thread's CPU clock when the present poll began, as far as is known. A call that ends before the
    /// first tick never reads that clock (it is a system call, and most calls last microseconds).
    since: Option<Duration>,
}

/// The wait for one host call.
struct Wait {
    /// Of the host call.
    number: u64,
    /// What was waited until then is counted.
    counted: Instant,
    /// The time is over.
    over: Pin<Box<Sleep>>,
    /// What it overruns then.
    overruns: Overrun,
}

impl Deadline {
    pub(crate) fn new(limits: &Limits, usage: &Arc<Usage>, ticker: &Arc<Ticker>) -> Self {
        Self {
            clocks: Mutex::new(Clocks {
                limit: limits.deadline,
                budget: limits.budget,
                spent: Duration::ZERO,
                used: Duration::ZERO,
                since: None,
            }),
            calls: HostCalls::default(),
            host_call: limits.host_call,
            usage: Arc::clone(usage),
            ticker: Arc::clone(ticker),
        }
    }

    /// The call that comes is the first one of another event.
    pub(crate) fn begin_event(&self) {
        self.clocks().spent = Duration::ZERO;
        self.begin_call();
    }

    /// Sets the CPU clock to zero for a call.
    pub(crate) fn begin_call(&self) {
        let mut clocks = self.clocks();
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
        let now = cpu_time();
        let ran = now.saturating_sub(*clocks.since.get_or_insert(now));
        if clocks.limit.is_some_and(|limit| clocks.used + ran >= limit) {
            return Err(Overrun::Deadline);
        }
        if clocks.spent + ran >= clocks.budget {
            return Err(Overrun::Budget);
        }
        Ok(())
    }

    /// The call, with its CPU time and its waits counted over all its polls, and ended when a host call waits too long.
    ///
    /// # Errors
    /// The call's own, or an [`Overrun`].
    pub(crate) async fn watch<T>(
        &self,
        call: impl Future<Output = wasmtime::Result<T>>,
    ) -> wasmtime::Result<T> {
        let _ticks = self.ticker.call();
        let _count = Count { deadline: self, before: self.calls.begun() };
        let mut call = pin!(call);
        let mut wait = None;
        let mut first = true;
        poll_fn(|context| {
            if !first {
                self.resume(wait.as_mut());
            }
            first = false;
            let answer = call.as_mut().poll(context);
            self.pause();
            if answer.is_ready() {
                return answer;
            }
            self.waits_too_long(&mut wait, context).map(|overrun| Err(overrun.into()))
        })
        .await
    }

    fn resume(&self, wait: Option<&mut Wait>) {
        let mut clocks = self.clocks();
        clocks.since = Some(cpu_time());
        if let Some(wait) = wait {
            let now = Instant::now();
            clocks.spent += now - std::mem::replace(&mut wait.counted, now);
        }
    }

    fn pause(&self) {
        let mut clocks = self.clocks();
        if let Some(since) = clocks.since.take() {
            let ran = cpu_time().saturating_sub(since);
            clocks.used += ran;
            clocks.spent += ran;
        }
    }

    /// The call is pending: if that is because of a host call, for how long already? Else it is a break, after which it
    /// goes on by itself.
    fn waits_too_long(&self, wait: &mut Option<Wait>, context: &mut Context<'_>) -> Poll<Overrun> {
        let Some(number) = self.calls.current() else {
            *wait = None;
            return Poll::Pending;
        };
        if wait.as_ref().is_none_or(|wait| wait.number != number) {
            *wait = Some(self.begin_wait(number));
        }
        match wait {
            Some(wait) => wait.over.as_mut().poll(context).map(|()| wait.overruns),
            None => Poll::Pending,
        }
    }

    fn begin_wait(&self, number: u64) -> Wait {
        let left = {
            let clocks = self.clocks();
            clocks.budget.saturating_sub(clocks.spent)
        };
        let (most, overruns) = if left < self.host_call {
            (left, Overrun::Budget)
        } else {
            (self.host_call, Overrun::HostCall(self.calls.name()))
        };
        Wait { number, counted: Instant::now(), over: Box::pin(sleep(most)), overruns }
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
    fn spinning_ends_at_the_budget_whether_there_is_a_deadline_or_not() {
        for limit in [Some(FAR), None] {
            let deadline = deadline(limit, Duration::from_millis(5));
            let mut answer = Ok(());
            spin_until(|| {
                answer = deadline.tick();
                answer.is_err()
            });
            assert_eq!(answer, Err(Overrun::Budget));
        }
    }

    #[test]
    fn a_new_call_starts_afresh() {
        let deadline = deadline(Some(Duration::from_millis(1)), FAR);
        spin_until(|| deadline.tick().is_err());
        deadline.begin_call();
        assert_eq!(deadline.tick(), Ok(()));
    }

    #[tokio::test]
    async fn a_budget_without_end_is_no_panic() {
        let deadline = deadline(None, Duration::MAX);
        assert_eq!((deadline.tick(), deadline.begin_wait(1).overruns), (Ok(()), Overrun::HostCall(None)));
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

    /// A host call that waits for so many seconds.
    async fn waits(deadline: &Deadline, name: &'static str, seconds: u64) {
        deadline.calls().passes(CallHook::CallingHost);
        deadline.calls().is_called(name);
        sleep(Duration::from_secs(seconds)).await;
        deadline.calls().passes(CallHook::ReturningFromHost);
    }

    #[tokio::test(start_paused = true)]
    async fn each_host_call_has_the_limit_for_itself_and_is_named() {
        let (deadline, begun) = (deadline(None, FAR), Instant::now());
        let call = async {
            waits(&deadline, "one", 9).await;
            waits(&deadline, "two", 9).await;
            waits(&deadline, "three", 11).await;
            Ok(())
        };
        let error = deadline.watch(call).await.expect_err("the third one waits too long");
        assert_eq!(error.downcast_ref(), Some(&Overrun::HostCall(Some("three"))));
        assert_eq!((begun.elapsed().as_secs(), deadline.usage.host_calls()), (28, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn the_waits_of_an_event_are_its_budgets_over_all_its_calls() {
        let deadline = deadline(None, Duration::from_secs(30));
        let eight = async || {
            waits(&deadline, "poll", 8).await;
            Ok(())
        };
        for _ in 0..3 {
            deadline.begin_call();
            deadline.watch(eight()).await.expect("24 of 30 seconds");
        }
        let begun = Instant::now();
        let error = deadline.watch(eight()).await.expect_err("6 are left");
        assert_eq!((error.downcast_ref(), begun.elapsed().as_secs()), (Some(&Overrun::Budget), 6));
        deadline.begin_event();
        deadline.watch(eight()).await.expect("another event");
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_guest_neither_runs_nor_waits_is_charged_to_nobody() {
        let deadline = deadline(Some(Duration::from_secs(1)), Duration::from_secs(30));
        let call = async {
            // A break that the machine makes long.
            sleep(FAR).await;
            waits(&deadline, "poll", 9).await;
            Ok(7)
        };
        assert_eq!(deadline.watch(call).await.expect("an answer"), 7);
        assert_eq!(deadline.clocks().spent.as_secs(), 9);
    }
}
