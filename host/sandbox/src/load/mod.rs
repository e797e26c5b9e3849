//! From the bytes of a file to a plugin: sniff, componentize, compile, check imports and exports.
//!
//! Behind `Engine::load`. Each step is a file, and compiling, which may also be a look into the cache, is `compiler`;
//! this one puts them in order. Invariant: what comes out fits our world, so that instantiating it can fail only by what
//! the guest does; and no input panics the host.

mod bounds;
mod componentize;
mod error;
mod exports;
pub(crate) mod features;
#[cfg(test)]
mod fuzz;
mod imports;
mod kind;
mod nesting;
mod packages;
mod worlds;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use wasmtime::Engine;

pub use self::error::LoadError;
pub(crate) use self::error::chain;
use self::error::lines;
use self::kind::Kind;
use crate::compiler::{Backend, Compile, Compiled, Compiler, Task, guarded};
use crate::guest::Exports;
use crate::hash::ContentHash;
use crate::plugin::Plugin;
use crate::ticker::Ticker;

/// Bytes of the largest file taken: several times a plugin with a whole Python in it.
pub const MAX_PLUGIN_BYTES: usize = 128 << 20;

/// How to load a plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Take the text form of Wasm too (for `hark dev`).
    pub allow_wat: bool,
    /// Which compiler to ask first.
    pub compile: Compile,
}

/// Makes a plugin of a file's bytes.
pub(crate) fn load(
    compiler: &Compiler,
    ticker: &Arc<Ticker>,
    task: Task<'_>,
    options: LoadOptions,
) -> Result<Plugin, LoadError> {
    // Also what follows compiling sees what somebody saved into the folder.
    guarded(|| {
        // Before the cache is asked, since text that was compiled once is still not taken by `hark run`.
        if kind::sniff(task.content.bytes())? == Kind::Text && !options.allow_wat {
            return Err(LoadError::TextNotAllowed);
        }
        let (hash, size) = (task.content.hash(), task.content.bytes().len());
        if let Some(loaded) = compiler.loaded(hash, options.compile) {
            return Ok(loaded);
        }
        let plugin = link(compiler.component(task, options.compile)?, hash, size, ticker)?;
        compiler.loaded.remember(options.compile, &plugin);
        Ok(plugin)
    })
}

/// The plugin with this content, if its code is there already. Whatever is wrong with it is for [`load`] to say.
pub(crate) fn find(
    compiler: &Compiler,
    ticker: &Arc<Ticker>,
    hash: &ContentHash,
    size: usize,
    compile: Compile,
) -> Option<Plugin> {
    let found = guarded(|| {
        if let Some(loaded) = compiler.loaded(hash, compile) {
            return Ok(Some(loaded));
        }
        let Some(compiled) = compiler.cached(hash, compile) else { return Ok(None) };
        let plugin = link(compiled, hash, size, ticker)?;
        compiler.loaded.remember(compile, &plugin);
        Ok(Some(plugin))
    });
    found.unwrap_or_else(|error| {
        tracing::debug!("{}: its code is there, and of no use: {error}", hash.short());
        None
    })
}

fn link(
    compiled: Compiled<'_>,
    hash: &ContentHash,
    size: usize,
    ticker: &Arc<Ticker>,
) -> Result<Plugin, LoadError> {
    let begun = Instant::now();
    let Compiled { component, backend: Backend { engine, linker, .. }, mut how } = compiled;
    let stateful = exports::check(engine, &component)?;
    imports::check(engine, linker, &component)?;
    let pre = linker.instantiate_pre(&component).map_err(|error| LoadError::ImportType(chain(&error)))?;
    let exports = Exports::new(pre, stateful).map_err(|error| LoadError::ExportType(vec![chain(&error)]))?;
    how.linking = begun.elapsed();
    Ok(Plugin::new(exports, *hash, size, how, Arc::clone(ticker)))
}

/// The component that the file is, or is turned into. (Where text is not allowed, that was found out before.)
pub(crate) fn component_bytes<'a>(engine: &Engine, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, LoadError> {
    match kind::sniff(bytes)? {
        Kind::Component => bounds::check(bytes).map(|()| Cow::Borrowed(bytes)),
        Kind::CoreModule => componentize::componentize(engine, bytes).map(Cow::Owned),
        Kind::Text => {
            let binary =
                wat::parse_bytes(bytes).map_err(|error| LoadError::Wat(lines(&error.to_string())))?;
            match kind::sniff(&binary)? {
                Kind::CoreModule => componentize::componentize(engine, &binary).map(Cow::Owned),
                _ => bounds::check(&binary).map(|()| Cow::Owned(binary.into_owned())),
            }
        }
    }
}
