//! One build: watches its sources, runs its command, says what becomes of it.
//!
//! Used by [`super::builds`], one task each. What follows from what is said by [`super::state`]; which changes count, by
//! [`super::outputs`]; here the two are brought together with files, processes and the clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::Instant;

use super::builds::Options;
use super::folders::{Folders, Watching};
use super::look::{Eyes, Pace};
use super::outputs::{Outputs, Verdict};
use super::plugin_files::PluginFiles;
use super::runner::{Finished, Job, Run};
use super::snapshot::{Changes, Snapshot};
use super::sources::{Sources, absolute};
use super::state::{Action, Cause, Input, Machine, State};
use super::words::Words;
use crate::config::Build;

/// How often a command that takes its time is spoken of.
const GOES_ON: Duration = Duration::from_secs(10);

/// When sources are looked at again if that could not be done at all.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// See the file's head.
pub(super) struct Builder {
    sources: Sources,
    job: Job,
    words: Words,
    machine: Machine,
    outputs: Outputs,
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
enum Next {
    Stop,
    Finished(Finished),
    Turn(Option<OwnedSemaphorePermit>),
    Stirred,
    Woken,
}

impl Builder {
    /// # Errors
    /// If the present folder is gone.
    pub(super) fn new(build: &Build, options: &Options, queue: Queue) -> std::io::Result<Self> {
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
            machine: Machine::new(),
            outputs: Outputs::default(),
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
        })
    }

    /// Runs until `stop` is sent or dropped, and no command is left.
    pub(super) async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        self.look().await;
        self.base = self.latest.clone();
        self.step(Input::Begin).await;
        let mut stopping = false;
        while *self.machine.state() != State::Stopped {
            let wake = self.wake();
            let next = tokio::select! {
                biased;
                _ = &mut stop, if !stopping => Next::Stop,
                finished = finished(&mut self.run) => Next::Finished(finished),
                turn = self.queue.turn(), if matches!(self.machine.state(), State::Due(_)) => Next::Turn(turn),
                // The sender is our own: it cannot be gone.
                _ = self.stirred.changed() => Next::Stirred,
                () = tokio::time::sleep_until(wake) => Next::Woken,
            };
            match next {
                Next::Stop => {
                    stopping = true;
                    self.step(Input::Stop).await;
                }
                Next::Finished(finished) => self.finished(&finished).await,
                Next::Turn(turn) => {
                    self.turn = turn;
                    self.step(Input::Turn).await;
                }
                Next::Stirred => self.pace.stir(Instant::now()),
                Next::Woken => self.woken().await,
            }
        }
    }

    /// When the clock has something to do.
    fn wake(&self) -> Instant {
        let look = self.pace.due();
        if self.run.is_some() { look.min(self.goes_on) } else { look }
    }

    async fn woken(&mut self) {
        let now = Instant::now();
        if let Some(run) = self.run.as_ref().filter(|_| now >= self.goes_on) {
            self.words.goes_on(run.began.elapsed(), run.last_line().as_deref());
            self.goes_on = now + GOES_ON;
        }
        if now >= self.pace.due() {
            self.look().await;
            self.changed().await;
        }
    }

    /// Takes note of what a look has found.
    async fn changed(&mut self) {
        let changes = self.latest.changes(&self.base);
        if changes.is_empty() {
            return;
        }
        match self.machine.state() {
            State::Idle | State::Due(_) => {
                self.outputs.changed_at_rest(&changes);
                self.base = self.latest.clone();
                self.step(Input::Changed(changes)).await;
            }
            State::Running(_) => {
                let outdating = self.outputs.outdates(&changes);
                if !outdating.is_empty() {
                    self.step(Input::Changed(outdating)).await;
                }
            }
            State::Ending { .. } | State::Over { .. } | State::Stopped => {}
        }
    }

    async fn finished(&mut self, finished: &Finished) {
        self.run = None;
        self.turn = None;
        let cause = match self.machine.state() {
            State::Running(cause) => Some(cause.clone()),
            _ => None,
        };
        let well = cause.filter(|_| self.words.finished(finished));
        self.step(Input::Ended).await;
        if let Some(cause) = well {
            self.hint(&cause);
        }
    }

    /// Does what follows from something that has happened, and from that.
    async fn step(&mut self, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next {
            next = match (self.machine.step(input.clone()), input) {
                (Action::Start, _) => self.start(),
                (Action::Look, _) => Some(self.judge().await),
                (Action::End(outdated), _) => {
                    self.end(outdated);
                    None
                }
                (Action::LetFinish, Input::Changed(changes)) => {
                    self.words.let_finish(&changes);
                    None
                }
                (Action::LetFinish | Action::Nothing, _) => None,
            };
        }
    }

    fn start(&mut self) -> Option<Input> {
        let State::Running(cause) = self.machine.state() else { return None };
        self.words.running(cause);
        self.plugins.begin();
        match Run::start(&self.job) {
            Ok(run) => {
                self.run = Some(run);
                self.goes_on = Instant::now() + GOES_ON;
                None
            }
            Err(error) => {
                self.turn = None;
                self.words.finished(&Finished::not_started(&error));
                Some(Input::Ended)
            }
        }
    }

    fn end(&mut self, outdated: Option<Changes>) {
        let Some(run) = &mut self.run else { return };
        run.end();
        if let Some(changes) = outdated {
            self.words.outdated(&changes, run.began.elapsed());
        }
    }

    /// The command has ended: what changed meanwhile, and is it a reason to run it again?
    async fn judge(&mut self) -> Input {
        self.look().await;
        let changes = self.latest.changes(&self.base);
        self.base = self.latest.clone();
        let verdict = match self.machine.state() {
            State::Over { cause, early: false } => self.outputs.done(&changes, cause.own),
            _ => {
                self.outputs.ended_early(&changes);
                Verdict::Rest
            }
        };
        Input::Looked(match verdict {
            Verdict::Rest => None,
            Verdict::Again(changes) => Some(changes),
            Verdict::Learned { files, folders, again } => {
                self.words.learned(&files, &folders);
                Some(again).filter(|again| !again.is_empty())
            }
        })
    }

    /// A build whose output goes nowhere is a common mistake. One that nobody's change has started may well have nothing
    /// to do, unless there are no plugins at all.
    fn hint(&mut self, cause: &Cause) {
        let is_due = !cause.own && !cause.changes.is_empty() || self.plugins.is_empty();
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
