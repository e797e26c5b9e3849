//! That each change of an object is told once: by an event of its own, or by one that it may have been merged into.
//!
//! Beside the chain of states, which the [`ledger`](crate::ledger) follows, since that does not see an object whose
//! creation and end are both missing, nor two changes told as one where nothing is to be merged.
//!
//! Invariant: what is covered of an object's history only grows, and never by more than what is told, unless the handler
//! begins with that object (its subscription began, or a replay), or merging was allowed at the time.

use std::collections::{BTreeMap, BTreeSet};

use super::history::Moment;
use super::plan::Part;
use super::sight::{Seen, What};
use crate::ledger::Entry;

/// How long a change may take from the server to a plugin's queue, on a busy machine.
pub const LAG: Moment = 5_000_000;

/// Times in which waiting events of a plugin may have been merged.
#[derive(Debug, Clone, Default)]
pub struct Lax(Vec<(Moment, Option<Moment>)>);

/// What a subscription listens for.
#[derive(Debug, Clone, Copy)]
pub struct Ear<'a> {
    /// Now.
    pub now: &'a [Part],
    /// Under earlier versions; what waits in the queue may be of their time.
    pub before: &'a [Vec<Part>],
    /// The plugin's.
    pub lax: &'a Lax,
}

/// See the file's head.
#[derive(Debug, Default)]
pub struct Cover {
    /// How much of each object's history.
    covered: BTreeMap<String, usize>,
    /// Objects whose add was told since the subscription began, or since the last replay.
    begun_with: BTreeSet<String>,
    /// When that was, at the latest.
    began: Moment,
    /// When everything that was there then had been told, at the latest.
    settled: Option<Moment>,
}

impl Lax {
    /// From now on.
    pub fn begin(&mut self, at: Moment) {
        if self.0.last().is_none_or(|(_, to)| to.is_some()) {
            self.0.push((at, None));
        }
    }

    /// Until now.
    pub fn end(&mut self, at: Moment) {
        if let Some((_, to @ None)) = self.0.last_mut() {
            *to = Some(at);
        }
    }

    /// Whether a moment is one of them.
    pub fn has(&self, at: Moment) -> bool {
        self.0.iter().any(|(from, to)| *from <= at && to.is_none_or(|to| at <= to))
    }
}

impl Ear<'_> {
    /// Whether nothing need be told of it.
    pub fn may_miss(&self, seen: &Seen) -> bool {
        let by_then = || self.before.iter().any(|parts| seen.is_silent(parts));
        seen.is_silent(self.now) || (self.lax.has(seen.at) && by_then())
    }
}

impl Cover {
    /// The handler begins with every object, at this moment or before it.
    pub fn begin(&mut self, at: Moment) {
        self.begun_with.clear();
        self.began = at;
        self.settled = None;
    }

    /// Everything that was there when it began has been told by now.
    pub fn settle(&mut self, at: Moment) {
        self.settled.get_or_insert(at);
    }

    /// Enters an event that ended well, of an object with this history.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn enter(&mut self, entry: &Entry<'_>, seen: &[Seen], ear: Ear<'_>) -> Result<(), String> {
        let covered = self.covered.get(entry.key).copied().unwrap_or_default();
        // A resync is of the present state, which was told; so may an initial add be, in a replay.
        let again = entry.resync || entry.initial && !self.begun_with.contains(entry.key);
        let from = if again { covered.saturating_sub(1) } else { covered };
        let tells = |seen: &Seen| match entry.op {
            "delete" => seen.what == What::Leave && seen.uid == entry.uid,
            _ => {
                seen.version().is_some_and(|version| version.to_string() == entry.rv) && seen.uid == entry.uid
            }
        };
        let place = seen.iter().skip(from).position(tells).map(|place| from + place);
        let place = place.ok_or("the server did no such thing after what was told before")?;
        let this = seen.get(place).ok_or("no such place")?;
        self.is_as_it_was(entry, this, seen, place, ear)?;
        self.hides_nothing(entry.key, seen, covered, place, ear)?;
        self.covered.insert(entry.key.to_owned(), place + 1);
        if entry.op == "add" {
            self.begun_with.insert(entry.key.to_owned());
        }
        Ok(())
    }

    /// Operation and flags fit to what happened.
    fn is_as_it_was(
        &self,
        entry: &Entry<'_>,
        this: &Seen,
        seen: &[Seen],
        place: usize,
        ear: Ear<'_>,
    ) -> Result<(), String> {
        let lax = ear.lax.has(this.at);
        let begun_with = self.begun_with.contains(entry.key);
        match entry.op {
            "add" if entry.initial && begun_with => {
                Err("it is no initial add: the object was told of".into())
            }
            "add" if entry.initial => Ok(()),
            "add" => {
                let entered = seen.iter().take(place + 1).rev().find(|seen| seen.what == What::Enter);
                let existed = entered.is_some_and(|seen| seen.at + LAG < self.began);
                if !begun_with && existed {
                    Err("its add is not initial, but it was there when the subscription began".into())
                } else if this.what != What::Enter && !lax {
                    Err("changes were merged with its creation".into())
                } else {
                    Ok(())
                }
            }
            "update" if entry.resync => Ok(()),
            "update" if this.what != What::Change => Err("it did not change, it came to be".into()),
            "update" if this.is_silent(ear.now) && !lax => Err("it is no change to the subscription".into()),
            _ => Ok(()),
        }
    }

    /// Nothing between what was covered and `to` should have been told by itself.
    fn hides_nothing(
        &self,
        key: &str,
        seen: &[Seen],
        covered: usize,
        to: usize,
        ear: Ear<'_>,
    ) -> Result<(), String> {
        let begins = !self.begun_with.contains(key);
        for place in covered..to.min(seen.len()) {
            let Some(hidden) = seen.get(place) else { break };
            let before = begins && self.settled.is_none_or(|settled| hidden.at <= settled);
            // An event is merged when a later one comes.
            let next = seen.iter().skip(place + 1).find(|seen| !ear.may_miss(seen));
            let merged = ear.lax.has(hidden.at) || next.is_some_and(|next| ear.lax.has(next.at));
            if !(before || merged || ear.may_miss(hidden)) {
                return Err(format!("{hidden:?} was not told"));
            }
        }
        Ok(())
    }

    /// What of an object should have been told when the handler had been told everything, and was not.
    ///
    /// # Errors
    /// That.
    pub fn until_settled(&self, key: &str, seen: &[Seen], ear: Ear<'_>) -> Result<(), String> {
        let Some(settled) = self.settled else { return Ok(()) };
        let count = |by: Moment| seen.iter().take_while(|seen| seen.at <= by).count();
        let (sure, at_most) = (count(settled - LAG), count(settled));
        if self.begun_with.contains(key) {
            let covered = self.covered.get(key).copied().unwrap_or_default();
            return self.hides_nothing(key, seen, covered, sure, ear);
        }
        // What is gone by then may have gone before its turn.
        let leaves = |seen: &Seen| seen.what == What::Leave;
        let stayed = sure > 0 && !seen.iter().take(at_most).skip(sure - 1).any(leaves);
        if stayed { Err("it was there, and never told".into()) } else { Ok(()) }
    }

    /// What of an object should have been told by now, and was not.
    ///
    /// # Errors
    /// That.
    pub fn finish(&self, key: &str, seen: &[Seen], ear: Ear<'_>) -> Result<(), String> {
        let covered = self.covered.get(key).copied().unwrap_or_default();
        self.hides_nothing(key, seen, covered, seen.len(), ear)
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::Looks;
    use super::*;

    /// Version 1 (text 1) to 3 (text 3), 4 (only `more` changed), gone at 5, there again as `v` with version 6.
    fn seen() -> Vec<Seen> {
        let looks = |text, more| Looks { labelled: true, off: false, text, more };
        let seen = |what, at: i64, uid: &str, state: Option<Looks>, before| Seen {
            what,
            at: at * 10 * LAG,
            uid: uid.into(),
            state: state.map(|looks| (at.unsigned_abs(), looks)),
            before,
        };
        vec![
            seen(What::Enter, 1, "u", Some(looks(1, 0)), None),
            seen(What::Change, 2, "u", Some(looks(2, 0)), Some(looks(1, 0))),
            seen(What::Change, 3, "u", Some(looks(3, 0)), Some(looks(2, 0))),
            seen(What::Change, 4, "u", Some(looks(3, 1)), Some(looks(3, 0))),
            seen(What::Leave, 5, "u", None, Some(looks(3, 1))),
            seen(What::Enter, 6, "v", Some(looks(4, 1)), None),
        ]
    }

    /// `add u 1`, `initial u 1`, `update u 2`, `delete u`, `resync u 2`.
    fn entry(text: &'static str) -> Entry<'static> {
        let words: Vec<&str> = text.split(' ').collect();
        let op = match words[0] {
            "initial" => "add",
            "resync" => "update",
            op => op,
        };
        Entry {
            plugin: "p",
            generation: 1,
            op,
            key: "reloads-a/a",
            uid: words[1],
            rv: words.get(2).copied().unwrap_or("0"),
            old_rv: None,
            attempt: 1,
            initial: words[0] == "initial",
            resync: words[0] == "resync",
            outcome: "ok",
            seq: 1,
        }
    }

    /// The first fault of a handler that began at `began`, had settled at 10 LAG times `settled`, and was told this.
    fn fault(began: Moment, settled: i64, told: &[&'static str], ear: Ear<'_>) -> Option<String> {
        let mut cover = Cover::default();
        cover.begin(began);
        cover.settle(settled * 10 * LAG);
        for text in told {
            if let Err(fault) = cover.enter(&entry(text), &seen(), ear) {
                return Some(format!("{text}: {fault}"));
            }
        }
        cover.finish("reloads-a/a", &seen(), ear).err()
    }

    const ALL: [&str; 6] = ["add u 1", "update u 2", "update u 3", "update u 4", "delete u", "add v 6"];

    #[test]
    fn each_change_once_is_right_from_wherever_it_begins() {
        let lax = Lax::default();
        let ear = Ear { now: &[], before: &[], lax: &lax };
        assert_eq!(fault(0, 0, &ALL, ear), None);
        let later = ["initial u 3", "update u 4", "resync u 4", "delete u", "add v 6"];
        assert_eq!(fault(25 * LAG, 3, &later, ear), None);
        let silent = ["add u 1", "update u 2", "update u 3", "delete u", "add v 6"];
        assert_eq!(fault(0, 0, &silent, Ear { now: &[Part::Text], ..ear }), None);
        assert_eq!(fault(0, 0, &["add v 6"], ear).map(|fault| fault.contains("Enter")), Some(true));
        assert_eq!(fault(0, 5, &["add v 6"], ear), None, "the other one was gone when it had begun");
    }

    #[test]
    fn what_is_left_out_doubled_swapped_or_made_up_is_found() {
        let lax = Lax::default();
        let ear = Ear { now: &[], before: &[], lax: &lax };
        for (at, line) in ALL.iter().enumerate() {
            let mut told = ALL.to_vec();
            told.remove(at);
            assert!(fault(0, 0, &told, ear).is_some(), "without {line}");
            let mut twice = ALL.to_vec();
            twice.insert(at, line);
            assert!(fault(0, 0, &twice, ear).is_some(), "twice {line}");
            if at > 0 {
                let mut swapped = ALL.to_vec();
                swapped.swap(at - 1, at);
                assert!(fault(0, 0, &swapped, ear).is_some(), "{swapped:?}");
            }
        }
        assert!(fault(0, 0, &["add u 7"], ear).is_some());
        assert!(fault(0, 0, &[&ALL[..], &["initial v 6"]].concat(), ear).is_some());
        let silent = Ear { now: &[Part::Text], ..ear };
        assert!(fault(0, 0, &ALL, silent).is_some_and(|fault| fault.contains("no change to")));
        let merged = ["add u 2", "update u 3", "update u 4", "delete u", "add v 6"];
        assert!(fault(0, 0, &merged, ear).is_some_and(|fault| fault.contains("merged")));
        let existed = ["add u 1", "update u 2", "update u 3", "update u 4", "delete u", "add v 6"];
        assert!(fault(15 * LAG, 2, &existed, ear).is_some_and(|fault| fault.contains("not initial")));
    }

    #[test]
    fn what_was_there_when_everything_had_been_told_was_told() {
        let lax = Lax::default();
        let ear = Ear { now: &[], before: &[], lax: &lax };
        let until = |settled: i64, told: &[&'static str]| {
            let mut cover = Cover::default();
            cover.begin(0);
            cover.settle(settled * LAG);
            for text in told {
                cover.enter(&entry(text), &seen(), ear).expect("as it was");
            }
            cover.until_settled("reloads-a/a", &seen(), ear).is_ok()
        };
        assert!(until(35, &["add u 1", "update u 2", "update u 3"]));
        assert!(!until(35, &["add u 1", "update u 2"]) && !until(35, &[]));
        assert!(until(10, &[]), "it may have been on its way");
        assert!(until(55, &[]) && until(51, &[]), "it was gone");
    }

    #[test]
    fn what_may_be_merged_may_be_left_out_at_its_time() {
        let mut lax = Lax::default();
        lax.begin(29 * LAG);
        lax.end(51 * LAG);
        let ear = Ear { now: &[], before: &[], lax: &lax };
        // 3 and 4 are of that time, and 2 may have waited for 3.
        assert_eq!(fault(0, 0, &["add u 1", "update u 4", "delete u", "add v 6"], ear), None);
        let too_much = ["add u 2", "update u 4", "delete u", "add v 6"];
        assert!(fault(0, 0, &too_much, ear).is_some());
        assert!(fault(0, 0, &ALL[..5], ear).is_some(), "the last one is not");
    }
}
