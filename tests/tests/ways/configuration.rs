//! `hark.toml` as it changes: read when it is whole, applied as a difference, once.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use hark_tests::ways::stage::{Start, lay};
use hark_tests::ways::{Run, pause, slow};

hark_tests::ways! {
    the_configuration_written_at_once
    the_configuration_written_by_parts
    the_configuration_emptied_and_written_a_moment_later
    the_configuration_emptied_and_written_seconds_later
    the_configuration_renamed_over
    the_configuration_deleted_and_back
    the_configuration_deleted_for_three_seconds
    the_configuration_broken_and_mended
    the_configuration_touched_and_written_again
    the_configuration_is_a_link_that_is_retargeted
}

/// A configuration in which the subject has a setting.
fn config(run: Run, text: &str) -> String {
    run.config(&format!("[plugins.subject.settings]\ntext = \"{text}\"\n"))
}

async fn the_configuration_written_at_once(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for text in ["one", "two"] {
        fs::write(stage.beside("hark.toml"), config(run, text))?;
        stage.is_configured_anew().await;
    }
    stage.ends().await
}

/// Every part is a valid file that says something else of the subject.
async fn the_configuration_written_by_parts(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let parts =
        [run.config(""), "[plugins.subject.settings]\n".into(), "one = 1\n".into(), "two = 2\n".into()];
    let parts = parts.map(String::into_bytes);
    slow::write(&stage.beside("hark.toml"), &parts, Duration::from_millis(50)).await?;
    stage.is_configured_anew().await;
    stage.ends().await
}

async fn the_configuration_emptied_and_written_a_moment_later(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let mut file = File::create(stage.beside("hark.toml"))?;
    pause(Duration::from_millis(80)).await;
    file.write_all(config(run, "one").as_bytes())?;
    drop(file);
    stage.is_configured_anew().await;
    stage.ends().await
}

/// Nobody is left without his settings meanwhile, and that it is empty is said once.
async fn the_configuration_emptied_and_written_seconds_later(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let file = stage.beside("hark.toml");
    fs::write(&file, "")?;
    stage.warns("hark.toml is empty, which is seldom meant").await;
    fs::write(&file, " \n\n")?;
    stage.looks_around().await?;
    fs::write(&file, run.config(""))?;
    stage.looks_around().await?;
    fs::write(&file, config(run, "one"))?;
    stage.is_configured_anew().await;
    stage.ends().await
}

async fn the_configuration_renamed_over(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for text in ["one", "two"] {
        fs::write(stage.beside("hark.toml.new"), config(run, text))?;
        fs::rename(stage.beside("hark.toml.new"), stage.beside("hark.toml"))?;
        stage.is_configured_anew().await;
    }
    stage.ends().await
}

async fn the_configuration_deleted_and_back(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    fs::remove_file(stage.beside("hark.toml"))?;
    pause(Duration::from_millis(80)).await;
    fs::write(stage.beside("hark.toml"), config(run, "one"))?;
    stage.is_configured_anew().await;
    stage.ends().await
}

async fn the_configuration_deleted_for_three_seconds(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    fs::remove_file(stage.beside("hark.toml"))?;
    stage.warns("cannot read hark.toml: No such file").await;
    pause(Duration::from_secs(3)).await;
    fs::write(stage.beside("hark.toml"), run.config(""))?;
    stage.looks_around().await?;
    fs::write(stage.beside("hark.toml"), config(run, "one"))?;
    stage.is_configured_anew().await;
    stage.ends().await
}

async fn the_configuration_broken_and_mended(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let file = stage.beside("hark.toml");
    // Half of it is good, and is not applied.
    fs::write(&file, config(run, "one") + "[plugins.neighbour]\nlimits = 7\n")?;
    stage.warns("hark.toml has 1 error").await;
    pause(Duration::from_secs(2)).await;
    fs::write(&file, "[plugins")?;
    stage.warns("hark.toml is not valid TOML").await;
    fs::write(&file, run.config(""))?;
    stage.looks_around().await?;
    fs::write(&file, config(run, "one"))?;
    stage.is_configured_anew().await;
    stage.ends().await
}

async fn the_configuration_touched_and_written_again(run: Run) -> Result<()> {
    let stage = run.start().await?;
    let file = stage.beside("hark.toml");
    for text in [run.config(""), run.config("# A comment says nothing.\n"), run.config("\n\n")] {
        fs::write(&file, text)?;
        stage.looks_around().await?;
    }
    stage.ends().await
}

async fn the_configuration_is_a_link_that_is_retargeted(run: Run) -> Result<()> {
    let lay = |at: &Path| {
        lay(&at.join("plugins"))?;
        fs::rename(at.join("hark.toml"), at.join("first.toml"))?;
        Ok(symlink("first.toml", at.join("hark.toml"))?)
    };
    let mut stage = run.start_with(Start { lay: &lay, ..Start::default() }).await?;
    for text in ["one", "two"] {
        let folder = stage.beside(text);
        fs::create_dir(&folder)?;
        fs::write(folder.join("some.toml"), config(run, text))?;
        symlink(folder.join("some.toml"), stage.beside("next"))?;
        fs::rename(stage.beside("next"), stage.beside("hark.toml"))?;
        stage.is_configured_anew().await;
        fs::write(folder.join("some.toml"), config(run, &format!("{text} again")))?;
        stage.is_configured_anew().await;
    }
    stage.ends().await
}
