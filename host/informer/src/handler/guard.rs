//! One call of a handler: its panic is an outcome, and whoever is called from it can tell where it runs.
//!
//! Used by the listener for every delivery, and by [`Threaded`](super::Threaded) on its own thread. Invariant:
//! this is the one place where a panic of a handler is caught.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use super::{Delivery, EventHandler, Outcome};

tokio::task_local! {
    /// The call that the present task is in the middle of; set for the length of the call only.
    static CALL: Call;
}

/// Whose call it is: one listener, told from others by an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) listener: usize,
}

impl Call {
    /// The call that the caller runs in, if it was not moved to a task of its own.
    pub(crate) fn current() -> Option<Self> {
        CALL.try_with(|call| *call).ok()
    }
}

/// Calls `handler`. A panic becomes [`Outcome::Trap`], so that it harms neither the listener nor its neighbours:
/// client-go's default ends the process (R-PL-6, a deviation).
pub(crate) async fn guarded(
    handler: &mut dyn EventHandler,
    delivery: &Delivery,
    call: Option<Call>,
) -> Outcome {
    let handled = AssertUnwindSafe(async { handler.handle(delivery).await }).catch_unwind();
    let handled = match call {
        Some(call) => CALL.scope(call, handled).await,
        None => handled.await,
    };
    handled.unwrap_or_else(|panic| Outcome::Trap(format!("panicked: {}", message(&*panic))))
}

/// What the panic said, if it said anything.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
