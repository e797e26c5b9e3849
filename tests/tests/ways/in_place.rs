//! The file stays the same file, and its content is written anew.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use hark_tests::ways::build::{build, pieces};
use hark_tests::ways::{Run, Watch, pause, slow, tools};

hark_tests::ways! {
    written_at_once
    written_by_parts
    written_by_parts_and_closed_after_each
    written_by_parts_with_a_long_pause
    written_by_parts_each_of_which_ends_a_plugin
    written_by_parts_each_of_which_ends_a_plugin_with_a_long_pause
    written_from_the_end_to_the_beginning
    written_over_without_emptying_it
    emptied_and_written_a_moment_later
    emptied_for_three_seconds
    emptied_and_held_open_for_three_seconds
    appended_to
    mapped_into_memory_and_written
    two_contents_within_a_tick
    two_contents_while_it_is_open
    another_content_with_the_old_time
    times_in_the_past_and_in_the_future
    the_same_content
    touched
    touched_by_links_and_permissions
}

/// A pause of a writer that is not over yet: below the second after which an open file is read all the same, and where
/// nobody tells whether it is open, below the time for which a broken one must be still.
fn short(watch: Watch) -> Duration {
    match watch {
        Watch::Events => Duration::from_millis(250),
        Watch::Polling => Duration::from_millis(50),
    }
}

async fn written_at_once(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    for number in [2, 3] {
        fs::write(stage.subject(), build(number))?;
        stage.reloads(&build(number)).await;
    }
    stage.ends().await
}

async fn written_by_parts(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    slow::write(&stage.subject(), &slow::parts(&build(2), 8), short(stage.watch())).await?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn written_by_parts_and_closed_after_each(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let between = Duration::from_millis(50);
    slow::write_and_close_each(&stage.subject(), &slow::parts(&build(2), 3), between).await?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn written_by_parts_with_a_long_pause(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let parts = slow::parts(&build(2), 2);
    let mut file = File::create(stage.subject())?;
    file.write_all(&parts[0])?;
    // Still for a second: what is there is taken for all of it, and refused.
    stage.refuses("").await;
    file.write_all(&parts[1])?;
    drop(file);
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn written_by_parts_each_of_which_ends_a_plugin(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let parts = pieces(2, 4);
    slow::write(&stage.subject(), &parts, short(stage.watch())).await?;
    match stage.watch() {
        Watch::Events => stage.reloads(&parts.concat()).await,
        // Nobody can tell such a pause from the end.
        Watch::Polling => stage.reloads_up_to(4, &parts.concat()).await?,
    }
    stage.ends().await
}

async fn written_by_parts_each_of_which_ends_a_plugin_with_a_long_pause(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let parts = pieces(2, 2);
    let mut file = File::create(stage.subject())?;
    file.write_all(&parts[0])?;
    // Still for a second: what is there is a plugin, and runs.
    stage.reloads(&parts[0]).await;
    file.write_all(&parts[1])?;
    drop(file);
    stage.reloads(&parts.concat()).await;
    stage.ends().await
}

async fn written_from_the_end_to_the_beginning(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let content = build(2);
    let file = File::create(stage.subject())?;
    file.set_len(content.len() as u64)?;
    let parts: Vec<(usize, &[u8])> = content.chunks(content.len().div_ceil(5)).enumerate().collect();
    for (number, part) in parts.into_iter().rev() {
        pause(short(stage.watch())).await;
        file.write_all_at(part, (number * content.len().div_ceil(5)) as u64)?;
    }
    drop(file);
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn written_over_without_emptying_it(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let (content, half) = (build(2), build(2).len() / 2);
    let mut file = OpenOptions::new().write(true).open(stage.subject())?;
    file.write_all(&content[..half])?;
    pause(short(stage.watch())).await;
    file.write_all(&content[half..])?;
    drop(file);
    stage.reloads(&content).await;
    stage.ends().await
}

async fn emptied_and_written_a_moment_later(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    File::create(stage.subject())?;
    pause(Duration::from_millis(100)).await;
    OpenOptions::new().write(true).open(stage.subject())?.write_all(&build(2))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn emptied_for_three_seconds(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    File::create(stage.subject())?;
    pause(Duration::from_secs(3)).await;
    stage.refuses("").await;
    fs::write(stage.subject(), build(2))?;
    stage.reloads(&build(2)).await;
    // What runs, put back: the error is over, and nothing is reloaded.
    File::create(stage.subject())?;
    stage.refuses("").await;
    fs::write(stage.subject(), build(2))?;
    stage.is_refused_no_more().await;
    stage.ends().await
}

async fn emptied_and_held_open_for_three_seconds(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let mut file = File::create(stage.subject())?;
    pause(Duration::from_secs(3)).await;
    stage.refuses("").await;
    file.write_all(&build(2))?;
    drop(file);
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn appended_to(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let parts = pieces(1, 2);
    OpenOptions::new().append(true).open(stage.subject())?.write_all(&parts[1])?;
    stage.reloads(&parts.concat()).await;
    stage.ends().await
}

async fn mapped_into_memory_and_written(run: Run) -> Result<()> {
    if !tools::are_there(run.name, &["python3"]) {
        return Ok(());
    }
    let mut stage = run.start().await?;
    let script = "import mmap, sys\n\
                  new = open(sys.argv[2], 'rb').read()\n\
                  with open(sys.argv[1], 'r+b') as file, mmap.mmap(file.fileno(), len(new)) as memory:\n\
                  \x20   memory[:] = new\n";
    let (new, subject) = (stage.beside("new"), stage.subject());
    fs::write(&new, build(2))?;
    let arguments = ["-c".as_ref(), script.as_ref(), subject.as_os_str(), new.as_os_str()];
    tools::run(stage.hark.folder(), "python3", &arguments)?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

async fn two_contents_within_a_tick(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let file = OpenOptions::new().write(true).open(stage.subject())?;
    file.write_all_at(&build(2), 0)?;
    file.write_all_at(&build(3), 0)?;
    drop(file);
    stage.reloads_up_to(2, &build(3)).await?;
    fs::write(stage.subject(), build(4))?;
    fs::write(stage.subject(), build(5))?;
    stage.reloads_up_to(2, &build(5)).await?;
    stage.ends().await
}

async fn two_contents_while_it_is_open(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let mut file = OpenOptions::new().write(true).open(stage.subject())?;
    file.write_all(&build(2))?;
    pause(short(stage.watch())).await;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&build(3))?;
    drop(file);
    match stage.watch() {
        Watch::Events => stage.reloads(&build(3)).await,
        Watch::Polling => stage.reloads_up_to(2, &build(3)).await?,
    }
    stage.ends().await
}

async fn another_content_with_the_old_time(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let subject = stage.subject();
    let reference = stage.beside("reference");
    fs::write(&reference, "")?;
    let line = "touch -r \"$1\" \"$2\"; cat \"$3\" > \"$1\"; touch -r \"$2\" \"$1\"";
    let new = stage.beside("new");
    fs::write(&new, build(2))?;
    let paths = [&subject, &reference, &new].map(|path| path.to_string_lossy().into_owned());
    tools::shell(stage.hark.folder(), line, &paths.each_ref().map(String::as_str))?;
    stage.reloads(&build(2)).await;
    stage.ends().await
}

/// The clock of the machine is not ours to set; what it leaves in files when it jumps is.
async fn times_in_the_past_and_in_the_future(run: Run) -> Result<()> {
    let mut stage = run.start().await?;
    let (year, begun) = (Duration::from_secs(366 * 24 * 3600), SystemTime::now());
    for (number, time) in [(2, begun - 40 * year), (3, begun + 40 * year)] {
        let file = File::create(stage.subject())?;
        (&file).write_all(&build(number))?;
        file.set_modified(time)?;
        drop(file);
        stage.reloads(&build(number)).await;
    }
    // The file is younger than the one before it and has an older time, and the same content.
    File::options().write(true).open(stage.subject())?.set_modified(begun - 41 * year)?;
    stage.ends().await
}

async fn the_same_content(run: Run) -> Result<()> {
    let stage = run.start().await?;
    fs::write(stage.subject(), build(1))?;
    stage.flows().await;
    slow::write(&stage.subject(), &slow::parts(&build(1), 4), short(stage.watch())).await?;
    stage.ends().await
}

async fn touched(run: Run) -> Result<()> {
    let stage = run.start().await?;
    for _ in 0..4 {
        tools::run(stage.hark.folder(), "touch", &[stage.subject()])?;
        stage.flows().await;
    }
    stage.ends().await
}

async fn touched_by_links_and_permissions(run: Run) -> Result<()> {
    let stage = run.start().await?;
    let subject = stage.subject();
    let link = stage.beside("link");
    tools::run(stage.hark.folder(), "chmod", &["755".as_ref(), subject.as_os_str()])?;
    fs::hard_link(&subject, &link)?;
    stage.flows().await;
    fs::remove_file(&link)?;
    stage.flows().await;
    // Opened for writing, and nothing written.
    drop(OpenOptions::new().append(true).open(&subject)?);
    stage.ends().await
}
