//! Which of the changed files are a build's own outputs, although nobody has ignored them.
//!
//! Used by [`super::builder`]. Nothing tells who wrote a file; what can be seen is when it changed. So:
//!
//! - A change while nothing runs is somebody else's, whatever was thought of that file before.
//! - What changes while the build runs starts it once more, for that alone: a *repeat*. Whoever saved in the middle has it
//!   built by that. A build that writes the same each time comes to rest with the first repeat.
//! - What each of [`PROOF`] repeats in a row does, the build does: it is its [`Habit`], and starts nothing any more. All
//!   repeats but the first begin after a rest ([`super::state`]) as long as the run before, in which nothing has changed:
//!   whoever saves without regard to the builds saves then as well, and is found out.
//! - When a habit is new, and whenever it was in use since, one more run makes sure of it, after a longer rest in which
//!   nothing changes: a *confirmation*. If that does it too, it stands.
//! - A run that ends well and does not do what was a habit takes it back; what somebody had saved there, it has built.
//! - Repeats that go on, since they do now this and now that, start nothing any more after [`MANY_REPEATS`] with what they
//!   have done as often as that, and nothing at all after [`MOST_REPEATS`].
//!
//! Invariants, which `model` checks: after the last save of a file that the build does not write, a run begins, unless
//! that file was saved in so many repeats and in the confirmation, and in no rest between them, or it was said that
//! nothing starts the build any more ([`Next::GiveUp`]); and only so many runs follow a save.

mod habits;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use self::habits::{Deeds, deeds, unexplained};
use super::snapshot::Changes;

pub(super) use self::habits::Habit;

/// Repeats in a row that must have done something for it to be a habit. Whoever saves at random, as often as in every
/// second run and rest, which is the worst, saves in a run and not in the rest before it once in four times: in three of
/// them, the repeats but the first, once in 64, and the last save of all must be in the last of them to be lost.
const PROOF: u32 = 4;

/// Repeats after which it need not be in a row.
const MANY_REPEATS: u32 = 8;

/// Repeats, at most.
const MOST_REPEATS: u32 = 16;

/// In how many runs a file that was there must have changed to end none of them any more.
const RUNS: u8 = 2;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    /// In how many runs a file has changed since it last changed while none was.
    runs: BTreeMap<PathBuf, u8>,
    /// What has ever changed while none was: somebody writes it, whatever the build does.
    others: BTreeSet<PathBuf>,
    /// These start nothing, if the build does them to as many files as here.
    habits: BTreeMap<Known, Usual>,
    repeats: Repeats,
}

/// A habit that is known: all it does with names (new ones, gone ones) when it fails is known by itself (`true`). Then there
/// may be fewer than usual, and one of them somebody else's.
type Known = (Habit, bool);

/// How a habit is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Usual {
    /// To how many files.
    files: usize,
    /// A confirmation has done it.
    sure: bool,
}

/// The repeats since a run that something else had started.
#[derive(Debug, Default)]
struct Repeats {
    count: u32,
    /// What the last of them did, to how many files, and in how many in a row.
    did: BTreeMap<Habit, (usize, u32)>,
    /// What any of them did, to how many files, and how often.
    ever: BTreeMap<(Habit, usize), u32>,
}

/// What has started a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// Somebody's change, or nothing: it begins.
    #[default]
    Change,
    /// Only what had changed in the run before.
    Repeat,
    /// It is to do once more what is new as a habit.
    Confirmation,
}

/// A run that was not ended before its time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ran {
    pub(super) kind: Kind,
    /// It has done what it should.
    pub(super) well: bool,
}

/// What the changes that came while a build ran mean.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Habits that are known from now on.
    pub(super) learned: BTreeSet<Habit>,
    /// Habits that are none any more.
    pub(super) taken_back: BTreeSet<Habit>,
    pub(super) next: Next,
}

/// What the changes so far mean while the build runs. What it is known to do is not in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Meanwhile {
    /// These make it outdated.
    pub(super) outdating: Changes,
    /// These may be its own, as well as somebody else's.
    pub(super) doubtful: Changes,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing.
    Nothing,
    /// The build is run again at once, for these.
    Repeat(Changes),
    /// The build is run again for these, after a rest in which nothing changes.
    RepeatAfterRest(Changes),
    /// The build is run again after a longer rest in which nothing changes, to make sure of its habits.
    Confirm,
    /// Nothing, although these have changed: something has in each of many repeats, and each time something else.
    GiveUp(Changes),
}

impl Outputs {
    /// Changes while nothing runs: these are somebody else's.
    pub(super) fn changed_at_rest(&mut self, changes: &Changes) {
        for path in changes.paths() {
            self.runs.remove(path);
            self.habits.remove(&known(Habit::Writes(path.clone()), true));
            self.others.insert(path.clone());
        }
    }

    /// What the changes mean that came while the build runs.
    pub(super) fn meanwhile(&self, changes: &Changes) -> Meanwhile {
        let deeds = deeds(changes);
        let mut doubtful = unexplained(changes, |habit| self.is_known(habit, &deeds));
        let often = |path: &PathBuf| self.runs.get(path).is_some_and(|runs| *runs >= RUNS);
        let is_habit = |path: &PathBuf| self.habits.contains_key(&known(Habit::Writes(path.clone()), true));
        let outdates = |path: &PathBuf| !is_habit(path) && (self.others.contains(path) || !often(path));
        let modified = doubtful.modified.extract_if(.., outdates).collect();
        Meanwhile { outdating: Changes { modified, ..Changes::default() }, doubtful }
    }

    /// Whether it is known for sure to do this, to as many files or more, when it does well or when it fails.
    fn is_known(&self, habit: &Habit, deeds: &Deeds) -> bool {
        let so_far = deeds.get(habit).copied().unwrap_or_default();
        let known = |well| self.habits.get(&known(habit.clone(), well));
        [true, false].into_iter().filter_map(known).any(|usual| usual.sure && usual.files >= so_far)
    }

    /// The run was ended before its time, and another one follows; these changed meanwhile.
    pub(super) fn ended_early(&mut self, changes: &Changes) {
        self.count(changes);
    }

    /// The run is over; these changed meanwhile.
    pub(super) fn done(&mut self, changes: &Changes, ran: Ran) -> Verdict {
        self.count(changes);
        let deeds = deeds(changes);
        let taken_back = self.take_back(&deeds, ran.well);
        self.repeats.ran(&deeds, ran.kind != Kind::Change);
        if ran.kind == Kind::Confirmation {
            self.confirm(&deeds, ran.well);
        }
        let mut learned = BTreeSet::new();
        let open = unexplained(changes, |habit| {
            let explains = self.explains(habit, &deeds, ran.well);
            learned.extend(explains.then(|| habit.clone()));
            explains
        });
        let is_rare = !unexplained(&open, |habit| self.repeats.is_frequent(habit, &deeds)).is_empty();
        learned.retain(|habit| {
            deeds.get(habit).is_some_and(|files| self.learn(known(habit.clone(), ran.well), *files))
        });
        let next = match self.repeats.next(open, is_rare) {
            Next::Nothing if self.is_in_doubt(&deeds, ran.well) => Next::Confirm,
            next => next,
        };
        Verdict { learned, taken_back, next }
    }

    /// Whether that is new.
    fn learn(&mut self, known: Known, files: usize) -> bool {
        let is_new = self.habits.get(&known).is_none_or(|usual| usual.files != files);
        if is_new {
            self.habits.insert(known, Usual { files, sure: false });
        }
        is_new
    }

    /// A confirmation has done this.
    fn confirm(&mut self, deeds: &Deeds, well: bool) {
        for (habit, files) in deeds {
            let usual = self.habits.get_mut(&known(habit.clone(), well));
            if let Some(usual) = usual.filter(|usual| usual.files == *files) {
                usual.sure = true;
            }
        }
    }

    /// Whether any of this is a habit that no confirmation has done yet.
    fn is_in_doubt(&self, deeds: &Deeds, well: bool) -> bool {
        let unsure = |habit: &Habit| self.habits.get(&known(habit.clone(), well)).filter(|usual| !usual.sure);
        deeds.iter().any(|(habit, files)| unsure(habit).is_some_and(|usual| usual.files == *files))
    }

    /// Whether this is what the build does in any case.
    fn explains(&self, habit: &Habit, deeds: &Deeds, well: bool) -> bool {
        let in_a_row = self.repeats.did.get(habit).map_or(0, |(_, runs)| *runs);
        let known = self.habits.get(&known(habit.clone(), well));
        in_a_row >= PROOF || known.map(|usual| &usual.files) == deeds.get(habit)
    }

    /// What is no habit any more, since the build can do without it.
    fn take_back(&mut self, deeds: &Deeds, well: bool) -> BTreeSet<Habit> {
        let is_gone = |(habit, failing): &Known| *failing != well && !deeds.contains_key(habit);
        let gone = self.habits.extract_if(.., |known, _| is_gone(known));
        gone.map(|((habit, _), _)| habit).collect()
    }

    fn count(&mut self, changes: &Changes) {
        // What appears is an output at once.
        for path in &changes.added {
            self.runs.insert(path.clone(), RUNS);
        }
        for path in changes.modified.iter().chain(&changes.removed) {
            let runs = self.runs.entry(path.clone()).or_default();
            *runs = runs.saturating_add(1);
        }
    }
}

fn known(habit: Habit, well: bool) -> Known {
    let failing = !well && !matches!(habit, Habit::Writes(_));
    (habit, failing)
}

impl Repeats {
    /// A run has ended.
    fn ran(&mut self, deeds: &Deeds, repeat: bool) {
        if !repeat {
            *self = Self::default();
            return;
        }
        self.count += 1;
        let before = std::mem::take(&mut self.did);
        for (habit, files) in deeds {
            let runs = before.get(habit).filter(|(then, _)| then == files).map_or(0, |(_, runs)| *runs);
            self.did.insert(habit.clone(), (*files, runs + 1));
            *self.ever.entry((habit.clone(), *files)).or_default() += 1;
        }
    }

    /// Whether this was done as often as for a proof, although not in a row.
    fn is_frequent(&self, habit: &Habit, deeds: &Deeds) -> bool {
        let files = deeds.get(habit).copied().unwrap_or_default();
        self.ever.get(&(habit.clone(), files)).is_some_and(|times| *times >= PROOF)
    }

    /// What follows if these are not explained. `is_rare`: nor frequent, all of them.
    fn next(&self, open: Changes, is_rare: bool) -> Next {
        match self.count {
            _ if open.is_empty() => Next::Nothing,
            0 => Next::Repeat(open),
            MOST_REPEATS.. => Next::GiveUp(open),
            MANY_REPEATS.. if !is_rare => Next::GiveUp(open),
            _ => Next::RepeatAfterRest(open),
        }
    }
}
