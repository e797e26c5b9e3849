//! Measuring the built binary as a whole, from outside: what it takes of the machine, and what it counts.
//!
//! Used by the binaries behind `cargo xtask idle`, `long` and `reload`. Invariant: numbers are the kernel's (`/proc`)
//! or those that Hark publishes (`/metrics`); the API server is in the measuring process, so that nothing of it is
//! counted as Hark's.

pub mod binary;
pub mod process;
pub mod stamp;
pub mod subject;
pub mod table;
