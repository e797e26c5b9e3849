//! Saves new contents over a plugin's file while events flow, in every way of saving, and has the operator's file say
//! something new of it.
//!
//! Each plugin has one of these. Invariant: the next version is saved only when the last one has taken over, so that each
//! save is a reload.

use std::fmt;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::sync::{Mutex, mpsc};

use super::{Cast, Progress};
use crate::guests::fixture;
use crate::hark::Hark;
use crate::http;
use crate::measure::stamp::stamped;
use crate::prometheus::Scrape;
use crate::reloads::config::{ConfigFile, Treatment};

/// The longest that a reload may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// A way in which a new version comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Over the file at once, by renaming.
    Renamed,
    /// Into the file itself, as `cp` does, which may be seen half-written.
    InPlace,
    /// As a link to a file in a folder that is new each time.
    Linked,
    /// As a mounted ConfigMap has it: the file is a link through `..data`, which is put over the one before.
    Mounted,
    /// The same content with other settings.
    Configured,
}

const WAYS: [Way; 5] = [Way::Renamed, Way::InPlace, Way::Linked, Way::Mounted, Way::Configured];

/// See the file's head.
pub struct Reloads {
    cast: Cast,
    /// Hark's.
    folder: PathBuf,
    admin: SocketAddr,
    content: Vec<u8>,
    config: Arc<Mutex<ConfigFile>>,
    progress: Arc<Progress>,
    /// How long each took, from the save to the first sight of the new version.
    took: Vec<Duration>,
}

/// How long all reloads of all plugins took.
#[derive(Debug, Default)]
pub struct Took(Vec<Duration>);

impl Reloads {
    /// Of one plugin of this Hark.
    ///
    /// # Errors
    /// If the fixture is not there.
    pub fn new(
        hark: &Hark,
        admin: SocketAddr,
        cast: Cast,
        config: Arc<Mutex<ConfigFile>>,
        progress: Arc<Progress>,
    ) -> Result<Self> {
        let content = std::fs::read(fixture(cast.fixture)).context("cannot read the fixture")?;
        let folder = hark.folder().to_owned();
        Ok(Self { cast, folder, admin, content, config, progress, took: Vec::new() })
    }

    /// Makes a reload for each word that comes; gives how long each took.
    ///
    /// # Errors
    /// If one does not come about.
    pub async fn run(mut self, mut asked: mpsc::Receiver<()>) -> Result<Vec<Duration>> {
        while asked.recv().await.is_some() {
            let (number, plugin) = (self.took.len(), self.cast.name);
            let way = WAYS[number % WAYS.len()];
            self.reload(way).await.with_context(|| format!("{plugin}: reload {number}: {way:?}"))?;
        }
        Ok(self.took)
    }

    async fn reload(&mut self, way: Way) -> Result<()> {
        let number = self.took.len();
        // The version that ran first, and one for each reload.
        let versions = number as f64 + 2.0;
        let begun = Instant::now();
        self.save(way, number).await?;
        while self.versions().await? < versions {
            ensure!(begun.elapsed() < LIMIT, "it did not come about in {LIMIT:?}");
            tokio::time::sleep(PAUSE).await;
        }
        self.took.push(begun.elapsed());
        self.progress.reloads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn save(&self, way: Way, number: usize) -> Result<()> {
        let content = stamped(&self.content, number as u64 + 1);
        let path = self.folder.join("plugins").join(format!("{}.wasm", self.cast.name));
        match way {
            Way::Renamed => {
                let beside = self.elsewhere("next");
                std::fs::write(&beside, content)?;
                Ok(std::fs::rename(beside, path)?)
            }
            Way::InPlace => in_two_parts(&path, &content),
            Way::Linked => self.link(&path, &self.version(&self.folder, number, &content)?),
            Way::Mounted => self.mount(&path, number, &content),
            Way::Configured => {
                let mut config = self.config.lock().await;
                let setting = u32::try_from(number)?;
                let replays = Some(self.cast.replays);
                config.write(self.cast.name, Treatment { replays, setting, ..Treatment::default() }, true)
            }
        }
    }

    /// A path of this plugin's own, outside of the plugins folder.
    fn elsewhere(&self, what: &str) -> PathBuf {
        self.folder.join(format!("{}-{what}", self.cast.name))
    }

    /// A new folder for one version, with its file; gives that one. The folder of the reload before the last one goes.
    fn version(&self, beside: &Path, number: usize, content: &[u8]) -> Result<PathBuf> {
        let folder = |number: usize| beside.join(format!("..{}-{number}", self.cast.name));
        if let Some(old) = number.checked_sub(2 * WAYS.len()).map(folder).filter(|old| old.exists()) {
            std::fs::remove_dir_all(old)?;
        }
        std::fs::create_dir(folder(number))?;
        let file = folder(number).join("plugin.wasm");
        std::fs::write(&file, content)?;
        Ok(file)
    }

    /// Puts a link over whatever is there.
    fn link(&self, path: &Path, target: &Path) -> Result<()> {
        let beside = self.elsewhere("link");
        symlink(target, &beside)?;
        Ok(std::fs::rename(beside, path)?)
    }

    fn mount(&self, path: &Path, number: usize, content: &[u8]) -> Result<()> {
        let plugins = self.folder.join("plugins");
        let file = self.version(&plugins, number, content)?;
        let folder = file.parent().context("a folder")?;
        let data = format!("..{}-data", self.cast.name);
        self.link(&plugins.join(&data), folder)?;
        let through = Path::new(&data).join("plugin.wasm");
        if std::fs::read_link(path).is_ok_and(|target| target == through) {
            return Ok(());
        }
        self.link(path, &through)
    }

    async fn versions(&self) -> Result<f64> {
        let scrape = Scrape::parse(&http::get(self.admin, "/metrics").await?.body)?;
        Ok(scrape.get("hark_plugin_versions_total", &[("plugin", self.cast.name)]).unwrap_or_default())
    }
}

fn in_two_parts(path: &Path, content: &[u8]) -> Result<()> {
    let mut file = std::fs::File::options().write(true).truncate(true).open(path)?;
    let (first, second) = content.split_at(content.len() / 2);
    file.write_all(first)?;
    file.write_all(second)?;
    Ok(())
}

impl Took {
    /// Those of one plugin more.
    pub fn add(&mut self, took: Vec<Duration>) {
        self.0.extend(took);
        self.0.sort();
    }
}

impl fmt::Display for Took {
    /// How many, and how long they took.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |place: usize| self.0.get(place).copied().unwrap_or_default();
        let count = self.0.len();
        let (median, longest) = (at(count / 2), at(count.saturating_sub(1)));
        write!(
            f,
            "{count} reloads, each seen after {median:.0?} (median) or {longest:.0?} (at most), looking every {PAUSE:?}"
        )
    }
}
