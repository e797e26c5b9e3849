//! The screen of `hark dev`: one readable line for each event, each word of a plugin, each reload.
//!
//! Used by [`super::Output`]. Invariant: nobody waits for the screen; what it did not take is counted, and said on it
//! when it works again.

use std::io::{self, IsTerminal};
use std::time::Duration;

use hark_informer::handler::{Event, Outcome};
use hark_sandbox::{GuestLine, LogLevel};

use super::{Arrival, Attempt, failure};
use crate::lines::{Lines, Speaker, Voice};

/// Width of the plugins' column; longer names push their own line only.
const PLUGIN_WIDTH: usize = 16;

/// See the file's head.
pub(crate) struct Screen {
    lines: Lines,
    colours: bool,
    /// It has a stream of its own, not the log's.
    own: bool,
}

/// What the screen says of itself.
const VOICE: Voice = Voice {
    thread: "screen",
    lost: |lost, why| format!("{lost} lines are lost here: standard output: {why}\n"),
    failing: |error| tracing::warn!("cannot write to the screen: {error}; trying again"),
};

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
    /// On standard output.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn stdout() -> io::Result<Self> {
        let lines = Lines::open(&io::stdout(), VOICE)?;
        Ok(Self { lines, colours: is_coloured(&io::stdout()), own: true })
    }

    /// Between the lines of the log.
    pub(crate) fn stderr(log: Lines) -> Self {
        Self { lines: log, colours: is_coloured(&io::stderr()), own: false }
    }

    /// Lines lost since the start; none if they count as the log's.
    pub(crate) fn lost(&self) -> Option<u64> {
        self.own.then(|| self.lines.lost())
    }

    pub(crate) fn has_colours(&self) -> bool {
        self.colours
    }

    pub(crate) fn flush(&self, limit: Duration) {
        if self.own {
            self.lines.flush(limit);
        }
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
        self.line(Speaker::Plugin, plugin, &format!("{head} {subscription} {key}{gap}{note} {result}"));
    }

    pub(crate) fn guest_line(&self, plugin: &str, line: &GuestLine<'_>) {
        let level = self.paint(colour_of(line.level), &format!("{:<5}", line.level.as_str()));
        self.line(Speaker::Plugin, plugin, &format!("  {level} {}", line.message));
    }

    pub(crate) fn arrived(&self, arrival: &Arrival<'_>) {
        self.line(Speaker::Host, arrival.plugin, &self.paint(Colour::Note, &arrival.describe()));
    }

    pub(crate) fn news(&self, plugin: &str, level: LogLevel, message: &str) {
        self.line(Speaker::Host, plugin, &self.paint(colour_of(level), message));
    }

    pub(crate) fn say(&self, line: &str) {
        self.lines.push(Speaker::Host, format!("{line}\n").as_bytes());
    }

    fn line(&self, speaker: Speaker, plugin: &str, rest: &str) {
        let now = jiff::Zoned::now().strftime("%H:%M:%S%.3f").to_string();
        let line = format!("{} {plugin:<PLUGIN_WIDTH$} {rest}\n", self.paint(Colour::Dim, &now));
        self.lines.push(speaker, line.as_bytes());
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

fn is_coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

fn colour_of(level: LogLevel) -> Colour {
    match level {
        LogLevel::Trace | LogLevel::Debug => Colour::Dim,
        LogLevel::Info => Colour::Plain,
        LogLevel::Warn => Colour::Change,
        LogLevel::Error => Colour::Bad,
    }
}
