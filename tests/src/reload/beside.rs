//! Deliveries to a good plugin while another one is reloaded all the time.
//!
//! Invariants: a stretch with reloads has one without before it, in the same host; what the good plugin was told is
//! whole, or the run fails; nothing is asserted of a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hark_apiserver::{Config as ServerConfig, Handle, Server};

use super::line::Parts;
use super::lineage::Lineage;
use crate::guests::fixture;
use crate::hark::{Hark, Setup};
use crate::latency;
use crate::stream::{Stream, delivered};
use crate::tail::Tail;
use crate::trace::Line;

/// Between two changes: 1,000 a second.
const PACE: Duration = Duration::from_millis(1);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// The longest that anything may be waited for.
const LIMIT: Duration = Duration::from_secs(600);

const GOOD: &str = "good";
const OTHER: &str = "other";

/// What a stretch of the stream came to.
#[derive(Debug, Default)]
pub struct Stretch {
    /// From each write at the API server to the end of the attempt; sorted.
    pub took: Vec<Duration>,
    /// Reloads of the other plugin.
    pub reloads: usize,
}

/// A host with the two plugins in it.
pub struct Beside {
    hark: Hark,
    server: Arc<Handle>,
    trace: Tail,
    /// Contents of the other plugin and stretches so far, for names that are new.
    saved: u64,
    stretches: usize,
}

impl Stretch {
    /// Adds another one like it.
    pub fn join(&mut self, other: Self) {
        self.took.extend(other.took);
        self.took.sort();
        self.reloads += other.reloads;
    }

    /// The value that so many of a hundred do not exceed.
    pub fn percentile(&self, percent: usize) -> Duration {
        latency::percentile(&self.took, percent)
    }
}

impl Beside {
    /// Starts a host with this way of compiling.
    ///
    /// # Errors
    /// If it does not come about.
    pub async fn start(program: &Path, compile: &str, other: &Lineage) -> Result<Self> {
        let config = ServerConfig { history: 1 << 16, watch_buffer: 1 << 16, ..ServerConfig::default() };
        let server = Server::start(config).await?;
        let setup = Setup::new()?
            .program(program)
            .config(&format!("[defaults]\ncompile = {compile:?}\n"))?
            .plugin(GOOD, &fixture("counter-v1"))?
            .content(OTHER, &other.content(0)?)?;
        let kubeconfig = setup.folder().join("kubeconfig");
        server.write_kubeconfig(&kubeconfig)?;
        let hark = setup.run(&kubeconfig)?;
        hark.says(&["good started: ", "other started: "]).await;
        let trace = Tail::new(&hark.folder().join("trace.jsonl"));
        Ok(Self { hark, server: Arc::new(server), trace, saved: 0, stretches: 0 })
    }

    /// Lets changes flow for so long, and reloads the other plugin all the while if a lineage is given.
    ///
    /// # Errors
    /// If a reload does not come about, or a delivery is missing.
    pub async fn stretch(&mut self, time: Duration, reload: Option<&Lineage>) -> Result<Stretch> {
        self.stretches += 1;
        let stream = Stream::start(self.server.clone(), format!("stretch-{}", self.stretches), PACE);
        let begun = Instant::now();
        let stop = Arc::new(AtomicBool::new(false));
        let reloading = reload.map(|lineage| {
            let log = Tail::new(&self.hark.folder().join("stderr"));
            let reloads = Reloads {
                lineage: lineage.clone(),
                path: self.hark.plugin_path(OTHER),
                beside: self.hark.folder().join("next"),
                log,
                next: self.saved + 1,
                stop: stop.clone(),
            };
            tokio::spawn(reloads.run())
        });
        while begun.elapsed() < time && !reloading.as_ref().is_some_and(tokio::task::JoinHandle::is_finished)
        {
            tokio::time::sleep(PAUSE).await;
        }
        let changes = stream.stop().await?;
        stop.store(true, Ordering::Relaxed);
        let reloads = match reloading {
            Some(reloading) => reloading.await??,
            None => 0,
        };
        self.saved += reloads as u64;
        let took = self.all_delivered(&changes).await?;
        Ok(Stretch { took, reloads })
    }

    async fn all_delivered(&mut self, changes: &[crate::stream::Change]) -> Result<Vec<Duration>> {
        let (begun, mut lines) = (Instant::now(), Vec::new());
        loop {
            for line in self.trace.lines()? {
                let line: Line = serde_json::from_str(&line).with_context(|| line.clone())?;
                if line.plugin == GOOD {
                    lines.push(line);
                }
            }
            if lines.len() >= changes.len()
                && let Some(mut took) = delivered(&lines, changes)?
            {
                took.sort();
                return Ok(took);
            }
            ensure!(self.hark.runs()?, "hark has ended\n{}", self.hark.state());
            ensure!(begun.elapsed() < LIMIT, "events are missing\n{}", self.hark.state());
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Saves contents over the other plugin, one after the other.
struct Reloads {
    lineage: Lineage,
    path: PathBuf,
    beside: PathBuf,
    log: Tail,
    next: u64,
    stop: Arc<AtomicBool>,
}

impl Reloads {
    /// Until it is to stop; gives how many there were. The last one is waited for, so that it disturbs nobody after.
    async fn run(mut self) -> Result<usize> {
        self.log.lines()?;
        let mut count = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let lineage = self.lineage.clone();
            let number = self.next + count as u64;
            let content = tokio::task::spawn_blocking(move || lineage.content(number)).await??;
            tokio::fs::write(&self.beside, content).await?;
            tokio::fs::rename(&self.beside, &self.path).await?;
            self.announced().await?;
            count += 1;
        }
        Ok(count)
    }

    async fn announced(&mut self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            for line in self.log.lines()? {
                if Parts::of(&line, OTHER)?.is_some() {
                    return Ok(());
                }
                ensure!(!line.contains("is refused"), "{line}");
            }
            tokio::time::sleep(PAUSE).await;
        }
        anyhow::bail!("a reload did not come about in {LIMIT:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_of_one_kind_are_one() {
        let stretch =
            |from: u64| Stretch { took: (from..from + 50).map(Duration::from_millis).collect(), reloads: 2 };
        let mut both = stretch(51);
        both.join(stretch(1));
        assert_eq!((both.percentile(50).as_millis(), both.percentile(99).as_millis()), (50, 99));
        assert_eq!(both.reloads, 4);
    }
}
