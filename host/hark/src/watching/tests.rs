//! The kernel's own inotify: each kind of change is told of, and of a directory that comes anew, too.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};

use super::*;

/// For as long as a machine under load may take.
const LONG: Duration = Duration::from_secs(30);

/// What was told, in order; none: that it was too little.
type Told = Vec<Option<(PathBuf, Change)>>;

/// A folder with others in it.
struct Watched {
    folder: tempfile::TempDir,
    watcher: DirectoryWatcher,
    told: Receiver<Option<(PathBuf, Change)>>,
}

impl Watched {
    /// Nothing is watched yet.
    fn new() -> Self {
        let (sender, told) = mpsc::channel();
        let ear = move |news: News<'_>| {
            // The test may be over.
            let _ = sender.send(match news {
                News::Of(path, change) => Some((path.to_owned(), change)),
                News::Lost => None,
            });
        };
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, watcher: DirectoryWatcher::new(Arc::new(ear)), told }
    }

    /// A folder `p` and the one in which it is are watched.
    fn with_one() -> Self {
        let mut watched = Self::new();
        fs::create_dir(watched.path("p")).expect("made");
        assert_eq!(watched.follow(&["", "p"]), Followed { more: true, trouble: None });
        assert_eq!(watched.follow(&["", "p"]), Followed::default(), "nothing to add");
        watched
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.folder.path().to_owned() } else { self.folder.path().join(name) }
    }

    fn wanted(&self, names: &[&str]) -> Directories {
        names.iter().map(|name| self.path(name)).collect::<Vec<_>>().iter().collect()
    }

    fn follow(&mut self, names: &[&str]) -> Followed {
        self.watcher.follow(&self.wanted(names), Instant::now())
    }

    /// What a change is told as. It comes in order, and what this causes last comes after it.
    fn hears_of(&self, what: &str, change: impl FnOnce(&Path)) -> Told {
        change(&self.path("p"));
        let mark = self.path("mark");
        fs::write(&mark, what).expect("written");
        let mut told = Told::new();
        loop {
            match self.told.recv_timeout(LONG).unwrap_or_else(|_| panic!("{what} is not told of")) {
                Some((path, Change::Closed)) if path == mark => return told,
                Some((path, _)) if path == mark => {}
                other => told.push(other),
            }
        }
    }
}

#[test]
fn each_kind_of_change_is_told_of() {
    let watched = Watched::with_one();
    let told = |name: &str, change| Some((watched.path("p").join(name), change));
    let news = watched.hears_of("a new file", |at| fs::write(at.join("a"), "1").expect("written"));
    let want = [Change::Other, Change::Written, Change::Closed].map(|change| told("a", change));
    assert_eq!(news, want);
    let mut open = None;
    let news = watched.hears_of("one being written", |at| {
        let mut file = fs::File::options().append(true).open(at.join("a")).expect("open");
        file.write_all(b"3").expect("written");
        open = Some(file);
    });
    assert_eq!(news, [told("a", Change::Written)]);
    let news = watched.hears_of("its end", |_| drop(open));
    assert_eq!(news, [told("a", Change::Closed)]);
    let news = watched.hears_of("permissions", |at| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(at.join("a"), mode).expect("set");
    });
    assert_eq!(news, [told("a", Change::Other)]);
    let news =
        watched.hears_of("a hard link", |at| fs::hard_link(at.join("a"), at.join("b")).expect("linked"));
    assert!(news.contains(&told("b", Change::Other)), "{news:?}");
    let news = watched.hears_of("a link", |at| symlink("a", at.join("c")).expect("linked"));
    assert_eq!(news, [told("c", Change::Other)]);
    fs::write(watched.path("other"), "x").expect("written");
    let news = watched
        .hears_of("renamed over", |at| fs::rename(watched.path("other"), at.join("a")).expect("renamed"));
    assert!(news.contains(&told("a", Change::Arrived)), "{news:?}");
    let news = watched.hears_of("moved", |at| fs::rename(at.join("a"), at.join("d")).expect("renamed"));
    assert_eq!(news, [told("a", Change::Gone), told("d", Change::Arrived)]);
    let news = watched.hears_of("removed", |at| fs::remove_file(at.join("b")).expect("removed"));
    assert!(news.contains(&told("b", Change::Gone)), "{news:?}");
    let news = watched.hears_of("a sub-folder", |at| fs::create_dir(at.join("s")).expect("made"));
    assert_eq!(news, [told("s", Change::Other)]);
    let news = watched.hears_of("its end", |at| fs::remove_dir(at.join("s")).expect("removed"));
    assert_eq!(news, [told("s", Change::Gone)]);
}

#[test]
fn reading_is_not_told_of() {
    let watched = Watched::with_one();
    watched.hears_of("a file", |at| fs::write(at.join("a"), "1").expect("written"));
    let news = watched.hears_of("the mark alone", |at| {
        fs::read(at.join("a")).expect("read");
        fs::read_dir(at).expect("read").for_each(drop);
    });
    assert_eq!(news, []);
}

#[test]
fn a_directory_that_is_moved_deleted_or_exchanged_is_watched_anew() {
    let mut watched = Watched::with_one();
    let (p, q) = (watched.path("p"), watched.path("q"));
    let again = |watched: &mut Watched, what: &str| {
        assert_eq!(watched.follow(&["", "p"]), Followed { more: true, trouble: None }, "{what}");
        assert!(watched.watcher.watches(&p), "{what}");
        let news = watched.hears_of(what, |at| fs::write(at.join("a"), what).expect("written"));
        assert!(news.contains(&Some((p.join("a"), Change::Closed))), "{what}: {news:?}");
        assert_eq!(watched.watcher.count(), 2, "and nothing else is");
    };
    watched.hears_of("moved away", |folder| fs::rename(folder, &q).expect("renamed"));
    assert!(!watched.watcher.watches(&p));
    watched.hears_of("and back", |folder| fs::rename(&q, folder).expect("renamed"));
    again(&mut watched, "after it was moved away and back");
    watched.hears_of("deleted", |folder| fs::remove_dir_all(folder).expect("removed"));
    assert_eq!(watched.follow(&["", "p"]), Followed::default(), "what is not there is no trouble");
    watched.hears_of("made again", |folder| fs::create_dir(folder).expect("made"));
    again(&mut watched, "after it was deleted and made again");
    fs::create_dir(watched.path("new")).expect("made");
    watched.hears_of("exchanged", |folder| {
        fs::rename(folder, &q).expect("renamed");
        fs::rename(folder.with_file_name("new"), folder).expect("renamed");
    });
    again(&mut watched, "after another was put in its place");
    fs::remove_dir_all(&q).expect("removed");
    fs::create_dir(&q).expect("made");
    watched.hears_of("replaced", |folder| {
        fs::remove_file(folder.join("a")).expect("removed");
        fs::rename(&q, folder).expect("renamed over");
    });
    again(&mut watched, "after another was renamed over it");
}

#[test]
fn what_lay_in_a_directory_that_was_moved_and_is_back_is_watched_anew() {
    let mut watched = Watched::with_one();
    fs::create_dir(watched.path("p/s")).expect("made");
    assert!(watched.follow(&["", "p", "p/s"]).more);
    watched.hears_of("moved away and back", |folder| {
        fs::rename(folder, folder.with_file_name("q")).expect("renamed");
        fs::rename(folder.with_file_name("q"), folder).expect("renamed");
    });
    assert!(watched.follow(&["", "p", "p/s"]).more);
    let news = watched.hears_of("a file", |folder| fs::write(folder.join("s/a"), "x").expect("written"));
    assert!(news.contains(&Some((watched.path("p/s/a"), Change::Closed))), "{news:?}");
}

#[test]
fn a_directory_with_two_names_is_watched_once_and_still_if_one_is_gone() {
    let mut watched = Watched::with_one();
    symlink("p", watched.path("link")).expect("linked");
    assert!(watched.follow(&["", "link", "p"]).more);
    assert_eq!(watched.watcher.count(), 2);
    watched.follow(&["", "p"]);
    let news = watched.hears_of("a file", |folder| fs::write(folder.join("a"), "x").expect("written"));
    assert!(news.contains(&Some((watched.path("p/a"), Change::Closed))), "{news:?}");
}

#[test]
fn directories_that_come_and_go_all_the_time_are_watched_as_ever() {
    let mut watched = Watched::with_one();
    for round in 0..MOST_GONE + 10 {
        watched.hears_of("its end", |folder| fs::remove_dir(folder).expect("removed"));
        fs::create_dir(watched.path("p")).expect("made");
        assert!(watched.follow(&["", "p"]).more, "round {round}");
    }
    assert!(watched.watcher.count() == 2 && watched.watcher.gone < 100);
}

#[test]
fn what_is_not_wanted_any_more_is_not_told_of() {
    let mut watched = Watched::with_one();
    watched.follow(&[""]);
    assert_eq!(watched.hears_of("nothing", |folder| fs::write(folder.join("a"), "x").expect("written")), []);
    assert_eq!(watched.watcher.count(), 1);
    watched.follow(&[]);
    assert_eq!(watched.watcher.count(), 0);
}

#[test]
fn without_a_thread_the_system_is_asked_again_later() {
    let mut watched = Watched::new();
    let (wanted, now) = (watched.wanted(&[""]), Instant::now());
    // A stack beyond all address space: the system refuses.
    let none = Builder::new().stack_size(1 << 50);
    let refused = watched.watcher.follow_on(none, &wanted, now);
    assert!(matches!(refused.trouble, Some(Trouble::NoThread(_))), "{refused:?}");
    let soon = now + AGAIN - Duration::from_millis(1);
    assert_eq!(watched.watcher.follow(&wanted, soon), refused, "it was refused just now");
    let later = watched.watcher.follow(&wanted, now + AGAIN);
    assert_eq!(later, Followed { more: true, trouble: None });
    assert!(watched.watcher.watches(watched.folder.path()));
}

#[test]
fn who_rests_watches_nothing_for_a_minute_however_often_he_says_so() {
    let mut watched = Watched::with_one();
    let (wanted, now) = (watched.wanted(&["", "p"]), Instant::now());
    watched.watcher.rest(Trouble::NoWatches, now);
    assert_eq!(watched.watcher.count(), 0);
    let soon = now + AGAIN - Duration::from_millis(1);
    let refused = Followed { more: false, trouble: Some(Trouble::NoWatches) };
    assert_eq!(watched.watcher.follow(&wanted, soon), refused);
    watched.watcher.rest(Trouble::NoWatches, soon);
    assert_eq!(watched.watcher.follow(&wanted, now + AGAIN), Followed { more: true, trouble: None });
}
