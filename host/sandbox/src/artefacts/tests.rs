//! The cache as the compiler uses it: what it takes, what it refuses, what it drops, and who else may be there.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::compiler::{Backends, Compile};
use crate::hash::ContentHash;

mod gone;

/// A folder with a cache in it.
struct Place {
    folder: TempDir,
    backends: Backends,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            backends: Backends::new(crate::engine::RunOptions::default()).expect("engines"),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("above/artefacts")
    }

    fn open(&self, bound: u64) -> ArtefactCache {
        ArtefactCache::open(&self.path(), bound).expect("a cache")
    }

    fn key(&self, content: &str) -> Key {
        self.backends.of(Compile::Optimized).expect("always there").key(&ContentHash::of(content.as_bytes()))
    }

    fn entry(&self, content: &str) -> PathBuf {
        self.path().join(self.key(content).to_string())
    }

    /// Sets when an entry was last used.
    fn used(&self, content: &str, seconds: u64) {
        let file = fs::File::open(self.entry(content)).expect("there");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("ours");
    }
}

/// Bytes of a sealed entry with `artefact` in it.
fn sealed(key: &Key, artefact: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, key, &Held::Artefact, artefact).expect("a vector takes it");
    bytes
}

fn keep(cache: &ArtefactCache, key: &Key, artefact: &[u8]) {
    cache.keep(key, &mut sealed(key, artefact).as_slice());
}

fn is_artefact(found: Option<Content>) -> bool {
    matches!(found, Some(Content::Artefact(_)))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_kept_is_found_under_its_own_key_also_by_the_next_host() {
    let place = Place::new();
    let cache = place.open(1 << 20);
    let key = place.key("a");
    assert!(cache.find(&key).is_none());
    keep(&cache, &key, b"code");
    for cache in [cache, place.open(1 << 20)] {
        assert!(is_artefact(cache.find(&key)));
        assert!(cache.find(&place.key("b")).is_none());
        let size = sealed(&key, b"code").len() as u64;
        assert_eq!(cache.stats(), CacheStats { bytes: size, entries: 1, ..CacheStats::default() });
    }
    assert_eq!(names(&place.path()), [key.to_string()]);
    let mode = |path: PathBuf| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(place.path()), mode(place.entry("a"))), (0o700, 0o600));
}

#[test]
fn a_damaged_entry_is_dropped_and_can_be_kept_anew() {
    let place = Place::new();
    let cache = place.open(1 << 20);
    let (key, other) = (place.key("a"), place.key("b"));
    let whole = sealed(&key, b"some machine code");
    let mut flipped = whole.clone();
    flipped[3] ^= 1;
    let under_another_name = sealed(&other, b"some machine code");
    let damages = [&whole[..whole.len() - 1], &whole[1..], &[], &flipped, &under_another_name];
    for (number, damage) in (1..).zip(damages) {
        fs::write(place.entry("a"), damage).expect("written");
        assert!(cache.find(&key).is_none(), "{number}");
        assert_eq!(cache.stats().damaged, number);
        assert!(!place.entry("a").exists(), "{number}");
        keep(&cache, &key, b"some machine code");
        assert!(is_artefact(cache.find(&key)), "{number}");
    }
}

#[test]
fn what_was_compared_is_not_read_again_until_its_file_changes() {
    let place = Place::new();
    let cache = place.open(1 << 20);
    let key = place.key("a");
    keep(&cache, &key, b"some machine code");
    let state = || compared::State::of(&fs::File::open(place.entry("a")).expect("there")).expect("a state");
    let is_old = || state().tells_of_changes_after(SystemTime::now());
    while !is_old() {
        std::thread::yield_now();
    }
    let before = state();
    for _ in 0..2 {
        assert!(is_artefact(cache.find(&key)));
        assert!(cache.0.compared.has(&key, &state()));
        assert_eq!(state(), before, "being used is no change");
    }
    let mut flipped = sealed(&key, b"some machine code");
    flipped[3] ^= 1;
    fs::write(place.entry("a"), flipped).expect("written");
    assert!(cache.find(&key).is_none(), "damage in place, of the same size");
    assert_eq!(cache.stats().damaged, 1);
    keep(&cache, &key, b"other machine code");
    assert!(!cache.0.compared.has(&key, &state()), "another file under the same name");
    assert!(is_artefact(cache.find(&key)));
    place.used("a", 1000);
    assert!(is_artefact(cache.find(&key)), "read again");
    let used = fs::metadata(place.entry("a")).and_then(|metadata| metadata.modified()).expect("there");
    assert!(used.elapsed().expect("past") < USED_WITHIN, "that it is used is noted");
}

#[test]
fn an_entry_that_others_could_have_written_is_dropped_unread() {
    type Make = fn(&Place);
    let cases: [(&str, Make); 4] = [
        ("a symbolic link to a sealed file", |place| {
            let elsewhere = place.folder.path().join("elsewhere");
            fs::rename(place.entry("a"), &elsewhere).expect("renamed");
            symlink(elsewhere, place.entry("a")).expect("linked");
        }),
        ("writable for the group", |place| {
            fs::set_permissions(place.entry("a"), fs::Permissions::from_mode(0o620)).expect("ours");
        }),
        ("writable for all", |place| {
            fs::set_permissions(place.entry("a"), fs::Permissions::from_mode(0o602)).expect("ours");
        }),
        ("a pipe", |place| {
            fs::remove_file(place.entry("a")).expect("removed");
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, place.entry("a"), rustix::fs::FileType::Fifo, mode, 0)
                .expect("a pipe");
        }),
    ];
    let place = Place::new();
    let cache = place.open(1 << 20);
    let key = place.key("a");
    for (number, (what, make)) in (1..).zip(cases) {
        keep(&cache, &key, b"code");
        make(&place);
        assert!(cache.find(&key).is_none(), "{what}");
        assert!(fs::symlink_metadata(place.entry("a")).is_err(), "{what}");
        assert_eq!(cache.stats(), CacheStats { foreign: number, ..cache.stats() }, "{what}");
    }
    assert_eq!(cache.stats().damaged, 0);
}

/// Only root can give files away, so elsewhere this is not tested.
#[test]
fn what_belongs_to_another_user_is_not_used() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let cache = place.open(1 << 20);
    keep(&cache, &place.key("a"), b"code");
    std::os::unix::fs::chown(place.entry("a"), Some(12_345), None).expect("root may");
    assert!(cache.find(&place.key("a")).is_none());
    assert_eq!(cache.stats().foreign, 1);
    std::os::unix::fs::chown(place.path(), Some(12_345), None).expect("root may");
    let error = ArtefactCache::open(&place.path(), 1).expect_err("somebody else's");
    assert!(matches!(error, CacheError::Foreign { owner: 12_345, .. }), "{error}");
}

#[test]
fn a_folder_that_others_could_change_is_not_used() {
    let place = Place::new();
    let at = place.folder.path();
    fs::DirBuilder::new().mode(0o700).create(at.join("shared")).expect("made");
    fs::set_permissions(at.join("shared"), fs::Permissions::from_mode(0o1777)).expect("ours");
    fs::write(at.join("file"), "").expect("written");
    fs::DirBuilder::new().mode(0o700).create(at.join("real")).expect("made");
    symlink(at.join("real"), at.join("link")).expect("linked");
    let refusal = |name: &str| ArtefactCache::open(&at.join(name), 1).expect_err(name);
    assert!(matches!(refusal("shared"), CacheError::Writable { mode: 0o1777, .. }));
    assert!(matches!(refusal("file"), CacheError::Unusable { .. }));
    assert!(matches!(refusal("link"), CacheError::Link { .. }));
    let said = refusal("shared").to_string();
    assert!(said.contains("chmod 700 it") && said.contains("host.cache_dir"), "{said}");
    assert!(ArtefactCache::open(&at.join("shared/own"), 1).is_ok(), "the cure that is named");
}

#[test]
fn the_bound_is_kept_and_what_was_used_last_stays() {
    let place = Place::new();
    let size = sealed(&place.key("a"), b"code").len() as u64;
    let cache = place.open(3 * size);
    for (content, seconds) in [("a", 1_000), ("b", 2_000), ("c", 3_000)] {
        keep(&cache, &place.key(content), b"code");
        place.used(content, seconds);
    }
    assert!(is_artefact(cache.find(&place.key("a"))), "and so it was used last");
    keep(&cache, &place.key("d"), b"code");
    let there = ["a", "b", "c", "d"].map(|content| place.entry(content).exists());
    assert_eq!(there, [true, false, true, true]);
    assert_eq!(
        cache.stats(),
        CacheStats { bytes: 3 * size, entries: 3, evicted: 1, ..CacheStats::default() }
    );
    let tighter = place.open(size);
    assert_eq!(tighter.stats(), CacheStats { bytes: size, entries: 1, evicted: 2, ..CacheStats::default() });
    keep(&tighter, &place.key("e"), &vec![0; 1000]);
    assert_eq!(tighter.stats(), CacheStats { evicted: 4, ..CacheStats::default() }, "too large by itself");
}

#[test]
fn what_a_killed_host_left_goes_and_what_another_one_is_writing_stays() {
    let place = Place::new();
    let cache = place.open(1 << 20);
    let folder = cache.folder();
    let mut writing = folder.temporary().expect("a file");
    std::io::Write::write_all(writing.file(), b"half").expect("written");
    fs::write(place.path().join(".new-1-0-77"), "left by a host that was killed").expect("written");
    fs::write(place.path().join("notes.txt"), "not ours").expect("written");
    let second = place.open(0);
    let left = names(&place.path());
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left[0].starts_with(".new-") && left[0] != ".new-1-0-77" && left[1] == "notes.txt", "{left:?}");
    assert_eq!(second.stats(), CacheStats::default(), "neither counts");
    writing.become_entry(&place.key("a").to_string()).expect("it was not disturbed");
    drop(folder.temporary().expect("a file"));
    assert_eq!(names(&place.path()), [place.key("a").to_string(), "notes.txt".to_owned()]);
}

#[test]
fn several_hosts_write_read_and_evict_at_once() {
    let place = Place::new();
    let artefact = vec![7; 10_000];
    let size = sealed(&place.key("0"), &artefact).len() as u64;
    let work = |host: usize| {
        let cache = place.open(4 * size);
        let mut found = 0;
        for round in 0..50 {
            let key = place.key(&((round + host) % 6).to_string());
            match cache.find(&key) {
                Some(content) => found += usize::from(is_artefact(Some(content))),
                None => keep(&cache, &key, &artefact),
            }
        }
        (found, cache.stats())
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let hosts: Vec<_> = (0..4).map(|host| scope.spawn(move || work(host))).collect();
        hosts.into_iter().map(|host| host.join().expect("no panic")).collect()
    });
    for (_, stats) in &results {
        assert_eq!((stats.damaged, stats.foreign), (0, 0), "nobody saw half an entry");
    }
    assert!(results.iter().any(|(found, _)| *found > 0));
    let after = place.open(4 * size).stats();
    assert!(after.entries <= 4 && after.bytes == after.entries * size, "{after:?}");
    assert!(names(&place.path()).iter().all(|name| !name.starts_with(".new-")));
}

#[test]
fn an_entry_that_cannot_be_removed_is_in_nobodys_way_and_counts_only_once_it_is_dropped() {
    let place = Place::new();
    let cache = place.open(1 << 20);
    let key = place.key("a");
    fs::create_dir(place.entry("a")).expect("made");
    for _ in 0..2 {
        assert!(cache.find(&key).is_none());
        keep(&cache, &key, b"code");
    }
    assert_eq!(*cache.stuck(), BTreeSet::from([key.to_string()]), "said once");
    assert!(!cache.0.said.is_said(), "there is room: only that name is taken");
    assert_eq!(cache.stats(), CacheStats::default(), "nothing was dropped");
    fs::remove_dir(place.entry("a")).expect("empty");
    keep(&cache, &key, b"code");
    assert!(is_artefact(cache.find(&key)));
    fs::set_permissions(place.entry("a"), fs::Permissions::from_mode(0o666)).expect("ours");
    assert!(cache.find(&key).is_none());
    assert_eq!(cache.stats().foreign, 1);
    assert!(cache.stuck().is_empty(), "and it would be said again");
}
