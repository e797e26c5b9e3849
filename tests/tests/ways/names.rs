//! Two files that claim one name, and one file that has two.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use hark_tests::ways::build::build;
use hark_tests::ways::{Run, pause};

hark_tests::ways! {
    two_files_with_one_stem
    two_files_with_one_stem_of_which_the_first_goes
    one_file_under_two_names
    one_file_in_the_folder_and_below_as_cargo_has_it
    a_link_to_a_file_in_the_folder
    links_that_come_before_it_in_the_order
}

const DISPUTE: &str = "have the same stem";

async fn two_files_with_one_stem(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let team = stage.folder.join("team");
    fs::create_dir(&team)?;
    fs::write(team.join("subject.wasm"), build(2))?;
    stage.warns(DISPUTE).await;
    // What ran goes on, whatever happens to either.
    fs::write(stage.subject(), build(3))?;
    pause(Duration::from_secs(3)).await;
    assert_eq!(
        stage.document("subject").await.map(|document| document["running"]["generation"] == 1),
        Some(true)
    );
    fs::remove_file(team.join("subject.wasm"))?;
    stage.reloads(&build(3)).await;
    stage.ends().await
}

async fn two_files_with_one_stem_of_which_the_first_goes(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let team = stage.folder.join("team");
    fs::create_dir(&team)?;
    fs::write(team.join("subject.wasm"), build(2))?;
    stage.warns(DISPUTE).await;
    fs::remove_file(stage.subject())?;
    stage.reloads(&build(2)).await;
    fs::write(stage.subject(), build(3))?;
    stage.warns(DISPUTE).await;
    fs::remove_dir_all(&team)?;
    stage.reloads(&build(3)).await;
    stage.ends().await
}

async fn one_file_under_two_names(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let team = stage.folder.join("team");
    fs::create_dir(&team)?;
    fs::hard_link(stage.subject(), team.join("subject.wasm"))?;
    // After it in the order: not the name that counts.
    fs::hard_link(stage.subject(), stage.plugin("twin"))?;
    stage.looks_around().await?;
    fs::write(team.join("subject.wasm"), build(2))?;
    stage.reloads(&build(2)).await;
    assert!(stage.document("twin").await.is_none(), "one file is one plugin");
    fs::remove_file(stage.subject())?;
    fs::remove_file(stage.plugin("twin"))?;
    // The same file under its other name.
    pause(Duration::from_secs(3)).await;
    stage.ends().await
}

/// `target/wasm32-…/debug/NAME.wasm` is a link to `deps/NAME.wasm`; a build writes the one anew and links it over the
/// other, a moment later.
async fn one_file_in_the_folder_and_below_as_cargo_has_it(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let deps = stage.folder.join("deps");
    let below = deps.join("subject.wasm");
    fs::create_dir(&deps)?;
    fs::hard_link(stage.subject(), &below)?;
    stage.looks_around().await?;
    for number in [2, 3] {
        fs::remove_file(&below)?;
        fs::write(&below, build(number))?;
        pause(Duration::from_millis(20)).await;
        fs::remove_file(stage.subject())?;
        fs::hard_link(&below, stage.subject())?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn a_link_to_a_file_in_the_folder(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    std::os::unix::fs::symlink("subject.wasm", stage.plugin("twin"))?;
    stage.looks_around().await?;
    assert!(stage.document("twin").await.is_none(), "one file is one plugin");
    fs::write(stage.subject(), build(2))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

/// What runs keeps its name.
async fn links_that_come_before_it_in_the_order(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    std::os::unix::fs::symlink("subject.wasm", stage.plugin("a-link"))?;
    fs::hard_link(stage.subject(), stage.plugin("b-link"))?;
    stage.looks_around().await?;
    let new = stage.beside("new");
    fs::write(&new, build(2))?;
    fs::rename(&new, stage.subject())?;
    stage.reloads(&build(2)).await;
    assert!(stage.document("a-link").await.is_none(), "it is the same file");
    // The other one is the old file still, and a plugin of its own now.
    stage.runs("b-link", &build(1), 1).await;
    stage.ends().await
}
