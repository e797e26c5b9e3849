//! 200 random reloads under a constant stream of changes, on the real API server and on the embedded one, held against a
//! model of what is promised about delivery and rollback (see [`hark_tests::reloads`]).
//!
//! One seed is fixed, another one is new each time and told with what went wrong. `HARK_SEED` repeats a run: the same
//! builds and steps, though not the same moments.

mod flat;

use std::io::Write;

use anyhow::{Context, Result};
use hark_tests::cluster::{Cluster, Kind};
use hark_tests::on_both_servers;
use hark_tests::reloads::campaign::{asked_seed, run};

/// Steps of a run.
const STEPS: usize = 200;

on_both_servers! {
    two_hundred_random_reloads_lose_and_double_nothing
}

/// Of the fixed seed.
const SEED: u64 = 1;

async fn two_hundred_random_reloads_lose_and_double_nothing(cluster: &mut Cluster) -> Result<()> {
    reload(cluster, asked_seed()?.unwrap_or(SEED)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_of_a_new_seed_lose_and_double_nothing() -> Result<()> {
    let seed = rand::random();
    let mut cluster = Cluster::start(Kind::Embedded).await?.context("the embedded server is always there")?;
    reload(&mut cluster, seed).await
}

async fn reload(cluster: &mut Cluster, seed: u64) -> Result<()> {
    let report = run(cluster, seed, STEPS).await?;
    writeln!(std::io::stderr(), "HARK_SEED={seed}: {report:?}")?;
    Ok(())
}
