//! What follows a failure: how long the reflector leaves the server alone, and what it does then.
//!
//! Used by every state. Invariant: all failures share one back-off sequence (rule R-BO-1), and what the server
//! asks for goes before it.

use std::time::Duration;

use tokio::time::Instant;

use super::{ListReason, ProblemKind, Reflector, ReflectorStore, State};
use crate::status::ApiError;

/// Longest `Retry-After` that is obeyed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);

/// How often in a row a `Retry-After` is obeyed as it is; then the back-off's step counts if it is longer
/// (client-go's REST layer, section 1.10).
pub(super) const MAX_OBEYED: u32 = 10;

/// Longest wait before asking again for a resource that is absent or forbidden: somebody may be putting that
/// right just now.
pub(super) const MAX_HEALABLE_WAIT: Duration = Duration::from_secs(30);

/// What follows a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// A whole new cycle: discovery if need be, list, watch.
    Cycle,
    /// A watch at the last version; no list.
    Watch,
}

impl<S: ReflectorStore> Reflector<S> {
    /// R-LOOP-1: a list failed, or what goes before it; wait, and begin a new cycle.
    pub(super) fn cycle_failed(&mut self, error: &ApiError) -> State {
        self.new_cycle_after(error, ListReason::Retry)
    }

    /// Waits, and begins a new cycle. A resource that is not there is looked up again then.
    pub(super) fn new_cycle_after(&mut self, error: &ApiError, reason: ListReason) -> State {
        let kind = error.problem_kind();
        if kind == ProblemKind::Absent {
            self.source.forget();
        }
        // The first list is still the first one when it has failed.
        if self.health.has_listed() {
            self.reason = reason;
        }
        self.health.failed(kind, error.to_string());
        self.wait(Some(error), After::Cycle)
    }

    pub(super) fn wait(&mut self, error: Option<&ApiError>, then: After) -> State {
        let wait = match error {
            Some(error) => self.next_wait(error),
            None => self.backoff.step(),
        };
        State::Wait { until: Instant::now() + wait, then }
    }

    /// R-BO-1: one sequence for everything, but what the server asks for goes before it.
    pub(super) fn next_wait(&mut self, error: &ApiError) -> Duration {
        if !error.problem_kind().holds_others_back() {
            return self.backoff.step().min(MAX_HEALABLE_WAIT);
        }
        let Some(asked) = error.status().and_then(|status| status.retry_after) else {
            return self.backoff.step();
        };
        let asked = asked.min(MAX_RETRY_AFTER);
        self.obeyed += 1;
        let step = if self.obeyed > MAX_OBEYED { self.backoff.step() } else { Duration::ZERO };
        step.max(self.backoff.spread(asked))
    }
}

impl ApiError {
    /// Whether the same request may well succeed in a moment.
    pub(super) fn may_pass_soon(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Status(status) => {
                let is_busy =
                    status.is_too_many_requests() || (status.code >= 500 && status.retry_after.is_some());
                is_busy && !self.makes_version_unavailable()
            }
            Self::Credentials(_) | Self::Decode(_) | Self::Absent(_) => false,
        }
    }
}
