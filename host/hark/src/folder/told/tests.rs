//! Tables, and a model: of all that is told, what the looker hears.

use proptest::prelude::*;

use super::*;

fn of(change: Change, path: &str) -> Heard<'_> {
    Heard::Of(Path::new(path), change)
}

/// `/p` is scanned, and of `/c` one name matters.
fn told() -> Told {
    let named = Interest { all: false, names: BTreeSet::from(["hark.toml".into()]) };
    let scanned = Interest { all: true, names: BTreeSet::from(["..data".into()]) };
    Told { interests: Interests::from([("/p".into(), scanned), ("/c".into(), named)]), ..Told::default() }
}

#[test]
fn only_what_may_matter_is_news() {
    for (change, path, news) in [
        (Change::Other, "/p/a.wasm", true),
        (Change::Other, "/p/folder", true),
        (Change::Other, "/p/.a.wasm.swp", false),
        (Change::Other, "/p", true),
        (Change::Arrived, "/p/..data", true),
        (Change::Gone, "/p", true),
        (Change::Gone, "/p/folder", true),
        (Change::Written, "/p/a.wasm", true),
        (Change::Written, "/p/notes", false),
        (Change::Closed, "/p/notes", false),
        (Change::Closed, "/p/a.wat", true),
        (Change::Closed, "/c/hark.toml", true),
        (Change::Closed, "/c/trace.jsonl", false),
        (Change::Other, "/c/other", false),
        (Change::Other, "/elsewhere/a.wasm", false),
    ] {
        let mut told = told();
        assert_eq!(told.hear(of(change, path)), news, "{change:?} {path}");
        assert_eq!(told.take().told, news);
        assert!(!told.take().told, "once");
    }
}

#[test]
fn a_file_is_open_for_writing_from_its_first_write_until_it_is_closed() {
    let mut told = told();
    let file = Path::new("/p/a.wasm");
    assert!(told.hear(of(Change::Written, "/p/a.wasm")));
    assert!(!told.hear(of(Change::Written, "/p/a.wasm")), "one look is enough for many writes");
    assert!(told.writing.contains(file) && !told.whole.contains(file));
    assert!(told.hear(of(Change::Closed, "/p/a.wasm")));
    assert!(!told.writing.contains(file) && told.whole.contains(file));
    assert!(told.hear(of(Change::Written, "/p/a.wasm")), "it is opened again");
    assert!(told.writing.contains(file) && !told.whole.contains(file));
    assert!(told.hear(of(Change::Arrived, "/p/a.wasm")), "another one is put in its place");
    assert!(!told.writing.contains(file) && told.take().whole.contains(file));
    told.hear(of(Change::Written, "/p/a.wasm"));
    told.hear(of(Change::Gone, "/p/a.wasm"));
    assert!(told.writing.is_empty());
}

#[test]
fn what_was_lost_may_have_been_anything() {
    let mut told = told();
    told.hear(of(Change::Written, "/p/a.wasm"));
    told.hear(of(Change::Closed, "/p/b.wasm"));
    told.take();
    assert!(told.hear(Heard::Lost));
    assert!(told.writing.is_empty());
    assert_eq!(told.take(), News { told: true, ..News::default() });
}

#[test]
fn what_is_kept_is_bounded() {
    let mut told = told();
    for number in 0..MOST_FILES + 10 {
        told.hear(of(Change::Written, &format!("/p/{number}.wasm")));
        told.hear(of(Change::Arrived, &format!("/p/x{number}.wasm")));
    }
    assert_eq!((told.writing.len(), told.whole.len()), (MOST_FILES, MOST_FILES));
}

#[test]
fn files_that_nobody_has_a_use_for_are_forgotten_unless_there_is_news() {
    let mailbox = Mailbox::default();
    *mailbox.lock() = told();
    mailbox.hear(of(Change::Written, "/p/a.wasm"));
    mailbox.hear(of(Change::Written, "/p/b.wasm"));
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
    mailbox.hear(of(Change::Other, "/p/a.wasm"));
    assert_eq!(mailbox.wait(now, long), Wake::Told);
    let pause = Duration::from_millis(20);
    assert_eq!(mailbox.wait(now + pause, now), Wake::Told);
    assert!(now.elapsed() >= pause, "not sooner");
    mailbox.take();
    std::thread::scope(|scope| {
        scope.spawn(|| mailbox.hear(of(Change::Other, "/p/a.wasm")));
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
        script in prop::collection::vec((0_usize..3, 0_usize..6), 0..60),
    ) {
        let changes = [Change::Written, Change::Closed, Change::Arrived, Change::Gone, Change::Other];
        let files = ["/p/a.wasm", "/p/b.wasm", "/c/hark.toml"];
        let (mut told, mut model) = (told(), [Last::Nothing; 3]);
        for (file, step) in script {
            let Some(change) = changes.get(step) else {
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
            let news = told.hear(of(*change, files[file]));
            model[file] = match change {
                Change::Written => Last::Write,
                Change::Closed | Change::Arrived => Last::Whole,
                Change::Gone => Last::Nothing,
                Change::Other => before,
            };
            prop_assert_eq!(news, !(*change == Change::Written && before == Last::Write));
            for (number, last) in model.iter().enumerate() {
                let path = Path::new(files[number]);
                prop_assert_eq!(told.writing.contains(path), *last == Last::Write);
                prop_assert_eq!(told.whole.contains(path), *last == Last::Whole);
            }
        }
    }
}
