//! The clock that makes guests look up: one thread that raises the epochs of an engine's backends every 10 ms, for as
//! long as a call is under way.
//!
//! Started by `Engine::with`, told of each call by `deadline`. An idle host would otherwise be woken a hundred times a
//! second for nothing. Invariants: no call is under way without a tick coming within [`TICK`] (and what the system adds);
//! telling costs a call two atomic operations, and a system call only when the thread is asleep; the thread ends with
//! the last holder of its [`Ticker`].
//!
//! | state | the thread | left when |
//! | --- | --- | --- |
//! | awake | ticks | no call has been under way or begun for [`QUIET`] ticks: asleep |
//! | asleep | waits, without a limit | a call begins, which wakes it: awake |
//!
//! Both sides change one word by atomic operations. The thread goes to sleep by exchanging the very value that it has
//! seen unchanged, so a call that has begun meanwhile keeps it awake; a call that begins later finds the mark.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Time between two ticks: how late a guest may notice that its time is over.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Ticks without a call before the thread goes to sleep: a host that gets events now and then wakes it now and then.
const QUIET: u32 = 10;

/// In the word: the thread is asleep.
const ASLEEP: u64 = 1;
/// In the word: one call under way. There is room for two thousand million of them.
const CALL: u64 = 1 << 1;
/// In the word: one call that has begun. They are counted to tell one quiet moment from another; the count wraps.
const BEGUN: u64 = 1 << 32;
/// The part of the word that counts calls under way.
const CALLS: u64 = BEGUN - CALL;

/// The thread's owner; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
}

/// A call that is under way, until it is dropped.
pub(crate) struct Call<'a>(&'a Ticker);

#[derive(Debug, Default)]
struct Shared {
    word: AtomicU64,
    ended: AtomicBool,
}

// === impl Ticker ===

impl Ticker {
    /// Starts the thread for the engines of all backends.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn start(engines: Vec<wasmtime::Engine>) -> io::Result<Arc<Self>> {
        Self::with(move || engines.iter().for_each(wasmtime::Engine::increment_epoch))
    }

    fn with(tick: impl Fn() + Send + 'static) -> io::Result<Arc<Self>> {
        let shared = Arc::<Shared>::default();
        let its = Arc::clone(&shared);
        let thread = thread::Builder::new().name("hark-epoch".into()).spawn(move || its.run(tick))?;
        // Nobody needs to wait for its end.
        Ok(Arc::new(Self { shared, thread: thread.thread().clone() }))
    }

    /// A call begins.
    pub(crate) fn call(&self) -> Call<'_> {
        let before = self.shared.word.fetch_add(CALL + BEGUN, Ordering::AcqRel);
        if before & ASLEEP != 0 {
            self.wake();
        }
        Call(self)
    }

    #[cold]
    fn wake(&self) {
        self.shared.word.fetch_and(!ASLEEP, Ordering::AcqRel);
        self.thread.unpark();
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.shared.word.fetch_sub(CALL, Ordering::AcqRel);
    }
}

// === impl Shared ===

impl Shared {
    /// The thread's work. It ticks at multiples of [`TICK`] after the start, so that the delays of single sleeps do not
    /// add up. Ticks that it slept through are left out: guests compare clocks, they do not count ticks.
    fn run(&self, tick: impl Fn()) {
        let start = Instant::now();
        let mut quiet = Quiet::default();
        loop {
            let past = start.elapsed().as_nanos() % TICK.as_nanos();
            // Less than a tick, so it fits; park may return early, which makes an extra tick and no harm.
            thread::park_timeout(TICK - Duration::from_nanos(u64::try_from(past).unwrap_or_default()));
            if self.ended() {
                return;
            }
            tick();
            let word = self.word.load(Ordering::Acquire);
            if quiet.lasts(word) {
                self.sleep(word);
                quiet = Quiet::default();
            }
        }
    }

    /// Sleeps until a call begins, if none has begun since the word was `seen`.
    fn sleep(&self, seen: u64) {
        let marked = self.word.compare_exchange(seen, seen | ASLEEP, Ordering::AcqRel, Ordering::Acquire);
        while marked.is_ok() && self.is_asleep() && !self.ended() {
            thread::park();
        }
    }

    fn is_asleep(&self) -> bool {
        self.word.load(Ordering::Acquire) & ASLEEP != 0
    }

    fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// How long there has been no call.
#[derive(Default)]
struct Quiet {
    seen: u64,
    ticks: u32,
}

impl Quiet {
    /// After one tick more, at which the word was this: whether there has been no call for [`QUIET`] ticks.
    fn lasts(&mut self, word: u64) -> bool {
        self.ticks = if word == self.seen && word & CALLS == 0 { self.ticks + 1 } else { 0 };
        self.seen = word;
        self.ticks >= QUIET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ticker that counts its ticks.
    fn ticker() -> (Arc<Ticker>, Arc<AtomicU64>) {
        let ticks = Arc::<AtomicU64>::default();
        let its = Arc::clone(&ticks);
        let ticker = Ticker::with(move || {
            its.fetch_add(1, Ordering::Relaxed);
        });
        (ticker.expect("a thread"), ticks)
    }

    fn wait_until(done: impl Fn() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain");
            thread::park_timeout(Duration::from_millis(1));
        }
    }

    #[test]
    fn it_sleeps_when_no_call_is_under_way_and_ticks_as_long_as_one_is() {
        let (ticker, ticks) = ticker();
        for _ in 0..3 {
            wait_until(|| ticker.shared.is_asleep());
            // It may be on its way from the mark to its bed, but it makes no tick on that way.
            let before = ticks.load(Ordering::Relaxed);
            let call = ticker.call();
            assert!(!ticker.shared.is_asleep());
            wait_until(|| ticks.load(Ordering::Relaxed) > before + u64::from(QUIET) + 2);
            drop(call);
        }
    }

    #[test]
    fn of_calls_that_begin_at_once_or_follow_each_other_none_waits_for_a_tick_in_vain() {
        let (ticker, ticks) = ticker();
        let ticked = || {
            let call = ticker.call();
            let before = ticks.load(Ordering::Relaxed);
            wait_until(|| ticks.load(Ordering::Relaxed) > before);
            drop(call);
        };
        for round in 0..10 {
            if round % 2 == 0 {
                wait_until(|| ticker.shared.is_asleep());
            }
            thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(ticked))));
        }
        assert_eq!(ticker.shared.word.load(Ordering::Relaxed) & CALLS, 0);
    }

    #[test]
    fn neither_a_long_call_nor_short_ones_are_quiet() {
        let quiet_after = |words: &mut dyn Iterator<Item = u64>| {
            let mut quiet = Quiet::default();
            words.take(1000).position(|word| quiet.lasts(word))
        };
        assert_eq!(quiet_after(&mut std::iter::repeat(0)), Some(QUIET as usize - 1));
        assert_eq!(
            quiet_after(&mut std::iter::repeat(7 * BEGUN)),
            Some(QUIET as usize),
            "a call was seen to be over"
        );
        assert_eq!(quiet_after(&mut std::iter::repeat(BEGUN + CALL)), None, "it is under way");
        assert_eq!(quiet_after(&mut (1..).map(|begun| begun * BEGUN)), None, "one between any two ticks");
    }

    #[test]
    fn it_ends_with_its_owner_asleep_or_awake_and_lets_the_engines_go() {
        for asleep in [false, true] {
            let (ticker, ticks) = ticker();
            if asleep {
                wait_until(|| ticker.shared.is_asleep());
            }
            drop(ticker);
            wait_until(|| Arc::strong_count(&ticks) == 1);
        }
    }
}
