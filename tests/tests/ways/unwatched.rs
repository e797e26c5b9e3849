//! Hosts that the file system tells nothing: it gives no watcher, or too few watches. What changes is found all the same.

use std::fs;
use std::path::Path;

use anyhow::Result;
use hark_tests::ways::build::build;
use hark_tests::ways::stage::{Stage, Start, lay};
use hark_tests::ways::{Run, place, tools};

hark_tests::ways! {
    no_watcher_to_be_had
    no_watches_to_be_had
    a_file_system_in_user_space
}

/// What each of these hosts must see.
async fn sees_all(mut stage: Stage) -> Result<()> {
    stage.reloads_in_either_way().await?;
    fs::remove_file(stage.subject())?;
    stage.stops().await?;
    fs::write(stage.subject(), build(4))?;
    stage.starts(&build(4)).await;
    stage.ends().await
}

/// A host in a user namespace, where the kernel gives so much of something.
async fn limited(run: Run, limit: &str, reason: &'static str) -> Result<()> {
    let script = format!("echo {limit}; exec \"$0\" \"$@\"");
    let command = ["unshare", "--user", "--map-root-user", "sh", "-ec", &script];
    if !tools::are_there(run.name, &["unshare"]) {
        return Ok(());
    }
    if let Err(error) = tools::run(Path::new("/"), command[0], &[&command[1..], &["true"]].concat()) {
        tools::skip(run.name, &format!("no user namespace to be had: {error:#}"));
        return Ok(());
    }
    let start = Start { through: &command, told: Some(("polling", reason)), ..Start::default() };
    sees_all(run.start_with(start).await?).await
}

async fn no_watcher_to_be_had(run: Run) -> Result<()> {
    limited(run, "0 > /proc/sys/user/max_inotify_instances", "no-watcher").await
}

async fn no_watches_to_be_had(run: Run) -> Result<()> {
    limited(run, "0 > /proc/sys/user/max_inotify_watches", "no-watches").await
}

/// What changes in it changes behind the kernel's back. Needs `bindfs`, a FUSE file system that shows another folder.
async fn a_file_system_in_user_space(run: Run) -> Result<()> {
    if !tools::are_there(run.name, &["bindfs"]) || !place::can_mount(run.name) {
        return Ok(());
    }
    let store = |at: &Path| {
        fs::create_dir(at.join("store"))?;
        lay(&at.join("store"))
    };
    let command = place::unshared("bindfs -o attr_timeout=0,entry_timeout=0 store plugins");
    let through = command.each_ref().map(String::as_str);
    let told = Some(("polling", "fuse"));
    let start = Start { through: &through, lay: &store, told, ..Start::default() };
    let mut stage = run.start_with(start).await?;
    stage.folder = stage.beside("store");
    sees_all(stage).await
}
