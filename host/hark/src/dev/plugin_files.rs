//! Whether a build has changed a plugin.
//!
//! Used by [`super::builder`], for a hint to whoever forgot to copy its output. What is a plugin is the manager's to say;
//! here the names and stamps of what may be one are enough.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::folder::Stamp;

/// The files of the plugins folder, and of the folders in it.
#[derive(Debug, Clone, Default)]
pub(super) struct PluginFiles {
    folder: PathBuf,
    at_begin: BTreeMap<PathBuf, Stamp>,
    now: BTreeMap<PathBuf, Stamp>,
}

impl PluginFiles {
    /// Of this folder, not looked at yet.
    pub(super) fn of(folder: PathBuf) -> Self {
        Self { folder, ..Self::default() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// As they are now. A folder that cannot be read has none: the manager says so.
    pub(super) fn looked_at(mut self) -> Self {
        self.now = BTreeMap::new();
        for path in entries(&self.folder) {
            if path.is_dir() {
                self.now.extend(entries(&path).into_iter().filter_map(stamped));
            } else {
                self.now.extend(stamped(path));
            }
        }
        self
    }

    /// A build begins.
    pub(super) fn begin(&mut self) {
        self.at_begin.clone_from(&self.now);
    }

    /// Whether one is another since then.
    pub(super) fn has_changed(&self) -> bool {
        self.at_begin != self.now
    }

    pub(super) fn is_empty(&self) -> bool {
        self.now.is_empty()
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

fn stamped(path: PathBuf) -> Option<(PathBuf, Stamp)> {
    path.extension().filter(|extension| *extension == "wasm" || *extension == "wat")?;
    let stamp = Stamp::read(&path)?;
    Some((path, stamp))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_was_written_again_has_changed_and_another_file_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = PluginFiles::of(folder.path().to_owned()).looked_at();
        assert!(files.is_empty() && !files.has_changed());
        std::fs::write(folder.path().join("readme"), "x").expect("written");
        std::fs::create_dir(folder.path().join("sub")).expect("made");
        assert!(files.clone().looked_at().is_empty());
        std::fs::write(folder.path().join("sub/a.wasm"), "x").expect("written");
        let mut files = files.looked_at();
        assert!(files.has_changed() && !files.is_empty());
        files.begin();
        let mut files = files.looked_at();
        assert!(!files.has_changed());
        std::fs::write(folder.path().join("new"), "x").expect("written");
        std::fs::rename(folder.path().join("new"), folder.path().join("sub/a.wasm")).expect("moved");
        files = files.looked_at();
        assert!(files.has_changed());
    }
}
