//! What people and programs see of the events: lines for the screen, the log, and the trace file.
//!
//! Used by the plugins' handlers, by their guests' log, and by the reloader. `hark dev` writes readable lines to
//! standard output; `hark run` logs. Invariants: nobody waits for the screen or the log, whatever is wrong with them;
//! what they lose is counted. The trace is complete instead: a plugin waits until its line is written.

mod faults;
mod screen;
pub(crate) mod trace;

use std::io;
use std::path::Path;
use std::time::Duration;

use hark_informer::handler::{Delivery, Outcome};
use hark_informer::listener::SwapReport;
use hark_sandbox::{ContentHash, GuestLine, LogLevel};
use tokio::time::Instant;

pub(crate) use self::faults::FaultLines;
use self::faults::Kind;
use self::screen::Screen;
use self::trace::{Trace, TraceError};
use crate::lines::{Lines, Speaker};
use crate::plugins::carried::{Carried, CarriedOver};
use crate::telemetry::PLUGIN_TARGET;
use crate::timings::{Millis, Timings};

/// One delivery attempt and what became of it.
pub(crate) struct Attempt<'a> {
    pub(crate) plugin: &'a str,
    pub(crate) generation: u64,
    pub(crate) subscription: &'a str,
    pub(crate) delivery: &'a Delivery,
    pub(crate) outcome: &'a Outcome,
    pub(crate) took: Duration,
    /// The plugin's.
    pub(crate) faults: &'a FaultLines,
}

/// A plugin that starts, or a new version of it that has taken over.
pub(crate) struct Arrival<'a> {
    pub(crate) plugin: &'a str,
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    pub(crate) hash: &'a ContentHash,
    /// What it took over from, if another version ran.
    pub(crate) change: Option<Change<'a>>,
    pub(crate) subscriptions: &'a str,
    pub(crate) timings: Timings,
}

/// A version that has taken over from another one.
pub(crate) struct Change<'a> {
    /// The one before.
    pub(crate) before: &'a ContentHash,
    /// What the swap did.
    pub(crate) report: &'a SwapReport,
    /// What became of the memory of the one before; none if neither has `lifecycle`.
    pub(crate) carried: Option<&'a Carried>,
}

/// See the file's head.
pub(crate) struct Output {
    log: Lines,
    screen: Option<Screen>,
    trace: Option<Trace>,
}

/// The output cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("cannot start the screen's thread: {0}")]
    Screen(#[from] io::Error),
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl Output {
    /// Output for `hark dev` (`screen`) or `hark run`, with a trace if a file is given (`-`: standard output; the
    /// screen is then where the log is).
    ///
    /// # Errors
    /// If the trace file cannot be opened, or the system gives no thread.
    pub(crate) fn new(screen: bool, trace: Option<&Path>, log: Lines) -> Result<Self, OutputError> {
        let screen = match (screen, trace) {
            (false, _) => None,
            (true, Some(path)) if path == Path::new("-") => Some(Screen::stderr(log.clone())),
            (true, _) => Some(Screen::stdout()?),
        };
        Ok(Self { log, screen, trace: trace.map(Trace::open).transpose()? })
    }

    /// Lines lost since the start, by where they should have gone. Waits for nobody.
    pub(crate) fn lost(&self) -> Vec<(&'static str, u64)> {
        let screen = self.screen.as_ref().and_then(Screen::lost).map(|lost| ("screen", lost));
        let trace = self.trace.as_ref().map(|trace| ("trace", trace.lost()));
        [Some(("log", self.log.lost())), screen, trace].into_iter().flatten().collect()
    }

    /// The last word of a host that ends badly.
    pub(crate) fn fail(&self, message: &str) {
        self.log.push(Speaker::Host, format!("hark: {message}\n").as_bytes());
    }

    /// Waits until log and screen have everything, but no longer than `limit` for each.
    pub(crate) fn flush(&self, limit: Duration) {
        if let Some(screen) = &self.screen {
            screen.flush(limit);
        }
        self.log.flush(limit);
    }

    pub(crate) fn attempt(&self, attempt: &Attempt<'_>) {
        if let Some(trace) = &self.trace {
            trace.write(attempt);
        }
        match &self.screen {
            Some(screen) => screen.attempt(attempt),
            None => log_attempt(attempt),
        }
    }

    pub(crate) fn guest_line(&self, plugin: &str, line: &GuestLine<'_>) {
        if let Some(screen) = &self.screen {
            return screen.guest_line(plugin, line);
        }
        let event = line.delivery.map(|delivery| format!("{} {}", delivery.event.op(), delivery.event.key()));
        let (source, event, message) = (line.source.as_str(), event.as_deref().unwrap_or("-"), line.message);
        match line.level {
            LogLevel::Trace => tracing::trace!(target: PLUGIN_TARGET, plugin, source, event, "{message}"),
            LogLevel::Debug => tracing::debug!(target: PLUGIN_TARGET, plugin, source, event, "{message}"),
            LogLevel::Info => tracing::info!(target: PLUGIN_TARGET, plugin, source, event, "{message}"),
            LogLevel::Warn => tracing::warn!(target: PLUGIN_TARGET, plugin, source, event, "{message}"),
            LogLevel::Error => tracing::error!(target: PLUGIN_TARGET, plugin, source, event, "{message}"),
        }
    }

    pub(crate) fn arrived(&self, arrival: &Arrival<'_>) {
        match &self.screen {
            Some(screen) => screen.arrived(arrival),
            None if arrival.lost_its_memory() => tracing::warn!("{}", arrival.describe()),
            None => tracing::info!("{}", arrival.describe()),
        }
    }

    /// A plugin's news: it stopped, it was refused, an event was given up.
    pub(crate) fn news(&self, plugin: &str, level: LogLevel, message: &str) {
        match &self.screen {
            Some(screen) => screen.news(plugin, level, message),
            None if level >= LogLevel::Error => tracing::error!("{plugin}: {message}"),
            None if level >= LogLevel::Warn => tracing::warn!("{plugin}: {message}"),
            None => tracing::info!("{plugin}: {message}"),
        }
    }

    /// Whether the screen takes colours.
    pub(crate) fn has_colours(&self) -> bool {
        self.screen.as_ref().is_some_and(Screen::has_colours)
    }

    /// A line that belongs to no plugin, for the screen of `hark dev`.
    pub(crate) fn say(&self, line: &str) {
        match &self.screen {
            Some(screen) => screen.say(line),
            None => tracing::info!("{line}"),
        }
    }
}

impl Arrival<'_> {
    /// What the version before held in memory could not be carried over.
    fn lost_its_memory(&self) -> bool {
        let carried = self.change.as_ref().and_then(|change| change.carried);
        carried.is_some_and(|carried| carried.result == CarriedOver::Failed)
    }

    /// One line: which version, what it wants, how long it took.
    pub(crate) fn describe(&self) -> String {
        let (total, parts) = (Millis(self.timings.total()), &self.timings);
        let hash = self.hash.short();
        match &self.change {
            None => format!(
                "{} started: {} {} ({hash}) in {total} ms ({parts}); subscriptions: {}",
                self.plugin, self.name, self.version, self.subscriptions
            ),
            Some(Change { before, report, carried }) => {
                let change = if *before == self.hash {
                    format!("{hash}, new configuration")
                } else {
                    format!("{} -> {hash}", before.short())
                };
                let carried = carried.map(|carried| format!("; {carried}")).unwrap_or_default();
                let dropped = match report.dropped {
                    0 => String::new(),
                    count => format!(", {count} waiting events dropped"),
                };
                format!(
                    "{} reloaded: {change} ({} {}) in {total} ms ({parts}); subscriptions: {} kept, {} added, {} removed{dropped}{carried}",
                    self.plugin, self.name, self.version, report.kept, report.added, report.removed,
                )
            }
        }
    }
}

/// What a trap or time-out costs beyond its event.
const INSTANCE_LOST: &str = "its instance is thrown away, with what it held in memory";

/// What went wrong, at which attempt, and what is lost by it: the one place where a fault's line is joined, for the log
/// and for the screen.
fn failure(outcome: &Outcome, attempt: u32) -> String {
    let mut line = format!("{}, attempt {attempt}", outcome.as_str());
    if let Some(message) = outcome.message().filter(|message| !message.is_empty()) {
        line.push_str(": ");
        line.push_str(message);
    }
    if outcome.is_break() {
        line.push_str("; ");
        line.push_str(INSTANCE_LOST);
    }
    line
}

/// A failure is news for the operator of a cluster; a success is not. One line a failure; of many, some.
fn log_attempt(attempt: &Attempt<'_>) {
    let Attempt { plugin, subscription, delivery, outcome, took, faults, .. } = attempt;
    let (op, key, number) = (delivery.event.op(), delivery.event.key(), delivery.attempt);
    let now = Instant::now();
    if !outcome.is_break() {
        for (kind, unsaid) in faults.answer(now) {
            tracing::warn!("{plugin}: {unsaid} {} before had no line of their own", kind.plural());
        }
    }
    let Some(kind) = Kind::of(outcome) else {
        return tracing::debug!("{plugin}: {subscription} {op} {key} ({} us)", took.as_micros());
    };
    let Some(unsaid) = faults.fault(kind, now) else { return };
    let failure = failure(outcome, number);
    let others = match unsaid {
        0 => String::new(),
        count => format!(" ({count} others before had no line of their own)"),
    };
    tracing::warn!("{plugin}: {subscription} {op} {key}: {failure}{others}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_its_attempt_and_a_break_what_is_lost_by_it_each_parted_once() {
        const LOST: &str = "; its instance is thrown away, with what it held in memory";
        for (outcome, want) in [
            (Outcome::Trap("boom".into()), format!("trap, attempt 3: boom{LOST}")),
            (Outcome::Timeout("long".into()), format!("timeout, attempt 3: long{LOST}")),
            (Outcome::Trap(String::new()), format!("trap, attempt 3{LOST}")),
            (Outcome::Permanent("no".into()), "permanent, attempt 3: no".to_owned()),
            (Outcome::Retry { message: "later".into(), after: None }, "retry, attempt 3: later".to_owned()),
        ] {
            assert_eq!(failure(&outcome, 3), want);
        }
    }
}
