//! `hark dev --build` and `[dev]` as a plugin author uses them: the built binary, real shells, real files.
//!
//! A build here copies the file whose path stands in `src/which` into the plugins folder, so a test says by one line of
//! text what comes of it. That something does *not* start a build is shown by the next one that does.

mod configured;
mod outputs;
mod processes;
mod sources;
mod words;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hark_tests::eventually;
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup, binary};

/// Copies what `src/which` names, under a name that is no plugin's first.
const COPY: &str =
    r#"cp "$(cat src/which)" "$HARK_PLUGINS/.new" && mv "$HARK_PLUGINS/.new" "$HARK_PLUGINS/counter.wasm""#;

/// A folder with `src/which` naming a fixture.
fn setup(guest: &str) -> Result<Setup> {
    let setup = Setup::new()?;
    fs::create_dir(setup.folder().join("src"))?;
    choose(setup.folder(), guest)?;
    Ok(setup)
}

fn choose(folder: &Path, guest: &str) -> Result<()> {
    Ok(fs::write(folder.join("src/which"), fixture(guest).to_string_lossy().as_bytes())?)
}

/// `[dev]` with a command whose sources are `src`.
fn dev(command: &str) -> String {
    format!("[dev]\nbuild = '''{command}'''\nsources = [\"src\"]\n")
}

fn write(hark: &Hark, file: &str, text: &str) -> Result<()> {
    let path = hark.folder().join(file);
    fs::create_dir_all(path.parent().context("a folder")?)?;
    Ok(fs::write(path, text)?)
}

/// A program that does something before it becomes `HARK`, with the folder that it lies in.
fn wrapper(script: &str) -> Result<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("hark");
    let script = script.replace("HARK", &binary().display().to_string());
    fs::write(&program, format!("#!/bin/sh\n{script}\n"))?;
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755))?;
    Ok((folder, program))
}

/// How many builds have begun.
fn begun(hark: &Hark) -> usize {
    hark.stdout().matches("build            running: ").count()
}

async fn counts(hark: &Hark, text: &str, count: usize) {
    let what = format!("{text:?} {count} times on standard output");
    let enough = async || (hark.stdout().matches(text).count() >= count).then_some(());
    eventually(&what, || hark.state(), enough).await;
}

/// The processes that a build has noted in a file, once there are so many.
async fn noted(hark: &Hark, file: &str, count: usize) -> Vec<PathBuf> {
    let read = async || {
        let text = fs::read_to_string(hark.folder().join(file)).ok()?;
        let all: Vec<PathBuf> = text.lines().map(|line| Path::new("/proc").join(line)).collect();
        (all.len() >= count).then_some(all)
    };
    eventually(&format!("{count} processes in {file}"), || hark.state(), read).await
}

async fn gone(processes: &[PathBuf], state: impl Fn() -> String) {
    let none = async || (!processes.iter().any(|process| process.exists())).then_some(());
    eventually(&format!("the end of {processes:?}"), state, none).await;
}
