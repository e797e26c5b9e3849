//! From an artefact's file to a component whose code is that file, mapped into memory.
//!
//! The one place in the host with `unsafe`. wasmtime trusts the machine code that it is given, so
//! `Component::deserialize_file` asks two things of its caller, and here is why both hold:
//!
//! 1. *The bytes are wasmtime's own output.* Callers hand in a [`Checked`], which only [`check`] and [`check_entry`] make,
//!    after every byte was read and compared with a seal that names this engine, its settings and the content. An entry of the
//!    cache that this process has read so, and that is the same file with the same times since (`compared.rs`), is not
//!    read again: that it does not change is what 2 is about. A seal is
//!    written by this program alone: by this process, or by its child, which is the same executable. The file is
//!    either without a name (a memory file that only the two of them have), or an entry of the cache's folder, which
//!    belongs to this user and which nobody else may write to (`folder.rs` looks at the folder and at the file, each by
//!    its descriptor; a folder that takes the place of one that was removed is looked at in the same way, and entries
//!    are only ever opened by the descriptor of a folder that was). Whoever can break this is the user that the host
//!    runs as, or root: they need no artefact to run code in it.
//! 2. *The file does not change while it is mapped.* It is mapped through `/proc/self/fd/N`, which opens the very file
//!    that was checked, whatever its name leads to by now. Hark never writes to an entry once it is sealed: entries
//!    are replaced by renaming and dropped by unlinking, and neither touches the file that is mapped. What was said of
//!    others under 1 holds here too. The mapping is private, so nothing that wasmtime does reaches the file.
//!
//! Invariant: nothing but a [`Checked`] gets to wasmtime as machine code.
#![allow(
    unsafe_code,
    reason = "loading machine code that this program made and sealed; the file's head says why it is sound"
)]

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use std::time::SystemTime;

use wasmtime::Engine;
use wasmtime::component::Component;

use super::compared::{Compared, State};
use super::key::Key;
use super::seal::{self, Damage, Held};

/// A file whose every byte was compared with its seal, just now or as it was before, and which holds an artefact.
#[derive(Debug)]
pub(crate) struct Checked(File);

impl Checked {
    /// Reads it from its beginning, seal and all.
    pub(crate) fn reader(&self) -> io::Result<File> {
        let mut file = self.0.try_clone()?;
        file.rewind()?;
        Ok(file)
    }
}

/// What a sealed file turned out to hold.
#[derive(Debug)]
pub(crate) enum Content {
    Artefact(Checked),
    /// See [`Held::Refusal`].
    Refusal(String),
    /// See [`Held::Functions`].
    Functions(Functions),
}

/// A file whose every byte was compared with its seal, and which holds functions. They are no code yet: the compiler
/// takes them for its own output, for which the same reasons hold.
#[derive(Debug)]
pub(crate) struct Functions {
    file: File,
    bytes: u64,
}

impl Functions {
    /// Reads the entry from its beginning, seal and all.
    pub(crate) fn sealed(&self) -> io::Result<File> {
        let mut file = self.file.try_clone()?;
        file.rewind()?;
        Ok(file)
    }

    /// Reads the functions.
    pub(crate) fn reader(&self) -> io::Result<impl Read> {
        Ok(self.sealed()?.take(self.bytes))
    }
}

/// Checks a file against the seal for this key.
///
/// # Errors
/// [`Damage`] if it is not what was sealed.
pub(crate) fn check(file: File, key: &Key) -> Result<Content, Damage> {
    match seal::check(&file, key)? {
        Held::Artefact => Ok(Content::Artefact(Checked(file))),
        Held::Refusal(reason) => Ok(Content::Refusal(reason)),
        Held::Functions(bytes) => Ok(Content::Functions(Functions { file, bytes })),
    }
}

/// The same of the cache's entry, unless it holds an artefact that was compared before, and is as it was then.
///
/// # Errors
/// As [`check`].
pub(super) fn check_entry(file: File, key: &Key, compared: &Compared) -> Result<Content, Damage> {
    let (begun, state) = (SystemTime::now(), State::of(&file)?);
    if compared.has(key, &state) {
        return Ok(Content::Artefact(Checked(file)));
    }
    let content = check(file, key)?;
    if let Content::Artefact(_) = content {
        compared.remember(key, state, begun);
    }
    Ok(content)
}

/// The component whose code is this file.
///
/// # Errors
/// If wasmtime does not know it as its own, or the system does not map it as code.
pub(crate) fn component(engine: &Engine, artefact: &Checked) -> wasmtime::Result<Component> {
    let path = format!("/proc/self/fd/{}", artefact.0.as_raw_fd());
    // SAFETY: see the file's head: the bytes were made by this program for this engine, and stay as they are.
    unsafe { Component::deserialize_file(engine, path) }
}
