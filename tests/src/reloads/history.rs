//! What the server did, object by object, as those who made it do so wrote it down.
//!
//! Invariant: of each object, the states are in the order in which the server committed them: one task at a time changes
//! it, and waits for the answer.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// What kinds of objects there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Of v1.
    ConfigMap,
    /// Of v1.
    ServiceAccount,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::ConfigMap, Self::ServiceAccount];

    /// As the server names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::ServiceAccount => "ServiceAccount",
        }
    }
}

/// Namespaces of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "they differ in nothing but their names")]
pub enum Namespace {
    A,
    B,
    C,
}

impl Namespace {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::A, Self::B, Self::C];

    /// As the server names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "reloads-a",
            Self::B => "reloads-b",
            Self::C => "reloads-c",
        }
    }
}

/// Microseconds since 1970.
pub type Moment = i64;

/// This moment.
pub fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::try_from(since.as_micros()).unwrap_or(Moment::MAX)
}

/// What of an object decides who is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looks {
    /// Its label `watch` is `yes`, not `no`.
    pub labelled: bool,
    /// Its label `phase` is `off`, not `on`.
    pub off: bool,
    /// See [`Part`](super::plan::Part).
    pub text: u32,
    /// See [`Part`](super::plan::Part).
    pub more: u32,
}

/// A state that the server committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// When it was asked for.
    pub at: Moment,
    /// Of the object.
    pub uid: String,
    /// The state's version and looks; none: the object is gone.
    pub state: Option<(u64, Looks)>,
}

/// An object's place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Of the object.
    pub kind: Kind,
    /// Of the object.
    pub namespace: Namespace,
    /// Of the object.
    pub name: String,
}

impl Place {
    /// As the trace has it.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace.name(), self.name)
    }
}

/// See the file's head.
#[derive(Debug, Clone, Default)]
pub struct History {
    objects: BTreeMap<Place, Vec<Commit>>,
    commits: usize,
}

impl History {
    /// Writes down what the server did next to an object.
    pub fn add(&mut self, place: &Place, commit: Commit) {
        self.commits += 1;
        self.objects.entry(place.clone()).or_default().push(commit);
    }

    /// All objects there ever were.
    pub fn objects(&self) -> impl Iterator<Item = (&Place, &[Commit])> {
        self.objects.iter().map(|(place, commits)| (place, commits.as_slice()))
    }

    /// How many changes there were.
    pub fn len(&self) -> usize {
        self.commits
    }

    /// Whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.commits == 0
    }
}
