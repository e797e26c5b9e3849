//! The wall clock is set an hour forward and an hour back while the host runs: at rest, while a file is being written, and
//! while it is gone.

use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hark_tests::trace;
use hark_tests::ways::build::build;
use hark_tests::ways::clock::{set, start};
use hark_tests::ways::stage::Stage;
use hark_tests::ways::{Run, Watch, pause, slow};
use jiff::Timestamp;

hark_tests::ways! {
    the_clock_set_forward
    the_clock_set_back
    the_clock_set_while_a_file_is_written
    the_clock_set_while_a_file_is_gone
    the_clock_set_while_nothing_changes
}

/// In seconds.
const HOUR: i64 = 3600;

async fn the_clock_set_forward(run: Run) -> Result<()> {
    saved_after(run, HOUR).await
}

async fn the_clock_set_back(run: Run) -> Result<()> {
    saved_after(run, -HOUR).await
}

async fn saved_after(run: Run, seconds: i64) -> Result<()> {
    let mut stage = start(run).await?;
    set(&stage, seconds)?;
    stage.reloads_in_either_way().await?;
    goes_by(&stage, seconds)?;
    stage.ends().await
}

async fn the_clock_set_while_a_file_is_written(run: Run) -> Result<()> {
    let mut stage = start(run).await?;
    let between = match stage.watch() {
        Watch::Events => Duration::from_millis(250),
        Watch::Polling => Duration::from_millis(50),
    };
    for (number, seconds) in [(2, HOUR), (3, -HOUR), (4, 0)] {
        let parts = slow::parts(&build(number), 4);
        let mut file = File::create(stage.subject())?;
        file.write_all(&parts[0])?;
        pause(between).await;
        set(&stage, seconds)?;
        slow::write_on(file, &parts[1..], between).await?;
        stage.reloads(&build(number)).await;
        goes_by(&stage, seconds)?;
    }
    stage.ends().await
}

/// Two seconds are two seconds, whatever the clock says.
async fn the_clock_set_while_a_file_is_gone(run: Run) -> Result<()> {
    let mut stage = start(run).await?;
    for (number, seconds) in [(2, HOUR), (3, -HOUR)] {
        fs::remove_file(stage.subject())?;
        set(&stage, seconds)?;
        fs::write(stage.subject(), build(number))?;
        stage.reloads(&build(number)).await;
    }
    fs::remove_file(stage.subject())?;
    set(&stage, HOUR)?;
    stage.stops().await?;
    fs::write(stage.subject(), build(4))?;
    stage.starts(&build(4)).await;
    goes_by(&stage, HOUR)?;
    stage.ends().await
}

async fn the_clock_set_while_nothing_changes(run: Run) -> Result<()> {
    let stage = start(run).await?;
    for seconds in [HOUR, -HOUR, 0, 24 * HOUR] {
        set(&stage, seconds)?;
        stage.looks_around().await?;
        goes_by(&stage, seconds)?;
    }
    stage.ends().await
}

/// The host goes by a clock that is so many seconds ahead of the machine's.
fn goes_by(stage: &Stage, seconds: i64) -> Result<()> {
    let lines = trace::read(&stage.hark.folder().join("trace.jsonl"));
    let said: Timestamp = lines.last().context("no events")?.ts.parse()?;
    let ahead = said.as_second() - Timestamp::now().as_second();
    ensure!((ahead - seconds).abs() < HOUR / 4, "its clock is {ahead} s ahead, not {seconds}");
    Ok(())
}
