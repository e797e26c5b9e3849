//! What a reflector tells of itself: its phase, its problem and its counts.
//!
//! Written by the reflector, read by the host's readiness and status pages through a watch channel.
//! Invariants: a problem is logged once, not at every retry; it goes away by itself when what failed works
//! again.

use std::collections::HashSet;
use std::fmt;
use std::time::SystemTime;

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::list_watch::Undecodable;
use crate::object::ObjectKey;
use crate::status::{ApiError, Status};

/// Different messages of one kind that are logged before the problem heals.
const MAX_LOGGED: usize = 8;

/// Objects that did not decode which are remembered by key.
const MAX_UNDECODED: usize = 1000;

/// What a reflector is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It has not been run yet.
    Idle,
    /// Asking discovery.
    Resolving,
    /// Waiting for a list's pages or a streaming list's objects, or for the turn to ask for them.
    Listing,
    /// Following a watch.
    Watching,
    /// Leaving the server alone for a while, after a failure.
    Waiting {
        /// Until then.
        until: Instant,
    },
    /// It has been told to stop.
    Stopped,
}

/// What class of trouble a reflector has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// No connection, or no answer.
    Unreachable,
    /// The credentials are not good, or could not be made.
    Unauthorized,
    /// The credentials are not good for this resource.
    Forbidden,
    /// The server does not have this resource.
    Absent,
    /// The server asks to be left alone.
    Throttled,
    /// Something does not decode.
    Decode,
    /// The server understands the question and will not answer it as it is: a selector that it does not know.
    Rejected,
    /// The server answers with another error.
    Server,
}

impl ProblemKind {
    /// The word used on status pages and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::Absent => "absent",
            Self::Throttled => "throttled",
            Self::Decode => "decode",
            Self::Rejected => "rejected",
            Self::Server => "server",
        }
    }

    /// Whether others have to wait for this resource's first list. A forbidden or absent resource, or a selector that
    /// the server refuses, may stay so for ever, and holds nobody back.
    pub fn holds_others_back(self) -> bool {
        !matches!(self, Self::Forbidden | Self::Absent | Self::Rejected)
    }
}

/// Why a reflector is not, or not fully, doing its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its class.
    pub kind: ProblemKind,
    /// For people.
    pub message: String,
    /// When it was first noticed.
    pub since: SystemTime,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.message)
    }
}

/// A reflector's state, as its watch channel carries it. Receivers are woken when `phase`, `problem` or
/// `synced` changes; the version and the counts move on silently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReflectorStatus {
    /// What it is doing.
    pub phase: Phase,
    /// What keeps it from doing so.
    pub problem: Option<Problem>,
    /// A list has been put into the store.
    pub synced: bool,
    /// The last version seen; empty before the first list.
    pub resource_version: String,
    /// Lists put into the store.
    pub lists: u64,
    /// Those of them after the first.
    pub relists: u64,
    /// Watches opened.
    pub watches: u64,
    /// Requests and streams that failed.
    pub failures: u64,
    /// Watch events applied, bookmarks included.
    pub events: u64,
    /// Watch events passed over because their object was not one that could be carried.
    pub undecodable: u64,
}

impl Default for ReflectorStatus {
    fn default() -> Self {
        Self {
            phase: Phase::Idle,
            problem: None,
            synced: false,
            resource_version: String::new(),
            lists: 0,
            relists: 0,
            watches: 0,
            failures: 0,
            events: 0,
            undecodable: 0,
        }
    }
}

/// The reflector's own handle on its status.
#[derive(Debug)]
pub(super) struct Health {
    name: String,
    status: watch::Sender<ReflectorStatus>,
    /// Why the loop does not get on.
    fault: Option<Problem>,
    /// Objects whose last event was passed over; None stands for those that cannot be named.
    undecoded: HashSet<Option<ObjectKey>>,
    last_undecoded: Option<Problem>,
    logged: Vec<(ProblemKind, String)>,
}

impl Health {
    pub(super) fn new(name: String) -> Self {
        let (status, _) = watch::channel(ReflectorStatus::default());
        Self {
            name,
            status,
            fault: None,
            undecoded: HashSet::new(),
            last_undecoded: None,
            logged: Vec::new(),
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<ReflectorStatus> {
        self.status.subscribe()
    }

    pub(super) fn phase(&self, phase: Phase) {
        self.status.send_if_modified(|status| std::mem::replace(&mut status.phase, phase) != phase);
    }

    /// A list is in the store, which now knows of every object that can be decoded.
    pub(super) fn listed(&mut self, resource_version: &str) {
        self.undecoded.clear();
        self.status.send_modify(|status| {
            status.relists += u64::from(status.lists > 0);
            status.lists += 1;
            status.synced = true;
            resource_version.clone_into(&mut status.resource_version);
        });
        self.publish_problem();
    }

    /// Whether there was a list ever.
    pub(super) fn has_listed(&self) -> bool {
        self.status.borrow().synced
    }

    pub(super) fn watching(&self) {
        self.status.send_modify(|status| {
            status.phase = Phase::Watching;
            status.watches += 1;
        });
    }

    /// An event was applied, of the object with this key if it was of one.
    pub(super) fn applied(&mut self, key: Option<&ObjectKey>, resource_version: &str) {
        self.status.send_if_modified(|status| {
            status.events += 1;
            resource_version.clone_into(&mut status.resource_version);
            false
        });
        if let Some(key) = key.filter(|_| !self.undecoded.is_empty())
            && self.undecoded.remove(&Some(key.clone()))
        {
            info!(informer = %self.name, object = %key, "decodes again");
            self.publish_problem();
        }
    }

    /// An event was passed over.
    pub(super) fn passed_over(&mut self, event: &Undecodable) {
        let object = event.key.as_ref().map_or_else(|| String::from("unknown"), ToString::to_string);
        let is_new = self.undecoded.len() < MAX_UNDECODED && self.undecoded.insert(event.key.clone());
        if is_new {
            warn!(informer = %self.name, %object, "an event was passed over: {}", event.message);
        } else {
            debug!(informer = %self.name, %object, "an event was passed over: {}", event.message);
        }
        self.status.send_if_modified(|status| {
            status.undecodable += 1;
            false
        });
        let message = format!("events were passed over, the last one of object {object}: {}", event.message);
        let since = self.last_undecoded.as_ref().filter(|_| self.undecoded.len() > 1).map(|last| last.since);
        self.last_undecoded = Some(Problem {
            kind: ProblemKind::Decode,
            message,
            since: since.unwrap_or_else(SystemTime::now),
        });
        self.publish_problem();
    }

    /// Something failed and will be tried again.
    pub(super) fn failed(&mut self, kind: ProblemKind, message: String) {
        self.status.send_if_modified(|status| {
            status.failures += 1;
            false
        });
        self.log_once(kind, &message);
        let since = self.fault.as_ref().filter(|fault| fault.kind == kind).map(|fault| fault.since);
        self.fault = Some(Problem { kind, message, since: since.unwrap_or_else(SystemTime::now) });
        self.publish_problem();
    }

    fn log_once(&mut self, kind: ProblemKind, message: &str) {
        let is_known = self.logged.iter().any(|(logged, text)| *logged == kind && text == message);
        let of_kind = self.logged.iter().filter(|(logged, _)| *logged == kind).count();
        if is_known || of_kind >= MAX_LOGGED {
            debug!(informer = %self.name, kind = kind.as_str(), "still failing: {message}");
        } else {
            warn!(informer = %self.name, kind = kind.as_str(), "{message}");
            self.logged.push((kind, message.to_owned()));
        }
    }

    pub(super) fn is_failing(&self) -> bool {
        self.fault.is_some()
    }

    /// What failed works again; says what class of problem it was.
    pub(super) fn healed(&mut self) -> Option<ProblemKind> {
        let fault = self.fault.take()?;
        info!(informer = %self.name, "works again");
        self.logged.clear();
        self.publish_problem();
        Some(fault.kind)
    }

    fn publish_problem(&self) {
        let undecoded = self.last_undecoded.as_ref().filter(|_| !self.undecoded.is_empty());
        let problem = self.fault.as_ref().or(undecoded);
        self.status.send_if_modified(|status| {
            let changed = status.problem.as_ref() != problem;
            if changed {
                status.problem = problem.cloned();
            }
            changed
        });
    }
}

impl ApiError {
    /// The class of problem that this error is for whoever runs the host.
    pub(super) fn problem_kind(&self) -> ProblemKind {
        match self {
            Self::Status(status) => status.problem_kind(),
            Self::Unreachable(_) => ProblemKind::Unreachable,
            Self::Credentials(_) => ProblemKind::Unauthorized,
            Self::Decode(_) => ProblemKind::Decode,
            Self::Absent(_) => ProblemKind::Absent,
        }
    }
}

impl Status {
    fn problem_kind(&self) -> ProblemKind {
        if self.is_forbidden() {
            ProblemKind::Forbidden
        } else if self.is_unauthorized() {
            ProblemKind::Unauthorized
        } else if self.is_not_found() {
            ProblemKind::Absent
        } else if self.is_too_many_requests() {
            ProblemKind::Throttled
        } else if matches!(self.code, 400 | 405 | 406 | 415 | 422) {
            ProblemKind::Rejected
        } else {
            ProblemKind::Server
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> Health {
        Health::new("v1/ConfigMap".into())
    }

    fn problem(health: &Health) -> Option<(ProblemKind, String)> {
        health.status.borrow().problem.clone().map(|problem| (problem.kind, problem.message))
    }

    fn undecodable(key: Option<&str>) -> Undecodable {
        Undecodable {
            key: key.map(|name| ObjectKey::new("n", name)),
            is_deletion: false,
            message: "broken".into(),
        }
    }

    #[test]
    fn a_problem_is_kept_until_healed_and_its_beginning_with_it() {
        let mut health = health();
        health.failed(ProblemKind::Unreachable, "refused".into());
        let since = health.fault.as_ref().map(|fault| fault.since);
        health.failed(ProblemKind::Unreachable, "timed out".into());
        assert_eq!(health.fault.as_ref().map(|fault| fault.since), since);
        assert_eq!(problem(&health), Some((ProblemKind::Unreachable, "timed out".into())));
        health.healed();
        assert_eq!(problem(&health), None);
        assert_eq!(health.status.borrow().failures, 2);
    }

    #[test]
    fn each_problem_is_logged_once_until_healed() {
        let mut health = health();
        for _ in 0..3 {
            health.failed(ProblemKind::Unreachable, "refused".into());
            health.failed(ProblemKind::Forbidden, "no".into());
        }
        assert_eq!(health.logged.len(), 2);
        for port in 0..100 {
            health.failed(ProblemKind::Unreachable, format!("refused by {port}"));
        }
        assert_eq!(health.logged.len(), 1 + MAX_LOGGED, "messages that differ a little do not flood the log");
        health.healed();
        assert!(health.logged.is_empty());
    }

    #[test]
    fn an_object_passed_over_is_a_problem_until_it_decodes_or_is_listed() {
        let mut health = health();
        health.passed_over(&undecodable(Some("a")));
        health.passed_over(&undecodable(Some("b")));
        health.applied(Some(&ObjectKey::new("n", "a")), "5");
        health.healed();
        assert!(
            problem(&health).is_some_and(|(kind, text)| kind == ProblemKind::Decode && text.contains("n/b"))
        );
        health.applied(Some(&ObjectKey::new("n", "b")), "6");
        assert_eq!(problem(&health), None);
        health.passed_over(&undecodable(None));
        health.applied(Some(&ObjectKey::new("n", "a")), "7");
        assert!(problem(&health).is_some(), "what cannot be named is known to be right only after a list");
        health.listed("8");
        assert_eq!(problem(&health), None);
        assert_eq!(health.status.borrow().undecodable, 3);
    }

    #[test]
    fn receivers_are_woken_by_changes_of_state_but_not_by_every_event() {
        let mut health = health();
        let mut receiver = health.subscribe();
        health.applied(None, "5");
        assert!(!receiver.has_changed().expect("open"));
        assert_eq!(receiver.borrow().resource_version, "5");
        health.phase(Phase::Listing);
        assert!(receiver.has_changed().expect("open"));
        receiver.mark_unchanged();
        health.phase(Phase::Listing);
        assert!(!receiver.has_changed().expect("open"));
    }

    #[test]
    fn only_forbidden_and_absent_resources_do_not_hold_others_back() {
        use ProblemKind::{Absent, Decode, Forbidden, Server, Throttled, Unauthorized, Unreachable};
        let free: Vec<_> = [Unreachable, Unauthorized, Forbidden, Absent, Throttled, Decode, Server]
            .into_iter()
            .filter(|kind| !kind.holds_others_back())
            .collect();
        assert_eq!(free, [Forbidden, Absent]);
    }

    #[test]
    fn errors_have_the_class_that_an_operator_would_give_them() {
        for (code, kind) in [
            (401, ProblemKind::Unauthorized),
            (403, ProblemKind::Forbidden),
            (404, ProblemKind::Absent),
            (429, ProblemKind::Throttled),
            (400, ProblemKind::Rejected),
            (422, ProblemKind::Rejected),
            (500, ProblemKind::Server),
            (410, ProblemKind::Server),
        ] {
            assert_eq!(ApiError::Status(Status::from_response(code, None, b"")).problem_kind(), kind);
        }
    }
}
