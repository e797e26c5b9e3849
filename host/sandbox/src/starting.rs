//! Starting a plugin's instance ahead of its events, and why an instance begins at all.
//!
//! [`Plugin::start`] is called by the host while it prepares a version, on any thread; what comes of it is adopted by a
//! `PluginHandler` on the plugin's own. Invariants: a plugin without `lifecycle` has no instance before its first event;
//! what is started but never adopted can be told so.

use std::fmt;
use std::sync::Arc;

use crate::bindings::stateful::exports::hark::plugin::lifecycle as wit;
use crate::context::Context;
use crate::guest_log::LogLevel;
use crate::instance::{Broken, Instance, Purpose};
use crate::outcome::{self, Fault, FaultKind};
use crate::output::Output;
use crate::plugin::Plugin;
use crate::thread_clock::ThreadClock;
use hark_informer::cache::CacheReader;

/// Why an instance begins: `start-reason` of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StartReason {
    /// The plugin's first version since the host started.
    First,
    /// A new build takes over.
    Reload,
    /// The same build takes over, with another configuration.
    Settings,
    /// The instance before trapped or overran.
    Restart,
    /// The instance before was due to be replaced.
    Recycle,
    /// The version that had taken over broke.
    Rollback,
}

impl StartReason {
    /// Whether an instance of the same version was at work before: then there is a cache to ask.
    pub(crate) fn is_within_a_version(self) -> bool {
        matches!(self, Self::Restart | Self::Recycle)
    }
}

impl From<StartReason> for wit::StartReason {
    fn from(reason: StartReason) -> Self {
        match reason {
            StartReason::First => Self::First,
            StartReason::Reload => Self::Reload,
            StartReason::Settings => Self::Settings,
            StartReason::Restart => Self::Restart,
            StartReason::Recycle => Self::Recycle,
            StartReason::Rollback => Self::Rollback,
        }
    }
}

/// Why a plugin does not start: this version cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The plugin itself says so: `start` gave an error.
    #[error("it refuses to start: {0}")]
    Refused(String),
    /// The plugin broke.
    #[error("it does not start: {0}")]
    Trap(String),
    /// The plugin took too long.
    #[error("it does not start in time: {0}")]
    Timeout(String),
    /// The host has no memory for an instance, for now: not the plugin's fault.
    #[error("cannot start it: {0}")]
    Starved(String),
}

/// An instance that was started ahead of its events; or nothing, for a plugin without `lifecycle`.
#[derive(Default)]
pub struct Started(Option<Box<Ahead>>);

/// See [`Started`].
pub(crate) struct Ahead {
    pub(crate) instance: Instance,
    /// What it says goes through here for all its life.
    pub(crate) output: Arc<Output>,
    context: Context,
}

/// An instance that was made and told why; or its own words why it does not begin.
type Begun = Result<Instance, String>;

impl Plugin {
    /// Whether it exports `lifecycle`.
    pub fn has_lifecycle(&self) -> bool {
        self.exports().has_lifecycle()
    }

    /// Makes an instance and tells it why it begins; its cache is not synced. For a plugin without `lifecycle` nothing is
    /// made, which costs nothing.
    ///
    /// # Errors
    /// [`StartError`] if it does not begin.
    pub async fn start(&self, context: &Context, reason: StartReason) -> Result<Started, StartError> {
        if !self.has_lifecycle() {
            return Ok(Started::default());
        }
        let output = Output::new(context);
        let _clock = ThreadClock::start(&context.usage);
        let begun = begin(self, context, &output, None, reason).await;
        output.end();
        match begun {
            Ok(Ok(instance)) => {
                let (instance, context) = (instance.rests(), context.clone());
                Ok(Started(Some(Box::new(Ahead { instance, output, context }))))
            }
            Ok(Err(message)) => Err(StartError::Refused(message)),
            Err(broken) => Err(context.examine(broken).into_start_error(context)),
        }
    }
}

impl Started {
    pub(crate) fn into_inner(self) -> Option<Ahead> {
        self.0.map(|ahead| *ahead)
    }

    /// Whether there is an instance.
    pub fn is_instance(&self) -> bool {
        self.0.is_some()
    }

    /// Tells the instance that it is not needed, and drops it. A fault is logged. To be polled to its end on one thread,
    /// like every call of a guest.
    pub async fn discard(self) {
        let Some(Ahead { instance, output, context }) = self.into_inner() else { return };
        let _clock = ThreadClock::start(&context.usage);
        output.begin(None);
        if let Err(broken) = instance.stop(wit::StopReason::Unused).await {
            context.is_stopped_by(broken, &output);
        }
        output.end();
    }
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_instance() { "Started(an instance)" } else { "Started(nothing)" })
    }
}

impl Fault {
    fn into_start_error(self, context: &Context) -> StartError {
        self.cap.into_iter().for_each(|cap| context.usage.hit(cap));
        match self.kind {
            FaultKind::Trap => StartError::Trap(self.message),
            FaultKind::Timeout => StartError::Timeout(self.message),
            FaultKind::Starved => {
                context.usage.starve();
                StartError::Starved(self.message)
            }
        }
    }
}

impl Context {
    /// What happened to an instance; hands on its core dump, if there is one.
    pub(crate) fn examine(&self, broken: Broken) -> Fault {
        let fault = broken.fault(&self.limits);
        let Some(core_dumps) = &self.core_dumps else { return fault };
        let Some(dump) = broken.into_core_dump() else { return fault };
        match core_dumps.take(dump) {
            Ok(Some(path)) => fault.with(&format!(" (core dump, to be written to {})", path.display())),
            Ok(None) => fault,
            Err(why) => fault.with(&format!(" (no core dump: {why})")),
        }
    }

    /// An instance that was to be dropped anyway broke in `stop`.
    pub(crate) fn is_stopped_by(&self, broken: Broken, output: &Output) {
        let fault = self.examine(broken);
        fault.cap.into_iter().for_each(|cap| self.usage.hit(cap));
        output.host_line(LogLevel::Warn, &fault.message);
    }
}

/// Makes an instance and, if the plugin has `lifecycle`, tells it why it begins.
pub(crate) async fn begin(
    plugin: &Plugin,
    context: &Context,
    output: &Arc<Output>,
    cache: Option<Arc<dyn CacheReader>>,
    reason: StartReason,
) -> Result<Begun, Broken> {
    let instance = Instance::make(plugin, context, output, Purpose::Events(cache)).await?;
    let (instance, answer) = instance.start(reason.into()).await?;
    Ok(answer.map(|()| instance).map_err(|message| outcome::message(&message)))
}
