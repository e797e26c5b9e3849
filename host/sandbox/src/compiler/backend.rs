//! wasmtime set up for one way of compiling, with everything that plugins may import.
//!
//! Made by `Engine`, and by the child that compiles, so that both are the same. Invariant: all settings but the
//! compiler are the same in both ways, so a plugin has the same world and the same limits in either.

use std::sync::Arc;
use wasmtime::component::Linker;

use wasmtime::{CacheStore, Config, Engine, Strategy};

use super::mode::Compile;
use crate::artefacts::{Key, Maker};
use crate::engine::RunOptions;
use crate::hash::ContentHash;
use crate::host;
use crate::lineage::Lineage;
use crate::state::GuestState;

/// See the file's head.
pub(crate) struct Backend {
    pub(crate) mode: Compile,
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<GuestState>,
    maker: Maker,
}

/// Both ways.
pub(crate) struct Backends {
    pub(crate) optimized: Backend,
    /// None where Winch does not know the machine: then everything is optimized.
    pub(crate) fast: Option<Backend>,
}

impl Backends {
    pub(crate) fn new(run: RunOptions) -> wasmtime::Result<Self> {
        Self::with_functions(run, None)
    }

    /// With what was compiled before, which changes nothing of what is made.
    pub(crate) fn with_functions(
        run: RunOptions,
        functions: Option<Arc<dyn CacheStore>>,
    ) -> wasmtime::Result<Self> {
        let optimized = Backend::new(Compile::Optimized, run, functions)?;
        let fast = match Backend::new(Compile::Fast, run, None) {
            Ok(fast) => Some(fast),
            Err(error) => {
                tracing::debug!("compile = \"fast\" is \"optimized\" on this machine: {error:#}");
                None
            }
        };
        Ok(Self { optimized, fast })
    }

    /// The backend for a mode, if this machine has it.
    pub(crate) fn of(&self, mode: Compile) -> Option<&Backend> {
        match mode {
            Compile::Optimized => Some(&self.optimized),
            Compile::Fast => self.fast.as_ref(),
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Backend> {
        std::iter::once(&self.optimized).chain(&self.fast)
    }
}

impl Backend {
    fn new(mode: Compile, run: RunOptions, functions: Option<Arc<dyn CacheStore>>) -> wasmtime::Result<Self> {
        let mut config = config(mode, run);
        if let Some(functions) = functions {
            config.enable_incremental_compilation(functions)?;
        }
        let engine = Engine::new(&config)?;
        let mut linker = Linker::new(&engine);
        host::add_to_linker(&mut linker)?;
        let maker = Maker::of(&engine);
        Ok(Self { mode, engine, linker, maker })
    }

    /// What an artefact of this content is called.
    pub(crate) fn key(&self, content: &ContentHash) -> Key {
        Key::new(*content, self.mode, self.maker)
    }

    /// What the functions of a lineage are called.
    pub(crate) fn functions(&self, lineage: &Lineage) -> Key {
        Key::of_functions(lineage, self.maker)
    }
}

/// Stack that host functions have beyond the guest's: what wasmtime's own defaults leave them.
const HOST_STACK: usize = 3 << 19;

/// The defaults, but for two. Epochs stop a guest that spins: fuel would cost more and tell less; the pooling
/// allocator pays only for short-lived instances, and ours are kept. And there are no tables for the system's unwinder:
/// wasmtime's own backtraces do without, no panic goes through a guest's frames, and they are 2 % of an artefact.
/// (wasmtime's documentation warns of what some systems do with them when code is loaded; here that was not measured.)
fn config(mode: Compile, run: RunOptions) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.native_unwind_info(false);
    config.strategy(match mode {
        Compile::Optimized => Strategy::Cranelift,
        Compile::Fast => Strategy::Winch,
    });
    config.async_stack_size(run.wasm_stack.saturating_add(HOST_STACK));
    config.max_wasm_stack(run.wasm_stack);
    config.coredump_on_trap(run.core_dumps);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_plugins_run_makes_no_other_code() {
        let other = RunOptions { wasm_stack: 4 << 20, core_dumps: true };
        for mode in Compile::ALL {
            let name = |run| {
                Backend::new(mode, run, None).expect("a backend").key(&ContentHash::of(b"a")).to_string()
            };
            assert_eq!(
                name(RunOptions::default()),
                name(other),
                "what is kept, or made by a child, is found"
            );
        }
    }
}
