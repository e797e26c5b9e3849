//! Finds the programs that build guests, runs them, and installs packages where that is possible. Used by the
//! two guest builders. Invariant: nothing is installed silently, and an error names what to install.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// The first of these programs that is there: in `PATH`, or in the folders where LLVM's versioned packages
/// keep the unversioned names.
pub(crate) fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).chain(llvm_folders()).collect();
    let in_folders = |name: &&str| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    names.iter().find_map(in_folders)
}

/// `/usr/lib/llvm-N/bin`, newest first.
fn llvm_folders() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut versions: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("llvm-")?.parse().ok()).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.iter().map(|version| format!("/usr/lib/llvm-{version}/bin").into()).collect()
}

/// Versioned and plain names of an LLVM program, newest first: `clang-24` … `clang-14`, then `clang`.
pub(crate) fn llvm_program(name: &str) -> Option<PathBuf> {
    let versioned: Vec<String> = (14..=24).rev().map(|version| format!("{name}-{version}")).collect();
    let mut names: Vec<&str> = versioned.iter().map(String::as_str).collect();
    names.push(name);
    find(&names)
}

/// Runs a program and returns what it printed; an error shows the command and its stderr.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = start(command, Command::output)?;
    if !output.status.success() {
        let Output { status, stderr, .. } = output;
        bail!("{} failed ({status}):\n{}", shown(command), String::from_utf8_lossy(&stderr).trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program that talks to the user by itself.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = start(command, Command::status)?;
    if !status.success() {
        bail!("{} failed ({status})", shown(command));
    }
    Ok(())
}

fn start<T>(command: &mut Command, how: impl FnOnce(&mut Command) -> std::io::Result<T>) -> Result<T> {
    how(command).with_context(|| format!("cannot start {}", shown(command)))
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Installs the first of these sets of Debian packages that can be, saying so. False if this is not a
/// Debian-like system, or not root, or none of them is to be had.
pub(crate) fn apt_install(alternatives: &[&[&str]]) -> bool {
    let Some(apt) = find(&["apt-get"]).filter(|_| is_root()) else { return false };
    let attempt = |update: bool, packages: &[&str]| -> Result<()> {
        if update {
            capture(Command::new(&apt).args(["update", "--quiet"]))?;
        }
        let quiet = ["install", "--yes", "--quiet", "--no-install-recommends"];
        capture(Command::new(&apt).env("DEBIAN_FRONTEND", "noninteractive").args(quiet).args(packages))?;
        Ok(())
    };
    for (number, packages) in alternatives.iter().enumerate() {
        eprintln!("installing with apt-get: {} …", packages.join(" "));
        match attempt(number == 0, packages) {
            Ok(()) => return true,
            Err(error) => eprintln!("{error:#}"),
        }
    }
    false
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The user's cache folder for Hark's builds.
pub(crate) fn cache_folder() -> Result<PathBuf> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Ok(base.context("neither XDG_CACHE_HOME nor HOME is set")?.join("hark"))
}

/// Names of the files in a folder that end so, without the ending, sorted.
pub(crate) fn stems(folder: &Path, extension: &str) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut stems = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            stems.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    stems.sort();
    Ok(stems)
}
