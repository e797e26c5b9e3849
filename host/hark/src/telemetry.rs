//! Hark's own log: tracing events as lines on standard error, and panics.
//!
//! Used by `main` once; the configuration checks its filter here. What plugins say and what is delivered goes through
//! `output`. Invariant: whoever logs waits for nothing, and nothing else in the host writes to standard error once
//! logging has begun.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::str::FromStr;
use std::time::Duration;

use hark_informer::client::LOG_DIRECTIVE;
use tracing::Metadata;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::lines::{Lines, Speaker, Voice};

/// The target of what plugins say in the log.
pub(crate) const PLUGIN_TARGET: &str = "hark::plugin";

/// How long the end of the host waits for the log and the screen.
pub(crate) const FLUSH: Duration = Duration::from_secs(1);

/// What is logged unless asked otherwise: our own news, other crates' warnings.
const DEFAULT_FILTER: &str = "warn,hark=info,hark_informer=info,hark_sandbox=info,hark_apiserver=info";

/// What the log says of itself.
const VOICE: Voice = Voice {
    thread: "log",
    lost: |lost, why| line("WARN", &format!("{lost} log lines are lost here: standard error: {why}")),
    // There is no other place; the metric has it.
    failing: |_| {},
};

/// The filter cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("log filter {filter:?}: {reason} (examples: info, debug, \"warn,hark_informer=debug\")")]
pub(crate) struct FilterError {
    filter: String,
    reason: String,
}

/// A filter that is understood, as `host.log` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFilter(String);

impl LogFilter {
    /// As it was written.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LogFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        parse(text).map(|_| Self(text.to_owned()))
    }
}

/// Opens the log.
///
/// # Errors
/// If the system gives no thread for it.
pub(crate) fn open() -> io::Result<Lines> {
    Lines::open(&io::stderr(), VOICE)
}

/// Starts logging.
///
/// # Errors
/// If the filter cannot be understood.
pub(crate) fn init(filter: Option<&str>, log: &Lines) -> Result<(), FilterError> {
    let filter = parse(filter.unwrap_or(DEFAULT_FILTER))?;
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // A failure inside would be told on standard error, by a macro that panics if that fails too.
    let lines = tracing_subscriber::fmt().log_internal_errors(false).with_ansi(colours);
    lines.with_writer(Log(log.clone())).with_env_filter(filter).init();
    let log = log.clone();
    std::panic::set_hook(Box::new(move |panic| tell_panic(&log, panic)));
    Ok(())
}

fn parse(filter: &str) -> Result<EnvFilter, FilterError> {
    let refused = |reason: String| FilterError { filter: filter.to_owned(), reason };
    check_levels(filter).map_err(refused)?;
    // What kube logs of each failed request, the reflector reports once; the operator's own words come last.
    EnvFilter::try_new(format!("{LOG_DIRECTIVE},{filter}")).map_err(|error| refused(error.to_string()))
}

/// The log as what tracing writes to.
struct Log(Lines);

/// One event on its way into the log, which comes as one piece.
struct Event<'a> {
    log: &'a Lines,
    speaker: Speaker,
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Event<'a>;

    fn make_writer(&'a self) -> Event<'a> {
        Event { log: &self.0, speaker: Speaker::Host }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Event<'a> {
        let speaker = if meta.target() == PLUGIN_TARGET { Speaker::Plugin } else { Speaker::Host };
        Event { log: &self.0, speaker }
    }
}

impl Write for Event<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.log.push(self.speaker, text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A panic becomes a line of the log, whatever its filter: the usual hook writes to standard error itself, where it
/// could hang.
fn tell_panic(log: &Lines, panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let mut text = format!("thread {}: {panic}", thread.name().unwrap_or("without a name"));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        text.push_str(&format!("\n{backtrace}"));
    }
    log.push(Speaker::Host, line("ERROR", &text).as_bytes());
    if thread.name() == Some("main") {
        // It ends the host.
        log.flush(FLUSH);
    }
}

/// A line that looks like the others, for when tracing is not to be asked.
fn line(level: &str, text: &str) -> String {
    format!("{:.6} {level:>5} hark: {text}\n", jiff::Timestamp::now())
}

/// A word by itself must be a level: taken for the name of a module, as the filter's own grammar would, a misspelt
/// level would silence everything.
fn check_levels(filter: &str) -> Result<(), String> {
    const LEVELS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "off"];
    let words = filter.split(',').map(str::trim).filter(|word| !word.contains(['=', '[']));
    for word in words {
        if !LEVELS.contains(&word.to_ascii_lowercase().as_str()) {
            return Err(format!("{word:?} is no level; the levels are {}", LEVELS.join(", ")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_refused() {
        for good in [DEFAULT_FILTER, "info", "DEBUG", "off", "warn,hark_informer=trace", "hark[span]=info"] {
            assert_eq!(check_levels(good), Ok(()), "{good}");
        }
        for bad in ["", "verbose", "info,", "hark_informer", "warn,2"] {
            assert!(check_levels(bad).is_err(), "{bad}");
        }
    }
}
