//! What the operator allows, and what is seen of it, in the real binary: limits of one plugin and of all, instances that
//! are lost or recycled, core dumps.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use hark_tests::cluster::{Cluster, Kind};
use hark_tests::eventually;
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup};
use hark_tests::http::get;
use hark_tests::prometheus::Scrape;
use serde_json::{Value, json};

const CONFIG: &str = r#"
[host]
core_dumps = "dumps"
[defaults]
limits = { max_attempts = 2, deadline = "100ms", recycle_memory = "off" }
[plugins.counter-v1]
on_restart = "replay"
limits = { deadline = "off", recycle_events = 1, host_call = "3s" }
"#;

async fn answer(hark: &Hark, path: &str) -> Result<String> {
    Ok(get(hark.admin().await, path).await?.body)
}

/// A host with a plugin that traps, one that spins and one that counts, after each has been through one event.
async fn after_one_event() -> Result<(Cluster, Hark)> {
    let cluster = Cluster::start(Kind::Embedded).await?.context("the embedded server is always there")?;
    let mut setup = Setup::new()?.config(CONFIG)?;
    for plugin in ["trap-always", "spin", "counter-v1"] {
        setup = setup.plugin(plugin, &fixture(plugin))?;
    }
    let hark = setup.run(cluster.kubeconfig())?;
    cluster.create("first", "1").await?;
    hark.traces("every attempt", |trace| {
        let attempts = |plugin: &str, outcome: &str| {
            let ours = trace.iter().filter(|line| line.key == "default/first" && line.plugin == plugin);
            ours.filter(|line| line.outcome == outcome).count()
        };
        attempts("trap-always", "trap") == 2
            && attempts("spin", "timeout") == 2
            && attempts("counter-v1", "ok") == 1
    })
    .await;
    Ok((cluster, hark))
}

#[tokio::test(flavor = "multi_thread")]
async fn use_and_losses_are_counted_and_the_limits_in_force_shown() -> Result<()> {
    let (_cluster, hark) = after_one_event().await?;
    let scrape = Scrape::parse(&answer(&hark, "/metrics").await?)?;
    let value = |name: &str, plugin: &str, more: &[(&str, &str)]| {
        scrape.get(name, &[&[("plugin", plugin)], more].concat()).unwrap_or(-1.0)
    };
    let restarts = |plugin| {
        ["trap", "timeout", "recycle"]
            .map(|reason| value("hark_plugin_restarts_total", plugin, &[("reason", reason)]))
    };
    assert_eq!(restarts("trap-always"), [2.0, 0.0, 0.0]);
    assert_eq!(restarts("spin"), [0.0, 2.0, 0.0]);
    assert_eq!(restarts("counter-v1"), [0.0, 0.0, 1.0]);
    assert_eq!(value("hark_plugin_cap_hits_total", "spin", &[("cap", "deadline")]), 2.0);
    assert_eq!(value("hark_plugin_cap_hits_total", "trap-always", &[("cap", "deadline")]), 0.0);
    // Twice its deadline; the kernel may be a tick late with the last of it.
    assert!(value("hark_plugin_cpu_seconds_total", "spin", &[]) > 0.19);
    assert_eq!(value("hark_plugin_instances", "spin", &[]), 0.0, "the last one was thrown away");
    assert_eq!(value("hark_plugin_memory_limit_bytes", "spin", &[]), f64::from(64 << 20));
    assert!(value("hark_plugin_memory_peak_bytes", "spin", &[]) > 0.0);
    // One line of log each time.
    assert_eq!(value("hark_plugin_host_calls_total", "trap-always", &[]), 2.0);

    let all: Value = serde_json::from_str(&answer(&hark, "/api/plugins").await?)?;
    let plugins = all["plugins"].as_array().context("plugins")?;
    let counter = plugins.iter().find(|one| one["plugin"] == "counter-v1").context("the counter")?;
    let running = &counter["running"];
    let treatment =
        json!({"on_reload": "replay", "on_restart": "replay", "delivery": "all", "concurrency": 1});
    assert_eq!(running["treatment"], treatment);
    let limits = ["deadline", "host_call", "budget", "recycle_events", "recycle_memory", "max_attempts"];
    let limits = limits.map(|name| running["limits"][name].clone());
    assert_eq!(limits, [json!(null), json!(3.0), json!(30.0), json!(1), json!(null), json!(2)]);
    assert_eq!(counter["resources"]["restarts"], json!({"trap": 0, "timeout": 0, "recycle": 1}));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_remained_of_a_plugin_is_kept_for_its_owner() -> Result<()> {
    let (_cluster, mut hark) = after_one_event().await?;
    hark.signal("TERM")?;
    assert!(hark.ends().await?.success(), "it writes what it has taken, and ends");
    let folder = std::fs::canonicalize(hark.folder().join("dumps"))?;
    let mode = |path: &PathBuf| std::fs::metadata(path).map(|of| of.permissions().mode() & 0o777);
    assert_eq!(mode(&folder)?, 0o700);
    let files: Vec<PathBuf> =
        std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    for plugin in ["trap-always", "spin"] {
        let of_plugin =
            |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(plugin));
        let [file] = files.iter().filter(of_plugin).collect::<Vec<_>>()[..] else {
            panic!("one dump of {plugin}, since its attempts are less than ten seconds apart: {files:?}");
        };
        assert_eq!(mode(file)?, 0o600);
        assert!(std::fs::read(file)?.starts_with(b"\0asm"));
        let said = format!("(core dump, to be written to {})", file.display());
        eventually(&said, || hark.state(), async || hark.stderr().contains(&said).then_some(())).await;
    }
    assert_eq!(files.len(), 2, "the counter has none: {files:?}");
    Ok(())
}
