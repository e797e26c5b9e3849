//! 200 random reloads under a constant stream of changes, on the real API server and on the embedded one, held against a
//! model of what is promised about delivery (see [`hark_tests::reloads`]).
//!
//! `HARK_SEED` repeats a run: the same builds and steps, though not the same moments.

mod flat;

use std::io::Write;

use anyhow::Result;
use hark_tests::cluster::Cluster;
use hark_tests::on_both_servers;
use hark_tests::reloads::campaign::{asked_seed, run};

/// Steps of a run.
const STEPS: usize = 200;

on_both_servers! {
    two_hundred_random_reloads_lose_and_double_nothing
}

async fn two_hundred_random_reloads_lose_and_double_nothing(cluster: &mut Cluster) -> Result<()> {
    let seed = asked_seed()?.unwrap_or(1);
    let report = run(cluster, seed, STEPS).await?;
    writeln!(std::io::stderr(), "HARK_SEED={seed}: {report:?}")?;
    Ok(())
}
