//! `cargo xtask bindings`: regenerates the bindings in `guest-sdk` from `wit/`, or checks them. Invariant: the
//! committed files are exactly what the generator writes, so nobody edits them by hand, and authors need no
//! generator.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::output;
use crate::tools;

/// What is generated, in `guest-sdk`.
const FILES: [&str; 8] = [
    "c/plugin.h",
    "c/plugin.c",
    "c/plugin_component_type.o",
    "c/lifecycle.h",
    "c/lifecycle.c",
    "c/lifecycle_component_type.o",
    "rust/src/bindings.rs",
    "rust/src/lifecycle_bindings.rs",
];

/// Generates into `guest-sdk`; with `--check`, beside it, and compares.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let check = match arguments {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => bail!("usage: cargo xtask bindings [--check]"),
    };
    let fresh = output::target().join("bindings");
    output::step("generating bindings (the first time compiles the generator)", || generate(&fresh))?;
    let mut stale = Vec::new();
    for file in FILES {
        let committed = output::root().join("guest-sdk").join(file);
        let content = fs::read(fresh.join(file)).with_context(|| format!("the generator wrote no {file}"))?;
        if !check {
            output::publish(&committed, &content)?;
        } else if fs::read(&committed).ok() != Some(content) {
            stale.push(file);
        }
    }
    if !stale.is_empty() {
        bail!("not what wit/ gives: {}; run `cargo xtask bindings`", stale.join(", "));
    }
    Ok(())
}

fn generate(out: &Path) -> Result<()> {
    let root = output::root();
    let mut cargo = Command::new("cargo");
    cargo
        .args(["run", "--quiet", "--locked", "--manifest-path"])
        .arg(root.join("tests/xtask/bindings/Cargo.toml"));
    cargo.env("CARGO_TARGET_DIR", tools::cache_folder()?.join("bindings-target"));
    tools::run(cargo.arg("--").arg(root.join("wit")).arg(out))
}
