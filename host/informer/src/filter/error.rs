//! Why a filter is refused when it is loaded.
//!
//! Invariant: each error names the pointer, or the selector, and where it stands, so that whoever wrote the
//! filter finds it.

use super::condition::ConditionError;
use super::field_selector::FieldSelectorError;
use super::labels::LabelSelectorError;
use super::pointer::PointerError;

/// The parts of a filter that have bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `where`
    Where,
    /// `changed`
    Changed,
    /// `fields`
    Fields,
    /// `indexes`
    Indexes,
}

impl Part {
    /// The word that a user writes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Where => "where",
            Self::Changed => "changed",
            Self::Fields => "fields",
            Self::Indexes => "indexes",
        }
    }
}

/// One thing that is wrong with a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// The label selector.
    #[error("label selector \"{selector}\": {error}")]
    Labels {
        /// As written.
        selector: String,
        /// What is wrong with it.
        error: LabelSelectorError,
    },
    /// The field selector.
    #[error("field selector \"{selector}\": {error}")]
    FieldSelector {
        /// As written.
        selector: String,
        /// What is wrong with it.
        error: FieldSelectorError,
    },
    /// A selector that is too long to be repeated here.
    #[error("{which} selector is longer than {limit} bytes")]
    SelectorTooLong {
        /// `label` or `field`.
        which: &'static str,
        /// The bound.
        limit: usize,
    },
    /// A condition of `where`.
    #[error("where {pointer} {operator}: {error}")]
    Condition {
        /// Its pointer as written, cut off if it is very long.
        pointer: String,
        /// Its operator's word.
        operator: &'static str,
        /// What is wrong with it.
        error: ConditionError,
    },
    /// A pointer of `changed`, `fields` or `indexes`.
    #[error("{}: {error}", part.as_str())]
    Pointer {
        /// Where it stands.
        part: Part,
        /// What is wrong with it.
        error: PointerError,
    },
    /// Too many of something.
    #[error("{}: {count} entries, more than {limit}", part.as_str())]
    TooMany {
        /// Of what.
        part: Part,
        /// How many.
        count: usize,
        /// The bound.
        limit: usize,
    },
}
