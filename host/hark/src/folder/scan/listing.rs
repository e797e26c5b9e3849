//! One folder's entries, sorted into what they may be.
//!
//! Used by the scan, for the plugins folder and each of its sub-folders. Invariant: an entry that is there but cannot be
//! looked at is what it was when it last could be.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, FileType, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::io::Errno;

use super::{MOUNT_IS_GONE, Scan, stem};
use crate::folder::hops::{Hops, hops};
use crate::folder::mount::{self, Mount};
use crate::folder::stamp::Stamp;

/// A file that may be a plugin.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) stem: String,
    pub(super) path: PathBuf,
    /// The same without links.
    pub(super) real: PathBuf,
    pub(super) stamp: Stamp,
    /// When it changed, or a link on the way to it if that was later.
    pub(super) changed: Option<SystemTime>,
    /// Its entry in the folder is a link.
    pub(super) is_link: bool,
    /// The mount that it is on, if it is reached by a link.
    pub(super) mount: Option<Mount>,
}

/// See the file's head.
#[derive(Debug, Clone, Default)]
pub(super) struct Listing {
    /// The mount that the folder is on.
    pub(super) mount: Option<Mount>,
    /// In the order of their paths.
    pub(super) found: Vec<Found>,
    pub(super) refused: Vec<(PathBuf, String)>,
    pub(super) unreadable: Vec<(PathBuf, String)>,
    /// Of the links.
    pub(super) ways: Vec<Hops>,
    /// Folders in it, with their paths without links.
    pub(super) folders: Vec<(PathBuf, PathBuf)>,
}

/// What a name promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Plugin,
    /// But for its case.
    Nearly,
    Else,
}

/// A folder that is being read.
struct Folder<'a> {
    path: &'a Path,
    /// The same without links.
    real: &'a Path,
    /// Take `.wat` files too.
    text: bool,
    /// What was in it when it last could be read.
    before: Option<&'a Listing>,
}

/// What the system says of an entry; of a link, what it says of where that leads.
struct Followed {
    /// Of a link.
    way: Option<Hops>,
    metadata: io::Result<Metadata>,
}

impl Listing {
    /// Reads a folder. `before` is the last look that could be had.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn read(folder: &Path, real: &Path, text: bool, before: Option<&Scan>) -> io::Result<Self> {
        let before = before.and_then(|before| before.listings.get(folder));
        let mut listing = Self { mount: Mount::of(folder), ..Self::default() };
        let folder = Folder { path: folder, real, text, before };
        for entry in fs::read_dir(folder.path)? {
            let entry = entry?;
            let name = entry.file_name();
            if !name.as_encoded_bytes().starts_with(b".") {
                listing.sort(&entry, &name, &folder)?;
            }
        }
        listing.found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    /// The newest link on the way to the folder itself changed then.
    pub(super) fn is_reached_over(&mut self, changed: Option<SystemTime>) {
        for found in &mut self.found {
            found.changed = found.changed.max(changed);
        }
    }

    fn sort(&mut self, entry: &DirEntry, name: &OsStr, folder: &Folder<'_>) -> io::Result<()> {
        let (named, kind) = (promise(name, folder.text), entry.file_type()?);
        if named == Named::Else && !kind.is_dir() && !kind.is_symlink() {
            return Ok(());
        }
        let path = folder.path.join(name);
        match named {
            Named::Nearly => {
                let reason = "a plugin's file name ends in .wasm, in lower case: rename it";
                self.refused.push((path, reason.to_owned()));
            }
            Named::Else => self.may_be_folder(path, folder.real.join(name), kind, folder.before),
            Named::Plugin if kind.is_symlink() => {
                let way = hops(folder.real, Path::new(name));
                let metadata = fs::metadata(&path);
                self.may_be_plugin(path, name, folder, Followed { way: Some(way), metadata });
            }
            Named::Plugin => {
                self.may_be_plugin(path, name, folder, Followed { way: None, metadata: entry.metadata() });
            }
        }
        Ok(())
    }

    fn may_be_plugin(&mut self, path: PathBuf, name: &OsStr, folder: &Folder<'_>, followed: Followed) {
        let Followed { way, metadata } = followed;
        let is_link = way.is_some();
        let (end, link) = way.as_ref().map_or((None, None), |way| (way.end.clone(), way.changed));
        self.ways.extend(way);
        match (metadata, stem(&path)) {
            (Ok(metadata), Ok(stem)) if metadata.is_file() => {
                let real = end.unwrap_or_else(|| folder.real.join(name));
                let mount = if is_link { real.parent().and_then(Mount::of) } else { None };
                let stamp = Stamp::of(&metadata);
                let changed = stamp.changed().max(link);
                self.found.push(Found { stem, stamp, changed, path, real, is_link, mount });
            }
            (Ok(metadata), Err(reason)) if metadata.is_file() => self.refused.push((path, reason)),
            (Ok(_), _) => self.refused.push((path, "it is not a regular file".to_owned())),
            (Err(error), _) => {
                // Only looked for when it is needed: a folder may have thousands.
                let before =
                    folder.before.and_then(|before| before.found.iter().find(|one| one.path == path));
                self.cannot_be_followed(path, is_link, &error, before);
            }
        }
    }

    fn cannot_be_followed(
        &mut self,
        path: PathBuf,
        is_link: bool,
        error: &io::Error,
        before: Option<&Found>,
    ) {
        let its_mount_is_gone = |found: &Found| {
            found.real.parent().is_some_and(|directory| mount::is_missing(found.mount, directory))
        };
        if !leads_nowhere(error) {
            self.unreadable.push((path, error.to_string()));
            self.found.extend(before.cloned());
        } else if before.is_some_and(its_mount_is_gone) {
            self.unreadable.push((path, MOUNT_IS_GONE.to_owned()));
            self.found.extend(before.cloned());
        } else if is_link {
            self.refused.push((path, format!("the link cannot be followed: {error}")));
        }
        // A plain file that went away since is simply not there.
    }

    fn may_be_folder(&mut self, path: PathBuf, real: PathBuf, kind: FileType, before: Option<&Self>) {
        if !kind.is_symlink() {
            return self.folders.push((path, real));
        }
        let (Some(at), Some(name)) = (real.parent(), real.file_name()) else { return };
        let way = hops(at, Path::new(name));
        match (fs::metadata(&path), way.end.clone()) {
            (Ok(metadata), Some(end)) if metadata.is_dir() => self.folders.push((path, end)),
            // One that was a folder is looked into, so that what is wrong with it shows.
            (Err(_), _) => {
                let was = before.and_then(|before| before.folders.iter().find(|(one, _)| *one == path));
                self.folders.extend(was.cloned());
            }
            _ => {}
        }
        self.ways.push(way);
    }
}

/// Whether a file is not there, rather than out of reach.
fn leads_nowhere(error: &io::Error) -> bool {
    let number = Errno::from_io_error(error);
    matches!(number, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

fn promise(name: &OsStr, text: bool) -> Named {
    let extension = Path::new(name).extension().unwrap_or_default();
    if extension == "wasm" || (text && extension == "wat") {
        Named::Plugin
    } else if extension.eq_ignore_ascii_case("wasm") {
        Named::Nearly
    } else {
        Named::Else
    }
}
