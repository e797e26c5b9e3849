//! The host ends and another one begins, with the refused content still in the folder.

use std::os::unix::fs::PermissionsExt;

use anyhow::{Result, ensure};
use hark_tests::cluster::{Cluster, Kind, run};
use hark_tests::eventually;
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup};

use super::stage::*;

const ON: &str = "rollback = true\nlimits = { max_attempts = 1 }";

/// A host whose `p` was rolled back, which is written down.
async fn rolled_back(stage: &Stage<'_>) -> Result<Hark> {
    let hark = stage.rolled_back().await?;
    stage.writes(&hark, GOOD, Some(BAD)).await;
    Ok(hark)
}

/// Another host on the same state folder, with the refused content.
async fn stays(stage: &Stage<'_>) -> Result<Hark> {
    let hark = stage.host(&[("p", BAD)])?;
    let shown = stands(&hark, "p", "rolled-back", GOOD).await;
    assert_eq!(
        (&shown["running"]["generation"], &shown["rollback"]["refused_sha256"]),
        (&1.into(), &hash(BAD).into())
    );
    let trace = answers(&hark, "p", 2).await;
    assert_eq!(breaks(&trace, "p"), [0; 0]);
    let said = [
        " WARN hark::output: p: ",
        "p.wasm has content that is refused: ",
        &short(BAD),
        &short(GOOD),
        "until another build is saved",
    ];
    says_once(&hark, &said).await;
    Ok(hark)
}

pub(super) async fn after_a_kill_the_good_one_runs_and_the_refused_one_stays_so(
    cluster: &mut Cluster,
) -> Result<()> {
    let stage = Stage::new(cluster, ON)?;
    let mut hark = rolled_back(&stage).await?;
    hark.signal("KILL")?;
    hark.ends().await?;
    let mode = |path: &std::path::Path| path.metadata().map(|metadata| metadata.permissions().mode() & 0o777);
    let kept = stage.kept().expect("a folder");
    assert_eq!(mode(&kept)?, 0o700);
    for name in ["versions.json".to_owned(), format!("{}.wasm", hash(GOOD))] {
        assert_eq!(mode(&kept.join(&name))?, 0o600, "{name}");
    }
    for signal in ["TERM", "KILL"] {
        let mut hark = stays(&stage).await?;
        // The host before may have been killed just before it was removed.
        let refused = kept.join(format!("{}.wasm", hash(BAD)));
        eventually(
            "what is refused not to be kept",
            || hark.state(),
            async || (!refused.exists()).then_some(()),
        )
        .await;
        hark.signal(signal)?;
        hark.ends().await?;
    }
    let mut hark = stays(&stage).await?;
    hark.save("p", &fixture(BETTER))?;
    stands(&hark, "p", "good", BETTER).await;
    hark.signal("TERM")?;
    ensure!(hark.ends().await?.success(), "{}", hark.state());
    // It is what is good now, and what was refused was replaced.
    let hark = stage.host(&[("p", BAD)])?;
    stands(&hark, "p", "rolled-back", BETTER).await;
    says_once(&hark, &[&format!("rolling back from {} to {}", short(BAD), short(BETTER))]).await;
    stage.has_no_dead_letter()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_version_of_a_host_is_on_trial_if_another_one_was_good() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, ON)?;
        let mut hark = stage.host(&[("p", GOOD)])?;
        stands(&hark, "p", "good", GOOD).await;
        hark.signal("TERM")?;
        ensure!(hark.ends().await?.success());
        let hark = stage.host(&[("p", BAD)])?;
        stands(&hark, "p", "on-trial", BAD).await;
        stage.create(&["a", "b"]).await?;
        let trace = answers(&hark, "p", 2).await;
        assert_eq!(breaks(&trace, "p"), [1, 1, 1]);
        let shown = stands(&hark, "p", "rolled-back", GOOD).await;
        assert_eq!(shown["running"]["generation"], 2);
        stage.has_no_dead_letter()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn in_hark_dev_what_is_refused_stays_so_as_well() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, ON)?;
        let dev = |build: &str| {
            Setup::new()?.config(&stage.config(""))?.plugin("p", &fixture(build))?.start(&["dev"])
        };
        let kubectl = async |hark: &Hark, name: &str| {
            hark.shows(&["API server ready at http://127.0.0.1:"]).await;
            let stdout = hark.stdout();
            let (_, after) = stdout.split_once("API server ready at http://").unwrap_or_default();
            let address: std::net::SocketAddr = after.split_whitespace().next().unwrap_or_default().parse()?;
            let body = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#);
            let request = format!(
                "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let answer = hark_tests::http::send(address, &request).await?;
            ensure!(answer.status == 201, "{answer:?}");
            Ok(())
        };
        let mut hark = dev(GOOD)?;
        stands(&hark, "p", "good", GOOD).await;
        hark.save("p", &fixture(BAD))?;
        stands(&hark, "p", "on-trial", BAD).await;
        kubectl(&hark, "a").await?;
        stands(&hark, "p", "rolled-back", GOOD).await;
        hark.shows(&[&format!("rolling back from {} to {}", short(BAD), short(GOOD))]).await;
        hark.signal("TERM")?;
        ensure!(hark.ends().await?.success());
        let hark = dev(BAD)?;
        stands(&hark, "p", "rolled-back", GOOD).await;
        hark.shows(&["p.wasm has content that is refused: "]).await;
        Ok(())
    })
    .await
}
