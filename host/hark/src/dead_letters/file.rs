//! The file of a cluster's dead letters: one line of JSON each, oldest first.
//!
//! Written by the host that has the folder, and by `hark dead-letters drop`; read by both. Invariants: whoever
//! writes holds the lock beside the file, for moments; the file is changed by appending whole lines, or replaced as a
//! whole by a rename; only its owner can read it; what is no letter is reported by its line, kept, and harms nobody.

use std::collections::HashSet;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::letter::Letter;
use crate::state_folder::{OWNER_ONLY, replace};

/// Bytes that the file may have; above, the oldest lines are dropped until it is a quarter less.
const MAX_BYTES: u64 = 32 << 20;

/// Bytes of a file that is read at all: nothing that Hark wrote is larger.
const READ_MAX: u64 = 2 * MAX_BYTES;

/// See the file's head.
#[derive(Debug, Clone)]
pub(crate) struct LetterFile {
    path: PathBuf,
    lock: PathBuf,
    max: u64,
}

/// What is in the file.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Oldest first.
    pub(crate) letters: Vec<Letter>,
    pub(crate) damaged: Vec<Damage>,
}

/// A line that is no letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) why: String,
}

impl LetterFile {
    /// The file in a cluster's folder; it need not be there.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self {
            path: folder.join("dead-letters.jsonl"),
            lock: folder.join("dead-letters.lock"),
            max: MAX_BYTES,
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads all of it; nothing if there is no file.
    ///
    /// # Errors
    /// If it cannot be read, or is too large to be one of Hark's.
    pub(crate) fn read(&self) -> io::Result<Contents> {
        let locked = File::open(&self.lock).ok();
        if let Some(lock) = &locked {
            lock.lock_shared()?;
        }
        let bytes = self.bytes()?;
        drop(locked);
        let mut contents = Contents::default();
        for (number, line) in (1..).zip(lines(&bytes)) {
            match parse(line) {
                Ok(letter) => contents.letters.push(letter),
                Err(why) => contents.damaged.push(Damage { line: number, why }),
            }
        }
        Ok(contents)
    }

    /// Adds letters, and gives how many lines were dropped for it: the oldest, if there are too many.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn append(&self, letters: &[Letter]) -> io::Result<usize> {
        let _lock = self.locked()?;
        let mut text = Vec::new();
        for letter in letters {
            serde_json::to_writer(&mut text, letter)?;
            text.push(b'\n');
        }
        let mut file =
            OpenOptions::new().create(true).read(true).append(true).mode(OWNER_ONLY).open(&self.path)?;
        file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
        if !ends_a_line(&mut file)? {
            // Somebody was killed in the middle of a line: what follows is a line of its own.
            text.insert(0, b'\n');
        }
        file.write_all(&text)?;
        file.sync_data()?;
        if file.metadata()?.len() > self.max { self.trim() } else { Ok(0) }
    }

    /// Removes letters, and gives how many there were.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub(crate) fn remove(&self, ids: &HashSet<String>) -> io::Result<usize> {
        if ids.is_empty() || !self.path.exists() {
            return Ok(0);
        }
        let _lock = self.locked()?;
        let bytes = self.bytes()?;
        let (mut kept, mut removed) = (Vec::with_capacity(bytes.len()), 0);
        for line in lines(&bytes) {
            if parse(line).is_ok_and(|letter| ids.contains(&letter.id)) {
                removed += 1;
            } else {
                kept.extend_from_slice(line);
                kept.push(b'\n');
            }
        }
        if removed > 0 {
            replace(&self.path, &kept)?;
        }
        Ok(removed)
    }

    /// Drops the oldest lines.
    fn trim(&self) -> io::Result<usize> {
        let bytes = self.bytes()?;
        let keep = usize::try_from(self.max / 4 * 3).unwrap_or(usize::MAX);
        let from = bytes.len().saturating_sub(keep);
        let from =
            bytes[from..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| from + at + 1);
        replace(&self.path, &bytes[from..])?;
        Ok(lines(&bytes[..from]).count())
    }

    fn bytes(&self) -> io::Result<Vec<u8>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(READ_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > READ_MAX {
            return Err(io::Error::other(format!("it has more than {READ_MAX} bytes")));
        }
        Ok(bytes)
    }

    /// The lock for writing, held until it is dropped.
    fn locked(&self) -> io::Result<File> {
        let lock =
            OpenOptions::new().create(true).write(true).truncate(false).mode(OWNER_ONLY).open(&self.lock)?;
        lock.lock()?;
        Ok(lock)
    }
}

/// The lines of a file; a last one that is not ended counts.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.strip_suffix(b"\n").unwrap_or(bytes).split(|byte| *byte == b'\n').filter(|_| !bytes.is_empty())
}

fn parse(line: &[u8]) -> Result<Letter, String> {
    let letter: Letter = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let is_id = letter.id.len() == 12 && letter.id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id { Ok(letter) } else { Err("its id is not twelve hexadecimal digits".to_owned()) }
}

fn ends_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A letter as it is in a file.
    fn line(id: u32) -> String {
        format!(
            r#"{{"id":"{id:012x}","time":"t","plugin":"p","plugin_sha256":"h","generation":1,"subscription":"s","api_version":"v1","kind":"Pod","op":"add","key":"n/a","uid":"u","rv":"1","reason":null,"attempts":1,"outcome":"trap","message":null,"object":null}}"#
        )
    }

    fn letter(id: u32) -> Letter {
        parse(line(id).as_bytes()).expect("a letter")
    }

    fn ids(file: &LetterFile) -> Vec<String> {
        let letters = file.read().expect("read").letters;
        letters.iter().map(|letter| letter.id.trim_start_matches('0').to_owned()).collect()
    }

    #[test]
    fn letters_are_appended_removed_and_nobody_elses_to_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = LetterFile::in_folder(folder.path());
        assert_eq!(ids(&file), [""; 0], "there is no file yet");
        std::fs::write(file.path(), "").expect("written");
        std::fs::set_permissions(file.path(), Permissions::from_mode(0o644)).expect("opened");
        let mode = || file.path().metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!(file.append(&[letter(1), letter(2)]).expect("appended"), 0);
        file.append(&[letter(3)]).expect("appended");
        assert_eq!((ids(&file), mode()), (vec!["1".into(), "2".into(), "3".into()], 0o600));
        let gone = HashSet::from([letter(2).id, letter(9).id]);
        assert_eq!(file.remove(&gone).expect("removed"), 1);
        assert_eq!((ids(&file), mode()), (vec!["1".into(), "3".into()], 0o600));
        let text = std::fs::read_to_string(file.path()).expect("read");
        assert_eq!(text, format!("{}\n{}\n", line(1), line(3)), "written as it was read");
    }

    #[test]
    fn what_is_no_letter_is_reported_by_its_line_and_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = LetterFile::in_folder(folder.path());
        let bad_id = line(2).replace("000000000002", "../../passwd");
        let deep = "[".repeat(100_000);
        let mut bytes = format!("{}\n\n{bad_id}\n{deep}\n", line(1)).into_bytes();
        bytes.extend_from_slice(b"\xff\xfe\0\n{\"id\":");
        std::fs::write(file.path(), &bytes).expect("written");
        file.append(&[letter(7)]).expect("appended");
        assert_eq!(ids(&file), ["1", "7"], "the half-written line did not take the next one with it");
        let numbers: Vec<usize> =
            file.read().expect("read").damaged.iter().map(|damage| damage.line).collect();
        assert_eq!(numbers, [2, 3, 4, 5, 6]);
        file.remove(&HashSet::from([letter(1).id])).expect("removed");
        let contents = file.read().expect("read");
        assert_eq!((contents.letters.len(), contents.damaged.len()), (1, 5));
    }

    #[test]
    fn of_too_many_the_oldest_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let size = line(1).len() as u64 + 1;
        let file = LetterFile { max: 8 * size, ..LetterFile::in_folder(folder.path()) };
        let letters: Vec<Letter> = (1..=8).map(letter).collect();
        assert_eq!(file.append(&letters).expect("appended"), 0);
        assert_eq!(file.append(&[letter(9)]).expect("appended"), 4);
        assert_eq!(ids(&file), ["5", "6", "7", "8", "9"]);
    }
}
