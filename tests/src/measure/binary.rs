//! Which binary is measured.
//!
//! Invariant: what was chosen is said, with its age, so that nobody takes an old build's numbers for a new one's.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// See the file's head.
#[derive(Debug, Clone)]
pub struct Binary {
    /// Where it is.
    pub path: PathBuf,
    age: Duration,
}

impl Binary {
    /// The one named, else the one beside the running program, which is of the same profile.
    ///
    /// # Errors
    /// If there is none.
    pub fn choose(named: Option<&Path>) -> Result<Self> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => std::env::current_exe()?.with_file_name("hark"),
        };
        let metadata = std::fs::metadata(&path).with_context(|| format!("cannot find {}", path.display()))?;
        ensure!(metadata.is_file(), "{} is no file", path.display());
        let age = metadata.modified()?.elapsed().unwrap_or_default();
        Ok(Self { path: path.canonicalize()?, age })
    }
}

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let kind = match &*folder {
            "release" => "release build",
            "debug" => "development build",
            _ => "binary",
        };
        write!(f, "{kind}, {} minutes old", self.age.as_secs() / 60)
    }
}
