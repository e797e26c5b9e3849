//! Hosts with a view of the file systems of their own (a mount namespace), and hosts that permissions hold for.
//!
//! Used by the ways that mount and unmount, and by those that take permissions away. Invariant: nothing is mounted where
//! anybody but the way's own host sees it, and it goes with the host.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::stage::Stage;
use super::tools::{self, skip};

/// Becomes a host in a mount namespace of its own, in which a line of shell has been run first.
pub fn unshared(line: &str) -> [String; 7] {
    let script = format!("{line}\nexec \"$0\" \"$@\"");
    ["unshare", "--mount", "--propagation", "private", "sh", "-ec", &script].map(str::to_owned)
}

/// Becomes a host that must ask for permission as everybody else must, though it is root's.
pub const WITHOUT_PRIVILEGE: [&str; 4] =
    ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"];

/// Whether a way can mount on this machine; says so if not.
pub fn can_mount(way: &str) -> bool {
    if !tools::are_there(way, &["unshare", "nsenter", "mount", "umount"]) {
        return false;
    }
    let folder = tempfile::tempdir();
    let tried = folder.map_err(anyhow::Error::from).and_then(|folder| {
        let line = ["--mount", "--propagation", "private", "mount", "-t", "tmpfs", "none", "."];
        tools::run(folder.path(), "unshare", &line)
    });
    if let Err(error) = &tried {
        skip(way, &format!("no mount namespace to be had: {error:#}"));
    }
    tried.is_ok()
}

/// Whether permissions can be made to hold for a host; says so if not.
pub fn can_be_refused(way: &str) -> bool {
    if !tools::are_there(way, &["setpriv"]) {
        return false;
    }
    let command = [&WITHOUT_PRIVILEGE[1..], &["true"]].concat();
    let tried = tools::run(Path::new("/"), "setpriv", &command);
    if let Err(error) = &tried {
        skip(way, &format!("no privilege can be dropped: {error:#}"));
    }
    tried.is_ok()
}

impl Stage {
    /// Runs a line of shell in the host's folder, in its mount namespace.
    ///
    /// # Errors
    /// If it fails, with what it said.
    pub fn inside(&self, line: &str) -> Result<()> {
        let (pid, folder) = (self.hark.pid().to_string(), self.hark.folder().display().to_string());
        let line = format!("cd '{folder}'\n{line}");
        tools::run(Path::new("/"), "nsenter", &["--target", &pid, "--mount", "sh", "-ec", &line])
    }

    /// A path of the host's folder as its mount namespace has it, for this process.
    pub fn seen(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.hark.pid()));
        let folder = self.hark.folder();
        root.join(folder.strip_prefix("/").unwrap_or(folder)).join(name)
    }

    /// From now on the plugins folder is looked at as the host's mount namespace has it.
    ///
    /// # Errors
    /// If it is not there.
    pub fn looks_inside(&mut self, folder: &str) -> Result<()> {
        self.folder = self.seen(folder);
        ensure!(self.folder.exists(), "{} is not there", self.folder.display());
        Ok(())
    }
}
