//! Every directory that the way to a file passes through by name, link by link.
//!
//! Used to know which directories to watch: whoever retargets any of the links changes a name in one of them.
//! Invariants: what comes out has no link in it; a chain of links is followed as far as the kernel would, and no further.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use super::stamp::Stamp;

/// Links that are followed on one way, as in the kernel.
const MAX_LINKS: usize = 40;

/// See the file's head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hops {
    /// Directories, with the name in each that the way goes by: of a link, of the file at the end, or of what is missing.
    pub(super) names: Vec<(PathBuf, OsString)>,
    /// Where the way ends; none if it leads nowhere.
    pub(super) end: Option<PathBuf>,
    /// When the newest link on the way was made or moved to its place, as the system has it; none if there is no link.
    pub(super) changed: Option<SystemTime>,
}

/// Follows `path` from the directory `from`, which has no link in it (`/` for absolute paths).
pub(super) fn hops(from: &Path, path: &Path) -> Hops {
    let mut hops = Hops::default();
    let mut at = from.to_owned();
    let mut ahead = Vec::new();
    let mut links = 0;
    enter(path, &mut at, &mut ahead);
    while let Some(name) = ahead.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let Ok(metadata) = fs::symlink_metadata(&next) else {
            hops.names.push((at, name));
            return hops;
        };
        if metadata.is_dir() {
            at = next;
            continue;
        }
        hops.names.push((at.clone(), name));
        if !metadata.is_symlink() {
            hops.end = ahead.is_empty().then_some(next);
            return hops;
        }
        links += 1;
        hops.changed = hops.changed.max(Stamp::of(&metadata).changed());
        let Some(target) = fs::read_link(&next).ok().filter(|_| links <= MAX_LINKS) else { return hops };
        enter(&target, &mut at, &mut ahead);
    }
    hops.end = Some(at);
    hops
}

/// Puts the parts of a path in front of what is ahead (the next one is the last); an absolute one begins at the root.
fn enter(path: &Path, at: &mut PathBuf, ahead: &mut Vec<OsString>) {
    for part in path.components().rev() {
        match part {
            Component::Normal(name) => ahead.push(name.to_owned()),
            Component::ParentDir => ahead.push(OsStr::new("..").to_owned()),
            Component::RootDir => *at = PathBuf::from("/"),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder whose own path has no link in it.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("there");
        (folder, real)
    }

    fn names(at: &Path, hops: &Hops) -> Vec<String> {
        let shown = |(directory, name): &(PathBuf, OsString)| {
            directory.join(name).strip_prefix(at).expect("below").display().to_string()
        };
        hops.names.iter().map(shown).collect()
    }

    #[test]
    fn a_plain_file_has_one_hop_and_a_directory_none() {
        let (_folder, at) = folder();
        fs::create_dir(at.join("d")).expect("made");
        fs::write(at.join("d/f"), "").expect("written");
        let file = hops(Path::new("/"), &at.join("d/f"));
        assert_eq!((names(&at, &file), file.end.clone()), (vec!["d/f".to_owned()], Some(at.join("d/f"))));
        assert_eq!(hops(&at, Path::new("d/./f")), file, "from wherever one begins");
        assert_eq!(hops(&at, Path::new("d/../d/")), Hops { end: Some(at.join("d")), ..Hops::default() });
        let through = hops(&at, Path::new("d/f/x"));
        assert_eq!(
            (names(&at, &through), through.end),
            (vec!["d/f".to_owned()], None),
            "a file is no directory"
        );
    }

    #[test]
    fn chains_of_relative_and_absolute_links_are_followed_link_by_link() {
        let (_folder, at) = folder();
        for directory in ["a", "b", "c/deep"] {
            fs::create_dir_all(at.join(directory)).expect("made");
        }
        fs::write(at.join("c/deep/f"), "").expect("written");
        symlink("../b/two", at.join("a/one")).expect("a link");
        symlink(at.join("c"), at.join("b/two")).expect("a link");
        symlink("deep/f", at.join("c/three")).expect("a link");
        let hops = hops(&at, Path::new("a/one/three"));
        assert_eq!(names(&at, &hops), ["a/one", "b/two", "c/three", "c/deep/f"]);
        assert_eq!(hops.end, Some(at.join("c/deep/f")));
    }

    #[test]
    fn a_mounted_configmap_has_the_swapped_link_among_its_hops() {
        let (_folder, at) = folder();
        fs::create_dir(at.join("..2026_1")).expect("made");
        fs::write(at.join("..2026_1/x.wasm"), "").expect("written");
        symlink("..2026_1", at.join("..data")).expect("a link");
        symlink("..data/x.wasm", at.join("x.wasm")).expect("a link");
        let found = hops(&at, Path::new("x.wasm"));
        assert_eq!(names(&at, &found), ["x.wasm", "..data", "..2026_1/x.wasm"]);
        assert_eq!(found.end, Some(at.join("..2026_1/x.wasm")));
    }

    #[test]
    fn what_leads_nowhere_ends_at_the_name_that_would_change_that() {
        let (_folder, at) = folder();
        symlink("gone/f", at.join("dangling")).expect("a link");
        let dangling = hops(&at, Path::new("dangling"));
        assert_eq!(
            (names(&at, &dangling), dangling.end),
            (vec!["dangling".to_owned(), "gone".to_owned()], None)
        );
        let missing = hops(&at, Path::new("x/y/z"));
        assert_eq!((names(&at, &missing), missing.end), (vec!["x".to_owned()], None));
    }

    #[test]
    fn loops_end_after_as_many_links_as_the_kernel_follows() {
        let (_folder, at) = folder();
        symlink("b", at.join("a")).expect("a link");
        symlink("a", at.join("b")).expect("a link");
        let turning = hops(&at, Path::new("a"));
        assert_eq!((turning.names.len(), turning.end), (MAX_LINKS + 1, None));
        let chain = |length: usize| {
            for number in 0..length {
                symlink(format!("c{}", number + 1), at.join(format!("c{number}"))).expect("a link");
            }
            fs::write(at.join(format!("c{length}")), "").expect("written");
        };
        chain(MAX_LINKS);
        assert_eq!(hops(&at, Path::new("c0")).end, at.join("c0").canonicalize().ok());
        symlink("c0", at.join("one-more")).expect("a link");
        assert!(at.join("one-more").canonicalize().is_err(), "as the kernel has it");
        assert_eq!(hops(&at, Path::new("one-more")).end, None);
    }
}
