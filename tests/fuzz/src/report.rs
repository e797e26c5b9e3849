//! What a long run found: counted, printed, saved.
//!
//! Used by `run`. Invariant: the same fault is saved once, however many cases meet it; and what a run was at when
//! the process died can be read from the folder.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::case::Failure;

/// Faults of one target that are saved: beyond them it is broken anyway.
const FAULTS: usize = 20;

/// What the threads of one target have done.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) cases: u64,
    /// CPU time of the slowest case, and its number.
    pub(crate) slowest: (Duration, u64),
    pub(crate) failed: u64,
    /// The first case of each fault: what was said, and where it is saved.
    faults: BTreeMap<String, PathBuf>,
}

impl Tally {
    /// Counts a case.
    pub(crate) fn case(&mut self, seed: u64, took: Duration) {
        self.cases += 1;
        self.slowest = self.slowest.max((took, seed));
    }

    /// Counts a case that failed, and saves it if its fault is new.
    pub(crate) fn failure<V: Debug>(
        &mut self,
        name: &str,
        out: &Path,
        failure: &Failure<V>,
        bytes: Option<&[u8]>,
    ) -> io::Result<()> {
        self.failed += 1;
        let fault: String = failure.reason.chars().filter(|char| !char.is_ascii_digit()).take(120).collect();
        if self.faults.len() >= FAULTS || self.faults.contains_key(&fault) {
            return Ok(());
        }
        self.faults.insert(fault, save(name, out, failure, bytes)?);
        Ok(())
    }

    /// One line, and two for each fault.
    pub(crate) fn line(&self, name: &str, took: Duration, threads: usize) -> String {
        let (slowest, seed) = self.slowest;
        let mut text = format!(
            "fuzz {name}: {} cases in {:.1} s on {threads} threads, slowest {:.1} ms of CPU (case {seed:#018x}), \
             peak memory {} MiB, {} failures\n",
            self.cases,
            took.as_secs_f64(),
            slowest.as_secs_f64() * 1e3,
            peak_memory() >> 20,
            self.failed
        );
        for (fault, file) in &self.faults {
            let fault = fault.lines().next().unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {fault}\n    again: cargo xtask fuzz --replay {}", file.display());
        }
        text
    }
}

/// Saves a failing input: a file's bytes as they are; anything else as text that begins with the case's number.
fn save<V: Debug>(name: &str, out: &Path, failure: &Failure<V>, bytes: Option<&[u8]>) -> io::Result<PathBuf> {
    fs::create_dir_all(out)?;
    let stem = format!("{name}-{:016x}", failure.seed);
    let text = format!("{:#018x}\n{}\n{:#?}\n", failure.seed, failure.reason, failure.value);
    let beside = out.join(format!("{stem}.txt"));
    fs::write(&beside, text)?;
    let Some(bytes) = bytes else { return Ok(beside) };
    let file = out.join(format!("{stem}.bin"));
    fs::write(&file, bytes)?;
    Ok(file)
}

/// The number of the case in a saved text.
pub(crate) fn saved_seed(text: &str) -> Option<u64> {
    u64::from_str_radix(text.lines().next()?.strip_prefix("0x")?, 16).ok()
}

/// The case that a thread is at, in a file: it outlives a process that dies of it.
pub(crate) struct InHand {
    file: File,
    path: PathBuf,
}

impl InHand {
    pub(crate) fn new(name: &str, out: &Path, thread: usize) -> io::Result<Self> {
        fs::create_dir_all(out)?;
        let path = out.join(format!("{name}-thread-{thread}.txt"));
        Ok(Self { file: File::create(&path)?, path })
    }

    /// From now on, it is this one.
    pub(crate) fn set(&self, seed: u64) -> io::Result<()> {
        self.file.write_all_at(format!("{seed:#018x}\nin hand\n").as_bytes(), 0)
    }

    /// The thread came to its end.
    pub(crate) fn done(self) -> io::Result<()> {
        fs::remove_file(self.path)
    }
}

/// To standard error, whatever the test harness captures or says itself.
pub(crate) fn print(text: &str) -> io::Result<()> {
    io::stderr().lock().write_all(text.as_bytes())
}

/// Bytes that the process had in memory at most, so far; 0 where the system does not say.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_saved_once_with_its_number() {
        let out = std::env::temp_dir().join(format!("hark-fuzz-{}", std::process::id()));
        let mut tally = Tally::default();
        for (seed, reason) in [(10, "no 1"), (11, "no 2"), (12, "other")] {
            let failure = Failure { seed, reason: reason.to_owned(), value: "input" };
            tally.failure("t", &out, &failure, Some(b"in\0put")).expect("saved");
        }
        let mut names: Vec<_> =
            fs::read_dir(&out).expect("there").flatten().map(|entry| entry.path()).collect();
        names.sort();
        let stems = ["t-000000000000000a", "t-000000000000000c"];
        let want: Vec<_> = stems
            .iter()
            .flat_map(|stem| [out.join(format!("{stem}.bin")), out.join(format!("{stem}.txt"))])
            .collect();
        assert_eq!(names, want);
        assert_eq!(fs::read(&want[0]).expect("there"), b"in\0put");
        let text = fs::read_to_string(&want[1]).expect("there");
        assert_eq!(saved_seed(&text), Some(10));
        assert!(tally.line("t", Duration::from_secs(1), 2).contains("3 failures"));
        fs::remove_dir_all(&out).expect("removed");
    }
}
