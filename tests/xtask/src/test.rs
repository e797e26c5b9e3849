//! `cargo xtask test`: sets up what the tests need and runs all of them: formatting, lints, docs, guests, host.
//!
//! Invariant: every step runs although an earlier one failed, so that one run shows all that is wrong; the
//! last line counts the steps in a form that CI reads.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{bindings, fixtures, guest_tests, host, output, plugins, tools};

type Step = (&'static str, fn() -> Result<()>);

/// In the order of how soon they find something; what later ones need comes first.
const STEPS: [Step; 10] = [
    ("formatting", formatting),
    ("plugins", || plugins::run(&[])),
    ("fixtures", || fixtures::run(&[])),
    ("bindings match wit/", || bindings::run(&["--check".to_owned()])),
    ("guests' own tests", || guest_tests::run(&[])),
    ("lints", lints),
    ("guests' lints", guest_lints),
    ("docs", docs),
    ("host", || host::build().map(drop)),
    ("host tests", host_tests),
];

/// Runs every step, or those whose names contain an argument.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let chosen =
        |name: &str| arguments.is_empty() || arguments.iter().any(|word| name.contains(word.as_str()));
    let mut failed = Vec::new();
    let mut passed = 0;
    for (name, step) in STEPS.into_iter().filter(|(name, _)| chosen(name)) {
        match output::step(&format!("== {name}"), step) {
            Ok(()) => passed += 1,
            Err(error) => {
                eprintln!("== {name} FAILED: {error:#}");
                failed.push(name);
            }
        }
    }
    eprintln!("steps: {passed} passed, {} failed", failed.len());
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn formatting() -> Result<()> {
    component("rustfmt", "cargo-fmt")?;
    tools::run(host::cargo().args(["fmt", "--all", "--check"]))?;
    tools::run(host::cargo().args(["fmt", "--all", "--check", "--manifest-path", "plugins/Cargo.toml"]))
}

fn lints() -> Result<()> {
    component("clippy", "cargo-clippy")?;
    tools::run(host::cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn guest_lints() -> Result<()> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--manifest-path", "plugins/Cargo.toml"];
    tools::run(host::cargo().args(arguments).args(["--", "-D", "warnings"]))
}

fn docs() -> Result<()> {
    let arguments = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    tools::run(host::cargo().args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

fn host_tests() -> Result<()> {
    tools::run(host::cargo().args(["test", "--workspace", "--no-fail-fast"]))
}

/// Makes sure that cargo has a subcommand: as a component of rustup, or as Debian's package of the same Rust.
fn component(name: &str, program: &str) -> Result<()> {
    if tools::find(&[program]).is_some_and(works) {
        return Ok(());
    }
    let rustup = tools::find(&["rustup"]);
    if let Some(rustup) = &rustup
        && tools::capture(Command::new(rustup).args(["component", "add", name])).is_ok()
    {
        return Ok(());
    }
    let package = if name == "clippy" { "rust-web-clippy" } else { "rustfmt-web" };
    if tools::apt_install(&[&[package]]) && tools::find(&[program]).is_some_and(works) {
        return Ok(());
    }
    Err(anyhow::anyhow!("no `{program}` that works"))
        .with_context(|| format!("install it: `rustup component add {name}`, or Debian's package {package}"))
}

fn works(program: PathBuf) -> bool {
    tools::capture(Command::new(program).arg("--version")).is_ok()
}
