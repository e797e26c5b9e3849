//! From a version's content to its code: found out which content is wanted, read, hashed, and compiled unless that was done.
//!
//! The first part of [`prepare`](super::prepare), on a thread of its own. No guest's code runs here. Invariants: what comes
//! out is of bytes whose hash was taken while the file had the stamp that was asked for; what is compiled is what was
//! hashed.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hark_sandbox::{Compile, ContentHash, HashedBytes, Lineage, LoadError, LoadOptions, LogLevel, Plugin};
use tokio::time::Instant;

use super::content::{Content, Glance};
use super::prepare::{Job, Preparation};
use super::slot::Known;
use super::trial::{Elsewhere, Origin, Provenance, StandIn};
use crate::config::PluginConfig;
use crate::folder::Stamp;
use crate::kept::{self, Fresh};
use crate::timings::{self, Timings};

/// Bytes of files that are hashed without being kept in memory, and read and hashed once more if they must be compiled: for
/// 18 MB the memory takes 8 ms, hashing 10 to 12, compiling more than a second.
const LARGE: u64 = 4 << 20;

/// How far a version got without any guest's code.
pub(super) enum Loaded {
    /// Compiled.
    Plugin { plugin: Plugin, provenance: Provenance, timings: Timings },
    /// That is all.
    Done(Preparation),
}

/// When the file began to be read.
struct Reading {
    begun: Instant,
    clock: SystemTime,
}

impl Job {
    /// Finds out which content is wanted, and compiles it.
    pub(super) fn load(&self) -> Loaded {
        match &self.back {
            Some(good) => self.load_elsewhere(good, Origin::Back),
            None => self.load_file(),
        }
    }

    /// What is not in the file, compiled.
    fn load_elsewhere(&self, good: &Elsewhere, origin: Origin) -> Loaded {
        let mut timings = Timings::new(self.noticed, Instant::now());
        let provenance = Provenance { origin, fresh: None };
        let (hash, path) = match good {
            Elsewhere::Loaded(plugin) => {
                return Loaded::Plugin { plugin: plugin.clone(), provenance, timings };
            }
            Elsewhere::Kept { hash, path } => (hash, path),
        };
        match kept::read(path, hash) {
            Ok(bytes) => {
                timings.read();
                self.load_content(&HashedBytes::new(&bytes), provenance, timings)
            }
            Err(message) => Loaded::Done(Preparation::Failed { hash: None, message }),
        }
    }

    /// What takes the place of the file's content, which was rolled back.
    fn load_stand_in(&self, stand_in: &StandIn) -> Loaded {
        let good = match &stand_in.good {
            Ok(good) => good,
            Err(message) => return Loaded::Done(stand_in.fails(message)),
        };
        let runs = |(plugin, config): &(Plugin, PluginConfig)| {
            plugin.hash() == good.hash() && *config == self.config
        };
        if self.known.running.as_ref().is_some_and(runs) {
            return Loaded::Done(Preparation::Same { hash: stand_in.refused.hash });
        }
        match self.load_elsewhere(good, Origin::StandIn) {
            Loaded::Done(Preparation::Failed { message, .. }) => Loaded::Done(stand_in.fails(&message)),
            loaded => loaded,
        }
    }

    /// Reads the file, and compiles it if it is another one than what runs or was refused.
    fn load_file(&self) -> Loaded {
        let reading = Reading { begun: Instant::now(), clock: SystemTime::now() };
        self.load_unread(&reading).unwrap_or_else(|| self.load_read(&reading))
    }

    /// A large file whose code is there already is hashed and nothing more. None if it must be read, or if anything is
    /// wrong with it.
    fn load_unread(&self, reading: &Reading) -> Option<Loaded> {
        // What may have to be kept is read.
        if self.file.stamp.size() < LARGE || self.config.rollback.is_some() {
            return None;
        }
        let Glance { hash, size } = Glance::at(&self.file.path)?;
        if !self.is_unchanged() {
            return Some(Loaded::Done(Preparation::Stale));
        }
        if let Some(loaded) = self.load_known(&hash) {
            return Some(loaded);
        }
        let mut timings = self.timings(reading, &hash);
        let plugin = match self.compiled_already(&hash) {
            Some(plugin) => plugin,
            None => compiled(self.engine.find(&hash, size, self.compiler())?, &mut timings),
        };
        Some(Loaded::Plugin { plugin, provenance: Provenance::of_file(), timings })
    }

    /// Any file, with its bytes in memory.
    fn load_read(&self, reading: &Reading) -> Loaded {
        let bytes = match Content::read(&self.file.path) {
            Ok(bytes) => bytes,
            Err(message) => return Loaded::Done(Preparation::Failed { hash: None, message }),
        };
        if !self.is_unchanged() {
            return Loaded::Done(Preparation::Stale);
        }
        let content = HashedBytes::new(&bytes);
        if let Some(loaded) = self.load_known(content.hash()) {
            return loaded;
        }
        let timings = self.timings(reading, content.hash());
        let loaded = self.load_content(&content, Provenance::of_file(), timings);
        self.with_bytes(loaded, bytes)
    }

    /// Whether the file is the one that this version is for.
    fn is_unchanged(&self) -> bool {
        Stamp::read(&self.file.path) == Some(self.file.stamp)
    }

    /// What comes of a file whose content runs already, or was refused or rolled back.
    fn load_known(&self, hash: &ContentHash) -> Option<Loaded> {
        if self.is_known(hash) {
            return Some(Loaded::Done(Preparation::Same { hash: *hash }));
        }
        // Whoever has switched it off wants what is in the file.
        let stand_in = self.known.stand_in.as_ref().filter(|_| self.config.rollback.is_some())?;
        (stand_in.refused.hash == *hash).then(|| self.load_stand_in(stand_in))
    }

    /// The file has been read, and this is in it.
    fn timings(&self, reading: &Reading, hash: &ContentHash) -> Timings {
        let mut timings = Timings::new(self.noticed, reading.begun);
        timings.read();
        if let Some(waited) = self.waited(hash, reading.clock) {
            timings.changed(waited);
        }
        timings
    }

    /// Remembers where the content came from, and what it is, if that is to be kept.
    fn with_bytes(&self, mut loaded: Loaded, bytes: Content) -> Loaded {
        if self.config.rollback.is_some()
            && let Loaded::Plugin { plugin, provenance, .. } = &mut loaded
        {
            let (hash, path) = (*plugin.hash(), self.file.path.clone());
            provenance.fresh = Some(Box::new(Fresh { hash, path, bytes: Some(Arc::new(bytes)) }));
        }
        loaded
    }

    /// Compiles a content, unless that is done.
    fn load_content(
        &self,
        content: &HashedBytes<'_>,
        provenance: Provenance,
        mut timings: Timings,
    ) -> Loaded {
        if let Some(plugin) = self.compiled_already(content.hash()) {
            return Loaded::Plugin { plugin, provenance, timings };
        }
        match self.compile(content) {
            Ok(plugin) => {
                let plugin = compiled(plugin, &mut timings);
                Loaded::Plugin { plugin, provenance, timings }
            }
            Err(LoadError::Abandoned) => Loaded::Done(Preparation::Stale),
            Err(error) if error.is_want() => {
                Loaded::Done(Preparation::Hindered { message: format!("cannot prepare it: {error}") })
            }
            // What may pass is not remembered: the same bytes are tried again when the file is touched.
            Err(error) => {
                let hash = (!error.may_pass()).then_some(*content.hash());
                Loaded::Done(Preparation::Failed { hash, message: error.to_string() })
            }
        }
    }

    /// Whether this content runs already, or was refused, with the same part of the operator's.
    fn is_known(&self, hash: &ContentHash) -> bool {
        let is = |content: &ContentHash, config: &PluginConfig| content == hash && *config == self.config;
        let Known { running, refused, .. } = &self.known;
        refused.as_ref().is_some_and(|(content, config)| is(content, config))
            || running.as_ref().is_some_and(|(plugin, config)| is(plugin.hash(), config))
    }

    /// The same code with another part of the operator's: nothing to compile.
    fn compiled_already(&self, hash: &ContentHash) -> Option<Plugin> {
        let (plugin, config) = self.known.running.as_ref()?;
        (plugin.hash() == hash && config.compile == self.config.compile).then(|| plugin.clone())
    }

    /// How long the change of a plugin's file had waited at this time, if it is that which this version is for.
    fn waited(&self, hash: &ContentHash, now: SystemTime) -> Option<Duration> {
        let (running, _) = self.known.running.as_ref()?;
        if running.hash() == hash {
            return None;
        }
        timings::detected(self.file.changed?, now)
    }

    /// Compiles it, or finds it compiled. Given up when the file is another one meanwhile.
    fn compile(&self, content: &HashedBytes<'_>) -> Result<Plugin, LoadError> {
        let options = LoadOptions { allow_wat: self.allow_wat, compile: self.compiler() };
        let wanted = || self.back.is_some() || self.is_unchanged();
        let plugin = self.engine.load_while(content, options, Some(self.lineage()), &wanted)?;
        if let Some(reason) = &plugin.how().refusal {
            let message = format!("compiled as optimized, since Winch does not take it: {reason}");
            self.output.news(&self.plugin, LogLevel::Info, &message);
        }
        Ok(plugin)
    }

    /// How it is to be compiled.
    fn compiler(&self) -> Compile {
        self.config.compile.unwrap_or(self.compile)
    }

    /// Whatever is saved under this name is taken for versions of one plugin.
    fn lineage(&self) -> Lineage {
        let path = std::path::absolute(&self.file.path);
        Lineage::of(path.as_ref().unwrap_or(&self.file.path).as_os_str().as_encoded_bytes())
    }
}

/// Notes how a plugin's code came about.
fn compiled(plugin: Plugin, timings: &mut Timings) -> Plugin {
    let how = plugin.how();
    timings.compiled(how.linking, how.cached);
    plugin
}
