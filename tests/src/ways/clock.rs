//! A host whose wall clock is set while it runs.
//!
//! Used by the ways of setting the clock. The machine's own is not ours to set: `clock.c` is put between the host and the
//! system. So what the host reads from its clock jumps, and what the file system writes into its files does not, which is
//! what a jump looks like for every file that is there already. Invariant: the host asks this clock and no other.

use std::path::Path;

use anyhow::Result;

use super::stage::{Stage, Start, lay};
use super::{Run, tools};

/// The file with the seconds by which the host's clock is ahead, in the host's folder.
const FILE: &str = "clock";

/// A host as most ways need it, whose clock [`set`] sets.
///
/// # Errors
/// If it cannot be had, or there is no C compiler.
pub async fn start(run: Run) -> Result<Stage> {
    let through = &["env", "LD_PRELOAD=./clock.so", "TEST_CLOCK=clock"];
    let lay = &|at: &Path| {
        std::fs::write(at.join("clock.c"), include_str!("clock.c"))?;
        std::fs::write(at.join(FILE), 0_i64.to_ne_bytes())?;
        tools::run(at, "cc", &["-O1", "-shared", "-fPIC", "-Wall", "-Werror", "-o", "clock.so", "clock.c"])?;
        lay(&at.join("plugins"))
    };
    run.start_with(Start { through, lay, ..Start::default() }).await
}

/// Sets the host's clock so many seconds before the machine's, or behind it.
///
/// # Errors
/// If that cannot be written.
pub fn set(stage: &Stage, seconds: i64) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(stage.beside(FILE))?;
    Ok(file.write_all_at(&seconds.to_ne_bytes(), 0)?)
}
