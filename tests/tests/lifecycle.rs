//! A plugin's memory over reloads, with the built binary and a guest in C that counts its events: what it is asked, in
//! which order, and what follows where it cannot. The same on the embedded and on the real API server.
//!
//! What the sandbox makes of each fault is in the sandbox's own tests, how the listener hands over in the informer's;
//! here is that the host puts them together. Invariant: what a guest says is read from the log, line by line.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use hark_tests::cluster::{Cluster, Kind};
use hark_tests::eventually;
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup};
use hark_tests::http::get;
use hark_tests::on_both_servers;
use hark_tests::prometheus::Scrape;
use hark_tests::trace::Line;
use serde_json::Value;

on_both_servers! {
    a_count_goes_on_over_twenty_reloads_under_a_stream
    what_cannot_be_carried_over_is_a_fresh_start_with_a_replay
}

/// What a guest said, plugin by plugin: `v1 start first`, `v1 add default/a 7 count 1`.
fn said(hark: &Hark) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in hark.stderr().lines().filter(|line| line.contains(" plugin=")) {
        let field = |name: &str| Some(line.split_once(name)?.1.split_whitespace().next()?.trim_matches('"'));
        let words =
            line.split_whitespace().skip_while(|word| !matches!(*word, "v1" | "v2" | "v3" | "v4" | "v5"));
        let words: Vec<_> = words.take_while(|word| !word.contains('=')).collect();
        if let (Some(plugin), false) = (field(" plugin="), words.is_empty()) {
            all.entry(plugin.to_owned()).or_default().push(words.join(" "));
        }
    }
    all
}

/// The same of one plugin, without its events.
fn asides(hark: &Hark, plugin: &str) -> Vec<String> {
    let said = said(hark).remove(plugin).unwrap_or_default();
    said.into_iter().filter(|line| !line.contains(" count ")).collect()
}

/// Waits until a plugin has said so much besides its events, and gives it.
async fn hears(hark: &Hark, plugin: &str, count: usize) -> Vec<String> {
    eventually(
        &format!("{count} lines of {plugin}"),
        || format!("{:?}\n{}", asides(hark, plugin), hark.state()),
        async || Some(asides(hark, plugin)).filter(|said| said.len() >= count),
    )
    .await
}

/// The lines that announce reloads of a plugin.
fn reloads(hark: &Hark, plugin: &str) -> Vec<String> {
    let announced = format!("{plugin} reloaded: ");
    hark.stderr().lines().filter(|line| line.contains(&announced)).map(str::to_owned).collect()
}

async fn reloaded(hark: &Hark, plugin: &str, times: usize) -> Vec<String> {
    eventually(
        &format!("{times} reloads of {plugin}"),
        || hark.state(),
        async || Some(reloads(hark, plugin)).filter(|lines| lines.len() >= times),
    )
    .await
}

async fn plugin_document(hark: &Hark, plugin: &str) -> Result<Value> {
    let answer = get(hark.admin().await, "/api/plugins").await?;
    let mut document: Value = serde_json::from_str(&answer.body)?;
    let all = document["plugins"].as_array_mut().context("an array")?;
    let place = all.iter().position(|one| one["plugin"] == plugin).context("the plugin")?;
    Ok(all.swap_remove(place))
}

async fn hand_overs(hark: &Hark, plugin: &str) -> Result<[Option<f64>; 3]> {
    let answer = get(hark.admin().await, "/metrics").await?;
    let scrape = Scrape::parse(&answer.body)?;
    let count =
        |result| scrape.get("hark_plugin_state_handovers_total", &[("plugin", plugin), ("result", result)]);
    Ok(["kept", "none", "failed"].map(count))
}

/// What a plugin was told of the namespace that is the test's own.
fn ours<'a>(trace: &'a [Line], plugin: &str) -> Vec<&'a Line> {
    trace.iter().filter(|line| line.plugin == plugin && line.key.starts_with("default/")).collect()
}

/// The same, of one generation.
fn generation<'a>(trace: &'a [Line], plugin: &str, number: u64) -> Vec<&'a Line> {
    ours(trace, plugin).into_iter().filter(|line| line.generation == number).collect()
}

async fn a_count_goes_on_over_twenty_reloads_under_a_stream(cluster: &mut Cluster) -> Result<()> {
    const RELOADS: usize = 20;
    let hark = Setup::new()?.plugin("stateful", &fixture("stateful-v1"))?.run(cluster.kubeconfig())?;
    hark.says(&["stateful started: "]).await;
    let mut made = 0;
    for number in 1..=RELOADS {
        // Some before, some while it is prepared and takes over.
        for _ in 0..3 {
            cluster.create(&format!("map-{made:03}"), "1").await?;
            made += 1;
        }
        hark.save("stateful", &fixture(&format!("stateful-v{}", number % 5 + 1)))?;
        while reloads(&hark, "stateful").len() < number {
            cluster.create(&format!("map-{made:03}"), "1").await?;
            made += 1;
        }
    }
    // The last version has at least this one.
    cluster.create(&format!("map-{made:03}"), "1").await?;
    made += 1;
    let trace = hark.traces("every object", |trace| ours(trace, "stateful").len() >= made).await;
    let lines = reloaded(&hark, "stateful", RELOADS).await;
    assert_eq!(lines.len(), RELOADS);
    for line in &lines {
        let state = line.split_once("; state ").with_context(|| line.clone())?.1;
        assert!(state.ends_with(" B kept") && !state.starts_with("0 "), "{line}");
    }
    // Each object was told once, whoever was at work; and the count is that of all of them.
    let keys: BTreeSet<&str> = ours(&trace, "stateful").into_iter().map(|line| line.key.as_str()).collect();
    assert_eq!((keys.len(), ours(&trace, "stateful").len()), (made, made), "an object was told twice");
    assert!(trace.iter().all(|line| line.outcome == "ok"));
    let counts: Vec<u64> = said(&hark)["stateful"]
        .iter()
        .filter_map(|line| line.split_once(" count ")?.1.parse().ok())
        .collect();
    let want: Vec<u64> = (1..).take(trace.len()).collect();
    assert_eq!(counts, want, "lost, doubled, or begun anew");
    assert_eq!(trace.last().map(|line| line.generation), Some(RELOADS as u64 + 1));
    assert_eq!(hand_overs(&hark, "stateful").await?, [Some(RELOADS as f64), Some(0.0), Some(0.0)]);
    let document = plugin_document(&hark, "stateful").await?;
    assert_eq!(document["running"]["lifecycle"], true);
    assert_eq!(document["hand_over"]["result"], "kept", "{document}");
    assert!(document["hand_over"]["bytes"].as_u64() > Some(2), "{document}");
    Ok(())
}

/// Plugin, its settings, and why its memory is not carried over from one build to the next.
const FAILURES: [(&str, &str, &str); 8] = [
    ("save-refuses", "save = \"refuse\"", "it refuses to save: not today"),
    ("save-traps", "save = \"trap\"", "in save: wasm trap: "),
    ("save-spins", "save = \"spin\"", "in save: used its deadline of 200ms (limits.deadline)"),
    ("save-floods", "save = \"too-much\"", "in save: it saves more than 8 MiB (limits.state)"),
    ("restore-refuses", "restore = \"refuse\"", "it refuses to restore: not today"),
    ("restore-traps", "restore = \"trap\"", "in restore: wasm trap: "),
    ("restore-spins", "restore = \"spin\"", "in restore: used its deadline of 200ms (limits.deadline)"),
    ("format", "format = \"v9\"", "it refuses to restore: it knows format v1 only"),
];

async fn what_cannot_be_carried_over_is_a_fresh_start_with_a_replay(cluster: &mut Cluster) -> Result<()> {
    let mut config = String::from("[defaults]\nlimits = { deadline = \"200ms\" }\n");
    for (plugin, settings, _) in FAILURES {
        config += &format!("[plugins.{plugin}]\nsettings = {{ {settings} }}\n");
    }
    let mut setup = Setup::new()?.config(&config)?;
    for (plugin, ..) in FAILURES {
        setup = setup.plugin(plugin, &fixture("stateful-v1"))?;
    }
    cluster.create("a", "1").await?;
    cluster.create("b", "1").await?;
    let hark = setup.run(cluster.kubeconfig())?;
    let all = |trace: &[Line], number| {
        FAILURES.iter().all(|(plugin, ..)| generation(trace, plugin, number).len() >= 2)
    };
    hark.traces("the initial adds", |trace| all(trace, 1)).await;
    for (plugin, ..) in FAILURES {
        hark.save(plugin, &fixture("stateful-v2"))?;
    }
    for (plugin, _, why) in FAILURES {
        let line = reloaded(&hark, plugin, 1).await.remove(0);
        let (_, memory) = line.split_once("; starts afresh with a replay: ").with_context(|| line.clone())?;
        assert!(memory.starts_with(why), "{plugin}: {line}");
        assert!(line.contains(" WARN "), "{line}");
        assert_eq!(hand_overs(&hark, plugin).await?, [Some(0.0), Some(0.0), Some(1.0)], "{plugin}");
        let document = plugin_document(&hark, plugin).await?;
        assert_eq!(document["hand_over"]["result"], "failed", "{document}");
        assert!(document["hand_over"]["message"].as_str().is_some_and(|said| said.starts_with(why)));
    }
    let trace = hark.traces("the replays", |trace| all(trace, 2)).await;
    for (plugin, ..) in FAILURES {
        let replay = generation(&trace, plugin, 2);
        assert!(replay.iter().all(|line| line.initial && line.outcome == "ok"), "{plugin}: {replay:?}");
        assert_eq!(replay.len(), 2, "{plugin}");
        let said = &said(&hark)[plugin];
        let first = said.iter().find(|line| line.starts_with("v2 ") && line.contains(" count "));
        assert!(first.is_some_and(|line| line.ends_with(" count 1")), "{plugin}: {said:?}");
        // An instance that broke is told nothing more; each other one is told that it ends.
        let broke = ["save-traps", "save-spins", "save-floods"].contains(&plugin);
        let stopped = said.iter().any(|line| line == "v1 stop reload");
        assert_eq!(stopped, !broke, "{plugin}: {said:?}");
        let starts = said.iter().filter(|line| *line == "v2 start reload").count();
        let restores = plugin.starts_with("restore") || plugin == "format";
        assert_eq!(starts, if restores { 2 } else { 1 }, "{plugin}: {said:?}");
    }
    Ok(())
}

async fn embedded() -> Result<Cluster> {
    Cluster::start(Kind::Embedded).await?.context("the embedded server is always there")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_life_is_told_in_order_with_its_reasons() -> Result<()> {
    let cluster = embedded().await?;
    cluster.create("a", "1").await?;
    let mut hark = Setup::new()?
        .plugin("gone", &fixture("stateful-v1"))?
        .plugin("stays", &fixture("stateful-v1"))?
        .run(cluster.kubeconfig())?;
    let begin = ["v1 start first", "v1 synced 0"];
    for plugin in ["gone", "stays"] {
        assert_eq!(hears(&hark, plugin, 2).await, begin);
        let said = &said(&hark)[plugin];
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[1].starts_with("v1 add default/a "), "{said:?}");
    }
    hark.save("gone", &fixture("stateful-v2"))?;
    let reload = ["v2 start reload", "v1 save 1", "v2 restore 1", "v1 stop reload"];
    assert_eq!(hears(&hark, "gone", 6).await, [&begin[..], &reload[..]].concat(), "and no sync again");
    std::fs::write(hark.folder().join("hark.toml"), "[plugins.gone]\nsettings = { mood = \"good\" }\n")?;
    let settings = ["v2 start settings", "v2 save 1", "v2 restore 1", "v2 stop reload"];
    let so_far = [&begin[..], &reload[..], &settings[..]].concat();
    assert_eq!(hears(&hark, "gone", 10).await, so_far);
    std::fs::write(hark.folder().join("hark.toml"), "[plugins.gone]\non_reload = \"replay\"\n")?;
    // Its memory is kept, and it is told of everything again, as the operator says.
    let replay = ["v2 start settings", "v2 save 1", "v2 restore 1", "v2 stop reload", "v2 synced 0"];
    let so_far = [&so_far[..], &replay[..]].concat();
    assert_eq!(hears(&hark, "gone", 15).await, so_far);
    assert!(
        said(&hark)["gone"].iter().any(|line| line.starts_with("v2 add default/a ") && line.ends_with(" 2"))
    );
    std::fs::remove_file(hark.plugin_path("gone"))?;
    assert_eq!(hears(&hark, "gone", 16).await, [&so_far[..], &["v2 stop removed"]].concat());
    hark.signal("TERM")?;
    assert!(hark.ends().await?.success(), "{}", hark.state());
    assert_eq!(asides(&hark, "stays"), [&begin[..], &["v1 stop shutdown"]].concat());
    assert_eq!(asides(&hark, "gone").len(), 16, "it is told nothing more");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_instance_has_its_own_memory_and_their_number_must_be_the_same() -> Result<()> {
    let cluster = embedded().await?;
    for name in ["a", "b", "c", "d", "e", "f"] {
        cluster.create(name, "1").await?;
    }
    let config = |count| format!("[plugins.stateful]\nconcurrency = {count}\n");
    let hark = Setup::new()?
        .config(&config(3))?
        .plugin("stateful", &fixture("stateful-v1"))?
        .run(cluster.kubeconfig())?;
    hears(&hark, "stateful", 6).await;
    hark.save("stateful", &fixture("stateful-v2"))?;
    let line = reloaded(&hark, "stateful", 1).await.remove(0);
    assert!(line.contains("; state ") && line.ends_with(" B kept"), "{line}");
    let said = hears(&hark, "stateful", 6 + 12).await;
    let count = |what: &str| said.iter().filter(|line| line.starts_with(what)).count();
    assert_eq!(["v2 start reload", "v1 save", "v2 restore", "v1 stop reload"].map(count), [3; 4], "{said:?}");
    let total = |what: &str| -> u64 {
        said.iter().filter_map(|line| line.strip_prefix(what)?.trim().parse::<u64>().ok()).sum()
    };
    assert_eq!((total("v1 save"), total("v2 restore")), (6, 6), "{said:?}");
    std::fs::write(hark.folder().join("hark.toml"), config(2))?;
    let line = reloaded(&hark, "stateful", 2).await.remove(1);
    let why = "; starts afresh with a replay: what 3 instances have saved cannot be given to 2";
    assert!(line.ends_with(why), "{line}");
    hark.traces("the replay", |trace| generation(trace, "stateful", 3).len() == 6).await;
    let stopped = |said: Vec<String>| said.iter().filter(|line| *line == "v2 stop reload").count();
    assert_eq!(stopped(asides(&hark, "stateful")), 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_may_come_by_its_memory_have_none_and_lose_it() -> Result<()> {
    let cluster = embedded().await?;
    cluster.create("a", "1").await?;
    let config = "[plugins.none]\nsettings = { save = \"nothing\" }\n";
    let hark = Setup::new()?
        .config(config)?
        .plugin("gains", &fixture("counter-v1"))?
        .plugin("loses", &fixture("stateful-v1"))?
        .plugin("none", &fixture("stateful-v1"))?
        .run(cluster.kubeconfig())?;
    hark.traces("the initial adds", |trace| trace.len() == 3).await;
    for (plugin, build, memory, counts, told_again) in [
        (
            "gains",
            "stateful-v2",
            "starts afresh with a replay: the version before it left nothing to go on from",
            [0.0, 0.0, 1.0],
            1,
        ),
        (
            "loses",
            "counter-v2",
            "state 3 B dropped, since the new version does not export lifecycle",
            [0.0, 1.0, 0.0],
            1,
        ),
        ("none", "stateful-v2", "no state to keep", [0.0, 1.0, 0.0], 0),
    ] {
        hark.save(plugin, &fixture(build))?;
        let line = reloaded(&hark, plugin, 1).await.remove(0);
        assert!(line.ends_with(&format!("; {memory}")), "{line}");
        assert_eq!(hand_overs(&hark, plugin).await?, counts.map(Some), "{plugin}");
        // An event of later shows that there were no others before it.
        cluster.create(&format!("after-{plugin}"), "1").await?;
        let key = format!("default/after-{plugin}");
        let trace = hark.traces(&key, |trace| ours(trace, plugin).iter().any(|line| line.key == key)).await;
        let again = generation(&trace, plugin, 2).iter().filter(|line| line.key == "default/a").count();
        assert_eq!(again, told_again, "{plugin}: {trace:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_does_not_start_is_refused_and_the_one_before_goes_on() -> Result<()> {
    let cases = [
        ("refuses", "refuse", "it refuses to start: not today"),
        ("traps", "trap", "it does not start: in start: wasm trap: "),
        (
            "spins",
            "spin",
            "it does not start in time: in start: used its deadline of 200ms (limits.deadline)",
        ),
    ];
    let cluster = embedded().await?;
    let mut config = String::from("[defaults]\nlimits = { deadline = \"200ms\" }\n");
    let mut setup = Setup::new()?;
    for (plugin, fault, _) in cases {
        config += &format!("[plugins.{plugin}]\nsettings = {{ start = \"reload:{fault}\" }}\n");
        setup = setup.plugin(plugin, &fixture("stateful-v1"))?;
    }
    config += "[plugins.never]\nsettings = { start = \"refuse\" }\n";
    let hark = setup.plugin("never", &fixture("stateful-v1"))?.config(&config)?.run(cluster.kubeconfig())?;
    for (plugin, ..) in cases {
        hears(&hark, plugin, 2).await;
        hark.save(plugin, &fixture("stateful-v2"))?;
    }
    hark.says(&["never.wasm is refused: it refuses to start: not today"]).await;
    for (plugin, _, why) in cases {
        hark.says(&[&format!("{plugin}.wasm is refused: {why}")]).await;
        let document = plugin_document(&hark, plugin).await?;
        let message = document["refused"]["message"].as_str().context("a message")?;
        assert!(message.starts_with(why), "{message}");
        assert_eq!(document["running"]["generation"], 1);
    }
    cluster.create("a", "1").await?;
    let trace = hark.traces("the event at all of them", |trace| trace.len() == cases.len()).await;
    assert!(trace.iter().all(|line| line.generation == 1 && line.outcome == "ok"), "{trace:?}");
    for (plugin, ..) in cases {
        assert_eq!(asides(&hark, plugin), ["v1 start first", "v1 synced 0", "v2 start reload"]);
        assert_eq!(hark.stderr().matches(&format!("{plugin}.wasm is refused: ")).count(), 1);
    }
    assert_eq!(asides(&hark, "never"), ["v1 start first"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_whose_plugin_goes_away_while_it_takes_over_is_told_that_it_is_not_needed() -> Result<()> {
    let cluster = embedded().await?;
    let config = "[plugins.stateful]\nsettings = { save = \"spin\" }\nlimits = { deadline = \"6s\" }\n";
    let hark = Setup::new()?
        .config(config)?
        .plugin("stateful", &fixture("stateful-v1"))?
        .run(cluster.kubeconfig())?;
    hears(&hark, "stateful", 2).await;
    hark.save("stateful", &fixture("stateful-v2"))?;
    hears(&hark, "stateful", 4).await;
    // The plugin ends 2 s later, long before the old version has given up saving.
    std::fs::remove_file(hark.plugin_path("stateful"))?;
    let said = hears(&hark, "stateful", 5).await;
    assert_eq!(said[2..], ["v2 start reload", "v1 save 0", "v2 stop unused"], "{said:?}");
    assert_eq!(reloads(&hark, "stateful"), [""; 0], "it never took over");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_takes_too_long_ends_by_its_limits_or_by_those_of_the_host() -> Result<()> {
    let cluster = embedded().await?;
    let config = "[plugins.long]\nsettings = { stop = \"spin\" }\nlimits = { deadline = \"60s\", budget = \"60s\" }\n\
                  [plugins.short]\nsettings = { stop = \"spin\" }\n";
    let mut hark = Setup::new()?
        .config(config)?
        .plugin("long", &fixture("stateful-v1"))?
        .plugin("short", &fixture("stateful-v1"))?
        .run(cluster.kubeconfig())?;
    for plugin in ["long", "short"] {
        hears(&hark, plugin, 2).await;
    }
    hark.signal("TERM")?;
    assert!(hark.ends().await?.success(), "{}", hark.state());
    for plugin in ["long", "short"] {
        assert_eq!(asides(&hark, plugin)[2..], ["v1 stop shutdown"]);
    }
    hark.says(&[
        "long: did not finish within 10 s: its stop is not over",
        "in stop: used its deadline of 1s (limits.deadline)",
    ])
    .await;
    assert!(!hark.stderr().contains("short: did not finish"), "{}", hark.state());
    Ok(())
}
