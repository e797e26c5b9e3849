//! One host with a good plugin in it, under a steady stream of changes, for one hostile guest after the other.
//!
//! Invariants: at most one hostile guest has its turn at a time, under a name of its own, so what the log and the
//! trace say of it is its own; the good plugin runs all the time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hark_apiserver::{Config as ServerConfig, Handle, Server};
use hark_tests::LIMIT;
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup};
use hark_tests::http::get;
use hark_tests::stream::{Change, Stream, config_map, delivered};
use hark_tests::tail::Tail;
use hark_tests::trace::Line;
use serde_json::Value;

/// The good plugin's name.
pub(crate) const GOOD: &str = "good";

/// Time between two changes.
const PACE: Duration = Duration::from_millis(4);

/// See the file's head.
pub(crate) struct Stage {
    server: Arc<Handle>,
    pub(crate) hark: Hark,
    pub(crate) admin: SocketAddr,
    trace: Tail,
    log: Tail,
    /// What was read of the trace, and of standard error, since the turn began.
    pub(crate) lines: Vec<Line>,
    pub(crate) said: Vec<String>,
}

impl Stage {
    /// Starts a server and a host, and waits until the good plugin has handled what is there.
    pub(crate) async fn start(config: &str) -> Result<Self> {
        let server = Arc::new(Server::start(ServerConfig::default()).await?);
        // What a good build is told of when it takes over from a hostile one.
        server.create(config_map("anchor", "there from the start"))?;
        let kubeconfig = tempfile::NamedTempFile::new()?;
        server.write_kubeconfig(kubeconfig.path())?;
        let setup = Setup::new()?.config(config)?.plugin(GOOD, &fixture("counter-v1"))?;
        let hark = setup.run(kubeconfig.path())?;
        let admin = hark.admin().await;
        let (trace, log) = (hark.folder().join("trace.jsonl"), hark.folder().join("stderr"));
        let (trace, log) = (Tail::new(&trace), Tail::new(&log));
        let mut stage = Self { server, hark, admin, trace, log, lines: Vec::new(), said: Vec::new() };
        let told = |stage: &mut Self| stage.lines_of(GOOD).any(|line| line.key == "default/anchor");
        stage.until("the good plugin", |stage| Ok(told(stage))).await?;
        Ok(stage)
    }

    /// A new turn: what was said before is forgotten.
    pub(crate) fn turn(&mut self) -> Result<()> {
        self.look()?;
        self.lines.clear();
        self.said.clear();
        Ok(())
    }

    /// Begins a stream of changes for a guest's turn.
    pub(crate) fn change(&self, prefix: &str) -> Stream {
        Stream::start(self.server.clone(), prefix.to_owned(), PACE)
    }

    pub(crate) fn path(&self, plugin: &str) -> PathBuf {
        self.hark.plugin_path(plugin)
    }

    /// Puts a build into the folder at once, as a compiler does.
    pub(crate) fn save(&self, plugin: &str, build: &[u8]) -> Result<()> {
        let beside = self.hark.folder().join(format!("{plugin}.new"));
        std::fs::write(&beside, build)?;
        Ok(std::fs::rename(beside, self.path(plugin))?)
    }

    /// Reads what is new.
    fn look(&mut self) -> Result<()> {
        for line in self.trace.lines()? {
            self.lines.push(serde_json::from_str(&line).with_context(|| line.clone())?);
        }
        self.said.extend(self.log.lines()?);
        Ok(())
    }

    /// Looks until a condition holds.
    ///
    /// # Errors
    /// The condition's own, or that it does not come to hold, or that the host is gone.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        mut condition: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        let begun = Instant::now();
        loop {
            self.look()?;
            if condition(self)? {
                return Ok(());
            }
            ensure!(self.hark.runs()?, "the host has ended while {what} was waited for");
            ensure!(begun.elapsed() < LIMIT, "waited in vain for {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the good plugin has been told of all changes, and gives how long each took.
    ///
    /// # Errors
    /// If its trace has something else.
    pub(crate) async fn all_delivered(&mut self, changes: &[Change]) -> Result<Vec<Duration>> {
        let mut took = Vec::new();
        self.until("every change at the good plugin", |stage| {
            let lines: Vec<Line> = stage.lines_of(GOOD).cloned().collect();
            let all = delivered(&lines, changes)?;
            let whole = all.is_some();
            took = all.unwrap_or_default();
            Ok(whole)
        })
        .await?;
        Ok(took)
    }

    /// The trace of one plugin in this turn.
    pub(crate) fn lines_of(&self, plugin: &str) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.plugin == plugin)
    }

    /// The document of a plugin in `/api/plugins`, if it is there.
    pub(crate) async fn document(&self, plugin: &str) -> Result<Option<Value>> {
        let answer: Value = serde_json::from_str(&get(self.admin, "/api/plugins").await?.body)?;
        let plugins = answer["plugins"].as_array().context("plugins")?;
        Ok(plugins.iter().find(|one| one["plugin"] == plugin).cloned())
    }
}
