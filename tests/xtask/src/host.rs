//! Builds the host. Used by `demo` and `test`. Invariant: always the whole workspace, so that every command
//! chooses the same features and the heavy dependencies (wasmtime) are compiled once.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::output;
use crate::tools;

/// Builds every native crate and gives the path of the `hark` binary.
pub(crate) fn build() -> Result<PathBuf> {
    eprintln!("building the host (the first time about 10 minutes of CPU: wasmtime is large) …");
    tools::run(cargo().args(["build", "--workspace"]))?;
    let binary = target_folder()?.join("debug/hark");
    if !binary.is_file() {
        bail!("{} was not built", binary.display());
    }
    Ok(binary)
}

/// The cargo that runs this program, in the repository's root, without what it told this program about this
/// program's own package: some build scripts look at it, and would run again after each change of caller.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(output::root());
    for (name, _) in std::env::vars_os() {
        let ours = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
        if ours.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

/// Where cargo puts what it builds here.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let metadata = tools::capture(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata).context("cargo metadata")?;
    metadata["target_directory"].as_str().map(PathBuf::from).context("cargo metadata has no target_directory")
}
