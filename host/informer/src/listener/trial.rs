//! Trial: whether handlers that have just begun are any good, so that others can take their place again if they are not.
//!
//! Used by the loop of `run`, under the listener's lock; pure, without clocks, so that its table can be tested as one. A
//! *break* and an *answer* are what they are to the [breaker](super::breaker). Attempts are counted over all lanes, and made
//! one at a time until one is answered: so the handlers of a trial that fails have answered nothing, and whoever goes on from
//! what those before them left has missed nothing.
//!
//! | state | an answer | a break | others begin, on trial | others begin | told to go on |
//! | --- | --- | --- | --- | --- | --- |
//! | settled | | | on trial | | |
//! | on trial | settled: passed | on trial; failed, once so many attempts broke | on trial, afresh | settled | |
//! | failed | | | on trial | settled | settled |
//!
//! Failed, the listener holds: nothing more is handed over, until others begin or it is told to go on. What breaks on trial
//! is tried again however often it broke before, and brings no quarantine on: the trial is bounded itself. When others
//! begin, it is forgiven, as it says nothing about the events.
//!
//! Invariants: a verdict is given once a trial; what is kept has a bound, the attempts of a trial.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::queue::EntryKey;

/// See the file's head.
#[derive(Default)]
pub(super) struct Trial {
    state: TrialState,
    /// Whose event broke handlers on trial, once for each time. Empty if settled.
    broken: Vec<EntryKey>,
}

/// A state of the table in the head of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrialState {
    /// There is no trial.
    #[default]
    Settled,
    /// No attempt has been answered yet.
    OnTrial {
        /// Attempts that broke a handler.
        broke: u32,
        /// Attempts that end the trial badly if all of them do.
        of: NonZeroU32,
    },
    /// All of them did: nothing is handed over.
    Failed,
}

/// How a trial ended. One that others, or the listener's end, cut short has no verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrialVerdict {
    /// An attempt was answered.
    Passed,
    /// So many attempts broke a handler, and none was answered: the listener holds until it hears what to do.
    Failed {
        /// How many.
        attempts: u32,
        /// The last break: event, outcome and message.
        cause: Arc<str>,
    },
}

impl Trial {
    /// Handlers begin, on trial for so many attempts or not at all; no delivery is under way. Gives what is to be forgiven.
    pub(super) fn begin(&mut self, of: Option<NonZeroU32>) -> Vec<EntryKey> {
        self.state = of.map_or(TrialState::Settled, |of| TrialState::OnTrial { broke: 0, of });
        std::mem::take(&mut self.broken)
    }

    /// A delivery was answered.
    pub(super) fn answered(&mut self) -> Option<TrialVerdict> {
        if !matches!(self.state, TrialState::OnTrial { .. }) {
            return None;
        }
        self.settle();
        Some(TrialVerdict::Passed)
    }

    /// The delivery of an event of `id` broke its handler.
    pub(super) fn broke(&mut self, id: &EntryKey, cause: &Arc<str>) -> Option<TrialVerdict> {
        if self.state == TrialState::Settled {
            return None;
        }
        self.broken.push(id.clone());
        let TrialState::OnTrial { broke, of } = &mut self.state else { return None };
        *broke += 1;
        let attempts = *broke;
        if attempts < of.get() {
            return None;
        }
        self.state = TrialState::Failed;
        Some(TrialVerdict::Failed { attempts, cause: cause.clone() })
    }

    /// There is nobody to take their place: says whether the listener has held until now.
    pub(super) fn go_on(&mut self) -> bool {
        let held = self.holds();
        if held {
            self.settle();
        }
        held
    }

    fn settle(&mut self) {
        self.state = TrialState::Settled;
        self.broken = Vec::new();
    }

    /// Whether what breaks now is tried again however often it has.
    pub(super) fn spares(&self) -> bool {
        self.state != TrialState::Settled
    }

    /// Whether nothing may be handed over.
    pub(super) fn holds(&self) -> bool {
        self.state == TrialState::Failed
    }

    pub(super) fn state(&self) -> TrialState {
        self.state
    }
}
