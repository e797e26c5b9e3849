//! What Hark's log says of its plugins: which version took over, and when one was stopped.
//!
//! Invariant: in the order of the log, which is that in which it happened.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;

use super::history::Moment;
use crate::tail::Tail;

/// A line of the log that tells what runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// When it was said.
    pub at: Moment,
    /// Of whom.
    pub plugin: String,
    /// What.
    pub what: What,
}

/// What happened to a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A version began to run.
    Arrived(Arrival),
    /// Its file is gone.
    Stopped,
}

/// A version began to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// When it was said.
    pub at: Moment,
    /// The beginning of its content's hash.
    pub hash: String,
    /// Subscriptions kept, added and removed, if another version ran before.
    pub subscriptions: Option<[u64; 3]>,
    /// What became of the memory of the version before.
    pub carried: Carried,
    /// What its instances said that they restored, together.
    pub restored: u64,
    /// How many instances said that they begin by a rollback.
    pub begun_by_rollback: u64,
    /// What was said of the version before, if it was rolled back.
    pub back: Option<Back>,
}

/// A version was rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Back {
    /// The beginning of the content's hash that broke.
    pub from: String,
    /// And of that which was good before.
    pub to: String,
    /// How many attempts it broke at.
    pub attempts: u64,
}

/// What became of the memory of the version before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// There was none, or nobody wanted it.
    Nothing,
    /// The new version has it.
    Kept,
    /// It could not be carried, so that everything is told again.
    Afresh,
}

/// What no line says if all is well.
const ALARMS: [&str; 4] = ["panicked", "ended unexpectedly", "did not finish", "cannot roll back"];

/// A log as it grows.
pub struct Log {
    tail: Tail,
    /// What it said so far.
    pub news: Vec<News>,
    /// How often it said of a plugin that its file is refused.
    pub refusals: BTreeMap<String, usize>,
    /// How often it said that the operator's file is no good, and that it was read again.
    pub config: (usize, usize),
    /// Lines that say that something went wrong which nobody did on purpose.
    pub alarms: Vec<String>,
    /// What instances said that they restored, before the version that they are of was announced.
    restored: BTreeMap<String, u64>,
    /// How many said that they begin by a rollback.
    begun_by_rollback: BTreeMap<String, u64>,
    /// What was rolled back, before the version was announced that takes its place.
    back: BTreeMap<String, Back>,
}

impl Log {
    /// Of the file in which Hark's standard error goes.
    pub fn new(path: &Path) -> Self {
        Self {
            tail: Tail::new(path),
            news: Vec::new(),
            refusals: BTreeMap::new(),
            config: (0, 0),
            alarms: Vec::new(),
            restored: BTreeMap::new(),
            begun_by_rollback: BTreeMap::new(),
            back: BTreeMap::new(),
        }
    }

    /// Reads on.
    ///
    /// # Errors
    /// If the file is no text, or a line that tells what runs has another form.
    pub fn read(&mut self) -> Result<()> {
        for line in self.tail.lines()? {
            self.line(&line).with_context(|| line.clone())?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<()> {
        if ALARMS.iter().any(|alarm| line.contains(alarm)) {
            self.alarms.push(line.to_owned());
        }
        if line.contains("configuration reloaded: ") {
            self.config.1 += 1;
        }
        // Lines that follow a first one have no time of their own.
        let Some((level, said)) = split(line) else { return Ok(()) };
        if level == "ERROR" && said.contains("hark.toml") {
            self.config.0 += 1;
        }
        if let Some((plugin, _)) = said.split_once(": ").filter(|_| said.contains(".wasm is refused: ")) {
            *self.refusals.entry(plugin.to_owned()).or_default() += 1;
        }
        if let Some((number, rest)) = said.strip_prefix("restored ").and_then(|said| said.split_once(' ')) {
            let plugin = between(rest, "plugin=\"", "\"").context("no plugin")?;
            *self.restored.entry(plugin.to_owned()).or_default() += number.parse::<u64>()?;
        }
        if let Some(rest) = said.strip_prefix("begins by a rollback ") {
            let plugin = between(rest, "plugin=\"", "\"").context("no plugin")?;
            *self.begun_by_rollback.entry(plugin.to_owned()).or_default() += 1;
        }
        if let Some((plugin, rest)) = said.split_once(": rolling back from ") {
            self.back.insert(plugin.to_owned(), Back::read(rest)?);
        }
        if let Some((plugin, mut what)) = told(said, moment(line)?)? {
            let (restored, back) = (self.restored.remove(plugin), self.back.remove(plugin));
            let begun = self.begun_by_rollback.remove(plugin);
            if let What::Arrived(arrival) = &mut what {
                arrival.restored = restored.unwrap_or_default();
                arrival.begun_by_rollback = begun.unwrap_or_default();
                arrival.back = back;
            }
            self.news.push(News { at: moment(line)?, plugin: plugin.to_owned(), what });
        }
        Ok(())
    }
}

/// `2026-01-02T03:04:05.678901Z  INFO target: text`: level and text.
fn split(line: &str) -> Option<(&str, &str)> {
    let (time, rest) = line.split_once(' ')?;
    time.parse::<Timestamp>().ok()?;
    let (level, rest) = rest.trim_start().split_once(' ')?;
    Some((level, rest.split_once(": ")?.1))
}

fn moment(line: &str) -> Result<Moment> {
    let time = line.split(' ').next().unwrap_or_default();
    Ok(time.parse::<Timestamp>()?.as_microsecond())
}

fn told(said: &str, at: Moment) -> Result<Option<(&str, What)>> {
    if let Some((plugin, _)) = said.split_once(": stopped: its file is gone") {
        return Ok(Some((plugin, What::Stopped)));
    }
    if let Some((plugin, rest)) = said.split_once(" started: ") {
        let hash = between(rest, " (", ")").context("no hash")?;
        return Ok(Some((plugin, What::Arrived(Arrival::new(at, hash, None, rest)))));
    }
    let Some((plugin, rest)) =
        said.split_once(" reloaded: ").filter(|(plugin, _)| *plugin != "configuration")
    else {
        return Ok(None);
    };
    let hash = match rest.split_once(" -> ") {
        Some((_, new)) => new.split(' ').next(),
        None => rest.split(',').next(),
    };
    let hash = hash.context("no hash")?;
    let counts = rest.split_once("subscriptions: ").context("no subscriptions")?.1;
    let number = |word: &str| -> Result<u64> {
        let before = counts.split_once(word).with_context(|| format!("nothing is{word}"))?.0;
        Ok(before.rsplit(' ').next().unwrap_or_default().parse()?)
    };
    let subscriptions = Some([number(" kept")?, number(" added")?, number(" removed")?]);
    Ok(Some((plugin, What::Arrived(Arrival::new(at, hash, subscriptions, rest)))))
}

impl Arrival {
    fn new(at: Moment, hash: &str, subscriptions: Option<[u64; 3]>, said: &str) -> Self {
        let carried = if said.contains("; starts afresh with a replay: ") {
            Carried::Afresh
        } else if said.contains("; state ") && said.ends_with(" kept") {
            Carried::Kept
        } else {
            Carried::Nothing
        };
        Self {
            at,
            hash: hash.to_owned(),
            subscriptions,
            carried,
            restored: 0,
            begun_by_rollback: 0,
            back: None,
        }
    }
}

impl Back {
    /// `HASH to HASH: its first attempt broke it, …` or `HASH to HASH: its first 3 attempts all broke it, …`.
    fn read(said: &str) -> Result<Self> {
        let (from, rest) = said.split_once(" to ").context("no other hash")?;
        let (to, why) = rest.split_once(": its first ").context("no attempts")?;
        let attempts = match why.split_once(' ').context("no attempts")? {
            ("attempt", _) => 1,
            (number, _) => number.parse()?,
        };
        Ok(Self { from: from.to_owned(), to: to.to_owned(), attempts })
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(text.split_once(before)?.1.split_once(after)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2026-01-02T03:04:05.000001Z  INFO hark::output: one started: planned 7 (0a1b2c) in 12 ms (compile 3, describe 0.1 ms); subscriptions: s (v1 ConfigMap)
2026-01-02T03:04:05.000002Z  INFO hark::output: one reloaded: 0a1b2c -> 3d4e5f (planned 8) in 9 ms (compile 3 ms); subscriptions: 1 kept, 2 added, 0 removed, 3 waiting events dropped
2026-01-02T03:04:05.000002Z  INFO hark::plugin: restored 12 plugin=\"one\" source=\"log\" event=\"-\"
2026-01-02T03:04:05.000002Z  INFO hark::plugin: restored 30 plugin=\"one\" source=\"log\" event=\"-\"
2026-01-02T03:04:05.000003Z  INFO hark::output: one reloaded: 3d4e5f, new configuration (planned 8) in 9 ms (swap 0.1 ms); subscriptions: 3 kept, 0 added, 0 removed; state 4 B kept
2026-01-02T03:04:05.000004Z ERROR hark::output: one: plugins/one.wasm is refused: no module
2026-01-02T03:04:05.000005Z  INFO hark::plugins::configuring: configuration reloaded: 1 plugin affected
2026-01-02T03:04:05.000006Z ERROR hark::plugins::configuring: hark.toml: no good
what was configured before stays
2026-01-02T03:04:05.000007Z ERROR hark::output: one: rolling back from 3d4e5f to 0a1b2c: its first 3 attempts all broke it, the last one: add n/a: trap: wasm `unreachable`
   0: 0x1 - handle
2026-01-02T03:04:05.000008Z  INFO hark::plugin: begins by a rollback plugin=\"one\" source=\"log\" event=\"-\"
2026-01-02T03:04:05.000009Z  INFO hark::output: one reloaded: 3d4e5f -> 0a1b2c (planned 7) in 9 ms (swap 0.1 ms); subscriptions: 3 kept, 0 added, 0 removed; state 4 B kept
2026-01-02T03:04:05.000010Z ERROR hark::output: two: rolling back from 3d4e5f to 0a1b2c: its first attempt broke it: add n/a: trap: boom
2026-01-02T03:04:05.000011Z  INFO hark::output: one: stopped: its file is gone
";

    #[test]
    fn versions_refusals_and_ends_are_read_in_their_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stderr");
        std::fs::write(&path, LOG).expect("written");
        let mut log = Log::new(&path);
        log.read().expect("a log");
        let hashes = log.news.iter().map(|news| match &news.what {
            What::Arrived(arrival) => (arrival.hash.as_str(), arrival.subscriptions, arrival.restored),
            What::Stopped => ("", None, 0),
        });
        assert_eq!(
            hashes.collect::<Vec<_>>(),
            [
                ("0a1b2c", None, 0),
                ("3d4e5f", Some([1, 2, 0]), 0),
                ("3d4e5f", Some([3, 0, 0]), 42),
                ("0a1b2c", Some([3, 0, 0]), 0),
                ("", None, 0)
            ]
        );
        assert!(log.news.iter().all(|news| news.plugin == "one"));
        assert!(log.news.windows(2).all(|two| two[0].at <= two[1].at));
        let back = log.news.iter().map(|news| match &news.what {
            What::Arrived(arrival) => (arrival.begun_by_rollback, arrival.back.clone()),
            What::Stopped => (0, None),
        });
        let back: Vec<_> = back.collect();
        let of = |attempts| Back { from: "3d4e5f".into(), to: "0a1b2c".into(), attempts };
        assert_eq!(back, [(0, None), (0, None), (0, None), (1, Some(of(3))), (0, None)]);
        assert_eq!(log.back, BTreeMap::from([("two".to_owned(), of(1))]), "nothing has come back yet");
        assert_eq!((log.refusals["one"], log.config, log.alarms.len()), (1, (1, 1), 0));
    }
}
