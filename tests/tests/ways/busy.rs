//! A file that changes all the time.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hark_tests::ways::build::build;
use hark_tests::ways::{Run, pause, tools};

hark_tests::ways! {
    a_hundred_changes_a_second
    a_hundred_good_changes_a_second_by_rename
    more_events_than_the_kernel_keeps
}

const FOR: Duration = Duration::from_secs(5);

/// Versions that may run in that time: the first few at once, then one a second (and the one that is on its way).
const MOST: u64 = 5 + 5 + 2;

/// Good builds and broken ones in turn, in place.
async fn a_hundred_changes_a_second(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let (begun, mut changes) = (Instant::now(), 0);
    while begun.elapsed() < FOR {
        changes += 1;
        let content = build(100 + changes % 7);
        let end = if changes % 2 == 0 { content.len() } else { content.len() / 2 };
        fs::write(stage.subject(), &content[..end])?;
        pause(Duration::from_millis(10)).await;
    }
    fs::write(stage.subject(), build(2))?;
    stage.tolerates("subject.wasm is refused: ", MOST as usize);
    stage.tolerates("changes all the time", 1);
    stage.reloads_up_to(MOST, &build(2)).await?;
    tools::say(&format!(
        "{changes} changes, good and bad, by {:?}: {} versions",
        run.watch,
        stage.generation() - 1
    ));
    stage.ends().await
}

async fn a_hundred_good_changes_a_second_by_rename(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let (begun, mut changes) = (Instant::now(), 0);
    while begun.elapsed() < FOR {
        changes += 1;
        let new = stage.beside("new");
        fs::write(&new, build(100 + changes % 7))?;
        fs::rename(new, stage.subject())?;
        pause(Duration::from_millis(10)).await;
    }
    ensure!(changes > 50, "only {changes} changes in {FOR:?}");
    fs::write(stage.subject(), build(2))?;
    stage.tolerates("changes all the time", 1);
    stage.reloads_up_to(MOST, &build(2)).await?;
    tools::say(&format!("{changes} good changes, by {:?}: {} versions", run.watch, stage.generation() - 1));
    // It is quiet again: the next change is taken at once.
    pause(Duration::from_secs(3)).await;
    fs::write(stage.subject(), build(3))?;
    stage.reloads(&build(3)).await;
    stage.ends().await
}

/// So many files come and go that what the kernel tells of them does not fit its queue (16,384 by default): it may then
/// leave out the very change that matters.
async fn more_events_than_the_kernel_keeps(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let flood = |folder: PathBuf, who: usize| -> Result<()> {
        for number in 0..20_000 {
            let file = folder.join(format!(".flood-{who}-{}", number % 10));
            fs::write(&file, "")?;
            fs::remove_file(&file)?;
        }
        Ok(())
    };
    let floods = [0, 1].map(|who| {
        let folder = stage.folder.clone();
        std::thread::spawn(move || flood(folder, who))
    });
    fs::write(stage.subject(), build(2))?;
    for flood in floods {
        flood.join().expect("no panic")?;
    }
    stage.reloads(&build(2)).await;
    stage.ends().await
}
