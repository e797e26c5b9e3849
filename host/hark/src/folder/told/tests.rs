//! Tables, and a model: of all that is told, what the looker hears.

use notify::event::{CreateKind, DataChange, Flag, MetadataKind, RemoveKind};
use proptest::prelude::*;

use super::*;

const DATA: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
const CLOSED: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));
const OPENED: EventKind = EventKind::Access(AccessKind::Open(AccessMode::Any));
const READ: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Read));
const FROM: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::From));
const TO: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::To));
const BOTH: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::Both));
const CREATED: EventKind = EventKind::Create(CreateKind::File);
const REMOVED: EventKind = EventKind::Remove(RemoveKind::File);
const CHMOD: EventKind = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));

fn event(kind: EventKind, path: &str) -> notify::Result<Event> {
    Ok(Event::new(kind).add_path(path.into()))
}

/// `/p` is scanned, and of `/c` one name matters.
fn told() -> Told {
    let named = Interest { all: false, names: BTreeSet::from(["hark.toml".into()]) };
    let scanned = Interest { all: true, names: BTreeSet::from(["..data".into()]) };
    Told { interests: Interests::from([("/p".into(), scanned), ("/c".into(), named)]), ..Told::default() }
}

#[test]
fn only_what_may_matter_is_news() {
    for (kind, path, news) in [
        (CREATED, "/p/a.wasm", true),
        (CREATED, "/p/folder", true),
        (CREATED, "/p/.a.wasm.swp", false),
        (TO, "/p/..data", true),
        (CHMOD, "/p/a.wasm", true),
        (CHMOD, "/p", true),
        (REMOVED, "/p", true),
        (DATA, "/p/a.wasm", true),
        (DATA, "/p/notes", false),
        (CLOSED, "/p/notes", false),
        (CLOSED, "/p/a.wat", true),
        (OPENED, "/p/a.wasm", false),
        (READ, "/p/a.wasm", false),
        (BOTH, "/p/a.wasm", false),
        (CLOSED, "/c/hark.toml", true),
        (CLOSED, "/c/trace.jsonl", false),
        (CREATED, "/c/other", false),
        (CREATED, "/elsewhere/a.wasm", false),
        (EventKind::Any, "/p/a.wasm", true),
    ] {
        let mut told = told();
        assert_eq!(told.hear(&event(kind, path)), news, "{kind:?} {path}");
        assert_eq!(told.take().told, news);
        assert!(!told.take().told, "once");
    }
}

#[test]
fn a_file_is_open_for_writing_from_its_first_write_until_it_is_closed() {
    let mut told = told();
    let file = Path::new("/p/a.wasm");
    assert!(told.hear(&event(DATA, "/p/a.wasm")));
    assert!(!told.hear(&event(DATA, "/p/a.wasm")), "one look is enough for many writes");
    assert!(told.writing.contains(file) && !told.whole.contains(file));
    assert!(told.hear(&event(CLOSED, "/p/a.wasm")));
    assert!(!told.writing.contains(file) && told.whole.contains(file));
    assert!(told.hear(&event(DATA, "/p/a.wasm")), "it is opened again");
    assert!(told.writing.contains(file) && !told.whole.contains(file));
    assert!(told.hear(&event(TO, "/p/a.wasm")), "another one is put in its place");
    assert!(!told.writing.contains(file) && told.take().whole.contains(file));
    told.hear(&event(DATA, "/p/a.wasm"));
    told.hear(&event(REMOVED, "/p/a.wasm"));
    assert!(told.writing.is_empty());
    assert_eq!(told.take().moved, [file]);
}

#[test]
fn what_was_lost_may_have_been_anything() {
    for lost in [Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)), Err(notify::Error::generic("x"))] {
        let mut told = told();
        told.hear(&event(DATA, "/p/a.wasm"));
        told.hear(&event(CLOSED, "/p/b.wasm"));
        told.take();
        assert!(told.hear(&lost));
        assert!(told.writing.is_empty());
        assert_eq!(told.take(), News { told: true, all_moved: true, ..News::default() });
    }
}

#[test]
fn what_is_kept_is_bounded() {
    let mut told = told();
    for number in 0..MOST_FILES + 10 {
        told.hear(&event(DATA, &format!("/p/{number}.wasm")));
        told.hear(&event(TO, &format!("/p/x{number}.wasm")));
        told.hear(&event(REMOVED, &format!("/p/y{number}.wasm")));
    }
    assert_eq!((told.writing.len(), told.whole.len()), (MOST_FILES, MOST_FILES));
    assert_eq!((told.moved.len(), told.all_moved), (MOST_MOVED, true));
}

#[test]
fn files_that_nobody_has_a_use_for_are_forgotten_unless_there_is_news() {
    let mailbox = Mailbox::default();
    *mailbox.lock() = told();
    mailbox.hear(&event(DATA, "/p/a.wasm"));
    mailbox.hear(&event(DATA, "/p/b.wasm"));
    let used = BTreeSet::from([Path::new("/p/a.wasm")]);
    assert_eq!(mailbox.writing(&used).len(), 2, "the news may be that the other one is there");
    mailbox.take();
    assert_eq!(mailbox.writing(&used), BTreeSet::from([PathBuf::from("/p/a.wasm")]));
}

#[test]
fn who_waits_is_woken_by_news_by_questions_by_time_and_by_the_end() {
    let mailbox = Mailbox::default();
    *mailbox.lock() = told();
    let now = Instant::now();
    let long = now + Duration::from_secs(3600);
    assert_eq!(mailbox.wait(now, now), Wake::Time);
    mailbox.ask();
    assert_eq!(mailbox.wait(now, long), Wake::Asked);
    mailbox.hear(&event(CREATED, "/p/a.wasm"));
    assert_eq!(mailbox.wait(now, long), Wake::Told);
    let pause = Duration::from_millis(20);
    assert_eq!(mailbox.wait(now + pause, now), Wake::Told);
    assert!(now.elapsed() >= pause, "not sooner");
    mailbox.take();
    std::thread::scope(|scope| {
        scope.spawn(|| mailbox.hear(&event(CREATED, "/p/a.wasm")));
        assert_eq!(mailbox.wait(now, long), Wake::Told, "also while it waits");
    });
    mailbox.stop();
    assert_eq!(mailbox.wait(long, long), Wake::Stop, "whatever else there is");
}

/// The model: what the last thing told of each file was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Write,
    Whole,
    Nothing,
}

proptest! {
    #[test]
    fn what_is_known_of_files_follows_from_the_last_thing_told(
        script in prop::collection::vec((0_usize..3, 0_usize..12), 0..60),
    ) {
        let kinds = [DATA, DATA, CLOSED, OPENED, READ, FROM, TO, BOTH, CREATED, REMOVED, CHMOD];
        let files = ["/p/a.wasm", "/p/b.wasm", "/c/hark.toml"];
        let (mut told, mut model) = (told(), [Last::Nothing; 3]);
        for (file, step) in script {
            let Some(kind) = kinds.get(step) else {
                // A look: what is whole was told.
                let news = told.take();
                for (number, last) in model.iter_mut().enumerate() {
                    prop_assert_eq!(news.whole.contains(Path::new(files[number])), *last == Last::Whole);
                    if *last == Last::Whole {
                        *last = Last::Nothing;
                    }
                }
                continue;
            };
            let before = model[file];
            let news = told.hear(&event(*kind, files[file]));
            model[file] = match *kind {
                DATA => Last::Write,
                CLOSED | TO => Last::Whole,
                FROM | REMOVED => Last::Nothing,
                _ => before,
            };
            let quiet = matches!(*kind, OPENED | READ | BOTH) || (*kind == DATA && before == Last::Write);
            prop_assert_eq!(news, !quiet);
            for (number, last) in model.iter().enumerate() {
                let path = Path::new(files[number]);
                prop_assert_eq!(told.writing.contains(path), *last == Last::Write);
                prop_assert_eq!(told.whole.contains(path), *last == Last::Whole);
            }
        }
    }
}
