//! The large run of the differential suite, see [`hark_tests::differential`]. Started by `cargo xtask
//! differential`, which passes its arguments on.
//!
//! Invariant: exits 0 if and only if every script agreed.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hark_tests::differential::{Campaign, Report, Script, play_all, rivals};

const USAGE: &str = "arguments: [--scripts N] [--seed N] [--at-once N] [--failures N], or --script FILE (- is standard input)";

/// How often a run tells how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(15);

/// What was asked for.
enum Asked {
    Campaign(Campaign),
    Script(String),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<bool> {
    let asked = parse(std::env::args().skip(1))?;
    let Some(rivals) = rivals().await? else { bail!("there is no client-go to compare with") };
    let report = match asked {
        Asked::Campaign(campaign) => campaign.run(&rivals, progress(campaign.scripts)).await?,
        Asked::Script(file) => play_all([read(&file)?], 1, &rivals, |_| {}).await?,
    };
    write!(std::io::stdout(), "{report}")?;
    Ok(report.failures.is_empty())
}

/// Says now and then how many scripts are through, and at once what failed.
fn progress(of: u64) -> impl Fn(&Report) {
    let last = std::cell::Cell::new(Instant::now());
    let told = std::cell::Cell::new(0);
    move |report| {
        for failure in &report.failures[told.replace(report.failures.len())..] {
            eprintln!("FAILED {failure}");
        }
        if last.get().elapsed() >= PROGRESS_EVERY {
            last.set(Instant::now());
            eprintln!("{} of {of} scripts after {} s", report.played, report.took.as_secs());
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Asked> {
    let mut campaign = Campaign { scripts: 1000, seed: 1, at_once: 300, failures: 4 };
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} has no value; {USAGE}"))?;
        let number =
            || value.parse::<u64>().with_context(|| format!("{argument} {value}: a number is wanted"));
        match argument.as_str() {
            "--scripts" => campaign.scripts = number()?,
            "--seed" => campaign.seed = number()?,
            "--at-once" => campaign.at_once = usize::try_from(number()?)?.max(1),
            "--failures" => campaign.failures = usize::try_from(number()?)?,
            "--script" => return Ok(Asked::Script(value)),
            _ => bail!("unknown argument {argument}; {USAGE}"),
        }
    }
    Ok(Asked::Campaign(campaign))
}

fn read(file: &str) -> Result<Script> {
    let text = match file {
        "-" => std::io::read_to_string(std::io::stdin())?,
        file => std::fs::read_to_string(file).with_context(|| format!("reading {file}"))?,
    };
    serde_json::from_str(&text).with_context(|| format!("{file} is no script"))
}
