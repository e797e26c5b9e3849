//! The export `lifecycle` in the built host, with guests built with the C SDK: what is called when one instance follows
//! another, and what its faults cost. How state goes from version to version is in `lifecycle`.

use anyhow::{Context, Result};
use hark_tests::cluster::{Cluster, Kind};
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup};

async fn cluster() -> Result<Cluster> {
    Cluster::start(Kind::Embedded).await?.context("the embedded server is always there")
}

/// What the plugin said, in order, without the objects' versions and without what is not said for an instance's life.
fn said(hark: &Hark) -> Vec<String> {
    let line = |line: &str| {
        let words = &line[line.find("v1 ")?..];
        let words: Vec<_> = words.split_whitespace().take_while(|word| !word.contains('=')).collect();
        match words[..] {
            [_, "add", key, _, "count", count] => Some(format!("add {key} {count}")),
            [_, "synced", _] => None,
            [_, call, more] => Some(format!("{call} {more}")),
            _ => None,
        }
    };
    hark.stderr().lines().filter_map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_recycled_instance_saved_goes_on_in_the_next() -> Result<()> {
    let cluster = cluster().await?;
    let config = "[plugins.stateful]\nlimits = { recycle_events = 2 }\n";
    let hark = Setup::new()?
        .config(config)?
        .plugin("stateful", &fixture("stateful-v1"))?
        .run(cluster.kubeconfig())?;
    for name in ["a", "b", "c"] {
        cluster.create(name, "1").await?;
        let key = format!("default/{name}");
        hark.traces(&key, |trace| trace.iter().any(|line| line.key == key && line.outcome == "ok")).await;
    }
    let want = [
        "start first",
        "add default/a 1",
        "add default/b 2",
        "save 2",
        "stop recycle",
        "start recycle",
        "restore 2",
        "add default/c 3",
    ];
    assert_eq!(said(&hark), want);
    hark.says(&["and saves what it holds in memory: it has handled 2 events"]).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_carried_over_is_lost_and_that_is_said() -> Result<()> {
    let cases = [
        ("save = \"trap\"", "is lost: in save: wasm trap: "),
        ("save = \"too-much\"", "is lost: in save: it saves more than 8 MiB (limits.state)"),
        ("format = \"v9\"", "is lost, and it starts afresh: it refuses to restore: it knows format v1 only"),
        ("restore = \"spin\"", "is lost, and it starts afresh: in restore: used its deadline of 100ms"),
    ];
    let cluster = cluster().await?;
    let mut setup = Setup::new()?;
    let mut config = "[defaults]\nlimits = { recycle_events = 1, deadline = \"100ms\" }\n".to_owned();
    for (number, (settings, _)) in cases.iter().enumerate() {
        config += &format!("[plugins.fault-{number}.settings]\n{settings}\n");
        setup = setup.plugin(&format!("fault-{number}"), &fixture("stateful-v1"))?;
    }
    let hark = setup.config(&config)?.run(cluster.kubeconfig())?;
    for name in ["a", "b"] {
        cluster.create(name, "1").await?;
    }
    hark.traces("two events each", |trace| {
        trace.iter().filter(|line| line.key.starts_with("default/") && line.outcome == "ok").count()
            == 2 * cases.len()
    })
    .await;
    for (_, says) in cases {
        hark.says(&[&format!("what its recycled instance held in memory {says}")]).await;
    }
    assert!(!hark.stderr().contains("count 2"), "none of them goes on");
    Ok(())
}
