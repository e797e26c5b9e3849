//! Which versions of a plugin were on trial, how each trial ended, and whether what followed is what is promised.
//!
//! An executable form of the README's "Rollback", for one life of a plugin. Invariants: whether a version was on trial, and
//! how that ended, follows from the builds, their treatment and the trace alone; the log is asked only whether it says so.

use super::account::Span;
use super::config::Treatment;
use super::history::Moment;
use super::model::Record;
use super::news::{Arrival, Back, Carried};
use crate::trace::Line;

/// A version that ran.
pub struct Tried<'a> {
    /// What the log says of it.
    pub arrival: &'a Arrival,
    /// Attempts that it would be on trial for; none: rollback is off.
    pub rollback: Option<u32>,
    /// Instances that begin with a reason that they say: those with a memory.
    pub instances: usize,
}

/// What came of the attempts of one version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Those that broke it.
    broke: u64,
    /// How many had broken it when it first answered, if it did.
    answered_after: Option<u64>,
}

/// See the file's head.
pub struct Trials<'a> {
    record: &'a Record,
    /// The content that was good last, and the last version of it that ran, from 0.
    good: Option<(String, usize)>,
    /// Versions so far: which, with the attempts of its trial, and what came of them.
    past: Vec<(&'a Arrival, Option<u64>, Tally)>,
    /// The last change of its treatment that is known to have acted by itself.
    treated: Option<Moment>,
    /// Of which version each has its memory, from 0; the one before it, or the one that was good last.
    heirs: Vec<usize>,
    faults: Vec<String>,
}

/// The attempts of so many versions, by generation; of the suite's own objects and of others.
pub fn tallies(lines: &[(Line, Span)], versions: usize) -> Vec<Tally> {
    let mut tallies = vec![Tally::default(); versions];
    for (line, _) in lines {
        let place = usize::try_from(line.generation).ok().and_then(|generation| generation.checked_sub(1));
        let Some(tally) = place.and_then(|place| tallies.get_mut(place)) else { continue };
        if matches!(line.outcome.as_str(), "trap" | "timeout") {
            tally.broke += 1;
        } else {
            tally.answered_after.get_or_insert(tally.broke);
        }
    }
    tallies
}

impl<'a> Trials<'a> {
    /// Of a plugin to which this was done.
    pub fn new(record: &'a Record) -> Self {
        Self { record, good: None, past: Vec::new(), treated: None, heirs: Vec::new(), faults: Vec::new() }
    }

    /// The next version took over, and this came of its attempts.
    pub fn enter(&mut self, tried: &Tried<'a>, tally: Tally) {
        let (arrival, number) = (tried.arrival, self.past.len());
        let is_good = |(good, _): &(String, usize)| *good == arrival.hash;
        let attempts = tried.rollback.filter(|_| !self.good.as_ref().is_none_or(is_good)).map(u64::from);
        let mut heir = number.saturating_sub(1);
        match &arrival.back {
            Some(back) => {
                self.came_back(back, tried);
                heir = self.good.as_ref().map_or(heir, |(_, version)| *version);
            }
            None => self.came_by_itself(tried),
        }
        if let Some(attempts) = attempts {
            self.keeps_to(arrival, attempts, tally);
        }
        if attempts.is_none() || tally.answered_after.is_some() {
            self.good = Some((arrival.hash.clone(), number));
        }
        self.heirs.push(heir);
        self.past.push((arrival, attempts, tally));
    }

    /// It is the last good one, and the version before it deserved it.
    fn came_back(&mut self, back: &Back, tried: &Tried<'_>) {
        let arrival = tried.arrival;
        let failed = self.past.last().and_then(|(before, attempts, tally)| {
            let failed = (*attempts)? == tally.broke && tally.answered_after.is_none();
            failed.then(|| Back { from: before.hash.clone(), to: String::new(), attempts: tally.broke })
        });
        let good = self.good.as_ref().map(|(good, _)| good.clone());
        let want = failed.zip(good).map(|(failed, to)| Back { to, ..failed });
        if want.as_ref() != Some(back) || arrival.hash != back.to {
            self.faults.push(format!("{want:?} is due, but the log says {arrival:?}"));
        }
        // What cannot carry the memory on makes place for another one, which begins for the same reason.
        let each = tried.instances as u64;
        let most = if arrival.carried == Carried::Afresh { 2 * each } else { each };
        if !(each..=most).contains(&arrival.begun_by_rollback) {
            self.faults
                .push(format!("{} instances are to begin by a rollback: {arrival:?}", tried.instances));
        }
    }

    /// It is what is in the file, or stands in for that.
    fn came_by_itself(&mut self, tried: &Tried<'_>) {
        let arrival = tried.arrival;
        let Some((before, attempts, tally)) = self.past.last() else { return };
        let failed =
            attempts.is_some_and(|attempts| tally.broke >= attempts) && tally.answered_after.is_none();
        if failed && !self.is_another(&before.hash, before.at, arrival.at, |_| true, |_| true) {
            self.faults.push(format!("{before:?} was not rolled back, but {arrival:?} came"));
        }
        if before.hash == arrival.hash {
            // A change of its treatment may take a while to act, but each acts once.
            let since = self.treated.unwrap_or(self.past.first().map_or(0, |(first, ..)| first.at));
            let changes = self.record.treatments.iter().map(|(at, _)| *at);
            let change = changes.filter(|at| since < *at && *at <= arrival.at).max();
            if change.is_none() {
                self.faults.push(format!("it ran already, under the same treatment: {arrival:?}"));
            }
            self.treated = change.or(self.treated);
        }
        if arrival.begun_by_rollback > 0 {
            self.faults.push(format!("nothing was rolled back: {arrival:?}"));
        }
        let refused = self.past.windows(2).rev().find_map(|two| {
            let [(before, ..), (after, ..)] = two else { return None };
            after.back.as_ref().filter(|back| back.from == arrival.hash).map(|_| before.at)
        });
        // A broken file in between is no reason.
        let has_run = |of: &str| self.past.iter().any(|(past, ..)| of.starts_with(&past.hash));
        let is_off = |treatment: &Treatment| treatment.rollback.is_none();
        if let Some(at) = refused
            && !self.is_another(&arrival.hash, at, arrival.at, has_run, is_off)
        {
            self.faults.push(format!("it is refused, but it came: {arrival:?}"));
        }
    }

    /// Whether other content was in the file that counts, or such a treatment was asked for, since this content was saved that
    /// began to run at `from`, and until `to`.
    fn is_another(
        &self,
        hash: &str,
        from: Moment,
        to: Moment,
        counts: impl Fn(&str) -> bool,
        such: impl Fn(&Treatment) -> bool,
    ) -> bool {
        let saves = || self.record.saves.iter();
        let saved = saves().filter(|(at, of)| *at <= from && of.starts_with(hash)).map(|(at, _)| *at).max();
        let since = saved.unwrap_or(from);
        let within = |at: Moment| since < at && at <= to;
        saves().any(|(at, of)| within(*at) && !of.starts_with(hash) && counts(of))
            || self.record.treatments.iter().any(|(at, treatment)| within(*at) && such(treatment))
    }

    /// No more attempts were made than a trial has, unless one of them was answered.
    fn keeps_to(&mut self, arrival: &Arrival, attempts: u64, tally: Tally) {
        let broke = tally.answered_after.map_or(tally.broke, |broke| broke + 1);
        if broke > attempts {
            self.faults.push(format!("on trial for {attempts} attempts, but {tally:?}: {arrival:?}"));
        }
    }

    /// What is wrong, and whose memory each version has, if it was to carry on one.
    pub fn end(mut self, is_over: bool) -> (Vec<String>, Vec<usize>) {
        if let Some((arrival, Some(attempts), tally)) = self.past.last()
            && tally.broke >= *attempts
            && tally.answered_after.is_none()
            && !is_over
        {
            self.faults.push(format!("it was not rolled back: {arrival:?}"));
        }
        (self.faults, self.heirs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version that took over: its content, and what came of its attempts, `x` where it broke and `.` where it answered.
    fn arrival(at: Moment, hash: &str, back: Option<(&str, u64)>) -> Arrival {
        let back = back.map(|(from, attempts)| Back { from: from.into(), to: hash.into(), attempts });
        let begun_by_rollback = u64::from(back.is_some());
        let carried = Carried::Nothing;
        Arrival { at, hash: hash.into(), subscriptions: None, carried, restored: 0, begun_by_rollback, back }
    }

    fn tally(attempts: &str) -> Tally {
        let line = |outcome: char| Line {
            generation: 1,
            outcome: if outcome == 'x' { "trap".into() } else { "retry".into() },
            ..Line::default()
        };
        let lines: Vec<_> = attempts.chars().map(|one| (line(one), Span { from: 0, to: 0 })).collect();
        tallies(&lines, 1)[0]
    }

    /// `>a . >b xxx <a .`: contents that are saved (`>`) and take over a moment later, come under another treatment (`=`),
    /// come back (`<`), come after a broken file (`!`) or just come, with their attempts; at three attempts a trial. Gives what
    /// is wrong, and whose memory each has.
    fn judged(script: &str, is_over: bool) -> (Vec<String>, Vec<usize>) {
        let mut record = Record { treatments: vec![(0, Treatment::default())], ..Record::default() };
        let words: Vec<&str> = script.split(' ').collect();
        let (mut arrivals, mut before) = (Vec::new(), String::new());
        for (at, two) in (1..).zip(words.chunks(2)) {
            let [name, attempts] = two else { panic!("{script}") };
            let (hash, at) = (name.trim_start_matches(['<', '>', '=', '!']), at * 10);
            if name.starts_with('=') {
                record.treatments.push((at - 1, Treatment { rollback: Some(3), ..Treatment::default() }));
            }
            if name.starts_with('>') {
                record.saves.push((at - 1, hash.to_owned() + "-more"));
            }
            if name.starts_with('!') {
                record.saves.extend([(at - 2, "half of it".to_owned()), (at - 1, hash.to_owned() + "-more")]);
            }
            let broke = tally(attempts).broke;
            arrivals
                .push((arrival(at, hash, name.starts_with('<').then_some((before.as_str(), 3))), *attempts));
            assert!(broke <= 9);
            before = hash.to_owned();
        }
        let mut trials = Trials::new(&record);
        for (arrival, attempts) in &arrivals {
            let instances = usize::from(arrival.back.is_some());
            trials.enter(&Tried { arrival, rollback: Some(3), instances }, tally(attempts));
        }
        trials.end(is_over)
    }

    #[test]
    fn what_is_promised_has_no_fault_and_what_comes_back_has_the_memory_of_what_was_good() {
        for (script, heirs) in [
            (">a . >b xx. >c . >a .", vec![0, 0, 1, 2]),
            // The first one is on no trial.
            (">a xxxxx >b .", vec![0, 0]),
            (">a . >b xxx <a . >c .", vec![0, 0, 0, 2]),
            // Other settings of the good one (`=`); then two that are no good, the second saved during the trial of the first.
            (">a . =a . >b xx >c xxx <a .", vec![0, 0, 1, 2, 1]),
            // Saved when the trial had failed, and ready before the good one was on its way.
            (">a . >b xxx >c .", vec![0, 0, 1]),
            // Refused, replaced by another, and tried again.
            (">a . >b xxx <a . >c . >b xxx <c .", vec![0, 0, 0, 2, 3, 3]),
            (">a . >b xx", vec![0, 0]),
        ] {
            assert_eq!(judged(script, false), (vec![], heirs), "{script}");
        }
        assert_eq!(judged(">a . >b xxx", true), (vec![], vec![0, 0]), "it was removed meanwhile");
    }

    #[test]
    fn faults_that_are_planted_are_named() {
        for (script, fault) in [
            (">a . >b xxx", "it was not rolled back"),
            (">a . >b xxx b xxx <a .", "was not rolled back, but"),
            (">a . >b xxxx <a .", "on trial for 3 attempts"),
            (">a . >b xxx. >c .", "on trial for 3 attempts"),
            (">a . >b xx <a .", "None is due"),
            (">a . >b .xxx <a .", "None is due"),
            (">a xxx >b . >c xxx <a .", "is due, but the log says"),
            (">a . >b xxx <a . b .", "it is refused, but it came"),
            (">a . >b xxx <a . =b .", "it is refused, but it came"),
            (">a . >b xxx <a . !b .", "it is refused, but it came"),
            (">a . a .", "it ran already"),
            (">a . >b xxx <a . a .", "it ran already"),
            (">a . =a . a .", "it ran already"),
        ] {
            let (faults, _) = judged(script, false);
            assert!(faults.iter().any(|found| found.contains(fault)), "{script}: {fault}: {faults:?}");
        }
    }

    #[test]
    fn instances_say_why_they_begin() {
        let record = Record::default();
        for (first, second, third) in [(0, 0, 2), (0, 1, 1), (1, 0, 1)] {
            let all = [(first, "a", None), (second, "b", None), (third, "a", Some(("b", 3)))];
            let arrivals = all.map(|(begun_by_rollback, hash, back)| Arrival {
                begun_by_rollback,
                ..arrival(1, hash, back)
            });
            let mut trials = Trials::new(&record);
            for (arrival, attempts) in arrivals.iter().zip([".", "xxx", "."]) {
                trials.enter(&Tried { arrival, rollback: Some(3), instances: 1 }, tally(attempts));
            }
            // The first one's may be of a life before.
            assert_eq!(trials.end(false).0.is_empty(), first == 1, "{first} {second} {third}");
        }
    }
}
