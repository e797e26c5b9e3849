//! What tells one state of a file from another without reading it.
//!
//! Used by the looks at files and by whoever reads one. Invariant: stamps are only ever compared for equality; the
//! machine's clock has a say in nothing but how soon a file is read.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long two changes may have one and the same time: two ticks of the slowest kernel clock (100 Hz).
const TICKS: Duration = Duration::from_millis(20);

/// The same where times have no fractions of a second: FAT counts in steps of two seconds.
const COARSE: Duration = Duration::from_secs(2);

/// One state of a file. The change time is part of it, so that a file whose modification time was set back is seen to
/// have changed too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp that the system's answer has.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The file's present stamp; none if it is gone.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The time that its content was changed, as the file has it: seconds since 1970, and nanoseconds.
    pub(crate) fn modified(&self) -> (i64, i64) {
        self.modified
    }

    /// When the system last saw its content, its name or its owner change. (Renaming sets it too.)
    pub(crate) fn changed(&self) -> Option<SystemTime> {
        time(self.changed)
    }

    /// Which file it is, whatever its name: device and inode.
    pub(super) fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// For how long after a change was seen another one may have the same stamp. (git calls such stamps racy.)
    pub(crate) fn resolution(&self) -> Duration {
        if self.modified.1 == 0 && self.changed.1 == 0 { COARSE } else { TICKS }
    }

    /// Whether it may be one of a file that is being written: that sets both times to one moment. A file that was renamed,
    /// linked, or had its time set by whoever copied it has two.
    pub(super) fn may_be_of_a_write(&self) -> bool {
        self.modified == self.changed
    }

    /// Whether the file was last changed longer ago than `age`, by the machine's clock.
    pub(super) fn is_older_than(&self, age: Duration, now: SystemTime) -> bool {
        let at = time(self.modified.max(self.changed));
        at.and_then(|at| now.duration_since(at).ok()).is_some_and(|passed| passed > age)
    }

    /// Whether the same file differs in no more than what links, owners and permissions change.
    pub(super) fn same_content_likely(&self, other: &Self) -> bool {
        Self { changed: other.changed, ..*self } == *other
    }
}

/// Which file or directory is there; none if it is gone.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    Stamp::read(path).map(|stamp| stamp.identity())
}

/// None if it is before 1970.
fn time((seconds, nanos): (i64, i64)) -> Option<SystemTime> {
    let since = u64::try_from(seconds).ok().zip(u32::try_from(nanos).ok());
    since.and_then(|(seconds, nanos)| UNIX_EPOCH.checked_add(Duration::new(seconds, nanos)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A stamp for tables: `number` tells it from others, and it is of a write.
    pub(crate) fn stamp(number: u64) -> Stamp {
        Stamp { device: 1, inode: number, size: number, modified: (1000, 1), changed: (1000, 1) }
    }

    impl Stamp {
        /// The same file with another size, before its times have changed.
        pub(crate) fn with_size(self, size: u64) -> Self {
            Self { size, ..self }
        }
    }

    #[test]
    fn a_changed_file_has_another_stamp_although_its_time_was_set_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.wasm");
        std::fs::write(&path, "a").expect("written");
        let before = Stamp::read(&path).expect("there");
        let time = std::fs::metadata(&path).and_then(|metadata| metadata.modified()).expect("a time");
        std::fs::write(&path, "b").expect("written");
        let file = std::fs::File::options().write(true).open(&path).expect("open");
        file.set_modified(time).expect("set");
        let after = Stamp::read(&path).expect("there");
        assert_ne!(after, before);
        assert!(!after.may_be_of_a_write(), "its times differ");
    }

    #[test]
    fn how_old_a_file_is_goes_by_the_later_of_its_times() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let (second, stamp) = (Duration::from_secs(1), Stamp { changed: (1005, 0), ..stamp(1) });
        for (now, older) in
            [(0, false), (1001, false), (1005, false), (1006, false), (1007, true), (9999, true)]
        {
            assert_eq!(stamp.is_older_than(second, at(now)), older, "{now}");
        }
        let before_time = Stamp { modified: (-5, 0), changed: (-5, 0), ..stamp };
        assert!(!before_time.is_older_than(second, at(1)), "nobody knows");
    }

    #[test]
    fn only_times_without_fractions_are_coarse() {
        assert_eq!(stamp(1).resolution(), TICKS);
        let touched = Stamp { modified: (1000, 0), ..stamp(1) };
        assert_eq!(touched.resolution(), TICKS, "somebody set a time by hand");
        assert_eq!(Stamp { changed: (1000, 0), ..touched }.resolution(), COARSE);
    }

    #[test]
    fn a_link_more_or_less_is_no_change_of_content() {
        let linked = Stamp { changed: (1001, 0), ..stamp(1) };
        assert!(linked.same_content_likely(&stamp(1)));
        assert!(!Stamp { size: 2, ..linked }.same_content_likely(&stamp(1)));
    }
}
