//! Why the cache is of no use at the moment, and what to do, in the words that are said.
//!
//! Used by the cache alone. Invariant: a fault is said once until something is kept again, which is said once too; each
//! has the cure for its own error.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

use super::folder::{CacheError, Folder};

/// See the file's head.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// Nothing can be written, or the folder is gone and cannot be made again.
    #[error("cannot write to the artefact cache in {}, so what is compiled is not remembered: {source}; {}", folder.display(), cure(source))]
    Write { folder: PathBuf, source: io::Error },
    /// What is there instead of the folder is refused, as it would be at the start.
    #[error("what is compiled is not remembered any more: {0}")]
    Refused(CacheError),
    /// An entry cannot be opened, which is not its own fault.
    #[error("cannot open artefact {name} in {}, so its content is compiled anew: {source}; {}", folder.display(), cure(source))]
    Open { name: String, folder: PathBuf, source: io::Error },
}

impl From<CacheError> for Fault {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::Unusable { path: folder, source } => Self::Write { folder, source },
            refused => Self::Refused(refused),
        }
    }
}

fn cure(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room there, or set host.cache_dir",
        _ if matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE)) => {
            "let Hark have more files open (ulimit -n)"
        }
        _ => "make it a folder that this user can write to, or set host.cache_dir",
    }
}

/// Whether something is wrong, which was said.
#[derive(Debug, Default)]
pub(super) struct Said(AtomicBool);

impl Said {
    /// Says a fault, unless one was said already.
    pub(super) fn fault(&self, fault: &Fault) {
        match self.0.swap(true, Ordering::Relaxed) {
            false => tracing::warn!("{fault}"),
            true => tracing::debug!("{fault}"),
        }
    }

    /// Says that something was kept, if that was not so before.
    pub(super) fn kept(&self, folder: &Folder) {
        if self.0.swap(false, Ordering::Relaxed) {
            tracing::info!("what is compiled is remembered again, in {folder}");
        }
    }

    /// Whether a fault was said, and nothing was kept since.
    pub(super) fn is_said(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cure_is_for_the_error() {
        let room = "make room there, or set host.cache_dir";
        let folder = "make it a folder that this user can write to, or set host.cache_dir";
        let files = "let Hark have more files open (ulimit -n)";
        for (errno, want) in [
            (Errno::NOSPC, room),
            (Errno::DQUOT, room),
            (Errno::ACCESS, folder),
            (Errno::NOENT, folder),
            (Errno::NOTDIR, folder),
            (Errno::EXIST, folder),
            (Errno::ROFS, folder),
            (Errno::MFILE, files),
            (Errno::NFILE, files),
        ] {
            let fault = Fault::Write { folder: "/cache".into(), source: errno.into() };
            let head =
                "cannot write to the artefact cache in /cache, so what is compiled is not remembered: ";
            let source = io::Error::from(errno);
            assert_eq!(fault.to_string(), format!("{head}{source}; {want}"));
        }
    }
}
