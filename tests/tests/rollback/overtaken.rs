//! A version is on its way that takes long, and something else happens to its plugin meanwhile.
//!
//! Builds are of the fixture `planned`, which can take long to describe itself.

use anyhow::{Context, Result, ensure};
use hark_tests::cluster::{Kind, run};
use hark_tests::eventually;
use hark_tests::guests::{fixture, sha256};
use hark_tests::hark::{Hark, Setup};
use hark_tests::http::get;
use hark_tests::reloads::history;
use hark_tests::reloads::plan::{Fixtures, Mood, Plan, Watch};
use serde_json::{Value, json};

use super::stage::{Stage, answers, says_once, shown};

/// A second or more in all.
const LONG: u32 = 8;

fn build(number: u32, mood: Mood, lingers: u32) -> Result<Vec<u8>> {
    let fixtures = Fixtures {
        plain: std::fs::read(fixture("planned"))?,
        stateful: std::fs::read(fixture("planned-stateful"))?,
    };
    let watches = vec![Watch::of("maps", history::Kind::ConfigMap)];
    let replays = Some(false);
    Plan { number, watches, mood, lingers, replays, concurrency: None, memory: None }.build(&fixtures)
}

const ON: &str = "rollback = true\nrollback_after = 1\nlimits = { deadline = \"60s\", budget = \"60s\" }";

fn host(stage: &Stage<'_>, content: &[u8]) -> Result<Hark> {
    Setup::new()?.config(&stage.config(""))?.content("p", content)?.run(stage.cluster.kubeconfig())
}

fn save(hark: &Hark, content: &[u8]) -> Result<()> {
    let beside = hark.folder().join("beside");
    std::fs::write(&beside, content)?;
    Ok(std::fs::rename(beside, hark.plugin_path("p"))?)
}

/// Waits until what is said of the plugin is so.
async fn is(hark: &Hark, what: &str, so: impl Fn(&Value) -> bool) -> Value {
    let looks = async || {
        let shown = shown(hark, "p").await.expect("an answer");
        so(&shown).then_some(shown)
    };
    eventually(what, || hark.state(), looks).await
}

fn stands(shown: &Value, state: &str, content: &[u8]) -> bool {
    shown["rollback"]["state"] == state && shown["running"]["sha256"] == sha256(content)
}

/// A host whose bad build is on trial, while a version of it or another one is being prepared; then the trial fails.
async fn overtaken(stage: &Stage<'_>, good: &[u8], then: impl Fn(&Hark) -> Result<()>) -> Result<Hark> {
    let bad = build(2, Mood::Traps(1), LONG)?;
    let hark = host(stage, good)?;
    is(&hark, "the good one to run", |shown| stands(shown, "good", good)).await;
    save(&hark, &bad)?;
    is(&hark, "a trial", |shown| stands(shown, "on-trial", &bad) && shown["preparing"] == false).await;
    then(&hark)?;
    is(&hark, "another version on its way", |shown| shown["preparing"] == true).await;
    stage.create(&["a"]).await?;
    answers(&hark, "p", 1).await;
    Ok(hark)
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_change_during_a_trial_bring_back_no_build_that_failed_it() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, ON)?;
        let (good, bad) = (build(1, Mood::Good, 0)?, build(2, Mood::Traps(1), LONG)?);
        let hark = overtaken(&stage, &good, |hark| {
            let config = stage.config("[plugins.p]\nlimits = { log_lines = 77 }");
            Ok(std::fs::write(hark.folder().join("hark.toml"), config)?)
        })
        .await?;
        let shown = is(&hark, "the good one with the new settings", |shown| {
            let treated = shown["running"]["limits"]["log_lines"] == 77 && shown["preparing"] == false;
            treated && stands(shown, "rolled-back", &good)
        })
        .await;
        assert_eq!(shown["rollback"]["refused_sha256"], sha256(&bad));
        let (good, bad) = (&sha256(&good)[..12], &sha256(&bad)[..12]);
        says_once(&hark, &["p reloaded: ", &format!("{good} -> {bad}")]).await;
        stage.has_no_dead_letter()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_good_build_saved_again_during_a_trial_takes_over_once() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, ON)?;
        let good = build(1, Mood::Good, LONG)?;
        let hark = overtaken(&stage, &good, |hark| save(hark, &good)).await?;
        let shown = is(&hark, "what is in the file to be good", |shown| {
            stands(shown, "good", &good) && shown["preparing"] == false && shown["refused"].is_null()
        })
        .await;
        assert_eq!(shown["running"]["generation"], 3, "{}", hark.stderr());
        stage.has_no_dead_letter()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_prepared_of_a_file_that_is_gone_is_not_taken_for_its_successor() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, ON)?;
        let (long, other) = (build(1, Mood::Good, 40)?, build(2, Mood::Good, 0)?);
        let hark = host(&stage, &long)?;
        hark.says(&["lingers"]).await;
        std::fs::remove_file(hark.plugin_path("p"))?;
        is(&hark, "it to be gone", Value::is_null).await;
        save(&hark, &other)?;
        is(&hark, "the other one to run", |shown| stands(shown, "good", &other)).await;
        hark.says(&["has lingered"]).await;
        // What comes of it comes before the loop turns once more, or soon after.
        for _ in 0..20 {
            ensure!(get(hark.admin().await, "/livez").await?.status == 200);
        }
        let shown = shown(&hark, "p").await?;
        let running = shown.get("running").context("it runs")?;
        assert_eq!(
            (&running["sha256"], &running["generation"]),
            (&json!(sha256(&other)), &json!(1)),
            "{}",
            hark.stderr()
        );
        Ok(())
    })
    .await
}
