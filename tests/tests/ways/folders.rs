//! Whole folders: the plugins', those on the way to it, and those within it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use hark_tests::ways::build::build;
use hark_tests::ways::stage::{Start, lay};
use hark_tests::ways::{Run, pause};

hark_tests::ways! {
    deleted_and_made_again
    deleted_and_made_again_at_once
    deleted_for_three_seconds
    renamed_away_and_back
    replaced_by_another
    the_folder_above_renamed_away_and_back
    a_link_that_is_retargeted
    a_link_above_that_is_retargeted
    a_sub_folder_with_a_plugin_comes_and_goes
    a_sub_folder_renamed
    a_sub_folder_that_is_a_link_retargeted
    a_sub_folder_deleted_and_made_again
    moved_to_a_sub_folder_and_back
    sub_folders_that_are_none_of_ours
}

const UNREADABLE: &str = "cannot read plugins folder plugins: ";

async fn deleted_and_made_again(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for (number, changed) in [(2, true), (2, false)] {
        fs::remove_dir_all(&stage.folder)?;
        stage.warns(UNREADABLE).await;
        fs::create_dir(&stage.folder)?;
        fs::write(stage.plugin("neighbour"), build(1))?;
        fs::write(stage.subject(), build(number))?;
        if changed {
            stage.reloads(&build(number)).await;
        }
        // The new folder is watched as the old one was.
        stage.looks_around().await?;
    }
    stage.ends().await
}

async fn deleted_and_made_again_at_once(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let new = stage.beside("new");
    fs::create_dir(&new)?;
    lay(&new)?;
    fs::write(new.join("subject.wasm"), build(2))?;
    fs::rename(&stage.folder, stage.beside("old"))?;
    fs::rename(&new, &stage.folder)?;
    stage.reloads(&build(2)).await;
    // What happens in the old one is nobody's business.
    fs::write(stage.beside("old/subject.wasm"), build(7))?;
    fs::write(stage.beside("old/other.wasm"), build(7))?;
    stage.flows().await;
    fs::remove_dir_all(stage.beside("old"))?;
    fs::write(stage.subject(), build(3))?;
    stage.reloads(&build(3)).await;
    stage.ends().await
}

async fn deleted_for_three_seconds(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    fs::remove_dir_all(&stage.folder)?;
    pause(Duration::from_secs(3)).await;
    stage.warns(UNREADABLE).await;
    let new = stage.beside("new");
    fs::create_dir(&new)?;
    lay(&new)?;
    fs::rename(&new, &stage.folder)?;
    stage.ends().await
}

async fn renamed_away_and_back(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for _ in 0..2 {
        fs::rename(&stage.folder, stage.beside("away"))?;
        stage.warns(UNREADABLE).await;
        pause(Duration::from_secs(3)).await;
        fs::rename(stage.beside("away"), &stage.folder)?;
        stage.looks_around().await?;
    }
    stage.ends().await
}

async fn replaced_by_another(run: Run) -> Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let mut stage = run.start().await?;
    let other = stage.beside("other");
    fs::create_dir(&other)?;
    lay(&other)?;
    fs::write(other.join("subject.wasm"), build(2))?;
    for number in [2, 1] {
        renameat_with(CWD, &other, CWD, &stage.folder, RenameFlags::EXCHANGE)?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

/// In a folder of its own, at `top/plugins`.
fn below(at: &Path) -> Result<()> {
    fs::create_dir(at.join("top"))?;
    fs::rename(at.join("plugins"), at.join("top/plugins"))?;
    lay(&at.join("top/plugins"))
}

async fn the_folder_above_renamed_away_and_back(run: Run) -> Result<()> {
    let start = Start { folder: "top/plugins", lay: &below, ..Start::default() };
    let mut stage = run.start_with(start).await?;
    fs::rename(stage.beside("top"), stage.beside("away"))?;
    stage.warns("cannot read plugins folder top/plugins: ").await;
    fs::write(stage.beside("away/plugins/subject.wasm"), build(2))?;
    stage.flows().await;
    fs::rename(stage.beside("away"), stage.beside("top"))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

/// A revision of a repository with plugins, as git-sync has it: a folder for each, and a link to the one that counts.
fn revision(at: &Path, number: u32) -> Result<()> {
    let folder = at.join(format!("revision-{number}"));
    fs::create_dir(&folder)?;
    lay(&folder)?;
    Ok(fs::write(folder.join("subject.wasm"), build(number))?)
}

async fn a_link_that_is_retargeted(run: Run) -> Result<()> {
    let lay = |at: &Path| {
        revision(at, 1)?;
        Ok(symlink("revision-1", at.join("current"))?)
    };
    let mut stage = run.start_with(Start { folder: "current", lay: &lay, ..Start::default() }).await?;
    for number in [2, 3] {
        revision(stage.hark.folder(), number)?;
        symlink(format!("revision-{number}"), stage.beside("next"))?;
        fs::rename(stage.beside("next"), stage.beside("current"))?;
        stage.reloads(&build(number)).await;
        fs::remove_dir_all(stage.beside(&format!("revision-{}", number - 1)))?;
        fs::write(stage.subject(), build(number * 10))?;
        stage.reloads(&build(number * 10)).await;
    }
    stage.ends().await
}

async fn a_link_above_that_is_retargeted(run: Run) -> Result<()> {
    let revision = |at: &Path, number: u32| {
        let top = at.join(format!("top-{number}"));
        fs::create_dir(&top)?;
        revision(&top, number)?;
        anyhow::Ok(fs::rename(top.join(format!("revision-{number}")), top.join("plugins"))?)
    };
    let lay = |at: &Path| {
        revision(at, 1)?;
        Ok(symlink("top-1", at.join("current"))?)
    };
    let start = Start { folder: "current/plugins", lay: &lay, ..Start::default() };
    let mut stage = run.start_with(start).await?;
    for number in [2, 3] {
        revision(stage.hark.folder(), number)?;
        symlink(format!("top-{number}"), stage.beside("next"))?;
        fs::rename(stage.beside("next"), stage.beside("current"))?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn a_sub_folder_with_a_plugin_comes_and_goes(run: Run) -> Result<()> {
    let stage = run.start().await?;
    let team = stage.folder.join("team");
    for number in [2, 3] {
        fs::create_dir(&team)?;
        fs::write(team.join("extra.wasm"), build(number))?;
        stage.runs("extra", &build(number), 1).await;
        fs::write(team.join("extra.wasm"), build(number * 10))?;
        stage.runs("extra", &build(number * 10), 2).await;
        fs::remove_dir_all(&team)?;
        stage.is_gone("extra").await;
    }
    // Made elsewhere, and moved here whole.
    fs::create_dir(stage.beside("team"))?;
    fs::write(stage.beside("team/extra.wasm"), build(4))?;
    fs::rename(stage.beside("team"), &team)?;
    stage.runs("extra", &build(4), 1).await;
    fs::rename(&team, stage.beside("team"))?;
    stage.is_gone("extra").await;
    stage.ends().await
}

/// The subject is in a sub-folder.
fn in_a_team(at: &Path) -> Result<()> {
    lay(&at.join("plugins"))?;
    fs::create_dir(at.join("plugins/team"))?;
    Ok(fs::rename(at.join("plugins/subject.wasm"), at.join("plugins/team/subject.wasm"))?)
}

async fn a_sub_folder_renamed(run: Run) -> Result<()> {
    let mut stage = run.start_with(Start { lay: &in_a_team, ..Start::default() }).await?;
    fs::rename(stage.folder.join("team"), stage.folder.join("group"))?;
    stage.flows().await;
    fs::write(stage.folder.join("group/subject.wasm"), build(2))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn a_sub_folder_that_is_a_link_retargeted(run: Run) -> Result<()> {
    let store = |at: &Path, number: u32| {
        fs::create_dir(at.join(format!("store-{number}")))?;
        fs::write(at.join(format!("store-{number}/subject.wasm")), build(number))
    };
    let lay = |at: &Path| {
        lay(&at.join("plugins"))?;
        fs::remove_file(at.join("plugins/subject.wasm"))?;
        store(at, 1)?;
        Ok(symlink("../store-1", at.join("plugins/team"))?)
    };
    let mut stage = run.start_with(Start { lay: &lay, ..Start::default() }).await?;
    for number in [2, 3] {
        store(stage.hark.folder(), number)?;
        symlink(format!("../store-{number}"), stage.folder.join("next.link"))?;
        fs::rename(stage.folder.join("next.link"), stage.folder.join("team"))?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn a_sub_folder_deleted_and_made_again(run: Run) -> Result<()> {
    let mut stage = run.start_with(Start { lay: &in_a_team, ..Start::default() }).await?;
    let team = stage.folder.join("team");
    fs::remove_dir_all(&team)?;
    pause(Duration::from_millis(300)).await;
    fs::create_dir(&team)?;
    fs::write(team.join("subject.wasm"), build(2))?;
    stage.reloads(&build(2)).await;
    fs::remove_dir_all(&team)?;
    stage.stops().await?;
    fs::create_dir(&team)?;
    fs::write(team.join("subject.wasm"), build(3))?;
    stage.starts(&build(3)).await;
    stage.ends().await
}

async fn moved_to_a_sub_folder_and_back(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let team = stage.folder.join("team");
    fs::create_dir(&team)?;
    fs::rename(stage.subject(), team.join("subject.wasm"))?;
    stage.flows().await;
    fs::write(team.join("subject.wasm"), build(2))?;
    stage.reloads(&build(2)).await;
    fs::rename(team.join("subject.wasm"), stage.subject())?;
    stage.flows().await;
    stage.ends().await
}

async fn sub_folders_that_are_none_of_ours(run: Run) -> Result<()> {
    let stage = run.start().await?;
    let tag = "Signature: 8a477f597d28d172789f06886806bc55";
    for folder in [".git", "team/deeper", "target", "..data"] {
        fs::create_dir_all(stage.folder.join(folder))?;
        if folder == "target" {
            fs::write(stage.folder.join("target/CACHEDIR.TAG"), tag)?;
        }
        fs::write(stage.folder.join(folder).join("ignored.wasm"), build(2))?;
        fs::write(stage.folder.join(folder).join("subject.wasm"), build(2))?;
    }
    stage.looks_around().await?;
    assert!(stage.document("ignored").await.is_none());
    stage.ends().await
}
