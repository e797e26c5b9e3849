//! Two hundred files at once.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hark_tests::eventually;
use hark_tests::guests::sha256;
use hark_tests::ways::build::build;
use hark_tests::ways::stage::Stage;
use hark_tests::ways::{Run, tools};

hark_tests::ways! {
    two_hundred_files
}

const FILES: u32 = 200;

fn name(number: u32) -> String {
    format!("many-{number:03}")
}

/// One in ten has a content of its own, the others share one.
fn content(number: u32, generation: u32) -> Vec<u8> {
    let own = if number.is_multiple_of(10) { number } else { 0 };
    build(1000 * generation + own)
}

/// CPU seconds that the host has used.
fn cpu(stage: &Stage) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", stage.hark.pid()))?;
    let (_, fields) = stat.rsplit_once(") ").context("a name in brackets")?;
    let field =
        |number: usize| -> Result<u64> { Ok(fields.split(' ').nth(number).context("a field")?.parse()?) };
    // utime and stime, in ticks of 10 ms.
    Ok(Duration::from_millis(10 * (field(11)? + field(12)?)))
}

/// Waits until each of the many runs as its `generation`th version, with its content.
async fn all_run(stage: &Stage, generation: u32) {
    let expected: Vec<(String, String)> =
        (0..FILES).map(|number| (name(number), sha256(&content(number, generation)))).collect();
    let run = async || {
        let plugins = stage.documents().await?;
        let runs = |(name, hash): &(String, String)| {
            let found = plugins.iter().find(|one| one["plugin"] == name.as_str());
            found.is_some_and(|one| {
                one["running"]["sha256"] == hash.as_str() && one["running"]["generation"] == generation
            })
        };
        expected.iter().all(runs).then_some(())
    };
    eventually(&format!("version {generation} of all"), || stage.hark.state(), run).await;
}

/// How often the log says something of one of the many.
fn said(stage: &Stage, what: &str) -> usize {
    let log = stage.hark.stderr();
    log.lines().filter(|line| line.contains(" many-") && line.contains(what)).count()
}

async fn two_hundred_files(run: Run) -> Result<()> {
    let stage = run.start().await?;
    let store = stage.beside("store");
    fs::create_dir(&store)?;
    let mut used = vec![cpu(&stage)?];
    for generation in [1, 2] {
        for number in 0..FILES {
            fs::write(store.join(name(number)).with_extension("wasm"), content(number, generation))?;
        }
        let (store, folder) = (store.to_string_lossy(), stage.folder.to_string_lossy());
        tools::shell(stage.hark.folder(), "cp \"$1\"/* \"$2\"", &[&store, &folder])?;
        all_run(&stage, generation).await;
        used.push(cpu(&stage)?);
    }
    tools::shell(&stage.folder, "rm many-*", &[])?;
    stage.is_gone("many-000").await;
    let few = async || (stage.documents().await?.len() == 2).then_some(());
    eventually("all of the many to be gone", || stage.hark.state(), few).await;
    used.push(cpu(&stage)?);
    // Lines are written by a thread of their own, after what they tell of.
    let counts = || ["started: ", "reloaded: ", "stopped: "].map(|what| said(&stage, what));
    let all = async || (counts().into_iter().min() >= Some(FILES as usize)).then_some(());
    eventually("a line for each", || format!("{:?}", counts()), all).await;
    ensure!(counts() == [FILES as usize; 3], "starts, reloads, stops: {:?}", counts());
    let took: Vec<String> =
        used.windows(2).map(|pair| format!("{:.2} s", (pair[1] - pair[0]).as_secs_f64())).collect();
    tools::say(&format!("{FILES} starts, reloads, stops, by {:?}: {} of CPU", run.watch, took.join(", ")));
    stage.ends().await
}
