//! The engine: wasmtime set up once for each way of compiling, and a running epoch clock.
//!
//! Made once by the host; `load` adds plugins to it. Invariant: there is no engine without its ticker, so no
//! guest can run for ever.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::artefacts::ArtefactCache;
use crate::compiler::{Backends, Compile, CompileStats, Compiler, CompilerProcess, Task};
use crate::hash::{ContentHash, HashedBytes};
use crate::lineage::Lineage;
use crate::load::{self, LoadError, LoadOptions};
use crate::plugin::Plugin;
use crate::ticker::Ticker;

/// Compiles and links plugins. Cheap to clone; clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    compiler: Arc<Compiler>,
    ticker: Arc<Ticker>,
}

/// What an engine may use to compile, and how what it compiled runs.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// Where artefacts are kept; none: everything is compiled each time.
    pub cache: Option<ArtefactCache>,
    /// How to start a process that compiles large files; none: this process does.
    pub process: Option<CompilerProcess>,
    /// How much compiling takes of a machine that others use too.
    pub priority: Priority,
    /// How plugins run.
    pub run: RunOptions,
}

/// How much of a busy machine compiling gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Priority {
    /// A tenth of what anybody else gets who wants the same core: for hosts whose plugins must not feel it.
    #[default]
    Low,
    /// As much as anybody: for hosts that somebody waits for.
    Usual,
}

impl Priority {
    /// How nice the compiler is, out of 19: with 10, a thread that competes for the same core gets ten times as much of it.
    pub(crate) fn nice(self) -> u8 {
        match self {
            Self::Low => 10,
            Self::Usual => 0,
        }
    }
}

/// What holds for all plugins of an engine when they run. Code compiled with other options of this kind is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// Bytes of stack of guest code (`host.wasm_stack`); at least 1. The default is wasmtime's, 512 KiB.
    pub wasm_stack: usize,
    /// Keep what remains of an instance that traps for [`CoreDumps`](crate::CoreDumps).
    pub core_dumps: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { wasm_stack: 512 << 10, core_dumps: false }
    }
}

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// wasmtime refuses to be set up: this machine lacks something it needs.
    #[error("the Wasm engine cannot be set up")]
    Setup(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No thread for the clock.
    #[error("the Wasm engine's clock cannot be started")]
    Clock(#[from] io::Error),
}

impl From<wasmtime::Error> for EngineError {
    fn from(error: wasmtime::Error) -> Self {
        Self::Setup(error.into())
    }
}

impl Engine {
    /// Sets up an engine that compiles in this process and keeps nothing.
    ///
    /// # Errors
    /// As [`Engine::with`].
    pub fn new() -> Result<Self, EngineError> {
        Self::with(EngineOptions::default())
    }

    /// Sets up an engine and starts its clock, which ends with the engine and its last plugin.
    ///
    /// # Errors
    /// [`EngineError`] if the machine does not allow it.
    pub fn with(options: EngineOptions) -> Result<Self, EngineError> {
        let backends = Backends::new(options.run)?;
        let ticker = Ticker::start(backends.all().map(|backend| backend.engine.clone()).collect())?;
        let compiler = Arc::new(Compiler::new(backends, options.cache, options.process, options.priority));
        Ok(Self { compiler, ticker })
    }

    /// Makes a plugin of a file's bytes: a component or a core module (or their text form, if allowed).
    ///
    /// Takes CPU time, up to seconds for components of several megabytes: call it off the async threads.
    ///
    /// # Errors
    /// [`LoadError`], which says what the author or operator should do.
    pub fn load(&self, bytes: &[u8], options: LoadOptions) -> Result<Plugin, LoadError> {
        self.load_while(&HashedBytes::new(bytes), options, None, &|| true)
    }

    /// As [`Engine::load`], of a version of a plugin, while `wanted` says so: it is asked every few milliseconds while
    /// another process compiles.
    ///
    /// # Errors
    /// As [`Engine::load`]; [`LoadError::Abandoned`] if it was not wanted any longer.
    pub fn load_while(
        &self,
        content: &HashedBytes<'_>,
        options: LoadOptions,
        lineage: Option<Lineage>,
        wanted: &dyn Fn() -> bool,
    ) -> Result<Plugin, LoadError> {
        load::load(&self.compiler, &self.ticker, Task { content, lineage, wanted }, options)
    }

    /// The plugin that a binary file of this content and so many bytes is, if nothing has to be compiled for that: it is
    /// loaded already, or its code is in the cache. None says nothing of the content.
    pub fn find(&self, content: &ContentHash, size: usize, compile: Compile) -> Option<Plugin> {
        load::find(&self.compiler, &self.ticker, content, size, compile)
    }

    /// What was compiled and kept so far.
    pub fn stats(&self) -> CompileStats {
        self.compiler.counters.read(self.compiler.cache.as_ref().map(ArtefactCache::stats))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}
