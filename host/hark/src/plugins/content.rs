//! The bytes of a plugin's file, while a version of it is prepared.
//!
//! Used by `loading`, and by the thread that keeps versions. Invariant: what a file took in memory goes back to the system
//! with it. (The C library's allocator keeps blocks of tens of megabytes once one of their size was freed.)

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::Path;

use hark_sandbox::{ContentHash, MAX_PLUGIN_BYTES};
use memmap2::{MmapMut, MmapOptions};

/// How binary Wasm begins.
const MAGIC: [u8; 4] = *b"\0asm";

/// See the file's head.
pub(crate) struct Content {
    memory: MmapMut,
    length: usize,
}

impl Content {
    /// Reads a file. One that grows meanwhile is cut at the size that it had; its stamp shows that it changed.
    ///
    /// # Errors
    /// For people: what is wrong with the file.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        Self::of(File::open(path).map_err(unreadable)?)
    }

    /// The same of a file that is open.
    ///
    /// # Errors
    /// As [`Content::read`].
    pub(crate) fn of(mut file: File) -> Result<Self, String> {
        let size = file.metadata().map_err(unreadable)?.len();
        let length = usize::try_from(size).ok().filter(|size| *size <= MAX_PLUGIN_BYTES);
        let length = length.ok_or_else(|| {
            format!("it has {size} bytes; a plugin has at most {} MiB", MAX_PLUGIN_BYTES >> 20)
        })?;
        // There is no mapping of nothing.
        // All at once: a page fault for each 4 KiB would take as long as reading them.
        let memory = MmapOptions::new().len(length.max(1)).populate().map_anon();
        let mut memory = memory.map_err(|error| format!("no memory for it: {error}"))?;
        file.read_exact(&mut memory[..length]).map_err(unreadable)?;
        Ok(Self { memory, length })
    }
}

fn unreadable(error: io::Error) -> String {
    format!("cannot read it: {error}")
}

/// What a binary file's bytes are, without keeping them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Glance {
    pub(crate) hash: ContentHash,
    /// Bytes.
    pub(crate) size: usize,
}

impl Glance {
    /// Reads a file once through; none if it is not binary Wasm, is too large, or cannot be read.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let mut file = File::open(path).ok()?;
        file.metadata().ok().filter(|metadata| metadata.len() <= MAX_PLUGIN_BYTES as u64)?;
        let mut magic = [0; MAGIC.len()];
        file.read_exact(&mut magic).ok().filter(|()| magic == MAGIC)?;
        let rest = file.take(MAX_PLUGIN_BYTES as u64);
        let (hash, size) = ContentHash::read(&mut magic.chain(rest)).ok()?;
        let size = usize::try_from(size).ok().filter(|size| *size <= MAX_PLUGIN_BYTES)?;
        Some(Self { hash, size })
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_if_it_is_not_too_large() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.wasm");
        let read = || Content::read(&path).map(|content| content.to_vec());
        assert_eq!(read().expect_err("not there"), "cannot read it: No such file or directory (os error 2)");
        for bytes in [&b""[..], b"\0asm", &[7; 10_000]] {
            std::fs::write(&path, bytes).expect("written");
            assert_eq!(read().expect("readable"), bytes);
        }
        let size = MAX_PLUGIN_BYTES as u64 + 1;
        File::create(&path).expect("made").set_len(size).expect("sparse");
        let said = "it has 134217729 bytes; a plugin has at most 128 MiB";
        assert_eq!(read().expect_err("too large"), said);
    }

    #[test]
    fn a_glance_at_a_binary_file_gives_its_hash_and_nothing_of_any_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.wasm");
        assert_eq!(Glance::at(&path), None, "not there");
        for bytes in [&b"\0asm"[..], &[MAGIC.as_slice(), &[7; 1_000_000]].concat()] {
            std::fs::write(&path, bytes).expect("written");
            let want = Glance { hash: ContentHash::of(bytes), size: bytes.len() };
            assert_eq!(Glance::at(&path), Some(want));
        }
        for bytes in [&b""[..], b"\0as", b"(module)"] {
            std::fs::write(&path, bytes).expect("written");
            assert_eq!(Glance::at(&path), None);
        }
        std::fs::write(&path, MAGIC).expect("written");
        let file = File::options().write(true).open(&path).expect("there");
        file.set_len(MAX_PLUGIN_BYTES as u64 + 1).expect("sparse");
        assert_eq!(Glance::at(&path), None, "too large");
    }
}
