//! The whole way of an event, with the built binary, on the real API server and on the embedded one: what the
//! server does must be what the trace says, while plugins are swapped, the server is killed, and other plugins
//! misbehave.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use hark_tests::cluster::Cluster;
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup};
use hark_tests::on_both_servers;
use hark_tests::trace::{Line, done_by_key, view};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

on_both_servers! {
    swapped_five_times_with_continue_nothing_is_lost_or_doubled
    swapped_five_times_with_replay_each_generation_sees_the_server
    deletes_during_an_outage_arrive_with_reason_unknown
    a_trapping_and_a_spinning_plugin_cost_a_good_one_nothing
}

/// What the server was made to do, object by object, in the words of [`Line::told`].
#[derive(Default)]
struct History {
    keys: BTreeMap<String, Vec<String>>,
    /// Objects that exist: name to uid and version.
    alive: BTreeMap<String, (String, String)>,
}

impl History {
    async fn create(&mut self, cluster: &Cluster, name: &str) -> Result<()> {
        let (uid, version) = cluster.create(name, "0").await?;
        self.tell(name, format!("add {version}"));
        self.alive.insert(name.to_owned(), (uid, version));
        Ok(())
    }

    async fn update(&mut self, cluster: &Cluster, name: &str, text: &str) -> Result<()> {
        let (uid, version) = cluster.update(name, text).await?;
        let old = self.alive.insert(name.to_owned(), (uid, version.clone()));
        let (_, old) = old.context("an object that exists")?;
        // An update that changes nothing is none for the server either.
        if old != version {
            self.tell(name, format!("update {old}->{version}"));
        }
        Ok(())
    }

    async fn delete(&mut self, cluster: &Cluster, name: &str) -> Result<()> {
        cluster.delete(name).await?;
        let (uid, _) = self.alive.remove(name).context("an object that exists")?;
        self.tell(name, format!("delete {uid}"));
        Ok(())
    }

    fn tell(&mut self, name: &str, told: String) {
        self.keys.entry(format!("default/{name}")).or_default().push(told);
    }

    fn events(&self) -> usize {
        self.keys.values().map(Vec::len).sum()
    }

    /// Does something to an object chosen by chance.
    async fn random(&mut self, cluster: &Cluster, chance: &mut StdRng, number: usize) -> Result<()> {
        let name = format!("map-{:03}", chance.random_range(0..220));
        if !self.alive.contains_key(&name) {
            self.create(cluster, &name).await
        } else if chance.random_bool(0.3) {
            self.delete(cluster, &name).await
        } else {
            self.update(cluster, &name, &number.to_string()).await
        }
    }
}

async fn populate(cluster: &Cluster, count: usize) -> Result<History> {
    let mut history = History::default();
    for batch in (0..count).collect::<Vec<_>>().chunks(20) {
        let created = batch.iter().map(|number| async move {
            let name = format!("map-{number:03}");
            cluster.create(&name, "0").await.map(|created| (name, created))
        });
        for (name, (uid, version)) in try_join_all(created).await? {
            history.tell(&name, format!("add {version}"));
            history.alive.insert(name, (uid, version));
        }
    }
    Ok(history)
}

/// Lines about our namespace that ended well.
fn done(trace: &[Line], plugin: &str) -> BTreeMap<String, Vec<Line>> {
    let mut keys = done_by_key(trace, plugin);
    keys.retain(|key, _| key.starts_with("default/"));
    keys
}

fn count(keys: &BTreeMap<String, Vec<Line>>) -> usize {
    keys.values().map(Vec::len).sum()
}

fn told(keys: BTreeMap<String, Vec<Line>>) -> BTreeMap<String, Vec<String>> {
    keys.into_iter().map(|(key, lines)| (key, lines.iter().map(Line::told).collect())).collect()
}

/// The builds that follow the first one.
const BUILDS: [&str; 5] = ["counter-v2", "counter-v3", "counter-v4", "counter-v5", "counter-v1"];

async fn reloaded(hark: &Hark, times: usize) {
    hark_tests::eventually(
        &format!("{times} reloads"),
        || hark.state(),
        async || (hark.stderr().matches("counter reloaded: ").count() >= times).then_some(()),
    )
    .await;
}

async fn swapped_five_times_with_continue_nothing_is_lost_or_doubled(cluster: &mut Cluster) -> Result<()> {
    let mut history = populate(cluster, 200).await?;
    let hark = Setup::new()?
        .config("[defaults]\non_reload = \"continue\"\n")?
        .plugin("counter", &fixture("counter-v1"))?
        .run(cluster.kubeconfig())?;
    let trace = hark.traces("200 initial adds", |trace| count(&done(trace, "counter")) == 200).await;
    for line in done(&trace, "counter").values().flatten() {
        assert!(line.initial && line.op == "add" && line.generation == 1, "{line:?}");
    }
    let mut chance = StdRng::seed_from_u64(7);
    for number in 0..300 {
        if number % 50 == 0 {
            reloaded(&hark, number / 50).await;
            hark.save("counter", &fixture(BUILDS[number / 50 % 5]))?;
        }
        history.random(cluster, &mut chance, number).await?;
    }
    reloaded(&hark, 6).await;
    history.create(cluster, "last").await?;
    let events = history.events();
    let trace = hark.traces("every event", |trace| count(&done(trace, "counter")) >= events).await;
    assert_eq!(told(done(&trace, "counter")), history.keys);
    let ours: Vec<&Line> = trace.iter().filter(|line| line.key.starts_with("default/")).collect();
    assert!(ours.iter().all(|line| line.attempt == 1), "nothing failed, so nothing was tried twice");
    let sequences: BTreeSet<u64> = ours.iter().map(|line| line.seq).collect();
    assert_eq!(sequences.len(), events, "each event has a number of its own");
    let later = ours.iter().filter(|line| line.generation > 1);
    assert!(later.clone().all(|line| !line.initial), "no replay with continue");
    assert_eq!(later.map(|line| line.generation).max(), Some(7), "the last build took its turn");
    assert_eq!(view(ours), cluster.view().await?);
    Ok(())
}

async fn swapped_five_times_with_replay_each_generation_sees_the_server(cluster: &mut Cluster) -> Result<()> {
    let mut history = populate(cluster, 60).await?;
    let hark = Setup::new()?
        .config("[plugins.counter]\non_reload = \"replay\"\n")?
        .plugin("counter", &fixture("counter-v1"))?
        .run(cluster.kubeconfig())?;
    let mut chance = StdRng::seed_from_u64(11);
    for (generation, build) in (1..).zip(BUILDS.iter().map(Some).chain([None])) {
        for number in 0..25 {
            history.random(cluster, &mut chance, number).await?;
        }
        let server = cluster.view().await?;
        let of_generation = |trace: &[Line]| {
            let ours = trace.iter().filter(|line| line.generation == generation);
            view(ours.filter(|line| line.key.starts_with("default/")))
        };
        let what = format!("generation {generation} to see the server's objects");
        let trace = hark.traces(&what, |trace| of_generation(trace) == server).await;
        check_generation(&trace, generation, &history)?;
        if let Some(build) = build {
            hark.save("counter", &fixture(build))?;
        }
    }
    Ok(())
}

/// What one generation was told of an object is a piece of the object's history: it begins with an add of some
/// state (or ends what an earlier generation knew), and leaves out nothing after it.
fn check_generation(trace: &[Line], generation: u64, history: &History) -> Result<()> {
    let of_generation: Vec<Line> =
        trace.iter().filter(|line| line.generation == generation).cloned().collect();
    for (key, lines) in done(&of_generation, "counter") {
        let told: Vec<String> = lines.iter().map(Line::told).collect();
        let all = history.keys.get(&key).with_context(|| format!("{key} was never made"))?;
        let version = |told: &String| told.rsplit(['>', ' ']).next().map(str::to_owned);
        let first = told.first().and_then(version);
        let place = all.iter().position(|event| version(event) == first);
        let place = place.with_context(|| format!("{key}: {told:?} is no part of {all:?}"))?;
        assert_eq!(told[1..], all[place + 1..], "{key} in generation {generation} after its first event");
        assert!(told[0].starts_with("add ") || told[0].starts_with("delete "), "{key}: {told:?}");
    }
    Ok(())
}

async fn deletes_during_an_outage_arrive_with_reason_unknown(cluster: &mut Cluster) -> Result<()> {
    let mut history = populate(cluster, 20).await?;
    let hark = Setup::new()?.plugin("counter", &fixture("counter-v1"))?.run(cluster.kubeconfig())?;
    hark.traces("20 initial adds", |trace| count(&done(trace, "counter")) == 20).await;
    // Seen by the watch, so that the versions of the watch and not only of the list are known.
    history.update(cluster, "map-019", "before").await?;
    hark.traces("the update", |trace| count(&done(trace, "counter")) == 21).await;
    cluster.cut().await;
    for name in ["map-000", "map-001", "map-002", "map-003", "map-004", "map-005"] {
        history.delete(cluster, name).await?;
    }
    history.create(cluster, "map-005").await?;
    history.update(cluster, "map-006", "during").await?;
    history.create(cluster, "map-100").await?;
    cluster.kill_and_restart().await?;
    cluster.mend().await?;
    let events = history.events();
    let trace =
        hark.traces("everything that was missed", |trace| count(&done(trace, "counter")) >= events).await;
    let done = done(&trace, "counter");
    for key in (0..6).map(|number| format!("default/map-00{number}")) {
        let reason = done[&key].iter().find(|line| line.op == "delete").and_then(|line| line.reason.clone());
        assert_eq!(reason.as_deref(), Some("unknown"), "{key}");
    }
    for line in done.values().flatten().filter(|line| line.rv == history.alive["map-100"].1) {
        assert!(!line.initial, "found by a relist, not there when the subscription began");
    }
    assert_eq!(told(done), history.keys);
    Ok(())
}

async fn a_trapping_and_a_spinning_plugin_cost_a_good_one_nothing(cluster: &mut Cluster) -> Result<()> {
    let mut history = populate(cluster, 30).await?;
    let mut hark = Setup::new()?
        .config("[plugins.spins.limits]\ndeadline = \"100ms\"\nmax_attempts = 3\n")?
        .plugin("good", &fixture("counter-v1"))?
        .plugin("traps", &fixture("trap-every-third"))?
        .plugin("spins", &fixture("spin"))?
        .run(cluster.kubeconfig())?;
    let mut chance = StdRng::seed_from_u64(13);
    hark.traces("30 initial adds", |trace| count(&done(trace, "good")) == 30).await;
    for number in 0..100 {
        history.random(cluster, &mut chance, number).await?;
    }
    let events = history.events();
    let trace = hark
        .traces("every event at the good plugin, a trap and a time-out", |trace| {
            let ended = |plugin: &str, outcome: &str| {
                trace.iter().any(|line| line.plugin == plugin && line.outcome == outcome)
            };
            count(&done(trace, "good")) >= events && ended("traps", "trap") && ended("spins", "timeout")
        })
        .await;
    assert_eq!(told(done(&trace, "good")), history.keys);
    assert!(hark.runs()?, "{}", hark.state());
    let server = cluster.view().await?;
    hark.traces("the trapping plugin to get everything, trap by trap", |trace| {
        let ours = done(trace, "traps");
        view(ours.values().flatten()) == server
    })
    .await;
    hark.signal("TERM")?;
    assert!(hark.ends().await?.success(), "{}", hark.state());
    Ok(())
}
