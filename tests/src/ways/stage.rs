//! One host with two plugins under a steady stream of changes: the subject, whose file a way changes, and a neighbour
//! that nothing happens to.
//!
//! Used by the ways. As a way goes along it says what each step must lead to; the stage waits for that, keeps count, and
//! [`Stage::ends`] holds all of it against what the host said and did. Invariants: the neighbour is told of every
//! change, once and in order, by one version; so is the subject while its file is there, over all its versions
//! (`on_reload = "continue"`); no line of the log warns of anything that the way did not announce.

mod streams;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use hark_apiserver::{Config as ServerConfig, Handle, Server};
use serde_json::Value;

use self::streams::{Flowed, Told};
use super::build::build;
use super::verdict::{Expected, Said};
use super::{Run, Watch};
use crate::eventually;
use crate::guests::sha256;
use crate::hark::{Hark, Setup};
use crate::http::get;
use crate::prometheus::Scrape;
use crate::stream::Stream;

/// The plugin whose file is changed.
pub const SUBJECT: &str = "subject";
/// The plugin beside it.
pub const NEIGHBOUR: &str = "neighbour";
/// A plugin that comes and goes at the end, to see that the host has looked around since.
const MARKER: &str = "marker";

/// How a host begins.
pub struct Start<'a> {
    /// The command that it is run through.
    pub through: &'a [&'a str],
    /// Its plugins folder, in its own.
    pub folder: &'a str,
    /// More of `hark.toml`, below `[defaults]`.
    pub config: &'a str,
    /// More arguments.
    pub arguments: &'a [&'a str],
    /// How it learns of changes, and why (the labels of `hark_plugins_folder_watch`), if not as the way is played.
    pub told: Option<(&'static str, &'static str)>,
    /// Lays out its folder, in which there is an empty one named `plugins` so far.
    pub lay: &'a (dyn Fn(&Path) -> Result<()> + Sync),
}

impl Default for Start<'_> {
    fn default() -> Self {
        let lay = &|at: &Path| lay(&at.join("plugins"));
        Self { through: &[], folder: "plugins", config: "", arguments: &[], told: None, lay }
    }
}

/// Puts the first build of both plugins into a folder.
///
/// # Errors
/// If they cannot be written.
pub fn lay(folder: &Path) -> Result<()> {
    for plugin in [SUBJECT, NEIGHBOUR] {
        std::fs::write(folder.join(plugin).with_extension("wasm"), build(1))?;
    }
    Ok(())
}

/// See the file's head.
pub struct Stage {
    run: Run,
    server: Arc<Handle>,
    /// The host.
    pub hark: Hark,
    admin: SocketAddr,
    /// The plugins folder, where the host finds it.
    pub folder: PathBuf,
    told: (&'static str, &'static str),
    stream: Option<Stream>,
    streams: u32,
    flowed: Vec<Flowed>,
    expected: Expected,
}

impl Run {
    /// A host as most ways need it.
    ///
    /// # Errors
    /// If it cannot be had.
    pub async fn start(self) -> Result<Stage> {
        self.start_with(Start::default()).await
    }

    /// A host with both plugins running, under a stream that flows.
    ///
    /// # Errors
    /// If it cannot be had.
    pub async fn start_with(self, start: Start<'_>) -> Result<Stage> {
        let server = Arc::new(Server::start(ServerConfig::default()).await?);
        let setup = Setup::new()?.config(&self.config(start.config))?.through(start.through);
        (start.lay)(setup.folder())?;
        let kubeconfig = setup.folder().join("kubeconfig");
        server.write_kubeconfig(&kubeconfig)?;
        let setup = setup.arguments(&["--plugins", start.folder]).arguments(start.arguments);
        let hark = setup.run(&kubeconfig)?;
        let admin = hark.admin().await;
        let folder = hark.folder().join(start.folder);
        let expected = Expected::begins(&build(1));
        let told = start.told.filter(|_| self.watch == Watch::Events).unwrap_or(self.watch.labels());
        let (stream, streams, flowed) = (None, 0, Vec::new());
        let mut stage =
            Stage { run: self, server, hark, admin, folder, told, stream, streams, flowed, expected };
        for plugin in [NEIGHBOUR, SUBJECT] {
            stage.runs(plugin, &build(1), 1).await;
        }
        stage.flow().await;
        Ok(stage)
    }

    /// A configuration for its host, with more below `[defaults]`.
    pub fn config(self, more: &str) -> String {
        let watch = match self.watch {
            Watch::Events => "",
            Watch::Polling => "watch = \"poll\"\npoll_interval = \"100ms\"\n",
        };
        // Contents are compiled once for all hosts of the suite, and what the plugins say is not read.
        let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/ways-cache");
        format!(
            "[host]\ncache_dir = {cache:?}\nlog = \"warn,hark=info,hark::plugins=info,hark::plugin=off\"\n{watch}\
             [defaults]\non_reload = \"continue\"\n{more}"
        )
    }
}

impl Stage {
    /// How the host learns of changes.
    pub fn watch(&self) -> Watch {
        self.run.watch
    }

    /// The subject's file.
    pub fn subject(&self) -> PathBuf {
        self.plugin(SUBJECT)
    }

    /// A plugin's file in the folder.
    pub fn plugin(&self, name: &str) -> PathBuf {
        self.folder.join(name).with_extension("wasm")
    }

    /// A path beside the plugins folder, on the same file system.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.hark.folder().join(name)
    }

    /// A new version of the subject must take over, once, with this content.
    pub async fn reloads(&mut self, content: &[u8]) {
        self.expected.reloads(content);
        self.is_as_expected().await;
    }

    /// Writes the second build in place and renames the third over it: each must take over, once.
    ///
    /// # Errors
    /// If they cannot be written.
    pub async fn reloads_in_either_way(&mut self) -> Result<()> {
        std::fs::write(self.subject(), build(2))?;
        self.reloads(&build(2)).await;
        let new = self.beside("new");
        std::fs::write(&new, build(3))?;
        std::fs::rename(&new, self.subject())?;
        self.reloads(&build(3)).await;
        Ok(())
    }

    /// A new version of the subject must take over, once, with the same content and another configuration.
    pub async fn is_configured_anew(&mut self) {
        self.expected.is_configured_anew();
        self.is_as_expected().await;
    }

    /// The subject has this content now, after as many versions in between as its file had, `most` of them: for what
    /// nobody can tell from one change, or from several.
    pub async fn reloads_up_to(&mut self, most: u64, content: &[u8]) -> Result<()> {
        let hash = sha256(content);
        let found = async || {
            let running = self.document(SUBJECT).await?["running"].clone();
            (running["sha256"] == hash.as_str()).then(|| running["generation"].as_u64())
        };
        let what = format!("{SUBJECT} to have {hash} in the end");
        let generation = eventually(&what, || self.hark.state(), found).await.context("a number")?;
        let least = self.expected.generation + 1;
        ensure!(
            (least..least + most).contains(&generation),
            "generation {generation}, not {least} and a few"
        );
        while self.expected.generation < generation {
            self.expected.reloads(content);
        }
        self.flows().await;
        Ok(())
    }

    /// The subject must stop, since its file is gone; what happens then is not for it.
    ///
    /// # Errors
    /// If the server refuses a change.
    pub async fn stops(&mut self) -> Result<()> {
        self.expected.stops();
        self.is_gone(SUBJECT).await;
        self.stream_ends(Told::Beginning).await?;
        self.flow().await;
        self.stream_ends(Told::Nothing).await
    }

    /// The subject must start with this content after it has stopped.
    pub async fn starts(&mut self, content: &[u8]) {
        self.expected.starts(content);
        self.runs(SUBJECT, content, 1).await;
        self.flow().await;
    }

    /// The log must warn of something, once in all, in these words.
    pub async fn warns(&mut self, text: &str) {
        self.expected.warns(text);
        let count = self.expected.warnings_with(text);
        let said = async || (Said::read(&self.hark.stderr()).warnings_with(text) >= count).then_some(());
        eventually(&format!("{text:?}, time {count}"), || self.hark.state(), said).await;
    }

    /// The log may warn of something up to so many times, in these words: for what depends on who looks when.
    pub fn tolerates(&mut self, text: &str, most: usize) {
        self.expected.tolerates(text, most);
    }

    /// The subject's version, counted from its last start.
    pub fn generation(&self) -> u64 {
        self.expected.generation
    }

    /// The subject's file is refused, once, for a reason, and what runs goes on.
    pub async fn refuses(&mut self, reason: &str) {
        self.warns(&format!("{SUBJECT}.wasm is refused: {reason}")).await;
        let refused = async || (!self.document(SUBJECT).await?["refused"].is_null()).then_some(());
        eventually("the refusal to show", || self.hark.state(), refused).await;
    }

    /// What was wrong with the subject's file must be over, without a reload.
    pub async fn is_refused_no_more(&self) {
        let clear = async || self.document(SUBJECT).await?["refused"].is_null().then_some(());
        eventually("the refusal to be over", || self.hark.state(), clear).await;
    }

    /// Waits until a plugin runs with a content, as its `generation`th version.
    pub async fn runs(&self, plugin: &str, content: &[u8], generation: u64) {
        self.runs_hash(plugin, &sha256(content), generation).await;
    }

    async fn runs_hash(&self, plugin: &str, hash: &str, generation: u64) {
        let running = async || {
            let running = &self.document(plugin).await?["running"];
            (running["sha256"] == hash && running["generation"] == generation).then_some(())
        };
        let what = format!("{plugin} to run as version {generation}, with {hash}");
        eventually(&what, || self.hark.state(), running).await;
    }

    /// Waits until there is no such plugin.
    pub async fn is_gone(&self, plugin: &str) {
        let gone = async || {
            let plugins = self.documents().await?;
            (!plugins.iter().any(|one| one["plugin"] == plugin)).then_some(())
        };
        eventually(&format!("{plugin} to be gone"), || self.hark.state(), gone).await;
    }

    /// The host must look at its folder, see a plugin come, and, two seconds after it is gone, stop it.
    pub async fn looks_around(&self) -> Result<()> {
        std::fs::write(self.plugin(MARKER), build(9999))?;
        self.runs(MARKER, &build(9999), 1).await;
        std::fs::remove_file(self.plugin(MARKER))?;
        self.is_gone(MARKER).await;
        Ok(())
    }

    /// All that the way led to must be what it said, and nothing else happens while the host goes on looking.
    ///
    /// # Errors
    /// What is otherwise.
    pub async fn ends(mut self) -> Result<()> {
        self.looks_around().await?;
        self.is_as_expected().await;
        let document = self.document(SUBJECT).await.context("the subject")?;
        ensure!(document["refused"].is_null(), "a refusal is left: {document}");
        self.is_watched_as_it_must().await?;
        self.stream_ends(Told::All).await?;
        self.all_is_told().await?;
        self.hark.signal("TERM")?;
        let ended = self.hark.ends().await?;
        ensure!(ended.success(), "it ended with {ended}\n{}", self.hark.state());
        let trace = self.hark.trace();
        let faults = self.expected.faults(&Said::read(&self.hark.stderr()), &trace);
        ensure!(faults.is_empty(), "{}\n{}", faults.join("\n"), self.hark.state());
        Ok(())
    }

    /// The metrics must say how the host learns of changes.
    async fn is_watched_as_it_must(&self) -> Result<()> {
        let scrape = Scrape::parse(&get(self.admin, "/metrics").await?.body)?;
        let (by, reason) = self.told;
        let found = scrape.get("hark_plugins_folder_watch", &[("by", by), ("reason", reason)]);
        let all = scrape.sum("hark_plugins_folder_watch", &[]);
        ensure!((found, all) == (Some(1.0), Some(1.0)), "by {by} ({reason}): {found:?} of {all:?}");
        Ok(())
    }

    /// Waits until the subject runs as it is to, and goes on for a while.
    async fn is_as_expected(&self) {
        self.runs_hash(SUBJECT, &self.expected.sha256, self.expected.generation).await;
        self.flows().await;
    }

    /// A plugin's document in `/api/plugins`.
    pub async fn document(&self, plugin: &str) -> Option<Value> {
        self.documents().await?.into_iter().find(|one| one["plugin"] == plugin)
    }

    /// The documents of `/api/plugins`.
    pub async fn documents(&self) -> Option<Vec<Value>> {
        let answer: Value = serde_json::from_str(&get(self.admin, "/api/plugins").await.ok()?.body).ok()?;
        answer["plugins"].as_array().cloned()
    }
}
