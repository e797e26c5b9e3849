//! What is kept is damaged, may be somebody else's, or cannot be kept.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use hark_tests::cluster::{Kind, run};
use hark_tests::guests::fixture;
use hark_tests::hark::Hark;

use super::stage::*;

const ON: &str = "rollback = true\nlimits = { max_attempts = 1 }";

/// Rolls `p` back, and ends the host.
async fn roll_back(stage: &Stage<'_>) -> Result<()> {
    let mut hark = stage.rolled_back().await?;
    hark.signal("TERM")?;
    ensure!(hark.ends().await?.success(), "{}", hark.state());
    Ok(())
}

async fn runs_after_another_build(hark: &Hark) -> Result<()> {
    hark.save("p", &fixture(BETTER))?;
    answers(hark, "p", 2).await;
    stands(hark, "p", "good", BETTER).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_good_version_is_named_and_the_refused_one_stays_so() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, ON)?;
        roll_back(&stage).await?;
        let good = stage.kept().context("a folder")?.join(format!("{}.wasm", hash(GOOD)));
        fs::write(&good, fs::read(fixture(BAD))?)?;
        let hark = stage.host(&[("p", BAD)])?;
        hark.says(&[
            "p.wasm is refused: ",
            " was rolled back at ",
            "and the last good version cannot take its place: ",
            &format!("{} is damaged", good.display()),
        ])
        .await;
        let shown = shown(&hark, "p").await?;
        assert_eq!(
            (&shown["running"], &shown["refused"]["sha256"]),
            (&serde_json::Value::Null, &hash(BAD).into())
        );
        runs_after_another_build(&hark).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_goes_on_if_there_is_no_way_back_and_everything_says_why() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, "rollback = true\nrollback_after = 1")?;
        let mut first = stage.host(&[("p", GOOD)])?;
        stands(&first, "p", "good", GOOD).await;
        stage.writes(&first, GOOD, None).await;
        first.signal("TERM")?;
        ensure!(first.ends().await?.success(), "{}", first.state());
        let good = stage.kept().context("a folder")?.join(format!("{}.wasm", hash(GOOD)));
        fs::write(&good, fs::read(fixture(BETTER))?)?;
        let hark = stage.host(&[("p", BAD)])?;
        stands(&hark, "p", "on-trial", BAD).await;
        stage.create(&["a"]).await?;
        let shown = stands(&hark, "p", "overruled", BAD).await;
        let rollback = &shown["rollback"];
        let damaged = format!("{} is damaged: it has the hash {}", good.display(), short(BETTER));
        assert_eq!(
            (&rollback["why"], &rollback["refused_sha256"], &rollback["rollbacks"]),
            (&damaged.clone().into(), &serde_json::Value::Null, &0.into())
        );
        ensure!(rollback["since"].is_string(), "{rollback}");
        let line = ready(&hark, "p").await?;
        let said = format!("; its first events broke it, and the version before cannot come back: {damaged}");
        ensure!(line.starts_with("[-]plugin p running sha256:") && line.ends_with(&said), "{line}");
        let (bad, good) = (short(BAD), short(GOOD));
        says_once(&hark, &[&format!("p: rolling back from {bad} to {good}: its first attempt broke it: ")])
            .await;
        says_once(&hark, &[&format!("p: cannot roll back: {damaged}; {bad} goes on")]).await;
        assert_eq!(lines(&hark, &["p: rolled back"]), 0, "{}", hark.stderr());
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_document_is_named_and_is_as_if_it_were_not_there() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, ON)?;
        roll_back(&stage).await?;
        let kept = stage.kept().context("a folder")?;
        fs::write(kept.join("versions.json"), "{\"plugins\": ")?;
        fs::write(kept.join("notes.txt"), "somebody else's")?;
        let hark = stage.host(&[("p", BAD)])?;
        stands(&hark, "p", "good", BAD).await;
        let document = kept.join("versions.json").display().to_string();
        says_once(&hark, &[" WARN ", &document, "it is damaged", "it is not known what was rolled back"])
            .await;
        says_once(&hark, &[" WARN ", "notes.txt is none of Hark's files"]).await;
        runs_after_another_build(&hark).await?;
        assert_eq!(fs::read_to_string(kept.join("notes.txt"))?, "somebody else's");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_may_have_written_is_named_and_not_used() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, ON)?;
        roll_back(&stage).await?;
        let kept = stage.kept().context("a folder")?;
        let (good, document) = (kept.join(format!("{}.wasm", hash(GOOD))), kept.join("versions.json"));
        fs::set_permissions(&good, Permissions::from_mode(0o666))?;
        let mut hark = stage.host(&[("p", BAD)])?;
        let said = |path: &std::path::Path| {
            format!(
                "others than its owner may write to {} (mode 0666): remove it, or chmod go-w it",
                path.display()
            )
        };
        hark.says(&[
            "p.wasm is refused: ",
            "and the last good version cannot take its place: ",
            &said(&good),
        ])
        .await;
        assert_eq!(shown(&hark, "p").await?["running"], serde_json::Value::Null);
        says_once(&hark, &[" WARN ", &said(&good), "it cannot be rolled back to"]).await;
        hark.signal("TERM")?;
        ensure!(hark.ends().await?.success(), "{}", hark.state());

        fs::set_permissions(&document, Permissions::from_mode(0o666))?;
        fs::set_permissions(&kept, Permissions::from_mode(0o777))?;
        let hark = stage.host(&[("p", BAD)])?;
        stands(&hark, "p", "good", BAD).await;
        says_once(&hark, &[" WARN ", &said(&document), "it is not known what was rolled back"]).await;
        says_once(&hark, &[" WARN ", "others than its owner could write to ", "(mode 0777)"]).await;
        runs_after_another_build(&hark).await?;
        stage.writes(&hark, BETTER, None).await;
        let mode =
            |path: &std::path::Path| path.metadata().map(|metadata| metadata.permissions().mode() & 0o777);
        assert_eq!((mode(&kept)?, mode(&document)?), (0o700, 0o600));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_can_be_kept_that_is_said_and_rollback_works_until_the_host_ends() -> Result<()> {
    run(Kind::Embedded, async |cluster| {
        let stage = Stage::new(cluster, ON)?;
        stage.create(&["a", "b"]).await?;
        // As root one may write anywhere: something is in the way instead.
        let mut first = stage.host(&[("p", GOOD)])?;
        answers(&first, "p", 2).await;
        stage.writes(&first, GOOD, None).await;
        first.signal("TERM")?;
        ensure!(first.ends().await?.success());
        let kept = stage.kept().context("a folder")?;
        fs::remove_dir_all(&kept)?;
        fs::write(&kept, "in the way")?;
        let mut hark = stage.host(&[("p", GOOD)])?;
        answers(&hark, "p", 2).await;
        hark.says(&["cannot keep versions in ", "rolling back works until the host ends"]).await;
        hark.save("p", &fixture(BAD))?;
        stands(&hark, "p", "rolled-back", GOOD).await;
        says_once(&hark, &["cannot keep versions in "]).await;
        // Another host with the same state folder keeps nothing either.
        let other = stage.host(&[("p", GOOD)])?;
        other.says(&["versions that can be rolled back to are not kept: another hark "]).await;
        fs::remove_file(&kept)?;
        stage.writes(&hark, GOOD, Some(BAD)).await;
        hark.says(&["versions are kept again in "]).await;
        hark.signal("TERM")?;
        ensure!(hark.ends().await?.success());
        Ok(())
    })
    .await
}
