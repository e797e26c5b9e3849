//! What the cases share: a cluster, a state folder that outlives the host, and what the host says of a plugin.
//!
//! Invariant: a file's content is told apart by its hash, as the host tells it.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use hark_tests::cluster::Cluster;
use hark_tests::eventually;
use hark_tests::guests::{fixture, sha256};
use hark_tests::hark::{Hark, Setup};
use hark_tests::http::get;
use hark_tests::prometheus::Scrape;
use hark_tests::trace::Line;
use serde_json::Value;
use tempfile::TempDir;

/// A good build, a second one, one that breaks at everything, and others that do.
pub(crate) const GOOD: &str = "counter-v1";
pub(crate) const BETTER: &str = "counter-v2";
pub(crate) const BAD: &str = "trap-always";
pub(crate) const SPINS: &str = "spin";
pub(crate) const POISONED: &str = "trap-on-poison";

/// See the file's head.
pub(crate) struct Stage<'a> {
    pub(crate) cluster: &'a Cluster,
    state: TempDir,
    /// What `[defaults]` says besides.
    defaults: String,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(cluster: &'a Cluster, defaults: &str) -> Result<Self> {
        Ok(Self { cluster, state: TempDir::new()?, defaults: defaults.to_owned() })
    }

    pub(crate) fn config(&self, more: &str) -> String {
        format!("[host]\nstate_dir = {:?}\n[defaults]\n{}\n{more}\n", self.state.path(), self.defaults)
    }

    /// A host with these builds, by the plugins' names.
    pub(crate) fn host(&self, plugins: &[(&str, &str)]) -> Result<Hark> {
        let mut setup = Setup::new()?.config(&self.config(""))?;
        for (name, build) in plugins {
            setup = setup.plugin(name, &fixture(build))?;
        }
        setup.run(self.cluster.kubeconfig())
    }

    /// A host with two objects, whose `p` was rolled back.
    pub(crate) async fn rolled_back(&self) -> Result<Hark> {
        self.create(&["a", "b"]).await?;
        let hark = self.host(&[("p", GOOD)])?;
        answers(&hark, "p", 2).await;
        hark.save("p", &fixture(BAD))?;
        stands(&hark, "p", "rolled-back", GOOD).await;
        Ok(hark)
    }

    /// Creates objects, and gives what is to be told of them: key and version.
    pub(crate) async fn create(&self, names: &[&str]) -> Result<Vec<(String, String)>> {
        let mut told = Vec::new();
        for name in names {
            let (_, version) = self.cluster.create(name, "0").await?;
            told.push((format!("default/{name}"), version));
        }
        Ok(told)
    }

    /// The folder of the kept versions, once there is one.
    pub(crate) fn kept(&self) -> Option<PathBuf> {
        let clusters = std::fs::read_dir(self.state.path()).ok()?;
        clusters.filter_map(Result::ok).map(|entry| entry.path().join("kept")).find(|path| path.is_dir())
    }

    /// What is written down.
    pub(crate) fn document(&self) -> Value {
        let text = self.kept().and_then(|kept| std::fs::read_to_string(kept.join("versions.json")).ok());
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// Waits until it is written down that this build of `p` is good, and that is refused.
    pub(crate) async fn writes(&self, hark: &Hark, good: &str, refused: Option<&str>) {
        let (good, refused) = (Value::from(hash(good)), refused.map_or(Value::Null, |one| hash(one).into()));
        eventually(
            "what is written down",
            || format!("{}\n{}", self.document(), hark.state()),
            async || {
                let p = &self.document()["plugins"]["p"];
                (p["good"]["sha256"] == good && p["rolled_back"]["sha256"] == refused).then_some(())
            },
        )
        .await;
    }

    /// No event was given up.
    pub(crate) fn has_no_dead_letter(&self) -> Result<()> {
        let clusters = std::fs::read_dir(self.state.path())?;
        for cluster in clusters {
            let letters = cluster?.path().join("dead-letters.jsonl");
            ensure!(!letters.exists(), "{}", std::fs::read_to_string(letters)?);
        }
        Ok(())
    }
}

/// The content's hash.
pub(crate) fn hash(build: &str) -> String {
    sha256(&std::fs::read(fixture(build)).expect("a fixture"))
}

/// As lines have it.
pub(crate) fn short(build: &str) -> String {
    hash(build)[..12].to_owned()
}

/// What `/api/plugins` says of a plugin.
pub(crate) async fn shown(hark: &Hark, plugin: &str) -> Result<Value> {
    let document: Value = serde_json::from_str(&get(hark.admin().await, "/api/plugins").await?.body)?;
    let plugins = document["plugins"].as_array().context("an array")?;
    Ok(plugins.iter().find(|one| one["plugin"] == plugin).cloned().unwrap_or_default())
}

/// Waits until a plugin stands so, and runs this build; gives what is said of it then.
pub(crate) async fn stands(hark: &Hark, plugin: &str, state: &str, build: &str) -> Value {
    let sha256 = Value::from(hash(build));
    eventually(
        &format!("{plugin} to be {state} with {build}"),
        || hark.state(),
        async || {
            let shown = shown(hark, plugin).await.expect("an answer");
            let is_so = shown["rollback"]["state"] == state && shown["running"]["sha256"] == sha256;
            is_so.then_some(shown)
        },
    )
    .await
}

/// The metrics `hark_plugin_trial`, `hark_plugin_rollbacks_total` and `hark_plugin_refused` of a plugin.
pub(crate) async fn metrics(hark: &Hark, plugin: &str) -> Result<[Option<f64>; 3]> {
    let scrape = Scrape::parse(&get(hark.admin().await, "/metrics").await?.body)?;
    Ok(["hark_plugin_trial", "hark_plugin_rollbacks_total", "hark_plugin_refused"]
        .map(|name| scrape.get(name, &[("plugin", plugin)])))
}

/// The line of `/readyz?verbose` about a plugin; the host is ready.
pub(crate) async fn ready(hark: &Hark, plugin: &str) -> Result<String> {
    let answer = get(hark.admin().await, "/readyz?verbose").await?;
    ensure!(answer.status == 200, "{}", answer.body);
    let line = answer.body.lines().find(|line| line.contains(&format!("]plugin {plugin} ")));
    Ok(line.with_context(|| answer.body.clone())?.to_owned())
}

/// What a plugin was told of our objects, and answered: key and version, with the generation.
pub(crate) fn answered(trace: &[Line], plugin: &str) -> Vec<(u64, String, String)> {
    ours(trace, plugin)
        .filter(|line| line.outcome == "ok")
        .map(|line| (line.generation, line.key.clone(), line.rv.clone()))
        .collect()
}

/// How often each generation of a plugin broke at our objects.
pub(crate) fn breaks(trace: &[Line], plugin: &str) -> Vec<u64> {
    let broke = |line: &&Line| matches!(line.outcome.as_str(), "trap" | "timeout");
    ours(trace, plugin).filter(broke).map(|line| line.generation).collect()
}

fn ours<'a>(trace: &'a [Line], plugin: &'a str) -> impl Iterator<Item = &'a Line> {
    trace.iter().filter(move |line| line.plugin == plugin && line.key.starts_with("default/"))
}

/// Waits until a plugin has answered so many events of our objects.
pub(crate) async fn answers(hark: &Hark, plugin: &str, count: usize) -> Vec<Line> {
    let what = format!("{count} answers of {plugin}");
    hark.traces(&what, |trace| answered(trace, plugin).len() >= count).await
}

/// How many lines of standard error have all of these texts.
pub(crate) fn lines(hark: &Hark, texts: &[&str]) -> usize {
    hark.stderr().lines().filter(|line| texts.iter().all(|text| line.contains(text))).count()
}

/// Waits until one line of standard error has all of these texts: the log may be a little behind what is shown. There is no
/// second one by then.
pub(crate) async fn says_once(hark: &Hark, texts: &[&str]) {
    let said = async || (lines(hark, texts) > 0).then_some(());
    eventually(&format!("{texts:?} in a line"), || hark.state(), said).await;
    assert_eq!(lines(hark, texts), 1, "{texts:?}: {}", hark.stderr());
}
