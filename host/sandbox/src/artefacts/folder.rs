//! The cache's folder: whose it is, which files in it are ours, and how they come and go.
//!
//! Used by the cache alone. Everything goes by the folder's descriptor and by names in it, so that nothing is looked up
//! twice by a path that somebody could change in between. Invariants: the folder and each entry that is opened belong to
//! the user that this process runs as, and nobody else may write to them; an entry appears whole, by renaming; names that
//! are not ours are never touched, since somebody may have named a folder that has other things in it.
//!
//! A folder that was removed, moved or replaced is no longer in its place: whoever writes opens the one that is there now,
//! or makes it, as a [`Folder`] of its own, with the same checks.
//!
//! A host that writes an entry holds a lock on its temporary file. The system drops the lock with the process, so a
//! temporary file without one is a leftover.

use std::ffi::CStr;
use std::fmt;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::key::FUNCTIONS;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, StatVfsMountFlags};
use rustix::io::Errno;

/// How temporary files begin.
const TEMPORARY: &str = ".new-";
/// Those who must not be able to write.
const OTHERS_WRITE: u32 = 0o022;
/// Attempts at a name that nobody has.
const NAMES_TRIED: u32 = 16;

/// Why there is no cache. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The folder cannot be made or opened.
    #[error("cannot use {}: {source}; name a folder that Hark can write to with host.cache_dir (or \"off\")", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A link, which somebody could point elsewhere.
    #[error("{} is a symbolic link, which is refused: name the folder that it points to with host.cache_dir (or \"off\")", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// Somebody else's: they could put machine code there.
    #[error("{} belongs to user {owner}, not to the user that Hark runs as: name another folder, or one in it that Hark can make, with host.cache_dir (or \"off\")", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
    },
    /// Others may write there.
    #[error("others than its owner may write to {} (mode {mode:04o}): chmod 700 it, or name a folder in it that Hark can make with host.cache_dir (or \"off\")", path.display())]
    Writable {
        /// The folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Machine code cannot be mapped from there.
    #[error("{} is on a file system that is mounted noexec: name a folder elsewhere with host.cache_dir (or \"off\")", path.display())]
    NoExec {
        /// The folder.
        path: PathBuf,
    },
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    descriptor: OwnedFd,
    /// Temporary files made so far.
    made: AtomicU64,
}

/// What is under a name.
#[derive(Debug)]
pub(super) enum Opened {
    Absent,
    Ours(File),
    /// Not to be used, and why.
    Foreign(&'static str),
    /// Ours, but its own permissions do not let us read it.
    Closed(io::Error),
}

/// An entry, as a look through the folder shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// When it was last used: seconds since 1970, and nanoseconds.
    pub(super) used: (i64, u64),
}

/// An entry that is being written. Dropped, it is removed.
#[derive(Debug)]
pub(super) struct Temporary<'a> {
    folder: &'a Folder,
    name: String,
    file: File,
    kept: bool,
}

// === impl Folder ===

impl Folder {
    /// Opens the folder, or makes it and the ones above it.
    pub(super) fn open(path: &Path) -> Result<Self, CacheError> {
        let unusable = |source: io::Error| CacheError::Unusable { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(descriptor) => descriptor,
            // The system says only that it is no folder.
            Err(_) if path.is_symlink() => return Err(CacheError::Link { path: path.to_owned() }),
            Err(errno) => return Err(unusable(errno.into())),
        };
        let stat = rustix::fs::fstat(&descriptor).map_err(|errno| unusable(errno.into()))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(CacheError::Foreign { path: path.to_owned(), owner: stat.st_uid });
        }
        if stat.st_mode & OTHERS_WRITE != 0 {
            return Err(CacheError::Writable { path: path.to_owned(), mode: stat.st_mode & 0o7777 });
        }
        let mount = rustix::fs::fstatvfs(&descriptor).map_err(|errno| unusable(errno.into()))?;
        if mount.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            return Err(CacheError::NoExec { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), descriptor, made: AtomicU64::new(0) })
    }

    /// Whether the path leads to this folder still. If that cannot be told, it does: the descriptor serves.
    pub(super) fn is_in_place(&self) -> bool {
        let there = rustix::fs::statat(rustix::fs::CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW);
        match (there, rustix::fs::fstat(&self.descriptor)) {
            (Ok(there), Ok(held)) => (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino),
            (Err(Errno::NOENT | Errno::NOTDIR), _) => false,
            _ => true,
        }
    }

    /// The folder that is in its place now, made if there is none.
    pub(super) fn reopen(&self) -> Result<Self, CacheError> {
        Self::open(&self.path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens an entry, if it is one that may be trusted.
    pub(super) fn entry(&self, name: &str) -> io::Result<Opened> {
        // A pipe would otherwise be waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&self.descriptor, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(Opened::Absent),
            Err(Errno::LOOP) => return Ok(Opened::Foreign("it is a symbolic link")),
            // The folder's permissions, if it cannot be looked at either.
            Err(errno @ (Errno::ACCESS | Errno::PERM)) => {
                return match rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => {
                        Ok(foreign(&stat).map_or_else(|| Opened::Closed(errno.into()), Opened::Foreign))
                    }
                    Err(Errno::NOENT) => Ok(Opened::Absent),
                    Err(errno) => Err(errno.into()),
                };
            }
            Err(errno) => return Err(errno.into()),
        };
        Ok(match foreign(&rustix::fs::fstat(&file)?) {
            Some(reason) => Opened::Foreign(reason),
            None => Opened::Ours(file),
        })
    }

    /// Removes a file. One that is gone already was removed by another host.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// A new file to write an entry to.
    pub(super) fn temporary(&self) -> io::Result<Temporary<'_>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut last = Errno::EXIST;
        for _ in 0..NAMES_TRIED {
            let name = temporary_name(self.made.fetch_add(1, Ordering::Relaxed));
            match rustix::fs::openat(&self.descriptor, &*name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => {
                    let file = File::from(file);
                    file.try_lock()?;
                    return Ok(Temporary { folder: self, name, file, kept: false });
                }
                Err(Errno::EXIST) => last = Errno::EXIST,
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(last.into())
    }

    /// The entries that are there; leftovers of hosts that were killed are removed.
    pub(super) fn clean_and_list(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for found in Dir::read_from(&self.descriptor)? {
            let found = found?;
            let Some(name) = plain(found.file_name()) else { continue };
            if name.starts_with(TEMPORARY) {
                self.remove_leftover(name);
            } else if is_entry_name(name) {
                entries.extend(self.look_at(name)?);
            }
        }
        Ok(entries)
    }

    /// Size and time of an entry; none if another host has just removed it, or it is no file.
    fn look_at(&self, name: &str) -> io::Result<Option<Entry>> {
        let stat = match rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Ok(is_file.then(|| Entry {
            name: name.to_owned(),
            bytes: u64::try_from(stat.st_size).unwrap_or_default(),
            used: (stat.st_mtime, stat.st_mtime_nsec),
        }))
    }

    /// Removes a temporary file whose writer is gone. One that cannot be removed is in nobody's way.
    fn remove_leftover(&self, name: &str) {
        let Ok(Opened::Ours(file)) = self.entry(name) else { return };
        if file.try_lock().is_ok()
            && let Err(error) = self.remove(name)
        {
            tracing::debug!("cannot remove leftover {name} from {self}: {error}");
        }
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

// === impl Temporary ===

impl Temporary<'_> {
    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts it under its name, in place of what was there.
    pub(super) fn become_entry(mut self, name: &str) -> io::Result<()> {
        let folder = &self.folder.descriptor;
        rustix::fs::renameat(folder, &*self.name, folder, name)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = self.folder.remove(&self.name)
        {
            tracing::debug!("cannot remove {} from {}: {error}", self.name, self.folder);
        }
    }
}

/// Why a file may not be trusted, if so.
fn foreign(stat: &Stat) -> Option<&'static str> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        Some("it is no regular file")
    } else if stat.st_uid != rustix::process::geteuid().as_raw() {
        Some("it belongs to another user")
    } else if stat.st_mode & OTHERS_WRITE != 0 {
        Some("others than its owner may write to it")
    } else {
        None
    }
}

/// Differs between hosts, and between calls in one; hosts in different containers may have the same number and moment,
/// then the second one to come takes another name.
fn temporary_name(number: u64) -> String {
    let nanos =
        std::time::SystemTime::UNIX_EPOCH.elapsed().map(|since| since.subsec_nanos()).unwrap_or_default();
    format!("{TEMPORARY}{}-{number}-{nanos}", std::process::id())
}

fn plain(name: &CStr) -> Option<&str> {
    name.to_str().ok()
}

/// Whether a file may be an entry of any version of Hark: `CONTENT-MODE-MAKER`, or `LINEAGE-functions-MAKER`.
fn is_entry_name(name: &str) -> bool {
    let hex = |text: &str, length: usize| {
        text.len() == length
            && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let mut parts = name.split('-');
    let (content, mode, maker) = (parts.next(), parts.next(), parts.next());
    content.is_some_and(|text| hex(text, 64))
        && mode.is_some_and(|text| matches!(text, "fast" | "optimized" | FUNCTIONS))
        && maker.is_some_and(|text| hex(text, 16))
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_entries() {
        let hash = "ab".repeat(32);
        assert!(is_entry_name(&format!("{hash}-fast-0123456789abcdef")));
        assert!(is_entry_name(&format!("{hash}-optimized-0123456789abcdef")));
        assert!(is_entry_name(&format!("{hash}-functions-0123456789abcdef")));
        for name in [
            "notes.txt".to_owned(),
            hash.clone(),
            format!("{hash}-slow-0123456789abcdef"),
            format!("{hash}-fast-0123456789abcdeg"),
            format!("{hash}-fast-0123456789abcdef-2"),
            format!("{}-fast-0123456789abcdef", &hash[1..]),
        ] {
            assert!(!is_entry_name(&name), "{name}");
        }
    }

    #[test]
    fn temporary_names_differ_and_are_no_entries() {
        let names = [temporary_name(0), temporary_name(1)];
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| name.starts_with(TEMPORARY) && !is_entry_name(name)));
    }
}
