//! `log`: lines for the operator. Invariant: bounded by `output`, like everything a guest says.

use crate::bindings::hark::plugin::log::{Host, Level};
use crate::guest_log::{LogLevel, LogSource};
use crate::state::GuestState;

impl Host for GuestState {
    fn log(&mut self, level: Level, message: String) {
        let level = match level {
            Level::Trace => LogLevel::Trace,
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        self.output.line(level, LogSource::Log, &message);
    }
}
