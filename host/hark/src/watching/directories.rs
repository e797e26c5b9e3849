//! Directories that are there, each once, whatever it is called.
//!
//! Made by those who look, for what they want watched. Invariant: a directory has one name here, the first of those that
//! it was added with.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Device and inode.
type Place = (u64, u64);

/// What tells a directory from another one of the same name: a new one may have the inode of one that was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    place: Place,
    /// Where the file system knows.
    created: Option<SystemTime>,
}

impl Identity {
    /// Of what is there now; none if that is no directory.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_dir)?;
        Some(Self { place: (metadata.dev(), metadata.ino()), created: metadata.created().ok() })
    }
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    by_name: BTreeMap<PathBuf, Identity>,
    names: BTreeMap<Place, PathBuf>,
}

impl Directories {
    /// Adds the directory at `path`: gives the name that it has here, or none if there is no directory.
    pub(crate) fn add(&mut self, path: &Path) -> Option<&Path> {
        let identity = Identity::of(path)?;
        let name = self.names.entry(identity.place).or_insert_with(|| {
            self.by_name.insert(path.to_owned(), identity);
            path.to_owned()
        });
        Some(name)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, Identity)> {
        self.by_name.iter().map(|(name, identity)| (name.as_path(), *identity))
    }

    /// Whether it is among them, under this name.
    pub(super) fn has(&self, name: &Path, identity: Identity) -> bool {
        self.by_name.get(name) == Some(&identity)
    }
}

impl<'a> FromIterator<&'a PathBuf> for Directories {
    fn from_iter<T: IntoIterator<Item = &'a PathBuf>>(paths: T) -> Self {
        let mut directories = Self::default();
        for path in paths {
            directories.add(path);
        }
        directories
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_with_two_names_is_there_once_and_what_is_none_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("d")).expect("made");
        symlink("d", path("e")).expect("a link");
        fs::write(path("file"), "x").expect("written");
        let mut directories = Directories::default();
        assert_eq!(directories.add(&path("d")), Some(path("d").as_path()));
        assert_eq!(directories.add(&path("e")), Some(path("d").as_path()));
        assert_eq!(directories.add(&path("file")), None);
        assert_eq!(directories.add(&path("gone")), None);
        let names: Vec<&Path> = directories.iter().map(|(name, _)| name).collect();
        assert_eq!(names, [path("d")]);
    }

    #[test]
    fn one_that_was_made_again_is_another_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("d");
        fs::create_dir(&path).expect("made");
        let before: Directories = [&path].into_iter().collect();
        let first = Identity::of(&path).expect("there");
        assert!(before.has(&path, first));
        fs::create_dir(folder.path().join("other")).expect("made");
        fs::rename(folder.path().join("other"), &path).expect("put in its place");
        assert!(!before.has(&path, Identity::of(&path).expect("there")));
    }
}
