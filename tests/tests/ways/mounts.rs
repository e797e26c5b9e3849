//! Folders that are mounted, unmounted, mounted over and full. Each host has a mount namespace of its own.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use hark_tests::ways::build::build;
use hark_tests::ways::place::{can_mount, unshared};
use hark_tests::ways::stage::{Stage, Start, lay};
use hark_tests::ways::{Run, pause};

hark_tests::ways! {
    a_bind_mount_unmounted_and_back
    a_bind_mount_unmounted_and_back_with_another_content
    a_bind_mount_written_to_from_its_other_side
    a_tmpfs_unmounted_and_back
    a_tmpfs_detached_and_back
    mounted_over
    mounted_over_with_an_empty_folder
    mounted_over_with_an_empty_folder_that_stays_empty
    remounted_read_only
    a_full_disk
    a_sub_folder_unmounted_and_back
    an_overlay
    a_file_mounted_over
}

/// What a host says of a plugins folder that it cannot read.
const UNREADABLE: &str = "plugins folder plugins";

/// A host whose folder is prepared by a line of shell in its own mount namespace. `store` is laid out beside the folder.
async fn mounted(run: Run, line: &str) -> Result<Option<Stage>> {
    mounted_and_told(run, line, None).await
}

/// The same, and how it learns of what changes.
async fn mounted_and_told(
    run: Run,
    line: &str,
    told: Option<(&'static str, &'static str)>,
) -> Result<Option<Stage>> {
    if !can_mount(run.name) {
        return Ok(None);
    }
    let store = |at: &Path| {
        fs::create_dir(at.join("store"))?;
        lay(&at.join("store"))
    };
    let command = unshared(line);
    let through = command.each_ref().map(String::as_str);
    let start = Start { through: &through, lay: &store, told, ..Start::default() };
    let mut stage = run.start_with(start).await?;
    stage.looks_inside("plugins")?;
    Ok(Some(stage))
}

const BIND: &str = "mount --bind store plugins";
const TMPFS: &str = "mount -t tmpfs -o size=1m none plugins; cp store/* plugins/";

/// The folder is unmounted for three seconds, in which nothing may stop.
async fn is_unmounted(stage: &mut Stage, how: &str) -> Result<()> {
    stage.inside(how)?;
    stage.warns(UNREADABLE).await;
    pause(Duration::from_secs(3)).await;
    Ok(())
}

async fn a_bind_mount_unmounted_and_back(run: Run) -> Result<()> {
    let Some(mut stage) = mounted(run, BIND).await? else { return Ok(()) };
    for _ in 0..2 {
        is_unmounted(&mut stage, "umount plugins").await?;
        stage.inside(BIND)?;
        stage.looks_around().await?;
    }
    stage.ends().await
}

async fn a_bind_mount_unmounted_and_back_with_another_content(run: Run) -> Result<()> {
    let Some(mut stage) = mounted(run, BIND).await? else { return Ok(()) };
    for number in [2, 3] {
        is_unmounted(&mut stage, "umount plugins").await?;
        fs::write(stage.beside("store/subject.wasm"), build(number))?;
        stage.flows().await;
        stage.inside(BIND)?;
        stage.reloads(&build(number)).await;
    }
    fs::write(stage.subject(), build(4))?;
    stage.reloads(&build(4)).await;
    stage.ends().await
}

async fn a_bind_mount_written_to_from_its_other_side(run: Run) -> Result<()> {
    let Some(mut stage) = mounted(run, BIND).await? else { return Ok(()) };
    for number in [2, 3] {
        let new = stage.beside("new");
        fs::write(&new, build(number))?;
        fs::rename(new, stage.beside("store/subject.wasm"))?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn a_tmpfs_unmounted_and_back(run: Run) -> Result<()> {
    let Some(mut stage) = mounted(run, TMPFS).await? else { return Ok(()) };
    fs::write(stage.subject(), build(2))?;
    stage.reloads(&build(2)).await;
    is_unmounted(&mut stage, "umount plugins").await?;
    // It comes back as a new one, empty for a moment, with what it had at first.
    stage.inside(TMPFS)?;
    stage.reloads(&build(1)).await;
    stage.ends().await
}

/// As a network file system that hangs is unmounted, or one that is in use.
async fn a_tmpfs_detached_and_back(run: Run) -> Result<()> {
    let Some(mut stage) = mounted(run, TMPFS).await? else { return Ok(()) };
    let held = fs::File::open(stage.subject())?;
    is_unmounted(&mut stage, "umount --lazy plugins").await?;
    stage.inside(TMPFS)?;
    stage.looks_around().await?;
    drop(held);
    stage.ends().await
}

async fn mounted_over(run: Run) -> Result<()> {
    let Some(mut stage) = mounted(run, BIND).await? else { return Ok(()) };
    fs::create_dir(stage.beside("other"))?;
    lay(&stage.beside("other"))?;
    fs::write(stage.beside("other/subject.wasm"), build(2))?;
    stage.inside("mount --bind other plugins")?;
    stage.reloads(&build(2)).await;
    // What is below is nobody's business.
    fs::write(stage.beside("store/subject.wasm"), build(7))?;
    stage.flows().await;
    fs::write(stage.beside("other/subject.wasm"), build(3))?;
    stage.reloads(&build(3)).await;
    stage.inside("umount plugins")?;
    stage.reloads(&build(7)).await;
    stage.ends().await
}

/// As when a volume is mounted first, and filled then.
async fn mounted_over_with_an_empty_folder(run: Run) -> Result<()> {
    let Some(mut stage) = mounted(run, BIND).await? else { return Ok(()) };
    is_unmounted(&mut stage, "mount -t tmpfs none plugins").await?;
    fs::write(stage.plugin("neighbour"), build(1))?;
    fs::write(stage.subject(), build(2))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn mounted_over_with_an_empty_folder_that_stays_empty(run: Run) -> Result<()> {
    let Some(mut stage) = mounted(run, BIND).await? else { return Ok(()) };
    is_unmounted(&mut stage, "mount -t tmpfs none plugins").await?;
    stage.inside("umount plugins")?;
    stage.looks_around().await?;
    stage.ends().await
}

async fn remounted_read_only(run: Run) -> Result<()> {
    let Some(mut stage) = mounted(run, TMPFS).await? else { return Ok(()) };
    stage.inside("mount -o remount,ro plugins")?;
    stage.flows().await;
    stage.inside("mount -o remount,rw plugins")?;
    fs::write(stage.subject(), build(2))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn a_full_disk(run: Run) -> Result<()> {
    let Some(mut stage) = mounted(run, TMPFS).await? else { return Ok(()) };
    // All but a page of it is taken.
    let mut taken = fs::File::create(stage.folder.join("taken"))?;
    while taken.write_all(&[0; 4096]).is_ok() {}
    taken.set_len(taken.metadata()?.len() - 8192)?;
    let mut file = fs::File::create(stage.subject())?;
    let full = file.write_all(&vec![0; 1 << 20]).expect_err("there is no room for that");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    drop(file);
    stage.refuses("").await;
    taken.set_len(0)?;
    fs::write(stage.subject(), build(2))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn a_sub_folder_unmounted_and_back(run: Run) -> Result<()> {
    let line = "mkdir plugins/team; mount --bind store plugins/team; \
                mv plugins/team/neighbour.wasm plugins/neighbour.wasm";
    let Some(mut stage) = mounted(run, line).await? else { return Ok(()) };
    stage.inside("umount plugins/team")?;
    stage.warns("team").await;
    pause(Duration::from_secs(3)).await;
    fs::write(stage.beside("store/subject.wasm"), build(2))?;
    stage.flows().await;
    stage.inside("mount --bind store plugins/team")?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

/// The folder of a container's image: the first write makes another file of it.
async fn an_overlay(run: Run) -> Result<()> {
    let line = "mkdir top; mount -t tmpfs none top; mkdir top/upper top/work; \
                mount -t overlay none -o lowerdir=store,upperdir=top/upper,workdir=top/work plugins";
    let Some(mut stage) = mounted(run, line).await? else { return Ok(()) };
    stage.inside("touch plugins/subject.wasm")?;
    stage.flows().await;
    for number in [2, 3] {
        fs::write(stage.subject(), build(number))?;
        stage.reloads(&build(number)).await;
    }
    stage.inside("rm plugins/subject.wasm; cp store/subject.wasm plugins/")?;
    stage.reloads(&build(1)).await;
    stage.ends().await
}

/// As Kubernetes mounts one key of a map (`subPath`), and Docker a file. The folder that the file is in is nowhere to be
/// seen, so nobody tells of its changes, and that is found out.
async fn a_file_mounted_over(run: Run) -> Result<()> {
    let told = Some(("polling", "misses-changes"));
    let Some(mut stage) = mounted_and_told(run, "cp store/* plugins/", told).await? else { return Ok(()) };
    fs::write(stage.beside("other.wasm"), build(2))?;
    stage.inside("mount --bind other.wasm plugins/subject.wasm")?;
    stage.reloads(&build(2)).await;
    fs::write(stage.beside("other.wasm"), build(3))?;
    stage.reloads(&build(3)).await;
    stage.inside("umount plugins/subject.wasm")?;
    stage.reloads(&build(1)).await;
    stage.ends().await
}
