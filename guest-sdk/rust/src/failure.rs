//! Why a handler did not do its work: the error half of every handler's result. Used by plugin authors
//! through `?`, and by the adapter that hands it to the host. Invariant: every conversion chooses between
//! "try again" and "give up" for a reason that its documentation states.

use std::fmt::Display;
use std::time::Duration;

/// What a handler returns: `Ok(())` once the event is dealt with.
pub type Outcome = Result<(), Failure>;

/// Why a handler did not do its work, and what the host shall do about the event.
///
/// `?` converts:
///
/// * [`serde_json::Error`] to **permanent**: the same bytes decode no better the next time, and a later state
///   of the object arrives as an event of its own. Retrying would hold back exactly that event.
/// * [`settings::Error`](crate::settings::Error) to **retry**: the operator's file is at fault, not the event.
/// * [`cache::Error`](crate::cache::Error) to **retry** if the cache is not filled yet, else to **permanent**.
///
/// For every other error, say which it is with [`OrFailure`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Deliver the event again. Later events of the same object wait for it; other objects go on.
    Retry {
        /// What went wrong, for the operator's log.
        message: String,
        /// How long to wait; none: the host's own back-off, which grows from 0.5 s to 5 minutes.
        after: Option<Duration>,
    },
    /// Give this event up: it is logged and counted, and never delivered again.
    Permanent {
        /// What went wrong, for the operator's log.
        message: String,
    },
}

impl Failure {
    /// Try the event again, when the host's own back-off says so.
    pub fn retry(message: impl Display) -> Self {
        Self::Retry { message: message.to_string(), after: None }
    }

    /// Try the event again after this long.
    pub fn retry_after(message: impl Display, after: Duration) -> Self {
        Self::Retry { message: message.to_string(), after: Some(after) }
    }

    /// Give the event up.
    pub fn permanent(message: impl Display) -> Self {
        Self::Permanent { message: message.to_string() }
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        match self {
            Self::Retry { message, .. } | Self::Permanent { message } => message,
        }
    }

    /// Whether the host will deliver the event again.
    pub fn is_retry(&self) -> bool {
        matches!(self, Self::Retry { .. })
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Failure {}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::permanent(format_args!("cannot decode the object: {error}"))
    }
}

impl From<crate::settings::Error> for Failure {
    fn from(error: crate::settings::Error) -> Self {
        Self::retry(error)
    }
}

impl From<crate::cache::Error> for Failure {
    fn from(error: crate::cache::Error) -> Self {
        match error {
            crate::cache::Error::NotSynced => Self::retry(error),
            _ => Self::permanent(error),
        }
    }
}

/// Turns any error into a [`Failure`], naming what was being done.
///
/// ```
/// use hark_guest::{Failure, OrFailure};
///
/// fn replicas(text: &str) -> Result<u32, Failure> {
///     text.parse().or_permanent("reading the annotation")
/// }
/// assert_eq!(
///     replicas("many").unwrap_err().message(),
///     "reading the annotation: invalid digit found in string",
/// );
/// ```
pub trait OrFailure<T> {
    /// An error means: try the event again.
    fn or_retry(self, doing: &str) -> Result<T, Failure>;

    /// An error means: give the event up.
    fn or_permanent(self, doing: &str) -> Result<T, Failure>;
}

impl<T, E: Display> OrFailure<T> for Result<T, E> {
    fn or_retry(self, doing: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure::retry(format_args!("{doing}: {error}")))
    }

    fn or_permanent(self, doing: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure::permanent(format_args!("{doing}: {error}")))
    }
}
