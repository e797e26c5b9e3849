//! Runs Hark plugins: the Wasm side of the host, and the only crate that knows wasmtime.
//!
//! The way of a plugin through this crate, in the order of the modules below:
//!
//! 1. [`Engine::load`] takes the bytes of a file: sniffs what they are, turns a core module into a component,
//!    compiles it (or finds it in the [`ArtefactCache`]), checks its imports and exports, and gives a [`Plugin`] (once
//!    per content, CPU work).
//! 2. [`Plugin::describe`] asks it what it wants, in an instance of its own, and gives a checked
//!    [`Description`] (once per version).
//! 3. [`Plugin::start`] makes an instance of a plugin with the export `lifecycle`, ahead of its events (once per instance).
//! 4. [`PluginHandler`] is the informer's `EventHandler`: it keeps one instance and hands it one event at a
//!    time. After a trap or a time-out it throws the instance away; the next event gets a fresh one. Between events it
//!    carries what the plugin [`Saved`] from one version, or one instance, to the next.
//!
//! Nothing in here trusts a guest. What each of its calls may use is in [`Limits`]; what it has used, and which limits
//! it has hit, in [`Usage`]; what it says reaches the operator only through [`GuestLog`], cut to size and stripped of
//! terminal control.
//!
//! Calls need a tokio runtime with its clock enabled around them; they use the thread that polls them for as
//! long as the guest runs, with a break every 10 ms. Drive a [`PluginHandler`] on a thread of its own.

mod artefacts;
mod bindings;
mod cap;
mod compiler;
mod context;
mod core_dump;
mod deadline;
mod description;
mod engine;
mod entry;
mod guest;
mod guest_log;
mod handler;
mod hash;
mod host;
mod host_calls;
mod instance;
mod limiter;
mod limits;
mod line_buffer;
mod lineage;
mod load;
mod loaded;
mod outcome;
mod output;
mod plugin;
mod recycle;
mod saved;
mod settings;
mod starting;
mod state;
mod stdio;
mod text;
mod thread_clock;
mod ticker;
mod usage;

pub use artefacts::{ArtefactCache, CacheError, CacheStats};
pub use cap::Cap;
pub use compiler::child::compile_for_parent;
pub use compiler::{Compile, CompileStats, CompilerProcess, How, LARGE_PLUGIN_BYTES, ModeStats};
pub use context::Context;
pub use core_dump::{CoreDump, CoreDumps};
pub use description::{Description, Proposal, Subscription};
pub use engine::{Engine, EngineError, EngineOptions, Priority, RunOptions};
pub use guest_log::{GuestLine, GuestLog, LogLevel, LogSource};
pub use handler::PluginHandler;
pub use hash::{ContentHash, HashedBytes, NotAHash};
pub use limits::Limits;
pub use lineage::Lineage;
pub use load::{LoadError, LoadOptions, MAX_PLUGIN_BYTES};
pub use plugin::{DescribeError, Plugin};
pub use saved::{Saved, State};
pub use settings::Settings;
pub use starting::{StartError, StartReason, Started};
pub use usage::{Restart, Usage};
