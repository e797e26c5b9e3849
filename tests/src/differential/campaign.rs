//! Plays many scripts at once, and reports.
//!
//! Used by the suite and by the large run. Invariant: every script that was asked for is played and counted; a
//! failing one is played again, shrunk if it fails again, and reported as it can be played again.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use super::client_go::{self, Process, Queue};
use super::generate;
use super::play::{Rivals, Verdict, play};
use super::rules::Tally;
use super::script::Script;
use super::shrink::shrink;

/// Failing scripts that are shrunk; further ones are only counted.
const SHRUNK: usize = 3;

/// How long a script is shrunk at most.
const PATIENCE: Duration = Duration::from_secs(240);

/// What to play.
#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    /// How many scripts.
    pub scripts: u64,
    /// The first one's seed; the others' follow.
    pub seed: u64,
    /// How many at a time.
    pub at_once: usize,
    /// Failures in a script at most that make clients wait for seconds.
    pub failures: usize,
}

/// How it came out.
#[derive(Debug, Default)]
pub struct Report {
    /// Scripts played.
    pub played: u64,
    /// Steps of all of them.
    pub steps: usize,
    /// Known deviations, for each of client-go's queues.
    pub tallies: Vec<(String, Tally)>,
    /// Failures, each with its script in JSON, the first few shrunk.
    pub failures: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// client-go's processes; none where they cannot be built, which was said.
///
/// # Errors
/// If they can be built but do not start.
pub async fn rivals() -> Result<Option<Arc<Rivals>>> {
    let mut rivals = Vec::new();
    for queue in [Queue::InOrder, Queue::Classic] {
        let built = tokio::task::spawn_blocking(move || client_go::ensure_built(queue)).await??;
        let Some(binary) = built else { return Ok(None) };
        rivals.push((queue, Arc::new(Process::start(&binary, queue)?)));
    }
    Ok(Some(rivals.into()))
}

impl Campaign {
    /// Plays the scripts; `progress` is told how it stands after each.
    ///
    /// # Errors
    /// If a task of the campaign's own fails.
    pub async fn run(&self, rivals: &Arc<Rivals>, progress: impl Fn(&Report)) -> Result<Report> {
        let seeds = self.seed..self.seed.saturating_add(self.scripts);
        play_all(seeds.map(|seed| generate::script(seed, self.failures)), self.at_once, rivals, progress)
            .await
    }
}

/// Plays scripts, so many at a time; `progress` is told how it stands after each.
///
/// # Errors
/// If a task of its own fails.
pub async fn play_all(
    scripts: impl IntoIterator<Item = Script>,
    at_once: usize,
    rivals: &Arc<Rivals>,
    progress: impl Fn(&Report),
) -> Result<Report> {
    let begun = Instant::now();
    let (mut report, mut failed) = (Report::default(), Vec::new());
    let mut running = JoinSet::new();
    let mut scripts = scripts.into_iter().enumerate();
    loop {
        while running.len() < at_once
            && let Some((number, script)) = scripts.next()
        {
            running.spawn(play_owned(script, number.to_string(), Arc::clone(rivals)));
        }
        let Some(played) = running.join_next().await else { break };
        let (script, verdict) = played.context("a script's task")?;
        report.played += 1;
        report.steps += script.steps.len();
        report.took = begun.elapsed();
        if let Some(failure) = report.count(verdict) {
            report.failures.push(tell(&script, &failure.text));
            failed.push((script, failure));
        }
        progress(&report);
    }
    for (place, (script, failure)) in failed.iter().take(SHRUNK).enumerate() {
        report.failures[place] = explain(script, failure, rivals).await;
    }
    report.took = begun.elapsed();
    Ok(report)
}

async fn play_owned(script: Script, name: String, rivals: Arc<Rivals>) -> (Script, Verdict) {
    let verdict = play(&script, &name, &rivals).await;
    (script, verdict)
}

/// How a script failed.
#[derive(Debug, Clone)]
struct Failure {
    /// The clients told different things, not just one of them something wrong.
    differs: bool,
    text: String,
}

/// A failure together with the smallest script that shows it.
async fn explain(script: &Script, failure: &Failure, rivals: &Rivals) -> String {
    let last = RefCell::new(None);
    let (tries, begun) = (Cell::new(0), Instant::now());
    let fails = async |script: &Script| {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        tries.set(tries.get() + 1);
        let name = format!("{} shrinking {}", script.seed, tries.get());
        let again = Report::default().count(play(script, &name, rivals).await);
        let again = again.filter(|again| again.differs == failure.differs);
        let failed = again.is_some();
        if failed {
            *last.borrow_mut() = again;
        }
        failed
    };
    if !fails(script).await {
        return format!("{}\n  (it did not fail when it was played again)", tell(script, &failure.text));
    }
    let small = shrink(script, fails).await;
    let failure = last.borrow_mut().take().unwrap_or_else(|| failure.clone());
    format!("{}\nwhole script: {}", tell(&small, &failure.text), json(script))
}

fn tell(script: &Script, failure: &str) -> String {
    format!("seed {}: {failure}\nscript: {}", script.seed, json(script))
}

fn json(script: &Script) -> String {
    // Numbers, words and lists always have a JSON form.
    serde_json::to_string(script).unwrap_or_default()
}

impl Report {
    /// Counts a verdict; gives what failed.
    fn count(&mut self, verdict: Verdict) -> Option<Failure> {
        match verdict {
            Verdict::Agree(tallies) => {
                for (queue, tally) in tallies {
                    let name = format!("{queue:?}");
                    match self.tallies.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, sum)) => sum.add(&tally),
                        None => self.tallies.push((name, tally)),
                    }
                }
                None
            }
            Verdict::Differ(queue, difference) => {
                let text = format!("differs from client-go's {queue:?}: {difference}");
                Some(Failure { differs: true, text })
            }
            Verdict::Broken(error) => Some(Failure { differs: false, text: format!("{error:#}") }),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { played, steps, tallies, failures, took } = self;
        let seconds = took.as_secs();
        writeln!(f, "{played} scripts with {steps} steps in {seconds} s, {} failed", failures.len())?;
        for (queue, tally) in tallies {
            writeln!(f, "known deviations from {queue}: {tally}")?;
        }
        for failure in failures {
            writeln!(f, "\nFAILED {failure}")?;
        }
        Ok(())
    }
}
