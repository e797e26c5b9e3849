//! One call of a handler: its panic is an outcome, and whoever is called from it can tell where it runs.
//!
//! Used by the listener for every delivery and whatever else it asks, and by [`Threaded`](super::Threaded) on its own thread. Invariant:
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
    within(call, async { handler.handle(delivery).await }).await.unwrap_or_else(Outcome::Trap)
}

/// What a handler answers to whatever it is asked, as a part of `call`.
///
/// # Errors
/// It panicked: what the panic said.
pub(crate) async fn within<T>(call: Option<Call>, asked: impl Future<Output = T>) -> Result<T, String> {
    let asked = AssertUnwindSafe(asked).catch_unwind();
    let answer = match call {
        Some(call) => CALL.scope(call, asked).await,
        None => asked.await,
    };
    answer.map_err(|panic| format!("panicked: {}", message(&*panic)))
}

/// What the panic said, if it said anything.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
