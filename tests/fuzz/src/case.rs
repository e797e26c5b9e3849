//! One case: from its number to its input, through the check, to the smallest input that fails.
//!
//! Used by `run`. Invariant: the number alone decides the input.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestError, TestRng, TestRunner};

/// How often a failing input is made smaller: a second or two of the slowest targets.
const SHRINKS: u32 = 1000;

/// A case that failed.
#[derive(Debug)]
pub(crate) struct Failure<V> {
    pub(crate) seed: u64,
    pub(crate) reason: String,
    /// The smallest input found that fails too.
    pub(crate) value: V,
}

/// The number of a run's case: neighbours have nothing in common (splitmix64).
pub(crate) fn seed(run: u64, index: u64) -> u64 {
    let mut mixed = run.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Makes a case's input and checks it.
pub(crate) fn run<S: Strategy>(
    strategy: &S,
    seed: u64,
    check: impl Fn(&S::Value) -> TestCaseResult,
) -> Result<(), Failure<S::Value>> {
    let config = Config { failure_persistence: None, max_shrink_iters: SHRINKS, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    // A strategy that filters too much has no input for some cases.
    let Ok(tree) = strategy.new_tree(&mut runner) else { return Ok(()) };
    match runner.run_one(tree, |value| check(&value)) {
        Ok(_) | Err(TestError::Abort(_)) => Ok(()),
        Err(TestError::Fail(reason, value)) => Err(Failure { seed, reason: reason.to_string(), value }),
    }
}

/// The input of a case, as it was made first.
pub(crate) fn input<S: Strategy>(strategy: &S, seed: u64) -> Option<S::Value> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    strategy.new_tree(&mut runner).ok().map(|tree| tree.current())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_gives_the_same_input_again_and_others_another() {
        let strategy = any::<u64>();
        assert_eq!(input(&strategy, 1), input(&strategy, 1));
        assert_ne!(input(&strategy, 1), input(&strategy, 2));
        assert_ne!(seed(0, 0), seed(0, 1));
        assert_ne!(seed(0, 1), seed(1, 0));
    }

    #[test]
    fn a_failure_or_a_panic_has_the_smallest_input() {
        let strategy = 0_u32..1_000_000;
        let failing = (0..).find(|seed| input(&strategy, *seed) > Some(1000)).expect("a large one");
        let check = |value: &u32| {
            prop_assert!(*value < 17, "too large");
            Ok(())
        };
        let failure = run(&strategy, failing, check).expect_err("fails");
        assert_eq!((failure.value, failure.seed), (17, failing));
        assert!(failure.reason.contains("too large"), "{}", failure.reason);
        let failure = run(&strategy, failing, |value| panic!("no {}", value / value)).expect_err("panics");
        assert!(failure.reason.contains("no 1") || failure.reason.contains("divide"), "{}", failure.reason);
    }
}
