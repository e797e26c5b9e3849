//! What a listener hands to a handler, and what it hears back.
//!
//! [`EventHandler`] is the seam between the informer and whatever handles events: the sandbox implements it
//! with a Wasm instance, a Rust program with a closure or a struct. Invariant: a handler is called with one
//! delivery at a time. [`Threaded`] gives a handler that blocks a thread of its own.

mod guard;
mod thread;
mod threaded;

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub(crate) use self::guard::{Call, guarded, within};
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

/// What a handler leaves to the one that takes its place. Only handlers know what it is, but for [`NothingNeeded`].
pub type Legacy = Arc<dyn Any + Send + Sync>;

/// The legacy of a handler that could leave something, has nothing to leave, and whose successor needs nothing: unlike
/// any other it is enough for as many successors as there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NothingNeeded;

/// Why a handler gets no more events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Another handler has taken its place.
    Replaced,
    /// The listener was closed.
    Closed,
    /// The listener was drained.
    Drained,
    /// It was to take another one's place, and never did.
    Unused,
}

/// The future of what a handler is asked to do between two deliveries.
pub type AsideFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that handles events, one at a time.
///
/// Between two deliveries it may be asked to do other things, which most handlers need not know of: everything but
/// [`handle`](EventHandler::handle) does nothing unless it is written. At a swap the old handlers are asked to
/// [`save`](EventHandler::save), the new ones to [`restore`](EventHandler::restore), then the old ones to
/// [`stop`](EventHandler::stop). A panic of any of these is an error as others are, and the handler is asked on.
pub trait EventHandler: Send {
    /// Handles one delivery. Dropping the future abandons the attempt. A panic is the outcome
    /// [`Outcome::Trap`]; the handler is called again afterwards, so it must be in order by then.
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a>;

    /// Another handler is about to take its place: what is that to know? None: nothing.
    ///
    /// # Errors
    /// For people: why it cannot say. The next handler is told of every object again.
    fn save<'a>(&'a mut self) -> AsideFuture<'a, Result<Option<Legacy>, String>> {
        Box::pin(async { Ok(None) })
    }

    /// It takes the place of a handler that left this; called before the first delivery. None: that one left nothing,
    /// and this one is to go on with its queue all the same. It is called again, with none, if a handler beside it could
    /// not restore: then it is to forget what it was given before, and its answer does not matter.
    ///
    /// # Errors
    /// For people: why it cannot go on from there. It is told of every object again, and must be in order for that.
    fn restore<'a>(&'a mut self, legacy: Option<Legacy>) -> AsideFuture<'a, Result<(), String>> {
        let _ = legacy;
        Box::pin(async { Ok(()) })
    }

    /// Every initial add of a subscription, by its number, has been handled.
    fn synced<'a>(&'a mut self, subscription: u32) -> AsideFuture<'a, ()> {
        let _ = subscription;
        Box::pin(async {})
    }

    /// It gets no more events, and is dropped afterwards. Called once; not if it is abandoned.
    fn stop<'a>(&'a mut self, why: Stop) -> AsideFuture<'a, ()> {
        let _ = why;
        Box::pin(async {})
    }
}
