//! The thread with real files, and its parts with made-up time.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::folder::Stamp;
use crate::folder::ledger::PluginFile;

/// A plugins folder beside a configuration file that is not there.
struct Folder {
    _folder: tempfile::TempDir,
    at: PathBuf,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("there");
        fs::create_dir(at.join("p")).expect("made");
        Self { _folder: folder, at }
    }

    fn options(&self, watch: WatchMode, poll: Duration) -> LookOptions {
        LookOptions {
            place: Place { folder: self.at.join("p"), text: false, own: vec![] },
            configuration: self.at.join("hark.toml"),
            watch,
            poll: Some(poll),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.at.join("p").join(name)
    }

    /// A looker whose looks the test has itself, at the times that it says.
    fn looking(&self) -> (Looking, watch::Receiver<Arc<Seen>>) {
        let options = self.options(WatchMode::Poll, POLL);
        let (looking, seen, _) = Looking::new(options, Arc::default(), Arc::default());
        (looking, seen)
    }
}

/// Waits until something is seen, for as long as a machine under load may take.
async fn sees(looker: &mut Looker, what: &str, is: impl Fn(&Seen) -> bool) -> Arc<Seen> {
    let seen = tokio::time::timeout(Duration::from_secs(30), looker.seen.wait_for(|seen| is(seen))).await;
    seen.unwrap_or_else(|_| panic!("{what} is not seen")).expect("the thread goes on").clone()
}

fn settled<'a>(seen: &'a Seen, stem: &str) -> Option<&'a PluginFile> {
    match seen.files.get(stem) {
        Some(Standing::Settled(file)) => Some(file),
        _ => None,
    }
}

/// The clock is so slow that what is seen was told of.
const NEVER: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn what_the_file_system_tells_is_seen_without_the_clock() {
    let folder = Folder::new();
    let mut looker = Looker::start(folder.options(WatchMode::Auto, NEVER)).expect("a thread");
    sees(&mut looker, "the folder", |seen| seen.state == FolderState::Readable).await;
    fs::write(folder.path("a.wasm"), "1").expect("written");
    let first = sees(&mut looker, "a file", |seen| settled(seen, "a").is_some()).await;
    fs::write(folder.path("a.wasm"), "22").expect("written");
    let before = settled(&first, "a").cloned();
    sees(&mut looker, "its change", |seen| {
        settled(seen, "a").is_some() && settled(seen, "a") != before.as_ref()
    })
    .await;
    fs::remove_file(folder.path("a.wasm")).expect("removed");
    sees(&mut looker, "its end", |seen| seen.files.is_empty()).await;
    assert_eq!(looker.seen.borrow().way, Way::Events);
    assert!(looker.stats.looks(Cause::Told) >= 3);
    assert_eq!(looker.stats.looks(Cause::Clock), 1, "the first");
    assert_eq!(looker.stats.directories(), 2, "the folder, and that of the configuration file");
}

#[tokio::test]
async fn links_are_followed_to_directories_that_were_not_watched_before() {
    let folder = Folder::new();
    for number in ["1", "2", "3"] {
        fs::create_dir(folder.at.join(number)).expect("made");
        fs::write(folder.at.join(number).join("a.wasm"), number).expect("written");
    }
    let retarget = |number: &str| {
        symlink(format!("../{number}"), folder.path("..new")).expect("a link");
        fs::rename(folder.path("..new"), folder.path("..data")).expect("renamed");
    };
    retarget("1");
    symlink("..data/a.wasm", folder.path("a.wasm")).expect("a link");
    let mut looker = Looker::start(folder.options(WatchMode::Auto, NEVER)).expect("a thread");
    let mut stamp = None;
    let another = |before: Option<Stamp>| {
        move |seen: &Seen| settled(seen, "a").is_some_and(|file| Some(file.stamp) != before)
    };
    for number in ["1", "2", "3"] {
        retarget(number);
        let seen = sees(&mut looker, number, another(stamp)).await;
        stamp = settled(&seen, "a").map(|file| file.stamp);
        assert_eq!(stamp, Stamp::read(&folder.path("a.wasm")), "{number}");
        fs::write(folder.at.join(number).join("a.wasm"), "in place").expect("written");
        let seen = sees(&mut looker, "in place", another(stamp)).await;
        stamp = settled(&seen, "a").map(|file| file.stamp);
    }
}

#[tokio::test]
async fn a_folder_is_waited_for_and_the_configuration_is_read_when_it_comes() {
    let folder = Folder::new();
    fs::remove_dir(folder.at.join("p")).expect("removed");
    let mut looker = Looker::start(folder.options(WatchMode::Auto, NEVER)).expect("a thread");
    let unreadable = |seen: &Seen| matches!(seen.state, FolderState::Unreadable(_));
    sees(&mut looker, "that it is missing", unreadable).await;
    fs::create_dir(folder.at.join("p")).expect("made");
    sees(&mut looker, "the folder", |seen| seen.state == FolderState::Readable).await;
    fs::write(folder.at.join("hark.toml"), "[host]\n").expect("written");
    let read = tokio::time::timeout(Duration::from_secs(30), looker.configuration.changed()).await;
    read.expect("the configuration is read").expect("the thread goes on");
    assert!(looker.configuration.borrow().as_ref().is_some_and(|read| read.is_ok()));
}

#[tokio::test]
async fn by_the_clock_alone_everything_is_seen_too() {
    let folder = Folder::new();
    let options = folder.options(WatchMode::Poll, Duration::from_millis(10));
    let mut looker = Looker::start(options).expect("a thread");
    fs::write(folder.path("a.wasm"), "1").expect("written");
    sees(&mut looker, "a file", |seen| settled(seen, "a").is_some()).await;
    fs::remove_file(folder.path("a.wasm")).expect("removed");
    sees(&mut looker, "its end", |seen| seen.state == FolderState::Readable && seen.files.is_empty()).await;
    assert_eq!(looker.seen.borrow().way, Way::Polled(Why::Setting));
    assert_eq!((looker.stats.looks(Cause::Told), looker.stats.directories()), (0, 0));
}

#[tokio::test]
async fn who_asks_gets_a_look_and_the_thread_ends_with_its_owner() {
    let folder = Folder::new();
    let mut looker = Looker::start(folder.options(WatchMode::Poll, NEVER)).expect("a thread");
    sees(&mut looker, "the folder", |seen| seen.state == FolderState::Readable).await;
    fs::write(folder.path("a.wasm"), "1").expect("written");
    looker.look();
    sees(&mut looker, "a file", |seen| settled(seen, "a").is_some()).await;
    let mut seen = looker.seen.clone();
    drop(looker);
    let ended = async { while seen.changed().await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("it ends");
}

#[test]
fn a_dispute_is_told_when_it_lasts_and_takes_nothing_away() {
    let folder = Folder::new();
    let (mut looking, seen) = folder.looking();
    let begin = Instant::now() - Duration::from_secs(60);
    // All files are old.
    let clock = SystemTime::now() + Duration::from_secs(60);
    let mut look = |ms| looking.look(Cause::Clock, begin + Duration::from_millis(ms), clock);
    fs::write(folder.path("a.wasm"), "1").expect("written");
    look(0);
    fs::create_dir(folder.path("s")).expect("made");
    fs::write(folder.path("s/a.wasm"), "2").expect("written");
    look(100);
    assert!(settled(&seen.borrow(), "a").is_some(), "what ran goes on");
    assert!(seen.borrow().disputed.is_empty(), "not yet");
    look(1100);
    assert_eq!(seen.borrow().disputed["a"], [folder.path("a.wasm"), folder.path("s/a.wasm")]);
    look(9000);
    assert_eq!(settled(&seen.borrow(), "a").map(|file| file.path.clone()), Some(folder.path("a.wasm")));
    fs::remove_file(folder.path("a.wasm")).expect("removed");
    look(9100);
    assert!(seen.borrow().disputed.is_empty());
    assert_eq!(settled(&seen.borrow(), "a").map(|file| file.path.clone()), Some(folder.path("s/a.wasm")));
}

#[test]
fn a_folder_that_cannot_be_read_says_nothing_about_what_is_in_it() {
    let folder = Folder::new();
    let (mut looking, seen) = folder.looking();
    let begin = Instant::now();
    let clock = SystemTime::now() + Duration::from_secs(60);
    let mut look = |ms| looking.look(Cause::Clock, begin + Duration::from_millis(ms), clock);
    fs::write(folder.path("a.wasm"), "1").expect("written");
    look(0);
    fs::rename(folder.at.join("p"), folder.at.join("q")).expect("renamed");
    look(100);
    look(60_000);
    assert!(matches!(&seen.borrow().state, FolderState::Unreadable(error) if error.contains("No such file")));
    assert!(settled(&seen.borrow(), "a").is_some());
    fs::create_dir(folder.at.join("p")).expect("made");
    look(61_000);
    assert_eq!(seen.borrow().files["a"], Standing::Leaving, "now it is missing");
    look(63_000);
    assert!(seen.borrow().files.is_empty());
}

#[test]
fn what_did_not_change_is_not_told_again() {
    let folder = Folder::new();
    let (mut looking, mut seen) = folder.looking();
    let clock = SystemTime::now() + Duration::from_secs(60);
    fs::write(folder.path("a.wasm"), "1").expect("written");
    for second in 0..5 {
        looking.look(Cause::Clock, Instant::now() + Duration::from_secs(second), clock);
        assert_eq!(seen.has_changed().expect("open"), second == 0);
        seen.borrow_and_update();
    }
}

#[test]
fn looks_at_a_thousand_files_that_did_not_change_tell_nothing_until_one_does() {
    let folder = Folder::new();
    for number in 0..1000 {
        fs::write(folder.path(&format!("p{number}.wasm")), "1").expect("written");
    }
    let (mut looking, mut seen) = folder.looking();
    let clock = SystemTime::now() + Duration::from_secs(60);
    looking.look(Cause::Clock, Instant::now(), clock);
    assert_eq!(seen.borrow_and_update().files.len(), 1000);
    for _ in 0..5 {
        looking.look(Cause::Clock, Instant::now(), clock);
        assert!(!seen.has_changed().expect("open"));
    }
    // Another file, which may be old; one that had changed in place would have to be still first.
    fs::write(folder.path("p7.new"), "22").expect("written");
    fs::rename(folder.path("p7.new"), folder.path("p7.wasm")).expect("renamed");
    looking.look(Cause::Clock, Instant::now(), clock);
    assert!(seen.has_changed().expect("open"));
    assert_eq!(settled(&seen.borrow(), "p7").map(|file| file.stamp.size()), Some(2));
}

#[test]
fn a_change_that_is_older_than_the_look_before_has_no_time() {
    let folder = Folder::new();
    fs::write(folder.path("a.wasm"), "1").expect("written");
    let scan = scan(&folder.options(WatchMode::Poll, POLL).place, None).expect("readable");
    let plugin = &scan.plugins["a"];
    let changed = plugin.changed.expect("a time");
    let tick = plugin.stamp.resolution();
    assert_eq!(believed(plugin, None), Some(changed), "there was no look before");
    assert_eq!(believed(plugin, Some(changed - tick)), Some(changed));
    assert_eq!(believed(plugin, Some(changed + tick)), Some(changed), "clocks have ticks");
    assert_eq!(believed(plugin, Some(changed + tick + Duration::from_nanos(1))), None);

    let (mut looking, seen) = folder.looking();
    let begin = Instant::now();
    let mut look = |ms, clock| {
        looking.look(Cause::Clock, begin + Duration::from_millis(ms), clock);
        let seen = seen.borrow().clone();
        match seen.files.get("a") {
            Some(Standing::Settled(file) | Standing::Settling(file)) => file.changed,
            other => panic!("{other:?}"),
        }
    };
    fs::rename(folder.path("a.wasm"), folder.at.join("old")).expect("renamed");
    fs::create_dir(folder.path("s")).expect("made");
    fs::write(folder.path("s/a.wasm"), "22").expect("written");
    let later = SystemTime::now() + Duration::from_secs(5);
    assert!(look(0, later).is_some(), "the first look");
    assert!(look(500, later).is_some(), "it stays");
    fs::rename(folder.path("s"), folder.path("t")).expect("renamed");
    assert_eq!(look(1000, later), None, "the folder was moved, which the file does not know");
}
