//! One host: which builds are rolled back, which are not, and what is seen of it.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use hark_tests::cluster::{Cluster, Kind, run};
use hark_tests::eventually;
use hark_tests::guests::fixture;

use super::stage::*;

/// Any event would be given up at once, if it were the plugin's fault.
const ONE_ATTEMPT: &str = "rollback = true\nlimits = { max_attempts = 1, deadline = \"50ms\" }";

pub(super) async fn with_continue_nothing_is_lost_doubled_or_given_up(cluster: &mut Cluster) -> Result<()> {
    let stage = Stage::new(cluster, &format!("{ONE_ATTEMPT}\non_reload = \"continue\""))?;
    let mut want = stage.create(&["a0", "a1", "a2", "a3", "a4"]).await?;
    let hark = stage.host(&[("p", GOOD)])?;
    answers(&hark, "p", 5).await;
    hark.save("p", &fixture(BAD))?;
    let shown = stands(&hark, "p", "on-trial", BAD).await;
    assert_eq!(shown["rollback"]["good_sha256"], hash(GOOD));
    assert_eq!(metrics(&hark, "p").await?, [Some(1.0), Some(0.0), Some(0.0)]);
    ensure!(ready(&hark, "p").await?.ends_with("; on trial"));
    want.extend(stage.create(&["b0", "b1", "b2", "b3", "b4"]).await?);
    let trace = answers(&hark, "p", 10).await;
    assert_eq!(breaks(&trace, "p"), [2, 2, 2], "three attempts, and none more");
    let told = answered(&trace, "p");
    let want: Vec<_> = want.into_iter().zip([1, 1, 1, 1, 1, 3, 3, 3, 3, 3]).collect();
    let (told, want): (BTreeSet<_>, BTreeSet<_>) = (
        told.into_iter().collect(),
        want.into_iter().map(|((key, version), by)| (by, key, version)).collect(),
    );
    assert_eq!(told, want, "each once, and the old ones by the first version only");
    assert_eq!(answered(&trace, "p").len(), 10);

    let shown = stands(&hark, "p", "rolled-back", GOOD).await;
    let rollback = &shown["rollback"];
    assert_eq!((&rollback["refused_sha256"], &rollback["rollbacks"]), (&hash(BAD).into(), &1.into()));
    let why = rollback["why"].as_str().unwrap_or_default();
    let begins = "its first 3 attempts all broke it, the last one: add default/b";
    ensure!(why.starts_with(begins) && why.contains(": trap: "), "{why}");
    assert_eq!(
        (&shown["running"]["generation"], &shown["refused"]["sha256"]),
        (&3.into(), &hash(BAD).into())
    );
    assert_eq!(metrics(&hark, "p").await?, [Some(0.0), Some(1.0), Some(1.0)]);
    let line = ready(&hark, "p").await?;
    ensure!(
        line.starts_with("[-]plugin p running sha256:") && line.contains(" was rolled back at "),
        "{line}"
    );
    let said = [
        &*format!("ERROR hark::output: p: rolling back from {} to {}: its first 3", short(BAD), short(GOOD)),
        ": trap: ",
    ];
    says_once(&hark, &said).await;
    says_once(&hark, &["p reloaded: ", &format!("{} -> {}", short(BAD), short(GOOD))]).await;
    let back = [
        &*format!(" WARN hark::output: p: rolled back: {} runs again, and {} stays", short(GOOD), short(BAD)),
        " stays refused until another build takes over",
    ];
    says_once(&hark, &back).await;
    stage.has_no_dead_letter()
}

pub(super) async fn with_replay_the_one_before_sees_everything(cluster: &mut Cluster) -> Result<()> {
    let stage = Stage::new(cluster, &format!("{ONE_ATTEMPT}\nrollback_after = 2\nconcurrency = 3"))?;
    let mut want = stage.create(&["a0", "a1", "a2", "a3", "a4"]).await?;
    let hark = stage.host(&[("p", GOOD)])?;
    answers(&hark, "p", 5).await;
    hark.save("p", &fixture(BAD))?;
    stands(&hark, "p", "rolled-back", GOOD).await;
    want.extend(stage.create(&["b0"]).await?);
    let trace = answers(&hark, "p", 11).await;
    assert_eq!(breaks(&trace, "p"), [2, 2], "all lanes together, one after the other");
    let by = |generation| -> BTreeSet<_> {
        let told = answered(&trace, "p").into_iter().filter(|(by, ..)| *by == generation);
        told.map(|(_, key, version)| (key, version)).collect()
    };
    assert_eq!((by(1).len(), by(2).len()), (5, 0));
    assert_eq!(by(3), want.into_iter().collect());
    stage.has_no_dead_letter()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_spins_is_rolled_back_too() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage =
            Stage::new(cluster, &format!("{ONE_ATTEMPT}\nrollback_after = 1\non_reload = \"continue\""))?;
        let hark = stage.host(&[("p", GOOD)])?;
        stands(&hark, "p", "good", GOOD).await;
        hark.save("p", &fixture(SPINS))?;
        stands(&hark, "p", "on-trial", SPINS).await;
        stage.create(&["a", "b"]).await?;
        let trace = answers(&hark, "p", 2).await;
        assert_eq!(breaks(&trace, "p"), [2]);
        ensure!(trace.iter().any(|line| line.outcome == "timeout"), "{trace:?}");
        says_once(&hark, &["p: rolling back from ", "its first attempt broke it: ", "timeout"]).await;
        stage.has_no_dead_letter()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_object_that_only_the_new_build_breaks_at_is_no_reason_if_others_are_answered() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, "rollback = true\nlimits = { max_attempts = 2 }")?;
        stage.create(&["poison", "other"]).await?;
        let hark = stage.host(&[("p", GOOD)])?;
        answers(&hark, "p", 2).await;
        hark.save("p", &fixture(POISONED))?;
        let shown = stands(&hark, "p", "good", POISONED).await;
        assert_eq!(shown["rollback"]["rollbacks"], 0);
        stage.writes(&hark, POISONED, None).await;
        hark.says(&["p: add default/poison is given up (attempt 2 at this state)"]).await;
        assert_eq!(lines(&hark, &["rolling back"]), 0);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn switched_off_a_build_that_breaks_stays() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, "rollback_after = 1\nlimits = { quarantine_after = 2 }")?;
        stage.create(&["a", "b"]).await?;
        let hark = stage.host(&[("p", GOOD)])?;
        answers(&hark, "p", 2).await;
        hark.save("p", &fixture(BAD))?;
        hark.says(&["p: quarantined for 1."]).await;
        let shown = shown(&hark, "p").await?;
        assert_eq!(
            (&shown["rollback"], &shown["running"]["sha256"]),
            (&serde_json::Value::Null, &hash(BAD).into())
        );
        assert_eq!(metrics(&hark, "p").await?, [None, None, Some(0.0)]);
        assert_eq!((lines(&hark, &["rolling back"]), stage.kept()), (0, None));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_saved_during_a_trial_is_tried_itself_and_what_is_gone_back_to_was_good() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, &format!("{ONE_ATTEMPT}\non_reload = \"continue\""))?;
        let hark = stage.host(&[("p", GOOD)])?;
        stands(&hark, "p", "good", GOOD).await;
        // None of them is handed anything.
        for build in [BAD, POISONED, SPINS] {
            hark.save("p", &fixture(build))?;
            let shown = stands(&hark, "p", "on-trial", build).await;
            assert_eq!(shown["rollback"]["good_sha256"], hash(GOOD));
        }
        stage.create(&["a", "b", "c"]).await?;
        let trace = answers(&hark, "p", 3).await;
        assert_eq!(breaks(&trace, "p"), [4, 4, 4]);
        let shown = stands(&hark, "p", "rolled-back", GOOD).await;
        assert_eq!(shown["running"]["generation"], 5);
        hark.save("p", &fixture(BETTER))?;
        stands(&hark, "p", "on-trial", BETTER).await;
        stage.create(&["d"]).await?;
        stands(&hark, "p", "good", BETTER).await;
        stage.writes(&hark, BETTER, None).await;
        stage.has_no_dead_letter()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_rolled_back_stays_refused_until_the_file_has_other_content() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, ONE_ATTEMPT)?;
        let hark = stage.rolled_back().await?;
        // The same content again, and other settings: the good one goes on, with them.
        hark.save("p", &fixture(BAD))?;
        let config = stage.config("[plugins.p]\nsettings = { colour = \"red\" }");
        std::fs::write(hark.folder().join("hark.toml"), config)?;
        hark.says(&[&format!("p reloaded: {}, new configuration", short(GOOD))]).await;
        let shown = stands(&hark, "p", "rolled-back", GOOD).await;
        assert_eq!(
            (&shown["running"]["generation"], &shown["rollback"]["rollbacks"]),
            (&4.into(), &1.into())
        );

        // The author puts the good one back: it runs already.
        hark.save("p", &fixture(GOOD))?;
        hark.says(&["p: its file is good again"]).await;
        let shown = stands(&hark, "p", "good", GOOD).await;
        assert_eq!(
            (&shown["running"]["generation"], &shown["refused"]),
            (&4.into(), &serde_json::Value::Null)
        );
        stage.writes(&hark, GOOD, None).await;
        // So the bad one is another build than what was there.
        hark.save("p", &fixture(BAD))?;
        let twice = async || {
            let shown = super::stage::shown(&hark, "p").await.expect("an answer");
            (shown["rollback"]["rollbacks"] == 2 && shown["rollback"]["state"] == "rolled-back").then_some(())
        };
        eventually("another rollback", || hark.state(), twice).await;
        // Whoever switches it off wants what is in the file.
        let config = stage.config("[plugins.p]\nrollback = false");
        std::fs::write(hark.folder().join("hark.toml"), config)?;
        let runs = async || {
            let shown = super::stage::shown(&hark, "p").await.expect("an answer");
            let is_it = shown["running"]["sha256"] == hash(BAD) && shown["rollback"].is_null();
            (is_it && shown["refused"].is_null()).then_some(())
        };
        eventually("what was refused to run", || hark.state(), runs).await;
        eventually(
            "nothing to be kept",
            || hark.state(),
            async || (stage.document()["plugins"] == serde_json::json!({})).then_some(()),
        )
        .await;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_or_half_written_file_ends_no_refusal() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, ONE_ATTEMPT)?;
        let hark = stage.rolled_back().await?;
        let refuses = async |content: &[u8]| {
            std::fs::write(hark.plugin_path("p"), content).expect("written");
            let sha256 = serde_json::Value::from(hark_tests::guests::sha256(content));
            let refused = async || {
                let shown = super::stage::shown(&hark, "p").await.expect("an answer");
                (shown["refused"]["sha256"] == sha256).then_some(shown)
            };
            let shown = eventually("it to be refused", || hark.state(), refused).await;
            let rollback = &shown["rollback"];
            assert_eq!(
                (&rollback["state"], &rollback["refused_sha256"], &rollback["rollbacks"]),
                (&"rolled-back".into(), &hash(BAD).into(), &1.into())
            );
            assert_eq!(shown["running"]["generation"], 3, "{}", hark.stderr());
        };
        let bad = std::fs::read(fixture(BAD))?;
        let other_world = std::fs::read(fixture("other-world"))?;
        for broken in [&bad[..bad.len() / 2], b"no module", other_world.as_slice()] {
            refuses(broken).await;
            refuses(&bad).await;
        }
        let again = ["p.wasm has content that is refused: ", &short(BAD), "until another build is saved"];
        eventually(
            "each time to be said",
            || hark.state(),
            async || (lines(&hark, &again) == 3).then_some(()),
        )
        .await;
        stage.writes(&hark, GOOD, Some(BAD)).await;
        hark.save("p", &fixture(BETTER))?;
        stands(&hark, "p", "good", BETTER).await;
        stage.writes(&hark, BETTER, None).await;
        assert_eq!(lines(&hark, &["ERROR hark::output: p: roll"]), 1, "{}", hark.stderr());
        stage.has_no_dead_letter()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn several_plugins_are_rolled_back_at_once_and_a_removed_one_leaves_nothing() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, ONE_ATTEMPT)?;
        stage.create(&["a", "b"]).await?;
        let names = ["p", "q", "r", "s", "t", "u"];
        let hark = stage.host(&names.map(|name| (name, GOOD)))?;
        for name in names {
            answers(&hark, name, 2).await;
        }
        for name in names {
            hark.save(name, &fixture(BAD))?;
        }
        for name in names {
            stands(&hark, name, "rolled-back", GOOD).await;
            says_once(&hark, &[&format!("ERROR hark::output: {name}: rolling back from ")]).await;
        }
        std::fs::remove_file(hark.plugin_path("t"))?;
        hark.says(&["t: stopped: its file is gone"]).await;
        eventually(
            "five plugins to be kept",
            || hark.state(),
            async || {
                let document = stage.document();
                let kept = document["plugins"].as_object()?;
                (kept.len() == 5 && !kept.contains_key("t")).then_some(())
            },
        )
        .await;
        stage.has_no_dead_letter()
    })
    .await
}
