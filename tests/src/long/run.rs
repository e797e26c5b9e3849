//! A run of the long suite: changes, traps and reloads, and the account of it.
//!
//! Used by the binary behind `cargo xtask long`, and by a test that is a short one. Invariant: it ends well if and only if
//! nothing was lost, nothing came twice, and what the process held was flat.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::books::Books;
use super::reloads::{Reloads, Took};
use super::samples::{Sample, Samples};
use super::writer::Writer;
use super::{CAST, Progress};
use crate::guests::fixture;
use crate::hark::{Setup, TraceTo};
use crate::measure::process::Usage;
use crate::measure::subject::Subject;
use crate::prometheus::Scrape;
use crate::reloads::config::{ConfigFile, Treatment};

/// How far the writer may be ahead of the slowest plugin, in changes: well below the bound of a queue (10,000), so that
/// merging is what a retry brings about, and not a queue that is full.
const AHEAD: u64 = 2000;

/// Changes between two looks at how far the plugins are.
const BATCH: u64 = 50;

/// Reloads of a plugin that may wait: the writer goes no further ahead of them.
const RELOADS_AHEAD: usize = 1;

/// Between two samples.
const SAMPLE: Duration = Duration::from_millis(250);

/// How often a run tells how far it is.
const PROGRESS: Duration = Duration::from_secs(30);

/// The longest that anything may stand still.
const PATIENCE: Duration = Duration::from_secs(120);

/// How large a run is.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Changes of objects.
    pub events: u64,
    /// Reloads, of all plugins together.
    pub reloads: u64,
    /// Objects.
    pub objects: usize,
    /// Which changes.
    pub seed: u64,
}

/// Makes a run with this binary; gives the account of it.
///
/// # Errors
/// Whatever is wrong with it, with its account.
pub async fn run(asked: &Asked, hark: &Path) -> Result<String> {
    let (mut subject, config) = start(hark).await?;
    let books = Books::new(&CAST);
    let trace = subject.hark.take_pipe().context("no trace")?;
    let keeping = tokio::spawn(books.clone().keep(trace));
    subject.reaches("hark_listener_synced", &[], CAST.len() as f64).await?;
    let progress = Arc::new(Progress::default());
    let (stop, stopped) = oneshot::channel();
    let sampling = tokio::spawn(sample(subject.hark.pid(), progress.clone(), stopped));
    let begun = Instant::now();
    let (writer, reloads) = drive(asked, &subject, config, &books, &progress).await?;
    settle(&books, &writer).await?;
    let took = begun.elapsed();
    drop(stop);
    let samples = sampling.await??;
    let scrape = subject.scrape().await?;
    subject.stop().await?;
    keeping.await??;
    report(took, &writer, &reloads, &books, &samples, &scrape)
}

/// A host with everybody in it, and its `hark.toml`.
async fn start(hark: &Path) -> Result<(Subject, ConfigFile)> {
    let mut setup =
        Setup::new()?.program(hark).trace_to(TraceTo::Pipe).arguments(&["--log", "warn,hark::output=info"]);
    let mut config = ConfigFile::new(setup.folder().join("hark.toml"));
    for one in &CAST {
        config.write(one.name, Treatment { replays: Some(one.replays), ..Treatment::default() }, true)?;
        setup = setup.plugin(one.name, &fixture(one.fixture))?;
    }
    Ok((Subject::start(setup, Subject::server(1 << 16).await?).await?, config))
}

/// One who makes a plugin's reloads, and how to ask for them.
struct Reloading {
    ask: mpsc::Sender<()>,
    task: JoinHandle<Result<Vec<Duration>>>,
}

fn reloading(subject: &Subject, config: ConfigFile, progress: &Arc<Progress>) -> Result<Vec<Reloading>> {
    let config = Arc::new(Mutex::new(config));
    let begin = |one| {
        let (ask, asks) = mpsc::channel(RELOADS_AHEAD);
        let reloads = Reloads::new(&subject.hark, subject.admin, one, config.clone(), progress.clone())?;
        Ok(Reloading { ask, task: tokio::spawn(reloads.run(asks)) })
    };
    CAST.into_iter().map(begin).collect()
}

/// Makes all changes, and all reloads between them.
async fn drive(
    asked: &Asked,
    subject: &Subject,
    config: ConfigFile,
    books: &Books,
    progress: &Arc<Progress>,
) -> Result<(Writer, Took)> {
    let reloading = reloading(subject, config, progress)?;
    let mut writer = Writer::new(asked.objects, asked.seed);
    let (mut told, mut due) = (Instant::now(), 0);
    while writer.written < asked.events {
        for _ in 0..BATCH.min(asked.events - writer.written) {
            writer.change(&subject.server)?;
        }
        progress.written.store(writer.written, Ordering::Relaxed);
        while due < asked.reloads && writer.written * (asked.reloads + 1) >= asked.events * (due + 1) {
            let next = &reloading[usize::try_from(due)? % reloading.len()];
            // The task ends early only with an error, which is told below.
            if next.ask.send(()).await.is_err() {
                break;
            }
            due += 1;
        }
        if reloading.iter().any(|one| one.task.is_finished()) {
            break;
        }
        follow(books, &writer).await?;
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            eprintln!("{} changes, {} reloads", writer.written, progress.reloads.load(Ordering::Relaxed));
        }
    }
    let mut took = Took::default();
    for Reloading { ask, task } in reloading {
        drop(ask);
        took.add(task.await??);
    }
    Ok((writer, took))
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

/// All that was counted; an error if anything is wrong.
fn report(
    took: Duration,
    writer: &Writer,
    reloads: &Took,
    books: &Books,
    samples: &Samples,
    scrape: &Scrape,
) -> Result<String> {
    let (accounts, mut wrong) = accounts(writer, books, scrape)?;
    let flat = match samples.check() {
        Ok(flat) => format!("flat:\n  {}", flat.join("\n  ")),
        Err(error) => {
            wrong.push(error.to_string());
            "not flat".to_owned()
        }
    };
    let (table, written, accounts) = (samples.table(), writer.written, accounts.join("\n"));
    let account = format!("{table}\n{written} changes in {took:.0?}, {reloads}\n{accounts}\n{flat}");
    ensure!(wrong.is_empty(), "{account}\n{}", wrong.join("\n"));
    Ok(account)
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
