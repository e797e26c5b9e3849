//! A build's processes, and how they end.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use hark_tests::eventually;
use hark_tests::hark::{binary, clean};

use crate::{COPY, begun, choose, dev, gone, noted, setup};

#[tokio::test(flavor = "multi_thread")]
async fn an_outdated_build_is_ended_with_all_of_its_processes_also_if_they_ignore_it() -> Result<()> {
    let command = format!(
        "trap '' TERM; if grep -q slow src/which; then \
         sh -c 'echo $$ >> pids; sleep 1000' & echo $$ >> pids; sleep 1000; fi; {COPY}"
    );
    let setup = setup("counter-v1")?.config(&dev(&command))?;
    fs::write(setup.folder().join("src/which"), "slow")?;
    let hark = setup.start(&["dev"])?;
    let processes = noted(&hark, "pids", 2).await;
    choose(hark.folder(), "counter-v1")?;
    hark.shows(&["build            outdated after ", "is ended: src/which changed", "counter started"]).await;
    gone(&processes, || hark.state()).await;
    assert_eq!(begun(&hark), 2, "{}", hark.stdout());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_build_leaves_running_is_ended_and_said() -> Result<()> {
    let command =
        format!("{COPY}; sleep 1000 & echo $! > pids; (trap '' TERM; sleep 1000) & echo $! >> pids");
    let hark = setup("counter-v1")?.config(&dev(&command))?.start(&["dev"])?;
    hark.shows(&[
        "build            done in ",
        "processes that it left running were ended",
        "counter started",
    ])
    .await;
    let processes = noted(&hark, "pids", 2).await;
    gone(&processes, || hark.state()).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_of_a_build_outlives_hark_however_that_ends() -> Result<()> {
    for (signal, orderly) in [("INT", true), ("KILL", false)] {
        let command = "sh -c 'trap \"\" TERM; echo $$ >> pids; sleep 1000' & echo $$ >> pids; sleep 1000";
        let mut hark = setup("counter-v1")?.config(&dev(command))?.start(&["dev"])?;
        let processes = noted(&hark, "pids", 2).await;
        hark.signal(signal)?;
        assert_eq!(hark.ends().await?.success(), orderly, "{}", hark.state());
        if orderly {
            assert!(!processes.iter().any(|process| process.exists()), "Hark waits for them");
        }
        gone(&processes, || hark.state()).await;
    }
    Ok(())
}

/// Starts the guard by itself.
fn guard(folder: &Path, command: &str) -> Result<std::process::Child> {
    let mut guard = clean(Command::new(binary()));
    guard.args(["run-build", "--"]).arg(folder).arg(command);
    let piped = std::process::Stdio::piped;
    Ok(guard.stdin(piped()).stdout(piped()).stderr(piped()).spawn()?)
}

#[test]
fn the_guard_says_what_became_of_a_command_and_has_its_words_in_order() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (command, report) in [
        ("echo a; echo b >&2; echo c; exit 7", "{\"ending\":{\"Exited\":7},\"left\":0,"),
        ("echo a; echo b >&2; echo c; kill -TERM $$", "{\"ending\":{\"Killed\":15},\"left\":0,"),
        ("echo a; echo b >&2; echo c; sleep 1000 &", "{\"ending\":{\"Exited\":0},\"left\":1,"),
    ] {
        let mut guard = guard(folder.path(), command)?;
        let lifeline = guard.stdin.take();
        let output = guard.wait_with_output()?;
        drop(lifeline);
        assert_eq!(String::from_utf8(output.stderr)?, "a\nb\nc\n", "{command}");
        let said = String::from_utf8(output.stdout)?;
        assert!(said.starts_with(report) && said.ends_with("}\n"), "{command}: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn a_guard_whose_lifeline_ends_kills_also_what_is_stopped() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut guard = guard(folder.path(), "echo $$ >&2; kill -STOP $$")?;
    let mut first = String::new();
    let mut words = std::io::BufReader::new(guard.stderr.take().context("its words")?);
    std::io::BufRead::read_line(&mut words, &mut first)?;
    let process = Path::new("/proc").join(first.trim());
    let stopped = async || fs::read_to_string(process.join("stat")).ok()?.contains(") T ").then_some(());
    eventually("the command to stop itself", || first.clone(), stopped).await;
    drop(guard.stdin.take());
    let output = guard.wait_with_output()?;
    let said = String::from_utf8(output.stdout)?;
    assert!(said.starts_with("{\"ending\":{\"Killed\":9},\"left\":0,"), "{said}");
    assert!(!process.exists());
    Ok(())
}
