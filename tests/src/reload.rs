//! What a reload takes, from the save of a file to the first event that the new code handles; and what it costs others.
//!
//! Used by the binary behind `cargo xtask reload`, on the parts of [`crate::measure`]. Invariant: both ends are read off
//! one clock, the machine's: the moment before the file is renamed or closed, and the beginning of the attempt that the
//! trace has first of the new generation.
//!
//! | file | subject |
//! | --- | --- |
//! | `lineage` | plugins of different sizes, and ever new contents of them |
//! | `line` | the parts, as the line that announces a version has them |
//! | `stage` | the host that reloads |
//! | `beside` | the deliveries of a good plugin while another one is reloaded |

pub mod beside;
pub mod line;
pub mod lineage;
pub mod stage;
