//! Whether a watch that ended with an internal error of the server is opened again without a list (R-W-8).
//!
//! Used by the reflector's watch states. Invariant: within one run of internal errors, watches are opened again
//! for no longer than the limit after the first of them.

use std::time::Duration;

use tokio::time::Instant;

/// A run of errors ends when none came for so long.
const QUIET: Duration = Duration::from_secs(60);

/// A run of internal errors, and how long it may last.
#[derive(Debug)]
pub(super) struct InternalRetry {
    limit: Duration,
    /// When the run's first and last errors came.
    run: Option<(Instant, Instant)>,
}

impl InternalRetry {
    /// Retries for so long; zero: never.
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, run: None }
    }

    /// An internal error came now. Says whether to go on without a list; if not, the next one begins a new run.
    /// Other errors are not told, and leave a run as it is.
    pub(super) fn goes_on(&mut self) -> bool {
        let now = Instant::now();
        let first = match self.run {
            Some((first, last)) if now.duration_since(last) < QUIET => first,
            _ => now,
        };
        let goes_on = !self.limit.is_zero() && now.duration_since(first) <= self.limit;
        self.run = goes_on.then_some((first, now));
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn seconds(count: u64) {
        tokio::time::advance(Duration::from_secs(count)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_lasts_up_to_its_limit_and_the_limit_itself_counts() {
        let mut never = InternalRetry::new(Duration::ZERO);
        assert!(!never.goes_on() && !never.goes_on(), "TestRetryWithDeadline (a)");
        let mut retry = InternalRetry::new(Duration::from_secs(1));
        assert!(retry.goes_on(), "TestRetryWithDeadline (b), at 1 s");
        seconds(1).await;
        assert!(retry.goes_on(), "at 2 s");
        seconds(1).await;
        assert!(!retry.goes_on(), "at 3 s");
        assert!(retry.goes_on(), "the run that was too long is over");
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_minute_begins_a_new_run() {
        let mut retry = InternalRetry::new(Duration::from_secs(30));
        assert!(retry.goes_on());
        seconds(59).await;
        assert!(!retry.goes_on(), "R-W-8: less than a minute later it is the same run");
        let mut retry = InternalRetry::new(Duration::from_secs(30));
        assert!(retry.goes_on());
        seconds(60).await;
        assert!(retry.goes_on(), "R-W-8");
    }
}
