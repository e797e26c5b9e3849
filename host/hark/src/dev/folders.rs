//! Says when something stirs in a build's folders.
//!
//! Used by [`super::look`], which brings the set of folders up to date after each look. Each is watched by itself, so that
//! folders that hold no sources, such as a build's output, cost nothing. Invariants: whoever waits is told of every change
//! in a watched folder, perhaps once for many; our own reading tells nothing. Where the system does not say what changes,
//! [`Watching`] says why, and the clock has to do.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::ManuallyDrop;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{ErrorKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::watch;

use super::sources::Sources;

/// After how long the system is asked again, if it could not say what changes.
const AGAIN: Duration = Duration::from_secs(60);

/// The library remembers each folder that went away while it was watched; after so many it is begun anew.
const MOST_FORGOTTEN: usize = 1000;

/// Folders that went away since the last look; if there are more, all are watched anew.
const MOST_LOST: usize = 256;

/// Who says that it is time to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Watching {
    /// The system does.
    Events,
    /// The clock, for this reason.
    Clock(String),
}

/// One folder that is watched.
struct Watched {
    identity: Identity,
    /// The file system's name, if it does not tell of all changes.
    silent: Option<&'static str>,
}

/// What tells a folder from another one of the same name.
type Identity = (u64, u64, Option<SystemTime>);

/// See the file's head.
pub(super) struct Folders {
    sources: Sources,
    watcher: Option<RecommendedWatcher>,
    watched: BTreeMap<PathBuf, Watched>,
    /// What the system stopped watching, since it was moved or removed.
    lost: Lost,
    /// How many that were over time.
    forgotten: usize,
    stirred: watch::Sender<()>,
    /// Not to be asked again before then, and why.
    refused: Option<(Instant, String)>,
}

type Lost = Arc<Mutex<BTreeSet<PathBuf>>>;

impl Folders {
    /// Nothing is watched yet. `stirred` is told of changes.
    pub(super) fn new(sources: Sources, stirred: watch::Sender<()>) -> Self {
        Self {
            sources,
            watcher: None,
            watched: BTreeMap::new(),
            lost: Lost::default(),
            forgotten: 0,
            stirred,
            refused: None,
        }
    }

    /// Watches these folders and no others. Gives whether there are new ones among them: what changed in one before it
    /// was watched, nobody has told of.
    pub(super) fn follow(&mut self, folders: &BTreeSet<PathBuf>, now: Instant) -> (bool, Watching) {
        if let Some((until, reason)) = &self.refused {
            if now < *until {
                return (false, Watching::Clock(reason.clone()));
            }
            self.refused = None;
        }
        match self.try_follow(folders) {
            Ok(new) => (new, self.by_the_system()),
            Err(reason) => {
                self.watcher = None;
                self.watched.clear();
                self.refused = Some((now + AGAIN, reason.clone()));
                (false, Watching::Clock(reason))
            }
        }
    }

    /// It says what changes, unless a file system among them does not tell it.
    fn by_the_system(&self) -> Watching {
        let silent = self.watched.values().find_map(|watched| watched.silent);
        let reason = |name| format!("some are on {name}, which does not tell of all changes");
        silent.map_or(Watching::Events, |name| Watching::Clock(reason(name)))
    }

    fn try_follow(&mut self, folders: &BTreeSet<PathBuf>) -> Result<bool, String> {
        self.forget_lost();
        let wanted = once_each(folders);
        if self.watcher.is_none() {
            self.watcher = Some(watcher(self.sources.clone(), self.lost.clone(), self.stirred.clone())?);
        }
        let Some(watcher) = &mut self.watcher else { return Ok(false) };
        self.watched.retain(|path, watched| {
            let stays = wanted.get(path) == Some(&watched.identity);
            if !stays {
                // It may be gone, and its watch with it.
                let _ = watcher.unwatch(path);
            }
            stays
        });
        let mut new = false;
        for (path, identity) in wanted {
            if self.watched.contains_key(path) {
                continue;
            }
            match watcher.watch(path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    let silent = crate::folder::silent(path);
                    self.watched.insert(path.clone(), Watched { identity, silent });
                    new = true;
                }
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(refusal(&error, folders.len())),
            }
        }
        Ok(new)
    }

    /// Whatever was moved or removed has no watch any more, nor has what lay in it, although it may be back by now.
    fn forget_lost(&mut self) {
        let lost = std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(watcher) = self.watcher.as_mut().filter(|_| !lost.is_empty()) else { return };
        let (all, before) = (lost.len() >= MOST_LOST, self.watched.len());
        self.watched.retain(|path, _| {
            let stays = !all && !path.ancestors().any(|above| lost.contains(above));
            if !stays {
                // As below.
                let _ = watcher.unwatch(path);
            }
            stays
        });
        self.forgotten += before - self.watched.len();
        if self.forgotten > MOST_FORGOTTEN {
            self.watcher = None;
            self.watched.clear();
            self.forgotten = 0;
        }
    }
}

/// The folders that are there, each under one of its names: the system watches what is behind a name.
fn once_each(folders: &BTreeSet<PathBuf>) -> BTreeMap<&PathBuf, Identity> {
    let mut seen = BTreeSet::new();
    let there = folders.iter().filter_map(|path| Some((path, identity(path)?)));
    there.filter(|(_, (device, inode, _))| seen.insert((*device, *inode))).collect()
}

fn identity(path: &Path) -> Option<Identity> {
    let metadata = std::fs::metadata(path).ok()?;
    metadata.is_dir().then(|| (metadata.dev(), metadata.ino(), metadata.created().ok()))
}

/// # Errors
/// Why there is none, for people.
fn watcher(sources: Sources, lost: Lost, stirred: watch::Sender<()>) -> Result<RecommendedWatcher, String> {
    // The library has a thread, and panics without one; so it is asked only if one is to be had.
    std::thread::Builder::new().spawn(|| ()).map_err(|error| format!("no thread to be had: {error}"))?;
    let handler = move |event: notify::Result<notify::Event>| {
        // What failed may be a change that is not told.
        let Ok(event) = event else { return stirred.send_replace(()) };
        if is_only_reading(event.kind) {
            return;
        }
        if matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
            let mut lost = lost.lock().unwrap_or_else(PoisonError::into_inner);
            let room = MOST_LOST.saturating_sub(lost.len());
            lost.extend(event.paths.iter().take(room).cloned());
        }
        if event.paths.is_empty() || !event.paths.iter().all(|path| sources.is_beside(path)) {
            stirred.send_replace(());
        }
    };
    // Somebody else may have got that thread. The library then panics at each use, and when it is dropped: such a watcher is
    // left behind, with its one descriptor.
    let watcher = notify::recommended_watcher(handler).map_err(|error| error.to_string())?;
    let mut watcher = ManuallyDrop::new(watcher);
    let works = catch_unwind(AssertUnwindSafe(|| drop(watcher.unwatch(Path::new("/nowhere")))));
    works.map_err(|_| "no thread to be had".to_owned())?;
    Ok(ManuallyDrop::into_inner(watcher))
}

/// Our own walks open and read.
fn is_only_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

fn is_gone(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(error) => {
            matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
        }
        _ => false,
    }
}

fn refusal(error: &notify::Error, folders: usize) -> String {
    match &error.kind {
        ErrorKind::MaxFilesWatch => format!(
            "{folders} folders of sources are more than the system watches: raise fs.inotify.max_user_watches, or name \
             fewer `sources`"
        ),
        _ => format!("the system does not watch the sources: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sources::Own;
    use super::*;
    use crate::config::Build;

    struct Watched {
        folder: tempfile::TempDir,
        folders: Folders,
        stirred: watch::Receiver<()>,
    }

    impl Watched {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let (run, at) = ("true".to_owned(), folder.path().to_owned());
            let build = Build { run, folder: at.clone(), sources: vec![at.clone()], ignore: Vec::new() };
            let own = Own { files: vec![at.join("trace")], plugins: at.join("plugins"), folders: Vec::new() };
            let sources = Sources::of(&build, &own).expect("sources");
            let (sender, stirred) = watch::channel(());
            Self { folder, folders: Folders::new(sources, sender), stirred }
        }

        fn follow(&mut self, names: &[&str]) -> bool {
            let folders = names.iter().map(|name| self.folder.path().join(name)).collect();
            let (new, watching) = self.folders.follow(&folders, Instant::now());
            assert_eq!(watching, Watching::Events);
            new
        }

        async fn stirs(&mut self) {
            let stirred = tokio::time::timeout(Duration::from_secs(30), self.stirred.changed()).await;
            stirred.expect("in time").expect("the sender is there");
        }
    }

    #[tokio::test]
    async fn what_changes_in_a_watched_folder_stirs_also_if_it_was_moved_away_and_back() {
        let mut watched = Watched::new();
        let at = watched.folder.path().to_owned();
        std::fs::create_dir(at.join("src")).expect("made");
        assert!(watched.follow(&["", "src"]));
        assert!(!watched.follow(&["", "src"]), "nothing new");
        std::fs::write(at.join("src/a"), "a").expect("written");
        watched.stirs().await;
        std::fs::rename(at.join("src"), at.join("away")).expect("moved");
        watched.stirs().await;
        std::fs::rename(at.join("away"), at.join("src")).expect("moved");
        watched.stirs().await;
        assert!(watched.follow(&["", "src"]), "watched anew");
        watched.stirred.borrow_and_update();
        std::fs::write(at.join("src/a"), "b").expect("written");
        watched.stirs().await;
    }

    #[tokio::test]
    async fn a_folder_with_two_names_is_watched_once_and_still_if_one_is_gone() {
        let mut watched = Watched::new();
        let at = watched.folder.path().to_owned();
        std::fs::create_dir(at.join("src")).expect("made");
        std::os::unix::fs::symlink("src", at.join("link")).expect("linked");
        assert!(watched.follow(&["link", "src"]));
        assert_eq!(watched.folders.watched.len(), 1);
        assert_eq!(watched.folders.by_the_system(), Watching::Events);
        watched.folders.watched.values_mut().for_each(|watched| watched.silent = Some("NFS"));
        let reason = "some are on NFS, which does not tell of all changes".to_owned();
        assert_eq!(watched.folders.by_the_system(), Watching::Clock(reason));
        watched.follow(&["src"]);
        watched.stirred.borrow_and_update();
        std::fs::write(at.join("src/a"), "a").expect("written");
        watched.stirs().await;
    }

    #[tokio::test]
    async fn folders_that_come_and_go_all_the_time_are_watched_as_ever() {
        let mut watched = Watched::new();
        let at = watched.folder.path().to_owned();
        for round in 0..MOST_FORGOTTEN + 10 {
            std::fs::create_dir(at.join("src")).expect("made");
            assert!(watched.follow(&["", "src"]), "round {round}");
            watched.stirred.borrow_and_update();
            std::fs::remove_dir(at.join("src")).expect("removed");
            watched.stirs().await;
        }
        watched.follow(&[""]);
        assert!(watched.folders.watched.len() == 1 && watched.folders.forgotten < 100);
    }

    #[tokio::test]
    async fn what_is_no_source_and_what_is_only_read_stirs_nothing() {
        let mut watched = Watched::new();
        let at = watched.folder.path().to_owned();
        std::fs::write(at.join("source"), "x").expect("written");
        watched.follow(&[""]);
        watched.stirred.borrow_and_update();
        std::fs::write(at.join("trace"), "x").expect("written");
        std::fs::write(at.join("x.wasm"), "x").expect("written");
        std::fs::read(at.join("source")).expect("read");
        std::fs::read_dir(&at).expect("read").count();
        // Events come in order: nothing has stirred before this one.
        let told = watched.stirred.clone();
        std::fs::write(at.join("source"), "y").expect("written");
        watched.stirs().await;
        assert!(told.has_changed().expect("the sender is there"));
        watched.follow(&[]);
        assert!(watched.folders.watched.is_empty());
    }

    #[test]
    fn a_folder_that_is_gone_is_no_fault_and_a_refusal_is_not_tried_again_at_once() {
        let mut watched = Watched::new();
        assert!(!watched.follow(&["gone"]));
        let now = Instant::now();
        watched.folders.refused = Some((now + AGAIN, "no".to_owned()));
        let clock = (false, Watching::Clock("no".to_owned()));
        assert_eq!(watched.folders.follow(&BTreeSet::new(), now), clock);
        assert_eq!(watched.folders.follow(&BTreeSet::new(), now + AGAIN), (false, Watching::Events));
    }
}
