//! Preparing a version of a plugin: read, hash, compile, describe. Nothing that runs is touched.
//!
//! Run by the manager as a task of its own; the heavy part is on a blocking thread, since compiling and
//! `describe` (foreign code) must not hold an async one. Invariant: what comes out was read from a file that
//! did not change meanwhile; a file that is still being written is not reported as broken.

use std::sync::Arc;
use std::time::Duration;

use hark_sandbox::{
    Compile, ContentHash, Context, Description, Engine, GuestLine, GuestLog, HashedBytes, LARGE_PLUGIN_BYTES,
    LoadError, LoadOptions, LogLevel, Plugin, Usage,
};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::content::Content;
use super::running::{Version, guest_runtime};
use super::slot::Known;
use crate::config::PluginConfig;
use crate::core_dumps::DumpWriter;
use crate::folder::{PluginFile, Stamp};
use crate::output::{Output, Timings};

/// How long a file must have been still before its content is called broken rather than half-written.
const STILL: Duration = Duration::from_millis(400);

/// How often a file that was no good is looked at meanwhile.
const STILL_POLL: Duration = Duration::from_millis(10);

/// Versions prepared at a time.
const PREPARING: usize = 2;

/// Large files prepared at a time, whose bytes are in memory meanwhile. Those that have to be compiled take turns in the
/// sandbox, so that one that is in the artefact cache does not wait for them.
const PREPARING_LARGE: usize = 4;

/// Keeps a folder of hundreds of plugins from being prepared all at once, and small files from waiting for large ones.
pub(crate) struct Permits {
    small: Semaphore,
    large: Semaphore,
}

/// A version to prepare.
pub(crate) struct Job {
    pub(crate) plugin: String,
    pub(crate) file: PluginFile,
    pub(crate) config: PluginConfig,
    pub(crate) noticed: Instant,
    pub(crate) known: Known,
    pub(crate) allow_wat: bool,
    /// How to compile if the configuration does not say.
    pub(crate) compile: Compile,
    pub(crate) engine: Engine,
    pub(crate) output: Arc<Output>,
    pub(crate) usage: Arc<Usage>,
    pub(crate) core_dumps: Option<Arc<DumpWriter>>,
}

/// How it went, for the slot it belongs to.
pub(crate) struct Prepared {
    pub(crate) plugin: String,
    pub(crate) file: PluginFile,
    pub(crate) config: PluginConfig,
    pub(crate) result: Preparation,
}

/// What came of a version.
pub(crate) enum Preparation {
    /// It can take over.
    Ready { version: Box<Version>, timings: Timings },
    /// It is what runs, or what was refused before.
    Same { hash: ContentHash },
    /// The file changed while it was read.
    Stale,
    /// It is no good; `hash` is none if it could not even be read, or if its content is not to blame.
    Failed { hash: Option<ContentHash>, message: String },
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
        Self { small: Semaphore::new(PREPARING), large: Semaphore::new(PREPARING_LARGE) }
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
    /// Does the work, when a permit is free.
    pub(crate) async fn run(self, permits: &Permits) -> Prepared {
        let permit = permits.take(&self.file).await;
        let (plugin, file, config) = (self.plugin.clone(), self.file.clone(), self.config.clone());
        let noticed = self.noticed;
        let blocking = tokio::task::spawn_blocking(move || self.prepare()).await;
        drop(permit);
        let result = blocking.unwrap_or_else(|error| Preparation::Failed {
            hash: None,
            message: format!("preparing it failed in the host: {error}"),
        });
        let result = match result {
            Preparation::Failed { .. } if still_changing(&file, noticed).await => Preparation::Stale,
            result => result,
        };
        Prepared { plugin, file, config, result }
    }

    /// On a blocking thread.
    fn prepare(self) -> Preparation {
        let bytes = match Content::read(&self.file.path) {
            Ok(bytes) => bytes,
            Err(message) => return Preparation::Failed { hash: None, message },
        };
        if Stamp::read(&self.file.path) != Some(self.file.stamp) {
            return Preparation::Stale;
        }
        let content = HashedBytes::new(&bytes);
        let hash = *content.hash();
        let refused =
            |(content, config): &(ContentHash, PluginConfig)| *content == hash && *config == self.config;
        if self.known.refused.as_ref().is_some_and(refused) {
            return Preparation::Same { hash };
        }
        // The same code with another part of the operator's: nothing to compile.
        let begun = Instant::now();
        let mut compiled = None;
        if let Some((plugin, config)) = &self.known.running
            && *plugin.hash() == hash
        {
            if *config == self.config {
                return Preparation::Same { hash };
            }
            if config.compile == self.config.compile {
                compiled = Some(plugin.clone());
            }
        }
        let looked_up = compiled.is_none();
        let plugin = match compiled.map_or_else(|| self.compile(&content), Ok) {
            Ok(plugin) => plugin,
            Err(LoadError::Abandoned) => return Preparation::Stale,
            // What may pass is not remembered: the same bytes are tried again when the file is touched.
            Err(error) => {
                let hash = (!error.may_pass()).then_some(hash);
                return Preparation::Failed { hash, message: error.to_string() };
            }
        };
        let compile = begun.elapsed();
        match self.describe(plugin) {
            Ok((version, describe)) => {
                let cached = looked_up && version.plugin.how().cached;
                let timings = Timings { compile, cached, describe, ..Timings::default() };
                Preparation::Ready { version: Box::new(version), timings }
            }
            Err(message) => Preparation::Failed { hash: Some(hash), message },
        }
    }

    /// Compiles it, or finds it compiled. Given up when the file is another one meanwhile.
    fn compile(&self, content: &HashedBytes<'_>) -> Result<Plugin, LoadError> {
        let compile = self.config.compile.unwrap_or(self.compile);
        let options = LoadOptions { allow_wat: self.allow_wat, compile };
        let wanted = || Stamp::read(&self.file.path) == Some(self.file.stamp);
        let plugin = self.engine.load_while(content, options, &wanted)?;
        if let Some(reason) = &plugin.how().refusal {
            let message = format!("compiled as optimized, since Winch does not take it: {reason}");
            self.output.news(&self.plugin, LogLevel::Info, &message);
        }
        Ok(plugin)
    }

    /// Asks it what it wants; says how long that took.
    fn describe(self, plugin: Plugin) -> Result<(Version, Duration), String> {
        let begun = Instant::now();
        let core_dumps = self.core_dumps.map(|writer| writer.version(&self.plugin, *plugin.hash()));
        let context = Context {
            settings: Arc::new(self.config.settings.clone()),
            limits: self.config.limits.clone(),
            log: Arc::new(PluginLog { plugin: self.plugin, output: self.output }),
            usage: self.usage,
            core_dumps,
        };
        let description = Arc::new(describe(&plugin, &context)?);
        Ok((Version { plugin, context, description, config: self.config }, begun.elapsed()))
    }
}

/// Foreign code: on this blocking thread, with a runtime of its own for its timers.
fn describe(plugin: &Plugin, context: &Context) -> Result<Description, String> {
    let runtime =
        guest_runtime().map_err(|error| format!("cannot start a runtime to describe it: {error}"))?;
    runtime.block_on(plugin.describe(context)).map_err(|error| error.to_string())
}

/// Says whether the file changes before it has been still for long enough.
async fn still_changing(file: &PluginFile, noticed: Instant) -> bool {
    let still = noticed + STILL;
    loop {
        if Stamp::read(&file.path) != Some(file.stamp) {
            return true;
        }
        if Instant::now() >= still {
            return false;
        }
        tokio::time::sleep(STILL_POLL).await;
    }
}
