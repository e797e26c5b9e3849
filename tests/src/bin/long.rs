//! The long run: 1,000,000 changes and 1,000 reloads, with a trap every 1,000 events. Started by `cargo xtask long`,
//! which passes its arguments on. What is counted and what must hold is in [`hark_tests::long`].
//!
//! Invariant: exits 0 if and only if nothing was lost, nothing came twice, and what the process held was flat.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use hark_tests::long::run::{Asked, run};
use hark_tests::measure::binary::Binary;

const USAGE: &str =
    "arguments: [--events 1000000] [--reloads 1000] [--objects 1000] [--seed 1] [--hark FILE]";

#[tokio::main]
async fn main() -> ExitCode {
    match all().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn all() -> Result<()> {
    let (asked, hark) = parse(std::env::args().skip(1))?;
    let binary = Binary::choose(hark.as_deref())?;
    eprintln!("{} changes, {} reloads of {} ({binary})", asked.events, asked.reloads, binary.path.display());
    let account = run(&asked, &binary.path).await?;
    writeln!(std::io::stdout(), "{account}\nnothing was lost")?;
    Ok(())
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<(Asked, Option<PathBuf>)> {
    let mut asked = Asked { events: 1_000_000, reloads: 1000, objects: 1000, seed: 1 };
    let mut hark = None;
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} has no value; {USAGE}"))?;
        let number =
            || value.parse::<u64>().with_context(|| format!("{argument} {value}: a number is wanted"));
        match argument.as_str() {
            "--events" => asked.events = number()?,
            "--reloads" => asked.reloads = number()?,
            "--objects" => asked.objects = usize::try_from(number()?)?,
            "--seed" => asked.seed = number()?,
            "--hark" => hark = Some(PathBuf::from(value)),
            _ => bail!("unknown argument {argument}; {USAGE}"),
        }
    }
    Ok((asked, hark))
}
