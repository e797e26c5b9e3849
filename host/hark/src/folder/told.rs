//! What the file system has told since the last look, reduced to what a look needs.
//!
//! Filled by the thread that hears, emptied by the looker's. Invariant: however much is told, what is kept is bounded, and
//! what does not fit is as if it had not been told.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::watching::{Change, News as Heard};

/// Files that are known to be open for writing, or to be whole, at a time.
const MOST_FILES: usize = 4096;

/// Which names in a directory matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Interest {
    /// It is scanned: any name that is not hidden.
    pub(super) all: bool,
    /// These, hidden or not.
    pub(super) names: BTreeSet<OsString>,
}

/// The directories to hear of, by path without links.
pub(super) type Interests = BTreeMap<PathBuf, Interest>;

/// What a name in a directory means to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relevance {
    /// Nothing.
    None,
    /// It may be a folder: that it is there, or not, matters.
    Entry,
    /// It may be a file that is read.
    File,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Something may have changed.
    look: bool,
    /// Somebody asked for a look.
    asked: bool,
    /// The looker is to end.
    stop: bool,
    /// Which names matter.
    pub(super) interests: Interests,
    /// Written to, and not closed since.
    writing: BTreeSet<PathBuf>,
    /// Closed after a write, or moved here.
    whole: BTreeSet<PathBuf>,
}

/// What was told before a look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Something may have changed.
    pub(super) told: bool,
    /// Closed after a write, or moved here.
    pub(super) whole: BTreeSet<PathBuf>,
}

impl Told {
    /// Hears one thing: says whether it is news for the looker.
    pub(super) fn hear(&mut self, heard: Heard<'_>) -> bool {
        let news = match heard {
            Heard::Of(path, change) => self.hear_of(path, change),
            Heard::Lost => {
                self.writing.clear();
                self.whole.clear();
                true
            }
        };
        self.look |= news;
        news
    }

    /// Whether any file is open for writing.
    pub(super) fn is_any_written_to(&self) -> bool {
        !self.writing.is_empty()
    }

    fn hear_of(&mut self, path: &Path, change: Change) -> bool {
        let relevance = self.relevance(path);
        match change {
            _ if relevance == Relevance::None => false,
            Change::Written => relevance == Relevance::File && self.is_written_to(path),
            Change::Closed => relevance == Relevance::File && self.is_whole(path),
            Change::Arrived => self.is_whole(path),
            Change::Gone => self.is_gone(path),
            Change::Other => true,
        }
    }

    /// Only the first write of many is news.
    fn is_written_to(&mut self, path: &Path) -> bool {
        self.whole.remove(path);
        if self.writing.contains(path) {
            return false;
        }
        if self.writing.len() < MOST_FILES {
            self.writing.insert(path.to_owned());
        }
        true
    }

    fn is_whole(&mut self, path: &Path) -> bool {
        self.writing.remove(path);
        if self.whole.len() < MOST_FILES {
            self.whole.insert(path.to_owned());
        }
        true
    }

    fn is_gone(&mut self, path: &Path) -> bool {
        self.writing.remove(path);
        self.whole.remove(path);
        true
    }

    fn relevance(&self, path: &Path) -> Relevance {
        if self.interests.contains_key(path) {
            return Relevance::Entry;
        }
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Relevance::None };
        match self.interests.get(directory) {
            Some(interest) if interest.names.contains(name) => Relevance::File,
            Some(interest) if interest.all => among_all(name),
            _ => Relevance::None,
        }
    }

    /// What was told since the last time.
    fn take(&mut self) -> News {
        self.asked = false;
        News { told: std::mem::take(&mut self.look), whole: std::mem::take(&mut self.whole) }
    }
}

/// A name in a directory that is scanned.
fn among_all(name: &OsStr) -> Relevance {
    let bytes = name.as_encoded_bytes();
    if bytes.starts_with(b".") {
        Relevance::None
    } else if bytes.ends_with(b".wasm") || bytes.ends_with(b".wat") {
        Relevance::File
    } else {
        Relevance::Entry
    }
}

/// Why the looker is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// The file system has told something.
    Told,
    /// Somebody asked.
    Asked,
    /// It is time.
    Time,
    /// It is to end.
    Stop,
}

/// [`Told`], shared by the two threads.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    told: Mutex<Told>,
    news: Condvar,
}

impl Mailbox {
    pub(super) fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by the thread that hears.
    pub(super) fn hear(&self, heard: Heard<'_>) {
        if self.lock().hear(heard) {
            self.news.notify_one();
        }
    }

    /// Asks for a look.
    pub(super) fn ask(&self) {
        self.lock().asked = true;
        self.news.notify_one();
    }

    /// Asks the looker to end.
    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.news.notify_one();
    }

    /// Waits for news, but not beyond `until`, and takes none before `not_before`.
    pub(super) fn wait(&self, not_before: Instant, until: Instant) -> Wake {
        let mut told = self.lock();
        loop {
            let now = Instant::now();
            let news = (told.look || told.asked) && now >= not_before;
            match () {
                () if told.stop => return Wake::Stop,
                () if news && told.look => return Wake::Told,
                () if news => return Wake::Asked,
                () if now >= until.max(not_before) => return Wake::Time,
                () => {}
            }
            let waits_for_its_turn = told.look || told.asked;
            let end = if waits_for_its_turn { not_before } else { until.max(not_before) };
            let rest = end.saturating_duration_since(now).max(Duration::from_micros(1));
            told = self.news.wait_timeout(told, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What was told since the last look.
    pub(super) fn take(&self) -> News {
        self.lock().take()
    }

    /// Files that are open for writing. Those that the last look has no use for are forgotten, unless there is news, which
    /// may be of them.
    pub(super) fn writing(&self, used: &BTreeSet<&Path>) -> BTreeSet<PathBuf> {
        let mut told = self.lock();
        if !told.look {
            told.writing.retain(|path| used.contains(path.as_path()));
        }
        told.writing.clone()
    }
}

#[cfg(test)]
mod tests;
