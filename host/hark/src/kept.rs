//! Versions that are kept, so that a plugin which was rolled back stays so over a restart of the host.
//!
//! The manager says what is good and what is refused of each plugin; a thread of its own writes it down, beside the dead
//! letters, with the bytes of what is good. At the next start the manager is told. Invariants: nobody waits for the disk; what
//! waits to be written has a bound, the newest word on each plugin; what is read back was checked, and what is damaged,
//! or may be somebody else's, is named and ignored; trouble with the files stops no plugin, and is said once.
//!
//! | file | subject |
//! | --- | --- |
//! | `record` | what is known of a plugin, and how it is written down |
//! | `folder` | the files |
//! | `owned` | whose they are |
//! | `mailbox` | what waits to be written |
//! | `writer` | the thread that writes |

mod folder;
mod mailbox;
mod owned;
mod record;
mod writer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hark_sandbox::ContentHash;

use self::folder::KeptFolder;
pub(crate) use self::mailbox::Fresh;
use self::mailbox::Mailbox;
pub(crate) use self::record::{Good, Record, RolledBack};
use crate::plugins::content::Content;
use crate::state_folder::{FolderError, StatePlace};

/// How long the end of the host waits for a slow disk.
const CLOSING: Duration = Duration::from_secs(5);

/// See the file's head. Cheap to clone.
#[derive(Clone)]
pub(crate) struct KeptVersions {
    shared: Arc<Shared>,
}

struct Shared {
    /// What the host before left, until it is asked for.
    recalled: Mutex<BTreeMap<String, Record>>,
    keeping: Keeping,
}

/// Where it is written.
enum Keeping {
    In(Writing),
    /// Nowhere; why, until that was said.
    Nowhere(Mutex<Option<String>>),
}

struct Writing {
    folder: KeptFolder,
    mailbox: Arc<Mailbox>,
}

impl KeptVersions {
    /// What is kept of a cluster's plugins, in its folder. Without one, or if another host has it, nothing is kept, which
    /// is said as soon as something should be. One that cannot be used yet is tried again, and read if that is possible.
    pub(crate) fn open(place: Option<StatePlace>) -> Self {
        let (recalled, keeping) = match open(place) {
            Ok((recalled, writing)) => (recalled, Keeping::In(writing)),
            Err(why) => (BTreeMap::new(), Keeping::Nowhere(Mutex::new(Some(why)))),
        };
        Self { shared: Arc::new(Shared { recalled: Mutex::new(recalled), keeping }) }
    }

    /// What the host before left of a plugin; once, since this one knows better from then on.
    pub(crate) fn recall(&self, plugin: &str) -> Option<Record> {
        unpoisoned(&self.shared.recalled).remove(plugin)
    }

    /// Where the bytes of a good version are.
    ///
    /// # Errors
    /// Nothing is kept.
    pub(crate) fn path_of(&self, hash: &ContentHash) -> Result<PathBuf, String> {
        match &self.shared.keeping {
            Keeping::In(writing) => Ok(writing.folder.path_of(hash)),
            Keeping::Nowhere(_) => Err("nothing is kept".to_owned()),
        }
    }

    /// Has this written down of a plugin from now on, and the bytes of its versions; nothing at all if it is empty. Waits
    /// for nothing.
    pub(crate) fn keep(&self, plugin: &str, record: Record, fresh: Option<Fresh>) {
        match &self.shared.keeping {
            Keeping::In(writing) => writing.mailbox.put(plugin, record, fresh),
            Keeping::Nowhere(why) => {
                if !record.is_empty()
                    && let Some(why) = unpoisoned(why).take()
                {
                    tracing::warn!(
                        "versions that can be rolled back to are not kept: {why}; rolling back works until the host ends"
                    );
                }
            }
        }
    }

    /// Waits until what was to be kept is on the disk, but not for ever.
    pub(crate) async fn close(&self) {
        let Keeping::In(writing) = &self.shared.keeping else { return };
        let closed = writing.mailbox.close();
        // A thread that has ended has written what it was sent.
        if tokio::time::timeout(CLOSING, closed).await.is_err() {
            tracing::error!("the disk is too slow: what was rolled back may come again at the next start");
        }
    }
}

/// # Errors
/// For people: why nothing is kept.
fn open(place: Option<StatePlace>) -> Result<(BTreeMap<String, Record>, Writing), String> {
    let place = place.ok_or_else(|| FolderError::NoHome.to_string())?;
    match place.take() {
        // Whatever is wrong with it is said with the dead letters.
        Ok(()) | Err(FolderError::Unusable { .. }) => {}
        Err(error @ (FolderError::Taken { .. } | FolderError::NoHome)) => return Err(error.to_string()),
    }
    let folder = KeptFolder::in_folder(&place.path());
    let recalled = folder.read();
    let mailbox = Arc::new(Mailbox::default());
    writer::spawn(place, folder.clone(), recalled.clone(), mailbox.clone())
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok((recalled, Writing { folder, mailbox }))
}

/// Reads the bytes of a good version, where they are kept.
///
/// # Errors
/// For people: they are not there, may be somebody else's, or are not what they are to be.
pub(crate) fn read(path: &Path, hash: &ContentHash) -> Result<Content, String> {
    let file = owned::file(path).map_err(|error| error.to_string())?;
    checked(path, Content::of(file), hash)
}

/// The same from the plugin's file that they came from, which is for its folder's owner to guard.
fn read_again(path: &Path, hash: &ContentHash) -> Result<Content, String> {
    checked(path, Content::read(path), hash)
}

fn checked(path: &Path, content: Result<Content, String>, hash: &ContentHash) -> Result<Content, String> {
    let content = content.map_err(|error| format!("{}: {error}", path.display()))?;
    let is = ContentHash::of(&content);
    if is == *hash {
        return Ok(content);
    }
    Err(format!("{} is damaged: it has the hash {}", path.display(), is.short()))
}

/// What panicked elsewhere left nothing half-done here.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
