//! From what wasmtime says went wrong to what the listener and people understand.
//!
//! The only place where errors of a call are told apart, by type and never by their text. Invariant: every
//! error of a call is a [`Fault`], and each message is one safe line that names the limit, if one was hit.

use std::time::Duration;

use hark_informer::handler::Outcome;
use wasmtime::{Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::bindings::hark::plugin::plugin_types::Failure;
use crate::deadline::Overrun;
use crate::limits::{CapExceeded, Limits};
use crate::text;

/// Bytes of a message that a guest gives with its answer, and of one about a fault.
const MESSAGE_BYTES: usize = 4 << 10;
/// Frames named in a message: the innermost ones.
const FRAMES: usize = 5;

/// Why a call gave no answer. The store it ran in must not be used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    Trap(String),
    Timeout(String),
}

impl Fault {
    /// What an error of a call means.
    pub(crate) fn of(error: &wasmtime::Error, limits: &Limits) -> Self {
        let place = place(error);
        if let Some(overrun) = error.downcast_ref::<Overrun>() {
            let message = match overrun {
                Overrun::Deadline => {
                    format!("used its deadline of {:?} (limits.deadline){place}", limits.deadline)
                }
                Overrun::Budget => budget_message(limits) + &place,
            };
            return Self::Timeout(text::clean(&message, MESSAGE_BYTES));
        }
        let message = if let Some(cap) = error.downcast_ref::<CapExceeded>() {
            cap.to_string()
        } else if let Some(I32Exit(status)) = error.downcast_ref() {
            format!("it ended itself with exit status {status}")
        } else if let Some(trap) = error.downcast_ref::<Trap>() {
            trap.to_string()
        } else {
            error.root_cause().to_string()
        };
        Self::Trap(text::clean(&(message + &place), MESSAGE_BYTES))
    }

    /// The event's budget ran out while the guest waited.
    pub(crate) fn budget(limits: &Limits) -> Self {
        Self::Timeout(budget_message(limits))
    }

    /// The same, said of another call than the one for an event.
    pub(crate) fn during(self, what: &str) -> Self {
        match self {
            Self::Trap(message) => Self::Trap(format!("{what}: {message}")),
            Self::Timeout(message) => Self::Timeout(format!("{what}: {message}")),
        }
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Trap(message) => Self::Trap(message),
            Fault::Timeout(message) => Self::Timeout(message),
        }
    }
}

/// What a handler's answer means.
pub(crate) fn of_answer(answer: Result<(), Failure>) -> Outcome {
    match answer {
        Ok(()) => Outcome::Ok,
        Err(Failure::Retry(request)) => Outcome::Retry {
            message: message(&request.message),
            after: Some(request.after_ms).filter(|ms| *ms > 0).map(|ms| Duration::from_millis(ms.into())),
        },
        Err(Failure::Permanent(text)) => Outcome::Permanent(message(&text)),
    }
}

/// A guest's own message, safe to show.
pub(crate) fn message(text: &str) -> String {
    text::clean(text, MESSAGE_BYTES)
}

fn budget_message(limits: &Limits) -> String {
    format!("used its budget of {:?} for one event (limits.budget)", limits.budget)
}

/// Where in the guest it happened: ` in inner < outer < …`; empty if no function has a name.
fn place(error: &wasmtime::Error) -> String {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return String::new() };
    let names: Vec<_> = backtrace
        .frames()
        .iter()
        .filter_map(|frame| frame.func_name())
        // Alternate: without the hash at the end of a Rust name.
        .map(|name| format!("{:#}", rustc_demangle::demangle(name)))
        .take(FRAMES)
        .collect();
    if names.is_empty() { String::new() } else { format!(" in {}", names.join(" < ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::hark::plugin::plugin_types::RetryRequest;

    #[test]
    fn overruns_name_the_limit_and_its_setting() {
        let limits = Limits { deadline: Duration::from_millis(250), ..Limits::default() };
        let cases = [
            (Overrun::Deadline, "used its deadline of 250ms (limits.deadline)"),
            (Overrun::Budget, "used its budget of 30s for one event (limits.budget)"),
        ];
        for (overrun, want) in cases {
            assert_eq!(Fault::of(&overrun.into(), &limits), Fault::Timeout(want.into()));
        }
    }

    #[test]
    fn the_cause_is_found_under_context() {
        let error = wasmtime::Error::from(CapExceeded::Table { wanted: 9 }).context("growing");
        let want = "its tables would have 9 elements, more than 1048576";
        assert_eq!(Fault::of(&error, &Limits::default()), Fault::Trap(want.into()));
        let exit = wasmtime::Error::from(I32Exit(3)).context("leaving");
        let want = "it ended itself with exit status 3";
        assert_eq!(Fault::of(&exit, &Limits::default()), Fault::Trap(want.into()));
    }

    #[test]
    fn answers_become_outcomes() {
        let retry = |after_ms| Err(Failure::Retry(RetryRequest { message: "not\nyet".into(), after_ms }));
        let want = |after| Outcome::Retry { message: "not\\nyet".into(), after };
        assert_eq!(of_answer(retry(0)), want(None));
        assert_eq!(of_answer(retry(1500)), want(Some(Duration::from_millis(1500))));
        assert_eq!(of_answer(Err(Failure::Permanent("no".into()))), Outcome::Permanent("no".into()));
        let Outcome::Permanent(long) = of_answer(Err(Failure::Permanent("x".repeat(5000)))) else { panic!() };
        assert!(long.ends_with("x… [904 bytes cut]"), "{long}");
    }
}
