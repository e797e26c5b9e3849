//! Hark's informer against client-go's: the same scripts, on API servers that are the same, must make their
//! handlers hear the same.
//!
//! Used by `tests/differential.rs` (about a hundred scripts) and by `cargo xtask differential` (as many as one
//! likes). Proof 2 of the informer: whatever a handler can see is as with client-go, but for the deviations
//! that the delivery contract marks (D); each of those is a [`Rule`] that is applied by itself and counted.
//!
//! ```text
//!   generate ──► Script ──► play ──► Actor: Stage (an API server of its own) + Hark
//!                             │ ───► Actor: Stage + client-go, in-order queue   (a process of ours in Go,
//!                             │ ───► Actor: Stage + client-go, classic queue     tests/differential)
//!                             ▼
//!                    compare, rule by rule ──► Tally, or a Difference ──► shrink ──► report
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `script` | steps and faults, as data |
//! | `generate` | a script from a seed |
//! | `stage` | one API server, and what a script does to it |
//! | `hark`, `client_go` | the clients; `recorder`: what they were told |
//! | `actor` | a client on its stage; `play`: all of them, step by step |
//! | `rules`, `compare` | what may differ, and whether more does |
//! | `shrink`, `campaign` | many scripts, and what is left of one that fails |
//!
//! What it does not see: the order across keys (nobody is promised one), times, and what a client asks the
//! server for. What is racy by nature is kept out by the player's settling, not by a lenient comparer.

mod actor;
mod campaign;
mod client_go;
mod compare;
mod event;
mod generate;
mod hark;
mod play;
mod recorder;
mod rules;
mod script;
mod shrink;
mod stage;

pub use self::campaign::{Campaign, Report, play_all, rivals};
pub use self::client_go::Queue;
pub use self::play::Rivals;
pub use self::rules::{Rule, Tally};
pub use self::script::Script;
