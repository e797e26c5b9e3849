//! Core dumps: what remained of instances whose code broke off, as files that only their owner can read.
//!
//! Off unless `host.core_dumps` names a folder. The sandbox hands a dump over on the plugin's thread; putting it into
//! the format and onto the disk is the work of one thread of its own, `core-dumps`, which owns the [`folder`].
//! Invariants: a plugin's thread never waits in here; at most [`WAITING`] dumps wait, and a plugin is at most one of
//! them in [`QUIET`], so that one which traps all the time costs neither memory nor disk.

mod folder;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hark_sandbox::{ContentHash, CoreDump, CoreDumps};
use tokio::sync::{mpsc, oneshot};

use self::folder::Folder;

/// Dumps that wait to be written. Each keeps its instance's memory.
const WAITING: usize = 2;

/// Time between two dumps of one plugin.
const QUIET: Duration = Duration::from_secs(10);

/// Bytes of memory of the largest instance that a dump is made of: it takes as much again to put it into the format.
const LARGEST: usize = 256 << 20;

/// How long the end of the host waits for a slow disk.
const CLOSING: Duration = Duration::from_secs(5);

/// Why there are no core dumps although there should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoreDumpError {
    /// The folder cannot be made, or is none.
    #[error("cannot use {}: {source}; name a folder that Hark can write to with host.core_dumps", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system gives no thread.
    #[error("cannot start the thread that writes core dumps: {0}")]
    Thread(io::Error),
}

/// See the file's head. Shared by all plugins.
#[derive(Debug)]
pub(crate) struct DumpWriter {
    jobs: mpsc::Sender<Job>,
    folder: Arc<Folder>,
    /// When each plugin's last dump was taken.
    last: Mutex<HashMap<String, Instant>>,
}

enum Job {
    Write {
        path: PathBuf,
        program: String,
        dump: Box<CoreDump>,
    },
    /// What came before is written.
    Settle(oneshot::Sender<()>),
}

/// One version's way to the writer.
struct VersionDumps {
    writer: Arc<DumpWriter>,
    plugin: String,
    hash: ContentHash,
}

// === impl DumpWriter ===

impl DumpWriter {
    /// Makes the folder if need be, and starts the thread, which ends with the last user of the writer.
    ///
    /// # Errors
    /// [`CoreDumpError`].
    pub(crate) fn open(path: &Path) -> Result<Arc<Self>, CoreDumpError> {
        let folder = Folder::open(path)
            .map(Arc::new)
            .map_err(|source| CoreDumpError::Folder { path: path.to_owned(), source })?;
        let (jobs, inbox) = mpsc::channel(WAITING);
        let writes = Arc::clone(&folder);
        let work = move || serve(&writes, inbox);
        std::thread::Builder::new()
            .name("core-dumps".to_owned())
            .spawn(work)
            .map_err(CoreDumpError::Thread)?;
        Ok(Arc::new(Self { jobs, folder, last: Mutex::default() }))
    }

    /// Where the dumps of one version of a plugin go.
    pub(crate) fn version(self: &Arc<Self>, plugin: &str, hash: ContentHash) -> Arc<dyn CoreDumps> {
        Arc::new(VersionDumps { writer: Arc::clone(self), plugin: plugin.to_owned(), hash })
    }

    /// Waits until what was taken is written, within [`CLOSING`].
    pub(crate) async fn settle(&self) {
        let (done, settled) = oneshot::channel();
        let settling = async {
            // A thread that has ended has written what it was sent.
            let _ = self.jobs.send(Job::Settle(done)).await;
            let _ = settled.await;
        };
        if tokio::time::timeout(CLOSING, settling).await.is_err() {
            tracing::warn!("the disk is too slow: core dumps may be cut off");
        }
    }

    /// Whether it is this plugin's turn; notes that it had it.
    fn is_due(&self, plugin: &str, now: Instant) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.get(plugin).is_some_and(|last| now.duration_since(*last) < QUIET) {
            return false;
        }
        last.insert(plugin.to_owned(), now);
        true
    }
}

impl CoreDumps for VersionDumps {
    fn take(&self, dump: CoreDump) -> Result<Option<PathBuf>, String> {
        if dump.memory() > LARGEST {
            return Err(format!("its memory has more than {} MiB", LARGEST >> 20));
        }
        // The place in the queue first: a plugin that finds it full has not had its turn.
        let Ok(place) = self.writer.jobs.try_reserve() else {
            return Err("others are being written".to_owned());
        };
        if !self.writer.is_due(&self.plugin, Instant::now()) {
            return Ok(None);
        }
        let name = folder::name(&self.plugin, &self.hash, jiff::Timestamp::now());
        let path = self.writer.folder.path_of(&name);
        place.send(Job::Write { path: path.clone(), program: self.plugin.clone(), dump: Box::new(dump) });
        Ok(Some(path))
    }
}

/// The thread's work, until nobody can send any.
fn serve(folder: &Folder, mut inbox: mpsc::Receiver<Job>) {
    while let Some(job) = inbox.blocking_recv() {
        match job {
            Job::Write { path, program, dump } => {
                let content = dump.serialize(&program);
                if let Err(error) = folder.keep(&path, &content) {
                    tracing::warn!("cannot write the core dump {}: {error}", path.display());
                }
            }
            // Nobody may wait any more.
            Job::Settle(done) => drop(done.send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_plugin_has_its_turn_every_ten_seconds() {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = DumpWriter::open(&folder.path().join("dumps")).expect("a writer");
        let start = Instant::now();
        assert!(writer.is_due("a", start) && writer.is_due("b", start));
        assert!(!writer.is_due("a", start + QUIET / 2));
        assert!(writer.is_due("a", start + QUIET));
        writer.settle().await;
    }

    #[test]
    fn what_is_no_folder_is_said_with_the_setting() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = DumpWriter::open(file.path()).expect_err("a file").to_string();
        let want = format!("cannot use {}: File exists", file.path().display());
        assert!(error.starts_with(&want) && error.ends_with(" with host.core_dumps"), "{error}");
    }
}
