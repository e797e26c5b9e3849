//! What a listener hands to a handler, and what it hears back.
//!
//! [`EventHandler`] is the seam between the informer and whatever handles events: the sandbox implements it
//! with a Wasm instance, a Rust program with a closure or a struct. Invariant: a handler is called with one
//! delivery at a time. [`Threaded`] gives a handler that blocks a thread of its own.

mod guard;
mod thread;
mod threaded;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub(crate) use self::guard::{Call, guarded};
pub use self::thread::start_thread;
pub use self::threaded::Threaded;
use crate::object::{Object, ObjectKey};

/// How the informer learned that an object is gone, or is no longer the subscription's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeleteReason {
    /// The watch said so; includes leaving the server-side selector.
    Deleted,
    /// Only a relist told (client-go's `DeletedFinalStateUnknown`): the state is the last one known.
    Unknown,
    /// It ceased to satisfy the subscription's conditions; it may well exist.
    Filtered,
    /// Its namespace ceased to match the subscription's namespace selector, or is gone.
    NamespaceLeft,
}

impl DeleteReason {
    /// The word used in traces and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Unknown => "unknown",
            Self::Filtered => "filtered",
            Self::NamespaceLeft => "namespace-left",
        }
    }
}

/// What happened to one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It is there now.
    Add {
        /// The state.
        object: Arc<Object>,
        /// It existed when the subscription began.
        initial: bool,
    },
    /// It changed, or a resync is due.
    Update {
        /// The last state handed over, or waiting to be.
        old: Arc<Object>,
        /// The state now.
        new: Arc<Object>,
        /// Nothing changed: the subscription asked to be told again.
        resync: bool,
    },
    /// It is gone.
    Delete {
        /// The last state known.
        object: Arc<Object>,
        /// How that is known.
        reason: DeleteReason,
    },
}

impl Event {
    /// The state that the event is about: the new one, or the last one of a deletion.
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Add { object, .. } | Self::Delete { object, .. } => object,
            Self::Update { new, .. } => new,
        }
    }

    /// The object's key.
    pub fn key(&self) -> &ObjectKey {
        self.object().key()
    }

    /// `add`, `update` or `delete`.
    pub fn op(&self) -> &'static str {
        match self {
            Self::Add { .. } => "add",
            Self::Update { .. } => "update",
            Self::Delete { .. } => "delete",
        }
    }
}

/// One attempt at handing one event to a handler.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Index of the subscription in the handler's own list.
    pub subscription: u32,
    /// Rises with arrival, per listener; kept over retries; after a merge, the later event's.
    pub sequence: u64,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// When the event came to the listener (after a merge: the later one).
    pub arrived: SystemTime,
    /// What happened.
    pub event: Event,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Ok,
    /// Deliver again, as often as it takes.
    Retry {
        /// Why.
        message: String,
        /// Earliest next attempt; none: the listener's back-off.
        after: Option<Duration>,
    },
    /// Give this event up.
    Permanent(String),
    /// The handler broke (a Wasm trap, a panic): again, but at most `max_attempts` times.
    Trap(String),
    /// The handler overran its deadline: again, but at most `max_attempts` times.
    Timeout(String),
}

impl Outcome {
    /// The word used in traces and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Retry { .. } => "retry",
            Self::Permanent(_) => "permanent",
            Self::Trap(_) => "trap",
            Self::Timeout(_) => "timeout",
        }
    }

    /// Whether the handler broke: a trap or a time-out, and no answer.
    pub fn is_break(&self) -> bool {
        matches!(self, Self::Trap(_) | Self::Timeout(_))
    }

    /// The message of a failure.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Ok => None,
            Self::Retry { message, .. } => Some(message),
            Self::Permanent(message) | Self::Trap(message) | Self::Timeout(message) => Some(message),
        }
    }
}

/// The future of one call of a handler.
pub type HandleFuture<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// Something that handles events, one at a time.
pub trait EventHandler: Send {
    /// Handles one delivery. Dropping the future abandons the attempt. A panic is the outcome
    /// [`Outcome::Trap`]; the handler is called again afterwards, so it must be in order by then.
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a>;
}
