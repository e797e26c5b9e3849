//! A whole run: a server, those who change its objects, a Hark, those who change its plugins, and the judgement.
//!
//! Used by the suite in `tests/tests/reloads`. Invariant: what goes wrong is told with the seed, the steps that led to it,
//! and what Hark said.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use tokio::sync::{Mutex as Turn, watch};

use super::actor::{Actor, Outcome};
use super::chance;
use super::config::ConfigFile;
use super::history::Place;
use super::model::{Judged, Records, judge};
use super::news::Log;
use super::plan::Fixtures;
use super::sight::is_in_reach;
use super::stage::Stage;
use super::status::{self, Answer};
use super::stream::Stream;
use crate::cluster::Cluster;
use crate::guests::fixture;
use crate::hark::{Hark, Setup};
use crate::tail::Tail;
use crate::trace::Line;

/// The longest that the last events may take.
const LIMIT: Duration = Duration::from_secs(90);

/// Plugins, each with an actor of its own.
const PLUGINS: u64 = 5;

/// In so many steps something is rolled back.
const MANY: usize = 100;

/// Lines that are shown of what went wrong.
const SHOWN: usize = 30;

/// What a run came to.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    /// Changes of objects.
    pub changes: usize,
    /// What was judged.
    pub judged: Judged,
}

/// So many steps against a server.
///
/// # Errors
/// Whatever is wrong, with all that helps to understand it.
pub async fn run(cluster: &mut Cluster, seed: u64, steps: usize) -> Result<Report> {
    let setup = Setup::new()?;
    let mut config = ConfigFile::new(setup.folder().join("hark.toml"));
    for number in 0..PLUGINS {
        for name in names(number) {
            config.write(&name, chance::treatment_at_first(own_seed(seed, number)), true)?;
        }
    }
    let mut hark = setup.run(cluster.kubeconfig())?;
    let stage = Arc::new(stage(&hark, config)?);
    let stream = Stream::start(cluster.client(), seed).await?;
    let books = stream.books().clone();
    let judged = act(&mut hark, &stage, stream, seed, steps).await;
    let changes = books.open().len();
    keep(&hark, &stage)?;
    let judged = judged.with_context(|| told(&stage, seed, changes))?;
    Ok(Report { changes, judged })
}

/// Of the plugin of one actor, and what it is called after it was renamed.
fn names(number: u64) -> [String; 2] {
    [format!("plugin-{number}"), format!("plugin-{number}-renamed")]
}

/// Of one actor.
fn own_seed(seed: u64, number: u64) -> u64 {
    seed.wrapping_mul(1000).wrapping_add(number)
}

fn stage(hark: &Hark, config: ConfigFile) -> Result<Stage> {
    Ok(Stage {
        folder: hark.folder().join("plugins"),
        fixtures: Fixtures {
            plain: std::fs::read(fixture("planned"))?,
            stateful: std::fs::read(fixture("planned-stateful"))?,
        },
        other_world: std::fs::read(fixture("other-world"))?,
        config: Turn::new(config),
        records: Mutex::new(Records::default()),
        diary: Mutex::new(Vec::new()),
        log: Mutex::new(Log::new(&hark.folder().join("stderr"))),
        builds: AtomicU32::new(1),
        steps: AtomicUsize::new(0),
    })
}

/// Acts, waits for the last event, ends Hark, and judges.
async fn act(hark: &mut Hark, stage: &Arc<Stage>, stream: Stream, seed: u64, steps: usize) -> Result<Judged> {
    let books = stream.books().clone();
    let (tell, told) = watch::channel(Answer::default());
    let asking = tokio::spawn(status::ask(hark.admin().await, tell));
    let acting = (0..PLUGINS).map(|number| {
        let (stage, told) = (stage.clone(), told.clone());
        async move {
            let seed = own_seed(seed, number);
            let treatment = chance::treatment_at_first(seed);
            let actor = Actor::begin(stage, told, names(number), treatment, seed).await?;
            actor.act(steps).await
        }
    });
    let outcomes = try_join_all(acting).await.with_context(|| hark.state())?;
    let last = stream.stop().await?;
    let mut trace = Trace::new(hark);
    everybody_is_told(&mut trace, &outcomes, &last).await.with_context(|| hark.state())?;
    everybody_is_idle(told, &outcomes).await.with_context(|| hark.state())?;
    ensure!(hark.runs()?, "hark has ended\n{}", hark.state());
    asking.await??;
    hark.signal("TERM")?;
    ensure!(hark.ends().await?.success(), "hark ended badly\n{}", hark.state());
    trace.read()?;
    let log = stage.log()?;
    ensure!(log.alarms.is_empty(), "the log says:\n{}", log.alarms.join("\n"));
    for outcome in &outcomes {
        let said: usize = outcome.names.iter().filter_map(|name| log.refusals.get(name)).sum();
        let (names, refusals, lapses) = (&outcome.names, outcome.refusals, outcome.lapses);
        let want = refusals..=refusals + lapses;
        ensure!(want.contains(&said), "{names:?}: {want:?} files to refuse, and {said} refusals");
    }
    let (judged, faults) = judge(&books.open(), &stage.records(), &log.news, trace.lines)?;
    let shown: Vec<String> = faults.iter().take(SHOWN).cloned().collect();
    ensure!(faults.is_empty(), "{} faults:\n{}", faults.len(), shown.join("\n"));
    ensure!(judged.rollbacks > 0 || steps < MANY, "nothing was rolled back in {steps} steps");
    Ok(judged)
}

/// What helps to understand what went wrong.
fn told(stage: &Stage, seed: u64, changes: usize) -> String {
    let diary = stage.diary.lock().unwrap_or_else(PoisonError::into_inner);
    let last: Vec<String> = diary.iter().rev().take(SHOWN).rev().cloned().collect();
    format!(
        "HARK_SEED={seed}, after {changes} changes; the last steps (all: HARK_KEEP=FOLDER):\n{}",
        last.join("\n")
    )
}

/// The trace.
struct Trace {
    tail: Tail,
    lines: Vec<Line>,
}

impl Trace {
    fn new(hark: &Hark) -> Self {
        Self { tail: Tail::new(&hark.folder().join("trace.jsonl")), lines: Vec::new() }
    }

    /// Reads on.
    fn read(&mut self) -> Result<()> {
        for text in self.tail.lines()? {
            self.lines.push(serde_json::from_str(&text).with_context(|| text.clone())?);
        }
        Ok(())
    }
}

/// Waits until each subscription of what runs was told of the last objects.
async fn everybody_is_told(trace: &mut Trace, outcomes: &[Outcome], last: &[Place]) -> Result<()> {
    let mut missing = BTreeSet::new();
    for outcome in outcomes {
        for watch in &outcome.runs.watches {
            let places = last.iter().filter(|place| is_in_reach(watch, place));
            missing.extend(places.map(|place| (outcome.name.clone(), watch.name.clone(), place.key())));
        }
    }
    let begun = tokio::time::Instant::now();
    let mut at = 0;
    loop {
        trace.read()?;
        for line in trace.lines.iter().skip(at).filter(|line| line.outcome == "ok") {
            missing.remove(&(line.plugin.clone(), line.subscription.clone(), line.key.clone()));
        }
        at = trace.lines.len();
        if missing.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > LIMIT {
            bail!("never told: {missing:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until nothing waits.
async fn everybody_is_idle(mut told: watch::Receiver<Answer>, outcomes: &[Outcome]) -> Result<()> {
    let idle = |answer: &Answer, outcome: &Outcome| {
        let status = answer.plugins.get(&outcome.name);
        status.and_then(|status| status.queue).is_some_and(|queue| queue.is_idle())
    };
    let all = told.wait_for(|answer| outcomes.iter().all(|outcome| idle(answer, outcome)));
    tokio::time::timeout(LIMIT, all).await.context("something waits for ever")?.context("no answer")?;
    Ok(())
}

/// The seed that was asked for by `HARK_SEED`, if any.
///
/// # Errors
/// If it is no number.
pub fn asked_seed() -> Result<Option<u64>> {
    let asked = std::env::var("HARK_SEED").ok();
    asked.map(|seed| seed.parse().with_context(|| format!("HARK_SEED={seed} is no number"))).transpose()
}

/// Copies everything that is known of a run into the folder of `HARK_KEEP`, if there is one.
fn keep(hark: &Hark, stage: &Stage) -> Result<()> {
    let Some(folder) = std::env::var_os("HARK_KEEP").map(PathBuf::from) else { return Ok(()) };
    std::fs::create_dir_all(&folder)?;
    for name in ["trace.jsonl", "stderr"] {
        std::fs::copy(hark.folder().join(name), folder.join(name))?;
    }
    let diary = stage.diary.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::fs::write(folder.join("diary"), diary.join("\n"))?)
}
