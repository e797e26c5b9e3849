//! The kernel's own inotify: each kind of change is told of, and of a directory that comes anew, too.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;

use super::super::told::{Interest, Wake};
use super::*;

/// A directory with one name that matters beside the plugins folder, which is scanned.
struct Watched {
    _folder: tempfile::TempDir,
    at: PathBuf,
    mailbox: Arc<Mailbox>,
    watcher: Watcher,
    /// Directories that went away since the set was brought up to date.
    moved: Vec<PathBuf>,
}

impl Watched {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("there");
        fs::create_dir(at.join("p")).expect("made");
        let mailbox = Arc::new(Mailbox::default());
        let watcher = Watcher::new(WatchMode::Auto, mailbox.clone());
        let mut watched = Self { _folder: folder, at, mailbox, watcher, moved: vec![] };
        assert_eq!(watched.follow(), Followed { more: true, trouble: None });
        assert_eq!(watched.follow(), Followed::default(), "nothing to add");
        watched
    }

    fn wanted(&self) -> Interests {
        let all = Interest { all: true, ..Interest::default() };
        let named = Interest { names: ["hark.toml".into(), "p".into()].into(), ..Interest::default() };
        Interests::from([(self.at.join("p"), all), (self.at.clone(), named)])
    }

    fn follow(&mut self) -> Followed {
        let mut news = self.mailbox.take();
        news.moved.append(&mut self.moved);
        self.watcher.follow(self.wanted(), &news, Builder::new(), Instant::now())
    }

    /// Waits for word of a change; then for the silence after it, so that the next word is of the next change.
    fn hears_of(&mut self, what: &str, change: impl FnOnce(&Path)) -> News {
        let begun = Instant::now();
        change(&self.at.join("p"));
        let woken = self.mailbox.wait(begun, begun + Duration::from_secs(10));
        assert_eq!(woken, Wake::Told, "{what}");
        // notify hands over in order: what this file causes comes last.
        let mark = self.at.join("hark.toml");
        fs::write(&mark, what).expect("written");
        let mut all = News::default();
        while !all.whole.contains(&mark) {
            let now = Instant::now();
            assert_eq!(
                self.mailbox.wait(now, now + Duration::from_secs(10)),
                Wake::Told,
                "the mark of {what}"
            );
            let news = self.mailbox.take();
            all.whole.extend(news.whole);
            all.moved.extend(news.moved);
        }
        self.moved.extend(all.moved.clone());
        all
    }
}

#[test]
fn each_kind_of_change_is_told_of() {
    let mut watched = Watched::new();
    let at = watched.at.clone();
    let path = |name: &str| at.join("p").join(name);
    let whole = |news: &News, name: &str| news.whole.contains(&path(name));
    let news = watched.hears_of("a new file", |at| fs::write(at.join("a.wasm"), "1").expect("written"));
    assert!(whole(&news, "a.wasm"));
    let news =
        watched.hears_of("one written in place", |at| fs::write(at.join("a.wasm"), "22").expect("written"));
    assert!(whole(&news, "a.wasm"));
    let mut open = None;
    let news = watched.hears_of("one being written", |at| {
        let mut file = fs::File::options().append(true).open(at.join("a.wasm")).expect("open");
        file.write_all(b"3").expect("written");
        open = Some(file);
    });
    assert!(!whole(&news, "a.wasm"));
    let real = path("a.wasm");
    assert!(watched.mailbox.writing(&[real.as_path()].into()).contains(&real));
    let news = watched.hears_of("its end", |_| drop(open));
    assert!(whole(&news, "a.wasm"));
    assert!(watched.mailbox.writing(&[real.as_path()].into()).is_empty());
    watched.hears_of("permissions", |at| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(at.join("a.wasm"), mode).expect("set");
    });
    watched
        .hears_of("a hard link", |at| fs::hard_link(at.join("a.wasm"), at.join("b.wasm")).expect("linked"));
    watched.hears_of("a link", |at| symlink("a.wasm", at.join("c.wasm")).expect("linked"));
    fs::write(at.join("other"), "x").expect("written");
    let other = at.join("other");
    let news = watched.hears_of("renamed over", |at| fs::rename(&other, at.join("a.wasm")).expect("renamed"));
    assert!(whole(&news, "a.wasm"));
    let news = watched.hears_of("removed", |at| fs::remove_file(at.join("b.wasm")).expect("removed"));
    assert_eq!(news.moved, [path("b.wasm")]);
    watched.hears_of("a sub-folder", |at| fs::create_dir(at.join("s")).expect("made"));
    watched.hears_of("its end", |at| fs::remove_dir(at.join("s")).expect("removed"));
}

#[test]
fn reading_tells_nothing() {
    let mut watched = Watched::new();
    watched.hears_of("a file", |at| fs::write(at.join("a.wasm"), "1").expect("written"));
    fs::read(watched.at.join("p/a.wasm")).expect("read");
    fs::read_dir(watched.at.join("p")).expect("read").for_each(drop);
    let news = watched.hears_of("the mark alone", |at| {
        fs::write(at.join("../hark.toml"), "").expect("written");
    });
    assert_eq!(news.whole.len(), 1, "{news:?}");
}

#[test]
fn a_directory_that_is_moved_deleted_or_exchanged_is_watched_anew() {
    let mut watched = Watched::new();
    let at = watched.at.clone();
    let again = |watched: &mut Watched, what: &str| {
        watched.follow();
        assert!(watched.watcher.watches(&at.join("p")), "{what}");
        watched.hears_of(what, |at| fs::write(at.join("a.wasm"), what).expect("written"));
    };
    watched.hears_of("moved away", |folder| fs::rename(folder, at.join("q")).expect("renamed"));
    assert!(!watched.watcher.watches(&at.join("p")));
    watched.hears_of("and back", |folder| fs::rename(at.join("q"), folder).expect("renamed"));
    again(&mut watched, "after it was moved away and back");
    watched.hears_of("deleted", |folder| fs::remove_dir_all(folder).expect("removed"));
    assert_eq!(watched.follow().trouble, None, "what is not there is no trouble");
    watched.hears_of("made again", |folder| fs::create_dir(folder).expect("made"));
    again(&mut watched, "after it was deleted and made again");
    fs::create_dir(at.join("new")).expect("made");
    watched.hears_of("exchanged", |folder| {
        fs::rename(folder, at.join("old")).expect("renamed");
        fs::rename(at.join("new"), folder).expect("renamed");
    });
    again(&mut watched, "after another was put in its place");
    assert_eq!(watched.watcher.count(), 2, "and nothing else is");
}

#[test]
fn one_directory_under_two_names_is_watched_once_with_the_names_of_both() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().canonicalize().expect("there");
    fs::create_dir(at.join("d")).expect("made");
    symlink("d", at.join("e")).expect("a link");
    let one = Interest { names: ["x".into()].into(), ..Interest::default() };
    let other = Interest { all: true, names: ["y".into()].into() };
    let (interests, identities) = once_each(Interests::from([(at.join("d"), one), (at.join("e"), other)]));
    let both = Interest { all: true, names: ["x".into(), "y".into()].into() };
    assert_eq!(interests, Interests::from([(at.join("d"), both)]));
    assert_eq!(identities.into_keys().collect::<Vec<_>>(), [at.join("d")]);
}

#[test]
fn without_a_thread_the_clock_must_do_and_the_system_is_asked_again_later() {
    let mailbox = Arc::new(Mailbox::default());
    let mut watcher = Watcher::new(WatchMode::Auto, mailbox);
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().canonicalize().expect("there");
    let wanted = || Interests::from([(at.clone(), Interest { all: true, ..Interest::default() })]);
    let (now, news) = (Instant::now(), News::default());
    // A stack beyond all address space: the system refuses.
    let none = || Builder::new().stack_size(1 << 50);
    let refused = watcher.follow(wanted(), &news, none(), now).trouble;
    assert!(matches!(refused, Some(Why::NoThread(_))), "{refused:?}");
    let soon = now + AGAIN - Duration::from_millis(1);
    assert_eq!(
        watcher.follow(wanted(), &news, Builder::new(), soon).trouble,
        refused,
        "it was refused just now"
    );
    let later = watcher.follow(wanted(), &news, Builder::new(), now + AGAIN);
    assert_eq!(later, Followed { more: true, trouble: None });
    assert!(watcher.watches(&at));
}

#[test]
fn by_setting_nothing_is_watched() {
    let mut watcher = Watcher::new(WatchMode::Poll, Arc::new(Mailbox::default()));
    let wanted = Interests::from([("/".into(), Interest::default())]);
    let followed = watcher.follow(wanted, &News::default(), Builder::new(), Instant::now());
    assert_eq!(followed, Followed { more: false, trouble: Some(Why::Setting) });
    assert_eq!(watcher.count(), 0);
}
