//! File systems that do not tell of all changes: what other machines, or a host behind the mount, change in them.
//!
//! Used to say why looks go by the clock. Invariant: a file system that is not known here is taken at its word; should
//! it break it, the looks themselves notice (`way`).

use std::path::Path;

/// Magic numbers of statfs(2), with the name for people and metrics: from the kernel's `magic.h`, and from the
/// file systems' own sources where they are not in it.
const SILENT: &[(u32, &str)] = &[
    (0x0000_6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0000_517b, "smb"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "afs"),
    (0x00c3_6400, "ceph"),
    (0x7375_7245, "coda"),
    (0x0000_564c, "ncp"),
    (0x7461_636f, "ocfs2"),
    (0x0116_1970, "gfs2"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x2003_0528, "orangefs"),
    (0x786f_4256, "vboxsf"),
    (0xbacb_acbc, "vmhgfs"),
    (0x00c0_ffee, "hostfs"),
    (0x6163_6673, "acfs"),
    (0x1983_0326, "beegfs"),
    (0x7c7c_6673, "prl_fs"),
];

/// The name of the file system that a directory is on, if it is one of those; none also if it cannot be asked.
pub(super) fn silent(directory: &Path) -> Option<&'static str> {
    let answer = rustix::fs::statfs(directory).ok()?;
    // The type's width differs between architectures; the numbers have 32 bits.
    named(answer.f_type as u32)
}

fn named(magic: u32) -> Option<&'static str> {
    SILENT.iter().find(|(number, _)| *number == magic).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_machines_change_is_not_told_of_and_what_is_local_is() {
        for (magic, name) in [
            (0x6969, Some("nfs")),
            (0x0102_1997, Some("9p")),
            (0x6573_5546, Some("fuse")),
            (0xff53_4d42, Some("cifs")),
            (0xef53, None),
            (0x0102_1994, None),
            (0x794c_7630, None),
            (0x9123_683e, None),
            (0x5846_5342, None),
        ] {
            assert_eq!(named(magic), name, "{magic:#x}");
        }
    }

    #[test]
    fn each_number_is_there_once_and_what_is_not_there_has_none() {
        let mut numbers: Vec<u32> = SILENT.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), SILENT.len());
        assert_eq!(silent(Path::new("/nonexistent/plugins")), None);
        assert_eq!(silent(Path::new("/")), None, "a machine's own disk");
    }
}
