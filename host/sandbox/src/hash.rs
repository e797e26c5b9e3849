//! The identity of a plugin's content: the SHA-256 of the file's bytes.
//!
//! Used to tell versions apart, to pin a plugin, and to name artefacts. Invariant: always of the bytes as
//! they were in the file, before anything was made of them.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// Bytes read at a time: larger than what a disk reads ahead, smaller than a core's cache.
const PIECE: usize = 256 << 10;

/// SHA-256 of a plugin's file. `Display` is the whole hash in hex; [`ContentHash::short`] is for people.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash of all that is read, piece by piece, and how many bytes it is of. The pieces stay in a core's cache, where
    /// a whole file takes memory, which costs as much as reading it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(from: &mut impl Read) -> io::Result<(Self, u64)> {
        let (mut hasher, mut length, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
        loop {
            match from.read(&mut piece) {
                Ok(0) => return Ok((Self(hasher.finalize().into()), length)),
                Ok(read) => {
                    hasher.update(&piece[..read]);
                    length += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The hash that is these bytes.
    pub(crate) fn from_bytes(hash: [u8; 32]) -> Self {
        Self(hash)
    }

    /// The hash itself.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 12 hex digits.
    pub fn short(&self) -> String {
        self.to_string().chars().take(12).collect()
    }
}

/// Bytes with their hash, which is taken once: for tens of megabytes it takes tens of milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct HashedBytes<'a> {
    bytes: &'a [u8],
    hash: ContentHash,
}

impl<'a> HashedBytes<'a> {
    /// Takes the hash.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, hash: ContentHash::of(bytes) }
    }

    /// The bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Their hash.
    pub fn hash(&self) -> &ContentHash {
        &self.hash
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text that is no SHA-256 in lower-case hex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not 64 hexadecimal digits")]
pub struct NotAHash;

impl FromStr for ContentHash {
    type Err = NotAHash;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, NotAHash> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(NotAHash),
        };
        let mut hash = [0; 32];
        if text.len() != 2 * hash.len() {
            return Err(NotAHash);
        }
        for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(hash))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_piece_by_piece_it_is_the_same() {
        for length in [0, 1, PIECE - 1, PIECE, 2 * PIECE + 7] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let read = ContentHash::read(&mut bytes.as_slice()).expect("a slice can be read");
            assert_eq!(read, (ContentHash::of(&bytes), length as u64));
        }
    }

    #[test]
    fn is_sha256_in_hex() {
        let hash = ContentHash::of(b"abc");
        assert_eq!(hash.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hash.short(), "ba7816bf8f01");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        let upper = hash.to_string().to_uppercase();
        let long = format!("{hash}0");
        for wrong in ["", "ba7816bf8f01", &upper, &long, &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(wrong.parse::<ContentHash>(), Err(NotAHash), "{wrong:?}");
        }
    }
}
