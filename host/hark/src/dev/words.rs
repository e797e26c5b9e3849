//! What `hark dev` says of a build.
//!
//! Used by [`super::builder`]. Invariant: one line for each thing that happens; a command's own words follow indented.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hark_sandbox::LogLevel;

use super::guard::Ending;
use super::outputs::{Habit, Kind};
use super::runner::Finished;
use super::snapshot::Changes;
use super::state::Cause;
use crate::config::Build;
use crate::output::Output;

/// In the screen's column for plugins.
const WHO: &str = "build";

/// Lines of the beginning, and of the end, that are shown of the output of a command that did well.
const FEW: usize = 10;

/// Characters of a command line that are shown.
const COMMAND: usize = 200;

/// Paths that are named in one line.
const NAMED: usize = 5;

/// Exit code of `sh` if there is no such command.
const NOT_FOUND: i32 = 127;

/// See the file's head.
#[derive(Clone)]
pub(super) struct Words {
    output: Arc<Output>,
    command: String,
    /// Paths are shown relative to it.
    folder: PathBuf,
}

impl Words {
    pub(super) fn new(output: Arc<Output>, build: &Build, folder: PathBuf) -> Self {
        let command = one_line(build.run.trim(), COMMAND);
        Self { output, command, folder }
    }

    /// Whether colours may be shown.
    pub(super) fn has_colours(&self) -> bool {
        self.output.has_colours()
    }

    /// It begins. `anew`: the configuration has changed, and has it since then.
    pub(super) fn running(&self, cause: &Cause, anew: bool) {
        let Self { command, folder, .. } = self;
        let why = match described(&cause.changes, folder) {
            None if anew => " (the configuration has changed)".to_owned(),
            None if cause.kind == Kind::Confirmation => " (once more, to make sure)".to_owned(),
            None => String::new(),
            Some(what) if cause.kind != Kind::Change => format!(" ({what} while it ran)"),
            Some(what) => format!(" ({what})"),
        };
        self.say(LogLevel::Info, &format!("running: {command}{why}"));
    }

    /// The configuration has it no more; its command has run for so long, or does not run.
    pub(super) fn dropped(&self, after: Option<Duration>) {
        let how =
            after.map_or_else(|| "dropped".to_owned(), |after| format!("is ended after {}", time(after)));
        self.say(LogLevel::Info, &format!("{how}, since the configuration has changed: {}", self.command));
    }

    /// It is ended, since these have changed.
    pub(super) fn outdated(&self, changes: &Changes, after: Duration) {
        let what = described(changes, &self.folder).unwrap_or_default();
        self.say(LogLevel::Info, &format!("outdated after {}, is ended: {what}", time(after)));
    }

    /// It was left to finish although these have changed, and has had its time.
    pub(super) fn overdue(&self, changes: &Changes, after: Duration) {
        let what = described(changes, &self.folder).unwrap_or_default();
        let after = time(after);
        self.say(
            LogLevel::Warn,
            &format!("is ended after {after}: {what}, and it was left to finish for long enough"),
        );
    }

    /// These have changed, and may be its own; it goes on, for so long at most.
    pub(super) fn doubt(&self, changes: &Changes, patience: Duration) {
        let what = described(changes, &self.folder).unwrap_or_default();
        let patience = time(patience);
        self.say(
            LogLevel::Info,
            &format!(
                "{what} while it runs, maybe by itself: built when this run is over, or when it has run for {patience} and is ended"
            ),
        );
    }

    /// It is left to finish, although these have changed, for so long at most.
    pub(super) fn let_finish(&self, changes: &Changes, patience: Duration) {
        let what = described(changes, &self.folder).unwrap_or_default();
        let patience = time(patience);
        self.say(
            LogLevel::Warn,
            &format!(
                "outdated again ({what}), but left to finish, since it was ended three times in a row; when it has run for \
                 {patience}, it is ended; if it is the build that writes there, put that into `ignore` of [dev] in hark.toml"
            ),
        );
    }

    /// It takes its time.
    pub(super) fn goes_on(&self, after: Duration, line: Option<&str>) {
        let line = line.map_or_else(|| "it has said nothing yet".to_owned(), str::to_owned);
        self.say(LogLevel::Info, &format!("still running after {}: {line}", time(after)));
    }

    /// It has ended by itself. Says whether it did well.
    pub(super) fn finished(&self, finished: &Finished) -> bool {
        let Finished { report, kept } = finished;
        let took = time(report.took);
        let colours = self.has_colours();
        let well = report.ending == Ending::Exited(0);
        let (level, line) = match &report.ending {
            Ending::Exited(0) => (LogLevel::Info, format!("done in {took}")),
            Ending::Exited(NOT_FOUND) => (
                LogLevel::Error,
                format!("FAILED (exit {NOT_FOUND}: sh does not find a command) after {took}"),
            ),
            Ending::Exited(code) => (LogLevel::Error, format!("FAILED (exit {code}) after {took}")),
            Ending::Killed(signal) => (LogLevel::Error, format!("FAILED (signal {signal}) after {took}")),
            Ending::NotStarted(reason) => (LogLevel::Error, format!("FAILED, it cannot be run: {reason}")),
            Ending::Lost(reason) => (LogLevel::Error, format!("FAILED, how is not known: {reason}")),
        };
        self.say(level, &line);
        self.quote(&kept.lines(colours, well.then_some(FEW)));
        match report.left {
            0 => {}
            1 => self.say(LogLevel::Warn, "a process that it left running was ended"),
            left => self.say(LogLevel::Warn, &format!("{left} processes that it left running were ended")),
        }
        well
    }

    /// It did well, and no plugin is another one for it.
    pub(super) fn nothing_new(&self, plugins: &Path) {
        let plugins = plugins.display();
        self.say(
            LogLevel::Warn,
            &format!("no plugin in {plugins} has changed: is the output copied there ($HARK_PLUGINS)?"),
        );
    }

    /// It does these each time. `rest`: until the run that makes sure of that, if nothing changes.
    pub(super) fn learned(&self, habits: &BTreeSet<Habit>, rest: Duration) {
        if habits.is_empty() {
            return;
        }
        let all = self.each(habits, |habit| match habit {
            Habit::Writes(_) => ("writes", " otherwise"),
            Habit::Adds(_) => ("makes other files in", ""),
            Habit::Removes(_) => ("removes files in", ""),
        });
        self.say(
            LogLevel::Warn,
            &format!(
                "it {all} each time, and would start itself for ever: that does not start it any more, but it is run once more in \
                 {} s to make sure; put it into `ignore` of [dev] in hark.toml, or into .gitignore",
                rest.as_secs()
            ),
        );
    }

    /// It did without these, which it did each time before.
    pub(super) fn taken_back(&self, habits: &BTreeSet<Habit>) {
        if habits.is_empty() {
            return;
        }
        let all = self.each(habits, |habit| match habit {
            Habit::Writes(_) => ("left", " as it was"),
            Habit::Adds(_) => ("made no files in", ""),
            Habit::Removes(_) => ("removed no files in", ""),
        });
        self.say(LogLevel::Info, &format!("this time it has {all}: a change there starts it again"));
    }

    /// It does something else each time.
    pub(super) fn gives_up(&self, changes: &Changes) {
        let what = described(changes, &self.folder).unwrap_or_default();
        self.say(
            LogLevel::Warn,
            &format!(
                "something changes each time that it runs (now: {what}), and it would start itself for ever: it is not run again \
                 for that; put what it writes into `ignore` of [dev] in hark.toml, or into .gitignore"
            ),
        );
    }

    /// Something about the sources.
    pub(super) fn complain(&self, complaint: &str) {
        self.say(LogLevel::Warn, &one_line(complaint, 1000));
    }

    /// Each of them, with what comes before and behind its path.
    fn each(&self, habits: &BTreeSet<Habit>, words: fn(&Habit) -> (&'static str, &'static str)) -> String {
        let told = habits.iter().map(|habit| {
            let (Habit::Writes(path) | Habit::Adds(path) | Habit::Removes(path)) = habit;
            let (before, behind) = words(habit);
            format!("{before} {}{behind}", shown(path, &self.folder))
        });
        named(told.collect())
    }

    fn say(&self, level: LogLevel, message: &str) {
        self.output.news(WHO, level, message);
    }

    fn quote(&self, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        // What a colour began ends with the last line.
        let end = if self.has_colours() { "\x1b[0m" } else { "" };
        let lines: Vec<String> = lines.iter().map(|line| format!("    {line}")).collect();
        self.output.say(&format!("{}{end}", lines.join("\n")));
    }
}

/// `src/lib.rs changed, and 2 more`; none if nothing has.
fn described(changes: &Changes, folder: &Path) -> Option<String> {
    let first = changes.paths().next()?;
    let what = if changes.modified.contains(first) {
        "changed"
    } else if changes.added.contains(first) {
        "added"
    } else {
        "removed"
    };
    let more = match changes.paths().count() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    Some(format!("{} {what}{more}", shown(first, folder)))
}

fn named(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

fn shown(path: &Path, folder: &Path) -> String {
    one_line(&path.strip_prefix(folder).unwrap_or(path).to_string_lossy(), 200)
}

/// Without control characters, and not longer than so many characters.
fn one_line(text: &str, most: usize) -> String {
    let plain: String =
        text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(most + 1).collect();
    if plain.chars().count() <= most { plain } else { plain.chars().take(most).chain(['…']).collect() }
}

fn time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 60.. => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_by_the_first_of_them_and_how_many_more_there_are() {
        let mut changes = Changes::default();
        let tell = |changes: &Changes| described(changes, Path::new("/w"));
        assert_eq!(tell(&changes), None);
        changes.removed.insert("/w/old".into());
        assert_eq!(tell(&changes).as_deref(), Some("old removed"));
        changes.added.insert("/w/src/a\nb".into());
        assert_eq!(tell(&changes).as_deref(), Some("src/a b added, and 1 more"));
        changes.modified.insert("/else/lib.rs".into());
        assert_eq!(tell(&changes).as_deref(), Some("/else/lib.rs changed, and 2 more"));
    }

    #[test]
    fn lists_and_lines_are_bounded() {
        assert_eq!(named((0..7).map(|n| n.to_string()).collect()), "0, 1, 2, 3, 4, 2 more");
        assert_eq!(one_line("ab\tcd", 4), "ab c…");
        assert_eq!(one_line("abcd", 4), "abcd");
        assert_eq!(time(Duration::from_millis(1240)), "1.2 s");
        assert_eq!(time(Duration::from_secs(125)), "2 min 5 s");
    }
}
