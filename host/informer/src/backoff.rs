//! How long the reflector waits after a failure: one exponential sequence with jitter.
//!
//! Used by the reflector for its outer loop and for failed watch requests alike (rule R-BO-1). Invariant: a
//! wait is never shorter than its nominal step and never as long as twice that.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::time::Instant;

/// The numbers of a back-off. The default is client-go's (rule R-BO-1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackoffConfig {
    /// First nominal step.
    pub initial: Duration,
    /// Each step is this many times the one before.
    pub factor: f64,
    /// Greatest nominal step.
    pub cap: Duration,
    /// A step `d` becomes `d + U[0, jitter)·d`.
    pub jitter: f64,
    /// The sequence begins anew when no step was asked for during this time.
    pub reset_after: Duration,
}

impl Default for BackoffConfig {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(800),
            factor: 2.0,
            cap: Duration::from_secs(30),
            jitter: 1.0,
            reset_after: Duration::from_secs(120),
        }
    }
}

/// The state of one back-off sequence, kept for the life of a reflector.
///
/// The reset rule is kube-rs's, not client-go's: the sequence begins anew after two minutes without a step,
/// while client-go's begins anew two minutes after its last beginning, so that it speeds up again every two
/// minutes of an outage (rule R-BO-2, a deliberate deviation).
#[derive(Debug)]
pub struct Backoff {
    config: BackoffConfig,
    next: Duration,
    last_step: Option<Instant>,
    random: SmallRng,
}

impl Backoff {
    /// A sequence at its beginning. The same `seed` gives the same jitter; none: a random one.
    pub fn new(config: BackoffConfig, seed: Option<u64>) -> Self {
        let random = seed.map_or_else(SmallRng::from_os_rng, SmallRng::seed_from_u64);
        Self { config, next: config.initial, last_step: None, random }
    }

    /// The next wait; moves the sequence on.
    pub fn step(&mut self) -> Duration {
        let now = Instant::now();
        if self.last_step.is_some_and(|last| now.duration_since(last) > self.config.reset_after) {
            self.reset();
        }
        self.last_step = Some(now);
        let nominal = self.next.min(self.config.cap);
        self.next = nominal.mul_f64(self.config.factor).min(self.config.cap);
        nominal + nominal.mul_f64(self.config.jitter * self.random.random::<f64>())
    }

    /// A wait of the first step, which leaves the sequence where it is: for what is no failure.
    pub(crate) fn first_step(&mut self) -> Duration {
        let nominal = self.config.initial.min(self.config.cap);
        nominal + nominal.mul_f64(self.config.jitter * self.random.random::<f64>())
    }

    /// `wait` and up to a second more, so that clients told the same do not come back together.
    pub(crate) fn spread(&mut self, wait: Duration) -> Duration {
        wait + wait.min(Duration::from_secs(1)).mul_f64(self.config.jitter * self.random.random::<f64>())
    }

    /// Begins the sequence anew.
    pub fn reset(&mut self) {
        self.next = self.config.initial;
    }

    /// A whole number drawn uniformly from a closed range, from the same seed as the jitter.
    pub(crate) fn draw(&mut self, from: u64, to: u64) -> u64 {
        self.random.random_range(from..=to.max(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nominal_steps(backoff: &mut Backoff, count: usize) -> Vec<f64> {
        (0..count).map(|_| backoff.step().as_secs_f64()).collect()
    }

    fn without_jitter() -> Backoff {
        Backoff::new(BackoffConfig { jitter: 0.0, ..BackoffConfig::default() }, Some(1))
    }

    #[tokio::test(start_paused = true)]
    async fn steps_double_from_0_8_s_to_30_s() {
        let steps = nominal_steps(&mut without_jitter(), 8);
        assert_eq!(steps, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0], "R-BO-1");
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_lengthens_a_step_to_less_than_twice() {
        for seed in 0..200 {
            let mut backoff = Backoff::new(BackoffConfig::default(), Some(seed));
            for nominal in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0] {
                let step = backoff.step().as_secs_f64();
                assert!((nominal..nominal * 2.0).contains(&step), "R-BO-1: {step} of {nominal}, seed {seed}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_seed_gives_the_same_waits() {
        let waits = |seed| nominal_steps(&mut Backoff::new(BackoffConfig::default(), Some(seed)), 10);
        assert_eq!(waits(7), waits(7));
        assert_ne!(waits(7), waits(8));
    }

    #[tokio::test(start_paused = true)]
    async fn begins_anew_after_two_quiet_minutes_and_not_during_an_outage() {
        let mut backoff = without_jitter();
        for _ in 0..10 {
            let wait = backoff.step();
            tokio::time::advance(wait + Duration::from_secs(1)).await;
        }
        assert_eq!(backoff.step(), Duration::from_secs(30), "R-BO-2 (D): minutes of failure do not reset it");
        tokio::time::advance(Duration::from_secs(120)).await;
        assert_eq!(backoff.step(), Duration::from_secs(30), "two minutes are not more than two minutes");
        tokio::time::advance(Duration::from_secs(121)).await;
        assert_eq!(backoff.step(), Duration::from_millis(800));
    }

    #[tokio::test(start_paused = true)]
    async fn a_custom_sequence_is_kept_to() {
        let config = BackoffConfig {
            initial: Duration::from_millis(10),
            cap: Duration::from_millis(100),
            jitter: 0.0,
            ..BackoffConfig::default()
        };
        let total: f64 = nominal_steps(&mut Backoff::new(config, None), 5).iter().sum();
        assert!((0.25..=0.3).contains(&total), "TestNewReflectorWithCustomBackoff: {total}");
    }
}
