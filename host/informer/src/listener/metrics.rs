//! Numbers about a listener, for metrics and status pages.
//!
//! Kept under the listener's lock, which is held at those moments anyway; read by [`Listener::stats`] at any time
//! by copying. Invariant: counters only rise, and each delivery is counted once.
//!
//! [`Listener::stats`]: super::Listener::stats

use tokio::time::{Duration, Instant};

use super::breaker::HealthState;
use super::lanes::Done;
use super::state::State;
use crate::handler::Outcome;

/// Upper bounds of the buckets. From a native handler's call to the longest back-off (300 s); a guest's deadline
/// (1 s), a host call's limit (10 s) and an event's budget (30 s) are bounds, so that they can be read off.
const BOUNDS: [Duration; 14] = [
    Duration::from_micros(100),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(300),
];

/// How often something took how long, in fixed buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Histogram {
    /// By bucket, not cumulative; the last one is for what exceeds all bounds.
    counts: [u64; BOUNDS.len() + 1],
    sum: Duration,
}

impl Histogram {
    /// Counts something that took so long.
    pub fn observe(&mut self, took: Duration) {
        let bucket = BOUNDS.partition_point(|bound| *bound < took);
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(took);
    }

    /// Each bucket's upper bound (none: no bound) and how many took no longer, as Prometheus counts.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        let bounds = BOUNDS.iter().copied().map(Some).chain([None]);
        let cumulative = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        bounds.zip(cumulative)
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How long all took together.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

/// Deliveries by what came of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcomes {
    /// Done.
    pub ok: u64,
    /// To be delivered again, as the handler said.
    pub retry: u64,
    /// Given up, as the handler said.
    pub permanent: u64,
    /// The handler broke.
    pub trap: u64,
    /// The handler overran its deadline.
    pub timeout: u64,
}

/// What handlers are asked between two deliveries, while nothing is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aside {
    /// Others take their place: to save, to restore, to stop.
    HandOver,
    /// That a subscription has synced.
    Synced,
    /// To stop, at the listener's end.
    Stop,
}

/// Numbers about a listener, read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListenerStats {
    /// Events waiting or being handled.
    pub pending: usize,
    /// Events being handled.
    pub in_flight: usize,
    /// Objects whose next event waits for a retry.
    pub retrying: usize,
    /// How long the oldest event has waited that is not being handled; none if no event waits.
    pub oldest_waiting: Option<Duration>,
    /// Events merged so far.
    pub merged: u64,
    /// Attempts so far that were not an event's first.
    pub retried: u64,
    /// Events given up after `max_attempts` traps or time-outs.
    pub dead: u64,
    /// Waiting events dropped so far because their registration was removed, or the listener ended.
    pub dropped: u64,
    /// Replays so far because a handler broke ([`OnRestart::Replay`](super::OnRestart::Replay)).
    pub restarts: u64,
    /// States left out so far because they were too large.
    pub oversized: u64,
    /// Objects whose present state is left out.
    pub withheld: usize,
    /// How the handlers fare; [`Listener::health`](super::Listener::health) says more.
    pub health: HealthState,
    /// How often it went into quarantine.
    pub quarantines: u64,
    /// Attempts so far, by outcome.
    pub outcomes: Outcomes,
    /// From an event's arrival to its first attempt (after a merge: from the first arrival).
    pub lag: Histogram,
    /// How long attempts took.
    pub handling: Histogram,
    /// What the handlers are asked at the moment, apart from events.
    pub aside: Option<Aside>,
    /// Whether events may flow: every healthy registration has its first list.
    pub open: bool,
    /// See [`Listener::has_synced`](super::Listener::has_synced).
    pub synced: bool,
}

/// What is counted as it happens.
#[derive(Default)]
pub(super) struct Metrics {
    pub(super) dead: u64,
    pub(super) dropped: u64,
    pub(super) restarts: u64,
    pub(super) oversized: u64,
    retried: u64,
    outcomes: Outcomes,
    lag: Histogram,
    handling: Histogram,
}

impl Metrics {
    /// Counts a call that is over.
    pub(super) fn delivered(&mut self, done: &Done) {
        let outcomes = &mut self.outcomes;
        *match done.outcome {
            Outcome::Ok => &mut outcomes.ok,
            Outcome::Retry { .. } => &mut outcomes.retry,
            Outcome::Permanent(_) => &mut outcomes.permanent,
            Outcome::Trap(_) => &mut outcomes.trap,
            Outcome::Timeout(_) => &mut outcomes.timeout,
        } += 1;
        self.handling.observe(done.took);
        match done.taken.untried_since {
            Some(since) => self.lag.observe(done.began.saturating_duration_since(since)),
            None => self.retried += 1,
        }
    }
}

impl State {
    pub(super) fn stats(&self) -> ListenerStats {
        let Metrics { dead, dropped, restarts, oversized, retried, outcomes, lag, handling } = self.metrics;
        let now = Instant::now();
        ListenerStats {
            pending: self.queue.len(),
            in_flight: self.queue.handing_over(),
            retrying: self.queue.retrying(),
            oldest_waiting: self.queue.oldest().map(|since| now.saturating_duration_since(since)),
            merged: self.queue.merged(),
            retried,
            dead,
            dropped,
            restarts,
            oversized,
            withheld: self.withheld(),
            health: self.breaker.state(),
            quarantines: self.breaker.quarantines(),
            outcomes,
            lag,
            handling,
            aside: self.aside,
            open: self.open,
            synced: self.synced() == Some(true),
        }
    }
}
