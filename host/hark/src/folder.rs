//! The plugins folder and the configuration file: which files count, when to look at them, and when they may be read.
//!
//! Used by the plugin manager. One thread looks, and tells what differs. Invariant: a folder that cannot be read says
//! nothing about the plugins in it, least of all that they are gone (design 4.12).
//!
//! | file | subject |
//! | --- | --- |
//! | `scan` | what lies in the folder, and what of it counts |
//! | `stamp` | what tells one state of a file from another |
//! | `hops` | the links on the way to a file |
//! | `mount` | which mount a folder is on |
//! | `told`, `watcher` | what the file system tells (`watching`) |
//! | `ledger` | files over time: being written, whole, gone |
//! | `configuration` | the same for the configuration file, which is read here |
//! | `way` | how changes come to be known, and why |
//! | `looker`, `stats` | the thread, and what it costs |

mod configuration;
#[cfg(test)]
mod fuzz;
mod hops;
mod ledger;
mod looker;
mod mount;
mod scan;
mod stamp;
mod stats;
mod told;
mod watcher;
mod way;

pub(crate) use self::ledger::{PluginFile, Standing};
pub(crate) use self::looker::{FolderState, LookOptions, Looker, Seen};
pub(crate) use self::scan::Place;
pub(crate) use self::stamp::Stamp;
pub(crate) use self::stats::{Cause, LookStats};
pub(crate) use self::way::{WatchMode, Way};
