//! Target `sniff`: the first look at a file, held against a reader of its own and against wasmparser.

use std::time::Duration;

use hark_fuzz::{Bytes, Target};
use proptest::prelude::*;
use wasmparser::{BinaryReader, Parser, Validator};

use super::super::LoadError;
use super::super::kind::{Kind, sniff};
use super::files;

/// Where reading the lengths of the sections ends.
#[derive(Debug, PartialEq, Eq)]
enum Walk {
    /// At the end of a section.
    Whole,
    /// Within a section, or within its length.
    Cut,
    /// At a length that is no number of 32 bits.
    Wrong,
    /// Where nothing but zeros follow.
    Zeros,
}

fn walk(sections: &[u8]) -> Walk {
    let mut reader = BinaryReader::new(sections, 0);
    while !reader.eof() {
        let rest = &sections[reader.original_position()..];
        if rest.len() > 1 && rest.iter().max() == Some(&0) {
            return Walk::Zeros;
        }
        // An id, of whatever value.
        if reader.read_u8().is_err() {
            return Walk::Cut;
        }
        let from = reader.original_position();
        let Ok(length) = reader.read_var_u32() else {
            // Five bytes are enough for any number; fewer that all go on are cut off.
            let rest = &sections[from..];
            return if rest.len() < 5 && rest.iter().all(|byte| byte & 0x80 != 0) {
                Walk::Cut
            } else {
                Walk::Wrong
            };
        };
        if reader.read_bytes(length as usize).is_err() {
            return Walk::Cut;
        }
    }
    Walk::Whole
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let found = sniff(bytes);
    // wasmparser takes a component that is cut between two sections of a module in it; wasmtime does not.
    if Validator::new().validate_all(bytes).is_ok() && walk(bytes.get(8..).unwrap_or_default()) != Walk::Cut {
        let want = if Parser::is_component(bytes) { Kind::Component } else { Kind::CoreModule };
        prop_assert_eq!(&found, &Ok(want), "wasmparser takes it");
    }
    match (bytes.strip_prefix(b"\0asm"), &found) {
        (Some([1, 0, 0, 0, sections @ ..] | [0x0d, 0, 1, 0, sections @ ..]), found) => match walk(sections) {
            Walk::Cut => prop_assert!(matches!(found, Err(LoadError::Truncated { .. })), "{found:?}"),
            Walk::Zeros => prop_assert!(matches!(found, Err(LoadError::ZeroTail { .. })), "{found:?}"),
            Walk::Whole | Walk::Wrong => prop_assert!(found.is_ok(), "{found:?}"),
        },
        (Some(version), found) if version.len() >= 4 => {
            prop_assert!(matches!(found, Err(LoadError::UnknownVersion(_))), "{found:?}");
        }
        (None, Ok(kind)) => prop_assert_eq!(kind, &Kind::Text),
        _ => {}
    }
    if let Err(LoadError::Truncated { have, need }) = found {
        prop_assert!(have == bytes.len() && need > have, "{have} of {need}");
        // With so many more bytes, it is not cut there any more.
        if need - have < 1 << 20 {
            let mut longer = bytes.to_vec();
            longer.resize(need, 0);
            prop_assert_ne!(sniff(&longer), Err(LoadError::Truncated { have: need, need }));
        }
    }
    Ok(())
}

/// What may stand in front of anything.
fn beginning() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![
        &b""[..],
        b"\0asm",
        b"\0asm\x01\0\0\0",
        b"\0asm\x0d\0\x01\0",
        b"\0asm\x0d\0\0\0",
        b"\x7fELF",
        b"(",
        b";;",
        b"\n (module",
        b"<",
        b"#!",
        b"PK\x03\x04",
        b"version https://git-lfs",
    ])
    .prop_map(<[u8]>::to_vec)
}

fn input() -> impl Strategy<Value = Bytes> {
    let mut whole = files::modules();
    whole.extend(files::components());
    let any = (beginning(), prop::collection::vec(any::<u8>(), 0..64))
        .prop_map(|(begin, rest)| [begin, rest].concat());
    prop_oneof![1 => any, 3 => hark_fuzz::mutated(whole, 4).prop_map(|file| file.bytes)].prop_map(Bytes)
}

#[test]
fn fuzz_sniff() {
    let target = Target { name: "sniff", cases: 1500, within: Duration::from_millis(500) };
    hark_fuzz::files(target, input, check);
}

/// Every cut of every whole file is called a cut or, between two sections, a shorter file.
#[test]
fn a_cut_of_a_right_file_is_never_called_anything_else() {
    for (name, whole) in files::modules().into_iter().chain(files::components()) {
        for end in (1..whole.len()).step_by(7) {
            let found = sniff(&whole[..end]);
            assert!(matches!(found, Ok(_) | Err(LoadError::Truncated { .. })), "{name} to {end}: {found:?}");
        }
    }
}
