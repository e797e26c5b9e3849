//! Quarantine with the real binary: a plugin that breaks at everything is left alone and says so everywhere, its
//! neighbour notices nothing, and it recovers by a probe or by a good build (design section 5).

use anyhow::{Context, Result, ensure};
use hark_apiserver::{Config as ServerConfig, Handle, Server};
use hark_tests::eventually;
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup};
use hark_tests::http::get;
use hark_tests::prometheus::Scrape;
use serde_json::{Value, json};

struct Case {
    server: Handle,
    hark: Hark,
}

impl Case {
    async fn start(setup: Setup) -> Result<Self> {
        let server = Server::start(ServerConfig::default()).await?;
        let kubeconfig = tempfile::NamedTempFile::new()?;
        server.write_kubeconfig(kubeconfig.path())?;
        let hark = setup.run(kubeconfig.path())?;
        hark.admin().await;
        Ok(Self { server, hark })
    }

    fn put(&self, namespace: &str, name: &str) -> Result<()> {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
        });
        self.server.apply(object).map(drop).map_err(|error| anyhow::anyhow!("{error:?}"))
    }

    async fn get(&self, path: &str) -> String {
        get(self.hark.admin().await, path).await.expect("an answer").body
    }

    /// `health` of a plugin in `/api/plugins`.
    async fn health(&self, plugin: &str) -> Value {
        let document: Value = serde_json::from_str(&self.get("/api/plugins").await).expect("JSON");
        let plugins = document["plugins"].as_array().expect("an array");
        let found = plugins.iter().find(|one| one["plugin"] == plugin);
        found.map_or(Value::Null, |found| found["health"].clone())
    }

    /// Waits until a plugin is in this state, and says how it is then.
    async fn is(&self, plugin: &str, state: &str) -> Value {
        eventually(
            &format!("{plugin} to be {state}"),
            || self.hark.state(),
            async || Some(self.health(plugin).await).filter(|health| health["state"] == state),
        )
        .await
    }

    /// Waits until the metric of a plugin's state is 1 for this one, and 0 for all others.
    async fn shows(&self, plugin: &str, state: &str) {
        let condition = async || {
            let scrape = Scrape::parse(&self.get("/metrics").await).expect("metrics");
            let of = |state| scrape.get("hark_plugin_state", &[("plugin", plugin), ("state", state)]);
            let sum = scrape.sum("hark_plugin_state", &[("plugin", plugin)]);
            (of(state) == Some(1.0) && sum == Some(1.0)).then_some(())
        };
        eventually(&format!("the metric of {plugin} to say {state}"), || self.hark.state(), condition).await;
    }

    fn lines(&self, text: &str) -> usize {
        self.hark.stderr().lines().filter(|line| line.contains(text)).count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_always_traps_is_quarantined_beside_a_good_one_until_a_good_build_is_saved()
-> Result<()> {
    let config = "[plugins.bad.limits]\nquarantine_after = 3\n";
    let setup = Setup::new()?.config(config)?;
    let setup = setup.plugin("bad", &fixture("trap-always"))?.plugin("good", &fixture("counter-v1"))?;
    let case = Case::start(setup).await?;
    let names = ["m0", "m1", "m2", "m3", "m4"];
    for name in names {
        case.put("default", name)?;
    }
    let health = case.is("bad", "quarantined").await;
    let cause = health["cause"].as_str().context("a cause")?;
    ensure!(
        cause.starts_with("add default/m") && cause.contains(": trap: wasm trap: wasm `unreachable`"),
        "{cause}"
    );
    ensure!(health["since"].is_string() && health["until"].is_string(), "{health}");
    assert_eq!(health["quarantines"], 1);
    case.shows("bad", "quarantined").await;
    let said = [
        "bad: configmaps add default/m0: trap, attempt 1: wasm trap: wasm `unreachable` instruction executed in ",
        "; its instance is thrown away, with what it held in memory",
        "bad: quarantined for 1.",
        ": 3 different events broke it, and none was handled between them",
        "bad: quarantine: trying add default/m3",
        "bad: quarantined for another 2.",
    ];
    case.hark.says(&said).await;
    assert_eq!(case.lines("bad: quarantined for 1."), 1, "{}", case.hark.stderr());
    let ready = get(case.hark.admin().await, "/readyz?verbose").await?;
    ensure!(ready.status == 200, "it holds nothing back: {}", ready.body);
    let is_shown = |line: &str| {
        line.starts_with("[-]plugin bad running sha256:") && line.contains("; in quarantine for ")
    };
    ensure!(ready.body.lines().any(is_shown), "{}", ready.body);

    let good = case.hark.traces("all objects at the good plugin", |trace| {
        names.iter().all(|name| trace.iter().any(|line| line.plugin == "good" && line.key.ends_with(name)))
    });
    let good: Vec<_> = good.await.into_iter().filter(|line| line.plugin == "good").collect();
    ensure!(good.len() == names.len() && good.iter().all(|line| line.outcome == "ok"), "{good:?}");
    assert_eq!(case.health("good").await["state"], "healthy");

    case.hark.save("bad", &fixture("counter-v2"))?;
    case.is("bad", "healthy").await;
    case.shows("bad", "healthy").await;
    case.hark.says(&["bad: quarantine ends after "]).await;
    let mended = |line: &&hark_tests::trace::Line| line.plugin == "bad" && line.generation == 2;
    let trace = case
        .hark
        .traces("all objects at the new build", |trace| trace.iter().filter(mended).count() == names.len());
    let told: Vec<_> = trace.await.into_iter().filter(|line| mended(&line)).collect();
    ensure!(told.iter().all(|line| line.initial && line.outcome == "ok"), "{told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_event_is_the_probe_and_ends_quarantine() -> Result<()> {
    let config = "[defaults.limits]\nquarantine_after = 2\n";
    let setup = Setup::new()?.config(config)?.plugin("p", &fixture("trap-on-poison"))?;
    let case = Case::start(setup).await?;
    case.put("default", "poison")?;
    case.is("p", "failing").await;
    case.put("kube-system", "poison")?;
    case.is("p", "quarantined").await;
    case.put("default", "good")?;
    let trace =
        case.hark.traces("the good event", |trace| trace.iter().any(|line| line.outcome == "ok")).await;
    let good = trace.iter().find(|line| line.outcome == "ok").context("one")?;
    assert_eq!((good.key.as_str(), good.attempt), ("default/good", 1));
    case.hark.says(&["p: recovered: quarantine ends after "]).await;
    Ok(())
}
