//! From the bytes of a file to a plugin: sniff, componentize, compile, check imports and exports.
//!
//! Behind `Engine::load`. Each step is a file; this one puts them in order. Invariant: what comes out fits
//! our world, so that instantiating it can fail only by what the guest does; and no input panics the host.

mod componentize;
mod error;
mod exports;
mod imports;
mod kind;

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

pub use self::error::LoadError;
use self::error::chain;
use self::kind::Kind;
use crate::bindings::PluginPre;
use crate::hash::ContentHash;
use crate::plugin::Plugin;
use crate::state::GuestState;

/// Bytes of the largest file taken: several times a plugin with a whole Python in it.
pub const MAX_PLUGIN_BYTES: usize = 128 << 20;

/// How to load a plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Take the text form of Wasm too (for `hark dev`).
    pub allow_wat: bool,
}

/// Makes a plugin of a file's bytes.
pub(crate) fn load(
    engine: &Engine,
    linker: &Linker<GuestState>,
    bytes: &[u8],
    options: LoadOptions,
) -> Result<Plugin, LoadError> {
    // The compiler and the component encoder are large and see whatever somebody saved into the folder: a
    // panic in them must be that file's trouble, not the host's. They are left with nothing half-changed.
    catch_unwind(AssertUnwindSafe(|| load_unguarded(engine, linker, bytes, options)))
        .unwrap_or(Err(LoadError::Panicked))
}

fn load_unguarded(
    engine: &Engine,
    linker: &Linker<GuestState>,
    bytes: &[u8],
    options: LoadOptions,
) -> Result<Plugin, LoadError> {
    let hash = ContentHash::of(bytes);
    let component = component_bytes(engine, bytes, options)?;
    let component =
        Component::from_binary(engine, &component).map_err(|error| LoadError::Compile(chain(&error)))?;
    exports::check(engine, &component)?;
    imports::check(engine, linker, &component)?;
    let pre = linker.instantiate_pre(&component).map_err(|error| LoadError::ImportType(chain(&error)))?;
    let pre = PluginPre::new(pre).map_err(|error| LoadError::ExportType(vec![chain(&error)]))?;
    Ok(Plugin::new(pre, hash, bytes.len()))
}

/// The component that the file is, or is turned into.
fn component_bytes<'a>(
    engine: &Engine,
    bytes: &'a [u8],
    options: LoadOptions,
) -> Result<Cow<'a, [u8]>, LoadError> {
    match kind::sniff(bytes)? {
        Kind::Component => Ok(Cow::Borrowed(bytes)),
        Kind::CoreModule => componentize::componentize(engine, bytes).map(Cow::Owned),
        Kind::Text if options.allow_wat => {
            let binary = wat::parse_bytes(bytes).map_err(|error| LoadError::Wat(error.to_string()))?;
            match kind::sniff(&binary)? {
                Kind::CoreModule => componentize::componentize(engine, &binary).map(Cow::Owned),
                _ => Ok(Cow::Owned(binary.into_owned())),
            }
        }
        Kind::Text => Err(LoadError::TextNotAllowed),
    }
}
