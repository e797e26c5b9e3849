//! Compiling in this process, on threads that everything else comes before.
//!
//! Used for small files with little work in them (see `work`), for all files by a program that offers no process to compile in, and by the child itself.
//! Invariant: wasmtime's compiler runs on the pool's threads, whoever asks; the threads live as long as the engine.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuilder};
use wasmtime::component::Component;

use super::backend::{Backend, Backends};
use crate::artefacts::{self, ArtefactCache, Held, Key};
use crate::load::{self, LoadError, features};

/// How nice the compiler is, out of 19: with 10, a thread that competes for the same core gets ten times as much of it.
pub(crate) const NICE: i32 = 10;

/// The threads, which begin when something is compiled for the first time: one a core.
#[derive(Default)]
pub(crate) struct Pool(OnceLock<Option<ThreadPool>>);

impl Pool {
    /// The component that a file is, or is turned into, not compiled.
    pub(crate) fn component_bytes<'a>(
        &self,
        backends: &Backends,
        bytes: &'a [u8],
    ) -> Result<Cow<'a, [u8]>, LoadError> {
        guarded(|| self.install(|| component_bytes(backends, bytes)))
    }

    /// The component made of its bytes.
    pub(crate) fn compile(&self, backend: &Backend, component: &[u8]) -> Result<Component, LoadError> {
        let compile = || {
            Component::from_binary(&backend.engine, component)
                .map_err(|error| features::not_compiled(component, &error))
        };
        guarded(|| self.install(compile))
    }

    /// The artefact made of a file, sealed under a key, for somebody else to load.
    pub(crate) fn artefact(
        &self,
        backends: &Backends,
        backend: &Backend,
        bytes: &[u8],
    ) -> Result<Vec<u8>, LoadError> {
        let compile = || {
            let component = component_bytes(backends, bytes)?;
            let artefact = backend.engine.precompile_component(&component);
            artefact.map_err(|error| features::not_compiled(&component, &error))
        };
        guarded(|| self.install(compile))
    }

    /// Runs something on the pool, and with it all that wasmtime wants to do in parallel.
    fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match self.0.get_or_init(start) {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}

fn component_bytes<'a>(backends: &Backends, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, LoadError> {
    // Cranelift's engine knows more of Wasm: what Winch does not take is found out when it compiles.
    load::component_bytes(&backends.optimized.engine, bytes)
}

fn start() -> Option<ThreadPool> {
    let pool = ThreadPoolBuilder::new()
        .thread_name(|number| format!("compile/{number}"))
        .start_handler(|_| be_nice())
        .build();
    pool.inspect_err(|error| tracing::warn!("no threads of its own for the compiler: {error}")).ok()
}

/// Lowers the priority of this thread, on Linux; a process that does so has it for the threads that it starts.
pub(super) fn be_nice() {
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!("the compiler keeps its priority: {error}");
    }
}

/// Keeps what was compiled in the cache, as far as it goes.
pub(super) fn keep(cache: &ArtefactCache, key: &Key, component: &Component) {
    let sealed = component.serialize().map_err(|error| error.to_string()).and_then(|artefact| {
        let mut sealed = Vec::with_capacity(artefact.len() + 64);
        artefacts::write(&mut sealed, key, &Held::Artefact, &artefact).map_err(|error| error.to_string())?;
        Ok(sealed)
    });
    match sealed {
        Ok(sealed) => cache.keep(key, &mut sealed.as_slice()),
        Err(error) => tracing::warn!("artefact {key} cannot be written down: {error}"),
    }
}

/// The compiler and the component encoder are large and see whatever somebody saved into the folder: a panic in them
/// must be that file's trouble, not the host's. They are left with nothing half-changed.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, LoadError>) -> Result<T, LoadError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(LoadError::Panicked))
}
