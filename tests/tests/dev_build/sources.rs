//! What starts a build, and what does not.

use std::fs;
use std::process::Command;

use anyhow::Result;

use crate::{COPY, begun, choose, counts, dev, setup, wrapper, write};

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_source_builds_and_the_plugin_reloads() -> Result<()> {
    let hark = setup("counter-v1")?.start(&["dev", "--build", COPY])?;
    hark.shows(&[
        "build            running: cp ",
        "build            done in ",
        "counter started: counter 1 (",
    ])
    .await;
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&["(src/which changed", "counter reloaded: "]).await;
    // The same content again, by writing and by renaming; what is ignored; what is hidden: none of it counts.
    choose(hark.folder(), "counter-v2")?;
    write(&hark, ".gitignore", "*.log\n")?;
    write(&hark, "src/x.log", "x")?;
    write(&hark, "src/.hidden", "x")?;
    write(&hark, "src/which~", "x")?;
    fs::copy(hark.folder().join("src/which"), hark.folder().join("again"))?;
    fs::rename(hark.folder().join("again"), hark.folder().join("src/which"))?;
    write(&hark, "src/deep/er/new", "x")?;
    hark.shows(&["(src/deep/er/new added"]).await;
    counts(&hark, "build            done in ", 3).await;
    write(&hark, "src/deep/er/new", "y")?;
    hark.shows(&["(src/deep/er/new changed"]).await;
    counts(&hark, "build            done in ", 4).await;
    fs::remove_dir_all(hark.folder().join("src/deep"))?;
    hark.shows(&["(src/deep/er/new removed"]).await;
    counts(&hark, "build            done in ", 5).await;
    assert_eq!(begun(&hark), 5, "{}", hark.stdout());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_saves_at_once_are_few_builds_and_the_last_content_counts() -> Result<()> {
    let hark = setup("counter-v1")?.config(&dev(COPY))?.start(&["dev"])?;
    hark.shows(&["counter started"]).await;
    for save in 0..50 {
        write(&hark, &format!("src/{save}"), "x")?;
    }
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&["counter reloaded: "]).await;
    // One, if the machine was not so busy that the saves took longer than sources must be still.
    assert!(begun(&hark) <= 4, "{}", hark.stdout());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_system_watches_no_more_folders_the_clock_looks() -> Result<()> {
    // A user namespace has a limit of its own. Two folders of sources are more than one.
    let limited = "echo 1 > /proc/sys/user/max_inotify_watches && exec \"$@\"";
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "sh", "-c", limited, "sh"]);
    if !Command::new(unshare.get_program()).args(unshare.get_args()).arg("true").status()?.success() {
        eprintln!("skipped: no user namespace is to be had here");
        return Ok(());
    }
    let (_folder, program) =
        wrapper(&format!("exec unshare --user --map-root-user sh -c '{limited}' sh HARK \"$@\""))?;
    let setup = setup("counter-v1")?.config(&dev(COPY))?.program(&program);
    fs::create_dir(setup.folder().join("src/deep"))?;
    let hark = setup.start(&["dev"])?;
    hark.shows(&[
        "sources are looked at by the clock: 2 folders of sources are more than the system watches",
        "counter started",
    ])
    .await;
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&["(src/which changed", "counter reloaded: "]).await;
    assert_eq!(hark.stdout().matches("looked at by the clock").count(), 1, "{}", hark.stdout());
    Ok(())
}
