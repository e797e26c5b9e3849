//! A host with one plugin and one object, whose file is saved again and again.
//!
//! Invariant: a content is saved only when the one before has handled its event.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hark_apiserver::{Config as ServerConfig, Handle, Server};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::line::Parts;
use crate::hark::{Hark, Setup};
use crate::stream::config_map;
use crate::tail::Tail;
use crate::trace::Line;

/// The longest that a start or a reload may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// Between two looks, which tell nothing about the time: that is in what is found.
const PAUSE: Duration = Duration::from_millis(4);

/// Between two saves: a file that changes more often than once a second is read no more often than that.
const REST: Duration = Duration::from_millis(1050);

/// The plugin's name.
pub const PLUGIN: &str = "subject";

/// Which command is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `hark dev`, with the API server in it.
    Dev,
    /// `hark run`, with the API server in this process.
    Run,
}

/// How a file is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Written beside it, then renamed over it.
    Renamed,
    /// Emptied, then written in place.
    InPlace,
}

/// What a reload took.
#[derive(Debug, Clone)]
pub struct Round {
    /// From the save to the beginning of the first event.
    pub took: Duration,
    /// Of that, what the system's call took that makes the content visible whole: renaming, or closing. The host is told
    /// when it is over.
    pub saving: Duration,
    /// What the host says of it.
    pub parts: Parts,
}

/// See the file's head.
pub struct Stage {
    hark: Hark,
    /// Of [`Mode::Run`].
    _server: Option<Handle>,
    log: Tail,
    trace: Tail,
    generation: u64,
}

impl Mode {
    /// The command.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Run => "run",
        }
    }
}

impl Stage {
    /// Starts a host with this content, and waits until it has handled its event.
    ///
    /// # Errors
    /// If it does not come about.
    pub async fn start(program: &Path, mode: Mode, content: &[u8]) -> Result<Self> {
        let setup = Setup::new()?.program(program).content(PLUGIN, content)?;
        let kubeconfig = setup.folder().join("kubeconfig");
        let (hark, server) = match mode {
            Mode::Dev => {
                let path = kubeconfig.display().to_string();
                let arguments = ["--listen", "127.0.0.1:0", "--write-kubeconfig", &path];
                let hark = setup.arguments(&arguments).start(&["dev"])?;
                hark.shows(&["API server ready at "]).await;
                (hark, None)
            }
            Mode::Run => {
                let server = Server::start(ServerConfig::default()).await?;
                server.write_kubeconfig(&kubeconfig)?;
                (setup.run(&kubeconfig)?, Some(server))
            }
        };
        create(&kubeconfig).await?;
        let said = if mode == Mode::Dev { "stdout" } else { "stderr" };
        let (log, trace) = (hark.folder().join(said), hark.folder().join("trace.jsonl"));
        let (log, trace) = (Tail::new(&log), Tail::new(&trace));
        let mut stage = Self { hark, _server: server, log, trace, generation: 0 };
        stage.next_generation().await?;
        stage.log.lines()?;
        Ok(stage)
    }

    /// Saves a content, and waits until it has handled its event.
    ///
    /// # Errors
    /// If it does not come about.
    pub async fn reload(&mut self, content: &[u8], way: Way) -> Result<Round> {
        tokio::time::sleep(REST).await;
        let (saved, saving) = self.save(content, way)?;
        let first = self.next_generation().await?;
        let ended: Timestamp = first.ts.parse()?;
        let took = Duration::try_from(ended.duration_since(saved)).context("handled before it was saved")?;
        let took = took.saturating_sub(Duration::from_micros(first.micros));
        let begun = Instant::now();
        // The line may be shown a moment after the event.
        loop {
            for line in self.log.lines()? {
                if let Some(parts) = Parts::of(&line, PLUGIN)? {
                    return Ok(Round { took, saving, parts });
                }
            }
            self.pause(begun).await?;
        }
    }

    /// The moment before the file has its new content, whole, and how long that took from then on.
    fn save(&self, content: &[u8], way: Way) -> Result<(Timestamp, Duration)> {
        let path = self.hark.plugin_path(PLUGIN);
        let (now, begun) = match way {
            Way::Renamed => {
                let beside = self.hark.folder().join("next");
                std::fs::write(&beside, content)?;
                let (now, begun) = (Timestamp::now(), Instant::now());
                std::fs::rename(beside, path)?;
                (now, begun)
            }
            Way::InPlace => {
                let mut file = File::create(path)?;
                file.write_all(content)?;
                let (now, begun) = (Timestamp::now(), Instant::now());
                drop(file);
                (now, begun)
            }
        };
        Ok((now, begun.elapsed()))
    }

    /// The first line of a generation after the last one.
    async fn next_generation(&mut self) -> Result<Line> {
        let begun = Instant::now();
        loop {
            for line in self.trace.lines()? {
                let line: Line = serde_json::from_str(&line).with_context(|| line.clone())?;
                if line.plugin == PLUGIN && line.generation > self.generation {
                    self.generation = line.generation;
                    return Ok(line);
                }
            }
            self.pause(begun).await?;
        }
    }

    async fn pause(&mut self, begun: Instant) -> Result<()> {
        ensure!(self.hark.runs()?, "hark has ended\n{}", self.hark.state());
        ensure!(
            begun.elapsed() < LIMIT,
            "waited in vain for generation {}\n{}",
            self.generation + 1,
            self.hark.state()
        );
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }
}

/// The one object.
async fn create(kubeconfig: &PathBuf) -> Result<()> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(kube::Client::try_from(config)?, "default");
    maps.create(&PostParams::default(), &serde_json::from_value(config_map("one", "the only one"))?).await?;
    Ok(())
}
