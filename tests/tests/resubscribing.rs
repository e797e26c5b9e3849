//! Reloads whose subscriptions differ, with the built binary: what the API server is asked for, and what becomes of what
//! waits.
//!
//! The server notes each request. Invariant: the builds differ in what they subscribe to, and in nothing else.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use hark_apiserver::{Config as ServerConfig, Handle, Server};
use hark_tests::eventually;
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup};
use hark_tests::http::get;
use hark_tests::prometheus::Scrape;
use hark_tests::reloads::history::Kind;
use hark_tests::reloads::plan::{Mood, Part, Plan, Watch};
use hark_tests::trace::Line;
use serde_json::{Value, json};

/// Requests that were made of the kinds that the builds watch: `list configmaps`, `watch configmaps`.
type Requests = Arc<Mutex<Vec<String>>>;

struct Case {
    server: Handle,
    requests: Requests,
    hark: Hark,
    planned: Vec<u8>,
    builds: u32,
}

fn build(planned: &[u8], number: u32, watches: Vec<Watch>, mood: Mood) -> Result<Vec<u8>> {
    Plan { number, watches, mood, lingers: 0, replays: Some(false), concurrency: None, memory: None }
        .write_into(planned)
}

impl Case {
    /// A server with two ConfigMaps and a ServiceAccount, and a plugin with these subscriptions.
    async fn start(watches: Vec<Watch>, mood: Mood) -> Result<Self> {
        let (server, requests) = (Server::start(ServerConfig::default()).await?, Requests::default());
        for (kind, name) in [("ConfigMap", "a"), ("ConfigMap", "b"), ("ServiceAccount", "robot")] {
            server.create(json!({"apiVersion": "v1", "kind": kind,
                "metadata": {"name": name, "namespace": "default", "labels": {"watch": "yes"}}}))?;
        }
        let noted = requests.clone();
        server.faults().hold(move |request| {
            if ["configmaps", "serviceaccounts"].contains(&request.resource.as_str()) {
                noted.lock().expect("requests").push(format!("{} {}", request.verb, request.resource));
            }
            false
        });
        let planned = std::fs::read(fixture("planned"))?;
        let kubeconfig = tempfile::NamedTempFile::new()?;
        server.write_kubeconfig(kubeconfig.path())?;
        let hark =
            Setup::new()?.content("subject", &build(&planned, 0, watches, mood)?)?.run(kubeconfig.path())?;
        hark.says(&["subject started: "]).await;
        Ok(Self { server, requests, hark, planned, builds: 0 })
    }

    /// Saves another build, and waits until it has taken over; gives the line that says so.
    async fn reload(&mut self, watches: Vec<Watch>, mood: Mood) -> Result<String> {
        self.builds += 1;
        let beside = self.hark.folder().join("subject.new");
        std::fs::write(&beside, build(&self.planned, self.builds, watches, mood)?)?;
        std::fs::rename(beside, self.hark.plugin_path("subject"))?;
        let announced = format!("(planned {})", self.builds);
        let said = async || {
            let stderr = self.hark.stderr();
            stderr
                .lines()
                .find(|line| line.contains(" reloaded: ") && line.contains(&announced))
                .map(str::to_owned)
        };
        Ok(eventually(&announced, || self.hark.state(), said).await)
    }

    fn asked(&self) -> Vec<String> {
        let mut asked = self.requests.lock().expect("requests").clone();
        asked.sort();
        asked
    }

    async fn document(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_str(&get(self.hark.admin().await, path).await?.body)?)
    }

    async fn informers(&self) -> Result<Vec<(String, u64)>> {
        let document = self.document("/api/informers").await?;
        let all = document["informers"].as_array().context("an array")?;
        let text = |one: &Value| one["kind"].as_str().unwrap_or_default().to_owned();
        Ok(all.iter().map(|one| (text(one), one["lists"].as_u64().unwrap_or_default())).collect())
    }
}

/// What was told, by version of the plugin and subscription: `add a`, in order.
fn told(trace: &[Line], generation: u64, subscription: &str) -> Vec<String> {
    let ours = trace.iter().filter(|line| line.generation == generation && line.subscription == subscription);
    ours.map(|line| format!("{} {}", line.op, line.key)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_asks_for_objects_that_are_there_already_asks_the_server_for_nothing() -> Result<()> {
    let one = || Watch::of("one", Kind::ConfigMap);
    let mut case = Case::start(vec![one()], Mood::Good).await?;
    case.hark.traces("the initial adds", |trace| told(trace, 1, "one").len() == 2).await;
    let before = case.asked();
    assert!(before.iter().all(|request| request.ends_with(" configmaps")), "{before:?}");
    let other = || Watch { labelled: true, ..Watch::of("two", Kind::ConfigMap) };
    let steps: [(Vec<Watch>, &str); 6] = [
        (vec![Watch { changed: vec![Part::Text], ..one() }], "1 kept, 0 added, 0 removed"),
        (vec![Watch { fields: vec![Part::More], ..one() }], "1 kept, 0 added, 0 removed"),
        (vec![Watch { resync: 3600, ..one() }], "1 kept, 0 added, 0 removed"),
        (vec![one(), other()], "1 kept, 1 added, 0 removed"),
        (vec![other(), one()], "2 kept, 0 added, 0 removed"),
        (vec![Watch { unless_off: true, ..one() }, other()], "1 kept, 1 added, 1 removed"),
    ];
    for (watches, want) in steps {
        let line = case.reload(watches, Mood::Good).await?;
        assert!(line.contains(want), "{want}: {line}");
    }
    case.server.create(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "default", "labels": {"watch": "yes"}}}))?;
    let trace = case
        .hark
        .traces("the last change at both", |trace| {
            let told = |name| told(trace, 7, name).contains(&"add default/c".into());
            told("one") && told("two")
        })
        .await;
    let both = ["add default/a", "add default/b"];
    for generation in 2..=4 {
        assert_eq!(told(&trace, generation, "one"), [""; 0], "it goes on with its queue");
    }
    assert_eq!(told(&trace, 5, "one"), [""; 0]);
    assert_eq!(told(&trace, 5, "two"), both, "read from the cache");
    assert_eq!(
        (told(&trace, 6, "one"), told(&trace, 6, "two")),
        (vec![], vec![]),
        "only their order changed"
    );
    assert_eq!(told(&trace, 7, "one"), [&both[..], &["add default/c"]].concat(), "another set of objects");
    assert_eq!(told(&trace, 7, "two"), ["add default/c"]);
    assert_eq!(case.asked(), before, "nothing was asked of the server");
    assert_eq!(case.informers().await?, [("ConfigMap".into(), 1)]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_subscription_that_is_gone_is_dropped_and_counted_and_the_rest_goes_on() -> Result<()>
{
    let (one, two) = (|| Watch::of("one", Kind::ConfigMap), || Watch::of("two", Kind::ServiceAccount));
    // Each event is answered with a retry, so all of them wait.
    let mut case = Case::start(vec![one(), two()], Mood::Retries(1)).await?;
    case.hark
        .traces("a retry of everything", |trace| {
            let tried = |name, objects: usize| {
                let ours = trace.iter().filter(|line| line.subscription == name && line.outcome == "retry");
                ours.map(|line| &line.key).collect::<BTreeSet<_>>().len() == objects
            };
            tried("one", 2) && tried("two", 1)
        })
        .await;
    let before = case.asked();
    let line = case.reload(vec![one()], Mood::Good).await?;
    assert!(line.contains("1 kept, 0 added, 1 removed, 1 waiting events dropped"), "{line}");
    let trace = case.hark.traces("what waited", |trace| told(trace, 2, "one").len() == 2).await;
    assert!(trace.iter().all(|line| line.generation == 1 || line.subscription == "one"), "{trace:?}");
    let mut keys = told(&trace, 2, "one");
    keys.sort();
    assert_eq!(keys, ["add default/a", "add default/b"], "each once, although nothing is told again");
    let scrape = Scrape::parse(&get(case.hark.admin().await, "/metrics").await?.body)?;
    assert_eq!(scrape.get("hark_listener_dropped_total", &[("plugin", "subject")]), Some(1.0));
    assert_eq!(case.informers().await?, [("ConfigMap".into(), 1)], "nobody wants the other any more");
    // Wanted again, it begins anew; that one does list.
    let line = case.reload(vec![one(), two()], Mood::Good).await?;
    assert!(line.contains("1 kept, 1 added, 0 removed"), "{line}");
    case.hark.traces("it again", |trace| told(trace, 3, "two") == ["add default/robot"]).await;
    let maps = |asked: Vec<String>| asked.into_iter().filter(|one| one.ends_with(" configmaps")).count();
    assert_eq!(maps(case.asked()), maps(before), "and the one that was there all the time does not");
    Ok(())
}
