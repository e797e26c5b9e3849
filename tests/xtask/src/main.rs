//! `cargo xtask`: the one entry for building what cargo alone does not build, for contributors and CI.
//!
//! Invariant: it depends on a handful of small crates, so that it compiles in seconds; what is large (the
//! bindings generator) is a crate of its own, compiled when asked for. A subcommand is one module with one
//! public function; `main` only chooses.

mod bindings;
mod c_guest;
mod demo;
mod differential;
mod fixtures;
mod fuzz;
mod guest_tests;
mod host;
mod measure;
mod output;
mod plugins;
mod rust_guest;
mod test;
mod tools;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
Shows, builds and tests Hark. What is missing (a Wasm target, clang) is installed where that is possible,
else the error says what to install.

Usage: cargo xtask COMMAND [ARGUMENT…]

  demo [--once]        Build everything, start `hark dev` with the example plugins, apply sample objects
  test [WORD…]         Set up and run all tests, lints and checks (or the steps whose names contain a word)
  plugins [NAME…]      Build the example plugins (all, or those named) into target/plugins/NAME.wasm
  fixtures [NAME…]     Build the guests that the tests use into target/guests/NAME.wasm
  guest-tests          Run the native tests of the Rust SDK, of the plugins, and of the C SDK
  bindings [--check]   Regenerate the committed bindings from wit/; with --check only compare them
  differential [--scripts N] [--seed N] [--at-once N] [--script FILE]
                       Compare Hark's informer with client-go's on random scripts, or on one that failed
  fuzz [--seconds N] [--seed N] [TARGET…] | --replay FILE
                       Run the fuzz targets (all, or those named) for so long each (60 s) on all cores, with new
                       cases; failing ones are saved to target/fuzz, from where --replay runs one again
  idle [--release] [--plugins 1,100,1000] [--objects N] [--seconds N] [--hark FILE]
                       Measure what an idle plugin costs: memory, threads, descriptors, mappings, wake-ups.
                       Of the release build if there is one; --release builds it
  long [--release] [--events 1000000] [--reloads 1000] [--objects N] [--seed N] [--hark FILE]
                       The long suite: a trap every 1,000 events, reloads all the while; nothing may be lost, and
                       memory, threads, descriptors and mappings must be flat. Takes about 3 minutes with a release
                       build, 6 with a development build; --events 60000 --reloads 60 is a try of half a minute
  reload [--release] [--rounds 10] [--seconds 10] [--mode dev|run] [--way renamed|in-place] [--only WORD|beside] [--plugin FILE,FILE…] [--hark FILE]
                       Measure what a reload takes, from the save of a file to the first event of the new code, part by
                       part; and what it costs another plugin beside 1,000 changes a second. The tables are also in
                       target/reload-latency.txt

Environment:
  HARK_GUEST_RUST      rustup or debian: which Rust toolchain builds guests (default: what is there)
  XDG_CACHE_HOME       Rust guests are compiled in $XDG_CACHE_HOME/hark (default: ~/.cache/hark)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let (command, rest) = match arguments {
        [] => return help(),
        [command, rest @ ..] => (command.as_str(), rest),
    };
    if command == "help" || arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        return help();
    }
    match command {
        "demo" => demo::run(rest),
        "test" => test::run(rest),
        "plugins" => plugins::run(rest),
        "fixtures" => fixtures::run(rest),
        "guest-tests" => guest_tests::run(rest),
        "bindings" => bindings::run(rest),
        "differential" => differential::run(rest),
        "fuzz" => fuzz::run(rest),
        "idle" | "long" | "reload" => measure::run(command, rest),
        unknown => bail!(
            "unknown command `{unknown}`; the commands are demo, test, plugins, fixtures, guest-tests, bindings, \
             differential, fuzz, idle, long, reload (see --help)"
        ),
    }
}

fn help() -> Result<()> {
    std::io::stdout().write_all(HELP.as_bytes())?;
    Ok(())
}
