//! The model: users and builds of many kinds, tick by tick, against [`Course`] as [`crate::dev::builder`] uses it.
//!
//! Asserted of every schedule: when all is at rest, the last command that ended by itself, or hangs, began with what the
//! user saved last, in every file of theirs; so many commands at most have begun since then; and a build whose outputs are known
//! runs once for an edit. Left out, and bounded by the number that `proptest` may leave out, are users who did one thing in
//! as many repeats of one row as make a proof, and in a confirmation: they cannot be told from the build. So are those who
//! did as much until it was said that nothing follows any more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;

use super::{Kind, MANY_REPEATS, Next, PROOF};
use crate::dev::course::Course;
use crate::dev::snapshot::Changes;
use crate::dev::state::{Action, Input, State};

/// What a build writes among its sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// What follows from the sources.
    Same,
    /// Something else each time, into a file that is there or comes to be there.
    Differs,
    /// As before, but each time only one of two files.
    Alternates,
    /// A new file each time.
    NewName,
    /// As before, and the one before is removed.
    Renamed,
    /// A new file in a new folder each time.
    NewFolder,
}

#[derive(Debug, Clone)]
struct Build {
    outputs: Vec<Output>,
    /// Ticks that it runs, and after which it writes.
    length: u32,
    writes_after: u32,
    /// It fails for every third content of the first source, and then makes no new names.
    fails: bool,
    /// It never ends for every third content of the first source, and writes nothing then.
    hangs: bool,
    /// Ticks that it may run on at least, if it is not ended at once.
    patience: u32,
    /// Ticks between a change and the look that finds it, and from being outdated to the end.
    look_after: u32,
    ends_after: u32,
}

/// What the user does next.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// Nothing for so many ticks.
    Wait(u32),
    /// Saves one of the sources, or one of the build's outputs.
    Save(usize),
    SaveOutput(usize),
    /// Makes a new source, among the others or among the outputs, or removes the newest.
    Make(bool),
    Remove,
    /// Saves a source in each of the next runs, so many ticks after it has begun; until nothing runs any more.
    Chase {
        source: usize,
        runs: u32,
        after: u32,
    },
    /// Waits until all is at rest.
    Watch,
}

type Files = BTreeMap<PathBuf, u64>;

/// What the user does in a run, as far as it could be taken for the build's doing.
type Doings = BTreeSet<(&'static str, PathBuf)>;

struct World {
    build: Build,
    course: Course,
    files: Files,
    /// Paths that are the user's alone.
    own: BTreeSet<PathBuf>,
    base: Files,
    /// What was there when the command began, and when the last one began that ended by itself.
    began_with: Files,
    built: Files,
    now: u32,
    /// When the command began, or is to end if it is outdated.
    began: u32,
    ends: Option<u32>,
    rested: u32,
    /// The first change that no look has found yet.
    stirred: Option<u32>,
    /// Commands that have begun.
    runs: u32,
    fresh: u64,
    doings: Doings,
    /// What the user did in repeats since the last run that was none, and in how many.
    repeated: BTreeMap<(&'static str, PathBuf), u32>,
    /// What they did in as many as make a proof.
    proved: Doings,
    /// And in a confirmation.
    beyond: bool,
    gave_up: bool,
}

impl World {
    fn new(build: Build) -> Self {
        let own: BTreeSet<PathBuf> = (0..3).map(source).collect();
        let files: Files = own.iter().map(|path| (path.clone(), 0)).collect();
        let mut world = Self {
            course: Course::new(ticks(build.patience)),
            build,
            own,
            base: files.clone(),
            began_with: Files::new(),
            built: Files::new(),
            files,
            now: 0,
            began: 0,
            ends: None,
            rested: 0,
            stirred: None,
            runs: 0,
            fresh: 0,
            doings: Doings::new(),
            repeated: BTreeMap::new(),
            proved: Doings::new(),
            beyond: false,
            gave_up: false,
        };
        world.step(Input::Begin);
        world
    }

    fn write(&mut self, path: PathBuf, content: u64) {
        if self.files.insert(path, content) != Some(content) {
            self.stirred.get_or_insert(self.now);
        }
    }

    fn remove(&mut self, path: &PathBuf) {
        if self.files.remove(path).is_some() {
            self.stirred.get_or_insert(self.now);
        }
    }

    fn fresh(&mut self) -> u64 {
        self.fresh += 1;
        self.fresh
    }

    fn step(&mut self, input: Input) {
        match self.course.step(input) {
            Action::Start => {
                (self.began, self.ends) = (self.now, None);
                self.began_with = self.files.clone();
                self.runs += 1;
            }
            Action::End | Action::EndOutdated(_) | Action::EndOverdue(_) => {
                self.ends = Some(self.now + self.build.ends_after)
            }
            Action::Look => self.judge(),
            Action::Nothing | Action::LetFinish(_) | Action::Doubt(_) => {}
        }
    }

    fn fails(&self) -> bool {
        self.build.fails && self.began_with.get(&source(0)).is_some_and(|content| content % 3 == 1)
    }

    /// The command that runs does not come to its end.
    fn hangs(&self) -> bool {
        let is_running = matches!(self.course.state(), State::Running(_));
        is_running
            && self.build.hangs
            && self.began_with.get(&source(0)).is_some_and(|content| content % 3 == 2)
    }

    fn look(&mut self) {
        self.stirred = None;
        let changes = changes(&self.files, &self.base);
        if changes.is_empty() {
            return;
        }
        if self.course.is_at_rest() {
            self.base = self.files.clone();
            self.doings.clear();
        }
        if let Some(input) = self.course.found(changes, ticks(self.now - self.began)) {
            self.step(input);
        }
    }

    fn judge(&mut self) {
        self.stirred = None;
        let changes = changes(&self.files, &self.base);
        self.base = self.files.clone();
        let doings = std::mem::take(&mut self.doings);
        let well = !self.fails();
        if let State::Over { cause, early: false } = self.course.state() {
            self.beyond |= cause.kind == Kind::Confirmation && !doings.is_disjoint(&self.proved);
            if cause.kind == Kind::Change {
                self.repeated.clear();
            } else {
                doings.into_iter().for_each(|doing| *self.repeated.entry(doing).or_default() += 1);
            }
            let proved = self.repeated.iter().filter(|(_, times)| **times >= PROOF);
            self.proved.extend(proved.map(|(doing, _)| doing.clone()));
            self.built = std::mem::take(&mut self.began_with);
        }
        let verdict = self.course.over(&changes, well, ticks(self.now - self.began));
        if matches!(verdict.next, Next::GiveUp(_)) {
            self.gave_up = true;
            self.beyond |= self.repeated.values().any(|times| *times >= PROOF);
        }
        let rest = if verdict.next == Next::Confirm {
            (2 * self.build.length).max(8)
        } else {
            self.build.length.max(2)
        };
        self.rested = self.now + rest;
        self.step(Input::Looked(verdict.next));
    }

    /// One tick of the build and of what looks at it.
    fn tick(&mut self) {
        self.now += 1;
        match self.course.state() {
            State::Due(_) => self.step(Input::Turn),
            State::Running(_) => {
                let since = self.now - self.began;
                if ticks(since) == self.course.patience() {
                    self.look();
                }
                if self.hangs() {
                    // Nothing comes of it.
                } else if since == self.build.writes_after {
                    self.output();
                }
                let runs = matches!(self.course.state(), State::Running(_));
                if runs && since >= self.build.length && !self.hangs() {
                    return self.step(Input::Ended);
                }
            }
            State::Ending { .. } if self.ends.is_some_and(|at| self.now >= at) => {
                return self.step(Input::Ended);
            }
            State::Resting(_) if self.now >= self.rested => {
                self.look();
                self.step(Input::Rested);
            }
            _ => {}
        }
        if self.stirred.is_some_and(|at| self.now >= at + self.build.look_after) {
            self.look();
        }
    }

    /// What the command writes.
    fn output(&mut self) {
        for (place, output) in self.build.outputs.clone().into_iter().enumerate() {
            let run = u64::from(self.runs);
            let name = |name: String| PathBuf::from(format!("/w/out/{place}")).join(name);
            match output {
                Output::Same => {
                    let sources = self.began_with.iter().filter(|(path, _)| self.own.contains(*path));
                    let sum = sources.map(|(_, content)| content).sum();
                    self.write(written(place), sum);
                }
                Output::Differs => {
                    let content = self.fresh();
                    self.write(written(place), content);
                }
                Output::Alternates => {
                    let content = self.fresh();
                    self.write(written(place + 100 * (self.runs % 2) as usize), content);
                }
                _ if self.fails() => {}
                Output::NewName => self.write(name(run.to_string()), run),
                Output::Renamed => {
                    let old: Vec<PathBuf> = self
                        .files
                        .keys()
                        .filter(|path| path.starts_with(name(String::new())))
                        .cloned()
                        .collect();
                    let old = old.iter().filter(|path| !self.own.contains(*path)).cloned();
                    old.collect::<Vec<_>>().iter().for_each(|path| self.remove(path));
                    self.write(name(run.to_string()), run);
                }
                Output::NewFolder => self.write(name(format!("{run}/file")), run),
            }
        }
    }

    /// The user has done something; while nothing runs, that alone is nothing to be taken for the build's.
    fn does(&mut self, what: &'static str, path: PathBuf) {
        self.doings.insert((what, path));
    }

    fn save(&mut self, path: PathBuf) {
        let content = self.fresh();
        self.does("save", path.clone());
        self.write(path, content);
    }

    fn make(&mut self, among_outputs: bool) {
        let number = self.fresh();
        let folder = if among_outputs { "/w/out/0" } else { "/w/src" };
        let path = PathBuf::from(format!("{folder}/own-{number}"));
        self.own.insert(path.clone());
        self.does("make", PathBuf::new());
        self.write(path, number);
    }

    fn remove_newest(&mut self) {
        let newest = self.own.iter().filter(|path| path.to_string_lossy().contains("own-"));
        // One that no look has seen is made and gone for nobody.
        let newest = newest.filter(|path| self.base.contains_key(*path));
        let newest = newest.filter_map(|path| Some((self.files.get(path)?, path))).max();
        if let Some(path) = newest.map(|(_, path)| path.clone()) {
            self.does("remove", PathBuf::new());
            self.remove(&path);
        }
    }

    fn is_idle(&self) -> bool {
        let is_over = *self.course.state() == State::Idle
            || self.hangs() && ticks(self.now - self.began) > self.course.patience();
        is_over && self.stirred.is_none()
    }

    fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..10_000 {
            if self.is_idle() {
                return Ok(());
            }
            self.tick();
        }
        Err(TestCaseError::fail(format!("it never comes to rest: {:?}", self.course)))
    }

    fn act(&mut self, act: Act) -> Result<(), TestCaseError> {
        match act {
            Act::Wait(ticks) => (0..ticks).for_each(|_| self.tick()),
            Act::Save(number) => self.save(source(number)),
            Act::SaveOutput(number) => self.save(written(number)),
            Act::Make(among_outputs) => self.make(among_outputs),
            Act::Remove => self.remove_newest(),
            Act::Watch => self.settle()?,
            Act::Chase { source: number, runs, after } => {
                let mut seen = self.runs;
                for _ in 0..runs {
                    while !self.is_idle() && (self.runs == seen || self.now < self.began + after) {
                        self.tick();
                    }
                    if matches!(self.course.state(), State::Running(_)) && !self.is_idle() {
                        self.save(source(number));
                    }
                    seen = self.runs;
                }
            }
        }
        Ok(())
    }

    /// What the last command began with that ended by itself, or hangs.
    fn built(&self) -> &Files {
        if self.hangs() { &self.began_with } else { &self.built }
    }

    /// What the user's files hold. While a command hangs: but those among its outputs, which it is known to make.
    fn of_user(&self, files: &Files) -> Files {
        let hangs = self.hangs();
        files
            .iter()
            .filter(|(path, _)| self.own.contains(*path) && !(hangs && path.starts_with("/w/out")))
            .map(|(path, at)| (path.clone(), *at))
            .collect()
    }
}

fn ticks(ticks: u32) -> Duration {
    Duration::from_secs(ticks.into())
}

fn source(number: usize) -> PathBuf {
    PathBuf::from(format!("/w/src/{number}"))
}

fn written(place: usize) -> PathBuf {
    PathBuf::from(format!("/w/src/written-{place}"))
}

fn changes(now: &Files, before: &Files) -> Changes {
    let new = now.iter().filter(|(path, _)| !before.contains_key(*path));
    let other = now.iter().filter(|(path, content)| before.get(*path).is_some_and(|old| old != *content));
    let gone = before.keys().filter(|path| !now.contains_key(*path));
    Changes {
        added: new.map(|(path, _)| path.clone()).collect(),
        modified: other.map(|(path, _)| path.clone()).collect(),
        removed: gone.cloned().collect(),
    }
}

fn build() -> impl Strategy<Value = Build> {
    let output = prop_oneof![
        4 => Just(Output::Same),
        4 => Just(Output::Differs),
        1 => Just(Output::Alternates),
        2 => Just(Output::NewName),
        2 => Just(Output::Renamed),
        1 => Just(Output::NewFolder),
    ];
    let outputs = prop::collection::vec(output, 0..4);
    let ends = (any::<bool>(), any::<bool>(), 5_u32..30);
    (outputs, 1_u32..10, 0_u32..10, ends, 1_u32..4, 1_u32..4).prop_map(
        |(outputs, length, writes_after, (fails, hangs, patience), look_after, ends_after)| Build {
            outputs,
            length,
            writes_after: writes_after.clamp(1, length),
            fails,
            hangs,
            patience,
            look_after,
            ends_after,
        },
    )
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (1_u32..25).prop_map(Act::Wait),
        4 => (0_usize..3).prop_map(Act::Save),
        1 => (0_usize..3).prop_map(Act::SaveOutput),
        1 => any::<bool>().prop_map(Act::Make),
        1 => Just(Act::Remove),
        2 => (0_usize..3, 1..=PROOF + 2, 0_u32..10)
            .prop_map(|(source, runs, after)| Act::Chase { source, runs, after }),
        1 => Just(Act::Watch),
    ]
}

/// Commands that may begin after the user's last doing: one that runs, a proof and its confirmation, and both of them
/// once more where what is removed was first made by a repeat; for builds that do now this and now that, more repeats; three that are outdated before each of
/// these; and two that take longer than their patience.
fn bound(build: &Build) -> u32 {
    let is_odd = build.outputs.contains(&Output::Alternates);
    let finished = 1 + 1 + PROOF + 1 + 1 + 1 + if is_odd { MANY_REPEATS } else { 0 };
    (1 + 3) * finished + 2
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, max_global_rejects: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_last_save_is_always_built_and_every_build_comes_to_rest(
        build in build(),
        acts in prop::collection::vec(act(), 0..30),
    ) {
        let bound = bound(&build);
        let outputs = build.outputs.clone();
        let fails = build.fails || build.hangs;
        let mut world = World::new(build);
        for act in acts {
            world.act(act)?;
        }
        let before = world.runs;
        world.settle()?;
        prop_assume!(!world.beyond);
        let runs = world.runs - before;
        prop_assert!(runs <= bound, "{runs} runs, where {bound} are enough");
        prop_assert_eq!(world.of_user(world.built()), world.of_user(&world.files), "what was saved last was not built");
        // All of it is known by now; an edit is built once, or twice if what follows from it lies among the sources.
        if !fails && !world.gave_up && !outputs.contains(&Output::Alternates) {
            let before = world.runs;
            world.save(source(2));
            world.settle()?;
            let runs = world.runs - before;
            let once = if outputs.contains(&Output::Same) { 2 + 3 } else { 1 };
            prop_assert!(runs <= once, "{runs} runs for one edit");
        }
    }
}
