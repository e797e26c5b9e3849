//! Saves new contents over the plugins' files while events flow, in both ways of saving and of reloading.
//!
//! Invariant: a plugin's next content is saved only when its last one has taken over, so that each save is a reload.

use std::fmt;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::sync::mpsc;

use super::{CAST, Progress};
use crate::guests::fixture;
use crate::hark::Hark;
use crate::http;
use crate::measure::stamp::stamped;
use crate::prometheus::Scrape;

/// The longest that a reload may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// See the file's head.
pub struct Reloads {
    folder: PathBuf,
    admin: SocketAddr,
    contents: Vec<Vec<u8>>,
    progress: Arc<Progress>,
    /// How long each took, from the save to the first sight of the new version.
    took: Vec<Duration>,
}

impl Reloads {
    /// Of this Hark's plugins.
    ///
    /// # Errors
    /// If the fixtures are not there.
    pub fn new(hark: &Hark, admin: SocketAddr, progress: Arc<Progress>) -> Result<Self> {
        let contents = CAST.iter().map(|one| std::fs::read(fixture(one.fixture)));
        let contents = contents.collect::<std::io::Result<_>>().context("cannot read the fixtures")?;
        Ok(Self { folder: hark.folder().to_owned(), admin, contents, progress, took: Vec::new() })
    }

    /// Makes a reload for each word that comes.
    ///
    /// # Errors
    /// If one does not come about.
    pub async fn run(mut self, mut asked: mpsc::Receiver<()>) -> Result<Self> {
        while asked.recv().await.is_some() {
            self.reload().await?;
        }
        Ok(self)
    }

    async fn reload(&mut self) -> Result<()> {
        let number = self.took.len();
        let (plugin, round) = (CAST[number % CAST.len()].name, number / CAST.len());
        let content = stamped(&self.contents[number % CAST.len()], number as u64 + 1);
        self.save(plugin, &content, round % 2 == 0)?;
        // The version that ran first, and one for each round.
        let versions = round as f64 + 2.0;
        let begun = Instant::now();
        while self.versions(plugin).await? < versions {
            ensure!(begun.elapsed() < LIMIT, "{plugin}: reload {number} did not come about in {LIMIT:?}");
            tokio::time::sleep(PAUSE).await;
        }
        self.took.push(begun.elapsed());
        self.progress.reloads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Over the file at once, by renaming; or into the file itself, as `cp` does, which may be seen half-written.
    fn save(&self, plugin: &str, content: &[u8], at_once: bool) -> Result<()> {
        let path = self.folder.join("plugins").join(format!("{plugin}.wasm"));
        if at_once {
            let beside = self.folder.join("next.wasm");
            std::fs::write(&beside, content)?;
            return Ok(std::fs::rename(beside, path)?);
        }
        let mut file = std::fs::File::options().write(true).truncate(true).open(path)?;
        let (first, second) = content.split_at(content.len() / 2);
        file.write_all(first)?;
        file.write_all(second)?;
        Ok(())
    }

    async fn versions(&self, plugin: &str) -> Result<f64> {
        let scrape = Scrape::parse(&http::get(self.admin, "/metrics").await?.body)?;
        Ok(scrape.get("hark_plugin_versions_total", &[("plugin", plugin)]).unwrap_or_default())
    }
}

impl fmt::Display for Reloads {
    /// How many, and how long they took.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut times = self.took.clone();
        times.sort();
        let at = |place: usize| times.get(place).copied().unwrap_or_default();
        let (median, longest) = (at(times.len() / 2), at(times.len().saturating_sub(1)));
        let count = times.len();
        write!(
            f,
            "{count} reloads, each seen after {median:.0?} (median) or {longest:.0?} (at most), looking every {PAUSE:?}"
        )
    }
}
