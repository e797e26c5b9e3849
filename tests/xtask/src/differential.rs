//! `cargo xtask differential`: many random scripts, or one script again, on Hark's informer and on client-go's.
//!
//! Invariant: the work is done by a binary of `hark-tests`, compiled when asked for, so that xtask itself stays
//! small; its arguments are that binary's.

use anyhow::Result;

use crate::{host, tools};

/// Builds the suite and runs it with these arguments.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut cargo = host::cargo();
    cargo.args(["run", "--quiet", "--package", "hark-tests", "--bin", "differential", "--"]);
    tools::run(cargo.args(arguments))
}
