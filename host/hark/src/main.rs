//! The `hark` binary: parse, set up logging, run the command, turn an error into an exit code.
//!
//! The only place where errors lose their types. Exit codes: 0 done, 1 failed, 2 wrong usage (clap's), 130
//! aborted by a second signal.

mod admin;
mod cli;
mod config;
mod dev;
mod folder;
mod host;
mod output;
mod plugins;
mod run;
mod shutdown;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match execute(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; there is nowhere left to say so.
            let message = explain(error.as_ref());
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("hark: {message}\n"));
            ExitCode::FAILURE
        }
    }
}

fn execute(cli: Cli) -> anyhow::Result<()> {
    let common = cli.command.common();
    let config = host::ConfigFile::find(common.config.clone())?;
    telemetry::init(cli.log.as_deref().or(config.current().host.log.as_deref()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        match cli.command {
            Command::Run(args) => run::run(args, config).await,
            Command::Dev(args) => dev::dev(args, config).await,
        }
    });
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
