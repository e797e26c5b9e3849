//! A cache whose folder or entries are gone, are others than they were, or may not be read or written any more.

use super::*;

/// What is said if an entry cannot be kept now.
fn fault(cache: &ArtefactCache, key: &Key) -> String {
    cache.try_keep(key, &mut sealed(key, b"code").as_slice()).expect_err("cannot be kept").to_string()
}

#[test]
fn a_folder_that_was_removed_moved_or_replaced_is_made_again_with_the_next_entry() {
    type Change = fn(&Place);
    let cases: [(&str, Change); 5] = [
        ("removed", |place| fs::remove_dir_all(place.path()).expect("removed")),
        ("removed with the one above it", |place| {
            fs::remove_dir_all(place.folder.path().join("above")).expect("removed");
        }),
        ("made again by hand", |place| {
            fs::remove_dir_all(place.path()).expect("removed");
            fs::DirBuilder::new().mode(0o755).create(place.path()).expect("made");
        }),
        ("moved", |place| {
            fs::rename(place.path(), place.folder.path().join("elsewhere")).expect("renamed");
        }),
        ("replaced", |place| {
            fs::rename(place.path(), place.folder.path().join("elsewhere again")).expect("renamed");
            fs::DirBuilder::new().mode(0o700).create(place.path()).expect("made");
        }),
    ];
    let place = Place::new();
    let cache = place.open(1 << 20);
    let key = place.key("a");
    let size = sealed(&key, b"code").len() as u64;
    keep(&cache, &key, b"code");
    for (what, change) in cases {
        change(&place);
        keep(&cache, &key, b"code");
        assert!(is_artefact(cache.find(&key)), "{what}");
        assert!(!cache.0.said.is_said(), "{what}");
        assert_eq!(names(&place.path()), [key.to_string()], "{what}");
        let mode = fs::metadata(place.path()).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode, if what.ends_with("by hand") { 0o755 } else { 0o700 }, "{what}");
        assert_eq!(cache.stats(), CacheStats { bytes: size, entries: 1, ..CacheStats::default() }, "{what}");
    }
}

#[test]
fn what_is_no_folder_of_ours_is_not_taken_for_the_one_that_was_removed_until_it_is_one() {
    type Change = fn(&Path);
    let at = |path: &Path| path.display().to_string();
    let cases: [(Change, Change, &str); 4] = [
        (
            |path| fs::write(path, "a file").expect("written"),
            |path| fs::remove_file(path).expect("removed"),
            "cannot write to the artefact cache in PATH, so what is compiled is not remembered: \
             File exists (os error 17); make it a folder that this user can write to, or set host.cache_dir",
        ),
        (
            |path| {
                fs::create_dir(path).expect("made");
                fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("ours");
            },
            |path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours"),
            "what is compiled is not remembered any more: others than its owner may write to PATH (mode 0777): \
             chmod 700 it, or name a folder in it that Hark can make with host.cache_dir (or \"off\")",
        ),
        (
            |path| symlink("/", path).expect("linked"),
            |path| fs::remove_file(path).expect("removed"),
            "what is compiled is not remembered any more: PATH is a symbolic link, which is refused: \
             name the folder that it points to with host.cache_dir (or \"off\")",
        ),
        (
            |path| {
                let above = path.parent().expect("a folder");
                fs::remove_dir(above).expect("empty");
                fs::write(above, "a file").expect("written");
            },
            |path| fs::remove_file(path.parent().expect("a folder")).expect("removed"),
            "cannot write to the artefact cache in PATH, so what is compiled is not remembered: \
             Not a directory (os error 20); make it a folder that this user can write to, or set host.cache_dir",
        ),
    ];
    let place = Place::new();
    let cache = place.open(1 << 20);
    let key = place.key("a");
    keep(&cache, &key, b"code");
    for (spoil, mend, want) in cases {
        fs::remove_dir_all(place.path()).expect("removed");
        spoil(&place.path());
        assert_eq!(fault(&cache, &key), want.replace("PATH", &at(&place.path())));
        for _ in 0..2 {
            keep(&cache, &key, b"code");
            assert!(cache.find(&key).is_none(), "{want}");
            assert!(cache.0.said.is_said(), "{want}");
            assert!(!place.entry("a").exists(), "{want}");
        }
        assert_eq!(cache.stats(), CacheStats::default(), "{want}");
        mend(&place.path());
        keep(&cache, &key, b"code");
        assert!(!cache.0.said.is_said(), "{want}");
        assert!(is_artefact(cache.find(&key)), "{want}");
    }
}

/// Runs on a thread that is not root's: root may read and write everything.
fn without_rights(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        if rustix::process::geteuid().is_root() {
            let user = rustix::process::Uid::from_raw(12_345);
            rustix::thread::set_thread_res_uid(user, user, user).expect("root may");
        }
        work();
    });
    thread.join().expect("no panic");
}

#[test]
fn an_entry_that_may_not_be_read_is_dropped_and_can_be_kept_anew() {
    without_rights(|| {
        let place = Place::new();
        let cache = place.open(1 << 20);
        let key = place.key("a");
        for dropped in 1..3 {
            keep(&cache, &key, b"code");
            fs::set_permissions(place.entry("a"), fs::Permissions::from_mode(0o000)).expect("ours");
            assert!(cache.find(&key).is_none());
            assert!(!place.entry("a").exists(), "it is in nobody's way");
            assert_eq!(cache.stats(), CacheStats { damaged: dropped, ..cache.stats() });
            assert!(cache.find(&key).is_none(), "and not found a second time");
            assert_eq!(cache.stats().damaged, dropped);
        }
        keep(&cache, &key, b"code");
        assert!(is_artefact(cache.find(&key)));
        assert!(!cache.0.said.is_said(), "the cache itself is well");
    });
}

#[test]
fn a_folder_that_may_not_be_looked_into_keeps_its_entries_and_serves_again_once_it_may() {
    without_rights(|| {
        let place = Place::new();
        let cache = place.open(1 << 20);
        let key = place.key("a");
        keep(&cache, &key, b"code");
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o000)).expect("ours");
        for _ in 0..2 {
            assert!(cache.find(&key).is_none());
            assert!(cache.0.said.is_said());
            keep(&cache, &key, b"code");
            assert!(cache.0.said.is_said());
        }
        assert!(!cache.0.untidy.load(Ordering::Relaxed), "one fault is said once");
        let want =
            "not remembered: Permission denied (os error 13); make it a folder that this user can write to";
        let said = fault(&cache, &key);
        assert!(said.contains(want), "{said}");
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).expect("ours");
        assert!(is_artefact(cache.find(&key)), "it was not dropped");
        keep(&cache, &key, b"code");
        assert!(!cache.0.said.is_said());
        assert_eq!((cache.stats().damaged, cache.stats().foreign), (0, 0));
    });
}

#[test]
fn a_folder_that_can_only_be_read_still_serves() {
    without_rights(|| {
        let place = Place::new();
        keep(&place.open(1 << 20), &place.key("a"), b"code");
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o500)).expect("ours");
        let cache = place.open(1 << 20);
        keep(&cache, &place.key("b"), b"code");
        let found = [place.key("a"), place.key("b")].map(|key| is_artefact(cache.find(&key)));
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).expect("ours");
        assert_eq!(found, [true, false]);
    });
}
