//! Permissions are taken away, and given back.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use hark_tests::ways::build::build;
use hark_tests::ways::place::{WITHOUT_PRIVILEGE, can_be_refused};
use hark_tests::ways::stage::{NEIGHBOUR, SUBJECT, Stage, Start, lay};
use hark_tests::ways::{Run, pause};

hark_tests::ways! {
    of_the_file
    of_the_file_and_given_back_with_another_content
    of_the_folder
    of_the_folder_to_enter_it
    of_the_folder_above
    of_a_sub_folder
    of_the_folder_that_a_link_leads_to
    of_the_configuration
}

fn mode(path: impl AsRef<Path>, mode: u32) -> Result<()> {
    Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
}

/// A host that is refused what others are refused.
async fn refusable(run: Run, lay: &(dyn Fn(&Path) -> Result<()> + Sync)) -> Result<Option<Stage>> {
    if !can_be_refused(run.name) {
        return Ok(None);
    }
    let start = Start { through: &WITHOUT_PRIVILEGE, lay, ..Start::default() };
    run.start_with(start).await.map(Some)
}

fn plain(at: &Path) -> Result<()> {
    lay(&at.join("plugins"))
}

const DENIED: &str = "Permission denied";

async fn of_the_file(run: Run) -> Result<()> {
    let Some(mut stage) = refusable(run, &plain).await? else { return Ok(()) };
    for _ in 0..2 {
        mode(stage.subject(), 0o000)?;
        stage.refuses("cannot read it: Permission denied").await;
        pause(Duration::from_secs(3)).await;
        mode(stage.subject(), 0o644)?;
        stage.is_refused_no_more().await;
    }
    stage.ends().await
}

async fn of_the_file_and_given_back_with_another_content(run: Run) -> Result<()> {
    let Some(mut stage) = refusable(run, &plain).await? else { return Ok(()) };
    mode(stage.subject(), 0o000)?;
    stage.refuses("cannot read it: Permission denied").await;
    fs::remove_file(stage.subject())?;
    fs::write(stage.subject(), build(2))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

/// Takes the permissions of a folder for three seconds: it stops nothing, and is said.
async fn folder_refused(stage: &mut Stage, folder: &Path, modes: (u32, u32)) -> Result<()> {
    mode(folder, modes.0)?;
    stage.warns(DENIED).await;
    pause(Duration::from_secs(3)).await;
    mode(folder, modes.1)?;
    stage.looks_around().await
}

async fn of_the_folder(run: Run) -> Result<()> {
    let Some(mut stage) = refusable(run, &plain).await? else { return Ok(()) };
    let folder = stage.folder.clone();
    folder_refused(&mut stage, &folder, (0o000, 0o755)).await?;
    folder_refused(&mut stage, &folder, (0o000, 0o755)).await?;
    mode(&folder, 0o000)?;
    stage.warns(DENIED).await;
    mode(&folder, 0o755)?;
    fs::write(stage.subject(), build(2))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

/// The names can be read, and nothing else: that says nothing of the files, least of all that they are gone.
async fn of_the_folder_to_enter_it(run: Run) -> Result<()> {
    let Some(mut stage) = refusable(run, &plain).await? else { return Ok(()) };
    mode(&stage.folder, 0o644)?;
    for plugin in [NEIGHBOUR, SUBJECT] {
        stage.warns(&format!("cannot read \"plugins/{plugin}.wasm\": {DENIED}")).await;
    }
    pause(Duration::from_secs(3)).await;
    mode(&stage.folder, 0o755)?;
    stage.looks_around().await?;
    stage.ends().await
}

async fn of_the_folder_above(run: Run) -> Result<()> {
    if !can_be_refused(run.name) {
        return Ok(());
    }
    let below = |at: &Path| {
        fs::create_dir(at.join("top"))?;
        fs::rename(at.join("plugins"), at.join("top/plugins"))?;
        lay(&at.join("top/plugins"))
    };
    let start = Start { through: &WITHOUT_PRIVILEGE, folder: "top/plugins", lay: &below, ..Start::default() };
    let mut stage = run.start_with(start).await?;
    let top = stage.beside("top");
    folder_refused(&mut stage, &top, (0o000, 0o755)).await?;
    stage.ends().await
}

async fn of_a_sub_folder(run: Run) -> Result<()> {
    let in_a_team = |at: &Path| {
        plain(at)?;
        fs::create_dir(at.join("plugins/team"))?;
        Ok(fs::rename(at.join("plugins/subject.wasm"), at.join("plugins/team/subject.wasm"))?)
    };
    let Some(mut stage) = refusable(run, &in_a_team).await? else { return Ok(()) };
    let team = stage.folder.join("team");
    folder_refused(&mut stage, &team, (0o000, 0o755)).await?;
    fs::write(team.join("subject.wasm"), build(2))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn of_the_folder_that_a_link_leads_to(run: Run) -> Result<()> {
    let linked = |at: &Path| {
        plain(at)?;
        fs::create_dir(at.join("store"))?;
        fs::rename(at.join("plugins/subject.wasm"), at.join("store/subject.wasm"))?;
        Ok(symlink("../store/subject.wasm", at.join("plugins/subject.wasm"))?)
    };
    let Some(mut stage) = refusable(run, &linked).await? else { return Ok(()) };
    let store = stage.beside("store");
    folder_refused(&mut stage, &store, (0o000, 0o755)).await?;
    fs::write(store.join("subject.wasm"), build(2))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn of_the_configuration(run: Run) -> Result<()> {
    let Some(mut stage) = refusable(run, &plain).await? else { return Ok(()) };
    let file = stage.beside("hark.toml");
    mode(&file, 0o000)?;
    stage.warns("cannot read hark.toml: Permission denied").await;
    mode(&file, 0o644)?;
    stage.looks_around().await?;
    let text = run.config("[plugins.subject.settings]\ntext = \"new\"\n");
    fs::write(&file, text)?;
    stage.is_configured_anew().await;
    stage.ends().await
}
