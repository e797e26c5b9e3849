//! Reading the file, and why that may fail.
//!
//! Used at the start and by the looks at the file. Invariant: what cannot be a configuration is not read, however large it
//! is, or whatever else than a file.

use std::path::{Path, PathBuf};

use super::Config;

/// Bytes of the largest file that is read: a thousand times what one has.
pub(super) const MAX_SIZE: u64 = 1 << 20;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is a folder, a pipe or a device.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// It is larger than any configuration is.
    #[error("{} has {size} bytes; a configuration has at most {MAX_SIZE}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// There is nothing in it. Valid, but seldom meant: a full disk, or a save that is broken off, leaves such a file.
    #[error("{} is empty, which is seldom meant: to have the defaults, write a comment into it (`# defaults`)", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is not TOML.
    #[error("{} is not valid TOML: {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// The file says things that it may not: one line each, with the key's path.
    #[error("{} has {} error{}:\n  {}", path.display(), errors.len(), if errors.len() == 1 { "" } else { "s" }, errors.join("\n  "))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Each with its key.
        errors: Vec<String>,
    },
}

impl ConfigError {
    /// There is no such file.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }

    /// There is nothing in the file.
    pub(crate) fn is_emptiness(&self) -> bool {
        matches!(self, Self::Empty { .. })
    }
}

impl Config {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file and every key that is wrong. Whoever has nothing to lose may take an empty file for
    /// the defaults.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        let read = |source| ConfigError::Read { path: path.to_owned(), source };
        let metadata = std::fs::metadata(path).map_err(read)?;
        if !metadata.is_file() {
            return Err(ConfigError::NotAFile { path: path.to_owned() });
        }
        if metadata.len() > MAX_SIZE {
            return Err(ConfigError::TooLarge { path: path.to_owned(), size: metadata.len() });
        }
        let text = std::fs::read_to_string(path).map_err(read)?;
        if is_blank(&text) {
            return Err(ConfigError::Empty { path: path.to_owned() });
        }
        Self::parse(&text, path)
    }
}

/// White space alone, and the mark that some editors begin every file with.
fn is_blank(text: &str) -> bool {
    text.chars().all(|char| char.is_whitespace() || char == '\u{feff}')
}
