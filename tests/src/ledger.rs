//! What one handler was told of one subscription's objects, held against the delivery contract while it is told.
//!
//! Used by the long suite, where a plugin has one subscription, and by the model of [`crate::reloads`], which has a
//! ledger for each. The chain of states is the proof that nothing was lost: an update must begin at the very version
//! that the handler was last told of for that object, an add at none, a delete at one. Merging keeps the chain (it goes
//! from the first old state to the last new one), losing an event breaks it. Invariant: only attempts that ended well
//! count; faults are kept in words, the first few of them.

use std::collections::BTreeMap;

use serde::Deserialize;

/// How many faults are kept in words.
const KEPT: usize = 10;

/// A line of the trace, as far as the books need it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the trace, see the README")]
pub struct Entry<'a> {
    pub plugin: &'a str,
    pub generation: u64,
    pub op: &'a str,
    pub key: &'a str,
    pub uid: &'a str,
    pub rv: &'a str,
    pub old_rv: Option<&'a str>,
    pub attempt: u32,
    pub initial: bool,
    pub resync: bool,
    pub outcome: &'a str,
    pub seq: u64,
}

/// Which changes of an object are no events for the subscription (its `changed`), so that an update may begin at a later
/// version than the one that was told.
pub trait Silence {
    /// Whether nothing is to be told of what happened to the object after version `from`, up to version `to`.
    fn between(&self, key: &str, from: u64, to: u64) -> bool;
}

/// Every change is an event.
#[derive(Debug, Clone, Copy)]
pub struct NoSilence;

impl Silence for NoSilence {
    fn between(&self, _: &str, from: u64, to: u64) -> bool {
        from == to
    }
}

/// The state of an object: its uid and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Of the object.
    pub uid: String,
    /// Of its state.
    pub rv: u64,
}

/// What a handler believes to be there, or what there is: by key.
pub type View = BTreeMap<String, State>;

/// See the file's head.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The version of the plugin that was told last.
    pub generation: u64,
    /// What this version was told.
    view: View,
    /// What an earlier version was told and this one was not: with a replay, it is told of each as an initial add, or
    /// of its delete.
    before: View,
    /// The last event of each object that ended well.
    sequences: BTreeMap<String, u64>,
    /// Events that were tried and have not ended well yet, by object.
    broken: BTreeMap<String, Broken>,
    /// Objects whose add was tried: the handler may know of them, so it is told of their delete (contract 8).
    tried: BTreeMap<String, String>,
    /// Events that ended well.
    pub done: u64,
    /// Attempts that broke.
    pub traps: u64,
    /// The newest version told.
    pub newest: u64,
    faults: Vec<String>,
    faulty: u64,
}

/// An attempt that did not end well.
#[derive(Debug, Clone, Copy)]
struct Broken {
    seq: u64,
    /// How many there were; 0: they are counted afresh.
    attempts: u32,
}

impl Ledger {
    /// Another version of the plugin takes the subscription over: it is told of everything again (`replays`), or goes on
    /// where the last one was.
    pub fn turn_to(&mut self, generation: u64, replays: bool) {
        self.generation = generation;
        if replays {
            self.before.append(&mut self.view);
            self.broken.values_mut().for_each(|broken| broken.attempts = 0);
        }
    }

    /// Enters an attempt by the present version.
    pub fn enter(&mut self, entry: &Entry<'_>, silence: &impl Silence) {
        if entry.generation != self.generation {
            self.fault(entry, &format!("version {} is the plugin's", self.generation));
        }
        self.at_its_attempt(entry);
        match entry.outcome {
            "ok" => {}
            "trap" | "retry" => return self.try_in_vain(entry),
            other => return self.fault(entry, &format!("it ended with {other}")),
        }
        self.done += 1;
        self.in_sequence(entry);
        let Ok(rv) = entry.rv.parse::<u64>() else { return self.fault(entry, "its version is no number") };
        self.newest = self.newest.max(rv);
        let state = State { uid: entry.uid.to_owned(), rv };
        match entry.op {
            "add" => self.add(entry, state),
            "update" => self.update(entry, state, silence),
            "delete" => self.delete(entry),
            _ => self.fault(entry, "no such operation"),
        }
    }

    /// An event is tried for the first time, or once more than it was before. One with which a later one was merged
    /// has the later one's number, and begins anew.
    fn at_its_attempt(&mut self, entry: &Entry<'_>) {
        let next = match self.broken.get(entry.key) {
            Some(broken) if broken.seq == entry.seq => broken.attempts + 1,
            _ => 1,
        };
        if entry.attempt != next {
            self.fault(entry, &format!("attempt {next} is due"));
        }
    }

    fn try_in_vain(&mut self, entry: &Entry<'_>) {
        self.traps += u64::from(entry.outcome == "trap");
        let broken = Broken { seq: entry.seq, attempts: entry.attempt };
        self.broken.insert(entry.key.to_owned(), broken);
        if entry.op == "add" {
            self.tried.insert(entry.key.to_owned(), entry.uid.to_owned());
        }
    }

    fn in_sequence(&mut self, entry: &Entry<'_>) {
        if let Some(broken) = self.broken.remove(entry.key)
            && broken.seq > entry.seq
        {
            self.fault(entry, "an earlier event than the one that broke");
        }
        if let Some(last) = self.sequences.insert(entry.key.to_owned(), entry.seq)
            && last >= entry.seq
        {
            self.fault(entry, &format!("event {last} of the object came before"));
        }
    }

    fn add(&mut self, entry: &Entry<'_>, state: State) {
        self.tried.remove(entry.key);
        if let Some(before) = self.before.remove(entry.key)
            && before.uid != state.uid
        {
            self.fault(entry, "the delete of the object that had its name is missing");
        }
        if let Some(known) = self.view.insert(entry.key.to_owned(), state) {
            self.fault(entry, &format!("it was known already, at {}", known.rv));
        }
    }

    fn update(&mut self, entry: &Entry<'_>, state: State, silence: &impl Silence) {
        let old = entry.old_rv.and_then(|old| old.parse::<u64>().ok());
        let known = self.view.insert(entry.key.to_owned(), state);
        let told = known.as_ref().filter(|known| known.uid == entry.uid).map(|known| known.rv);
        let follows = |told, old| silence.between(entry.key, told, old);
        if !told.zip(old).is_some_and(|(told, old)| follows(told, old)) {
            self.fault(entry, &format!("it begins at {old:?}, but the last state told is {told:?}"));
        }
    }

    fn delete(&mut self, entry: &Entry<'_>) {
        let known = self.view.remove(entry.key).or_else(|| self.before.remove(entry.key));
        let tried = self.tried.remove(entry.key);
        if known.map(|known| known.uid).or(tried).is_none_or(|uid| uid != entry.uid) {
            self.fault(entry, "the object was not known");
        }
    }

    fn fault(&mut self, entry: &Entry<'_>, what: &str) {
        self.faulty += 1;
        if self.faults.len() < KEPT {
            self.faults.push(format!("{what}: {entry:?}"));
        }
    }

    /// Whether the handler was told everything there is.
    pub fn is_even_with(&self, server: &View, silence: &impl Silence) -> bool {
        self.broken.is_empty() && self.before.is_empty() && self.differences(server, silence).next().is_none()
    }

    /// What is wrong so far; nothing if all is well.
    pub fn faults_so_far(&self) -> Vec<String> {
        let mut faults = self.faults.clone();
        if self.faulty > KEPT as u64 {
            faults.push(format!("and {} more", self.faulty - KEPT as u64));
        }
        faults
    }

    /// What is wrong, when all should have been told; nothing if all is well.
    pub fn faults(&self, server: &View, silence: &impl Silence) -> Vec<String> {
        let mut faults = self.faults_so_far();
        faults.extend(self.differences(server, silence));
        faults.extend(self.before.keys().map(|key| format!("{key}: not told again after a replay")));
        faults.extend(
            self.broken
                .iter()
                .map(|(key, broken)| format!("{key}: event {} broke and was not repeated", broken.seq)),
        );
        faults
    }

    /// Objects of which the handler knows another state than there is.
    fn differences(&self, server: &View, silence: &impl Silence) -> impl Iterator<Item = String> {
        let same = |key: &String, told: &State| {
            let is = server.get(key).filter(|is| is.uid == told.uid);
            is.is_some_and(|is| silence.between(key, told.rv, is.rv))
        };
        let wrong = self.view.iter().filter(move |(key, told)| !same(key, told));
        let wrong =
            wrong.map(|(key, told)| format!("{key}: told {told:?}, the server has {:?}", server.get(key)));
        let untold = server.keys().filter(|key| !self.view.contains_key(*key));
        wrong.chain(untold.map(|key| format!("{key}: never told")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `add 1`, `update 1 2`, `delete 2`, each of one object, with its outcome and the version that was told.
    fn entry(text: &'static str, seq: u64, generation: u64) -> Entry<'static> {
        let words: Vec<&str> = text.split(' ').collect();
        let (op, uid, outcome) = (words[0], words[1], words.last().copied().unwrap_or_default());
        let (old_rv, rv) = if op == "update" { (Some(words[2]), words[3]) } else { (None, words[2]) };
        Entry {
            plugin: "p",
            generation,
            op,
            key: "default/a",
            uid,
            rv,
            old_rv,
            attempt: 1,
            initial: false,
            resync: false,
            outcome,
            seq,
        }
    }

    fn enter(ledger: &mut Ledger, replays: bool, entry: &Entry<'_>) {
        if entry.generation > ledger.generation {
            ledger.turn_to(entry.generation, replays);
        }
        let broken = ledger.broken.get(entry.key).filter(|broken| broken.seq == entry.seq);
        let attempt = broken.map_or(1, |broken| broken.attempts + 1);
        ledger.enter(&Entry { attempt, ..*entry }, &NoSilence);
    }

    fn server(uid: &str, rv: u64) -> View {
        View::from([("default/a".to_owned(), State { uid: uid.to_owned(), rv })])
    }

    /// The faults of a plugin that was told this.
    fn told(replays: bool, lines: &[(&'static str, u64, u64)], server: &View) -> Vec<String> {
        let mut ledger = Ledger::default();
        lines.iter().for_each(|(text, seq, generation)| {
            enter(&mut ledger, replays, &entry(text, *seq, *generation));
        });
        let faults = ledger.faults(server, &NoSilence);
        assert_eq!(ledger.is_even_with(server, &NoSilence) && ledger.faulty == 0, faults.is_empty());
        faults.into_iter().map(|fault| fault.split(": Entry").next().unwrap_or_default().to_owned()).collect()
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn a_chain_of_states_has_no_fault_whether_merged_repeated_or_continued() {
        let lines = [
            ("add u 1 ok", 1, 1),
            ("update u 1 4 trap", 4, 1),
            ("update u 1 5 ok", 5, 1),
            ("delete u 6 ok", 6, 2),
            ("add v 7 ok", 7, 2),
        ];
        assert_eq!(told(false, &lines, &server("v", 7)), NONE);
    }

    #[test]
    fn an_object_whose_add_broke_may_be_deleted_and_no_other_one() {
        let broken = ("add u 1 trap", 1, 1);
        assert_eq!(told(false, &[broken, ("delete u 2 ok", 2, 1)], &View::new()), NONE);
        let faults = ["the object was not known"];
        assert_eq!(told(false, &[broken, ("delete v 2 ok", 2, 1)], &View::new()), faults);
        let handled = [broken, ("add u 1 ok", 1, 1), ("delete u 2 ok", 2, 1), ("delete u 3 ok", 3, 1)];
        assert_eq!(told(false, &handled, &View::new()), faults);
    }

    #[test]
    fn a_replay_tells_everything_again_and_the_deletes_that_waited() {
        let again = [("add u 1 ok", 1, 1), ("add u 1 ok", 2, 2), ("update u 1 2 ok", 3, 2)];
        assert_eq!(told(true, &again, &server("u", 2)), NONE);
        let replaced = [("add u 1 ok", 1, 1), ("delete u 2 ok", 2, 2), ("add v 3 ok", 3, 2)];
        assert_eq!(told(true, &replaced, &server("v", 3)), NONE);
    }

    #[test]
    fn what_is_lost_doubled_or_out_of_order_is_found() {
        let two = server("u", 2);
        for (replays, lines, server, fault) in [
            (
                false,
                vec![("add u 1 ok", 1, 1)],
                two.clone(),
                "default/a: told State { uid: \"u\", rv: 1 }, the server has Some(State { uid: \"u\", rv: 2 })",
            ),
            (false, vec![], two.clone(), "default/a: never told"),
            (
                false,
                vec![("add u 1 ok", 1, 1), ("update u 3 2 ok", 3, 1)],
                two.clone(),
                "it begins at Some(3), but the last state told is Some(1)",
            ),
            (
                false,
                vec![("add u 1 ok", 1, 1), ("add u 2 ok", 2, 1)],
                two.clone(),
                "it was known already, at 1",
            ),
            (
                false,
                vec![("delete u 1 ok", 1, 1), ("add u 2 ok", 2, 1)],
                two.clone(),
                "the object was not known",
            ),
            (
                false,
                vec![("add u 2 ok", 2, 1), ("delete u 2 ok", 2, 1)],
                View::new(),
                "event 2 of the object came before",
            ),
            (
                false,
                vec![("add u 2 ok", 2, 2), ("delete u 2 ok", 3, 1)],
                View::new(),
                "version 2 is the plugin's",
            ),
            (false, vec![("add u 2 timeout", 2, 1)], View::new(), "it ended with timeout"),
            (
                false,
                vec![("add u 2 trap", 2, 1)],
                View::new(),
                "default/a: event 2 broke and was not repeated",
            ),
            (
                true,
                vec![("add u 1 ok", 1, 1), ("add v 2 ok", 2, 2)],
                server("v", 2),
                "the delete of the object that had its name is missing",
            ),
        ] {
            assert_eq!(told(replays, &lines, &server).first().map(String::as_str), Some(fault), "{lines:?}");
        }
        // The second version was told of another object only.
        let mut ledger = Ledger::default();
        enter(&mut ledger, true, &entry("add u 2 ok", 1, 1));
        enter(&mut ledger, true, &Entry { key: "default/b", ..entry("add w 3 ok", 2, 2) });
        let faults = ledger.faults(&two, &NoSilence);
        assert!(faults.contains(&"default/a: not told again after a replay".to_owned()), "{faults:?}");
    }

    #[test]
    fn attempts_are_counted_until_one_ends_well_or_a_replay_begins() {
        // Attempt, event, its number, generation; even ones replay.
        let faults = |lines: &[(u32, &'static str, u64, u64)]| {
            let mut ledger = Ledger::default();
            for (attempt, text, seq, generation) in lines {
                if *generation > ledger.generation {
                    ledger.turn_to(*generation, *generation % 2 == 0);
                }
                ledger.enter(&Entry { attempt: *attempt, ..entry(text, *seq, *generation) }, &NoSilence);
            }
            ledger.faults_so_far().len()
        };
        let (trap, retry, ok) = ("add u 1 trap", "add u 1 retry", "add u 1 ok");
        assert_eq!(faults(&[(1, trap, 1, 1), (2, retry, 1, 1), (3, ok, 1, 1)]), 0);
        assert_eq!(faults(&[(1, trap, 1, 1), (1, ok, 1, 1)]), 1);
        assert_eq!(faults(&[(2, ok, 1, 1)]), 1);
        assert_eq!(faults(&[(1, trap, 1, 1), (1, "add u 2 ok", 2, 1)]), 0, "a later event was merged");
        assert_eq!(faults(&[(1, trap, 1, 1), (2, "add u 2 ok", 2, 1)]), 1);
        assert_eq!(faults(&[(1, trap, 1, 1), (1, ok, 1, 2)]), 0, "a replay counts afresh");
        assert_eq!(faults(&[(1, trap, 1, 2), (2, ok, 1, 3)]), 0, "another version counts on");
        assert_eq!(faults(&[(1, trap, 1, 2), (1, ok, 1, 3)]), 1);
    }

    #[test]
    fn what_is_silent_is_not_missed() {
        struct UpTo(u64);
        impl Silence for UpTo {
            fn between(&self, _: &str, from: u64, to: u64) -> bool {
                from <= to && to <= self.0
            }
        }
        let mut ledger = Ledger::default();
        ledger.turn_to(1, false);
        ledger.enter(&entry("add u 1 ok", 1, 1), &UpTo(3));
        ledger.enter(&entry("update u 3 4 ok", 2, 1), &UpTo(3));
        assert_eq!(ledger.faults(&server("u", 6), &UpTo(6)), NONE);
        assert_eq!(ledger.faults(&server("u", 6), &UpTo(5)).len(), 1);
        ledger.enter(&entry("update u 6 7 ok", 3, 1), &UpTo(3));
        assert_eq!(ledger.faults_so_far().len(), 1);
    }
}
