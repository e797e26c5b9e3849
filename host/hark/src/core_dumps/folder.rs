//! The folder of core dumps: names, rights, and what is thrown away.
//!
//! Owned by the thread that writes. A dump holds what the plugin held, the Secrets it was shown among it. Invariants:
//! the folder is made for its owner alone, and each file is its owner's alone; the newest [`KEPT`] files are kept, and
//! no more than [`TOTAL`] bytes of them (the newest one in any case).

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hark_sandbox::ContentHash;

/// Files that are kept.
const KEPT: usize = 20;

/// Bytes of all files together.
const TOTAL: u64 = 1 << 30;

/// What the names of the files end in.
const ENDING: &str = "coredump";

/// See the file's head.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

/// The name of a dump: `PLUGIN-HASH-TIME.coredump`, with the first twelve digits of the content's hash, and UTC.
pub(super) fn name(plugin: &str, hash: &ContentHash, time: jiff::Timestamp) -> String {
    let digits: String = hash.to_string().chars().take(12).collect();
    format!("{plugin}-{digits}-{}.{ENDING}", time.strftime("%Y%m%dT%H%M%S.%3fZ"))
}

/// Whether a file is called as [`name`] calls it.
fn is_ours(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(ENDING).and_then(|stem| stem.strip_suffix('.')) else { return false };
    let mut parts = stem.rsplitn(3, '-');
    let (Some(time), Some(hash), Some(plugin)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let is_hash = hash.len() == 12 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_time = |text: &str| {
        let shape = text.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
        shape.eq(*b"00000000T000000.000Z")
    };
    !plugin.is_empty() && is_hash && is_time(time)
}

impl Folder {
    /// The folder, made if need be, by its absolute path, so that whoever reads of a file finds it.
    ///
    /// # Errors
    /// If it cannot be made, or is something else.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        std::fs::canonicalize(path).map(Self)
    }

    /// Where a dump with this name is, or will be.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a dump, and drops the oldest ones where there are too many. One that is not whole is not left behind.
    ///
    /// # Errors
    /// If it is empty, or the disk refuses.
    pub(super) fn keep(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        if content.is_empty() {
            return Err(io::Error::other("it cannot be put into the format"));
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        if let Err(error) = file.write_all(content) {
            // What the disk did not take is of no use; that it is full is said.
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        self.prune(KEPT, TOTAL)
    }

    fn prune(&self, kept: usize, total: u64) -> io::Result<()> {
        let mut bytes = 0;
        for (place, (_, size, path)) in self.newest_first()?.into_iter().enumerate() {
            bytes += size;
            if place > 0 && (place >= kept || bytes > total) {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// The dumps of ours that are there, with time and size. What has another kind of name is somebody else's.
    fn newest_first(&self) -> io::Result<Vec<(SystemTime, u64, PathBuf)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_file() && entry.file_name().to_str().is_some_and(is_ours) {
                found.push((metadata.modified()?, metadata.len(), entry.path()));
            }
        }
        // Equal times: the name has the time too.
        found.sort_by(|(a, _, one), (b, _, other)| (b, other).cmp(&(a, one)));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Files of one byte, a second apart, the oldest first.
    fn folder_with(names: &[&str]) -> (tempfile::TempDir, Folder) {
        let temporary = tempfile::tempdir().expect("a folder");
        for (age, name) in (1..).zip(names.iter().rev()) {
            let file = std::fs::File::create(temporary.path().join(name)).expect("made");
            file.set_len(1).expect("sized");
            let time = SystemTime::now() - std::time::Duration::from_secs(age);
            file.set_modified(time).expect("dated");
        }
        let folder = Folder::open(temporary.path()).expect("there");
        (temporary, folder)
    }

    /// What a dump of a plugin is called.
    fn dump(plugin: &str) -> String {
        format!("{plugin}-2d711642b726-20261130T010203.004Z.coredump")
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("readable");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_name_has_plugin_content_and_time() {
        let time: jiff::Timestamp = "2026-11-30T01:02:03.004Z".parse().expect("a time");
        let name = name("pod-audit", &ContentHash::of(b"x"), time);
        assert_eq!(name, dump("pod-audit"));
        assert!(is_ours(&name));
    }

    #[test]
    fn folder_and_file_are_their_owners_alone() {
        let temporary = tempfile::tempdir().expect("a folder");
        let path = temporary.path().join("a/dumps");
        let folder = Folder::open(&path).expect("made");
        let file = path.join("p.coredump");
        assert_eq!(
            folder.path_of("p.coredump"),
            std::fs::canonicalize(&path).expect("there").join("p.coredump")
        );
        folder.keep(&file, b"content").expect("written");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&file)), (0o700, 0o600));
        assert_eq!(std::fs::read(&file).expect("there"), b"content");
        assert!(folder.keep(&file, b"other").is_err(), "nothing is written over");
        assert!(folder.keep(&path.join("q.coredump"), b"").is_err());
        assert_eq!(names(&path), ["p.coredump"]);
    }

    #[test]
    fn the_newest_are_kept_by_number_and_by_size() {
        let all = ["c", "a", "b", "d"].map(dump);
        for (kept, total, want) in [
            (3, 100, vec!["a", "b", "d"]),
            (9, 2, vec!["b", "d"]),
            (9, 4, vec!["a", "b", "c", "d"]),
            (0, 0, vec!["d"]),
        ] {
            let (temporary, folder) = folder_with(&all.each_ref().map(String::as_str));
            folder.prune(kept, total).expect("pruned");
            let want: Vec<String> = want.into_iter().map(dump).collect();
            assert_eq!(names(temporary.path()), want, "{kept} {total}");
        }
    }

    #[test]
    fn what_is_no_dump_of_ours_is_left_alone() {
        let (old, new) = (dump("old"), dump("new"));
        let others = [
            "app.coredump",
            "notes.txt",
            "p-2d711642b726-20261130T010203.004Z.coredump.gz",
            "p-2d711642b726-yesterday.coredump",
            "p-not-a-hash-20261130T010203.004Z.coredump",
        ];
        let mut all = vec![old.as_str()];
        all.extend(others);
        all.push(&new);
        let (temporary, folder) = folder_with(&all);
        folder.prune(1, 1).expect("pruned");
        let mut want = others.to_vec();
        want.push(&new);
        want.sort_unstable();
        assert_eq!(names(temporary.path()), want);
    }
}
