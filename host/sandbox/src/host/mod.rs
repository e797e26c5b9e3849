//! What a guest may call, one file for each interface of `wit/` that plugins import.
//!
//! Linked once for each engine by [`add_to_linker`]. Invariant: no function in here waits for anything, and
//! each gives back a bounded amount of text.

mod cache;
mod delivery;
mod fields;
mod log;
mod settings;
mod token;

pub(crate) use self::fields::AskedFields;

use wasmtime::component::{HasSelf, Linker};

use crate::bindings::Plugin;
use crate::state::GuestState;

/// Links the imports of our world, and WASI 0.2's command world for guests whose toolchain brings it.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    Plugin::add_to_linker::<_, HasSelf<GuestState>>(linker, |state| state)?;
    wasmtime_wasi::p2::add_to_linker_async(linker)
}

impl crate::bindings::hark::plugin::plugin_types::Host for GuestState {}
