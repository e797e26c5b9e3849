//! What a way must have led to, and what the host's log and trace say that it did.
//!
//! Used by [`super::stage`]. Invariants: every line that warns is either announced by the way, or a fault; so is one
//! that is announced and does not come. How often the subject started, was replaced and stopped is counted by what the
//! log says, and by the generations in the trace.

use super::stage::{NEIGHBOUR, SUBJECT};
use crate::guests::sha256;
use crate::trace::Line;

/// What a way has announced so far.
#[derive(Debug)]
pub struct Expected {
    /// The content that runs.
    pub sha256: String,
    /// The version that runs, counted from the last start.
    pub generation: u64,
    starts: usize,
    reloads: usize,
    configurations: usize,
    stops: usize,
    warnings: Vec<String>,
    /// What may be said, and how often at most.
    tolerated: Vec<(String, usize)>,
}

/// The log of a host, one entry an event.
#[derive(Debug)]
pub struct Said {
    entries: Vec<(Level, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    News,
    Warning,
}

impl Said {
    /// Reads standard error.
    pub fn read(stderr: &str) -> Self {
        let mut entries: Vec<(Level, String)> = Vec::new();
        for line in stderr.lines() {
            match (level(line), entries.last_mut()) {
                // Entries of several lines, and what is none of the log's.
                (None, Some((_, text))) => text.extend(["\n", line]),
                (None, None) => entries.push((Level::Warning, line.to_owned())),
                (Some(level), _) => entries.push((level, line.to_owned())),
            }
        }
        Self { entries }
    }

    /// How many warnings and errors have a text.
    pub fn warnings_with(&self, text: &str) -> usize {
        self.warnings().filter(|warning| warning.contains(text)).count()
    }

    fn warnings(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|(level, _)| *level == Level::Warning).map(|(_, text)| text.as_str())
    }

    fn news_with(&self, text: &str) -> usize {
        self.entries.iter().filter(|(level, entry)| *level == Level::News && entry.contains(text)).count()
    }
}

/// The level of an entry that begins with this line: `TIME LEVEL target: message`.
fn level(line: &str) -> Option<Level> {
    let (time, rest) = line.split_once(' ')?;
    if !(time.starts_with("20") && time.ends_with('Z')) {
        return None;
    }
    match rest.split_whitespace().next()? {
        "WARN" | "ERROR" => Some(Level::Warning),
        _ => Some(Level::News),
    }
}

impl Expected {
    /// Both plugins run with a content.
    pub fn begins(content: &[u8]) -> Self {
        let (sha256, warnings, tolerated) = (sha256(content), Vec::new(), Vec::new());
        Self {
            sha256,
            generation: 1,
            starts: 1,
            reloads: 0,
            configurations: 0,
            stops: 0,
            warnings,
            tolerated,
        }
    }

    /// The subject gets another content.
    pub fn reloads(&mut self, content: &[u8]) {
        self.sha256 = sha256(content);
        self.generation += 1;
        self.reloads += 1;
    }

    /// The subject gets another configuration.
    pub fn is_configured_anew(&mut self) {
        self.generation += 1;
        self.reloads += 1;
        self.configurations += 1;
    }

    /// The subject's file is gone.
    pub fn stops(&mut self) {
        self.stops += 1;
    }

    /// The subject's file is back.
    pub fn starts(&mut self, content: &[u8]) {
        self.sha256 = sha256(content);
        self.generation = 1;
        self.starts += 1;
    }

    /// A line warns of something.
    pub fn warns(&mut self, text: &str) {
        self.warnings.push(text.to_owned());
    }

    /// Up to so many lines may warn of something.
    pub fn tolerates(&mut self, text: &str, most: usize) {
        self.tolerated.push((text.to_owned(), most));
    }

    /// How many lines with this text were announced.
    pub fn warnings_with(&self, text: &str) -> usize {
        self.warnings.iter().filter(|warning| *warning == text).count()
    }

    /// What is otherwise than it must be, in the log and in the trace.
    pub fn faults(&self, said: &Said, trace: &[Line]) -> Vec<String> {
        let mut faults = self.unannounced(said);
        let counts = [
            (SUBJECT, "started: ", self.starts),
            (SUBJECT, "reloaded: ", self.reloads),
            (SUBJECT, "stopped: ", self.stops),
            (NEIGHBOUR, "started: ", 1),
            (NEIGHBOUR, "reloaded: ", 0),
            (NEIGHBOUR, "stopped: ", 0),
        ];
        for (plugin, what, expected) in counts {
            // `NAME started: …`, `NAME: stopped: …`.
            let colon = if what == "stopped: " { ":" } else { "" };
            let found = said.news_with(&format!(" {plugin}{colon} {what}"));
            if found != expected {
                faults.push(format!("{plugin} {what}{found} times, not {expected}"));
            }
        }
        let found = said.news_with(" configuration reloaded: ");
        if found != self.configurations {
            faults.push(format!("configuration reloaded {found} times, not {}", self.configurations));
        }
        faults.extend(self.generations(trace));
        faults
    }

    /// Warnings that were not announced, and those that did not come.
    fn unannounced(&self, said: &Said) -> Vec<String> {
        let mut left: Vec<&str> = self.warnings.iter().map(String::as_str).collect();
        let mut tolerated = self.tolerated.clone();
        let mut faults = Vec::new();
        for warning in said.warnings() {
            let more = tolerated.iter_mut().find(|(text, most)| *most > 0 && warning.contains(text.as_str()));
            match (left.iter().position(|text| warning.contains(text)), more) {
                (Some(place), _) => drop(left.swap_remove(place)),
                (None, Some((_, most))) => *most -= 1,
                (None, None) => faults.push(format!("not announced: {warning}")),
            }
        }
        faults.extend(left.iter().map(|text| format!("not said: {text}")));
        faults
    }

    /// The trace's generations: rising one by one from 1 at each start, up to the one that runs.
    fn generations(&self, trace: &[Line]) -> Vec<String> {
        let of = |plugin: &str| {
            let lines = trace.iter().filter(|line| line.plugin == plugin);
            let mut generations: Vec<u64> = lines.map(|line| line.generation).collect();
            generations.dedup();
            generations
        };
        let mut faults = Vec::new();
        if of(NEIGHBOUR) != [1] {
            faults.push(format!("{NEIGHBOUR} was told as {:?}", of(NEIGHBOUR)));
        }
        let subject = of(SUBJECT);
        let falls = subject.windows(2).filter(|pair| pair[0] > pair[1]).count();
        if falls + 1 > self.starts || subject.last() != Some(&self.generation) {
            faults.push(format!("{SUBJECT} was told as {subject:?}, the last of {} starts", self.starts));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026-11-30T05:00:00.000000Z  INFO hark::output: neighbour started: counter 1 (ab) in 3 ms\n\
        2026-11-30T05:00:00.000000Z  INFO hark::output: subject started: counter 1 (ab) in 3 ms\n\
        2026-11-30T05:00:01.000000Z ERROR hark::output: subject: p/subject.wasm is refused: no\nmore of it\n\
        2026-11-30T05:00:02.000000Z  INFO hark::output: subject reloaded: ab -> cd\n";

    fn line(plugin: &str, generation: u64) -> Line {
        Line {
            ts: String::new(),
            plugin: plugin.into(),
            generation,
            subscription: "configmaps".into(),
            op: "add".into(),
            key: "default/a".into(),
            uid: "u".into(),
            rv: "1".into(),
            old_rv: None,
            initial: false,
            resync: false,
            reason: None,
            attempt: 1,
            outcome: "ok".into(),
            micros: 1,
            seq: 1,
        }
    }

    fn good() -> (Expected, Vec<Line>) {
        let mut expected = Expected::begins(b"one");
        expected.reloads(b"two");
        expected.warns("subject.wasm is refused: no\nmore");
        (expected, vec![line(NEIGHBOUR, 1), line(SUBJECT, 1), line(SUBJECT, 2)])
    }

    #[test]
    fn what_was_announced_is_no_fault() {
        let (expected, trace) = good();
        assert_eq!(expected.faults(&Said::read(LOG), &trace), Vec::<String>::new());
        assert_eq!(Said::read(LOG).warnings_with("more of it"), 1, "a line belongs to the entry before");
    }

    #[test]
    fn whatever_else_happened_is_a_fault() {
        let (expected, trace) = good();
        let again = "2026-11-30T05:00:03.000000Z  INFO hark::output: subject reloaded: cd -> ab\n";
        let stopped =
            "2026-11-30T05:00:03.000000Z  INFO hark::output: neighbour: stopped: its file is gone\n";
        let warned = "2026-11-30T05:00:03.000000Z  WARN hark::folder: something\n";
        for (more, fault) in [
            (again, "subject reloaded: 2 times, not 1"),
            (stopped, "neighbour stopped: 1 times, not 0"),
            (warned, "not announced: 2026-11-30T05:00:03.000000Z  WARN hark::folder: something"),
        ] {
            assert_eq!(expected.faults(&Said::read(&format!("{LOG}{more}")), &trace), [fault]);
        }
        let mut more = good().0;
        more.tolerates("whatever", 1);
        more.warns("another");
        assert_eq!(more.faults(&Said::read(LOG), &trace), ["not said: another"]);
        let back = [&trace[..], &[line(SUBJECT, 1), line(SUBJECT, 2)]].concat();
        assert_eq!(expected.faults(&Said::read(LOG), &back).len(), 1, "generations fall without a start");
        assert_eq!(
            expected.faults(&Said::read(LOG), &trace[..2]).len(),
            1,
            "the new version was told nothing"
        );
        let both = [&trace[..], &[line(NEIGHBOUR, 2)]].concat();
        assert_eq!(expected.faults(&Said::read(LOG), &both).len(), 1, "the neighbour was reloaded");
    }
}
