//! Every hostile guest, run by the built binary beside a good plugin under a steady stream of changes: the guest comes
//! to its end with the outcome and the words that its case says; the good plugin is told of every change, once and in
//! order; the admin port answers all the time; and a good build saved over the guest works at once.
//!
//! One guest at a time, since latencies are measured: the table is printed (`--nocapture`) and written to
//! `target/hostile-latency.txt`. `HARK_HOSTILE=trap-on-add,empty` plays some guests only. A guest in `tests/guests/hostile` without a case fails the build of this file.

mod cases;
mod stage;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use hark_tests::asking::Asking;
use hark_tests::guests::fixture;
use hark_tests::hostile::guest;
use hark_tests::latency::{Row, table};
use hark_tests::prometheus::Scrape;
use hark_tests::trace::Line;
use serde_json::Value;

use self::cases::{Case, Expected, Health, all, has_case};
use self::stage::{GOOD, Stage};

include!(concat!(env!("OUT_DIR"), "/hostile_guests.rs"));

/// Changes during a guest's turn, at least; and while there is no guest.
const CHANGES: usize = 100;
const CHANGES_ALONE: usize = 400;

/// What holds for every plugin of the suite, and for those guests whose fault needs other limits.
fn config() -> String {
    let mut config = "[defaults.limits]\ndeadline = \"100ms\"\nmax_attempts = 3\n\
                      [plugins.good.limits]\ndeadline = \"1s\"\n"
        .to_owned();
    for Case { guest, limits, .. } in all().filter(|case| !case.limits.is_empty()) {
        config.push_str(&format!("[plugins.{guest}]\nlimits = {{ {limits} }}\n"));
    }
    config
}

/// Whether a case is to be played: all are, but for those that `HARK_HOSTILE` leaves out by naming others.
fn chosen(case: &&Case) -> bool {
    std::env::var("HARK_HOSTILE").map_or(true, |names| names.split(',').any(|name| name == case.guest))
}

/// The good plugin by itself.
async fn alone(stage: &mut Stage, name: &str) -> Result<Row> {
    stage.turn()?;
    let (stream, asking) = (stage.change(name), Asking::start(stage.admin));
    stage.until("changes", |_| Ok(stream.made() >= CHANGES_ALONE)).await?;
    let took = stage.all_delivered(&stream.stop().await?).await?;
    Ok(Row::new(name, "-", took, asking.stop().await?))
}

/// One guest's turn.
async fn play(stage: &mut Stage, case: &Case) -> Result<Row> {
    let build = guest(case.guest)?;
    stage.turn()?;
    let (stream, asking) = (stage.change(case.guest), Asking::start(stage.admin));
    stage.save(case.guest, &build)?;
    stage.until("its outcome", |stage| Ok(case.has_come(stage) && stream.made() >= CHANGES)).await?;
    let took = stage.all_delivered(&stream.stop().await?).await?;
    let answers = asking.stop().await?;
    counted(stage, case).await?;
    recovers(stage, case).await?;
    Ok(Row::new(case.guest, case.outcome(), took, answers))
}

/// What the admin port says of the guest fits what the log and the trace said.
async fn counted(stage: &Stage, case: &Case) -> Result<()> {
    let document = stage.document(case.guest).await?.context("it is not in /api/plugins")?;
    let scrape = Scrape::parse(&hark_tests::http::get(stage.admin, "/metrics").await?.body)?;
    let plugin = ("plugin", case.guest);
    match case.expected {
        Expected::Refused(message) => {
            let said = document["refused"]["message"].as_str().unwrap_or_default();
            ensure!(said.contains(message) && document["running"].is_null(), "{document}");
            ensure!(
                scrape.get("hark_plugin_refused", &[plugin]) == Some(1.0),
                "it does not count as refused"
            );
        }
        Expected::Attempt { outcome, .. } => {
            ensure!(document["refused"].is_null() && document["running"].is_object(), "{document}");
            let count = scrape.get("hark_listener_deliveries_total", &[plugin, ("outcome", outcome)]);
            ensure!(count >= Some(1.0), "{count:?} deliveries with outcome {outcome}");
            fares(case, &document["health"])?;
        }
    }
    Ok(())
}

/// The state that the plugin is in.
fn fares(case: &Case, health: &Value) -> Result<()> {
    let quarantines = health["quarantines"].as_u64();
    match case.health {
        Health::Spared => ensure!(quarantines == Some(0), "{health}"),
        Health::Quarantined => {
            let shut = matches!(health["state"].as_str(), Some("quarantined" | "probing"));
            ensure!(quarantines == Some(1) && shut, "{health}");
            ensure!(health["cause"].as_str().is_some_and(|cause| cause.contains(case.says())), "{health}");
        }
        Health::Either => {}
    }
    Ok(())
}

/// A good build saved over the guest is told of what there is, and then the plugin is taken away.
async fn recovers(stage: &mut Stage, case: &Case) -> Result<()> {
    let before = stage.lines_of(case.guest).map(|line| line.generation).max().unwrap_or(0);
    stage.save(case.guest, &std::fs::read(fixture("counter-v2"))?)?;
    let told = |line: &Line| line.generation > before && line.key == "default/anchor" && line.outcome == "ok";
    stage.until("the good build", |stage| Ok(stage.lines_of(case.guest).any(told))).await?;
    if case.health == Health::Quarantined {
        stage.until("the end of quarantine", |stage| Ok(case.is_out_of_quarantine(stage))).await?;
    }
    let health = &stage.document(case.guest).await?.context("it is not in /api/plugins")?["health"];
    ensure!(health["state"] == "healthy", "the good build: {health}");
    Ok(std::fs::remove_file(stage.path(case.guest))?)
}

/// What was said of a guest that failed its case, for whoever has to find out why.
fn evidence(stage: &Stage, guest: &str) -> String {
    let marks =
        [format!("plugin=\"{guest}\""), format!("{guest}: "), format!("{guest}.wasm"), "panicked".into()];
    let said = stage.said.iter().filter(|line| marks.iter().any(|mark| line.contains(mark))).take(6);
    // The end of a long line is what matters of it.
    let short =
        |line: &String| line.chars().skip(line.chars().count().saturating_sub(300)).collect::<String>();
    let traced =
        stage.lines_of(guest).take(3).map(|line| format!("{} {} {}", line.op, line.key, line.outcome));
    said.map(short).chain(traced).collect::<Vec<_>>().join("\n    ")
}

/// Only the good plugin is left when the last guest has had its turn.
async fn nothing_is_left(stage: &mut Stage) -> Result<()> {
    let task = Path::new("/proc").join(stage.hark.pid().to_string()).join("task");
    stage
        .until("the guests' threads to end", |_| {
            let mut names = Vec::new();
            for thread in std::fs::read_dir(&task)?.flatten() {
                names.extend(std::fs::read_to_string(thread.path().join("comm")));
            }
            let plugins: Vec<_> = names.iter().filter(|name| name.starts_with("plugin:")).collect();
            Ok(plugins == [&format!("plugin:{GOOD}\n")])
        })
        .await?;
    ensure!(!stage.said.iter().any(|line| line.contains("panicked")), "a panic in the host");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_has_its_outcome_and_costs_the_good_plugin_nothing() -> Result<()> {
    let config = config();
    let mut stage = Stage::start(&config).await?;
    let mut rows = vec![alone(&mut stage, "alone").await?];
    let mut failed = Vec::new();
    for case in all().filter(chosen) {
        match play(&mut stage, case).await {
            Ok(row) => rows.push(row),
            Err(error) => {
                failed.push(format!("{}: {error:#}\n    {}", case.guest, evidence(&stage, case.guest)));
                stage = Stage::start(&config).await?;
            }
        }
    }
    rows.push(alone(&mut stage, "alone-again").await?);
    nothing_is_left(&mut stage).await?;
    let table = table(&rows);
    eprintln!("{table}");
    std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/hostile-latency.txt"), table)?;
    assert!(failed.is_empty(), "{} guests failed:\n{}", failed.len(), failed.join("\n"));
    Ok(())
}

#[test]
fn each_case_has_its_guest_and_its_line_in_the_readme() {
    let folder = hark_tests::hostile::folder();
    let readme = std::fs::read_to_string(folder.join("README.md")).expect("the folder's README");
    let mut seen = BTreeSet::new();
    for case in all() {
        assert!(seen.insert(case.guest), "two cases for {}", case.guest);
        let is_there = |extension: &&str| folder.join(format!("{}.{extension}", case.guest)).is_file();
        assert!(["c", "wat", "hex"].iter().any(is_there), "no guest {}", case.guest);
        let row = readme.lines().find(|line| line.starts_with(&format!("| `{}` |", case.guest)));
        let row = row.unwrap_or_else(|| panic!("the README has no line for {}", case.guest));
        assert!(row.contains(case.says()), "{}: {row} lacks {:?}", case.guest, case.says());
    }
}
