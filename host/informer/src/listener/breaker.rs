//! Quarantine: when a listener stops handing events over, and when it tries again (design section 5).
//!
//! Used by the loop of `run`, under the listener's lock; pure, without clocks, so that its table can be tested as
//! one. A *break* is a trap or a time-out. An *answer* is any other outcome: the handler works, whatever it says.
//!
//! | state | an answer | a break | its time has come, and an event is there | other handlers |
//! | --- | --- | --- | --- | --- |
//! | healthy | | failing | | |
//! | failing | healthy | failing; quarantined, once so many different events broke | | healthy |
//! | quarantined | healthy | the same | probing | healthy |
//! | probing | healthy | quarantined, twice as long | | healthy |
//!
//! In quarantine nothing is handed over, and the queue merges. A delivery from before may still come back there; its
//! break says nothing new. A probe is one delivery, over all lanes. Events are told apart by registration and object,
//! so one that fails each time counts once, and never brings quarantine on by itself.
//!
//! Invariant: what is kept has a bound, [`MOST`], whatever the handlers do.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::config::ListenerConfig;
use crate::queue::EntryKey;

/// Different events that are told apart.
const MOST: usize = 10_000;

/// See the file's head.
pub(super) struct Breaker {
    circuit: Circuit,
    /// When the state began; a probe that fails begins no new quarantine.
    since: Instant,
    /// The last break, if the state is not healthy.
    cause: Option<Arc<str>>,
    quarantines: u64,
}

enum Circuit {
    Healthy,
    Failing {
        /// Whose events broke since the last answer.
        broken: HashSet<EntryKey>,
    },
    Quarantined {
        until: Instant,
        /// Probes that failed.
        probes: u32,
    },
    Probing {
        /// Probes that failed before.
        probes: u32,
    },
}

/// Whether events may be handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// They may.
    Open,
    /// One, if no other is under way.
    Probe,
    /// None.
    Shut,
}

/// A state of the table in the head of this file, without its particulars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HealthState {
    /// The last event did not break a handler.
    #[default]
    Healthy,
    /// Events break handlers, and no other was handled since.
    Failing,
    /// Nothing is handed over for a while.
    Quarantined,
    /// One event is being tried.
    Probing,
}

impl HealthState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Healthy, Self::Failing, Self::Quarantined, Self::Probing];

    /// The word used in metrics and on status pages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Failing => "failing",
            Self::Quarantined => "quarantined",
            Self::Probing => "probing",
        }
    }
}

/// How a listener's handlers fare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Which state it is in.
    pub state: HealthState,
    /// For how long; quarantine goes on over probes that fail.
    pub lasts: Duration,
    /// How long until the next probe; none if that is not what it waits for.
    pub until: Option<Duration>,
    /// The last break: event, outcome and message. None if healthy.
    pub cause: Option<Arc<str>>,
    /// How often it went into quarantine.
    pub quarantines: u64,
}

/// A transition, as it is told to whoever runs the listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthChange {
    /// Healthy to failing.
    Failing {
        /// The break.
        cause: Arc<str>,
    },
    /// Failing to quarantined.
    Quarantined {
        /// Until the first probe.
        wait: Duration,
        /// Different events that broke handlers, without an answer between them.
        events: usize,
        /// The last break.
        cause: Arc<str>,
    },
    /// Quarantined to probing.
    Probing {
        /// The event that is tried.
        event: String,
    },
    /// Probing to quarantined.
    ProbeFailed {
        /// Until the next probe.
        wait: Duration,
        /// The break.
        cause: Arc<str>,
    },
    /// To healthy: an event was answered.
    Recovered {
        /// From which state.
        from: HealthState,
        /// How long that lasted.
        lasted: Duration,
    },
    /// To healthy: other handlers took over.
    Replaced {
        /// From which state.
        from: HealthState,
        /// How long that lasted.
        lasted: Duration,
    },
}

impl Breaker {
    pub(super) fn new(now: Instant) -> Self {
        Self { circuit: Circuit::Healthy, since: now, cause: None, quarantines: 0 }
    }

    /// A delivery was answered.
    pub(super) fn answered(&mut self, now: Instant) -> Option<HealthChange> {
        let (from, lasted) = self.heal(now)?;
        Some(HealthChange::Recovered { from, lasted })
    }

    /// Other handlers take over; no delivery is under way.
    pub(super) fn replaced(&mut self, now: Instant) -> Option<HealthChange> {
        let (from, lasted) = self.heal(now)?;
        Some(HealthChange::Replaced { from, lasted })
    }

    fn heal(&mut self, now: Instant) -> Option<(HealthState, Duration)> {
        let (from, lasted) = (self.state(), now - self.since);
        if from == HealthState::Healthy {
            return None;
        }
        self.circuit = Circuit::Healthy;
        self.since = now;
        self.cause = None;
        Some((from, lasted))
    }

    /// The delivery of an event of `id` broke its handler.
    pub(super) fn broke(
        &mut self,
        id: &EntryKey,
        cause: Arc<str>,
        now: Instant,
        config: &ListenerConfig,
    ) -> Option<HealthChange> {
        self.cause = Some(cause.clone());
        match &mut self.circuit {
            Circuit::Healthy => {
                self.circuit = Circuit::Failing { broken: HashSet::new() };
                self.since = now;
                let more = self.failed(id, &cause, now, config);
                more.or(Some(HealthChange::Failing { cause }))
            }
            Circuit::Failing { .. } => self.failed(id, &cause, now, config),
            Circuit::Quarantined { .. } => None,
            Circuit::Probing { probes } => {
                let probes = probes.saturating_add(1);
                let wait = config.quarantine(probes);
                self.circuit = Circuit::Quarantined { until: now + wait, probes };
                Some(HealthChange::ProbeFailed { wait, cause })
            }
        }
    }

    /// One more break while failing.
    fn failed(
        &mut self,
        id: &EntryKey,
        cause: &Arc<str>,
        now: Instant,
        config: &ListenerConfig,
    ) -> Option<HealthChange> {
        let Circuit::Failing { broken } = &mut self.circuit else { return None };
        if broken.len() < MOST {
            broken.insert(id.clone());
        }
        let events = broken.len();
        if config.quarantine_after.is_none_or(|after| events < after.min(MOST)) {
            return None;
        }
        let wait = config.quarantine(0);
        self.circuit = Circuit::Quarantined { until: now + wait, probes: 0 };
        self.since = now;
        self.quarantines += 1;
        Some(HealthChange::Quarantined { wait, events, cause: cause.clone() })
    }

    /// An event is handed over as a probe, since the gate said so.
    pub(super) fn probe(&mut self, event: String) -> Option<HealthChange> {
        let Circuit::Quarantined { probes, .. } = self.circuit else { return None };
        self.circuit = Circuit::Probing { probes };
        Some(HealthChange::Probing { event })
    }

    pub(super) fn gate(&self, now: Instant) -> Gate {
        match self.circuit {
            Circuit::Healthy | Circuit::Failing { .. } => Gate::Open,
            Circuit::Quarantined { until, .. } if until <= now => Gate::Probe,
            Circuit::Quarantined { .. } | Circuit::Probing { .. } => Gate::Shut,
        }
    }

    /// When the next probe may be, in quarantine.
    pub(super) fn until(&self) -> Option<Instant> {
        match self.circuit {
            Circuit::Quarantined { until, .. } => Some(until),
            Circuit::Healthy | Circuit::Failing { .. } | Circuit::Probing { .. } => None,
        }
    }

    /// Whether the queue is to merge what comes.
    pub(super) fn holds(&self) -> bool {
        matches!(self.state(), HealthState::Quarantined | HealthState::Probing)
    }

    pub(super) fn state(&self) -> HealthState {
        match self.circuit {
            Circuit::Healthy => HealthState::Healthy,
            Circuit::Failing { .. } => HealthState::Failing,
            Circuit::Quarantined { .. } => HealthState::Quarantined,
            Circuit::Probing { .. } => HealthState::Probing,
        }
    }

    pub(super) fn quarantines(&self) -> u64 {
        self.quarantines
    }

    pub(super) fn health(&self, now: Instant) -> Health {
        Health {
            state: self.state(),
            lasts: now.saturating_duration_since(self.since),
            until: self.until().map(|until| until.saturating_duration_since(now)),
            cause: self.cause.clone(),
            quarantines: self.quarantines,
        }
    }
}
