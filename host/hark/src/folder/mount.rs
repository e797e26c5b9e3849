//! Which mount a directory is on, and when a mount has gone away from under it.
//!
//! Used by the scan. Invariant: plugins that lay on a mount are not gone because the mount is (design 4.12).

use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// A mount, as the kernel counts them; where it does not (before Linux 5.8), the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mount {
    Number(u64),
    Device(u32, u32),
}

impl Mount {
    /// The mount that `path` is on; none if it cannot be asked.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let answer = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
        Some(if answer.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
            Self::Device(answer.stx_dev_major, answer.stx_dev_minor)
        } else {
            Self::Number(answer.stx_mnt_id)
        })
    }

    /// The mount that `path` is on, or what is left of the way to it.
    fn of_what_is_left(path: &Path) -> Option<Self> {
        path.ancestors().find_map(Self::of)
    }
}

/// Whether a directory's mount has gone away: another one is there now, and no plugin in it.
pub(super) fn has_gone(
    before: Option<Mount>,
    now: Option<Mount>,
    plugins_before: usize,
    plugins_now: usize,
) -> bool {
    before != now && plugins_before > 0 && plugins_now == 0
}

/// Whether a file that lay in `directory` is missing because the mount that it was on is.
pub(super) fn is_missing(before: Option<Mount>, directory: &Path) -> bool {
    before.is_some() && Mount::of_what_is_left(directory) != before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_has_gone_if_another_one_is_there_that_has_no_plugin() {
        let (one, two) = (Some(Mount::Number(1)), Some(Mount::Number(2)));
        let device = Some(Mount::Device(1, 0));
        for (before, now, plugins_before, plugins_now, gone) in [
            (one, one, 2, 0, false),
            (one, two, 2, 0, true),
            (one, two, 2, 1, false),
            (one, two, 0, 0, false),
            (one, None, 1, 0, true),
            (device, Some(Mount::Device(1, 1)), 1, 0, true),
            (device, device, 1, 0, false),
            (None, None, 1, 0, false),
        ] {
            let got = has_gone(before, now, plugins_before, plugins_now);
            assert_eq!(got, gone, "{before:?} {now:?} {plugins_before} {plugins_now}");
        }
    }

    #[test]
    fn what_lies_in_one_folder_is_on_one_mount_and_proc_is_on_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let here = Mount::of(folder.path());
        assert!(here.is_some());
        assert_eq!(Mount::of_what_is_left(&folder.path().join("a/b")), here);
        assert_ne!(Mount::of(Path::new("/proc")), here);
        assert!(!is_missing(here, &folder.path().join("a")), "its mount is still there");
        assert!(is_missing(Mount::of(Path::new("/proc")), folder.path()));
        assert!(!is_missing(None, folder.path()), "nobody knows where it was");
        assert_eq!(Mount::of(&folder.path().join("a")), None);
    }
}
