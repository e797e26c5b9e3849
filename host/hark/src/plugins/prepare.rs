//! Preparing a version of a plugin: read, hash, compile, describe, start. Nothing that runs is touched.
//!
//! The first part of it, up to the code, is [`loading`](super::loading). Run by the manager as a task of its own; the heavy parts are on threads of their own, since compiling, `describe` and
//! `start` (foreign code) must not hold an async one. Invariants: what comes out was read from a file that
//! did not change meanwhile; a file that is still being written is not reported as broken; no file waits for another
//! one's guest, unless dozens of them hang.

use std::sync::Arc;
use std::time::Duration;

use hark_sandbox::{
    Compile, ContentHash, Context, DescribeError, Description, Engine, GuestLine, GuestLog,
    LARGE_PLUGIN_BYTES, Plugin, StartReason, Usage,
};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::Instant;

use super::loading::Loaded;
use super::running::{Version, guest_runtime};
use super::slot::{Known, Life};
use super::starting::{Ahead, Unused};
use super::trial::{Elsewhere, Origin, Provenance};
use crate::aside::{self, Lost};
use crate::config::PluginConfig;
use crate::core_dumps::DumpWriter;
use crate::folder::{PluginFile, Seen, Stamp, Standing};
use crate::output::Output;
use crate::timings::Timings;

/// How long a file must have been still before its content is called broken rather than half-written.
const STILL: Duration = Duration::from_millis(400);

/// Versions prepared at a time.
const PREPARING: usize = 2;

/// Large files prepared at a time, whose bytes are in memory meanwhile. Those that have to be compiled take turns in the
/// sandbox, so that one that is in the artefact cache does not wait for them.
const PREPARING_LARGE: usize = 4;

/// Versions that describe themselves at a time. Each may take its whole budget, as foreign code does: many more than the
/// files that are read, so that a few that hang do not hold the others up.
const DESCRIBING: usize = 64;

/// Versions whose instances start at a time. The same holds for them, each instance with a budget of its own.
const STARTING: usize = 64;

/// Keeps a folder of hundreds of plugins from being prepared all at once, small files from waiting for large ones, and
/// all of them from waiting for guests.
pub(crate) struct Permits {
    small: Semaphore,
    large: Semaphore,
    describing: Semaphore,
    starting: Semaphore,
}

/// A version to prepare.
pub(crate) struct Job {
    pub(crate) plugin: String,
    pub(super) life: Life,
    pub(crate) file: PluginFile,
    /// What to go back to, whatever is in the file.
    pub(crate) back: Option<Elsewhere>,
    pub(crate) config: PluginConfig,
    pub(crate) noticed: Instant,
    pub(crate) known: Known,
    /// What the looks find meanwhile.
    pub(crate) seen: watch::Receiver<Arc<Seen>>,
    pub(crate) allow_wat: bool,
    /// How to compile if the configuration does not say.
    pub(crate) compile: Compile,
    pub(crate) engine: Engine,
    pub(crate) output: Arc<Output>,
    pub(crate) usage: Arc<Usage>,
    pub(crate) core_dumps: Option<Arc<DumpWriter>>,
    /// Who counts the instances that are told that they are not needed.
    pub(crate) unused: Unused,
}

/// How it went, for the slot it belongs to.
pub(crate) struct Prepared {
    pub(crate) plugin: String,
    pub(super) life: Life,
    pub(crate) file: PluginFile,
    pub(crate) config: PluginConfig,
    /// It is the way back.
    pub(crate) back: bool,
    pub(crate) result: Preparation,
}

/// What came of a version.
pub(crate) enum Preparation {
    /// It can take over, with these instances.
    Ready { version: Box<Version>, ahead: Ahead, provenance: Provenance, timings: Timings },
    /// It is what runs, or what was refused before.
    Same { hash: ContentHash },
    /// The file changed while it was read.
    Stale,
    /// The machine lacks what it takes, for now: its content is not to blame.
    Hindered { message: String },
    /// It is no good; `hash` is none if it could not even be read, or if its content is not to blame.
    Failed { hash: Option<ContentHash>, message: String },
}

/// How far it got by describing itself.
enum Described {
    Version {
        version: Box<Version>,
        timings: Timings,
    },
    /// That is all.
    Done(Preparation),
}

/// Why there is no description.
enum NotDescribed {
    Runtime(std::io::Error),
    Plugin(DescribeError),
}

/// What the guest says while it describes itself and while it handles events.
pub(crate) struct PluginLog {
    pub(crate) plugin: String,
    pub(crate) output: Arc<Output>,
}

impl GuestLog for PluginLog {
    fn line(&self, line: GuestLine<'_>) {
        self.output.guest_line(&self.plugin, &line);
    }
}

impl Default for Permits {
    fn default() -> Self {
        Self {
            small: Semaphore::new(PREPARING),
            large: Semaphore::new(PREPARING_LARGE),
            describing: Semaphore::new(DESCRIBING),
            starting: Semaphore::new(STARTING),
        }
    }
}

impl Permits {
    /// None if the semaphore is closed, which it never is; the work would only be less orderly.
    async fn take(&self, file: &PluginFile) -> Option<SemaphorePermit<'_>> {
        let large = file.stamp.size() >= LARGE_PLUGIN_BYTES as u64;
        let permits = if large { &self.large } else { &self.small };
        permits.acquire().await.ok()
    }
}

impl Job {
    /// Does the work, when permits are free.
    pub(crate) async fn run(self, permits: &Permits) -> Prepared {
        let (plugin, file, config) = (self.plugin.clone(), self.file.clone(), self.config.clone());
        let life = self.life.clone();
        let (noticed, seen, back) = (self.noticed, self.seen.clone(), self.back.is_some());
        let result = match self.load_and_start(permits).await {
            Preparation::Failed { .. } if !back && still_changing(&plugin, &file, noticed, seen).await => {
                Preparation::Stale
            }
            result => result,
        };
        Prepared { plugin, life, file, config, back, result }
    }

    /// Each part on a thread of its own, with a permit of its own.
    async fn load_and_start(self, permits: &Permits) -> Preparation {
        let permit = permits.take(&self.file).await;
        let thread = format!("prepare:{}", self.plugin);
        let loaded = aside::run(&thread, move || (self.load(), self)).await;
        drop(permit);
        let (plugin, provenance, timings, job) = match loaded {
            Ok((Loaded::Plugin { plugin, provenance, timings }, job)) => (plugin, provenance, timings, job),
            Ok((Loaded::Done(preparation), _)) => return preparation,
            Err(lost) => return lost.into(),
        };
        let stand_in = job.known.stand_in.as_ref().filter(|_| provenance.origin == Origin::StandIn).cloned();
        match (job.describe_and_start(permits, plugin, provenance, timings).await, stand_in) {
            (Preparation::Failed { message, .. }, Some(stand_in)) => stand_in.fails(&message),
            (preparation, _) => preparation,
        }
    }

    /// The parts that are the guest's code, likewise.
    async fn describe_and_start(
        self,
        permits: &Permits,
        plugin: Plugin,
        provenance: Provenance,
        timings: Timings,
    ) -> Preparation {
        let thread = format!("prepare:{}", self.plugin);
        let job = self;
        let ahead = Ahead::new(&job.plugin, job.reason(&plugin), &job.unused);
        let permit = permits.describing.acquire().await;
        let described = aside::run(&thread, move || job.describe(plugin, timings)).await;
        drop(permit);
        let (version, timings) = match described {
            Ok(Described::Version { version, timings }) => (version, timings),
            Ok(Described::Done(preparation)) => return preparation,
            Err(lost) => return lost.into(),
        };
        if !version.plugin.has_lifecycle() {
            return Preparation::Ready { version, ahead, provenance, timings };
        }
        let permit = permits.starting.acquire().await;
        let started = aside::run(&thread, move || start(version, ahead, provenance, timings)).await;
        drop(permit);
        started.unwrap_or_else(Preparation::from)
    }

    /// Why a version with this code begins.
    fn reason(&self, plugin: &Plugin) -> StartReason {
        match &self.known.running {
            _ if self.back.is_some() => StartReason::Rollback,
            None => StartReason::First,
            Some((running, _)) if running.hash() == plugin.hash() => StartReason::Settings,
            Some(_) => StartReason::Reload,
        }
    }

    /// Asks it what it wants.
    fn describe(self, plugin: Plugin, mut timings: Timings) -> Described {
        let core_dumps = self.core_dumps.map(|writer| writer.version(&self.plugin, *plugin.hash()));
        let context = Context {
            settings: Arc::new(self.config.settings.clone()),
            limits: self.config.limits.clone(),
            log: Arc::new(PluginLog { plugin: self.plugin, output: self.output }),
            usage: self.usage,
            core_dumps,
        };
        let preparation = match describe(&plugin, &context) {
            Ok(description) => {
                let description = Arc::new(description);
                let version = Box::new(Version { plugin, context, description, config: self.config });
                timings.started();
                return Described::Version { version, timings };
            }
            Err(NotDescribed::Runtime(error)) => {
                Preparation::Hindered { message: format!("cannot start a runtime to describe it: {error}") }
            }
            Err(NotDescribed::Plugin(error @ DescribeError::Starved(_))) => {
                Preparation::Hindered { message: error.to_string() }
            }
            Err(NotDescribed::Plugin(error)) => {
                Preparation::Failed { hash: Some(*plugin.hash()), message: error.to_string() }
            }
        };
        Described::Done(preparation)
    }
}

/// Starts its instances.
fn start(
    version: Box<Version>,
    mut ahead: Ahead,
    provenance: Provenance,
    mut timings: Timings,
) -> Preparation {
    match ahead.start(&version.plugin, &version.context, version.treatment().concurrency) {
        Ok(()) => {
            timings.started();
            Preparation::Ready { version, ahead, provenance, timings }
        }
        Err(error) if error.is_want() => Preparation::Hindered { message: error.to_string() },
        Err(error) => Preparation::Failed { hash: Some(*version.plugin.hash()), message: error.to_string() },
    }
}

impl From<Lost> for Preparation {
    fn from(lost: Lost) -> Self {
        let message = format!("cannot prepare it: {lost}");
        match lost {
            Lost::NoThread(_) => Self::Hindered { message },
            Lost::Panicked => Self::Failed { hash: None, message },
        }
    }
}

/// Foreign code: on this thread that may block, with a runtime of its own for its timers.
fn describe(plugin: &Plugin, context: &Context) -> Result<Description, NotDescribed> {
    let runtime = guest_runtime().map_err(NotDescribed::Runtime)?;
    runtime.block_on(plugin.describe(context)).map_err(NotDescribed::Plugin)
}

/// Says whether the file changes before it has been still for long enough.
async fn still_changing(
    plugin: &str,
    file: &PluginFile,
    noticed: Instant,
    mut seen: watch::Receiver<Arc<Seen>>,
) -> bool {
    let is_another =
        |seen: &Arc<Seen>| !matches!(seen.files.get(plugin), Some(Standing::Settled(now)) if now == file);
    let changes = async { seen.wait_for(is_another).await.is_ok() };
    if tokio::time::timeout_at(noticed + STILL, changes).await == Ok(true) {
        return true;
    }
    // The looks may be less frequent.
    let (path, stamp) = (file.path.clone(), file.stamp);
    let differs = aside::run(&format!("prepare:{plugin}"), move || Stamp::read(&path) != Some(stamp)).await;
    differs.unwrap_or(false)
}
