//! Has the file system tell of changes in a set of directories, which is another one after each look.
//!
//! Used by the looker; the one home of notify (inotify). Invariants: a directory is watched by its path without links,
//! and once, since notify and the kernel know it by its inode; one that went away, or is another one under the same
//! name, is watched anew.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use notify::{ErrorKind, RecommendedWatcher, RecursiveMode};
use rustix::io::Errno;
use tokio::time::Instant;

use super::filesystem;
use super::stamp::identity;
use super::told::{Interests, Mailbox, News};
use super::way::{WatchMode, Why};

/// After how long the system is asked again for a watcher, if there was none.
const AGAIN: Duration = Duration::from_secs(60);

/// notify remembers each directory that was deleted while it was watched; after so many it is made anew.
const MOST_DELETED: usize = 1000;

/// Device and inode.
type Identity = (u64, u64);

/// See the file's head.
pub(super) struct Watcher {
    mode: WatchMode,
    mailbox: Arc<Mailbox>,
    notify: Option<Notify>,
    watched: BTreeMap<PathBuf, Watched>,
    /// Not to be made before then, and why there was none.
    refused: Option<(Instant, Why)>,
    deleted: usize,
}

/// One directory.
struct Watched {
    identity: Identity,
    /// The file system's name, if it does not tell of everything.
    silent: Option<&'static str>,
}

/// What came of bringing the set up to date.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Followed {
    /// There are directories that were not watched during the look.
    pub(super) more: bool,
    /// Why not all that changes is told of.
    pub(super) trouble: Option<Why>,
}

impl Watcher {
    pub(super) fn new(mode: WatchMode, mailbox: Arc<Mailbox>) -> Self {
        let watched = BTreeMap::new();
        Self { mode, mailbox, notify: None, watched, refused: None, deleted: 0 }
    }

    /// Directories that are watched.
    pub(super) fn count(&self) -> usize {
        self.watched.len()
    }

    /// Whether a directory is watched, and the one that was there when that began.
    pub(super) fn watches(&self, directory: &Path) -> bool {
        let watched = self.watched.get(directory);
        watched.is_some_and(|watched| identity(directory) == Some(watched.identity))
    }

    /// Watches what is wanted, and nothing else. `news` is what was told before the look that says so.
    pub(super) fn follow(
        &mut self,
        wanted: Interests,
        news: &News,
        thread: Builder,
        now: Instant,
    ) -> Followed {
        if self.mode == WatchMode::Poll {
            return Followed { more: false, trouble: Some(Why::Setting) };
        }
        self.forget_what_moved(news);
        let (wanted, identities) = once_each(wanted);
        self.mailbox.lock().interests = wanted;
        if let Err(why) = self.make(thread, now) {
            return Followed { more: false, trouble: Some(why) };
        }
        self.leave(&identities);
        let mut followed = Followed::default();
        for (directory, identity) in identities {
            if self.watched.contains_key(&directory) {
                continue;
            }
            match self.watch(directory, identity) {
                Ok(watched) => followed.more |= watched,
                Err(why) => followed.trouble = Some(why),
            }
            if self.notify.is_none() {
                break;
            }
        }
        followed.trouble = self.silent().or(followed.trouble);
        followed
    }

    /// A file system among them that does not tell of everything.
    fn silent(&self) -> Option<Why> {
        let silent = self.watched.values().find_map(|watched| watched.silent);
        silent.filter(|_| self.mode == WatchMode::Auto).map(Why::FileSystem)
    }

    /// notify has dropped what was moved or deleted, and what was below it.
    fn forget_what_moved(&mut self, news: &News) {
        let count = self.watched.len();
        self.watched
            .retain(|path, _| !news.all_moved && !news.moved.iter().any(|moved| path.starts_with(moved)));
        self.deleted += count - self.watched.len();
        if self.deleted > MOST_DELETED {
            self.notify = None;
            self.watched.clear();
            self.deleted = 0;
        }
    }

    fn make(&mut self, thread: Builder, now: Instant) -> Result<(), Why> {
        if self.notify.is_some() {
            return Ok(());
        }
        if let Some((_, why)) = self.refused.as_ref().filter(|(again, _)| now < *again) {
            return Err(why.clone());
        }
        self.watched.clear();
        match Notify::new(thread, self.mailbox.clone()) {
            Ok(notify) => {
                (self.notify, self.refused) = (Some(notify), None);
                Ok(())
            }
            Err(why) => {
                self.refused = Some((now + AGAIN, why.clone()));
                Err(why)
            }
        }
    }

    /// Ends the watches of directories that are not wanted, or are other ones.
    fn leave(&mut self, wanted: &BTreeMap<PathBuf, Identity>) {
        let Some(notify) = &mut self.notify else { return };
        self.watched.retain(|path, watched| {
            let stays = wanted.get(path) == Some(&watched.identity);
            if !stays {
                notify.unwatch(path);
            }
            stays
        });
    }

    /// Says whether the directory is watched now; it may have gone.
    ///
    /// # Errors
    /// Why it cannot be.
    fn watch(&mut self, directory: PathBuf, identity: Identity) -> Result<bool, Why> {
        let Some(notify) = &mut self.notify else { return Ok(false) };
        match notify.watch(&directory) {
            Ok(true) => {
                let silent = filesystem::silent(&directory);
                self.watched.insert(directory, Watched { identity, silent });
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(Trouble::Why(why)) => Err(why),
            Err(Trouble::Dead) => {
                // Dropping it would panic once more, so it is left behind, with its one descriptor.
                if let Some(notify) = self.notify.take() {
                    std::mem::forget(notify);
                }
                self.watched.clear();
                Err(Why::NoThread("notify's has ended".to_owned()))
            }
        }
    }
}

/// Directories that are there, each under one name, with the names that matter under all of them.
fn once_each(wanted: Interests) -> (Interests, BTreeMap<PathBuf, Identity>) {
    let mut names: BTreeMap<Identity, PathBuf> = BTreeMap::new();
    let mut interests = Interests::new();
    for (path, interest) in wanted {
        let Some(identity) = identity(&path) else { continue };
        let name = names.entry(identity).or_insert(path).clone();
        let all = interests.entry(name).or_default();
        all.all |= interest.all;
        all.names.extend(interest.names);
    }
    (interests, names.into_iter().map(|(identity, path)| (path, identity)).collect())
}

/// notify's watcher, whose thread may be missing: it panics then.
struct Notify(RecommendedWatcher);

/// Why a directory is not watched.
enum Trouble {
    /// For people.
    Why(Why),
    /// notify's thread is not there.
    Dead,
}

impl Notify {
    fn new(thread: Builder, mailbox: Arc<Mailbox>) -> Result<Self, Why> {
        // The library has a thread, and panics without one; so it is asked only if one is to be had.
        thread.spawn(|| ()).map_err(|error| Why::NoThread(error.to_string()))?;
        let watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| mailbox.hear(&event));
        watcher.map(Self).map_err(|error| Why::NoWatcher(error.to_string()))
    }

    /// Says whether there was a directory to watch.
    fn watch(&mut self, directory: &Path) -> Result<bool, Trouble> {
        use notify::Watcher as _;
        let watch = || self.0.watch(directory, RecursiveMode::NonRecursive);
        let error = match catch_unwind(AssertUnwindSafe(watch)) {
            Ok(Ok(())) => return Ok(true),
            Ok(Err(error)) => error,
            Err(_) => return Err(Trouble::Dead),
        };
        Err(Trouble::Why(match &error.kind {
            ErrorKind::PathNotFound => return Ok(false),
            ErrorKind::Io(error) if Errno::from_io_error(error) == Some(Errno::NOENT) => return Ok(false),
            ErrorKind::MaxFilesWatch => Why::NoWatches,
            _ => Why::Refused(format!("{}: {error}", directory.display())),
        }))
    }

    /// What is not watched any more, or by a thread that has ended, need not be left.
    fn unwatch(&mut self, directory: &Path) {
        use notify::Watcher as _;
        let _ = catch_unwind(AssertUnwindSafe(|| self.0.unwatch(directory)));
    }
}

#[cfg(test)]
mod tests;
