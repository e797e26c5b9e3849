//! A file that grows, read line by line as it grows: a log, a trace.
//!
//! For suites that look at long files often. Invariant: each line is given once, and only when it is whole.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// See the file's head.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    at: u64,
}

impl Tail {
    /// From the beginning of a file, which need not be there yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), at: 0 }
    }

    /// The lines that have become whole since the last time.
    ///
    /// # Errors
    /// If the file cannot be read, or is not text.
    pub fn lines(&mut self) -> Result<Vec<String>> {
        let Ok(mut file) = File::open(&self.path) else { return Ok(Vec::new()) };
        file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.at += whole as u64;
        let text = std::str::from_utf8(&bytes[..whole]).with_context(|| self.path.display().to_string())?;
        Ok(text.lines().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn each_line_comes_once_and_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut tail = Tail::new(&path);
        assert!(tail.lines().expect("nothing yet").is_empty());
        let mut file = File::create(&path).expect("a file");
        file.write_all(b"one\ntw").expect("written");
        assert_eq!(tail.lines().expect("a line"), ["one"]);
        assert!(tail.lines().expect("no line").is_empty());
        file.write_all(b"o\nthree\n").expect("written");
        assert_eq!(tail.lines().expect("two lines"), ["two", "three"]);
    }
}
