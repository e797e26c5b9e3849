//! Whose the folder and its files are: nothing is used that somebody else may have written, since it says which code runs.
//!
//! Used by the folder, and for the bytes of a content. Invariants: what is checked is the open descriptor that is read from,
//! so nobody can put something else there in between; no link is followed; the folder and the file belong to the user that
//! this process runs as, and nobody else may write to them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Those who must not be able to write.
const OTHERS_WRITE: u32 = 0o022;

/// Why something is not used. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum Untrusted {
    /// It is not there, or the system refuses.
    #[error("{}: cannot read it: {source}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A link, which somebody could point elsewhere.
    #[error("{} is a symbolic link, which is refused: remove it, or put what it points to in its place", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A pipe, a device, a folder.
    #[error("{} is no regular file: remove it", path.display())]
    NoFile {
        /// What is in the file's place.
        path: PathBuf,
    },
    /// Somebody else's.
    #[error("{} belongs to user {owner}, not to the user that Hark runs as: remove it, or chown it if what it has is yours", path.display())]
    Foreign {
        /// The file or folder.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
    },
    /// Others may have written there.
    #[error("others than its owner may write to {} (mode {mode:04o}): remove it, or chmod go-w it if what it has is yours", path.display())]
    Writable {
        /// The file or folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

impl Untrusted {
    /// There is nothing.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Why it cannot be read, from the system.
    pub(super) fn unreadable(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Unreadable { path: path.to_owned(), source }
    }
}

/// Opens a file of the folder, to read it.
///
/// # Errors
/// The folder, or the file in it, is not to be trusted.
pub(super) fn file(path: &Path) -> Result<File, Untrusted> {
    let unreadable = Untrusted::unreadable(path);
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Untrusted::NoFile { path: path.to_owned() });
    };
    let (folder, stat) = open_folder(parent)?;
    is_ours_alone(parent, &stat)?;
    // A pipe would otherwise be waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::openat(&folder, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::LOOP) => return Err(Untrusted::Link { path: path.to_owned() }),
        Err(errno) => return Err(unreadable(errno.into())),
    };
    let stat = stat_of(path, &file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Untrusted::NoFile { path: path.to_owned() });
    }
    is_ours_alone(path, &stat)?;
    Ok(File::from(file))
}

/// Closes the folder to others, if it is ours; what lies in it is for [`file()`] to judge.
///
/// # Errors
/// It is not there, or is not ours.
pub(super) fn close(path: &Path) -> Result<(), Untrusted> {
    let (folder, stat) = open_folder(path)?;
    match is_ours_alone(path, &stat) {
        Err(open @ Untrusted::Writable { mode, .. }) => {
            let closed = rustix::fs::fchmod(&folder, Mode::RWXU);
            closed.map_err(|_| open)?;
            tracing::warn!(
                "others than its owner could write to {} (mode {mode:04o}): it is closed to them now (0700)",
                path.display()
            );
            Ok(())
        }
        other => other,
    }
}

fn open_folder(path: &Path) -> Result<(OwnedFd, Stat), Untrusted> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(folder) => folder,
        // The system says only that it is no folder.
        Err(_) if path.is_symlink() => return Err(Untrusted::Link { path: path.to_owned() }),
        Err(errno) => return Err(Untrusted::unreadable(path)(errno.into())),
    };
    let stat = stat_of(path, &folder)?;
    Ok((folder, stat))
}

fn stat_of(path: &Path, descriptor: impl AsFd) -> Result<Stat, Untrusted> {
    rustix::fs::fstat(descriptor).map_err(|errno| Untrusted::unreadable(path)(errno.into()))
}

fn is_ours_alone(path: &Path, stat: &Stat) -> Result<(), Untrusted> {
    let path = || path.to_owned();
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Untrusted::Foreign { path: path(), owner: stat.st_uid });
    }
    if stat.st_mode & OTHERS_WRITE != 0 {
        return Err(Untrusted::Writable { path: path(), mode: stat.st_mode & 0o7777 });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
