//! One build: watches its sources, runs its command, says what becomes of it.
//!
//! Used by [`super::builds`], one task each. What follows from what is said by [`super::course`]; here that is brought
//! together with files, processes and the clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::Instant;

use super::builds::Options;
use super::course::Course;
use super::folders::{Folders, Watching};
use super::look::{Eyes, Pace};
use super::outputs::{Kind, Next};
use super::plugin_files::PluginFiles;
use super::runner::{Finished, Job, Run};
use super::snapshot::Snapshot;
use super::sources::{Sources, absolute};
use super::state::{Action, Cause, Input, State};
use super::words::Words;
use crate::config::Build;

/// How often a command that takes its time is spoken of.
const GOES_ON: Duration = Duration::from_secs(10);

/// The rest before a repeat is as long as the run before it, within these: shorter, hardly anybody would save in it; longer,
/// whoever saved in the middle of two runs waits for it.
const SHORTEST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(30);

/// The rest before a run that makes sure of a habit is twice as long as the run before it, or this if that is longer.
const REST_TO_CONFIRM: Duration = Duration::from_secs(20);

/// How long a command runs on at least although something has changed in it, since it may be its own doing, or since it
/// was ended three times in a row.
const PATIENCE: Duration = Duration::from_secs(60);

/// When sources are looked at again if that could not be done at all.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// See the file's head.
pub(super) struct Builder {
    sources: Sources,
    job: Job,
    words: Words,
    course: Course,
    pace: Pace,
    /// None while they look.
    eyes: Option<Eyes>,
    stir: watch::Sender<()>,
    stirred: watch::Receiver<()>,
    /// What the sources hold as far as is known.
    latest: Arc<Snapshot>,
    /// What they held when the command started, or was looked at last.
    base: Arc<Snapshot>,
    /// The plugins when the command started, and now.
    plugins: PluginFiles,
    /// It was said that no plugin has changed.
    hinted: bool,
    complaints: BTreeSet<String>,
    queue: Queue,
    turn: Option<OwnedSemaphorePermit>,
    run: Option<Run>,
    /// When the command is spoken of next.
    goes_on: Instant,
    /// When it has had its time, if that is still to come: what has changed by then ends it.
    overdue: Option<Instant>,
    /// How long the last one ran.
    took: Duration,
    /// It is new in the configuration, and has not run yet.
    anew: bool,
    /// Whether the last command did well.
    well: bool,
    /// When a rest that begins now, or has begun, is over.
    rested: Instant,
}

/// Whose turn it is: one command at a time, over all builds. At the start they come in the order of the configuration.
pub(super) struct Queue {
    turns: Arc<Semaphore>,
    /// The one before has had its first turn, or is gone.
    before: Option<oneshot::Receiver<()>>,
    /// Tells the next one so; dropped with the first turn.
    next: Option<oneshot::Sender<()>>,
}

/// What the loop waits for.
enum Woke {
    Stop {
        /// The configuration has changed; else Hark ends.
        dropped: bool,
    },
    Finished(Finished),
    Turn(Option<OwnedSemaphorePermit>),
    Stirred,
    Woken,
}

impl Builder {
    /// `anew`: the configuration has changed, and has it since then.
    ///
    /// # Errors
    /// If the present folder is gone.
    pub(super) fn new(build: &Build, options: &Options, queue: Queue, anew: bool) -> std::io::Result<Self> {
        let sources = Sources::of(build, &options.own)?;
        let folder = absolute(&build.folder)?;
        let words = Words::new(options.output.clone(), build, folder.clone());
        let plugins = absolute(&options.own.plugins)?;
        let colours = words.has_colours();
        let (stir, stirred) = watch::channel(());
        let now = Instant::now();
        Ok(Self {
            eyes: None,
            job: Job {
                command: build.run.clone(),
                folder,
                files: options.files,
                plugins: plugins.clone(),
                colours,
            },
            sources,
            words,
            course: Course::new(PATIENCE),
            pace: Pace::new(now),
            stir,
            stirred,
            latest: Arc::default(),
            base: Arc::default(),
            plugins: PluginFiles::of(plugins),
            hinted: false,
            complaints: BTreeSet::new(),
            queue,
            turn: None,
            run: None,
            goes_on: now,
            overdue: None,
            took: Duration::ZERO,
            anew,
            well: false,
            rested: now,
        })
    }

    /// Runs until `stop` is sent, which is said (the configuration has it no more), or dropped (Hark ends), and no command
    /// is left.
    pub(super) async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        self.look().await;
        self.base = self.latest.clone();
        self.step(Input::Begin).await;
        let mut stopping = false;
        while *self.course.state() != State::Stopped {
            let wake = self.wake();
            let woke = tokio::select! {
                biased;
                told = &mut stop, if !stopping => Woke::Stop { dropped: told.is_ok() },
                finished = finished(&mut self.run) => Woke::Finished(finished),
                turn = self.queue.turn(), if matches!(self.course.state(), State::Due(_)) => Woke::Turn(turn),
                // The sender is our own: it cannot be gone.
                _ = self.stirred.changed() => Woke::Stirred,
                () = tokio::time::sleep_until(wake) => Woke::Woken,
            };
            match woke {
                Woke::Stop { dropped } => {
                    stopping = true;
                    if dropped {
                        self.words.dropped(self.run.as_ref().map(|run| run.began.elapsed()));
                    }
                    self.step(Input::Stop).await;
                }
                Woke::Finished(finished) => self.finished(&finished).await,
                Woke::Turn(turn) => {
                    self.turn = turn;
                    self.step(Input::Turn).await;
                }
                Woke::Stirred => self.pace.stir(Instant::now()),
                Woke::Woken => self.woken().await,
            }
        }
    }

    /// When the clock has something to do.
    fn wake(&self) -> Instant {
        let look = self.pace.due();
        match self.course.state() {
            State::Running(_) | State::Ending { .. } => {
                look.min(self.goes_on).min(self.overdue.unwrap_or(self.goes_on))
            }
            State::Resting(_) => look.min(self.rested),
            _ => look,
        }
    }

    async fn woken(&mut self) {
        let now = Instant::now();
        if let Some(run) = self.run.as_ref().filter(|_| now >= self.goes_on) {
            self.words.goes_on(run.began.elapsed(), run.last_line().as_deref());
            self.goes_on = now + GOES_ON;
        }
        let is_overdue = self.overdue.take_if(|at| now >= *at).is_some();
        let is_rested = matches!(self.course.state(), State::Resting(_)) && now >= self.rested;
        // A rest ends with a look: what changed in it must be told from what changes in the run.
        if is_rested || is_overdue || now >= self.pace.due() {
            self.look().await;
            self.changed().await;
        }
        if is_rested {
            self.step(Input::Rested).await;
        }
    }

    /// Takes note of what a look has found.
    async fn changed(&mut self) {
        let changes = self.latest.changes(&self.base);
        if changes.is_empty() {
            return;
        }
        if self.course.is_at_rest() {
            self.base = self.latest.clone();
        }
        let ran = self.ran();
        if let Some(input) = self.course.found(changes, ran) {
            self.step(input).await;
        }
    }

    /// How long the command has run; nothing if none does.
    fn ran(&self) -> Duration {
        self.run.as_ref().map_or(Duration::ZERO, |run| run.began.elapsed())
    }

    async fn finished(&mut self, finished: &Finished) {
        self.run = None;
        self.turn = None;
        let cause = match self.course.state() {
            State::Running(cause) => Some(cause.clone()),
            _ => None,
        };
        self.overdue = None;
        self.took = finished.report.took;
        self.well = cause.is_some() && self.words.finished(finished);
        self.step(Input::Ended).await;
        if let Some(cause) = cause.filter(|_| self.well) {
            self.hint(&cause);
        }
    }

    /// Does what follows from something that has happened, and from that.
    async fn step(&mut self, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            match self.course.step(input) {
                Action::Nothing => {}
                Action::Start => next = self.start(),
                Action::Look => next = Some(self.judge().await),
                Action::End => self.end(),
                Action::EndOutdated(changes) => {
                    self.end();
                    self.words.outdated(&changes, self.ran());
                }
                Action::EndOverdue(changes) => {
                    self.end();
                    self.words.overdue(&changes, self.ran());
                }
                Action::LetFinish(changes) => self.words.let_finish(&changes, self.course.patience()),
                Action::Doubt(changes) => self.words.doubt(&changes, self.course.patience()),
            }
        }
    }

    fn start(&mut self) -> Option<Input> {
        let State::Running(cause) = self.course.state() else { return None };
        self.words.running(cause, std::mem::take(&mut self.anew));
        self.plugins.begin();
        match Run::start(&self.job) {
            Ok(run) => {
                self.run = Some(run);
                let now = Instant::now();
                self.goes_on = now + GOES_ON;
                // None if it would be over in more years than the clock has.
                self.overdue = now.checked_add(self.course.patience());
                None
            }
            Err(error) => {
                self.turn = None;
                self.took = Duration::ZERO;
                self.well = self.words.finished(&Finished::not_started(&error));
                Some(Input::Ended)
            }
        }
    }

    fn end(&mut self) {
        if let Some(run) = &mut self.run {
            run.end();
        }
    }

    /// The command has ended: what changed meanwhile, and is it a reason to run it again?
    async fn judge(&mut self) -> Input {
        self.look().await;
        let changes = self.latest.changes(&self.base);
        self.base = self.latest.clone();
        let verdict = self.course.over(&changes, self.well, self.took);
        let to_confirm = self.took.saturating_mul(2).max(REST_TO_CONFIRM);
        self.rested = Instant::now()
            + match verdict.next {
                Next::Confirm => to_confirm,
                _ => self.took.clamp(SHORTEST_REST, LONGEST_REST),
            };
        self.words.taken_back(&verdict.taken_back);
        self.words.learned(&verdict.learned, to_confirm);
        if let Next::GiveUp(changes) = &verdict.next {
            self.words.gives_up(changes);
        }
        Input::Looked(verdict.next)
    }

    /// A build whose output goes nowhere is a common mistake. One that nobody's change has started may well have nothing
    /// to do, unless there are no plugins at all.
    fn hint(&mut self, cause: &Cause) {
        let is_due = cause.kind == Kind::Change && !cause.changes.is_empty() || self.plugins.is_empty();
        if self.plugins.has_changed() {
            self.hinted = false;
        } else if is_due && !self.hinted {
            self.hinted = true;
            self.words.nothing_new(self.plugins.folder());
        }
    }

    async fn look(&mut self) {
        let eyes = self.eyes.take();
        let eyes = eyes.unwrap_or_else(|| {
            Eyes::new(self.sources.clone(), Folders::new(self.sources.clone(), self.stir.clone()))
        });
        self.pace.looking();
        let complaints = match eyes.look(self.latest.clone(), self.plugins.clone()).await {
            Ok(look) => {
                self.pace.looked(Instant::now(), look.took, &look.watching);
                self.eyes = Some(look.eyes);
                self.latest = Arc::new(look.snapshot);
                self.plugins = look.plugins;
                let mut complaints = look.complaints;
                if let Watching::Clock(reason) = &look.watching {
                    complaints.insert(format!("sources are looked at by the clock: {reason}"));
                }
                complaints
            }
            Err(error) => {
                let clock = Watching::Clock(error.to_string());
                self.pace.looked(Instant::now(), LOOK_AGAIN, &clock);
                BTreeSet::from([format!("cannot look at the sources: {error}")])
            }
        };
        for complaint in complaints.difference(&self.complaints) {
            self.words.complain(complaint);
        }
        self.complaints = complaints;
    }
}

async fn finished(run: &mut Option<Run>) -> Finished {
    match run {
        Some(run) => run.finished().await,
        None => std::future::pending().await,
    }
}

impl Queue {
    /// Behind the one that `before` is told by; what tells the one behind this is to be dropped at the first turn.
    pub(super) fn new(
        turns: Arc<Semaphore>,
        before: Option<oneshot::Receiver<()>>,
        next: oneshot::Sender<()>,
    ) -> Self {
        Self { turns, before, next: Some(next) }
    }

    /// The turn; none if there are no turns any more, which is never.
    async fn turn(&mut self) -> Option<OwnedSemaphorePermit> {
        if let Some(before) = &mut self.before {
            // Only its end counts.
            let _ = before.await;
            self.before = None;
        }
        let turn = self.turns.clone().acquire_owned().await.ok();
        self.next = None;
        turn
    }
}
