//! Which directories are watched, and which of them went away since somebody asked.
//!
//! Shared by the [`DirectoryWatcher`](super::DirectoryWatcher) and notify's thread, which drops the watch of what was moved
//! or removed, and of what lay in it, although that may be back by now. Invariant: no lock is held while notify is waited
//! for, since notify's thread may be waiting for it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::directories::{Directories, Identity};

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Table(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    watched: BTreeMap<PathBuf, Watched>,
    /// Each was watched, so there are no more of them than were watched at a time.
    gone: Vec<PathBuf>,
}

/// One directory.
#[derive(Debug)]
struct Watched {
    identity: Identity,
    /// The file system's name, if it does not tell of all changes.
    silent: Option<&'static str>,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Directories that are watched.
    pub(super) fn count(&self) -> usize {
        self.lock().watched.len()
    }

    /// Whether the directory that is there now is watched under this name.
    pub(super) fn has(&self, directory: &Path) -> bool {
        let watched = self.lock().watched.get(directory).map(|watched| watched.identity);
        watched.is_some() && Identity::of(directory) == watched
    }

    /// The name of a file system among them that does not tell of all changes.
    pub(super) fn silent(&self) -> Option<&'static str> {
        self.lock().watched.values().find_map(|watched| watched.silent)
    }

    /// Puts a directory in that is about to be watched, so that no word of its end is too early. Says whether it was not
    /// there yet.
    pub(super) fn add(&self, directory: &Path, identity: Identity) -> bool {
        let mut table = self.lock();
        if table.watched.contains_key(directory) {
            return false;
        }
        table.watched.insert(directory.to_owned(), Watched { identity, silent: None });
        true
    }

    /// What a directory that is watched now is on.
    pub(super) fn is_on(&self, directory: &Path, silent: Option<&'static str>) {
        if let Some(watched) = self.lock().watched.get_mut(directory) {
            watched.silent = silent;
        }
    }

    /// It could not be watched.
    pub(super) fn remove(&self, directory: &Path) {
        self.lock().watched.remove(directory);
    }

    /// Takes out what is not wanted, or is another one by now.
    pub(super) fn retain(&self, wanted: &Directories) -> Vec<PathBuf> {
        let mut table = self.lock();
        let leaves = table.watched.extract_if(.., |path, watched| !wanted.has(path, watched.identity));
        leaves.map(|(path, _)| path).collect()
    }

    /// Something was moved or removed, and with it what lay in it.
    pub(super) fn is_gone(&self, path: &Path) {
        let mut table = self.lock();
        let below = table
            .watched
            .range::<Path, _>((Bound::Included(path), Bound::Unbounded))
            .take_while(|(one, _)| one.starts_with(path));
        let gone: Vec<PathBuf> = below.map(|(one, _)| one.clone()).collect();
        for one in gone {
            table.watched.remove(&one);
            table.gone.push(one);
        }
    }

    /// Any may have gone.
    pub(super) fn all_gone(&self) {
        let mut table = self.lock();
        let all = std::mem::take(&mut table.watched);
        table.gone.extend(all.into_keys());
    }

    /// What has gone since this was asked last.
    pub(super) fn take_gone(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.lock().gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(table: &Table) -> Vec<String> {
        table.lock().watched.keys().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn with_what_goes_all_goes_that_lies_in_it() {
        let identity = Identity::of(Path::new("/")).expect("there");
        let table = Table::default();
        for path in ["/a", "/a/b", "/a/b/c", "/a-b", "/b"] {
            assert!(table.add(Path::new(path), identity));
            assert!(!table.add(Path::new(path), identity), "it is there");
        }
        table.is_gone(Path::new("/a"));
        assert_eq!(watched(&table), ["/a-b", "/b"]);
        assert_eq!(table.take_gone(), ["/a", "/a/b", "/a/b/c"].map(PathBuf::from));
        table.is_gone(Path::new("/b/file"));
        assert!(table.take_gone().is_empty(), "it was not watched");
        table.is_on(Path::new("/b"), Some("nfs"));
        assert_eq!(table.silent(), Some("nfs"));
        table.all_gone();
        assert_eq!((table.count(), table.silent(), table.take_gone().len()), (0, None, 2));
    }
}
