//! Tables and real files: what is written comes back, what is damaged does not, and what the disk refuses waits.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::{SystemTime, UNIX_EPOCH};

use super::writer::Work;
use super::*;
use crate::state_folder::{Cluster, UNFINISHED};

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_795_000_000 + seconds)
}

fn good(content: &str, seconds: u64) -> Option<Good> {
    Some(Good { hash: ContentHash::of(content.as_bytes()), since: at(seconds) })
}

fn rolled_back(content: &str) -> Option<RolledBack> {
    let hash = ContentHash::of(content.as_bytes());
    Some(RolledBack { hash, at: at(0), why: "add n/a: trap: boom".into() })
}

/// A file in a folder, as it was just read.
fn fresh(folder: &Path, content: &str, held: bool) -> Fresh {
    let (path, hash) = (folder.join(content), ContentHash::of(content.as_bytes()));
    std::fs::write(&path, content).expect("written");
    let bytes = held.then(|| Arc::new(Content::read(&path).expect("read")));
    Fresh { hash, path, bytes }
}

/// A state folder, one for plugins' files, and the thread's work on it.
struct Case {
    state: tempfile::TempDir,
    plugins: tempfile::TempDir,
    work: Work,
}

impl Case {
    fn new() -> Self {
        let (state, plugins) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let place = StatePlace::new(state.path(), &Cluster::dev(), None);
        let work = Work::new(place, KeptFolder::in_folder(&state.path().join("dev")), BTreeMap::new());
        Self { state, plugins, work }
    }

    fn folder(&self) -> KeptFolder {
        KeptFolder::in_folder(&self.state.path().join("dev"))
    }

    fn update(&mut self, plugin: &str, record: Record, fresh: Vec<Fresh>) {
        self.work.update(plugin.to_owned(), record, fresh);
        self.work.write();
    }

    /// One that is good, with its bytes.
    fn good(&mut self, plugin: &str, content: &str, seconds: u64) {
        let fresh = fresh(self.plugins.path(), content, true);
        self.update(plugin, Record { good: good(content, seconds), ..Record::default() }, vec![fresh]);
    }

    fn names(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.folder().path()).expect("readable");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into()).collect()
    }
}

fn name(content: &str) -> String {
    format!("{}.wasm", ContentHash::of(content.as_bytes()))
}

#[test]
fn what_is_written_is_its_owners_alone_and_comes_back_as_it_was() {
    let mut case = Case::new();
    case.good("a", "one", 1);
    let refused = Record { good: good("two", 2), candidate: None, rolled_back: rolled_back("bad") };
    let two = fresh(case.plugins.path(), "two", false);
    case.update("b", refused.clone(), vec![two]);
    let want = BTreeSet::from([name("one"), name("two"), "versions.json".to_owned()]);
    assert_eq!(case.names(), want);
    let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(case.folder().path()), 0o700);
    for name in &want {
        assert_eq!(mode(&case.folder().path().join(name)), 0o600, "{name}");
    }
    let one = Record { good: good("one", 1), ..Record::default() };
    assert_eq!(case.folder().read(), BTreeMap::from([("a".to_owned(), one), ("b".to_owned(), refused)]));
    for content in ["one", "two"] {
        let hash = ContentHash::of(content.as_bytes());
        let bytes = read(&case.folder().path_of(&hash), &hash).expect("whole");
        assert_eq!(&*bytes, content.as_bytes());
    }
}

#[test]
fn contents_that_nobody_speaks_of_go_and_foreign_files_stay() {
    let mut case = Case::new();
    case.good("a", "one", 1);
    for name in ["notes.txt", "ab.wasm", "x.new", &format!("{}.new", name("half"))] {
        std::fs::write(case.folder().path().join(name), "x").expect("written");
    }
    let candidate =
        Record { candidate: Some(ContentHash::of(b"two")), good: good("one", 1), rolled_back: None };
    let two = fresh(case.plugins.path(), "two", true);
    case.update("a", candidate, vec![two]);
    let foreign = ["notes.txt", "ab.wasm", "x.new"].map(str::to_owned);
    let mut want = BTreeSet::from(foreign.clone());
    want.extend([name("one"), name("two"), "versions.json".to_owned()]);
    assert_eq!(case.names(), want, "both, while one is on trial");
    case.update("a", Record { good: good("two", 2), ..Record::default() }, vec![]);
    want.remove(&name("one"));
    assert_eq!(case.names(), want);
    case.update("a", Record::default(), vec![]);
    want.remove(&name("two"));
    assert_eq!(case.names(), want);
    assert_eq!(case.folder().read(), BTreeMap::new());
}

#[test]
fn what_a_killed_host_left_goes_if_there_is_a_document_to_go_by() {
    let mut case = Case::new();
    case.good("a", "one", 1);
    let leave = |case: &Case| {
        for name in [name("refused"), format!("{}.{UNFINISHED}", name("half"))] {
            std::fs::write(case.folder().path().join(name), "left").expect("written");
        }
    };
    leave(&case);
    case.work.sweep_after_a_kill();
    assert_eq!(case.names(), BTreeSet::from([name("one"), "versions.json".to_owned()]));
    leave(&case);
    let place = StatePlace::new(case.state.path(), &Cluster::dev(), None);
    Work::new(place, case.folder(), BTreeMap::new()).sweep_after_a_kill();
    assert_eq!(case.names().len(), 4, "it may be damaged, and be mended by hand");
}

#[test]
fn what_is_damaged_is_ignored_one_by_one() {
    let mut case = Case::new();
    case.good("a", "one", 1);
    let path = case.folder().path().join("versions.json");
    let whole = std::fs::read_to_string(&path).expect("read");
    let one = whole.find("\"a\"").expect("a's part");
    let others = r#""b": {"good": {"sha256": "../../passwd", "since": "2026-11-30T00:00:00Z"}}, "c": 7,
        "d": {"rolled_back": {"sha256": "HASH", "at": "yesterday", "why": ""}},
        "e": {"rolled_back": {"sha256": "HASH", "at": "2026-11-30T00:00:00Z", "why": "\u001b[2J\n"}}, "#;
    let others = others.replace("HASH", &ContentHash::of(b"bad").to_string());
    std::fs::write(&path, format!("{}{others}{}", &whole[..one], &whole[one..])).expect("written");
    let read = case.folder().read();
    assert_eq!(read.keys().collect::<Vec<_>>(), ["a", "e"]);
    assert_eq!(read["e"].rolled_back.as_ref().map(|one| one.why.as_str()), Some(" [2J "));
    for damaged in ["", "{", "[]", "\u{0}", &"[".repeat(100_000), r#"{"plugins": []}"#] {
        std::fs::write(&path, damaged).expect("written");
        assert_eq!(case.folder().read(), BTreeMap::new(), "{:.20}", damaged);
    }
    std::fs::remove_file(&path).expect("removed");
    std::fs::create_dir(&path).expect("in the way");
    assert_eq!(case.folder().read(), BTreeMap::new());
}

#[test]
fn a_content_that_is_not_what_it_is_to_be_is_named_and_written_again() {
    let mut case = Case::new();
    case.good("a", "one", 1);
    let hash = ContentHash::of(b"one");
    let path = case.folder().path_of(&hash);
    std::fs::write(&path, "two").expect("written");
    let error = read(&path, &hash).map(drop).expect_err("damaged");
    assert!(error.starts_with(&format!("{} is damaged", path.display())), "{error}");
    case.good("a", "one", 2);
    assert!(read(&path, &hash).is_ok());
    std::fs::remove_file(&path).expect("removed");
    let error = read(&path, &hash).map(drop).expect_err("gone");
    assert!(error.starts_with(&path.display().to_string()), "{error}");
}

#[test]
fn what_others_may_have_written_is_as_if_it_were_not_there_and_is_written_anew() {
    let mut case = Case::new();
    case.good("a", "one", 1);
    let written = case.folder().read();
    assert_eq!(written.len(), 1);
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its mode");
    };
    let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
    let hash = ContentHash::of(b"one");
    let (document, content) = (case.folder().path().join("versions.json"), case.folder().path_of(&hash));
    set_mode(&document, 0o666);
    set_mode(&content, 0o602);
    assert_eq!(case.folder().read(), BTreeMap::new());
    let error = read(&content, &hash).map(drop).expect_err("not to be trusted");
    assert!(error.contains(" may write to ") && error.contains("(mode 0602)"), "{error}");
    case.good("a", "one", 1);
    assert_eq!((mode(&document), mode(&content)), (0o600, 0o600));
    assert_eq!(case.folder().read(), written);
    assert!(read(&content, &hash).is_ok());
    // A folder of ours that is open is closed, and what lies in it is judged by itself.
    set_mode(case.folder().path(), 0o777);
    assert!(read(&content, &hash).is_err(), "not before it is closed");
    assert_eq!(case.folder().read(), written);
    assert_eq!(mode(case.folder().path()), 0o700);
}

#[test]
fn nothing_is_written_through_a_link() {
    let mut case = Case::new();
    case.good("a", "one", 1);
    let (folder, elsewhere) = (case.folder(), case.plugins.path().join("elsewhere"));
    std::fs::write(&elsewhere, "another's").expect("written");
    let beside = folder.path().join(format!("versions.json.{UNFINISHED}"));
    std::os::unix::fs::symlink(&elsewhere, &beside).expect("a link");
    case.good("a", "two", 2);
    assert_eq!(folder.read().len(), 1);
    assert_eq!(std::fs::read_to_string(&elsewhere).expect("there"), "another's");
    // Nor into a folder that is one.
    let kept = folder.path().to_owned();
    std::fs::rename(&kept, case.plugins.path().join("kept")).expect("moved");
    std::os::unix::fs::symlink(case.plugins.path().join("kept"), &kept).expect("a link");
    assert_eq!(folder.read(), BTreeMap::new());
    case.good("a", "three", 3);
    assert!(case.work.state().2, "it cannot be written");
}

#[test]
fn a_version_whose_bytes_are_not_to_be_had_is_not_said_to_be_good() {
    let mut case = Case::new();
    let gone = fresh(case.plugins.path(), "one", false);
    std::fs::write(&gone.path, "another build").expect("written");
    let record = Record { good: good("one", 1), candidate: None, rolled_back: rolled_back("bad") };
    case.update("a", record, vec![gone]);
    let kept = case.folder().read();
    assert_eq!(kept["a"], Record { rolled_back: rolled_back("bad"), ..Record::default() });
}

#[test]
fn of_too_many_the_oldest_go_and_those_that_run_in_place_of_another_last() {
    let mut case = Case::new();
    case.work = case.work.with_total(8);
    let three = |content: &str, seconds, bad: Option<&str>| Record {
        good: good(content, seconds),
        candidate: None,
        rolled_back: bad.and_then(rolled_back),
    };
    for (plugin, content, seconds, bad) in
        [("a", "aaa", 1, Some("bad")), ("b", "bbb", 2, None), ("c", "ccc", 3, None), ("d", "aaa", 4, None)]
    {
        let fresh = fresh(case.plugins.path(), content, true);
        case.update(plugin, three(content, seconds, bad), vec![fresh]);
    }
    let kept = case.folder().read();
    assert_eq!(kept.keys().collect::<Vec<_>>(), ["a", "c", "d"], "two plugins with one content share it");
    assert_eq!(case.names(), BTreeSet::from([name("aaa"), name("ccc"), "versions.json".to_owned()]));
}

#[test]
fn what_the_disk_refuses_is_written_once_it_does_not() {
    let mut case = Case::new();
    let kept = case.folder().path().to_owned();
    std::fs::create_dir_all(kept.parent().expect("above")).expect("made");
    std::fs::write(&kept, "in the way").expect("written");
    case.good("a", "one", 1);
    let (records, behind, failing) = case.work.state();
    assert_eq!((records.len(), behind, failing), (1, true, true));
    std::fs::remove_file(&kept).expect("out of the way");
    case.work.write();
    let (_, behind, failing) = case.work.state();
    assert_eq!((behind, failing), (false, false));
    assert_eq!(case.names(), BTreeSet::from([name("one"), "versions.json".to_owned()]));
}

#[tokio::test]
async fn the_thread_writes_what_it_is_sent_and_the_next_host_recalls_it_once() {
    let (state, plugins) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let open = || KeptVersions::open(Some(StatePlace::new(state.path(), &Cluster::dev(), None)));
    let kept = open();
    for (number, content) in ["one", "two", "three"].into_iter().enumerate() {
        let record = Record { good: good(content, number as u64), ..Record::default() };
        kept.keep("a", record.clone(), Some(fresh(plugins.path(), content, true)));
        kept.keep(&format!("p{number}"), record, None);
    }
    kept.keep("p1", Record::default(), None);
    kept.close().await;
    kept.keep("a", Record::default(), None);
    kept.close().await;
    drop(kept);
    let next = open();
    assert_eq!(next.recall("a").and_then(|record| record.good), good("three", 2));
    assert_eq!(next.recall("a"), None, "once");
    assert_eq!(next.recall("p1"), None);
    assert_eq!(next.recall("p2").and_then(|record| record.good), good("three", 2));
    let taken = open();
    assert_eq!(taken.recall("a"), None, "another host's are none of ours");
    assert!(taken.path_of(&ContentHash::of(b"three")).is_err());
    taken.close().await;
    assert!(KeptVersions::open(None).recall("a").is_none());
}

#[test]
fn bytes_beyond_the_bound_are_left_where_they_came_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let mailbox = Mailbox::default();
    let path = folder.path().join("large");
    std::fs::File::create(&path).expect("made").set_len(40 << 20).expect("sized");
    for (number, plugin) in ["a", "b"].into_iter().enumerate() {
        let hash = ContentHash::of(plugin.as_bytes());
        let bytes = Some(Arc::new(Content::read(&path).expect("read")));
        let record = Record { good: Some(Good { hash, since: at(number as u64) }), ..Record::default() };
        mailbox.put(plugin, record, Some(Fresh { hash, path: path.clone(), bytes }));
    }
    let mail = mailbox.take(Duration::ZERO);
    let held: Vec<bool> =
        mail.updates.values().flat_map(|update| &update.fresh).map(|fresh| fresh.bytes.is_some()).collect();
    assert_eq!(held, [true, false]);
    assert!(mailbox.take(Duration::ZERO).updates.is_empty());
}
