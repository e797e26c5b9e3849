//! What an idle plugin costs: memory, threads, descriptors, mappings and wake-ups of the built binary with 1, 100 and
//! 1,000 copies of a small plugin. Started by `cargo xtask idle`, which passes its arguments on.
//!
//! Two kinds of folder are measured: copies of one file, and files that differ in a few bytes; and two states: before
//! the first event (there is no instance yet), and after each plugin has handled some.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hark_tests::guests::fixture;
use hark_tests::hark::{Setup, TraceTo};
use hark_tests::measure::binary::Binary;
use hark_tests::measure::process::Usage;
use hark_tests::measure::stamp::stamped;
use hark_tests::measure::subject::Subject;
use hark_tests::measure::table::Table;
use serde_json::json;

const USAGE: &str = "arguments: [--plugins 1,100,1000] [--objects 10] [--seconds 10] [--hark FILE]";

const HEAD: [&str; 13] = [
    "plugins",
    "files",
    "state",
    "RSS KiB",
    "anon KiB",
    "PSS KiB",
    "tables KiB",
    "VSZ MiB",
    "threads",
    "fds",
    "maps",
    "CPU ms/s",
    "wake-ups/s",
];

/// What was asked for.
struct Asked {
    plugins: Vec<u64>,
    /// ConfigMaps that each plugin is told of.
    objects: u64,
    /// How long an idle host is watched.
    watch: Duration,
    hark: Option<PathBuf>,
}

/// Whether the files are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    Alike,
    Different,
}

/// What one state of a host came to.
struct Measured {
    plugins: u64,
    files: Files,
    state: &'static str,
    usage: Usage,
    /// CPU milliseconds a second, and switches a second.
    idle: (f64, f64),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let asked = parse(std::env::args().skip(1))?;
    let binary = Binary::choose(asked.hark.as_deref())?;
    eprintln!("measuring {} ({binary})", binary.path.display());
    let mut measured = Vec::new();
    for files in [Files::Alike, Files::Different] {
        for &plugins in &asked.plugins {
            measured.extend(measure(&asked, &binary, plugins, files).await?);
        }
    }
    let mut out = std::io::stdout();
    writeln!(out, "{binary}\n\n{}\nA plugin more costs:\n\n{}", whole(&measured), each(&measured))?;
    Ok(())
}

/// Both states of one host.
async fn measure(asked: &Asked, binary: &Binary, plugins: u64, files: Files) -> Result<[Measured; 2]> {
    let content = std::fs::read(fixture("counter-v1"))?;
    let mut setup = Setup::new()?
        .program(&binary.path)
        .trace_to(TraceTo::Nowhere)
        .arguments(&["--log", "warn,hark::output=info"]);
    for number in 0..plugins {
        let content = match files {
            Files::Alike => content.clone(),
            Files::Different => stamped(&content, number),
        };
        setup = setup.content(&format!("counter-{number:04}"), &content)?;
    }
    let server = Subject::server(4096).await?;
    let begun = Instant::now();
    let mut subject = Subject::start(setup, server).await?;
    subject.reaches("hark_listener_synced", &[], plugins as f64).await?;
    let (started, cpu) = (begun.elapsed(), subject.activity()?.cpu());
    eprintln!("{plugins} plugins ({files:?}) started after {started:.1?}, {cpu:.1?} of CPU");
    let before = observe(asked, &subject, plugins, files, "no event yet").await?;
    for number in 0..asked.objects {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{number}")}});
        subject.server.create(object)?;
    }
    let events = (plugins * asked.objects) as f64;
    let took = subject.reaches("hark_listener_deliveries_total", &[("outcome", "ok")], events).await?;
    eprintln!("  {events} events handled after {took:.1?}");
    let after = observe(asked, &subject, plugins, files, "has handled").await?;
    let scrape = subject.scrape().await?;
    let watches = scrape.sum("hark_informer_watches_total", &[]);
    ensure!(watches == Some(1.0), "all plugins ask for the same, but there were {watches:?} watches");
    subject.stop().await?;
    Ok([before, after])
}

/// A host that is left alone for a while.
async fn observe(
    asked: &Asked,
    subject: &Subject,
    plugins: u64,
    files: Files,
    state: &'static str,
) -> Result<Measured> {
    // What the scrapes and the last events left behind comes to rest, and threads that compiled end (after 10 s).
    tokio::time::sleep(Duration::from_secs(12)).await;
    let (begun, before) = (Instant::now(), subject.activity()?);
    tokio::time::sleep(asked.watch).await;
    let (cpu, switches) = subject.activity()?.since(&before);
    let seconds = begun.elapsed().as_secs_f64();
    let idle = (cpu.as_secs_f64() * 1000.0 / seconds, switches as f64 / seconds);
    Ok(Measured { plugins, files, state, usage: subject.usage()?, idle })
}

/// All that was measured.
fn whole(measured: &[Measured]) -> Table {
    let mut table = Table::new(&HEAD);
    for Measured { plugins, files, state, usage, idle } in measured {
        let numbers = [
            usage.resident,
            usage.anonymous,
            usage.proportional,
            usage.page_tables,
            usage.address_space >> 10,
            usage.threads,
            usage.descriptors,
            usage.mappings,
        ];
        let mut row = vec![plugins.to_string(), named(*files).to_owned(), (*state).to_owned()];
        row.extend(numbers.map(|number| number.to_string()));
        row.extend([format!("{:.2}", idle.0), format!("{:.1}", idle.1)]);
        table.row(row);
    }
    table
}

/// What one plugin more costs: against the smallest number of the same kind.
fn each(measured: &[Measured]) -> Table {
    let mut table = Table::new(&HEAD);
    for one in measured {
        let least = measured.iter().filter(|other| (other.files, other.state) == (one.files, one.state));
        let Some(least) = least.min_by_key(|other| other.plugins).filter(|least| least.plugins < one.plugins)
        else {
            continue;
        };
        let more = (one.plugins - least.plugins) as f64;
        let cost = |of: fn(&Usage) -> u64| (of(&one.usage) as f64 - of(&least.usage) as f64) / more;
        let memory = [
            cost(|usage| usage.resident),
            cost(|usage| usage.anonymous),
            cost(|usage| usage.proportional),
            cost(|usage| usage.page_tables),
            cost(|usage| usage.address_space) / 1024.0,
        ];
        let counts =
            [cost(|usage| usage.threads), cost(|usage| usage.descriptors), cost(|usage| usage.mappings)];
        let mut row = vec![one.plugins.to_string(), named(one.files).to_owned(), one.state.to_owned()];
        row.extend(memory.map(|number| format!("{number:.1}")));
        row.extend(counts.map(|number| format!("{number:.2}")));
        let idle = ((one.idle.0 - least.idle.0) / more, (one.idle.1 - least.idle.1) / more);
        row.extend([format!("{:.4}", idle.0), format!("{:.3}", idle.1)]);
        table.row(row);
    }
    table
}

fn named(files: Files) -> &'static str {
    match files {
        Files::Alike => "alike",
        Files::Different => "different",
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Asked> {
    let mut asked =
        Asked { plugins: vec![1, 100, 1000], objects: 10, watch: Duration::from_secs(10), hark: None };
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} has no value; {USAGE}"))?;
        let number = |text: &str| {
            text.trim().parse::<u64>().with_context(|| format!("{argument} {value}: a number is wanted"))
        };
        match argument.as_str() {
            "--plugins" => asked.plugins = value.split(',').map(number).collect::<Result<_>>()?,
            "--objects" => asked.objects = number(&value)?,
            "--seconds" => asked.watch = Duration::from_secs(number(&value)?.max(1)),
            "--hark" => asked.hark = Some(PathBuf::from(value)),
            _ => bail!("unknown argument {argument}; {USAGE}"),
        }
    }
    Ok(asked)
}
