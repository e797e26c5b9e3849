//! The plugins folder and the configuration as a user changes them under a running Hark, and what Hark says
//! when something is wrong from the start. In how many ways a file can change is the suite `ways`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use hark_tests::cluster::{Cluster, Kind};
use hark_tests::guests::{fixture, plugin};
use hark_tests::hark::{Hark, Setup, binary, clean};
use hark_tests::http::get;
use serde_json::{Value, json};

async fn cluster() -> Result<Cluster> {
    Cluster::start(Kind::Embedded).await?.context("the embedded server is always there")
}

/// Waits until a plugin has been told of an object.
async fn told(hark: &Hark, plugin: &str, key: &str) {
    let what = format!("{plugin} to be told of {key}");
    hark.traces(&what, |trace| trace.iter().any(|line| line.plugin == plugin && line.key == key)).await;
}

fn occurrences(hark: &Hark, text: &str) -> usize {
    hark.stderr().matches(text).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_copied_in_starts_and_one_that_is_deleted_stops() -> Result<()> {
    let cluster = cluster().await?;
    let hark = Setup::new()?.config("[plugins.typo]\n")?.run(cluster.kubeconfig())?;
    hark.says(&[
        "no plugins in plugins yet: copy a .wasm file there",
        "hark.toml has [plugins.typo], but there is no typo.wasm in plugins",
    ])
    .await;
    fs::copy(fixture("counter-v1"), hark.plugin_path("counter"))?;
    hark.says(&["counter started: counter 1 ("]).await;
    cluster.create("first", "x").await?;
    told(&hark, "counter", "default/first").await;
    fs::copy(plugin("event-log"), hark.plugin_path("other"))?;
    hark.says(&["other started: "]).await;
    fs::remove_file(hark.plugin_path("counter"))?;
    hark.says(&["counter: stopped: its file is gone"]).await;
    cluster.create("second", "x").await?;
    told(&hark, "other", "default/second").await;
    let trace = hark.trace();
    assert!(!trace.iter().any(|line| line.plugin == "counter" && line.key == "default/second"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_leaves_the_old_version_in_place_and_is_reported_once() -> Result<()> {
    let cluster = cluster().await?;
    let hark = Setup::new()?.plugin("counter", &fixture("counter-v1"))?.run(cluster.kubeconfig())?;
    hark.says(&["counter started"]).await;
    let faults: [(&str, Vec<u8>); 4] = [
        ("text", b"this is not wasm".to_vec()),
        ("empty", Vec::new()),
        ("truncated", fs::read(fixture("counter-v2"))?[..2000].to_vec()),
        ("other world", fs::read(fixture("other-world"))?),
    ];
    for (number, (fault, content)) in faults.iter().enumerate() {
        fs::write(hark.plugin_path("counter"), content)?;
        hark_tests::eventually(
            &format!("a refusal of {fault}"),
            || hark.state(),
            async || (occurrences(&hark, "counter.wasm is refused: ") > number).then_some(()),
        )
        .await;
        let name = format!("after-{number}");
        cluster.create(&name, "x").await?;
        told(&hark, "counter", &format!("default/{name}")).await;
        assert_eq!(occurrences(&hark, "counter.wasm is refused: "), number + 1, "{}", hark.stderr());
    }
    assert_eq!(occurrences(&hark, "goes on"), faults.len());
    hark.save("counter", &fixture("counter-v1"))?;
    hark.says(&["counter: its file is good again"]).await;
    hark.save("counter", &fixture("describe-error"))?;
    hark.says(&["counter.wasm is refused: ", "settings: channel is missing"]).await;
    hark.save("counter", &fixture("describe-bad-pointer"))?;
    let place = "subscription 0 (`configmaps`): ";
    let problems =
        ["`conditions` has", "`changed` has `data/text`", "`fields` has", "`indexes` has", "it has both"];
    hark.says(&problems.map(|problem| format!("{place}{problem}")).each_ref().map(String::as_str)).await;
    hark.save("counter", &fixture("counter-v2"))?;
    hark.says(&["counter reloaded: "]).await;
    assert!(hark.trace().iter().all(|line| line.outcome == "ok"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_choose_what_event_log_watches_and_act_when_the_file_is_saved() -> Result<()> {
    let cluster = cluster().await?;
    let config = "[plugins.event-log.settings]\nkinds = [\"v1/Namespace\"]\n";
    let hark =
        Setup::new()?.config(config)?.plugin("event-log", &plugin("event-log"))?.run(cluster.kubeconfig())?;
    told(&hark, "event-log", "default").await;
    cluster.create("a", "x").await?;
    let file = hark.folder().join("hark.toml");
    fs::write(&file, "[plugins.event-log]\nsettings = 7\nlimits = { memory = 1 }\n")?;
    hark.says(&[
        "hark.toml has 2 errors",
        "plugins.event-log.settings: expected a table, found an integer",
        "plugins.event-log.limits.memory: expected a string, found an integer",
        "what was configured before stays",
    ])
    .await;
    fs::write(&file, config)?;
    hark.says(&["hark.toml holds again"]).await;
    assert_eq!(occurrences(&hark, "configuration reloaded"), 0, "{}", hark.stderr());
    fs::write(&file, "[plugins.event-log.settings]\nkinds = [\"v1/ConfigMap\"]\n")?;
    told(&hark, "event-log", "default/a").await;
    hark.says(&[
        ", new configuration (event-log ",
        "ms (detect ",
        "subscriptions: 0 kept, 1 added, 1 removed",
    ])
    .await;
    hark.says(&["configuration reloaded: 1 plugin affected: event-log (settings.kinds)"]).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_changes_all_the_time_is_said_to_and_read_when_it_is_still() -> Result<()> {
    let cluster = cluster().await?;
    let hark =
        Setup::new()?.config("")?.plugin("counter", &fixture("counter-v1"))?.run(cluster.kubeconfig())?;
    hark.says(&["counter started"]).await;
    let file = hark.folder().join("hark.toml");
    let said = "hark.toml changes all the time: it is read once it has been still for 0.2 s";
    let mut saved = 0;
    let save = async || {
        saved += 1;
        fs::write(&file, format!("[plugins.counter.limits]\nqueue = {}\n", 1000 + saved)).ok()?;
        (occurrences(&hark, said) > 0).then_some(())
    };
    hark_tests::eventually("the unrest to be said", || hark.state(), save).await;
    hark.says(&["configuration reloaded: 1 plugin affected: counter (limits.queue)"]).await;
    assert_eq!(occurrences(&hark, said), 1, "{}", hark.stderr());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_host_that_changes_is_said_to_act_at_the_next_start() -> Result<()> {
    let cluster = cluster().await?;
    let hark = Setup::new()?
        .config("[host]\nwasm_stack = \"1MiB\"\n")?
        .plugin("counter", &fixture("counter-v1"))?
        .run(cluster.kubeconfig())?;
    hark.says(&["counter started"]).await;
    let file = hark.folder().join("hark.toml");
    fs::write(&file, "[host]\nwasm_stack = \"2MiB\"\n")?;
    hark.says(&["host.wasm_stack changed: acts at the next start"]).await;
    fs::write(&file, "[host]\nwasm_stack = \"2MiB\"\nplugins = \"elsewhere\"\nlog = \"warn\"\n")?;
    hark.says(&["host.plugins, host.log, host.wasm_stack changed: act at the next start"]).await;
    fs::write(&file, "[host]\nwasm_stack = \"1MiB\"\n")?;
    let back = async || (occurrences(&hark, "configuration reloaded: ") == 3).then_some(());
    hark_tests::eventually("what the host runs on to be read", || hark.stderr(), back).await;
    fs::write(&file, "[host]\nlog = \"hark=loud\"\nstate_dir = \"\"\n")?;
    hark.says(&[
        "hark.toml has 2 errors",
        "host.log: log filter \"hark=loud\": ",
        "host.state_dir: expected a path, found \"\"",
    ])
    .await;
    assert_eq!(occurrences(&hark, "at the next start"), 2, "{}", hark.stderr());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_for_core_dumps_that_cannot_be_made_keeps_no_host_from_starting() -> Result<()> {
    let cluster = cluster().await?;
    cluster.create("poison", "x").await?;
    let hark = Setup::new()?
        .config("[host]\ncore_dumps = \"/proc/dumps\"\n")?
        .plugin("bad", &fixture("trap-always"))?
        .run(cluster.kubeconfig())?;
    hark.says(&["no core dumps are kept: cannot use /proc/dumps: ", "bad started", "trap, attempt 1: "])
        .await;
    assert_eq!(occurrences(&hark, "core dump, to be"), 0, "{}", hark.stderr());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_that_waits_for_a_call_shows_and_what_is_left_at_the_end_is_counted() -> Result<()> {
    let cluster = cluster().await?;
    for name in ["a", "b", "c"] {
        cluster.create(name, "x").await?;
    }
    let config = "[defaults]\nlimits = { deadline = \"off\", budget = \"1h\" }\n";
    let setup = Setup::new()?.config(config)?.plugin("spin", &fixture("spin"))?;
    let mut hark = setup.run(cluster.kubeconfig())?;
    let admin = hark.admin().await;
    let in_hand = async || {
        let plugins: Value = serde_json::from_str(&get(admin, "/api/plugins").await.ok()?.body).ok()?;
        let plugin = plugins["plugins"].get(0)?.clone();
        (plugin["queue"]["in_flight"] == 1).then_some(plugin)
    };
    let before = hark_tests::eventually("a call under way", || hark.state(), in_hand).await;
    assert_eq!((&before["preparing"], &before["taking_over"]), (&json!(false), &json!(false)));
    let waiting = before["queue"]["pending"].as_u64().context("a number")?;

    hark.save("spin", &fixture("counter-v1"))?;
    hark.says(&[
        "spin: its new version ",
        " waits for the call under way, which limits.budget (3600s) bounds",
    ])
    .await;
    let now = in_hand().await.context("the call goes on")?;
    assert_eq!((&now["preparing"], &now["taking_over"]), (&json!(false), &json!(true)));
    let ready = get(admin, "/readyz?verbose").await?.body;
    assert!(ready.contains("; a new version takes over after the call under way\n"), "{ready}");

    hark.signal("TERM")?;
    hark.ends().await?;
    let said =
        format!("spin: did not finish within 10 s: {waiting} events are left, the one in hand included");
    assert!(hark.stderr().contains(&said), "{said}\n{}", hark.stderr());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_and_permanent_failures_are_told_apart() -> Result<()> {
    let cluster = cluster().await?;
    let hark = Setup::new()?
        .plugin("again", &fixture("retry-twice"))?
        .plugin("never", &fixture("permanent"))?
        .run(cluster.kubeconfig())?;
    hark.says(&["again started", "never started"]).await;
    cluster.create("a", "x").await?;
    let outcomes = |trace: &[hark_tests::trace::Line], plugin: &str| -> Vec<(u32, String)> {
        let ours = trace.iter().filter(|line| line.plugin == plugin && line.key == "default/a");
        ours.map(|line| (line.attempt, line.outcome.clone())).collect()
    };
    let trace = hark
        .traces("the third attempt", |trace| {
            outcomes(trace, "again").len() == 3 && !outcomes(trace, "never").is_empty()
        })
        .await;
    let attempts = |list: &[(u32, &str)]| -> Vec<(u32, String)> {
        list.iter().map(|(attempt, outcome)| (*attempt, (*outcome).to_owned())).collect()
    };
    assert_eq!(outcomes(&trace, "again"), attempts(&[(1, "retry"), (2, "retry"), (3, "ok")]));
    assert_eq!(outcomes(&trace, "never"), attempts(&[(1, "permanent")]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_not_there_is_waited_for() -> Result<()> {
    let cluster = cluster().await?;
    let mut hark = Setup::new()?.arguments(&["--plugins", "later"]).run(cluster.kubeconfig())?;
    hark.says(&["cannot read plugins folder later: "]).await;
    assert!(hark.runs()?);
    fs::create_dir(hark.folder().join("later"))?;
    fs::copy(fixture("counter-v1"), hark.folder().join("later/counter.wasm"))?;
    hark.says(&["counter started"]).await;
    fs::rename(hark.folder().join("later"), hark.folder().join("away"))?;
    hark_tests::eventually(
        "the second complaint",
        || hark.state(),
        async || (occurrences(&hark, "cannot read plugins folder later: ") == 2).then_some(()),
    )
    .await;
    cluster.create("a", "x").await?;
    told(&hark, "counter", "default/a").await;
    fs::rename(hark.folder().join("away"), hark.folder().join("later"))?;
    let again = async || (occurrences(&hark, "plugins folder later can be read now") == 2).then_some(());
    hark_tests::eventually("both to be over", || hark.state(), again).await;
    assert_eq!(occurrences(&hark, "stopped"), 0, "a folder that cannot be read stops nothing");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_cannot_be_reached_is_waited_for() -> Result<()> {
    let mut cluster = cluster().await?;
    cluster.cut().await;
    let mut hark = Setup::new()?.plugin("counter", &fixture("counter-v1"))?.run(cluster.kubeconfig())?;
    hark.says(&["counter started", "Connection refused"]).await;
    assert!(hark.runs()?);
    cluster.create("a", "x").await?;
    cluster.mend().await?;
    told(&hark, "counter", "default/a").await;
    hark.signal("INT")?;
    assert!(hark.ends().await?.success());
    Ok(())
}

/// Runs `hark` to its end.
fn hark(folder: &Path, arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let output = clean(Command::new(binary())).args(arguments).current_dir(folder).output()?;
    Ok((output.status.code(), String::from_utf8(output.stderr)?))
}

#[test]
fn what_is_wrong_from_the_start_is_said_and_ends_hark() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let at = folder.path();
    fs::write(at.join("bad.yaml"), "clusters: [}")?;
    fs::write(at.join("bad.toml"), "[host]\ncolour = 1\n")?;
    let context = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: []\nclusters: []\nusers: []\n";
    fs::write(at.join("context.yaml"), context)?;
    let cases: [(&[&str], i32, &[&str]); 11] = [
        (&["run", "--kubeconfig", "none.yaml"], 1, &["none.yaml"]),
        (&["run", "--kubeconfig", "bad.yaml"], 1, &["bad.yaml"]),
        (
            &["run", "--kubeconfig", "context.yaml", "--context", "b"],
            1,
            &["context.yaml has no contexts: is it a kubeconfig?"],
        ),
        (&["run", "--config", "none.toml"], 1, &["cannot read none.toml"]),
        (&["run", "--config", "bad.toml"], 1, &["bad.toml has 1 error", "host.colour: unknown key"]),
        (&["run"], 1, &["kubeconfig"]),
        (&["run", "--config", "."], 1, &[". is not a regular file"]),
        (&["run", "--config", "/dev/zero"], 1, &["/dev/zero is not a regular file"]),
        (&["run", "--log", "verbose"], 1, &["\"verbose\" is no level"]),
        (&["dev", "--trace", "none/trace"], 1, &["cannot open trace file none/trace: No such file"]),
        (&["dev", "--listen", "0.0.0.0:0"], 1, &["listens on loopback only"]),
    ];
    for (arguments, code, texts) in cases {
        let (ended, stderr) = hark(at, arguments)?;
        assert_eq!(ended, Some(code), "{arguments:?}: {stderr}");
        for text in texts {
            assert!(stderr.contains(text), "{arguments:?}: {text:?} is not in {stderr}");
        }
        assert!(!stderr.contains("panicked"), "{stderr}");
        assert!(stderr.matches("os error").count() <= 1, "each cause is told once: {stderr}");
    }
    assert_eq!(hark(at, &["fly"])?.0, Some(2), "wrong usage");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_signals_in_one_moment_are_one() -> Result<()> {
    let cluster = cluster().await?;
    cluster.create("a", "x").await?;
    let mut hark = Setup::new()?
        .config("[plugins.spins.limits]\ndeadline = \"700ms\"\n")?
        .plugin("spins", &fixture("spin"))?
        .run(cluster.kubeconfig())?;
    // It is busy from now on, so stopping takes a while.
    hark.says(&["add default/a"]).await;
    // As `timeout` does it, and a terminal that goes away.
    let both = format!("kill -TERM {0}; kill -INT {0}", hark.pid());
    assert!(std::process::Command::new("sh").args(["-c", &both]).status()?.success());
    let ended = hark.ends().await?;
    assert!(ended.success(), "{ended}: {}", hark.state());
    assert!(!hark.stderr().contains("aborting"), "{}", hark.stderr());
    Ok(())
}
