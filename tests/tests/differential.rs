//! Hark's informer tells its handlers what client-go's tells them: a run of the differential suite that is short
//! enough for every day. The large one is `cargo xtask differential`. Run by cargo; skipped loudly where
//! client-go cannot be built.

use anyhow::{Result, ensure};
use hark_tests::differential::{Campaign, Rule, Script, play_all, rivals};

/// Scripts of the daily run.
const SCRIPTS: u64 = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_hear_what_client_gos_handlers_hear() -> Result<()> {
    let Some(rivals) = rivals().await? else { return Ok(()) };
    let campaign = Campaign { scripts: SCRIPTS, seed: 1, at_once: 100, failures: 1 };
    let report = campaign.run(&rivals, |_| {}).await?;
    ensure!(report.failures.is_empty(), "{report}");
    ensure!(report.played == SCRIPTS && report.tallies.len() == 2, "{report}");
    // A rule that no script needs would say nothing.
    let in_order = &report.tallies[0].1;
    for rule in [
        Rule::UnchangedRelist,
        Rule::ResyncTiming,
        Rule::NeverShown,
        Rule::Recreated,
        Rule::OtherIncarnation,
        Rule::HeldBack,
        Rule::LeftSelector,
    ] {
        ensure!(in_order.of(rule) > 0, "no script shows {rule:?}: {report}");
    }
    Ok(())
}

/// Scripts that failed once, or that show something which seeds show rarely; in the form in which failures print
/// them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_once_failed_agree() -> Result<()> {
    let Some(rivals) = rivals().await? else { return Ok(()) };
    let lines = include_str!("../differential/scripts.jsonl").lines();
    let scripts = lines.map(serde_json::from_str).collect::<Result<Vec<Script>, _>>()?;
    let count = u64::try_from(scripts.len())?;
    let report = play_all(scripts, usize::MAX, &rivals, |_| {}).await?;
    ensure!(report.failures.is_empty() && report.played == count, "{report}");
    Ok(())
}
