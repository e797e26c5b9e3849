//! Has the system tell of changes in a set of directories, another set after each look (inotify).
//!
//! Used for the plugins folder (`folder`) and for the sources of builds (`dev/folders`), each with a set of its own; the
//! one home of notify. Each directory is watched by itself, not what is below it. Invariants: a directory is watched
//! once, since the kernel knows it by its inode; one that went away, or is another one under the same name, is watched
//! anew; where the system cannot tell, that is said ([`Trouble`]), and nothing panics.
//!
//! | file | subject |
//! | --- | --- |
//! | `directories` | directories that are there, each once |
//! | `table` | what is watched, and what of it went away |
//! | `inotify` | notify's watcher, and what it tells |
//! | `filesystem` | file systems that do not tell of all changes |

mod directories;
mod filesystem;
mod inotify;
#[cfg(test)]
mod random;
mod table;

use std::path::Path;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use tokio::time::Instant;

use self::inotify::{Inotify, Unwatched};
use self::table::Table;

pub(crate) use self::directories::Directories;

/// After how long the system is asked again for a watcher, if there was none.
const AGAIN: Duration = Duration::from_secs(60);

/// notify remembers each directory that went away while it was watched; after so many it is made anew.
const MOST_GONE: usize = 1000;

/// What the system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News<'a> {
    /// Of something in a watched directory, or of the directory.
    Of(&'a Path, Change),
    /// It has told too little: anything may have changed.
    Lost,
}

/// What happened to a file or a directory. That it was opened, or read, is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It was written to.
    Written,
    /// It was closed by somebody who could write to it.
    Closed,
    /// It was moved to this name.
    Arrived,
    /// It was removed, or moved away from this name.
    Gone,
    /// It is new, or something about it changed that is not its content.
    Other,
}

/// Whoever is told, on a thread of notify's. It must not wait for a [`DirectoryWatcher`].
pub(crate) type Ear = Arc<dyn Fn(News<'_>) + Send + Sync>;

/// Why the system does not tell of everything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Trouble {
    /// The kernel gives no more watches.
    #[error("no watches are left: raise fs.inotify.max_user_watches")]
    NoWatches,
    /// The kernel gives no watcher.
    #[error("there is no watcher to be had: {0}; raise fs.inotify.max_user_instances")]
    NoWatcher(String),
    /// The system gives no thread to hear with.
    #[error("there is no thread to be had: {0}")]
    NoThread(String),
    /// A directory may not be watched: which, and why.
    #[error("a folder cannot be watched: {0}")]
    Refused(String),
}

/// What came of bringing the set up to date.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Followed {
    /// There are directories that were not watched until now: of what changed in them before, nobody has told.
    pub(crate) more: bool,
    /// Why not all are watched; none if all are that are there.
    pub(crate) trouble: Option<Trouble>,
}

/// See the file's head.
pub(crate) struct DirectoryWatcher {
    ear: Ear,
    inotify: Option<Inotify>,
    table: Arc<Table>,
    /// Not to be made before then, and why there is none.
    refused: Option<(Instant, Trouble)>,
    /// Directories that went away since notify's watcher was made.
    gone: usize,
}

impl DirectoryWatcher {
    /// Nothing is watched yet.
    pub(crate) fn new(ear: Ear) -> Self {
        Self { ear, inotify: None, table: Arc::default(), refused: None, gone: 0 }
    }

    /// Directories that are watched.
    pub(crate) fn count(&self) -> usize {
        self.table.count()
    }

    /// Whether a directory is watched, and still the one that was there when that began.
    pub(crate) fn watches(&self, directory: &Path) -> bool {
        self.table.has(directory)
    }

    /// The name of a file system among the directories that does not tell of all changes.
    pub(crate) fn silent(&self) -> Option<&'static str> {
        self.table.silent()
    }

    /// Watches what is wanted, and nothing else. What cannot be watched is tried again each time; a watcher that is not
    /// to be had, after a minute.
    pub(crate) fn follow(&mut self, wanted: &Directories, now: Instant) -> Followed {
        self.follow_on(Builder::new(), wanted, now)
    }

    /// Lets everything go, and tries again after a minute: for those to whom a part is of no use.
    pub(crate) fn rest(&mut self, trouble: Trouble, now: Instant) {
        if self.inotify.is_some() {
            self.let_go();
            self.refused = Some((now + AGAIN, trouble));
        }
    }

    /// `thread` is one like the one that notify will want.
    fn follow_on(&mut self, thread: Builder, wanted: &Directories, now: Instant) -> Followed {
        self.leave_what_went();
        if let Err(trouble) = self.make(thread, now) {
            return Followed { more: false, trouble: Some(trouble) };
        }
        self.leave_what_is_not(wanted);
        let mut followed = Followed::default();
        for (directory, identity) in wanted.iter() {
            if !self.table.add(directory, identity) {
                continue;
            }
            match self.watch(directory) {
                Ok(()) => followed.more = true,
                Err(Unwatched::NotThere) => {}
                Err(Unwatched::Dead) => {
                    self.let_go();
                    followed.trouble = Some(Trouble::NoThread("notify's has ended".to_owned()));
                    break;
                }
                Err(Unwatched::Trouble(trouble)) => {
                    let no_more = trouble == Trouble::NoWatches;
                    followed.trouble = Some(trouble);
                    if no_more {
                        break;
                    }
                }
            }
        }
        followed
    }

    /// notify has dropped most of what went away, and does not know of the rest that it did.
    fn leave_what_went(&mut self) {
        let gone = self.table.take_gone();
        self.gone += gone.len();
        if self.gone > MOST_GONE {
            return self.let_go();
        }
        if let Some(inotify) = &mut self.inotify {
            gone.iter().for_each(|directory| inotify.unwatch(directory));
        }
    }

    fn make(&mut self, thread: Builder, now: Instant) -> Result<(), Trouble> {
        if self.inotify.is_some() {
            return Ok(());
        }
        if let Some((_, trouble)) = self.refused.as_ref().filter(|(again, _)| now < *again) {
            return Err(trouble.clone());
        }
        match Inotify::new(thread, self.table.clone(), self.ear.clone()) {
            Ok(inotify) => {
                (self.inotify, self.refused) = (Some(inotify), None);
                Ok(())
            }
            Err(trouble) => {
                self.refused = Some((now + AGAIN, trouble.clone()));
                Err(trouble)
            }
        }
    }

    /// Ends the watches of directories that are not wanted, or are other ones.
    fn leave_what_is_not(&mut self, wanted: &Directories) {
        let Some(inotify) = &mut self.inotify else { return };
        self.table.retain(wanted).iter().for_each(|directory| inotify.unwatch(directory));
    }

    /// Watches a directory that has been put into the table.
    fn watch(&mut self, directory: &Path) -> Result<(), Unwatched> {
        let Some(inotify) = &mut self.inotify else { return Err(Unwatched::NotThere) };
        let watched = inotify.watch(directory);
        match watched {
            Ok(()) => self.table.is_on(directory, filesystem::silent(directory)),
            Err(_) => self.table.remove(directory),
        }
        watched
    }

    fn let_go(&mut self) {
        self.inotify = None;
        // Nobody puts anything in any more.
        self.table = Arc::default();
        self.gone = 0;
    }
}

#[cfg(test)]
mod tests;
