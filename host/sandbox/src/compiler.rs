//! From a file's bytes to a component: looked up, or compiled, here or in a process of its own.
//!
//! Behind `Engine`. Invariants: content that was compiled before in the same way is not compiled again, as long as the
//! cache holds it; nothing is compiled on the thread of anybody who is waited for; what a
//! compiler does (crash, be killed, go on for ever) is the trouble of that one file.
//!
//! | file | subject |
//! | --- | --- |
//! | `mode` | the two ways of compiling |
//! | `backend` | an engine for each |
//! | `in_place` | compiling in this process: small files with little work in them |
//! | `process` | compiling in a child: all others, the parent's side |
//! | `child` | the child's side |
//! | `order` | what the one tells the other |
//! | `functions` | what need not be compiled again for the next version |
//! | `turns` | how many children at a time |
//! | `work` | how much work is in a small file |
//! | `refusals` | contents that Winch does not take |
//! | `tail_calls` | the usual reason for that |
//! | `counters` | how often what happened |

mod backend;
pub(crate) mod child;
mod counters;
mod functions;
mod in_place;
mod mode;
mod order;
mod process;
mod refusals;
mod tail_calls;
mod turns;
mod work;

use std::time::{Duration, Instant};

use wasmtime::component::Component;

pub(crate) use self::backend::{Backend, Backends};
pub(crate) use self::counters::Counters;
pub use self::counters::{CompileStats, ModeStats};
use self::in_place::Pool;
pub(crate) use self::in_place::guarded;
pub use self::mode::Compile;
use self::process::Failure;
pub use self::process::{CompilerProcess, LARGE_PLUGIN_BYTES};
use self::refusals::Refusals;
use self::turns::Turns;
use crate::artefacts::{self, ArtefactCache, Content, Functions, Held, Key};
use crate::engine::Priority;
use crate::hash::{ContentHash, HashedBytes};
use crate::lineage::Lineage;
use crate::load::LoadError;
use crate::loaded::Loaded;
use crate::plugin::Plugin;

/// See the file's head.
pub(crate) struct Compiler {
    pub(crate) backends: Backends,
    pub(crate) cache: Option<ArtefactCache>,
    pub(crate) process: Option<CompilerProcess>,
    priority: Priority,
    turns: Turns,
    pool: Pool,
    refusals: Refusals,
    pub(crate) loaded: Loaded,
    pub(crate) counters: Counters,
}

/// A file on its way.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) content: &'a HashedBytes<'a>,
    /// Which plugin's version it is, if that is known.
    pub(crate) lineage: Option<Lineage>,
    /// Asked now and then while a process compiles: when it says no, the process is killed.
    pub(crate) wanted: &'a dyn Fn() -> bool,
}

/// What came of it.
pub(crate) struct Compiled<'a> {
    pub(crate) component: Component,
    pub(crate) backend: &'a Backend,
    pub(crate) how: How,
}

/// How a plugin's code came about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct How {
    /// Which compiler made it, which is another one than was asked for if Winch does not take the content.
    pub mode: Compile,
    /// Nothing had to be compiled: it was in the artefact cache, or loaded already under another name.
    pub cached: bool,
    /// Why Winch does not take the content, if that has just been found out.
    pub refusal: Option<String>,
    /// How long checking its world and resolving its imports took.
    pub linking: Duration,
}

/// What the cache has.
enum LookUp {
    Absent,
    Found(Component),
    /// The compiler does not take the content, for this reason.
    Refused(String),
}

impl Compiler {
    pub(crate) fn new(
        backends: Backends,
        cache: Option<ArtefactCache>,
        process: Option<CompilerProcess>,
        priority: Priority,
    ) -> Self {
        Self {
            backends,
            cache,
            process,
            priority,
            turns: Turns::default(),
            pool: Pool::new(priority.nice()),
            refusals: Refusals::default(),
            loaded: Loaded::default(),
            counters: Counters::default(),
        }
    }

    /// The plugin with this content, if it is loaded at the moment.
    pub(crate) fn loaded(&self, content: &ContentHash, asked: Compile) -> Option<Plugin> {
        let plugin = self.loaded.find(content, asked)?;
        self.counters.cached(plugin.how().mode);
        Some(plugin)
    }

    /// What the cache has of a content for this mode: nothing is compiled.
    pub(crate) fn cached(&self, content: &ContentHash, mode: Compile) -> Option<Compiled<'_>> {
        match &self.backends.fast {
            Some(fast) if mode == Compile::Fast => self.cached_fast_or_optimized(content, fast),
            _ => self.cached_by(&self.backends.optimized, content),
        }
    }

    fn cached_fast_or_optimized<'a>(
        &'a self,
        content: &ContentHash,
        fast: &'a Backend,
    ) -> Option<Compiled<'a>> {
        let key = fast.key(content);
        if !self.refusals.has(&key) {
            match self.look_up(fast, &key) {
                LookUp::Found(component) => return Some(Compiled::cached(component, fast)),
                LookUp::Absent => return None,
                LookUp::Refused(reason) => {
                    tracing::debug!("{}: Winch is known not to take it: {reason}", key.content().short());
                    self.refusals.add(&key);
                }
            }
        }
        self.cached_by(&self.backends.optimized, content)
    }

    fn cached_by<'a>(&self, backend: &'a Backend, content: &ContentHash) -> Option<Compiled<'a>> {
        match self.look_up(backend, &backend.key(content)) {
            LookUp::Found(component) => Some(Compiled::cached(component, backend)),
            LookUp::Absent | LookUp::Refused(_) => None,
        }
    }

    /// The component that a file is, or is turned into.
    ///
    /// # Errors
    /// [`LoadError`] if no compiler takes it, or it is no longer wanted.
    pub(crate) fn component(&self, task: Task<'_>, mode: Compile) -> Result<Compiled<'_>, LoadError> {
        if let Some(compiled) = self.cached(task.content.hash(), mode) {
            return Ok(compiled);
        }
        let optimized = &self.backends.optimized;
        let compiled = match &self.backends.fast {
            Some(fast) if mode == Compile::Fast => self.fast_or_optimized(task, fast, optimized),
            _ => self.anew(task, optimized),
        };
        if compiled.as_ref().is_err_and(|error| *error != LoadError::Abandoned) {
            self.counters.failed(mode);
        }
        compiled
    }

    /// With Winch, unless it does not take this content. The cache was asked before.
    fn fast_or_optimized<'a>(
        &'a self,
        task: Task<'_>,
        fast: &'a Backend,
        optimized: &'a Backend,
    ) -> Result<Compiled<'a>, LoadError> {
        let key = fast.key(task.content.hash());
        if self.refusals.has(&key) {
            return self.anew(task, optimized);
        }
        if self.is_refused_again(task, fast) {
            let compiled = self.found_or_anew(task, optimized)?;
            self.remember_refusal(&key, task, fast, "it makes tail calls, as versions before it did");
            return Ok(compiled);
        }
        let reason = match self.anew(task, fast) {
            // A bug in Winch is no reason not to run what Cranelift takes.
            Err(error @ (LoadError::Compile(_) | LoadError::Panicked)) => error.to_string(),
            other => return other,
        };
        // Only if Cranelift takes it was it Winch's fault.
        let mut compiled = self.found_or_anew(task, optimized)?;
        self.remember_refusal(&key, task, fast, &reason);
        compiled.how.refusal = Some(reason);
        Ok(compiled)
    }

    /// Whether Winch has refused a version of this lineage before, and does so again: it takes its time to say so.
    fn is_refused_again(&self, task: Task<'_>, fast: &Backend) -> bool {
        task.lineage.is_some_and(|lineage| self.refusals.has(&fast.functions(&lineage)))
            && tail_calls::makes(task.content.bytes())
    }

    fn remember_refusal(&self, key: &Key, task: Task<'_>, fast: &Backend, reason: &str) {
        self.counters.refused(key.mode());
        self.refusals.add(key);
        if let Some(lineage) = task.lineage {
            self.refusals.add(&fast.functions(&lineage));
        }
        let Some(cache) = &self.cache else { return };
        let mut sealed = Vec::new();
        // A vector takes everything.
        if artefacts::write(&mut sealed, key, &Held::Refusal(reason.to_owned()), &[]).is_ok() {
            cache.keep(key, &mut sealed.as_slice());
        }
    }

    /// From the cache, else anew.
    fn found_or_anew<'a>(&self, task: Task<'_>, backend: &'a Backend) -> Result<Compiled<'a>, LoadError> {
        self.cached_by(backend, task.content.hash()).map_or_else(|| self.anew(task, backend), Ok)
    }

    fn look_up(&self, backend: &Backend, key: &Key) -> LookUp {
        let Some(cache) = &self.cache else { return LookUp::Absent };
        match cache.find(key) {
            None | Some(Content::Functions(_)) => LookUp::Absent,
            Some(Content::Refusal(reason)) => LookUp::Refused(reason),
            Some(Content::Artefact(artefact)) => match artefacts::component(&backend.engine, &artefact) {
                Ok(component) => {
                    self.counters.cached(backend.mode);
                    LookUp::Found(component)
                }
                Err(error) => {
                    cache.reject(key, &format!("wasmtime does not load it: {error:#}"));
                    LookUp::Absent
                }
            },
        }
    }

    fn anew<'a>(&self, task: Task<'_>, backend: &'a Backend) -> Result<Compiled<'a>, LoadError> {
        let begun = Instant::now();
        let component = self.compile(task, backend, &backend.key(task.content.hash()))?;
        self.counters.compiled(backend.mode, begun.elapsed());
        Ok(Compiled::new(component, backend))
    }

    fn compile(&self, task: Task<'_>, backend: &Backend, key: &Key) -> Result<Component, LoadError> {
        let bytes = task.content.bytes();
        let process = self.process.as_ref();
        if let Some(process) = process.filter(|process| bytes.len() >= process.smallest) {
            match self.elsewhere(process, task, backend, key) {
                Ok(component) => return Ok(component),
                Err(Failure::Refused(error)) => return Err(error),
                // Better slower neighbours for a moment than no plugin.
                Err(Failure::NotStarted(error)) => {
                    tracing::warn!("cannot start a process to compile in, so this one does it: {error}");
                }
            }
        }
        let wasm = self.pool.component_bytes(&self.backends, bytes)?;
        if let Some(process) =
            process.filter(|process| bytes.len() < process.smallest && work::is_much(&wasm))
        {
            let compiled = self.elsewhere(process, task, backend, key);
            return compiled.map_err(|failure| match failure {
                Failure::Refused(error) => error,
                Failure::NotStarted(error) => {
                    LoadError::CompilerBroke(format!("it cannot be started: {error}"))
                }
            });
        }
        let component = self.pool.compile(backend, &wasm)?;
        let kept = self.cache.as_ref().and_then(|cache| {
            in_place::keep(cache, key, &component);
            mapped(cache, backend, key)
        });
        // The file's pages need no memory of their own.
        Ok(kept.unwrap_or(component))
    }

    /// In a process of its own, when it is this file's turn.
    fn elsewhere(
        &self,
        process: &CompilerProcess,
        task: Task<'_>,
        backend: &Backend,
        key: &Key,
    ) -> Result<Component, Failure> {
        let _turn = self.turns.take(task.wanted).ok_or(Failure::Refused(LoadError::Abandoned))?;
        let functions = self.functions(task, backend);
        let job = process::Job { task, key, nice: self.priority.nice(), functions };
        let artefact = process.compile(&job)?;
        if let (Some(cache), Some((key, _)), Some(functions)) =
            (&self.cache, &job.functions, &artefact.functions)
        {
            functions.sealed().into_iter().for_each(|mut sealed| cache.keep(key, &mut sealed));
        }
        self.keep_and_map(&artefact, backend, key).map_err(Failure::Refused)
    }

    /// What the functions of this task are kept under, and those that there are; none if they are of no use.
    fn functions(&self, task: Task<'_>, backend: &Backend) -> Option<(Key, Option<Functions>)> {
        let (cache, lineage) = (self.cache.as_ref()?, task.lineage?);
        if backend.mode != Compile::Optimized {
            return None;
        }
        let key = backend.functions(&lineage);
        let known = match cache.find(&key) {
            Some(Content::Functions(functions)) => Some(functions),
            _ => None,
        };
        Some((key, known))
    }

    /// What a child has made goes into the cache, and is mapped from there; without one it stays in memory.
    fn keep_and_map(
        &self,
        artefact: &process::Artefact,
        backend: &Backend,
        key: &Key,
    ) -> Result<Component, LoadError> {
        let mapped = self.cache.as_ref().and_then(|cache| {
            cache.keep(key, &mut artefact.reader().ok()?);
            mapped(cache, backend, key)
        });
        mapped.map_or_else(|| artefact.component(backend), Ok)
    }
}

/// What was just kept in the cache, mapped from there; none if it is not to be had.
fn mapped(cache: &ArtefactCache, backend: &Backend, key: &Key) -> Option<Component> {
    match cache.find(key)? {
        Content::Artefact(kept) => artefacts::component(&backend.engine, &kept).ok(),
        Content::Refusal(_) | Content::Functions(_) => None,
    }
}

impl<'a> Compiled<'a> {
    fn new(component: Component, backend: &'a Backend) -> Self {
        Self { component, backend, how: How { mode: backend.mode, ..How::default() } }
    }

    fn cached(component: Component, backend: &'a Backend) -> Self {
        let how = How { mode: backend.mode, cached: true, ..How::default() };
        Self { component, backend, how }
    }
}
