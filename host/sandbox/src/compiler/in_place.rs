//! Compiling in this process, on threads that everything else comes before.
//!
//! Used for small files with little work in them (see `work`), for all files by a program that offers no process to compile in, and by the child itself.
//! Invariant: wasmtime's compiler runs on the pool's threads, whoever asks; the threads live as long as the engine.

use std::borrow::Cow;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadBuilder, ThreadPool, ThreadPoolBuilder};
use wasmtime::component::Component;

use super::backend::{Backend, Backends};
use crate::artefacts::{self, ArtefactCache, Held, Key};
use crate::load::{self, LoadError, features};

/// The threads, which begin when something is compiled for the first time: one a core. None yet, or none to be had so far.
pub(crate) struct Pool {
    nice: u8,
    threads: Mutex<Option<Arc<ThreadPool>>>,
}

impl Pool {
    /// None are started yet; they will be so nice.
    pub(crate) fn new(nice: u8) -> Self {
        Self { nice, threads: Mutex::default() }
    }

    /// The component that a file is, or is turned into, not compiled.
    pub(crate) fn component_bytes<'a>(
        &self,
        backends: &Backends,
        bytes: &'a [u8],
    ) -> Result<Cow<'a, [u8]>, LoadError> {
        guarded(|| self.threads()?.install(|| component_bytes(backends, bytes)))
    }

    /// The component made of its bytes.
    pub(crate) fn compile(&self, backend: &Backend, component: &[u8]) -> Result<Component, LoadError> {
        let compile = || {
            Component::from_binary(&backend.engine, component)
                .map_err(|error| features::not_compiled(component, &error))
        };
        guarded(|| self.threads()?.install(compile))
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
        guarded(|| self.threads()?.install(compile))
    }

    /// What is installed on them takes along all that wasmtime wants to do in parallel. Without them it would want rayon's
    /// global ones, whose want is a panic.
    fn threads(&self) -> Result<Arc<ThreadPool>, LoadError> {
        // Plain data: a panic elsewhere cannot have left it half-changed.
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(threads) = &*threads {
            return Ok(Arc::clone(threads));
        }
        let started = Arc::new(start(self.nice, |thread| {
            let name = thread.name().unwrap_or_default().to_owned();
            std::thread::Builder::new().name(name).spawn(|| thread.run()).map(drop)
        })?);
        *threads = Some(Arc::clone(&started));
        Ok(started)
    }
}

fn component_bytes<'a>(backends: &Backends, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, LoadError> {
    // Cranelift's engine knows more of Wasm: what Winch does not take is found out when it compiles.
    load::component_bytes(&backends.optimized.engine, bytes)
}

/// Starts the threads; fewer than one a core would be slow for as long as the host runs, so it is all or none.
fn start(nice: u8, spawn: impl FnMut(ThreadBuilder) -> io::Result<()>) -> Result<ThreadPool, LoadError> {
    ThreadPoolBuilder::new()
        .thread_name(|number| format!("compile/{number}"))
        .start_handler(move |_| be_nice(nice))
        .spawn_handler(spawn)
        .build()
        .map_err(|error| LoadError::NoThread(error.to_string()))
}

/// Lowers the priority of this thread, on Linux; a process that does so has it for the threads that it starts.
pub(super) fn be_nice(nice: u8) {
    // Some are already, by whoever started the host; nobody becomes less so.
    if nice > 0
        && let Err(error) = rustix::process::setpriority_process(None, i32::from(nice))
    {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_threads_a_file_is_not_to_blame_and_may_be_taken_later() {
        let Err(error) = start(10, |_| Err(io::Error::from_raw_os_error(11))) else { panic!("no threads") };
        assert!(matches!(error, LoadError::NoThread(_)) && error.is_want(), "{error:?}");
        let message = error.to_string();
        assert!(message.contains("temporarily unavailable (os error 11)"), "{message}");
    }
}
