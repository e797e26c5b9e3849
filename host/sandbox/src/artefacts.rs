//! The artefact cache: machine code of contents that were compiled before, kept as whole files and mapped when needed; and
//! packs of functions, for the next version of a plugin.
//!
//! Used by the compiler alone; the host opens it once. One folder, which only this user can write to, may serve several
//! hosts at a time. Invariants: an entry is used only after this process compared every byte with its seal, and never
//! changes; a cache that cannot be read or written stops no plugin, it only makes them slower to start; at most the bound's bytes
//! are kept, what was used last the longest; a folder that goes away while it is used is made again with the next entry.
//!
//! | file | subject |
//! | --- | --- |
//! | `key` | what an artefact is of, and its name |
//! | `seal` | how damage is found |
//! | `compared` | what need not be looked through again |
//! | `folder` | the files, whose they are, and how they are replaced |
//! | `faults` | what is said when it is of no use |
//! | `mapped` | from a checked file to code (the host's only `unsafe`) |

mod compared;
mod faults;
mod folder;
mod key;
mod mapped;
mod seal;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use self::compared::Compared;
use self::faults::{Fault, Said};
pub use self::folder::CacheError;
use self::folder::{Entry, Folder, Opened};
pub(crate) use self::key::{Key, Maker};
use self::mapped::check_entry;
pub(crate) use self::mapped::{Checked, Content, Functions, check, component};
pub(crate) use self::seal::{Held, write};

/// How old the time of an entry's last use may be although it is used: setting it with each use would make each look like
/// a change of the file.
const USED_WITHIN: Duration = Duration::from_secs(600);

/// Keeps artefacts; see the file's head. Cheap to clone; clones are the same cache.
#[derive(Debug, Clone)]
pub struct ArtefactCache(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The folder that is read, and written to while it is in its place.
    folder: Mutex<Arc<Folder>>,
    /// Bytes that are kept at most.
    bound: u64,
    compared: Compared,
    /// What was there when the folder was last looked through.
    bytes: AtomicU64,
    entries: AtomicU64,
    damaged: AtomicU64,
    foreign: AtomicU64,
    evicted: AtomicU64,
    /// That it is of no use at the moment.
    said: Said,
    /// That it cannot be looked through was said.
    untidy: AtomicBool,
    /// Entries that are not to be used and cannot be dropped, which was said. There are only as many as contents that
    /// this host has looked for.
    stuck: Mutex<BTreeSet<String>>,
}

/// What a cache holds and has dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Bytes of all entries, when this host last added one.
    pub bytes: u64,
    /// Their number.
    pub entries: u64,
    /// Entries dropped because their bytes had changed, or could not be read.
    pub damaged: u64,
    /// Entries dropped because they were links, somebody else's, or others could write to them.
    pub foreign: u64,
    /// Entries dropped to keep the bound.
    pub evicted: u64,
}

impl ArtefactCache {
    /// Opens the cache in a folder, which is made (mode 0700) if it is not there, and tidies it up: leftovers of hosts
    /// that were killed go, and what is above `bound` bytes.
    ///
    /// # Errors
    /// [`CacheError`] if the folder cannot be made, or others could change what is in it.
    pub fn open(folder: &Path, bound: u64) -> Result<Self, CacheError> {
        let cache = Self(Arc::new(Inner {
            folder: Mutex::new(Arc::new(Folder::open(folder)?)),
            bound,
            compared: Compared::default(),
            bytes: AtomicU64::default(),
            entries: AtomicU64::default(),
            damaged: AtomicU64::default(),
            foreign: AtomicU64::default(),
            evicted: AtomicU64::default(),
            said: Said::default(),
            untidy: AtomicBool::default(),
            stuck: Mutex::default(),
        }));
        cache.tidy();
        Ok(cache)
    }

    /// What it holds.
    pub fn stats(&self) -> CacheStats {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let Inner { bytes, entries, damaged, foreign, evicted, .. } = &*self.0;
        CacheStats {
            bytes: read(bytes),
            entries: read(entries),
            damaged: read(damaged),
            foreign: read(foreign),
            evicted: read(evicted),
        }
    }

    /// What is kept under a key, checked. An entry that cannot be trusted is dropped, and said.
    pub(crate) fn find(&self, key: &Key) -> Option<Content> {
        let (name, folder) = (key.to_string(), self.folder());
        let file = match folder.entry(&name) {
            Ok(Opened::Ours(file)) => file,
            Ok(Opened::Absent) => return None,
            Ok(Opened::Foreign(reason)) => {
                self.drop_entry(&folder, &name, reason, &self.0.foreign);
                return None;
            }
            Ok(Opened::Closed(error)) => {
                let reason = format!("it cannot be opened: {error}");
                self.drop_entry(&folder, &name, &reason, &self.0.damaged);
                return None;
            }
            Err(source) => {
                self.0.said.fault(&Fault::Open { name, folder: folder.path().to_owned(), source });
                return None;
            }
        };
        note_use(&file);
        match check_entry(file, key, &self.0.compared) {
            Ok(content) => Some(content),
            Err(damage) => {
                self.drop_entry(&folder, &name, &damage.to_string(), &self.0.damaged);
                None
            }
        }
    }

    /// Drops an entry that was found whole, but that wasmtime or the system does not take.
    pub(crate) fn reject(&self, key: &Key, reason: &str) {
        self.drop_entry(&self.folder(), &key.to_string(), reason, &self.0.damaged);
    }

    fn drop_entry(&self, folder: &Folder, name: &str, reason: &str, counter: &AtomicU64) {
        match folder.remove(name) {
            Ok(()) => {
                counter.fetch_add(1, Ordering::Relaxed);
                self.stuck().remove(name);
                tracing::warn!("artefact {name} in {folder} is dropped, and compiled anew: {reason}");
            }
            Err(error) if self.stuck().insert(name.to_owned()) => tracing::warn!(
                "artefact {name} in {folder} is not used: {reason}; nor can Hark drop it: {error}; \
                 remove it, or its content is compiled at each start"
            ),
            Err(error) => tracing::debug!("artefact {name} in {folder} cannot be dropped: {error}"),
        }
    }

    fn stuck(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder(&self) -> Arc<Folder> {
        Arc::clone(&self.0.folder.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The folder in its place, which is another one than before if that was removed, moved or replaced.
    fn folder_in_place(&self) -> Result<Arc<Folder>, CacheError> {
        let mut folder = self.0.folder.lock().unwrap_or_else(PoisonError::into_inner);
        if !folder.is_in_place() {
            *folder = Arc::new(folder.reopen()?);
            self.stuck().clear();
            tracing::debug!("the artefact cache in {folder} is begun anew: its folder was gone");
        }
        Ok(Arc::clone(&folder))
    }

    /// Keeps a sealed entry, and drops what is too much. If it cannot be written, that is said once.
    pub(crate) fn keep(&self, key: &Key, sealed: &mut impl Read) {
        match self.try_keep(key, sealed) {
            Ok(folder) => self.0.said.kept(&folder),
            Err(fault) if self.stuck().contains(&key.to_string()) => {
                tracing::debug!("cannot keep artefact {key}, since what is in its place stays: {fault}");
            }
            Err(fault) => self.0.said.fault(&fault),
        }
        self.tidy();
    }

    fn try_keep(&self, key: &Key, sealed: &mut impl Read) -> Result<Arc<Folder>, Fault> {
        let folder = self.folder_in_place()?;
        let mut write = || {
            let mut temporary = folder.temporary()?;
            io::copy(sealed, temporary.file())?;
            temporary.become_entry(&key.to_string())
        };
        match write() {
            Ok(()) => Ok(folder),
            Err(source) => Err(Fault::Write { folder: folder.path().to_owned(), source }),
        }
    }

    /// Removes leftovers and what is above the bound, and counts the rest. Another host may do the same.
    fn tidy(&self) {
        let folder = self.folder();
        let entries = match folder.clean_and_list() {
            Ok(entries) => entries,
            Err(error) => {
                if self.0.said.is_said() || self.0.untidy.swap(true, Ordering::Relaxed) {
                    tracing::debug!("cannot look through the artefact cache in {folder}: {error}");
                } else {
                    tracing::warn!(
                        "cannot look through the artefact cache in {folder}, so it may grow above \
                         host.cache_size: {error}; make it a folder that this user can read, or set host.cache_dir"
                    );
                }
                return;
            }
        };
        self.0.untidy.store(false, Ordering::Relaxed);
        let excess = excess(entries, self.0.bound);
        for entry in &excess.dropped {
            if let Err(error) = folder.remove(&entry.name) {
                tracing::debug!("cannot drop artefact {}: {error}", entry.name);
                continue;
            }
            self.0.evicted.fetch_add(1, Ordering::Relaxed);
        }
        self.0.bytes.store(excess.kept_bytes, Ordering::Relaxed);
        self.0.entries.store(excess.kept, Ordering::Relaxed);
    }
}

/// The time of the last change says when an entry was last used, to within [`USED_WITHIN`], also where the file system
/// keeps no time of reading. A folder that can only be read keeps its order.
fn note_use(file: &File) {
    let now = SystemTime::now();
    let noted = file.metadata().and_then(|metadata| metadata.modified());
    let is_recent = noted.is_ok_and(|noted| now.duration_since(noted).is_ok_and(|ago| ago < USED_WITHIN));
    if !is_recent {
        let _ = file.set_modified(now);
    }
}

/// What to drop to keep a bound.
#[derive(Debug, Default, PartialEq, Eq)]
struct Excess {
    dropped: Vec<Entry>,
    kept: u64,
    kept_bytes: u64,
}

/// Keeps what was used last, as long as it fits.
fn excess(mut entries: Vec<Entry>, bound: u64) -> Excess {
    entries.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.name.cmp(&b.name)));
    let mut excess = Excess::default();
    let mut full = false;
    for entry in entries {
        full |= excess.kept_bytes.saturating_add(entry.bytes) > bound;
        if full {
            excess.dropped.push(entry);
        } else {
            excess.kept += 1;
            excess.kept_bytes += entry.bytes;
        }
    }
    excess
}

#[cfg(test)]
mod tests;
