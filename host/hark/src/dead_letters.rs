//! Dead letters: events that were given up after too many traps or time-outs (delivery contract 9), or whose objects
//! are too large to be handed over, kept for whoever wants to look at them, and replayed when they ask.
//!
//! The host's side is [`DeadLetters`]; `hark dead-letters` is [`command`], which reads the same files, in the
//! [cluster's folder](crate::state_folder). Invariants: a
//! letter that is kept is on the disk before the host says so; a letter leaves only when its event was handled, when
//! there is nothing left to tell, when it is dropped by hand, or, with a warning, when there are too many; trouble
//! with the files stops no plugin.
//!
//! | file | subject |
//! | --- | --- |
//! | `letter` | one letter: what is kept of an event, and what of it is delivered again |
//! | `file` | the lines of a cluster's file |
//! | `writer` | the thread that writes |
//! | `replays` | letters that are under way again |
//! | `command` | `hark dead-letters` |

mod ask;
pub(crate) mod command;
mod file;
#[cfg(test)]
mod fuzz;
mod letter;
mod replays;
mod table;
mod writer;

use std::io;
use std::sync::Arc;

use hark_informer::handler::Delivery;
use hark_informer::listener::{Listener, Redelivered};

use crate::aside;
use crate::state_folder::{FolderError, StatePlace};

use self::file::LetterFile;
pub(crate) use self::letter::{Letter, Worker};
use self::replays::Replays;
use self::writer::Writer;

/// The host's dead letters; see the file's head. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DeadLetters {
    shared: Arc<Shared>,
}

struct Shared {
    /// None if they cannot be kept, which was said.
    kept: Option<Kept>,
    replays: Replays,
}

struct Kept {
    file: LetterFile,
    /// Has the folder.
    writer: Writer,
}

/// Why dead letters cannot be kept.
#[derive(Debug, thiserror::Error)]
enum NotKept {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// What became of a wish to have a letter replayed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Replayed {
    /// The plugin will be told.
    Queued,
    /// There is nothing left to tell: the letter is gone.
    Obsolete(&'static str),
    /// Not now.
    Refused(String),
    /// There is no letter with this id.
    Unknown,
    /// The letters cannot be read.
    Unreadable(String),
}

impl DeadLetters {
    /// The dead letters of a cluster, in its folder; without one, or if another host has it, events that are
    /// given up are counted and logged, and that is said once. One that cannot be used yet is tried again.
    pub(crate) fn open(place: Option<&StatePlace>) -> Self {
        let opened = place.ok_or(NotKept::Folder(FolderError::NoHome)).and_then(Kept::open);
        let kept = opened.map_err(|error| {
            tracing::error!("dead letters cannot be kept: {error}; they are counted and logged only");
        });
        Self { shared: Arc::new(Shared { kept: kept.ok(), replays: Replays::default() }) }
    }

    /// Keeps an event that was given up. Waits while many others are being written.
    pub(crate) fn keep(&self, letter: Letter, delivery: &Delivery) {
        // Written before those that it stands for are removed: a crash between doubles, and loses nothing.
        let replaced = self.shared.replays.settle(&letter.plugin, &letter.subscription, delivery);
        if let Some(kept) = &self.shared.kept {
            kept.writer.keep(letter);
            kept.writer.remove(replaced);
        }
    }

    /// An event was handled: its letter goes, if it was a replay.
    pub(crate) fn handled(&self, plugin: &str, subscription: &str, delivery: &Delivery) {
        let done = self.shared.replays.settle(plugin, subscription, delivery);
        if let Some(kept) = &self.shared.kept {
            kept.writer.remove(done);
        }
    }

    /// Has a letter's event delivered again by the listener of its plugin, which `find` knows by name.
    pub(crate) async fn replay(&self, id: &str, find: impl FnOnce(&str) -> Option<Listener>) -> Replayed {
        let letter = match self.letter(id).await {
            Ok(Some(letter)) => letter,
            Ok(None) => return Replayed::Unknown,
            Err(error) => return Replayed::Unreadable(error),
        };
        let Some(listener) = find(&letter.plugin) else {
            return Replayed::Refused(format!("plugin {} does not run", letter.plugin));
        };
        let lost = match letter.lost() {
            Ok(lost) => lost,
            Err(error) => return Replayed::Refused(format!("the letter is damaged: {error}")),
        };
        let replays = &self.shared.replays;
        let redelivered = replays.begin(&letter, || listener.redeliver(&letter.subscription, &lost));
        self.answer(&letter, redelivered)
    }

    fn answer(&self, letter: &Letter, redelivered: Redelivered) -> Replayed {
        match redelivered {
            Redelivered::Queued { .. } => Replayed::Queued,
            Redelivered::Obsolete(why) => {
                if let Some(kept) = &self.shared.kept {
                    kept.writer.remove(vec![letter.id.clone()]);
                }
                Replayed::Obsolete(letter::obsolete(why))
            }
            Redelivered::UnknownSubscription => Replayed::Refused(format!(
                "plugin {} has no subscription {} for {} now",
                letter.plugin, letter.subscription, letter.key
            )),
            Redelivered::NotSynced => {
                Replayed::Refused("the first list of its kind is not there yet".to_owned())
            }
            Redelivered::Oversized => {
                Replayed::Refused("the object is too large to be handed over (limits.object)".to_owned())
            }
            Redelivered::Busy => {
                Replayed::Refused("later events of the object wait to be handled first".to_owned())
            }
        }
    }

    async fn letter(&self, id: &str) -> Result<Option<Letter>, String> {
        let Some(kept) = &self.shared.kept else { return Ok(None) };
        let (file, id) = (kept.file.clone(), id.to_owned());
        let read = move || {
            let contents = file.read()?;
            Ok(contents.letters.into_iter().find(|letter| letter.id == id))
        };
        match aside::run("letters", read).await {
            Ok(found) => found.map_err(|error: std::io::Error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Waits until everything that was to be kept is on the disk.
    pub(crate) async fn close(&self) {
        if let Some(kept) = &self.shared.kept {
            kept.writer.close().await;
        }
    }
}

impl Kept {
    fn open(place: &StatePlace) -> Result<Self, NotKept> {
        match place.take() {
            Ok(()) => {}
            // A full disk, most likely, which somebody will make room on.
            Err(error @ FolderError::Unusable { .. }) => {
                tracing::error!("dead letters cannot be kept yet: {error}; trying again");
            }
            Err(error) => return Err(error.into()),
        }
        let file = LetterFile::in_folder(&place.path());
        let writer = Writer::spawn(place.clone()).map_err(NotKept::Thread)?;
        Ok(Self { file, writer })
    }
}
