//! Where a guest's words go.
//!
//! [`GuestLog`] is implemented by the host (its log, `hark dev`'s screen, a test's vector) and called by
//! `output`. Invariant: what arrives here is already bounded in size and rate, and safe to show.

use std::fmt;

use hark_informer::handler::Delivery;

/// How important the guest says a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Of use while looking for one fault.
    Trace,
    /// Of use to the plugin's author.
    Debug,
    /// What standard output becomes.
    Info,
    /// What standard error becomes.
    Warn,
    /// Something went wrong.
    Error,
}

impl LogLevel {
    /// The word used in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// How a line came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogSource {
    /// The guest called `log`.
    Log,
    /// The guest wrote to standard output.
    Stdout,
    /// The guest wrote to standard error.
    Stderr,
    /// The sandbox has something to say about the guest: lines dropped, an instance recycled.
    Host,
}

impl LogSource {
    /// The word used in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Host => "host",
        }
    }
}

/// One line.
#[derive(Clone, Copy)]
pub struct GuestLine<'a> {
    /// Its level.
    pub level: LogLevel,
    /// How it came about.
    pub source: LogSource,
    /// The text: one line, cut to size, without terminal control.
    pub message: &'a str,
    /// The event being handled; none in `describe`, and where an instance starts, saves or stops outside of an event.
    pub delivery: Option<&'a Delivery>,
    /// Lines dropped since the last line that said so. Not 0 only on the host's own line about it.
    pub dropped: u64,
}

impl fmt::Debug for GuestLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.level.as_str(), self.source.as_str(), self.message)
    }
}

/// Receives the lines of one plugin.
pub trait GuestLog: Send + Sync {
    /// Takes one line. Called on the guest's time: must not wait, and must not call back into the plugin.
    fn line(&self, line: GuestLine<'_>);
}
