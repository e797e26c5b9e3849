//! The long suite: a great many changes, traps and reloads, with the books kept of everything that was delivered, and
//! of what the process holds all the while.
//!
//! Used by the binary behind `cargo xtask long`, and by a test that is a short run; on the parts of [`crate::measure`]. One run has four plugins: a good one
//! and one that traps on every 1,000th event, each once with `on_reload = "continue"` and once with `"replay"`.
//!
//! | file | subject |
//! | --- | --- |
//! | `writer` | changes objects on the API server, and remembers what it did |
//! | `books` | the [ledgers](crate::ledger) of all plugins, fed from the trace |
//! | `reloads` | saves new contents over a plugin's file, in every way |
//! | `run` | a whole run |
//! | `samples` | what the process held over the time, and whether that is flat |

pub mod books;
pub mod reloads;
pub mod run;
pub mod samples;
pub mod writer;

use std::sync::atomic::AtomicU64;

/// How far a run is, for those who look on.
#[derive(Debug, Default)]
pub struct Progress {
    /// Changes made.
    pub written: AtomicU64,
    /// Reloads that came about.
    pub reloads: AtomicU64,
}

/// A plugin of the suite.
#[derive(Debug, Clone, Copy)]
pub struct Cast {
    /// The file's stem.
    pub name: &'static str,
    /// Its fixture.
    pub fixture: &'static str,
    /// `on_reload = "replay"`, else `"continue"`.
    pub replays: bool,
}

/// Everybody who is in it.
pub const CAST: [Cast; 4] = [
    Cast { name: "good-continue", fixture: "counter-v1", replays: false },
    Cast { name: "good-replay", fixture: "counter-v1", replays: true },
    Cast { name: "trap-continue", fixture: "trap-every-thousandth", replays: false },
    Cast { name: "trap-replay", fixture: "trap-every-thousandth", replays: true },
];
