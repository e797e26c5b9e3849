//! What is shown of a build that fails, says much, or goes nowhere.

use std::fs;

use anyhow::{Context, Result};

use crate::{COPY, choose, counts, dev, setup, write};

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_fails_shows_its_output_and_the_old_version_goes_on() -> Result<()> {
    let command = format!(
        r"test -e src/broken && {{ printf 'one\n' >&2; echo two; printf '\033[31mthree\033[2J\033[0m\n' >&2; exit 101; }}; {COPY}"
    );
    let hark = setup("counter-v1")?.config(&dev(&command))?.start(&["dev"])?;
    hark.shows(&["counter started"]).await;
    write(&hark, "src/broken", "")?;
    hark.shows(&["build            FAILED (exit 101) after ", "\n    one\n    two\n    three\n"]).await;
    fs::remove_file(hark.folder().join("src/broken"))?;
    hark.shows(&["(src/broken removed"]).await;
    counts(&hark, "build            done in ", 2).await;
    choose(hark.folder(), "counter-v2")?;
    hark.shows(&["counter reloaded: "]).await;
    assert!(!hark.stdout().contains("stopped"), "{}", hark.stdout());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn much_output_holds_nothing_up_and_is_not_kept() -> Result<()> {
    let command = "echo begins; yes 0123456789012345678901234567890123456789 | head -c 100000000; echo; echo ends; exit 3";
    let hark = setup("counter-v1")?.config(&dev(command))?.start(&["dev"])?;
    hark.shows(&[
        "    begins\n",
        "FAILED (exit 3) after ",
        "bytes of output are left out here",
        "    ends\n",
    ])
    .await;
    let stdout = hark.stdout();
    assert!(stdout.len() < 100_000, "{} bytes", stdout.len());
    let status = fs::read_to_string(format!("/proc/{}/status", hark.pid()))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("a peak")?;
    let kib: usize = peak.trim().trim_end_matches(" kB").parse()?;
    assert!(kib < 80 << 10, "{kib} KiB of memory at most, where 100 MB were written");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_run_and_what_goes_nowhere_is_said() -> Result<()> {
    let config = "[[dev.build]]\nrun = \"true\"\nin = \"gone\"\n[[dev.build]]\nrun = \"nosuchcommand\"\nsources = [\"src\"]\n\
                  [[dev.build]]\nrun = \"echo x > out.wasm\"\nsources = [\"src\"]\n[[dev.build]]\nrun = 'kill -9 $$'\nsources = [\"src\"]\n";
    let hark = setup("counter-v1")?.config(config)?.start(&["dev"])?;
    hark.shows(&[
        "FAILED, it cannot be run: there is no folder ",
        "cannot read the sources in ",
        "FAILED (exit 127: sh does not find a command) after ",
        "nosuchcommand",
        "has changed: is the output copied there ($HARK_PLUGINS)?",
        "FAILED (signal 9) after ",
    ])
    .await;
    fs::create_dir(hark.folder().join("gone"))?;
    write(&hark, "gone/x", "x")?;
    hark.shows(&["running: true (x added"]).await;
    Ok(())
}
