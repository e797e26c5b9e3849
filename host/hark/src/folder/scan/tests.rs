//! Tables: what lies in the folder, and what the look makes of it.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A plugins folder with these files, each with its own path for content, and the folder's path without links.
fn folder(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().canonicalize().expect("there");
    for file in files {
        let path = at.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, file).expect("a file");
    }
    (folder, at)
}

fn place(at: &Path, text: bool) -> Place {
    Place { folder: at.to_owned(), text, own: vec![] }
}

fn look(at: &Path) -> Scan {
    scan(&place(at, false), None).expect("readable")
}

/// The plugins' paths, below the folder.
fn plugins(at: &Path, scan: &Scan) -> Vec<String> {
    scan.plugins.values().map(|plugin| below(at, &plugin.path)).collect()
}

fn below(at: &Path, path: &Path) -> String {
    path.strip_prefix(at).expect("below").display().to_string()
}

#[test]
fn only_wasm_files_are_plugins_and_text_only_where_allowed() {
    let (_folder, at) = folder(&["a.wasm", "b.wat", "c.txt", ".d.wasm", "e.wasm.swp", "README"]);
    fs::create_dir(at.join("f.wasm")).expect("a folder");
    let stems = |text| -> Vec<String> {
        scan(&place(&at, text), None).expect("readable").plugins.into_keys().collect()
    };
    assert_eq!(stems(false), ["a"]);
    assert_eq!(stems(true), ["a", "b"]);
    fs::write(at.join("g.WASM"), "g").expect("a file");
    symlink("nowhere", at.join("h.wasm")).expect("a link");
    let refused = look(&at).refused;
    let names: Vec<_> = refused.keys().map(|path| below(&at, path)).collect();
    assert_eq!(names, ["f.wasm", "g.WASM", "h.wasm"], "each is said to be none, and why");
}

#[test]
fn sub_folders_are_looked_into_one_deep_unless_they_are_hidden_or_hold_what_can_be_made_anew() {
    let (_folder, at) = folder(&[
        "top.wasm",
        "one/a.wasm",
        "one/two/deep.wasm",
        ".hidden/b.wasm",
        "cache/c.wasm",
        "nearly/d.wasm",
        "own/e.wasm",
    ]);
    let (name, signature) = CACHE_TAG;
    fs::write(at.join("cache").join(name), signature).expect("written");
    fs::write(at.join("nearly").join(name), "Signature: another").expect("written");
    let own = Place { own: vec![at.join("own"), at.join("not-there")], ..place(&at, false) };
    let scan = scan(&own, None).expect("readable");
    assert_eq!(plugins(&at, &scan), ["one/a.wasm", "nearly/d.wasm", "top.wasm"]);
    let watched = |scan: &Scan| -> Vec<String> {
        let all = scan.interests.iter().filter(|(_, interest)| interest.all);
        all.map(|(path, _)| below(&at, path)).collect()
    };
    assert_eq!(watched(&scan), ["", "nearly", "one"]);
}

#[test]
fn linked_folders_are_looked_into_once() {
    let (_outside, elsewhere) = folder(&["x/a.wasm"]);
    let (_folder, at) = folder(&["b.wasm"]);
    symlink(elsewhere.join("x"), at.join("one")).expect("a link");
    symlink(elsewhere.join("x"), at.join("two")).expect("a link");
    symlink(".", at.join("self")).expect("a link");
    symlink("nowhere", at.join("dangling")).expect("a link");
    let scan = look(&at);
    assert_eq!(plugins(&at, &scan), ["one/a.wasm", "b.wasm"]);
    assert!(scan.interests[&elsewhere.join("x")].all, "where the files are");
    assert!(scan.interests[&at].names.contains(std::ffi::OsStr::new("one")));
}

#[test]
fn different_files_with_one_stem_are_disputed() {
    let (_folder, at) = folder(&["a.wasm", "a.wat", "b.wasm", "s/b.wasm", "s/c.wasm"]);
    let scan = scan(&place(&at, true), None).expect("readable");
    assert_eq!(scan.plugins.keys().collect::<Vec<_>>(), ["c"]);
    let both = |one: &str, other: &str| vec![at.join(one), at.join(other)];
    let want = [("a".to_owned(), both("a.wasm", "a.wat")), ("b".to_owned(), both("b.wasm", "s/b.wasm"))];
    assert_eq!(scan.disputed, BTreeMap::from(want));
}

#[test]
fn one_file_under_two_names_is_one_plugin() {
    let (_folder, at) = folder(&["deps/b.wasm", "z.wasm"]);
    fs::hard_link(at.join("deps/b.wasm"), at.join("b.wasm")).expect("a hard link");
    fs::hard_link(at.join("z.wasm"), at.join("a.wasm")).expect("a hard link");
    symlink("z.wasm", at.join("y.wasm")).expect("a link");
    let scan = look(&at);
    assert_eq!(plugins(&at, &scan), ["a.wasm", "b.wasm"], "the shallower one, then the first in order");
    let twins = [("deps/b.wasm", "b.wasm"), ("y.wasm", "a.wasm"), ("z.wasm", "a.wasm")];
    let want = twins.map(|(name, first)| (at.join(name), at.join(first)));
    assert_eq!(scan.twins, BTreeMap::from(want));
    assert!(scan.disputed.is_empty());
}

#[test]
fn a_new_name_takes_nothing_from_the_name_that_counted_before() {
    let (_folder, at) = folder(&["m.wasm", "s/k.wasm"]);
    let before = look(&at);
    fs::hard_link(at.join("m.wasm"), at.join("a.wasm")).expect("a hard link");
    symlink("m.wasm", at.join("b.wasm")).expect("a link");
    symlink("s/k.wasm", at.join("c.wasm")).expect("a link");
    let again = |before: &Scan| scan(&place(&at, false), Some(before)).expect("readable");
    let linked = again(&before);
    assert_eq!(plugins(&at, &linked), ["s/k.wasm", "m.wasm"]);
    assert_eq!(again(&linked).twins, linked.twins, "nor at the next look");
    assert_eq!(plugins(&at, &look(&at)), ["a.wasm", "c.wasm"], "a host that starts goes by the order");
    // Nor from one whose stem is disputed, whatever becomes of that.
    fs::write(at.join("s/m.wasm"), "other").expect("a file");
    let disputed = again(&linked);
    assert_eq!(disputed.disputed.keys().collect::<Vec<_>>(), ["m"]);
    assert_eq!(again(&disputed).twins, linked.twins);
    // Its own name is given up by whoever takes the file away.
    fs::remove_file(at.join("s/m.wasm")).expect("removed");
    fs::remove_file(at.join("m.wasm")).expect("removed");
    assert_eq!(plugins(&at, &again(&disputed)), ["a.wasm", "s/k.wasm"], "a link to it leads nowhere now");
}

#[test]
fn a_file_comes_before_a_link_to_it() {
    let (_folder, at) = folder(&["m.wasm"]);
    symlink("m.wasm", at.join("a.wasm")).expect("a link");
    let scan = look(&at);
    assert_eq!(plugins(&at, &scan), ["m.wasm"]);
    assert_eq!(scan.twins, BTreeMap::from([(at.join("a.wasm"), at.join("m.wasm"))]));
}

#[test]
fn odd_names_are_refused_with_the_reason() {
    let (_folder, at) = folder(&["-x.wasm", "ä.wasm", "a b.wasm", "ok-1_2.3.wasm"]);
    let scan = look(&at);
    assert_eq!(scan.plugins.keys().collect::<Vec<_>>(), ["ok-1_2.3"]);
    assert_eq!(scan.refused.len(), 3);
}

#[test]
fn a_linked_file_is_known_by_where_it_is_and_watched_hop_by_hop() {
    let (_folder, at) = folder(&["..1/a.wasm"]);
    symlink("..1", at.join("..data")).expect("a link");
    symlink("..data/a.wasm", at.join("a.wasm")).expect("a link");
    let scan = look(&at);
    let plugin = &scan.plugins["a"];
    assert_eq!((below(&at, &plugin.path), below(&at, &plugin.real)), ("a.wasm".into(), "..1/a.wasm".into()));
    let names = |path: &Path| -> Vec<_> { scan.interests[path].names.iter().cloned().collect() };
    assert_eq!(names(&at), ["..data", "a.wasm"]);
    assert_eq!(names(&at.join("..1")), ["a.wasm"]);
    assert!(!scan.interests[&at.join("..1")].all);
}

#[test]
fn a_folder_that_is_a_link_is_watched_where_it_leads_and_where_it_is() {
    let (_folder, at) = folder(&["1/a.wasm"]);
    symlink("1", at.join("current")).expect("a link");
    let scan = look(&at.join("current"));
    assert_eq!(plugins(&at, &scan), ["current/a.wasm"]);
    assert_eq!(scan.plugins["a"].real, at.join("1/a.wasm"));
    assert!(scan.interests[&at.join("1")].all);
    assert!(scan.interests[&at].names.contains(std::ffi::OsStr::new("current")));
}

#[test]
fn a_folder_that_is_not_there_is_an_error_and_is_waited_for_where_it_would_come() {
    let (_folder, at) = folder(&[]);
    let missing = at.join("later/plugins");
    assert!(scan(&place(&missing, false), None).is_err());
    let interests = interests_of_unreadable(&missing);
    assert!(interests[&at].names.contains(std::ffi::OsStr::new("later")));
    fs::create_dir_all(&missing).expect("made");
    let interests = interests_of_unreadable(&missing);
    assert!(interests[&missing].all, "it is there, and cannot be read");
    assert!(interests[&at.join("later")].names.contains(std::ffi::OsStr::new("plugins")));
}

/// A scan that had found this, before something became of the folder.
fn remembered(at: &Path, change: impl Fn(&mut Listing)) -> Scan {
    let mut before = look(at);
    before.listings.values_mut().for_each(change);
    before
}

#[test]
fn a_mount_that_has_gone_takes_no_plugin_with_it() {
    let (_folder, at) = folder(&["a.wasm", "s/b.wasm"]);
    let another = mount::Mount::of(Path::new("/proc"));
    // As if what is there now had been mounted over what was there before.
    let before = remembered(&at, |listing| listing.mount = another);
    let again = |before: &Scan| scan(&place(&at, false), Some(before));
    let now = again(&before).expect("there are plugins");
    assert_eq!(plugins(&at, &now), ["a.wasm", "s/b.wasm"]);

    fs::remove_file(at.join("s/b.wasm")).expect("removed");
    let now = again(&before).expect("there is a plugin");
    assert_eq!(plugins(&at, &now), ["a.wasm", "s/b.wasm"], "the sub-folder is on another mount, and empty");
    assert_eq!(now.unreadable.keys().map(|path| below(&at, path)).collect::<Vec<_>>(), ["s"]);

    fs::remove_file(at.join("a.wasm")).expect("removed");
    fs::remove_dir(at.join("s")).expect("removed");
    let error = again(&before).expect_err("the folder is on another mount, and empty");
    assert_eq!(error.to_string(), MOUNT_IS_GONE);
    let same = remembered(&at, |_| {});
    assert!(again(&same).expect("readable").plugins.is_empty(), "they were deleted");
}

#[test]
fn a_link_to_a_mount_that_has_gone_is_what_it_was() {
    let (_outside, elsewhere) = folder(&["a.wasm"]);
    let (_folder, at) = folder(&[]);
    symlink(elsewhere.join("a.wasm"), at.join("a.wasm")).expect("a link");
    let there = look(&at);
    fs::remove_file(elsewhere.join("a.wasm")).expect("removed");
    let now = scan(&place(&at, false), Some(&there)).expect("readable");
    assert!(now.plugins.is_empty(), "it was deleted");
    assert_eq!(now.refused.len(), 1);
    fs::write(elsewhere.join("a.wasm"), "a").expect("written");
    let another = mount::Mount::of(Path::new("/proc"));
    let before = remembered(&at, |listing| listing.found.iter_mut().for_each(|one| one.mount = another));
    fs::remove_file(elsewhere.join("a.wasm")).expect("removed");
    let now = scan(&place(&at, false), Some(&before)).expect("readable");
    assert_eq!(now.plugins, before.plugins);
    assert_eq!(now.unreadable.len(), 1);
}

#[test]
fn what_was_not_told_of_is_found_where_it_should_have_been() {
    let (_outside, elsewhere) = folder(&["b.wasm"]);
    let (_folder, at) = folder(&["a.wasm"]);
    symlink(elsewhere.join("b.wasm"), at.join("b.wasm")).expect("a link");
    let before = look(&at);
    let should = |now: &Scan| now.should_have_been_told(&before, |directory| directory == at);
    assert!(!should(&look(&at)));
    fs::hard_link(at.join("a.wasm"), elsewhere.join("a")).expect("linked");
    assert!(!should(&look(&at)), "only its count of links changed");
    fs::write(elsewhere.join("b.wasm"), "other").expect("written");
    assert!(!should(&look(&at)), "that directory is not watched");
    fs::write(at.join("a.wasm"), "other").expect("written");
    assert!(should(&look(&at)));
    fs::remove_file(at.join("a.wasm")).expect("removed");
    assert!(should(&look(&at)));
}

#[test]
fn a_file_has_changed_when_the_newest_link_on_the_way_to_it_has() {
    let (_folder, at) = folder(&["1/a.wasm", "1/s/b.wasm", "2/s/c.wasm"]);
    let changed = |path: &Path| {
        let metadata = fs::symlink_metadata(path).expect("there");
        Stamp::of(&metadata).changed().expect("a time")
    };
    let top = at.join("1");
    assert_eq!(look(&top).plugins["a"].changed, Some(changed(&top.join("a.wasm"))), "no link");
    // Each link is newer than all before.
    let link = |target: &str, path: PathBuf| {
        let before = SystemTime::now();
        loop {
            symlink(target, &path).expect("a link");
            if changed(&path) > before {
                return changed(&path);
            }
            fs::remove_file(&path).expect("removed");
        }
    };
    fs::rename(top.join("a.wasm"), top.join("a")).expect("renamed");
    let file = link("a", top.join("d.wasm"));
    assert_eq!(look(&top).plugins["d"].changed, Some(file), "of the file");
    let below = link("../2/s", top.join("t"));
    let found = look(&top);
    assert_eq!(found.plugins["c"].changed, Some(below), "of its folder");
    assert_eq!(found.plugins["b"].changed, Some(changed(&top.join("s/b.wasm"))), "a folder that is none");
    let current = link("1", at.join("current"));
    let found = look(&at.join("current"));
    for plugin in ["b", "c", "d"] {
        assert_eq!(found.plugins[plugin].changed, Some(current), "of all: {plugin}");
    }
}
