//! The screen of `hark dev`: one readable line for each event, each word of a plugin, each reload.
//!
//! Used by [`super::Output`]. Invariant: a line is written whole; once the reader is gone, nothing more is
//! written and nothing fails.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use hark_informer::handler::{Event, Outcome};
use hark_sandbox::{GuestLine, LogLevel};

use super::{Arrival, Attempt, INSTANCE_LOST};

/// Width of the plugins' column; longer names push their own line only.
const PLUGIN_WIDTH: usize = 16;

/// See the file's head.
pub(crate) struct Screen {
    to_stderr: bool,
    colours: bool,
    closed: AtomicBool,
}

/// Terminal colours, by what they mean here.
#[derive(Clone, Copy)]
enum Colour {
    Plain,
    Dim,
    Good,
    Change,
    Bad,
    Note,
}

impl Screen {
    pub(crate) fn stdout() -> Self {
        Self::new(false, std::io::stdout().is_terminal())
    }

    pub(crate) fn stderr() -> Self {
        Self::new(true, std::io::stderr().is_terminal())
    }

    fn new(to_stderr: bool, terminal: bool) -> Self {
        let colours = terminal && std::env::var_os("NO_COLOR").is_none();
        Self { to_stderr, colours, closed: AtomicBool::new(false) }
    }

    pub(crate) fn attempt(&self, attempt: &Attempt<'_>) {
        let Attempt { plugin, subscription, delivery, outcome, took, .. } = attempt;
        let (op, colour, note) = match &delivery.event {
            Event::Add { initial: true, .. } => ("on-add", Colour::Good, "initial".to_owned()),
            Event::Add { .. } => ("on-add", Colour::Good, String::new()),
            Event::Update { resync: true, .. } => ("on-update", Colour::Change, "resync".to_owned()),
            Event::Update { old, new, .. } => (
                "on-update",
                Colour::Change,
                format!("{} -> {}", old.resource_version(), new.resource_version()),
            ),
            Event::Delete { reason, .. } => ("on-delete", Colour::Bad, reason.as_str().to_owned()),
        };
        let key = delivery.event.key();
        let micros = took.as_micros();
        let head = self.paint(colour, &format!("{op:<9}"));
        let number = delivery.attempt;
        let result = match outcome {
            Outcome::Ok if number == 1 => self.paint(Colour::Dim, &format!("({micros} us)")),
            Outcome::Ok => format!("attempt {number} {}", self.paint(Colour::Dim, &format!("({micros} us)"))),
            failed => self.paint(Colour::Bad, &failure(failed, number)),
        };
        let gap = if note.is_empty() { "" } else { " " };
        self.line(plugin, &format!("{head} {subscription} {key}{gap}{note} {result}"));
    }

    pub(crate) fn guest_line(&self, plugin: &str, line: &GuestLine<'_>) {
        let level = self.paint(colour_of(line.level), &format!("{:<5}", line.level.as_str()));
        self.line(plugin, &format!("  {level} {}", line.message));
    }

    pub(crate) fn arrived(&self, arrival: &Arrival<'_>) {
        self.line(arrival.plugin, &self.paint(Colour::Note, &arrival.describe()));
    }

    pub(crate) fn news(&self, plugin: &str, level: LogLevel, message: &str) {
        self.line(plugin, &self.paint(colour_of(level), message));
    }

    pub(crate) fn say(&self, line: &str) {
        self.write(&format!("{line}\n"));
    }

    fn line(&self, plugin: &str, rest: &str) {
        let now = jiff::Zoned::now().strftime("%H:%M:%S%.3f").to_string();
        self.write(&format!("{} {plugin:<PLUGIN_WIDTH$} {rest}\n", self.paint(Colour::Dim, &now)));
    }

    fn write(&self, text: &str) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        let written = if self.to_stderr {
            std::io::stderr().lock().write_all(text.as_bytes())
        } else {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        };
        if let Err(error) = written
            && !self.closed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("the screen is gone ({error}): events are no longer shown");
        }
    }

    fn paint(&self, colour: Colour, text: &str) -> String {
        let code = match colour {
            _ if !self.colours => return text.to_owned(),
            Colour::Plain => return text.to_owned(),
            Colour::Dim => 2,
            Colour::Good => 32,
            Colour::Change => 33,
            Colour::Bad => 31,
            Colour::Note => 36,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// What went wrong, at which attempt, and what is lost by it: as `hark run` says it.
fn failure(outcome: &Outcome, attempt: u32) -> String {
    let message = outcome.message().unwrap_or_default();
    let lost = if outcome.is_break() { format!("; {INSTANCE_LOST}") } else { String::new() };
    format!("{}, attempt {attempt}: {message}{lost}", outcome.as_str())
}

fn colour_of(level: LogLevel) -> Colour {
    match level {
        LogLevel::Trace | LogLevel::Debug => Colour::Dim,
        LogLevel::Info => Colour::Plain,
        LogLevel::Warn => Colour::Change,
        LogLevel::Error => Colour::Bad,
    }
}
