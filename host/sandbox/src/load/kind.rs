//! What a file is, from its first bytes and the lengths of its sections.
//!
//! The first step of `load`, so that a half-written file or a wrong one is named as what it is rather than by
//! a parser's complaint. Invariant: looks at headers only, in one pass, and believes none of them.

use wasmtime::Engine;

use super::LoadError;
use super::MAX_PLUGIN_BYTES;

/// What a file may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Component,
    CoreModule,
    Text,
}

const MAGIC: &[u8] = b"\0asm";
const HEADER: usize = 8;

/// Tells what the bytes are.
pub(super) fn sniff(bytes: &[u8]) -> Result<Kind, LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty);
    }
    if bytes.len() > MAX_PLUGIN_BYTES {
        return Err(LoadError::TooLarge(bytes.len()));
    }
    if Engine::detect_precompiled(bytes).is_some() || bytes.starts_with(b"\x7fELF") {
        return Err(LoadError::Precompiled);
    }
    let Some(after_magic) = bytes.strip_prefix(MAGIC) else {
        // A prefix of the magic bytes alone is a file in the middle of being written.
        return if MAGIC.starts_with(bytes) { Err(cut_short(bytes, HEADER)) } else { not_binary(bytes) };
    };
    let Some((version, sections)) = after_magic.split_first_chunk::<4>() else {
        return Err(cut_short(bytes, HEADER));
    };
    let kind = match *version {
        [1, 0, 0, 0] => Kind::CoreModule,
        [0x0d, 0, 1, 0] => Kind::Component,
        other => return Err(LoadError::UnknownVersion(other)),
    };
    match sections_end(sections) {
        End::Beyond(end) => Err(cut_short(bytes, HEADER.saturating_add(end))),
        End::Zeros(from) => Err(LoadError::ZeroTail { from: HEADER + from, have: bytes.len() }),
        End::There => Ok(kind),
    }
}

fn cut_short(bytes: &[u8], need: usize) -> LoadError {
    LoadError::Truncated { have: bytes.len(), need }
}

/// Where the last section ends.
enum End {
    /// Where the bytes do; or at a length that is none: no more bytes would mend that, and the parser says what is wrong
    /// with it.
    There,
    /// So far into sections that are cut short.
    Beyond(usize),
    /// So far into sections behind which there are only zeros: no section begins with two, since each has an id and a length,
    /// and one with id 0 has a name.
    Zeros(usize),
}

/// Each section is an id, a length and so many bytes.
fn sections_end(bytes: &[u8]) -> End {
    let zeros = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut at = 0;
    while at < bytes.len() {
        if at >= zeros && at + 1 < bytes.len() {
            return End::Zeros(at);
        }
        match leb128(&bytes[at + 1..]) {
            Number::Is(length, width) => at = at.saturating_add(1 + width).saturating_add(length),
            Number::Cut => return End::Beyond(bytes.len() + 1),
            Number::Wrong => return End::There,
        }
    }
    if at > bytes.len() { End::Beyond(at) } else { End::There }
}

/// What stands where a number should.
enum Number {
    /// The number, and its width in bytes.
    Is(usize, usize),
    /// The beginning of one.
    Cut,
    /// More than 32 bits, or more than 5 bytes.
    Wrong,
}

/// An unsigned LEB128 number of at most 32 bits.
fn leb128(bytes: &[u8]) -> Number {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let number = u32::try_from(value).ok().and_then(|value| usize::try_from(value).ok());
            return number.map_or(Number::Wrong, |number| Number::Is(number, index + 1));
        }
    }
    if bytes.len() < 5 { Number::Cut } else { Number::Wrong }
}

fn not_binary(bytes: &[u8]) -> Result<Kind, LoadError> {
    let looks_like = match bytes {
        [0x1f, 0x8b, ..] => "a gzip archive",
        [b'P', b'K', 3, 4, ..] => "a zip archive",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "a zstd archive",
        [b'#', b'!', ..] => "a script",
        [b'<', ..] => "a web page",
        _ if bytes.iter().all(|byte| *byte == 0) => "nothing but zeros (it was not written to its end)",
        _ => match std::str::from_utf8(bytes) {
            Ok(text) if text.starts_with("version https://git-lfs") => {
                "a Git LFS pointer (run `git lfs pull`)"
            }
            Ok(text) if is_wat(text) => return Ok(Kind::Text),
            Ok(_) => "plain text",
            Err(_) => "other binary data",
        },
    };
    Err(LoadError::NotWasm(looks_like))
}

/// Wasm text begins with a parenthesis or a comment.
fn is_wat(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('(') || text.starts_with(";;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_plugin() {
        let cases: [(&[u8], Kind); 6] = [
            (b"\0asm\x01\0\0\0", Kind::CoreModule),
            (b"\0asm\x0d\0\x01\0", Kind::Component),
            (b"\0asm\x01\0\0\0\x00\x02\x01x\x00\x01\x00", Kind::CoreModule),
            (b"(module)", Kind::Text),
            (b"\n ;; a plugin\n(component)", Kind::Text),
            (b"(; block ;) (module)", Kind::Text),
        ];
        for (bytes, want) in cases {
            assert_eq!(sniff(bytes), Ok(want), "{bytes:?}");
        }
    }

    #[test]
    fn every_cut_of_a_file_is_noticed_unless_it_falls_between_sections() {
        let whole = b"\0asm\x01\0\0\0\x00\x05\x01xyzw\x00\x81\x00\x00";
        let between = [8, 15];
        assert_eq!(sniff(b""), Err(LoadError::Empty));
        for end in (1..whole.len()).filter(|end| !between.contains(end)) {
            let error = sniff(&whole[..end]).expect_err("cut");
            assert!(
                matches!(error, LoadError::Truncated { have, need } if have == end && need > end),
                "{end}: {error}"
            );
        }
        assert_eq!(sniff(whole), Ok(Kind::CoreModule));
    }

    #[test]
    fn a_tail_of_zeros_is_named_wherever_it_begins() {
        let whole = b"\0asm\x01\0\0\0\x00\x05\x01xyzw\x00\x02\x01x";
        for (from, zeros, tail) in [
            (8, 2, true),
            (8, 9, true),
            (15, 2, true),
            (15, 4096, true),
            (19, 3, true),
            // It may be the beginning of a section.
            (19, 1, false),
        ] {
            let mut file = whole[..from].to_vec();
            file.resize(from + zeros, 0);
            let want = match tail {
                true => LoadError::ZeroTail { from, have: file.len() },
                false => cut_short(&file, file.len() + 1),
            };
            assert_eq!(sniff(&file), Err(want), "{from} {zeros}");
        }
        // Within a section, zeros are content; what is behind it counts.
        let mut file = whole[..12].to_vec();
        file.resize(20, 0);
        let error = sniff(&file).expect_err("zeros");
        let want = "the file was not written to its end: of its 20 bytes, those from byte 15 on are zeros, as when power fails or \
                    a copy is broken off; save it again";
        assert_eq!(error.to_string(), want);
    }

    #[test]
    fn what_is_not_a_plugin_is_named() {
        let cases: [(&[u8], LoadError); 10] = [
            (b"\x7fELF\x02\x01\x01", LoadError::Precompiled),
            (b"\0asm\x01\0\0\x01", LoadError::UnknownVersion([1, 0, 0, 1])),
            (b"\0asm\x0c\0\x01\0", LoadError::UnknownVersion([0x0c, 0, 1, 0])),
            (b"hello", LoadError::NotWasm("plain text")),
            (b"\x1f\x8b\x08", LoadError::NotWasm("a gzip archive")),
            (b"<!DOCTYPE html>", LoadError::NotWasm("a web page")),
            (b"#!/bin/sh\n", LoadError::NotWasm("a script")),
            (
                b"version https://git-lfs.github.com/spec/v1\n",
                LoadError::NotWasm("a Git LFS pointer (run `git lfs pull`)"),
            ),
            (b"\xff\xfe\x00", LoadError::NotWasm("other binary data")),
            (&[0; 40], LoadError::NotWasm("nothing but zeros (it was not written to its end)")),
        ];
        for (bytes, want) in cases {
            assert_eq!(sniff(bytes), Err(want));
        }
    }

    #[test]
    fn a_length_that_is_none_is_left_to_the_parser() {
        let largest = LoadError::Truncated { have: 14, need: 14 + u32::MAX as usize };
        assert_eq!(sniff(b"\0asm\x01\0\0\0\x00\xff\xff\xff\xff\x0f"), Err(largest));
        for wrong in [b"\xff\xff\xff\xff\x1f", b"\xff\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80"] {
            let file = [b"\0asm\x01\0\0\0\x00", &wrong[..]].concat();
            assert_eq!(sniff(&file), Ok(Kind::CoreModule), "{wrong:?}");
            let cut = LoadError::Truncated { have: 13, need: 14 };
            assert_eq!(sniff(&file[..13]), Err(cut), "{wrong:?}");
        }
    }
}
