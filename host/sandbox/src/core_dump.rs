//! What remained of a guest whose code broke off: its memories, globals and stack, in the standard format.
//!
//! Made by `instance` of a store that nobody may enter again, handed to the host's [`CoreDumps`], which writes it to
//! a file when it gets round to it. Invariant: nothing in here runs guest code.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use wasmtime::{Store, WasmCoreDump};

use crate::state::GuestState;

/// A core dump that is not written yet. It keeps the guest's memory.
pub struct CoreDump {
    dump: WasmCoreDump,
    store: Store<GuestState>,
}

/// Receives the core dumps of one version of a plugin.
pub trait CoreDumps: Send + Sync {
    /// Takes a dump, to write it somewhere else and later, and says where; none if it is not this plugin's turn, as it
    /// had one just now. Called on the plugin's thread: must not wait.
    ///
    /// # Errors
    /// Why it is not kept, for people.
    fn take(&self, dump: CoreDump) -> Result<Option<PathBuf>, String>;
}

impl CoreDump {
    /// None if the error is not about guest code, or the engine keeps no dumps.
    pub(crate) fn of(error: wasmtime::Error, store: Store<GuestState>) -> Option<Self> {
        Some(Self { dump: error.downcast().ok()?, store })
    }

    /// Bytes of linear memory: what a file of it will have at most, but for a few kilobytes.
    pub fn memory(&self) -> usize {
        self.store.data().limiter.memory()
    }

    /// The file's content, for a program called `name`. Takes a second for each gigabyte or two, and as much memory
    /// again as the guest had that was not zero. Empty if the dump cannot be put into the format.
    pub fn serialize(mut self, name: &str) -> Vec<u8> {
        // The engine looks up what stack frames belong to, and takes for granted that it is there.
        catch_unwind(AssertUnwindSafe(|| self.dump.serialize(&mut self.store, name))).unwrap_or_default()
    }
}

impl fmt::Debug for CoreDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CoreDump({} bytes of memory)", self.memory())
    }
}
