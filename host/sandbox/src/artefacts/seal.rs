//! The last bytes of an entry, which say what it is and let damage be found before anything is used.
//!
//! Written after the machine code by whoever compiled it (this process or its child), checked by the host each time.
//! wasmtime reads an artefact by the offsets in its head, so bytes behind it do no harm. Invariant: what passes
//! [`check`] is byte for byte what was sealed under this very key. (Against accidents: a checksum is no signature. That
//! nobody else writes there is the folder's affair.)
//!
//! | bytes | |
//! | --- | --- |
//! | 8 | `HARKSEAL` |
//! | 4 | what comes before: 0 an artefact, 1 the reason why the compiler does not take the content, 2 functions |
//! | 8 | its length |
//! | 32 | SHA-256 of the key |
//! | 8 | XXH3 (64 bits) of everything before: several times as fast as the disk |
//!
//! Numbers are little-endian.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use xxhash_rust::xxh3::Xxh3Default;

use super::key::Key;

const MAGIC: &[u8; 8] = b"HARKSEAL";
const LENGTH: usize = 8 + 4 + 8 + 32 + CHECKSUM;
const CHECKSUM: usize = 8;
/// Bytes read at a time: larger than what a disk reads ahead, smaller than a core's cache.
const CHUNK: usize = 256 << 10;
/// Bytes of a reason that are read.
const REASON_MAX: u64 = 16 << 10;

/// What an entry holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Held {
    /// Machine code.
    Artefact,
    /// The compiler does not take this content, for this reason: it need not be tried again.
    Refusal(String),
    /// Functions of a lineage, so many bytes.
    Functions(u64),
}

/// Why an entry is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// It is shorter than a seal, or than the seal says, or longer.
    #[error("it is cut short or has grown")]
    Length,
    /// There is no seal.
    #[error("it is not sealed")]
    Unsealed,
    /// The seal is of another content, mode or compiler.
    #[error("it is the entry of another key")]
    OtherKey,
    /// Bytes have changed.
    #[error("its checksum is wrong")]
    Checksum,
}

/// Writes an entry: what is held, and the seal. (The content of a refusal is its reason.)
pub(crate) fn write(file: &mut impl Write, key: &Key, held: &Held, artefact: &[u8]) -> io::Result<()> {
    let (kind, content) = match held {
        Held::Artefact => (0_u32, artefact),
        Held::Refusal(reason) => (1, reason.as_bytes()),
        Held::Functions(_) => (2, artefact),
    };
    let mut seal = Vec::with_capacity(LENGTH);
    seal.extend_from_slice(MAGIC);
    seal.extend_from_slice(&kind.to_le_bytes());
    seal.extend_from_slice(&(content.len() as u64).to_le_bytes());
    seal.extend_from_slice(&key.digest());
    let mut checksum = Xxh3Default::new();
    checksum.update(content);
    checksum.update(&seal);
    seal.extend_from_slice(&checksum.digest().to_le_bytes());
    file.write_all(content)?;
    file.write_all(&seal)
}

/// Reads an entry to its end and says what it holds. The cost is that of reading it: 36 MB take about 10 ms.
pub(crate) fn check(file: &File, key: &Key) -> Result<Held, Damage> {
    let mut file = file;
    let length = file.metadata()?.len();
    let content = length.checked_sub(LENGTH as u64).ok_or(Damage::Length)?;
    file.rewind()?;
    let checksum = read_content(&mut file, content)?;
    let mut seal = [0; LENGTH];
    file.read_exact(&mut seal)?;
    match judge(&seal, content, key, checksum)? {
        0 => Ok(Held::Artefact),
        1 => {
            file.rewind()?;
            let mut reason = Vec::new();
            file.take(content.min(REASON_MAX)).read_to_end(&mut reason)?;
            Ok(Held::Refusal(String::from_utf8_lossy(&reason).into_owned()))
        }
        2 => Ok(Held::Functions(content)),
        _ => Err(Damage::Unsealed),
    }
}

/// The checksum so far of the bytes before the seal.
fn read_content(file: &mut &File, mut left: u64) -> Result<Xxh3Default, Damage> {
    let mut checksum = Xxh3Default::new();
    let mut chunk = vec![0; CHUNK];
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let read = file.read(&mut chunk[..most])?;
        if read == 0 {
            return Err(Damage::Length);
        }
        checksum.update(&chunk[..read]);
        left -= read as u64;
    }
    Ok(checksum)
}

/// Compares a seal with what it should say, and gives the kind of what is sealed.
fn judge(seal: &[u8; LENGTH], content: u64, key: &Key, mut checksum: Xxh3Default) -> Result<u32, Damage> {
    let (said, wanted) = seal.split_at(LENGTH - CHECKSUM);
    let Some(rest) = said.strip_prefix(MAGIC) else { return Err(Damage::Unsealed) };
    let Some((kind, rest)) = rest.split_first_chunk::<4>() else { return Err(Damage::Unsealed) };
    let Some((length, digest)) = rest.split_first_chunk::<8>() else { return Err(Damage::Unsealed) };
    if u64::from_le_bytes(*length) != content {
        return Err(Damage::Length);
    }
    checksum.update(said);
    if checksum.digest().to_le_bytes() != wanted {
        return Err(Damage::Checksum);
    }
    if digest != key.digest() {
        return Err(Damage::OtherKey);
    }
    Ok(u32::from_le_bytes(*kind))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::key::Maker;
    use super::*;
    use crate::compiler::Compile;
    use crate::hash::ContentHash;

    fn key(content: &[u8]) -> Key {
        let maker = Maker::of(&wasmtime::Engine::default());
        Key::new(ContentHash::of(content), Compile::Fast, maker)
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("written");
        file
    }

    fn sealed(held: &Held, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, &key(b"a"), held, content).expect("a vector takes it");
        bytes
    }

    #[test]
    fn what_was_sealed_is_found_again() {
        let refusal = Held::Refusal("tail calls".into());
        let functions = (Held::Functions(9), &b"functions"[..]);
        for (held, content) in
            [(Held::Artefact, &b"code"[..]), (refusal, b""), (Held::Artefact, b""), functions]
        {
            let bytes = sealed(&held, content);
            assert_eq!(check(&file(&bytes), &key(b"a")).expect("sealed"), held);
            assert!(matches!(check(&file(&bytes), &key(b"b")), Err(Damage::OtherKey)));
        }
        let large = vec![7; 3 * CHUNK + 1];
        let bytes = sealed(&Held::Artefact, &large);
        assert_eq!(bytes.len(), large.len() + LENGTH);
        assert_eq!(check(&file(&bytes), &key(b"a")).expect("sealed"), Held::Artefact);
    }

    proptest! {
        #[test]
        fn every_cut_every_addition_and_every_flipped_bit_is_noticed(
            content in prop::collection::vec(any::<u8>(), 0..200),
            at in any::<prop::sample::Index>(),
            bit in 0..8_u32,
            more in prop::collection::vec(any::<u8>(), 1..80),
        ) {
            let whole = sealed(&Held::Artefact, &content);
            let at = at.index(whole.len());
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            let grown = [&whole[..], &more].concat();
            for bytes in [&whole[..at], &flipped, &grown] {
                prop_assert!(check(&file(bytes), &key(b"a")).is_err());
            }
        }
    }
}
