//! What a process takes of the machine, as Linux's `/proc` has it.
//!
//! Invariant: one reading is of one moment, as near as the kernel allows; nothing is estimated.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

/// What a process holds. Memory is in KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// In RAM, code and shared pages included (`VmRSS`).
    pub resident: u64,
    /// Of these, pages that belong to no file (`RssAnon`).
    pub anonymous: u64,
    /// In RAM, shared pages divided by those who share them (`Pss`).
    pub proportional: u64,
    /// The kernel's tables for all of this (`VmPTE`).
    pub page_tables: u64,
    /// Address space (`VmSize`).
    pub address_space: u64,
    /// Threads.
    pub threads: u64,
    /// Open file descriptors.
    pub descriptors: u64,
    /// Mappings of the address space; `vm.max_map_count` (65,530) is their limit.
    pub mappings: u64,
    /// Files and folders that it watches by inotify; `fs.inotify.max_user_watches` is a user's limit.
    pub watches: u64,
}

/// What a process's threads have done since they began.
#[derive(Debug, Clone, Default)]
pub struct Activity(BTreeMap<String, Thread>);

#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    cpu: Duration,
    /// How often it went to sleep, or was made to wait.
    switches: u64,
}

impl Usage {
    /// What the process holds now.
    ///
    /// # Errors
    /// If the process is gone, or this is no Linux.
    pub fn read(pid: u32) -> Result<Self> {
        let folder = folder(pid);
        let status = Fields::read(&folder.join("status"))?;
        let rollup = Fields::read(&folder.join("smaps_rollup"))?;
        Ok(Self {
            resident: status.number("VmRSS")?,
            anonymous: status.number("RssAnon")?,
            proportional: rollup.number("Pss")?,
            page_tables: status.number("VmPTE")?,
            address_space: status.number("VmSize")?,
            threads: status.number("Threads")?,
            descriptors: fs::read_dir(folder.join("fd"))?.count() as u64,
            mappings: text(&folder.join("maps"))?.lines().count() as u64,
            watches: watches(&folder)?,
        })
    }
}

impl Activity {
    /// What the process's threads have done so far.
    ///
    /// # Errors
    /// If the process is gone, or this is no Linux.
    pub fn read(pid: u32) -> Result<Self> {
        let mut threads = BTreeMap::new();
        for task in fs::read_dir(folder(pid).join("task"))? {
            let task = task?;
            // A thread may end while we look.
            if let Ok(thread) = Thread::read(&task.path()) {
                threads.insert(task.file_name().to_string_lossy().into_owned(), thread);
            }
        }
        Ok(Self(threads))
    }

    /// CPU time and switches of the threads that were there then and are there now.
    pub fn since(&self, before: &Self) -> (Duration, u64) {
        let mut sum = (Duration::ZERO, 0);
        for (name, now) in &self.0 {
            if let Some(then) = before.0.get(name) {
                sum.0 += now.cpu.saturating_sub(then.cpu);
                sum.1 += now.switches.saturating_sub(then.switches);
            }
        }
        sum
    }

    /// CPU time of all threads there are.
    pub fn cpu(&self) -> Duration {
        self.0.values().map(|thread| thread.cpu).sum()
    }
}

impl Thread {
    fn read(folder: &Path) -> Result<Self> {
        let schedstat = text(&folder.join("schedstat"))?;
        let nanos = schedstat.split(' ').next().context("an empty schedstat")?.parse()?;
        let status = Fields::read(&folder.join("status"))?;
        let switches =
            status.number("voluntary_ctxt_switches")? + status.number("nonvoluntary_ctxt_switches")?;
        Ok(Self { cpu: Duration::from_nanos(nanos), switches })
    }
}

/// What the process watches, by all its inotify descriptors.
fn watches(folder: &Path) -> Result<u64> {
    let mut watches = 0;
    for descriptor in fs::read_dir(folder.join("fdinfo"))? {
        // It may be closed while we look.
        let Ok(info) = fs::read_to_string(descriptor?.path()) else { continue };
        watches += info.lines().filter(|line| line.starts_with("inotify wd:")).count() as u64;
    }
    Ok(watches)
}

fn folder(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Lines of `name: number unit`.
struct Fields {
    path: PathBuf,
    text: String,
}

impl Fields {
    fn read(path: &Path) -> Result<Self> {
        Ok(Self { path: path.to_owned(), text: text(path)? })
    }

    fn number(&self, name: &str) -> Result<u64> {
        let value = |line: &str| {
            Some(line.strip_prefix(name)?.strip_prefix(':')?.split_whitespace().next()?.to_owned())
        };
        let value = self.text.lines().find_map(value);
        let value = value.with_context(|| format!("{} has no {name}", self.path.display()))?;
        value.parse().with_context(|| format!("{}: {name} is {value}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_a_file_and_memory_are_seen_where_they_are() {
        let me = std::process::id();
        let before = Usage::read(me).expect("our own");
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || stopped.recv());
        let file = fs::File::open("/dev/null").expect("a file");
        let memory = vec![1u8; 32 << 20];
        let after = Usage::read(me).expect("our own");
        // Other tests of this process may come and go meanwhile: only what is sure to be more is asked for.
        assert!(after.anonymous >= before.anonymous + (16 << 10), "{before:?} {after:?}");
        assert!(after.threads >= 2 && after.descriptors >= 4 && after.mappings > 10, "{after:?}");
        assert!(after.address_space >= after.resident && after.resident >= after.anonymous, "{after:?}");
        let inotify = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).expect("inotify");
        let flags = rustix::fs::inotify::WatchFlags::CREATE;
        rustix::fs::inotify::add_watch(&inotify, "/dev", flags).expect("a watch");
        assert!(Usage::read(me).expect("our own").watches >= 1);
        drop((stop, file, memory, inotify));
        assert!(thread.join().expect("ended").is_err());
    }

    #[test]
    fn only_threads_seen_twice_count() {
        let thread = |millis, switches| Thread { cpu: Duration::from_millis(millis), switches };
        let of = |all: &[(&str, Thread)]| {
            Activity(all.iter().map(|(name, one)| ((*name).to_owned(), *one)).collect())
        };
        let before = of(&[("1", thread(10, 1)), ("2", thread(20, 2))]);
        let after = of(&[("2", thread(25, 9)), ("3", thread(70, 70))]);
        assert_eq!(after.since(&before), (Duration::from_millis(5), 7));
        assert_eq!(after.cpu(), Duration::from_millis(95));
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(Usage::read(0).is_err() && Activity::read(0).is_err());
    }
}
