//! Has the file system tell of changes in the directories that a look went through.
//!
//! Used by the looker. Invariants: a directory is watched by its path without links; what matters of it is what matters
//! under each of its names.

use std::path::Path;
use std::sync::Arc;

use tokio::time::Instant;

use super::told::{Interests, Mailbox};
use super::way::{WatchMode, Why};
use crate::watching::{Directories, DirectoryWatcher, News};

/// See the file's head.
pub(super) struct Watcher {
    mode: WatchMode,
    mailbox: Arc<Mailbox>,
    directories: DirectoryWatcher,
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
    /// What is told goes into the mailbox.
    pub(super) fn new(mode: WatchMode, mailbox: Arc<Mailbox>) -> Self {
        let ear = mailbox.clone();
        let directories = DirectoryWatcher::new(Arc::new(move |news: News<'_>| ear.hear(news)));
        Self { mode, mailbox, directories }
    }

    /// Directories that are watched.
    pub(super) fn count(&self) -> usize {
        self.directories.count()
    }

    /// Whether a directory is watched, and the one that was there when that began.
    pub(super) fn watches(&self, directory: &Path) -> bool {
        self.directories.watches(directory)
    }

    /// Watches what is wanted, and nothing else.
    pub(super) fn follow(&mut self, wanted: Interests, now: Instant) -> Followed {
        if self.mode == WatchMode::Poll {
            return Followed { more: false, trouble: Some(Why::Setting) };
        }
        let (interests, directories) = once_each(wanted);
        self.mailbox.lock().interests = interests;
        let followed = self.directories.follow(&directories, now);
        let silent = self.directories.silent().filter(|_| self.mode == WatchMode::Auto);
        let trouble = silent.map(Why::FileSystem).or(followed.trouble.map(Why::Unwatched));
        Followed { more: followed.more, trouble }
    }
}

/// Directories that are there, each under one name, with the names that matter under all of them.
fn once_each(wanted: Interests) -> (Interests, Directories) {
    let (mut interests, mut directories) = (Interests::new(), Directories::default());
    for (path, interest) in wanted {
        let Some(name) = directories.add(&path) else { continue };
        let all = interests.entry(name.to_owned()).or_default();
        all.all |= interest.all;
        all.names.extend(interest.names);
    }
    (interests, directories)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::super::told::{Interest, Wake};
    use super::*;

    #[test]
    fn what_is_told_of_a_directory_that_matters_is_in_the_mailbox() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("there");
        let mailbox = Arc::new(Mailbox::default());
        let mut watcher = Watcher::new(WatchMode::Auto, mailbox.clone());
        let wanted = || {
            Interests::from([(at.clone(), Interest { names: ["a".into()].into(), ..Interest::default() })])
        };
        assert_eq!(watcher.follow(wanted(), Instant::now()), Followed { more: true, trouble: None });
        assert_eq!(watcher.follow(wanted(), Instant::now()), Followed::default(), "nothing to add");
        assert!(watcher.watches(&at) && watcher.count() == 1);
        fs::write(at.join("b"), "no matter").expect("written");
        fs::write(at.join("a"), "1").expect("written");
        let mut whole = std::collections::BTreeSet::new();
        while whole.is_empty() {
            let now = Instant::now();
            assert_eq!(mailbox.wait(now, now + Duration::from_secs(30)), Wake::Told);
            whole = mailbox.take().whole;
        }
        assert_eq!(whole, [at.join("a")].into());
    }

    #[test]
    fn one_directory_under_two_names_is_watched_once_with_the_names_of_both() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("there");
        fs::create_dir(at.join("d")).expect("made");
        symlink("d", at.join("e")).expect("a link");
        let one = Interest { names: ["x".into()].into(), ..Interest::default() };
        let other = Interest { all: true, names: ["y".into()].into() };
        let (interests, _) = once_each(Interests::from([(at.join("d"), one), (at.join("e"), other)]));
        let both = Interest { all: true, names: ["x".into(), "y".into()].into() };
        assert_eq!(interests, Interests::from([(at.join("d"), both)]));
    }

    #[test]
    fn by_setting_nothing_is_watched() {
        let mut watcher = Watcher::new(WatchMode::Poll, Arc::new(Mailbox::default()));
        let wanted = Interests::from([("/".into(), Interest::default())]);
        let followed = watcher.follow(wanted, Instant::now());
        assert_eq!(followed, Followed { more: false, trouble: Some(Why::Setting) });
        assert_eq!(watcher.count(), 0);
    }
}
