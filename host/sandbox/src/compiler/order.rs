//! What a child is asked to compile: the bytes of its standard input.
//!
//! Written by `process`, read by `child`. Invariant: either both ends are the same program, or the tail does not fit and
//! nothing is compiled.
//!
//! | bytes | |
//! | --- | --- |
//! | as the tail says | the file |
//! | the rest | functions that are known of its lineage (`functions`) |
//! | 8 | `HARKTASK` |
//! | 8 | the file's length |
//! | 1 | how nice the child is to be |
//! | 1 | 1: the file has a lineage, whose functions are to be left in place of the input |
//! | 32 | which lineage |
//!
//! Numbers are little-endian.

use std::io::{self, Write};

use crate::lineage::Lineage;

const MAGIC: &[u8; 8] = b"HARKTASK";
const TAIL: usize = 8 + 8 + 1 + 1 + 32;

/// See the file's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order<'a> {
    pub(super) file: &'a [u8],
    pub(super) functions: &'a [u8],
    pub(super) nice: u8,
    pub(super) lineage: Option<Lineage>,
}

impl<'a> Order<'a> {
    /// Reads one; none if it is not whole.
    pub(super) fn read(input: &'a [u8]) -> Option<Self> {
        let (content, tail) = input.split_at_checked(input.len().checked_sub(TAIL)?)?;
        let rest = tail.strip_prefix(MAGIC)?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let (&[nice, has_lineage], lineage) = rest.split_first_chunk::<2>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (file, functions) = content.split_at_checked(length)?;
        let lineage = lineage.try_into().ok()?;
        let lineage = (has_lineage == 1).then(|| Lineage::from_hash(lineage));
        Some(Self { file, functions, nice, lineage })
    }
}

/// Writes what comes behind the file, which has so many bytes, and the functions.
pub(super) fn write_tail(
    out: &mut impl Write,
    file: usize,
    nice: u8,
    lineage: Option<&Lineage>,
) -> io::Result<()> {
    let mut tail = Vec::with_capacity(TAIL);
    tail.extend_from_slice(MAGIC);
    tail.extend_from_slice(&(file as u64).to_le_bytes());
    tail.extend_from_slice(&[nice, u8::from(lineage.is_some())]);
    tail.extend_from_slice(lineage.map_or(&[0; 32], |lineage| lineage.hash().as_bytes()));
    out.write_all(&tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_cut_is_not() {
        let lineage = Lineage::of("a");
        for (functions, lineage) in [(&b""[..], None), (b"abc", Some(lineage)), (b"", Some(lineage))] {
            let mut input = [b"wasm", functions].concat();
            write_tail(&mut input, 4, 10, lineage.as_ref()).expect("a vector takes it");
            assert_eq!(Order::read(&input), Some(Order { file: b"wasm", functions, nice: 10, lineage }));
            (0..input.len()).for_each(|length| assert_eq!(Order::read(&input[..length]), None, "{length}"));
            assert_eq!(Order::read(&input[5..]), None, "less than the file");
        }
        assert_eq!(Order::read(b"\0asm\x01\0\0\0"), None);
    }
}
