//! The long run: 1,000,000 changes and 1,000 reloads, with a trap every 1,000 events. Started by `cargo xtask long`,
//! which passes its arguments on. What is counted and what must hold is in [`hark_tests::long`].
//!
//! Invariant: exits 0 if and only if nothing was lost, nothing came twice, and what the process held was flat.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hark_tests::guests::fixture;
use hark_tests::hark::{Setup, TraceTo};
use hark_tests::long::books::Books;
use hark_tests::long::reloads::Reloads;
use hark_tests::long::samples::{Sample, Samples};
use hark_tests::long::writer::Writer;
use hark_tests::long::{CAST, Progress};
use hark_tests::measure::binary::Binary;
use hark_tests::measure::process::Usage;
use hark_tests::measure::subject::Subject;
use hark_tests::prometheus::Scrape;
use tokio::sync::{mpsc, oneshot};

const USAGE: &str =
    "arguments: [--events 1000000] [--reloads 1000] [--objects 1000] [--seed 1] [--hark FILE]";

/// How far the writer may be ahead of the slowest plugin, in changes: well below the bound of a queue (10,000), so that
/// merging is what a retry brings about, and not a queue that is full.
const AHEAD: u64 = 2000;

/// Changes between two looks at how far the plugins are.
const BATCH: u64 = 50;

/// Reloads that may wait: the writer goes no further ahead of them.
const RELOADS_AHEAD: usize = 2;

/// Between two samples.
const SAMPLE: Duration = Duration::from_millis(250);

/// How often a run tells how far it is.
const PROGRESS: Duration = Duration::from_secs(30);

/// The longest that anything may stand still.
const PATIENCE: Duration = Duration::from_secs(120);

/// What was asked for.
struct Asked {
    events: u64,
    reloads: u64,
    objects: usize,
    seed: u64,
    hark: Option<PathBuf>,
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
    eprintln!("{} changes, {} reloads of {} ({binary})", asked.events, asked.reloads, binary.path.display());
    let mut subject = start(&binary).await?;
    let books = Books::new(&CAST);
    let trace = subject.hark.take_pipe().context("no trace")?;
    let keeping = tokio::spawn(books.clone().keep(trace));
    subject.reaches("hark_listener_synced", &[], CAST.len() as f64).await?;
    let progress = Arc::new(Progress::default());
    let (stop, stopped) = oneshot::channel();
    let sampling = tokio::spawn(sample(subject.hark.pid(), progress.clone(), stopped));
    let begun = Instant::now();
    let (writer, reloads) = drive(&asked, &subject, &books, &progress).await?;
    settle(&books, &writer).await?;
    let took = begun.elapsed();
    drop(stop);
    let samples = sampling.await??;
    let scrape = subject.scrape().await?;
    subject.stop().await?;
    keeping.await??;
    report(took, &writer, &reloads, &books, &samples, &scrape)
}

async fn start(binary: &Binary) -> Result<Subject> {
    let config = CAST.iter().map(|one| {
        let mode = if one.replays { "replay" } else { "continue" };
        format!("[plugins.{}]\non_reload = \"{mode}\"\n", one.name)
    });
    let mut setup = Setup::new()?
        .program(&binary.path)
        .config(&config.collect::<String>())?
        .trace_to(TraceTo::Pipe)
        .arguments(&["--log", "warn,hark::output=info"]);
    for one in &CAST {
        setup = setup.plugin(one.name, &fixture(one.fixture))?;
    }
    Subject::start(setup, Subject::server(1 << 16).await?).await
}

/// Makes all changes, and all reloads between them.
async fn drive(
    asked: &Asked,
    subject: &Subject,
    books: &Books,
    progress: &Arc<Progress>,
) -> Result<(Writer, Reloads)> {
    let (ask, asks) = mpsc::channel(RELOADS_AHEAD);
    let reloading = Reloads::new(&subject.hark, subject.admin, progress.clone())?;
    let reloading = tokio::spawn(reloading.run(asks));
    let mut writer = Writer::new(asked.objects, asked.seed);
    let (mut told, mut due) = (Instant::now(), 0);
    while writer.written < asked.events {
        for _ in 0..BATCH.min(asked.events - writer.written) {
            writer.change(&subject.server)?;
        }
        progress.written.store(writer.written, Ordering::Relaxed);
        while due < asked.reloads && writer.written * (asked.reloads + 1) >= asked.events * (due + 1) {
            // The task ends early only with an error, which is told below.
            if ask.send(()).await.is_err() {
                break;
            }
            due += 1;
        }
        if reloading.is_finished() {
            break;
        }
        follow(books, &writer).await?;
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            eprintln!("{} changes, {} reloads", writer.written, progress.reloads.load(Ordering::Relaxed));
        }
    }
    drop(ask);
    let reloads = reloading.await??;
    Ok((writer, reloads))
}

/// Waits until the plugins are near enough.
async fn follow(books: &Books, writer: &Writer) -> Result<()> {
    let begun = Instant::now();
    while books.newest() + AHEAD < writer.newest {
        ensure!(begun.elapsed() < PATIENCE, "the plugins stand still: {:?}", faults(books, writer));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Waits until every plugin has been told everything.
async fn settle(books: &Books, writer: &Writer) -> Result<()> {
    let begun = Instant::now();
    while !books.are_even_with(writer.view()) {
        if begun.elapsed() >= PATIENCE {
            bail!("not everything was told:\n{}", faults(books, writer).join("\n"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// The first faults.
fn faults(books: &Books, writer: &Writer) -> Vec<String> {
    let mut faults = books.faults(writer.view());
    let more = faults.len().saturating_sub(40);
    faults.truncate(40);
    if more > 0 {
        faults.push(format!("and {more} more"));
    }
    faults
}

/// Looks at the process until the other end of `stop` is gone.
async fn sample(pid: u32, progress: Arc<Progress>, mut stop: oneshot::Receiver<()>) -> Result<Samples> {
    let begun = Instant::now();
    let mut samples = Samples::default();
    let mut clock = tokio::time::interval(SAMPLE);
    loop {
        tokio::select! {
            _ = clock.tick() => {}
            _ = &mut stop => return Ok(samples),
        }
        samples.0.push(Sample {
            at: begun.elapsed(),
            written: progress.written.load(Ordering::Relaxed),
            reloads: progress.reloads.load(Ordering::Relaxed),
            usage: Usage::read(pid)?,
        });
    }
}

/// Prints all that was counted; an error if anything is wrong.
fn report(
    took: Duration,
    writer: &Writer,
    reloads: &Reloads,
    books: &Books,
    samples: &Samples,
    scrape: &Scrape,
) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{}\n{} changes in {took:.0?}, {reloads}", samples.table(), writer.written)?;
    let (accounts, mut wrong) = accounts(writer, books, scrape)?;
    writeln!(out, "{}", accounts.join("\n"))?;
    match samples.check() {
        Ok(flat) => writeln!(out, "flat:\n  {}", flat.join("\n  "))?,
        Err(error) => wrong.push(error.to_string()),
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    writeln!(out, "nothing was lost")?;
    Ok(())
}

/// What each plugin was told, and what is wrong with that.
fn accounts(writer: &Writer, books: &Books, scrape: &Scrape) -> Result<(Vec<String>, Vec<String>)> {
    let (mut accounts, mut wrong) = (Vec::new(), faults(books, writer));
    for (one, (done, traps, versions)) in
        books.each(|one, ledger| (*one, (ledger.done, ledger.traps, ledger.generation)))
    {
        let merged = scrape.get("hark_listener_merged_total", &[("plugin", one.name)]);
        let merged = merged.context("hark_listener_merged_total is missing")? as u64;
        accounts.push(format!(
            "{}: {done} events, {merged} merged, {traps} traps, {versions} versions",
            one.name
        ));
        // A merge hides one change; an add and its delete that annihilate each other are two, and count as one merge.
        let hidden = writer.written.saturating_sub(done);
        if !one.replays && !(merged..=2 * merged).contains(&hidden) {
            wrong.push(format!("{}: {merged} merges do not explain {hidden} changes not told", one.name));
        }
    }
    for metric in ["hark_listener_dead_letters_total", "hark_listener_dropped_total"] {
        let count = scrape.sum(metric, &[]).with_context(|| format!("{metric} is missing"))?;
        if count > 0.0 {
            wrong.push(format!("{metric} is {count}"));
        }
    }
    Ok((accounts, wrong))
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Asked> {
    let mut asked = Asked { events: 1_000_000, reloads: 1000, objects: 1000, seed: 1, hark: None };
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} has no value; {USAGE}"))?;
        let number =
            || value.parse::<u64>().with_context(|| format!("{argument} {value}: a number is wanted"));
        match argument.as_str() {
            "--events" => asked.events = number()?,
            "--reloads" => asked.reloads = number()?,
            "--objects" => asked.objects = usize::try_from(number()?)?,
            "--seed" => asked.seed = number()?,
            "--hark" => asked.hark = Some(PathBuf::from(value)),
            _ => bail!("unknown argument {argument}; {USAGE}"),
        }
    }
    Ok(asked)
}
