//! The name is a symbolic link, and what it leads to changes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use hark_tests::ways::build::build;
use hark_tests::ways::stage::{NEIGHBOUR, Start};
use hark_tests::ways::{Run, pause, tools};

hark_tests::ways! {
    replaced_by_a_link
    retargeted_by_rename_to_folders_not_seen_before
    retargeted_as_ln_does_it
    retargeted_to_the_same_content
    the_middle_of_a_chain_retargeted
    a_folder_on_the_way_retargeted
    the_target_written_in_place
    the_target_replaced
    the_target_gone_for_a_moment
    the_target_gone_for_three_seconds
    a_link_to_itself
}

/// Puts a build into a folder of its own, beside the plugins'.
fn store(at: &Path, number: u32) -> Result<()> {
    let folder = at.join(format!("store-{number}"));
    fs::create_dir(&folder)?;
    Ok(fs::write(folder.join("subject.wasm"), build(number))?)
}

/// Puts a link into the place of whatever is there, at once.
fn link_over(target: impl AsRef<Path>, link: &Path) -> Result<()> {
    let beside = link.with_extension("link");
    symlink(target, &beside)?;
    Ok(fs::rename(beside, link)?)
}

/// The subject is a link to the first build in a store.
fn linked(at: &Path) -> Result<()> {
    fs::write(at.join("plugins").join(NEIGHBOUR).with_extension("wasm"), build(1))?;
    store(at, 1)?;
    Ok(symlink("../store-1/subject.wasm", at.join("plugins/subject.wasm"))?)
}

async fn replaced_by_a_link(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for number in [2, 3] {
        store(stage.hark.folder(), number)?;
        link_over(stage.beside(&format!("store-{number}/subject.wasm")), &stage.subject())?;
        stage.reloads(&build(number)).await;
    }
    // A file again.
    let new = stage.beside("new");
    fs::write(&new, build(4))?;
    fs::rename(new, stage.subject())?;
    stage.reloads(&build(4)).await;
    stage.ends().await
}

async fn retargeted_by_rename_to_folders_not_seen_before(run: Run) -> Result<()> {
    let mut stage = run.start_with(Start { lay: &linked, ..Start::default() }).await?;
    for number in [2, 3] {
        store(stage.hark.folder(), number)?;
        link_over(format!("../store-{number}/subject.wasm"), &stage.subject())?;
        stage.reloads(&build(number)).await;
        fs::remove_dir_all(stage.beside(&format!("store-{}", number - 1)))?;
        // Its new folder is watched as well as the old one was.
        fs::write(stage.beside(&format!("store-{number}/subject.wasm")), build(number * 10))?;
        stage.reloads(&build(number * 10)).await;
    }
    stage.ends().await
}

async fn retargeted_as_ln_does_it(run: Run) -> Result<()> {
    let mut stage = run.start_with(Start { lay: &linked, ..Start::default() }).await?;
    for number in [2, 3] {
        store(stage.hark.folder(), number)?;
        let target = format!("../store-{number}/subject.wasm");
        tools::run(&stage.folder, "ln", &["-sfn", &target, "subject.wasm"])?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn retargeted_to_the_same_content(run: Run) -> Result<()> {
    let stage = run.start_with(Start { lay: &linked, ..Start::default() }).await?;
    fs::create_dir(stage.beside("store-same"))?;
    fs::write(stage.beside("store-same/subject.wasm"), build(1))?;
    link_over("../store-same/subject.wasm", &stage.subject())?;
    stage.flows().await;
    fs::remove_dir_all(stage.beside("store-1"))?;
    stage.ends().await
}

async fn the_middle_of_a_chain_retargeted(run: Run) -> Result<()> {
    let lay = |at: &Path| {
        linked(at)?;
        for folder in ["first", "second"] {
            fs::create_dir(at.join(folder))?;
        }
        link_over("../first/link", &at.join("plugins/subject.wasm"))?;
        symlink("../second/link", at.join("first/link"))?;
        Ok(symlink(at.join("store-1/subject.wasm"), at.join("second/link"))?)
    };
    let mut stage = run.start_with(Start { lay: &lay, ..Start::default() }).await?;
    for (number, middle) in [(2, "second/link"), (3, "first/link"), (4, "first/link")] {
        store(stage.hark.folder(), number)?;
        link_over(format!("../store-{number}/subject.wasm"), &stage.beside(middle))?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn a_folder_on_the_way_retargeted(run: Run) -> Result<()> {
    let lay = |at: &Path| {
        linked(at)?;
        symlink("store-1", at.join("current"))?;
        link_over("../current/subject.wasm", &at.join("plugins/subject.wasm"))
    };
    let mut stage = run.start_with(Start { lay: &lay, ..Start::default() }).await?;
    for number in [2, 3] {
        store(stage.hark.folder(), number)?;
        link_over(format!("store-{number}"), &stage.beside("current"))?;
        stage.reloads(&build(number)).await;
        fs::remove_dir_all(stage.beside(&format!("store-{}", number - 1)))?;
    }
    stage.ends().await
}

async fn the_target_written_in_place(run: Run) -> Result<()> {
    let mut stage = run.start_with(Start { lay: &linked, ..Start::default() }).await?;
    for number in [2, 3] {
        fs::write(stage.beside("store-1/subject.wasm"), build(number))?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn the_target_replaced(run: Run) -> Result<()> {
    let mut stage = run.start_with(Start { lay: &linked, ..Start::default() }).await?;
    for number in [2, 3] {
        fs::write(stage.beside("store-1/new"), build(number))?;
        fs::rename(stage.beside("store-1/new"), stage.beside("store-1/subject.wasm"))?;
        stage.reloads(&build(number)).await;
    }
    // The folder that it is in, as a whole.
    store(stage.hark.folder(), 4)?;
    fs::rename(stage.beside("store-1"), stage.beside("old"))?;
    fs::rename(stage.beside("store-4"), stage.beside("store-1"))?;
    stage.reloads(&build(4)).await;
    stage.ends().await
}

const NOWHERE: &str = "subject.wasm\": the link cannot be followed: No such file or directory";

async fn the_target_gone_for_a_moment(run: Run) -> Result<()> {
    let mut stage = run.start_with(Start { lay: &linked, ..Start::default() }).await?;
    fs::remove_file(stage.beside("store-1/subject.wasm"))?;
    stage.warns(NOWHERE).await;
    pause(Duration::from_millis(300)).await;
    fs::write(stage.beside("store-1/subject.wasm"), build(2))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn the_target_gone_for_three_seconds(run: Run) -> Result<()> {
    let mut stage = run.start_with(Start { lay: &linked, ..Start::default() }).await?;
    fs::remove_file(stage.beside("store-1/subject.wasm"))?;
    pause(Duration::from_secs(3)).await;
    stage.warns(NOWHERE).await;
    stage.stops().await?;
    fs::write(stage.beside("store-1/subject.wasm"), build(2))?;
    stage.starts(&build(2)).await;
    stage.ends().await
}

async fn a_link_to_itself(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    link_over("subject.wasm", &stage.subject())?;
    stage.warns("subject.wasm\": the link cannot be followed: Too many levels of symbolic links").await;
    fs::remove_file(stage.subject())?;
    fs::write(stage.subject(), build(2))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}
