//! The `hark` binary: parse, set up logging, run the command, turn an error into an exit code.
//!
//! The only place where errors lose their types. Exit codes: 0 done, 1 failed, 2 wrong usage (clap's), 130
//! aborted by a second signal.

mod admin;
mod artefacts;
mod cli;
mod config;
mod core_dumps;
mod dead_letters;
mod descriptors;
mod dev;
mod folder;
mod host;
mod output;
mod plugins;
mod run;
mod shutdown;
mod telemetry;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::telemetry::LogFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match execute(cli) {
        Ok(code) => code,
        Err(error) => {
            // Standard error may be closed; there is nowhere left to say so.
            let message = explain(error.as_ref());
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("hark: {message}\n"));
            ExitCode::FAILURE
        }
    }
}

fn execute(cli: Cli) -> anyhow::Result<ExitCode> {
    let log = cli.log.as_deref();
    match cli.command {
        Command::Run(args) => run_host(log, args.common.config.clone(), |config| run::run(args, config))?,
        Command::Dev(args) => run_host(log, args.common.config.clone(), |config| dev::dev(args, config))?,
        Command::DeadLetters(args) => dead_letters::command::run(args)?,
        Command::CompileArtefact(args) => {
            return Ok(hark_sandbox::compile_for_parent(args.mode, args.parent));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a command that runs plugins, with the configuration file named.
fn run_host<F: Future<Output = anyhow::Result<()>>>(
    log: Option<&str>,
    named: Option<PathBuf>,
    command: impl FnOnce(host::ConfigFile) -> F,
) -> anyhow::Result<()> {
    let config = host::ConfigFile::find(named)?;
    telemetry::init(log.or(config.current().host.log.as_ref().map(LogFilter::as_str)))?;
    descriptors::raise_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(command(config));
    // Plugin threads that outlived their budget, and compilations under way, are not waited for.
    runtime.shutdown_background();
    done
}

/// An error with its causes, each told once: some messages name their cause already.
fn explain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = error.source();
    }
    message
}
