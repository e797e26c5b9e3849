//! Every way in which a plugin's file changes, played with the built binary and real files.
//!
//! Used by the suite `ways`. A way is a function on the folder of a host that runs under a steady stream of changes
//! ([`stage`]); what it must lead to is said as it goes along, and held against the log, the admin port and the trace
//! in the end ([`verdict`]). Invariants: each way has a host and a server of its own; a few are played at a time, however
//! many there are; a pause is the subject of its way, never a wait for something.

pub mod build;
pub mod clock;
pub mod place;
pub mod slow;
pub mod stage;
pub mod tools;
pub mod verdict;

use std::fmt::Write;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Ways that are played at a time, in all tests of a process. Most of a way is pauses; the rest is shared by the cores.
static AT_ONCE: Semaphore = Semaphore::const_new(8);

/// How the host learns that something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// As it does by itself: the file system tells it.
    Events,
    /// It looks ten times a second, and nobody tells it.
    Polling,
}

impl Watch {
    /// The labels of `hark_plugins_folder_watch`: by what, and why.
    pub fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::Events => ("events", ""),
            Self::Polling => ("polling", "setting"),
        }
    }
}

/// Which way is played, and how.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// The way's.
    pub name: &'static str,
    /// How the host learns of it.
    pub watch: Watch,
}

/// A way's play.
pub type Play = Pin<Box<dyn Future<Output = Result<()>>>>;

/// A way of changing a plugin's file, or what leads to it.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// The function's name.
    pub name: &'static str,
    /// Plays it.
    pub play: fn(Run) -> Play,
}

/// Makes two tests of a file's ways: as the file system tells of changes, and by polling.
#[macro_export]
macro_rules! ways {
    ($($way:ident)*) => {
        const WAYS: &[$crate::ways::Way] = &[
            $($crate::ways::Way { name: stringify!($way), play: |run| Box::pin($way(run)) }),*
        ];

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn by_events() -> anyhow::Result<()> {
            $crate::ways::play($crate::ways::Watch::Events, WAYS).await
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn by_polling() -> anyhow::Result<()> {
            $crate::ways::play($crate::ways::Watch::Polling, WAYS).await
        }
    };
}

/// Lets time pass where that is what the way is about: a writer that takes its time, a file that is gone for a while.
pub async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Whether a way is to be played: all are, but for those that `HARK_WAYS` leaves out by naming others.
fn chosen(way: &Way) -> bool {
    std::env::var("HARK_WAYS").map_or(true, |names| names.split(',').any(|name| way.name.contains(name)))
}

/// Plays ways, a few at a time, and says of each how long it took.
///
/// # Errors
/// If any did not lead to what it must lead to, with all of those.
pub async fn play(watch: Watch, ways: &'static [Way]) -> Result<()> {
    let mut tasks = JoinSet::new();
    for way in ways.iter().filter(|way| chosen(way)) {
        tasks.spawn(async move {
            let _permit = AT_ONCE.acquire().await;
            let begun = Instant::now();
            let run = Run { name: way.name, watch };
            // A thread of its own with a runtime of its own, so that a panic is one way's, and what blocks one way
            // blocks no other.
            let outcome = tokio::task::spawn_blocking(move || {
                tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on((way.play)(run))
            });
            let outcome = outcome.await.unwrap_or_else(|lost| Err(lost.into()));
            (way.name, begun.elapsed(), outcome)
        });
    }
    let (mut table, mut failed) = (String::new(), String::new());
    for (name, took, outcome) in tasks.join_all().await {
        let verdict = if outcome.is_ok() { "as it must" } else { "NOT as it must" };
        writeln!(table, "{:>6.1} s  {watch:?}  {name}: {verdict}", took.as_secs_f64())?;
        if let Err(error) = outcome {
            writeln!(failed, "--- {name}, {watch:?}: {error:#}")?;
        }
    }
    std::io::Write::write_all(&mut std::io::stdout(), table.as_bytes())?;
    ensure!(!ways.is_empty(), "no ways");
    if !failed.is_empty() {
        bail!("\n{failed}");
    }
    Ok(())
}
