//! `cargo xtask guest-tests`: what can be tested of the guest side without Wasm. Used by contributors and by
//! the whole test run. Invariant: needs no Wasm toolchain, only cargo and a C compiler.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::c_guest;
use crate::output;
use crate::tools;

/// Runs the tests of the guests' workspace (the Rust SDK and the plugins), then those of the C SDK.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    if let Some(argument) = arguments.first() {
        bail!("unexpected argument `{argument}`; usage: cargo xtask guest-tests");
    }
    output::step("testing the Rust SDK and the plugins", rust)?;
    output::step("testing the C SDK", c)
}

fn rust() -> Result<()> {
    let manifest = output::root().join("plugins/Cargo.toml");
    tools::run(
        Command::new("cargo").args(["test", "--quiet", "--workspace", "--manifest-path"]).arg(manifest),
    )
}

/// Each test program of the C SDK, and the sources that it tests.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("json_test", &["hark_json.c"]),
    ("describe_test", &["hark.c", "hark_json.c"]),
    ("lifecycle_test", &["hark_lifecycle.c"]),
];

fn c() -> Result<()> {
    let compiler =
        tools::find(&["cc", "clang", "gcc"]).context("no C compiler (cc, clang or gcc) in PATH")?;
    PROGRAMS.iter().try_for_each(|(name, sources)| program(&compiler, name, sources))
}

/// Compiles and runs a program of `guest-sdk/c/tests` with the sanitizers, as far as the compiler has them.
fn program(compiler: &Path, name: &str, sources: &[&str]) -> Result<()> {
    let sdk = c_guest::sdk_folder();
    let folder = output::target().join("guests-build");
    fs::create_dir_all(&folder)?;
    let program = folder.join(name);
    let compile = |sanitize: &[&str]| {
        let mut command = Command::new(compiler);
        command.args(["-std=c11", "-g", "-Wall", "-Wextra", "-Werror"]).args(sanitize).arg("-I").arg(&sdk);
        command.arg(sdk.join("tests").join(name).with_extension("c"));
        command.args(sources.iter().map(|source| sdk.join(source))).arg("-o").arg(&program);
        tools::capture(&mut command)
    };
    compile(&["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]).or_else(|error| {
        eprintln!("without sanitizers, since: {error:#}");
        compile(&[])
    })?;
    tools::run(&mut Command::new(&program))
}
