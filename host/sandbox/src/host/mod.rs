//! What a guest may call, one file for each interface of `wit/` that plugins import.
//!
//! Linked once for each engine by [`add_to_linker`]. Invariants: no function in here waits for anything, but for those
//! in [`waiting`]; each gives back a bounded amount of text; and each does a bounded amount of work, since nothing can
//! break off a function of the host's that does not wait (the deadline is noticed when it returns):
//!
//! | function | what bounds it |
//! | --- | --- |
//! | all | what the guest hands over: `limits.call_bytes` |
//! | `log.log`, standard output and error | each byte is looked at once; what is kept: `limits.log_line`, `limits.log_lines` |
//! | `settings.get`, `settings.all` | the operator's own table |
//! | `delivery.*`, clocks | a few numbers |
//! | `cache.get` | one object; `fields` reads it once |
//! | `cache.list-objects`, `by-index` | `limits.page` of text, 10,000 entries, 16 MiB to cut `fields` out of |
//! | `cache.index-values` | `limits.page` of text, 10,000 entries |
//! | `wasi:random` | 1 MiB a request |
//! | `wasi:io/poll`, `clocks.subscribe-*` | `limits.handles` pollables |
//! | `wasi:io/streams` | 4 KiB or 64 KiB a call, as WASI says |
//! | files, sockets, environment | refused at once |

mod cache;
mod delivery;
mod fields;
#[cfg(test)]
mod fuzz;
mod log;
mod settings;
mod token;
mod waiting;

pub(crate) use self::fields::AskedFields;
use self::waiting::HasWaiting;
pub(crate) use self::waiting::Waiting;

use wasmtime::component::{HasSelf, Linker};

use crate::bindings::Plugin;
use crate::state::GuestState;

/// Links the imports of our world, and WASI 0.2's command world for guests whose toolchain brings it.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    Plugin::add_to_linker::<_, HasSelf<GuestState>>(linker, |state| state)?;
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    wasmtime_wasi_io::bindings::wasi::io::poll::add_to_linker::<_, HasWaiting>(linker, GuestState::waiting)?;
    linker.allow_shadowing(false);
    Ok(())
}

impl crate::bindings::hark::plugin::plugin_types::Host for GuestState {}
