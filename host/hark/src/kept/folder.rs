//! The files of the versions that are kept: `kept/versions.json`, and `kept/HASH.wasm` for each.
//!
//! Read by the host when it starts, written by its thread. Invariants: the folder is its owner's alone, and so is each file,
//! or it is named and is as if it were not there (`owned` says how that is found out); a file is replaced as a whole, by a
//! rename, after its bytes are on the disk; what has another kind of name is somebody else's, and is left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirBuilder;
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use hark_sandbox::ContentHash;

use super::owned::{self, Untrusted};
use super::record::{self, Record};
use crate::state_folder::{UNFINISHED, replace};

/// Bytes of the document that are read at all: hundreds of plugins have a hundredth of it.
const READ_MAX: u64 = 16 << 20;

/// See the file's head.
#[derive(Debug, Clone)]
pub(super) struct KeptFolder(PathBuf);

/// What a file in the folder is.
enum Kind {
    Document,
    Content(ContentHash),
    /// Of a host that was killed.
    Unfinished,
    Foreign,
}

impl KeptFolder {
    /// The one in a cluster's folder; it need not be there.
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self(folder.join("kept"))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Where the bytes of a content are, or would be.
    pub(super) fn path_of(&self, hash: &ContentHash) -> PathBuf {
        self.0.join(format!("{hash}.wasm"))
    }

    fn document(&self) -> PathBuf {
        self.0.join("versions.json")
    }

    /// What was written down. What cannot be read, or may be somebody else's, is said, and is as if it were not there.
    pub(super) fn read(&self) -> BTreeMap<String, Record> {
        let text = owned::close(&self.0).and_then(|()| {
            self.name_what_is_foreign();
            self.text()
        });
        let text = match text {
            Ok(Some(text)) => text,
            Ok(None) => return BTreeMap::new(),
            Err(error) if error.is_absent() => return BTreeMap::new(),
            Err(error) => {
                tracing::warn!("{error}; it is not known what was rolled back");
                return BTreeMap::new();
            }
        };
        let document = self.document();
        let ignored = |why: &str| {
            let path = document.display();
            tracing::warn!("{path}: {why}");
        };
        match record::read(&text) {
            Ok((records, damaged)) => {
                damaged.iter().for_each(|why| ignored(why));
                records
            }
            Err(why) => {
                ignored(&format!("it is damaged: {why}; it is not known what was rolled back"));
                BTreeMap::new()
            }
        }
    }

    /// The document's text; none if there is none.
    fn text(&self) -> Result<Option<Vec<u8>>, Untrusted> {
        let document = self.document();
        let unreadable = Untrusted::unreadable(&document);
        let file = match owned::file(&document) {
            Ok(file) => file,
            Err(error) if error.is_absent() => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(READ_MAX + 1).read_to_end(&mut text).map_err(&unreadable)?;
        if text.len() as u64 > READ_MAX {
            return Err(unreadable(io::Error::other(format!("it has more than {READ_MAX} bytes"))));
        }
        Ok(Some(text))
    }

    fn name_what_is_foreign(&self) {
        // One that is not there has nothing in it; one that cannot be read says so when it is written to.
        for (path, kind) in self.files().unwrap_or_default() {
            match kind {
                Kind::Foreign => {
                    tracing::warn!("{} is none of Hark's files: it is left alone", path.display());
                }
                // Of the document, that is said when it is read.
                Kind::Document | Kind::Unfinished => {}
                Kind::Content(_) => {
                    if let Err(error) = owned::file(&path) {
                        tracing::warn!("{error}; it cannot be rolled back to");
                    }
                }
            }
        }
    }

    fn files(&self) -> io::Result<Vec<(PathBuf, Kind)>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let path = entry?.path();
            let kind = self.kind(&path);
            files.push((path, kind));
        }
        Ok(files)
    }

    fn kind(&self, path: &Path) -> Kind {
        if path == self.document() {
            return Kind::Document;
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let (stem, unfinished) = match name.strip_suffix(UNFINISHED).and_then(|name| name.strip_suffix('.')) {
            Some(stem) => (stem, true),
            None => (name, false),
        };
        let content = stem.strip_suffix(".wasm").and_then(|hash| hash.parse().ok());
        match content {
            Some(hash) if !unfinished => Kind::Content(hash),
            Some(_) => Kind::Unfinished,
            None if unfinished && stem == "versions.json" => Kind::Unfinished,
            None => Kind::Foreign,
        }
    }

    /// Makes the folder.
    ///
    /// # Errors
    /// If the system refuses, or there is one that is not ours.
    pub(super) fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        owned::close(&self.0).map_err(io::Error::other)
    }

    /// Writes the bytes of a content, unless they are there already.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(super) fn write_content(&self, hash: &ContentHash, bytes: &[u8]) -> io::Result<()> {
        let path = self.path_of(hash);
        if super::read(&path, hash).is_ok() {
            return Ok(());
        }
        replace(&path, bytes)
    }

    /// Bytes of a content; none if it is not there.
    pub(super) fn size_of(&self, hash: &ContentHash) -> Option<u64> {
        let metadata = std::fs::symlink_metadata(self.path_of(hash)).ok()?;
        metadata.is_file().then_some(metadata.len())
    }

    /// Writes the document.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(super) fn write(&self, records: &BTreeMap<String, Record>) -> io::Result<()> {
        let text = record::write(records)?;
        if self.text().is_ok_and(|before| before.as_deref() == Some(&text)) {
            return Ok(());
        }
        replace(&self.document(), &text)
    }

    /// Removes the contents that are not among these, and what was never finished.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn sweep(&self, wanted: &BTreeSet<ContentHash>) -> io::Result<()> {
        for (path, kind) in self.files()? {
            let goes = match kind {
                Kind::Content(hash) => !wanted.contains(&hash),
                Kind::Unfinished => true,
                Kind::Document | Kind::Foreign => false,
            };
            if goes {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}
