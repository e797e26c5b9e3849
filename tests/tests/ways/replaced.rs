//! Another file gets the name.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hark_tests::ways::build::build;
use hark_tests::ways::stage::Stage;
use hark_tests::ways::{Run, pause, tools};
use rustix::fs::{CWD, RenameFlags, renameat_with};

hark_tests::ways! {
    renamed_over_from_a_hidden_name
    renamed_over_from_a_name_that_is_no_plugins
    renamed_over_from_elsewhere
    renamed_over_twice_at_once
    renamed_over_with_the_same_content
    renamed_over_while_the_old_one_is_open
    exchanged_with_another
    moved_from_another_file_system
    linked_over_as_cargo_does
    linked_and_renamed_over
    removed_and_copied_half_a_second_later
    removed_and_copied_a_second_and_a_half_later
    removed_and_copied_three_seconds_later
    removed_and_put_back
    renamed_away_and_back
    renamed_to_another_plugins_name
}

async fn renamed_over(stage: &mut Stage, new: PathBuf, number: u32) -> Result<()> {
    fs::write(&new, build(number))?;
    fs::rename(new, stage.subject())?;
    stage.reloads(&build(number)).await;
    Ok(())
}

async fn renamed_over_from_a_hidden_name(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for number in [2, 3] {
        let new = stage.folder.join(".subject.wasm");
        renamed_over(&mut stage, new, number).await?;
    }
    stage.ends().await
}

async fn renamed_over_from_a_name_that_is_no_plugins(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for (number, name) in [(2, "subject.wasm.tmp"), (3, "subject.wasm~"), (4, "subject.part"), (5, "4913")] {
        let new = stage.folder.join(name);
        renamed_over(&mut stage, new, number).await?;
    }
    stage.ends().await
}

async fn renamed_over_from_elsewhere(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for number in [2, 3] {
        let new = stage.beside("new.wasm");
        renamed_over(&mut stage, new, number).await?;
    }
    stage.ends().await
}

async fn renamed_over_twice_at_once(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for number in [2, 3] {
        let new = stage.beside("new.wasm");
        fs::write(&new, build(number))?;
        fs::rename(new, stage.subject())?;
    }
    stage.reloads_up_to(2, &build(3)).await?;
    stage.ends().await
}

async fn renamed_over_with_the_same_content(run: Run) -> Result<()> {
    let stage = run.start().await?;
    for _ in 0..3 {
        let new = stage.beside("new.wasm");
        fs::write(&new, build(1))?;
        fs::rename(new, stage.subject())?;
        stage.flows().await;
    }
    stage.ends().await
}

/// Whoever writes to the old file does so without anybody's notice.
async fn renamed_over_while_the_old_one_is_open(run: Run) -> Result<()> {
    use std::io::Write;
    let mut stage = run.start().await?;
    let mut old = fs::OpenOptions::new().write(true).open(stage.subject())?;
    old.write_all(&build(7)[..1000])?;
    let new = stage.beside("new.wasm");
    renamed_over(&mut stage, new, 2).await?;
    old.write_all(b"nonsense")?;
    drop(old);
    stage.ends().await
}

async fn exchanged_with_another(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let other = stage.folder.join(".other.wasm");
    fs::write(&other, build(2))?;
    for number in [2, 1] {
        renameat_with(CWD, &other, CWD, stage.subject(), RenameFlags::EXCHANGE)?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn moved_from_another_file_system(run: Run) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let mut stage = run.start().await?;
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() || fs::metadata(shm)?.dev() == fs::metadata(&stage.folder)?.dev() {
        tools::skip(run.name, "/dev/shm is no other file system");
        return Ok(());
    }
    let elsewhere = tempfile::tempdir_in(shm)?;
    for number in [2, 3] {
        let new = elsewhere.path().join("new.wasm");
        fs::write(&new, build(number))?;
        tools::run(stage.hark.folder(), "mv", &[&new, &stage.subject()])?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn linked_over_as_cargo_does(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for number in [2, 3] {
        let new = stage.beside("deps.wasm");
        let _ = fs::remove_file(&new);
        fs::write(&new, build(number))?;
        fs::remove_file(stage.subject())?;
        fs::hard_link(&new, stage.subject())?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn linked_and_renamed_over(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for number in [2, 3] {
        let (new, beside) = (stage.beside("new.wasm"), stage.folder.join(".link"));
        fs::write(&new, build(number))?;
        fs::hard_link(&new, &beside)?;
        fs::rename(&beside, stage.subject())?;
        fs::remove_file(&new)?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

/// Removes the subject's file and copies a build there a while later, at most two seconds from then. A machine that is so
/// busy that it took longer has another go.
async fn removed_and_copied_after(run: Run, time: Duration) -> Result<()> {
    let limit = Duration::from_millis(1900);
    for _ in 0..5 {
        let mut stage = run.start().await?;
        let begun = Instant::now();
        fs::remove_file(stage.subject())?;
        pause(time).await;
        fs::write(stage.subject(), build(2))?;
        if begun.elapsed() > limit {
            continue;
        }
        stage.reloads(&build(2)).await;
        return stage.ends().await;
    }
    ensure!(false, "a pause of {time:?} took more than {limit:?}, five times in a row");
    Ok(())
}

async fn removed_and_copied_half_a_second_later(run: Run) -> Result<()> {
    removed_and_copied_after(run, Duration::from_millis(500)).await
}

async fn removed_and_copied_a_second_and_a_half_later(run: Run) -> Result<()> {
    removed_and_copied_after(run, Duration::from_millis(1500)).await
}

async fn removed_and_copied_three_seconds_later(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    fs::remove_file(stage.subject())?;
    pause(Duration::from_secs(3)).await;
    stage.stops().await?;
    fs::write(stage.subject(), build(2))?;
    stage.starts(&build(2)).await;
    stage.ends().await
}

async fn removed_and_put_back(run: Run) -> Result<()> {
    let stage = run.start().await?;
    for _ in 0..3 {
        fs::remove_file(stage.subject())?;
        stage.flows().await;
        fs::write(stage.subject(), build(1))?;
        stage.flows().await;
    }
    stage.ends().await
}

async fn renamed_away_and_back(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let away = stage.folder.join("subject.off");
    fs::rename(stage.subject(), &away)?;
    stage.flows().await;
    fs::rename(&away, stage.subject())?;
    stage.flows().await;
    fs::rename(stage.subject(), &away)?;
    stage.stops().await?;
    fs::rename(&away, stage.subject())?;
    stage.starts(&build(1)).await;
    stage.ends().await
}

async fn renamed_to_another_plugins_name(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    fs::rename(stage.subject(), stage.plugin("other"))?;
    stage.runs("other", &build(1), 1).await;
    stage.stops().await?;
    fs::rename(stage.plugin("other"), stage.subject())?;
    stage.starts(&build(1)).await;
    stage.is_gone("other").await;
    stage.ends().await
}
