//! The life of an object that is larger than `limits.object`, with the real binary, on a real kube-apiserver and on the
//! embedded one.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use hark_tests::cluster::Cluster;
use hark_tests::eventually;
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup};
use hark_tests::http::get;
use hark_tests::prometheus::Scrape;
use hark_tests::trace::Line;
use serde_json::Value;

hark_tests::on_both_servers! {
    what_is_too_large_is_left_out_until_it_fits
}

const CONFIG: &str = "[defaults.limits]\nobject = \"64KiB\"\n";

async fn what_is_too_large_is_left_out_until_it_fits(cluster: &mut Cluster) -> Result<()> {
    let large = "x".repeat(80 << 10);
    let (uid, _) = cluster.create("big", &large).await?;
    cluster.create("small", "x").await?;
    let setup = Setup::new()?.config(CONFIG)?.plugin("p", &fixture("counter-v1"))?;
    let hark = setup.run(cluster.kubeconfig())?;
    withheld(&hark, 1.0).await;
    hark.says(&["p: configmaps default/big is not handed over: the object has ", "(limits.object)"]).await;
    let letters = letters(&hark, 1).await;
    let letter = &letters[0];
    assert_eq!(
        (&letter["outcome"], &letter["op"], &letter["attempts"]),
        (&"oversized".into(), &"add".into(), &0.into())
    );
    assert_eq!((letter["key"].as_str(), letter["uid"].as_str()), (Some("default/big"), Some(uid.as_str())));
    told(&hark, "small", &["add"]).await;

    let (_, fits) = cluster.update("big", "x").await?;
    let lines = told(&hark, "big", &["add"]).await;
    ensure!(!lines[0].initial && lines[0].rv == fits, "{lines:?}");
    withheld(&hark, 0.0).await;

    cluster.update("big", &large).await?;
    withheld(&hark, 1.0).await;
    cluster.delete("big").await?;
    let lines = told(&hark, "big", &["add", "delete"]).await;
    assert_eq!(lines[1].rv, fits, "the last state that was handed over");
    assert_eq!(letters_of(&hark).len(), 2, "once for each time that it was left out");

    cluster.create("never", &large).await?;
    withheld(&hark, 1.0).await;
    cluster.delete("never").await?;
    withheld(&hark, 0.0).await;
    cluster.create("last", "x").await?;
    told(&hark, "last", &["add"]).await;
    ensure!(hark.trace().iter().all(|line| line.key != "default/never"), "nobody was told of it");
    ensure!(
        hark.trace().iter().all(|line| line.outcome == "ok"),
        "nothing else was held up: {}",
        hark.state()
    );
    Ok(())
}

/// Waits until so many objects are too large.
async fn withheld(hark: &Hark, want: f64) {
    let admin = hark.admin().await;
    let condition = async || {
        let scrape = Scrape::parse(&get(admin, "/metrics").await.ok()?.body).ok()?;
        let of = |name| scrape.get(name, &[("plugin", "p")]);
        let is_counted = of("hark_listener_oversized_total") >= Some(want);
        (of("hark_listener_oversized_objects") == Some(want) && is_counted).then_some(())
    };
    eventually(&format!("{want} objects that are too large"), || hark.state(), condition).await;
}

/// Waits until the plugin was told exactly this of an object.
async fn told(hark: &Hark, name: &str, ops: &[&str]) -> Vec<Line> {
    let of = |trace: &[Line]| -> Vec<Line> {
        trace.iter().filter(|line| line.key == format!("default/{name}")).cloned().collect()
    };
    let is_told = |trace: &[Line]| of(trace).iter().map(|line| line.op.as_str()).eq(ops.iter().copied());
    of(&hark.traces(&format!("{ops:?} of {name}"), is_told).await)
}

async fn letters(hark: &Hark, count: usize) -> Vec<Value> {
    let condition = async || Some(letters_of(hark)).filter(|letters| letters.len() == count);
    eventually(&format!("{count} dead letters"), || hark.state(), condition).await
}

/// What is in the file of dead letters, if there is one.
fn letters_of(hark: &Hark) -> Vec<Value> {
    let text = file(hark).ok().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a letter")).collect()
}

fn file(hark: &Hark) -> Result<PathBuf> {
    let mut clusters = std::fs::read_dir(hark.folder().join("state/hark"))?;
    Ok(clusters.next().context("no cluster yet")??.path().join("dead-letters.jsonl"))
}
