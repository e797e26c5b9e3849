//! Runs one target as the [`Mode`] says.
//!
//! Invariants: a target that fails makes its test fail; with the tests nothing depends on the clock.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{TestCaseError, TestCaseResult};
use rustix::time::{ClockId, clock_gettime};

use crate::case::{self, Failure};
use crate::mode::Mode;
use crate::report::{self, InHand, Tally};

/// What is tried of a target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// What comes after `fuzz_` in its test's name.
    pub name: &'static str,
    /// Cases that are tried with the tests: a second or two.
    pub cases: u64,
    /// CPU time that a case may take in a long run.
    pub within: Duration,
}

/// The bytes of an input that is a file's content.
type Bytes<V> = Option<fn(&V) -> &[u8]>;

/// Runs a target whose inputs are values. They are saved as text; the number in it makes them again.
///
/// # Panics
/// If a case fails.
pub fn values<S: Strategy>(
    target: Target,
    strategy: impl Fn() -> S + Sync,
    check: impl Fn(&S::Value) -> TestCaseResult + Sync,
) {
    match Mode::from_env() {
        Mode::Replay(file) => {
            let text = std::fs::read_to_string(&file).expect("the saved file");
            again(&strategy(), report::saved_seed(&text).expect("a case's number"), check);
        }
        mode => run(target, &mode, &strategy, &check, None),
    }
}

/// Runs a target whose inputs are files' contents.
///
/// # Panics
/// If a case fails.
pub fn files<S: Strategy<Value: AsRef<[u8]>>>(
    target: Target,
    strategy: impl Fn() -> S + Sync,
    check: impl Fn(&[u8]) -> TestCaseResult + Sync,
) {
    let mode = Mode::from_env();
    if let Mode::Replay(file) = &mode {
        let content = std::fs::read(file).expect("the saved file");
        return match std::str::from_utf8(&content).ok().and_then(report::saved_seed) {
            // Saved first: the process may die of it.
            Some(seed) => again(&strategy(), seed, |value| {
                std::fs::write(file.with_extension("bin"), value.as_ref()).expect("beside the saved file");
                check(value.as_ref())
            }),
            None => check(&content).unwrap_or_else(|error| panic!("{error}")),
        };
    }
    run(target, &mode, &strategy, &|value: &S::Value| check(value.as_ref()), Some(AsRef::as_ref));
}

/// One case again.
fn again<S: Strategy>(strategy: &S, seed: u64, check: impl Fn(&S::Value) -> TestCaseResult) {
    let input = case::input(strategy, seed).expect("a case of this target");
    check(&input).unwrap_or_else(|error| panic!("{error}\n{input:#?}"));
}

fn run<S: Strategy>(
    target: Target,
    mode: &Mode,
    strategy: &(impl Fn() -> S + Sync),
    check: &(impl Fn(&S::Value) -> TestCaseResult + Sync),
    bytes: Bytes<S::Value>,
) {
    let failed = match mode {
        Mode::Long { time, seed, out } => long(target, *time, *seed, out, strategy, check, bytes),
        Mode::Test | Mode::Replay(_) => short(target, &strategy(), check),
    };
    assert!(failed.is_none(), "{}: {}", target.name, failed.unwrap_or_default());
}

/// The cases that are tried with the tests. Gives the first failure.
fn short<S: Strategy>(
    target: Target,
    strategy: &S,
    check: &impl Fn(&S::Value) -> TestCaseResult,
) -> Option<String> {
    (0..target.cases).find_map(|index| {
        let Failure { seed, reason, value } = case::run(strategy, case::seed(0, index), check).err()?;
        Some(format!("case {seed:#018x}: {reason}\n{value:#?}"))
    })
}

/// Cases for a time, on all cores. Prints what came of it; gives how many failed.
fn long<S: Strategy>(
    target: Target,
    time: Duration,
    seed: u64,
    out: &Path,
    strategy: &(impl Fn() -> S + Sync),
    check: &(impl Fn(&S::Value) -> TestCaseResult + Sync),
    bytes: Bytes<S::Value>,
) -> Option<String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let tally = Mutex::new(Tally::default());
    let next = AtomicU64::new(0);
    let begun = Instant::now();
    let work = |thread| -> std::io::Result<()> {
        let in_hand = InHand::new(target.name, out, thread)?;
        let strategy = strategy();
        while begun.elapsed() < time {
            let seed = case::seed(seed, next.fetch_add(1, Ordering::Relaxed));
            in_hand.set(seed)?;
            let start = cpu_time();
            let result = case::run(&strategy, seed, |value| timed(target.within, || check(value)));
            let took = cpu_time().saturating_sub(start);
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            match result {
                Ok(()) => tally.case(seed, took),
                Err(failure) => {
                    let content = bytes.map(|bytes| bytes(&failure.value));
                    tally.failure(target.name, out, &failure, content)?;
                }
            }
        }
        in_hand.done()
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn({
                    let work = &work;
                    move || work(thread)
                })
            })
            .collect();
        for one in running {
            one.join().expect("a thread of the target").expect("the folder for failures can be written");
        }
    });
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    report::print(&tally.line(target.name, begun.elapsed(), threads)).expect("standard error");
    (tally.failed > 0).then(|| format!("{} cases failed", tally.failed))
}

/// The check, failed if it takes too much of its thread's CPU time.
fn timed(within: Duration, check: impl Fn() -> TestCaseResult) -> TestCaseResult {
    let start = cpu_time();
    check()?;
    let took = cpu_time().saturating_sub(start);
    if took > within {
        return Err(TestCaseError::fail(format!("took {took:?} of CPU time, more than {within:?}")));
    }
    Ok(())
}

/// CPU time of this thread. What a compiler does on threads of its own is not in it.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
