//! Many reloads in every way leave memory, descriptors, watches and threads as they were: a short run of
//! `cargo xtask long`, judged as that is.

use std::io::Write;

use anyhow::Result;
use hark_tests::hark::binary;
use hark_tests::long::run::{Asked, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_reloads_leave_what_the_process_holds_as_it_was() -> Result<()> {
    let asked = Asked { events: 6000, reloads: 300, objects: 100, seed: 1 };
    let account = run(&asked, &binary()).await?;
    writeln!(std::io::stderr(), "{account}")?;
    Ok(())
}
