//! The tools that people change files with: real ones, where they are on the machine.
//!
//! Used by the ways. Invariant: a tool that fails fails its way, with what it said; one that is not there is said to be
//! missing, so that nobody takes a way for played that was not.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Where a program is, on the path.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Whether all of these programs are there; says so if not.
pub fn are_there(way: &str, programs: &[&str]) -> bool {
    let missing: Vec<&str> = programs.iter().copied().filter(|program| find(program).is_none()).collect();
    if !missing.is_empty() {
        skip(way, &format!("there is no {} here", missing.join(", ")));
    }
    missing.is_empty()
}

/// Says that a way is not played, and why.
pub fn skip(way: &str, why: &str) {
    say(&format!("NOT PLAYED: {way}: {why}"));
}

/// Says something to whoever reads the test's output.
pub fn say(line: &str) {
    // Output that cannot be written is nobody's loss.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Runs a program in a folder to its end.
///
/// # Errors
/// If it cannot be run, or fails: with what it said.
pub fn run<S: AsRef<OsStr>>(folder: &Path, program: &str, arguments: &[S]) -> Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("LC_ALL", "C");
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{command:?} ended with {}: {said}", output.status);
    Ok(())
}

/// Runs a line of shell in a folder to its end, with `$1` and so on.
///
/// # Errors
/// As [`run`].
pub fn shell(folder: &Path, line: &str, arguments: &[&str]) -> Result<()> {
    let words = ["-ec", line, "sh"].into_iter().chain(arguments.iter().copied());
    run(folder, "sh", &words.collect::<Vec<_>>())
}
