//! The `hark` binary: parse, set up logging, run the command, turn an error into an exit code.
//!
//! The only place where errors lose their types. Exit codes: 0 done, 1 failed, 2 wrong usage (clap's), 130
//! aborted by a second signal.

// They block for as long as standard output and error do, and panic when these fail.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod admin;
mod artefacts;
mod aside;
mod cli;
mod config;
mod core_dumps;
mod dead_letters;
mod descriptors;
mod dev;
mod folder;
mod host;
mod kept;
mod lines;
mod output;
mod plugins;
mod run;
mod shutdown;
mod state_folder;
mod telemetry;
mod timestamp;
mod timings;
mod watching;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;

use crate::cli::{Cli, Command, CommonArgs};
use crate::output::Output;
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
        Command::Run(args) => {
            let common = args.common.clone();
            run_host(log, &common, false, |config, output| run::run(args, config, output))
        }
        Command::Dev(args) => {
            let (common, files) = (args.common.clone(), descriptors::limit());
            run_host(log, &common, true, |config, output| dev::dev(args, files, config, output))
        }
        Command::DeadLetters(args) => dead_letters::command::run(args).map(|()| ExitCode::SUCCESS),
        Command::RunBuild(args) => Ok(dev::guard::run(&args)),
        Command::CompileArtefact(args) => Ok(hark_sandbox::compile_for_parent(args.mode, args.parent)),
    }
}

/// Runs a command that runs plugins, with or without a screen.
fn run_host<F: Future<Output = anyhow::Result<()>>>(
    filter: Option<&str>,
    common: &CommonArgs,
    screen: bool,
    command: impl FnOnce(host::ConfigFile, Arc<Output>) -> F,
) -> anyhow::Result<ExitCode> {
    let config = host::ConfigFile::find(common.config.clone())?;
    let log = telemetry::open().context("cannot start the log's thread")?;
    let configured = config.current().host.log.as_ref().map(LogFilter::as_str);
    telemetry::init(filter.or(configured), &log)?;
    let output = Arc::new(Output::new(screen, common.trace.as_deref(), log)?);
    descriptors::raise_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(command(config, output.clone()));
    // Plugin threads that outlived their budget, and compilations under way, are not waited for.
    runtime.shutdown_background();
    if let Err(error) = &done {
        output.fail(&explain(error.as_ref()));
    }
    output.flush(telemetry::FLUSH);
    Ok(if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
