//! One life of a plugin, from its file's coming to its going: its versions, its subscriptions, and what each was told.
//!
//! An executable form of the README's "What is promised about delivery", 1 to 8 and 10, for all that the trace shows.
//! Invariants: an event belongs to a subscription of the version that handled it; a subscription that two versions have
//! goes on under the later one, any other begins anew; nothing is judged by when it was told, unless two things must not
//! overlap.

use std::collections::BTreeMap;

use super::cover::{Cover, Ear, Lax};
use super::history::{Commit, History, Moment, Place};
use super::plan::{Part, Watch};
use super::sight::{self, Seen, What};
use crate::ledger::{Entry, Ledger, Silence, State, View};

/// A version that ran.
#[derive(Debug, Clone)]
pub struct Version {
    /// What it wanted to be told.
    pub watches: Vec<Watch>,
    /// It began with a replay, if another one ran before.
    pub replays: bool,
    /// When it had taken over, at the latest.
    pub since: Moment,
    /// When it was seen to have been told everything, if it was.
    pub settled: Option<Moment>,
}

/// When an attempt was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it began, or a little later.
    pub from: Moment,
    /// When it was over, or a little later, but before anything that had to wait for it.
    pub to: Moment,
}

/// A clock that counts microseconds is wrong by one at each end.
const ROUNDING: Moment = 2;

/// How many faults are kept.
const KEPT: usize = 10;

/// See the file's head.
pub struct Account<'a> {
    history: &'a History,
    lax: &'a Lax,
    /// By generation, from 1.
    versions: &'a [Version],
    /// How many of them have begun.
    generation: usize,
    /// By name.
    told: BTreeMap<String, Told>,
    /// When the last attempt of each object ended, and of any.
    ended: BTreeMap<(String, String), Moment>,
    last_end: Moment,
    /// Attempts entered.
    pub attempts: u64,
    /// Events that ended well.
    pub done: u64,
    faults: Vec<String>,
}

/// What one subscription was told.
struct Told {
    watch: Watch,
    /// What it listened for under earlier versions.
    before: Vec<Vec<Part>>,
    /// What it sees of each object, by key.
    sights: BTreeMap<String, Vec<Seen>>,
    ledger: Ledger,
    cover: Cover,
}

impl<'a> Account<'a> {
    /// Of a plugin with these versions, while the server did this.
    pub fn new(history: &'a History, versions: &'a [Version], lax: &'a Lax) -> Self {
        Self {
            history,
            lax,
            versions,
            generation: 0,
            told: BTreeMap::new(),
            ended: BTreeMap::new(),
            last_end: 0,
            attempts: 0,
            done: 0,
            faults: Vec::new(),
        }
    }

    /// Enters the next attempt.
    pub fn enter(&mut self, subscription: &str, entry: &Entry<'_>, span: Span) {
        self.attempts += 1;
        let generation = usize::try_from(entry.generation).unwrap_or(usize::MAX);
        if generation > self.versions.len() {
            return self.fault(format!("there is no such version: {entry:?}"));
        }
        if generation > self.generation && span.from + ROUNDING < self.last_end {
            self.fault(format!("the version before was not done yet: {entry:?}"));
        }
        while self.generation < generation {
            self.turn();
        }
        self.overlaps_nothing(subscription, entry, span);
        let Some(told) = self.told.get_mut(subscription) else {
            let generation = self.generation;
            return self.fault(format!("version {generation} has no subscription {subscription}: {entry:?}"));
        };
        let fault = told.enter(entry, self.lax).err();
        self.done += u64::from(entry.outcome == "ok");
        if let Some(fault) = fault {
            self.fault(format!("{subscription}: {fault}: {entry:?}"));
        }
    }

    /// The next version takes over.
    fn turn(&mut self) {
        let Some(version) = self.versions.get(self.generation) else { return };
        self.generation += 1;
        let mut before = std::mem::take(&mut self.told);
        for watch in &version.watches {
            let mut told = match before.remove(&watch.name) {
                Some(told) if told.watch.is_kept_as(watch) => {
                    if version.replays {
                        self.faults.extend(told.untold(self.lax));
                    }
                    told.taken_over(watch, version)
                }
                gone => {
                    self.faults.extend(gone.iter().flat_map(|told| told.over(self.lax)));
                    Told::new(watch, self.history, version)
                }
            };
            told.ledger.turn_to(self.generation as u64, version.replays);
            if let Some(settled) = version.settled {
                told.cover.settle(settled);
            }
            self.told.insert(watch.name.clone(), told);
        }
        self.faults.extend(before.values().flat_map(|told| told.over(self.lax)));
    }

    /// An object's events never overlap, and nothing of a version comes before the end of the one before it.
    fn overlaps_nothing(&mut self, subscription: &str, entry: &Entry<'_>, span: Span) {
        let object = (subscription.to_owned(), entry.key.to_owned());
        if self.ended.insert(object, span.to).is_some_and(|before| span.from + ROUNDING < before) {
            self.fault(format!("the object's event before was not done yet: {entry:?}"));
        }
        self.last_end = self.last_end.max(span.to);
    }

    fn fault(&mut self, fault: String) {
        if self.faults.len() < KEPT {
            self.faults.push(fault);
        }
    }

    /// Versions that were told nothing.
    fn turn_to_the_last(&mut self) {
        while self.generation < self.versions.len() {
            self.turn();
        }
    }

    /// What is wrong with a life that is over: what waited is nobody's any more.
    pub fn over(mut self) -> Vec<String> {
        self.turn_to_the_last();
        self.faults.extend(self.told.values().flat_map(|told| told.over(self.lax)));
        self.faults
    }

    /// What is wrong, when everything should have been told.
    pub fn settled(mut self) -> Vec<String> {
        self.turn_to_the_last();
        for (name, told) in &self.told {
            let faults = told.all_faults(self.lax);
            self.faults.extend(faults.into_iter().map(|fault| format!("{name}: {fault}")));
        }
        self.faults
    }
}

impl Told {
    fn new(watch: &Watch, history: &History, version: &Version) -> Self {
        let in_reach = history.objects().filter(|(place, _)| sight::is_in_reach(watch, place));
        let see = |(place, commits): (&Place, &[Commit])| (place.key(), sight::of(watch, commits));
        let mut cover = Cover::default();
        cover.begin(version.since);
        Self {
            watch: watch.clone(),
            before: Vec::new(),
            sights: in_reach.map(see).collect(),
            ledger: Ledger::default(),
            cover,
        }
    }

    fn taken_over(mut self, watch: &Watch, version: &Version) -> Self {
        if self.watch.listens_for() != watch.listens_for() {
            self.before.push(self.watch.listens_for().to_vec());
        }
        self.watch = watch.clone();
        if version.replays {
            self.cover.begin(version.since);
        }
        self
    }

    /// Enters an attempt of the version that has it now.
    ///
    /// # Errors
    /// If the event does not fit to what the server did.
    fn enter(&mut self, entry: &Entry<'_>, lax: &Lax) -> Result<(), String> {
        let Self { watch, before, sights, ledger, cover } = self;
        let ear = Ear { now: watch.listens_for(), before, lax };
        ledger.enter(entry, &Hearing { sights, ear });
        if entry.outcome != "ok" {
            return Ok(());
        }
        if entry.resync && watch.resync == 0 {
            return Err("nobody asked for a resync".into());
        }
        let seen = sights.get(entry.key).ok_or("the object is none of its")?;
        cover.enter(entry, seen, ear)
    }

    /// What is wrong when it is over.
    fn over(&self, lax: &Lax) -> Vec<String> {
        let mut faults = self.ledger.faults_so_far();
        faults.extend(self.untold(lax));
        faults
    }

    /// What was not told, of what should have been when the handler was seen to have been told everything.
    fn untold(&self, lax: &Lax) -> Vec<String> {
        let ear = Ear { now: self.watch.listens_for(), before: &self.before, lax };
        let fault = |(key, seen): (&String, &Vec<Seen>)| {
            let fault = self.cover.until_settled(key, seen, ear).err()?;
            Some(format!("{}: {key}: {fault}", self.watch.name))
        };
        self.sights.iter().filter_map(fault).collect()
    }

    /// What is wrong, when everything should have been told.
    fn all_faults(&self, lax: &Lax) -> Vec<String> {
        let ear = Ear { now: self.watch.listens_for(), before: &self.before, lax };
        let mut faults = self.ledger.faults(&self.view(), &Hearing { sights: &self.sights, ear });
        for (key, seen) in &self.sights {
            faults.extend(self.cover.finish(key, seen, ear).err().map(|fault| format!("{key}: {fault}")));
        }
        faults
    }

    /// What there is in the end.
    fn view(&self) -> View {
        let last = |(key, seen): (&String, &Vec<Seen>)| {
            let last = seen.last()?;
            let state = State { uid: last.uid.clone(), rv: last.version()? };
            Some((key.clone(), state))
        };
        self.sights.iter().filter_map(last).collect()
    }
}

/// What of its objects' histories a subscription does not want to hear.
struct Hearing<'a> {
    sights: &'a BTreeMap<String, Vec<Seen>>,
    ear: Ear<'a>,
}

impl Silence for Hearing<'_> {
    fn between(&self, key: &str, from: u64, to: u64) -> bool {
        let Some(seen) = self.sights.get(key) else { return false };
        let place = |version| seen.iter().position(|seen| seen.version() == Some(version));
        match (place(from), place(to)) {
            (Some(first), Some(last)) if first <= last => {
                let mut between = seen.iter().take(last + 1).skip(first + 1);
                between.all(|seen| seen.what == What::Change && self.ear.may_miss(seen))
            }
            _ => from == to,
        }
    }
}
