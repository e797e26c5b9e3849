//! What a listener was told, in the words of neither client: recorded from both, compared, printed.
//!
//! Used by all of the suite. Invariant: two events are equal if and only if a handler could not tell them apart,
//! but for the objects' content, which a script never changes without the version.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A state of an object, as far as it can be told from others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct State {
    /// In a finished trace, which incarnation of the key it is: `#1`, `#2`, since each server makes uids of its
    /// own.
    pub uid: String,
    /// `resourceVersion`.
    pub version: String,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Told {
    /// An add.
    Add {
        /// The state.
        state: State,
        /// It was there when the listener joined.
        initial: bool,
    },
    /// An update.
    Update {
        /// Before.
        old: State,
        /// After.
        new: State,
        /// The client said that it is a resync. client-go has no word for it.
        resync: bool,
    },
    /// A delete.
    Delete {
        /// The last state.
        state: State,
        /// Only a list told.
        unknown: bool,
    },
}

/// One call of a handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Event {
    /// `resource namespace/name`.
    pub key: String,
    /// What happened.
    pub told: Told,
}

impl Event {
    /// The state that the handler knows now; none after a delete.
    pub(super) fn after(&self) -> Option<&State> {
        match &self.told {
            Told::Add { state, .. } | Told::Update { new: state, .. } => Some(state),
            Told::Delete { .. } => None,
        }
    }

    /// Whether this is an update that changed nothing.
    pub(super) fn is_unchanged(&self) -> bool {
        matches!(&self.told, Told::Update { old, new, .. } if old == new)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.uid, self.version)
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { state, initial: true } => write!(f, "initial add {state}"),
            Self::Add { state, initial: false } => write!(f, "add {state}"),
            Self::Update { old, new, resync: true } => write!(f, "resync {old} -> {new}"),
            Self::Update { old, new, resync: false } => write!(f, "update {old} -> {new}"),
            Self::Delete { state, unknown: true } => write!(f, "delete {state} unknown"),
            Self::Delete { state, unknown: false } => write!(f, "delete {state}"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.told)
    }
}
