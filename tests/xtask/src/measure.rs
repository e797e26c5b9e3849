//! `cargo xtask idle`, `long` and `reload`: the built binary measured as a whole.
//!
//! Invariant: the work is done by binaries of `hark-tests`, which measure the `hark` beside them; their arguments are
//! those given here, but for `--release`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::{fixtures, host, plugins, tools};

/// Builds what is needed and runs one of the binaries with these arguments.
pub(crate) fn run(name: &str, arguments: &[String]) -> Result<()> {
    fixtures::run(&[])?;
    if name == "reload" {
        plugins::run(&[])?;
    }
    let fresh = arguments.iter().any(|argument| argument == "--release");
    let binary = binary(name, fresh)?;
    let rest = arguments.iter().filter(|argument| *argument != "--release");
    tools::run(Command::new(binary).args(rest))
}

/// A fresh release build if that is asked for, else the release build there is, else a fresh development build.
fn binary(name: &str, fresh: bool) -> Result<PathBuf> {
    let release = host::target_folder()?.join("release");
    if fresh {
        tools::run(host::cargo().args(["build", "--release", "--workspace"]))?;
    } else if ![name, "hark"].iter().all(|name| release.join(name).is_file()) {
        return Ok(host::build()?.with_file_name(name));
    } else {
        eprintln!("taking the release build that there is; --release makes a fresh one");
    }
    Ok(release.join(name))
}
