//! Says when something stirs in a build's folders.
//!
//! Used by [`super::look`], which brings the set of folders up to date after each look. Each is watched by itself, so that
//! folders that hold no sources, such as a build's output, cost nothing. Invariants: whoever waits is told of every change
//! in a watched folder, perhaps once for many; our own reading tells nothing. Where the system does not say what changes,
//! [`Watching`] says why, and the clock has to do.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::sources::Sources;
use crate::watching::{DirectoryWatcher, News, Trouble};

/// Who says that it is time to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Watching {
    /// The system does.
    Events,
    /// The clock, for this reason.
    Clock(String),
}

/// See the file's head.
pub(super) struct Folders(DirectoryWatcher);

impl Folders {
    /// Nothing is watched yet. `stirred` is told of changes.
    pub(super) fn new(sources: Sources, stirred: watch::Sender<()>) -> Self {
        Self(DirectoryWatcher::new(Arc::new(move |news: News<'_>| {
            let is_beside = matches!(news, News::Of(path, _) if sources.is_beside(path));
            if !is_beside {
                stirred.send_replace(());
            }
        })))
    }

    /// Watches these folders and no others; if it cannot watch all of them, none, since the clock then has to do anyway.
    /// Gives whether there are new ones among them: what changed in one before it was watched, nobody has told of.
    pub(super) fn follow(&mut self, folders: &BTreeSet<PathBuf>, now: Instant) -> (bool, Watching) {
        let followed = self.0.follow(&folders.iter().collect(), now);
        let Some(trouble) = followed.trouble else {
            let reason = self.0.silent().map(on_silent);
            return (followed.more, reason.map_or(Watching::Events, Watching::Clock));
        };
        let reason = refusal(&trouble, folders.len());
        self.0.rest(trouble, now);
        (false, Watching::Clock(reason))
    }
}

fn on_silent(file_system: &str) -> String {
    format!("some are on {file_system}, which does not tell of all changes")
}

fn refusal(trouble: &Trouble, folders: usize) -> String {
    match trouble {
        Trouble::NoWatches => format!(
            "{folders} folders of sources are more than the system watches: raise fs.inotify.max_user_watches, or name \
             fewer `sources`"
        ),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        // Watched anew once it is told that it was moved, which need not be the first that is told.
        while !watched.follow(&["", "src"]) {
            watched.stirs().await;
        }
        watched.stirred.borrow_and_update();
        std::fs::write(at.join("src/a"), "b").expect("written");
        watched.stirs().await;
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
    }

    #[test]
    fn a_folder_that_is_gone_is_no_fault_and_a_refusal_stands_for_a_while() {
        let mut watched = Watched::new();
        assert!(!watched.follow(&["gone"]));
        let (now, none) = (Instant::now(), BTreeSet::new());
        watched.folders.0.rest(Trouble::NoWatches, now);
        let (new, Watching::Clock(reason)) = watched.folders.follow(&none, now) else {
            panic!("it was refused just now")
        };
        assert!(
            !new && reason.starts_with("0 folders of sources are more than the system watches: "),
            "{reason}"
        );
        let later = now + Duration::from_secs(3600);
        assert_eq!(watched.folders.follow(&none, later), (false, Watching::Events));
    }

    #[test]
    fn each_reason_says_what_it_is_about() {
        assert_eq!(on_silent("nfs"), "some are on nfs, which does not tell of all changes");
        let other = refusal(&Trouble::NoWatcher("too many".into()), 3);
        assert_eq!(other, "there is no watcher to be had: too many; raise fs.inotify.max_user_instances");
    }
}
