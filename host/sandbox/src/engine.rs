//! The engine: wasmtime set up once, with everything that plugins may import and a running epoch clock.
//!
//! Made once by the host; `load` adds plugins to it. Invariant: there is no engine without its ticker, so no
//! guest can run for ever.

use std::fmt;
use std::io;
use std::sync::Arc;

use wasmtime::Config;
use wasmtime::component::Linker;

use crate::load::{self, LoadError, LoadOptions};
use crate::plugin::Plugin;
use crate::state::GuestState;
use crate::{host, ticker};

/// Compiles and links plugins. Cheap to clone; clones are the same engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    engine: wasmtime::Engine,
    linker: Linker<GuestState>,
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
    /// Sets up an engine and starts its clock, which ends with the engine and its last plugin.
    ///
    /// # Errors
    /// [`EngineError`] if the machine does not allow it.
    pub fn new() -> Result<Self, EngineError> {
        let engine = wasmtime::Engine::new(&config())?;
        let mut linker = Linker::new(&engine);
        host::add_to_linker(&mut linker)?;
        ticker::start(engine.weak())?;
        Ok(Self(Arc::new(Inner { engine, linker })))
    }

    /// Makes a plugin of a file's bytes: a component or a core module (or their text form, if allowed).
    ///
    /// Takes CPU time, up to seconds for components of several megabytes: call it off the async threads.
    ///
    /// # Errors
    /// [`LoadError`], which says what the author or operator should do.
    pub fn load(&self, bytes: &[u8], options: LoadOptions) -> Result<Plugin, LoadError> {
        load::load(&self.0.engine, &self.0.linker, bytes, options)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}

/// The defaults, but for epochs: they stop a guest that spins. Fuel would cost more and tell less; the pooling
/// allocator pays only for short-lived instances, and ours are kept.
fn config() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config
}
