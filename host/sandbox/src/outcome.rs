//! From what wasmtime says went wrong to what the listener and people understand.
//!
//! The only place where errors of a call are told apart: by type, and where wasmtime has none, by its words (see
//! [`untyped`]). Invariant: every error of a call is a [`Fault`], and each message is one safe line that names the
//! limit and its setting, if one was hit.

mod untyped;

use std::time::Duration;

use hark_informer::handler::Outcome;
use rustix::io::Errno;
use wasmtime::component::ResourceTableError;
use wasmtime::error::OutOfMemory;
use wasmtime::{FrameInfo, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use self::untyped::Untyped;
use crate::bindings::hark::plugin::plugin_types::Failure;
use crate::cap::Cap;
use crate::deadline::Overrun;
use crate::entry::Entry;
use crate::limiter::CapExceeded;
use crate::limits::Limits;
use crate::text;
use crate::usage::Restart;

/// Bytes of a message that a guest gives with its answer, and of one about a fault.
const MESSAGE_BYTES: usize = 4 << 10;
/// Frames named in a message: the innermost ones.
const FRAMES: usize = 5;

/// Why a call gave no answer. The store it ran in must not be used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// The cap that was hit, if one was.
    pub(crate) cap: Option<Cap>,
    /// For people.
    pub(crate) message: String,
}

/// How a call broke off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The guest broke, or broke a rule.
    Trap,
    /// It took too long.
    Timeout,
    /// The host had no memory to start it: no fault of the guest's.
    Starved,
}

impl Fault {
    /// What an error of a call means. `stack` is the engine's, in bytes.
    pub(crate) fn of(error: &wasmtime::Error, limits: &Limits, stack: usize, entry: Entry) -> Self {
        let (kind, cap, cause) = match error.downcast_ref::<Overrun>() {
            Some(overrun) => {
                let (cap, cause) = overrun_cause(*overrun, limits, entry);
                (FaultKind::Timeout, Some(cap), cause)
            }
            None if entry == Entry::Instance && is_want_of_memory(error) => {
                (FaultKind::Starved, None, starved_cause(error))
            }
            None => {
                let (cap, cause) = trap_cause(error, limits, stack, entry);
                (FaultKind::Trap, cap, cause)
            }
        };
        let message = format!("{}{cause}{}", entry.prefix(), place(error));
        Self { kind, cap, message: text::clean(&message, MESSAGE_BYTES) }
    }

    /// The same with a remark at its end.
    pub(crate) fn with(mut self, remark: &str) -> Self {
        self.message.push_str(remark);
        self
    }

    /// As what the loss of the instance is counted; none if there was no instance yet.
    pub(crate) fn restart(&self) -> Option<Restart> {
        match self.kind {
            FaultKind::Trap => Some(Restart::Trap),
            FaultKind::Timeout => Some(Restart::Timeout),
            FaultKind::Starved => None,
        }
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        match fault.kind {
            FaultKind::Trap => Self::Trap(fault.message),
            FaultKind::Timeout => Self::Timeout(fault.message),
            // Neither an attempt of the plugin's nor a reason for quarantine: tried again for as long as it takes.
            FaultKind::Starved => Self::Retry { message: fault.message, after: None },
        }
    }
}

/// Whether the system refused memory or address space to the host. What a guest asks for and is refused is no error, but
/// an answer to the guest.
fn is_want_of_memory(error: &wasmtime::Error) -> bool {
    let of_system = error.chain().any(|cause| {
        let code = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        let code = code.or_else(|| cause.downcast_ref().map(|errno: &Errno| errno.raw_os_error()));
        code == Some(Errno::NOMEM.raw_os_error())
    });
    of_system || error.downcast_ref::<OutOfMemory>().is_some()
}

fn starved_cause(error: &wasmtime::Error) -> String {
    let cause = error.root_cause();
    format!(
        "the host has no memory or address space left for it ({cause}): raise the limit (ulimit -v, a container's \
         memory), or run fewer plugins; an instance reserves 4 GiB of addresses for each of its memories"
    )
}

fn overrun_cause(overrun: Overrun, limits: &Limits, entry: Entry) -> (Cap, String) {
    match overrun {
        Overrun::Deadline => {
            // There is one, or it could not be overrun.
            let deadline = limits.deadline.unwrap_or_default();
            (Cap::Deadline, format!("used its deadline of {deadline:?} (limits.deadline)"))
        }
        Overrun::Budget => {
            let what = match entry {
                Entry::Describe => " for describe",
                Entry::Event => " for one event",
                // The message says what else it was for.
                Entry::Instance
                | Entry::Start
                | Entry::Stop
                | Entry::Save
                | Entry::Restore
                | Entry::Synced => "",
            };
            (Cap::Budget, format!("used its budget of {:?}{what} (limits.budget)", limits.budget))
        }
        Overrun::HostCall(name) => {
            let name = name.map(|name| format!(", {name},")).unwrap_or_default();
            let limit = limits.host_call;
            (Cap::HostCall, format!("one host call{name} took longer than {limit:?} (limits.host_call)"))
        }
    }
}

/// What a trap is about, and the cap that it is about, if any.
fn trap_cause(error: &wasmtime::Error, limits: &Limits, stack: usize, entry: Entry) -> (Option<Cap>, String) {
    if let Some(exceeded) = error.downcast_ref::<CapExceeded>() {
        return (Some(exceeded.cap()), exceeded.to_string());
    }
    if let Some(I32Exit(status)) = error.downcast_ref() {
        return (None, format!("it ended itself with exit status {status}"));
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => {
            let stack = text::bytes(stack);
            return (Some(Cap::Stack), format!("its stack of {stack} is used up (host.wasm_stack)"));
        }
        Some(trap) => return (None, trap.to_string()),
        None => {}
    }
    if let Some(ResourceTableError::Full) = error.downcast_ref() {
        return handles_cause(limits);
    }
    let words = error.root_cause().to_string();
    match Untyped::of(&words) {
        Some(Untyped::Fuel) if entry == Entry::Describe => {
            let most = text::bytes(limits.describe);
            (
                Some(Cap::Describe),
                format!("it hands over more than {most} to describe itself (limits.describe)"),
            )
        }
        Some(Untyped::Fuel) if entry == Entry::Save => (Some(Cap::State), state_cause(limits)),
        Some(Untyped::Fuel) => {
            let most = text::bytes(limits.call_bytes);
            (Some(Cap::CallBytes), format!("it hands over more than {most} in one call (limits.call_bytes)"))
        }
        Some(Untyped::Handles) => handles_cause(limits),
        Some(Untyped::Instances) => {
            let most = limits.instances;
            let what = "core instances, tables or memories";
            (Some(Cap::Instances), format!("it is made of more than {most} {what} (limits.instances)"))
        }
        None => (None, words),
    }
}

/// What a guest is told that saves too much.
pub(crate) fn state_cause(limits: &Limits) -> String {
    format!("it saves more than {} (limits.state)", text::bytes(limits.state))
}

fn handles_cause(limits: &Limits) -> (Option<Cap>, String) {
    let most = limits.handles;
    (Some(Cap::Handles), format!("it holds more than {most} handles (limits.handles)"))
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

/// Where in the guest it happened: ` in inner < outer < …`; empty if that is not known.
fn place(error: &wasmtime::Error) -> String {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return String::new() };
    let frames = backtrace.frames();
    // Frames without a name, among others that have one, are of adapters.
    let named = frames.iter().any(|frame| frame.func_name().is_some());
    let names: Vec<_> = frames.iter().filter_map(|frame| function(frame, named)).take(FRAMES).collect();
    if names.is_empty() { String::new() } else { format!(" in {}", names.join(" < ")) }
}

/// A function's name; in a module without any (`strip`), its number and the place in the module, for `wasm-tools` and the
/// like.
fn function(frame: &FrameInfo, named: bool) -> Option<String> {
    match frame.func_name() {
        // Alternate: without the hash at the end of a Rust name.
        Some(name) => Some(format!("{:#}", rustc_demangle::demangle(name))),
        None if named => None,
        None => {
            let place = frame.module_offset().map(|offset| format!(" at {offset:#x}")).unwrap_or_default();
            Some(format!("function {}{place}", frame.func_index()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::hark::plugin::plugin_types::RetryRequest;

    fn fault(error: wasmtime::Error, limits: &Limits, entry: Entry) -> Fault {
        Fault::of(&error, limits, 512 << 10, entry)
    }

    #[test]
    fn overruns_name_the_limit_and_its_setting() {
        let limits = Limits { deadline: Some(Duration::from_millis(250)), ..Limits::default() };
        let cases = [
            (Overrun::Deadline, Cap::Deadline, "used its deadline of 250ms (limits.deadline)"),
            (Overrun::Budget, Cap::Budget, "used its budget of 30s for one event (limits.budget)"),
            (
                Overrun::HostCall(Some("wasi:io/poll.poll")),
                Cap::HostCall,
                "one host call, wasi:io/poll.poll, took longer than 10s (limits.host_call)",
            ),
            (Overrun::HostCall(None), Cap::HostCall, "one host call took longer than 10s (limits.host_call)"),
        ];
        for (overrun, cap, want) in cases {
            let want = Fault { kind: FaultKind::Timeout, cap: Some(cap), message: want.into() };
            assert_eq!(fault(overrun.into(), &limits, Entry::Event), want);
        }
    }

    #[test]
    fn an_overrun_budget_says_what_it_was_for() {
        let limits = Limits::default();
        for (entry, want) in [
            (Entry::Event, "used its budget of 30s for one event (limits.budget)"),
            (Entry::Describe, "used its budget of 30s for describe (limits.budget)"),
            (Entry::Instance, "while starting an instance: used its budget of 30s (limits.budget)"),
            (Entry::Start, "in start: used its budget of 30s (limits.budget)"),
        ] {
            assert_eq!(fault(Overrun::Budget.into(), &limits, entry).message, want);
        }
    }

    #[test]
    fn the_cause_is_found_under_context() {
        let error = wasmtime::Error::from(CapExceeded::Tables { cap: 8, wanted: 9 }).context("growing");
        let found = fault(error, &Limits::default(), Entry::Instance);
        let want =
            "while starting an instance: its tables would have 9 elements, more than 8 (limits.tables)";
        assert_eq!(
            (found.kind, found.cap, found.message.as_str()),
            (FaultKind::Trap, Some(Cap::Tables), want)
        );
        let exit = wasmtime::Error::from(I32Exit(3)).context("leaving");
        let found = fault(exit, &Limits::default(), Entry::Event);
        assert_eq!((found.cap, found.message.as_str()), (None, "it ended itself with exit status 3"));
        let stack = wasmtime::Error::from(Trap::StackOverflow).context("deep");
        let found = fault(stack, &Limits::default(), Entry::Event);
        let want = "its stack of 512 KiB is used up (host.wasm_stack)";
        assert_eq!((found.cap, found.message.as_str()), (Some(Cap::Stack), want));
    }

    #[test]
    fn the_hosts_want_of_memory_is_no_fault_of_the_guest() {
        let errno = || wasmtime::Error::from(Errno::NOMEM).context("mapping");
        let io = || wasmtime::Error::from(std::io::Error::from_raw_os_error(12)).context("mapping");
        for error in [errno(), io()] {
            let starved = fault(error, &Limits::default(), Entry::Instance);
            let begins = "while starting an instance: the host has no memory or address space left for it (Cannot \
                          allocate memory (os error 12)): raise the limit (ulimit -v, ";
            assert!(starved.message.starts_with(begins), "{}", starved.message);
            assert_eq!((starved.kind, starved.cap, starved.restart()), (FaultKind::Starved, None, None));
            let message = starved.message.clone();
            assert_eq!(Outcome::from(starved), Outcome::Retry { message, after: None });
        }
        let during = fault(errno(), &Limits::default(), Entry::Event);
        assert_eq!(during.kind, FaultKind::Trap, "the guest may have had a hand in it");
        let other = wasmtime::Error::from(std::io::Error::from_raw_os_error(13));
        assert_eq!(fault(other, &Limits::default(), Entry::Instance).kind, FaultKind::Trap);
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
