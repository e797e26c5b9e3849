//! What the sources hold: a stamp and a hash of each, so that only new content is a change.
//!
//! Used by [`super::look`]. Invariants: touching a file, or writing the same into it again, changes nothing; what cannot
//! be read says nothing; a file is gone only if the system says so, not if it is merely no source any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use xxhash_rust::xxh3::Xxh3;

use crate::folder::Stamp;

/// Bytes of the largest file that is read; beyond, size and time of change stand for the content. Sources are smaller.
const LARGEST: u64 = 16 << 20;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    files: BTreeMap<PathBuf, Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    stamp: Stamp,
    content: Content,
    /// The stamp may hold for other content too: to be read again.
    racy: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Hash(u128),
    /// Too large to be read each time.
    Large {
        size: u64,
        modified: (i64, i64),
    },
    /// Never read yet, since that is not allowed.
    Unknown,
}

/// What differs between two snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) added: BTreeSet<PathBuf>,
    pub(super) modified: BTreeSet<PathBuf>,
    pub(super) removed: BTreeSet<PathBuf>,
}

impl Snapshot {
    /// The files as they are now. What has its stamp of `before` is not read again.
    pub(super) fn take(files: &BTreeSet<PathBuf>, before: &Self) -> Self {
        let mut now = Self::default();
        for path in files {
            let old = before.files.get(path);
            if let Some(entry) = read(path, old) {
                now.files.insert(path.clone(), entry);
            }
        }
        for (path, old) in &before.files {
            if !files.contains(path) && !is_gone(path) {
                now.files.insert(path.clone(), *old);
            }
        }
        now
    }

    /// What this one has otherwise than `before`.
    pub(super) fn changes(&self, before: &Self) -> Changes {
        let mut changes = Changes::default();
        for (path, entry) in &self.files {
            match before.files.get(path) {
                None => drop(changes.added.insert(path.clone())),
                Some(old) if old.content != entry.content => drop(changes.modified.insert(path.clone())),
                Some(_) => {}
            }
        }
        let gone = before.files.keys().filter(|path| !self.files.contains_key(*path));
        changes.removed = gone.cloned().collect();
        changes
    }
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// All that is in it, whatever happened to it.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.modified.iter().chain(&self.added).chain(&self.removed)
    }

    /// Adds what has happened since.
    pub(super) fn extend(&mut self, later: Self) {
        self.added.extend(later.added);
        self.modified.extend(later.modified);
        self.removed.extend(later.removed);
    }
}

/// The file's entry; none if it is gone. What must not be read stays what it was.
fn read(path: &Path, old: Option<&Entry>) -> Option<Entry> {
    let now = SystemTime::now();
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(_) if is_gone(path) => return None,
        Err(_) => return old.copied(),
    };
    let stamp = Stamp::of(&metadata);
    if let Some(old) = old
        && old.stamp == stamp
        && !old.racy
    {
        return Some(*old);
    }
    let content = if stamp.size() > LARGEST {
        Content::Large { size: stamp.size(), modified: stamp.modified() }
    } else {
        match hash(path) {
            Ok(hash) => Content::Hash(hash),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(_) => old.map_or(Content::Unknown, |old| old.content),
        }
    };
    // Just before `now`, or by a clock that is ahead of ours.
    let racy = stamp.changed().is_some_and(|at| at + stamp.resolution() > now);
    Some(Entry { stamp, content, racy })
}

fn is_gone(path: &Path) -> bool {
    let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    std::fs::symlink_metadata(path).is_err_and(|error| kinds.contains(&error.kind()))
}

fn hash(path: &Path) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; 64 << 10];
    // A file that grows while it is read has another stamp afterwards.
    let mut rest = LARGEST + 1;
    while rest > 0 {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                hasher.update(&buffer[..count]);
                rest = rest.saturating_sub(count as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hasher.digest128())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(folder: &Path, names: &[&str], before: &Snapshot) -> Snapshot {
        Snapshot::take(&names.iter().map(|name| folder.join(name)).collect(), before)
    }

    fn names(paths: &BTreeSet<PathBuf>) -> Vec<&str> {
        paths.iter().filter_map(|path| path.file_name()?.to_str()).collect()
    }

    #[test]
    fn only_new_content_is_a_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        for name in ["a", "b", "c", "d"] {
            std::fs::write(at.join(name), name).expect("written");
        }
        let before = take(at, &["a", "b", "c", "d"], &Snapshot::default());
        assert!(take(at, &["a", "b", "c", "d"], &before).changes(&before).is_empty());
        // Written again, replaced by a file with the same content, changed, gone, new.
        std::fs::write(at.join("a"), "a").expect("written");
        std::fs::write(at.join("new"), "b").expect("written");
        std::fs::rename(at.join("new"), at.join("b")).expect("renamed");
        std::fs::write(at.join("c"), "C").expect("written");
        std::fs::remove_file(at.join("d")).expect("removed");
        std::fs::write(at.join("e"), "e").expect("written");
        let after = take(at, &["a", "b", "c", "e"], &before);
        let changes = after.changes(&before);
        assert_eq!(
            (names(&changes.added), names(&changes.modified), names(&changes.removed)),
            (vec!["e"], vec!["c"], vec!["d"])
        );
        assert!(take(at, &["a", "b", "c", "e"], &after).changes(&after).is_empty());
    }

    #[test]
    fn the_same_size_and_time_with_other_content_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, "one").expect("written");
        let before = take(folder.path(), &["a"], &Snapshot::default());
        let time = std::fs::metadata(&path).and_then(|metadata| metadata.modified()).expect("a time");
        std::fs::write(&path, "two").expect("written");
        File::options().write(true).open(&path).and_then(|file| file.set_modified(time)).expect("set");
        assert_eq!(names(&take(folder.path(), &["a"], &before).changes(&before).modified), ["a"]);
    }

    #[test]
    fn what_is_no_source_any_more_is_not_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a"), "a").expect("written");
        let before = take(folder.path(), &["a"], &Snapshot::default());
        let ignored = take(folder.path(), &[], &before);
        assert!(ignored.changes(&before).is_empty());
        std::fs::remove_file(folder.path().join("a")).expect("removed");
        assert_eq!(names(&take(folder.path(), &[], &ignored).changes(&ignored).removed), ["a"]);
    }

    #[test]
    fn a_large_file_changes_with_its_size_or_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        File::create(&path).and_then(|file| file.set_len(LARGEST + 1)).expect("made");
        let before = take(folder.path(), &["a"], &Snapshot::default());
        assert!(take(folder.path(), &["a"], &before).changes(&before).is_empty());
        File::options().write(true).open(&path).and_then(|file| file.set_len(LARGEST + 2)).expect("grown");
        assert_eq!(names(&take(folder.path(), &["a"], &before).changes(&before).modified), ["a"]);
    }
}
