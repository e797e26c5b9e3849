//! Builds of a plugin, as many as a way needs: each runs alike and has a content of its own.
//!
//! Used by the ways. A build is the fixture `counter-v1` with a custom section behind it that names it. Invariants: all
//! builds have one size and differ in the digits of their [`mark`] alone, so that a tool which replaces text makes one
//! build of another.

use crate::guests::fixture;

/// The text that tells a build from another.
pub fn mark(number: u32) -> String {
    format!("hark-build-{number:04}")
}

/// A build by its number.
///
/// # Panics
/// If the fixture is not built.
pub fn build(number: u32) -> Vec<u8> {
    let mut bytes = std::fs::read(fixture("counter-v1")).expect("the fixture");
    bytes.extend(section(&mark(number)));
    bytes
}

/// A build whose last quarter, at the least, is custom sections, in pieces: wherever a piece ends, there ends a plugin.
pub fn pieces(number: u32, count: usize) -> Vec<Vec<u8>> {
    let more =
        (1..count).map(|piece| section(&format!("{} piece {piece} {}", mark(number), ".".repeat(100))));
    std::iter::once(build(number)).chain(more).collect()
}

/// A custom section named `build`, which both modules and components may have anywhere.
fn section(text: &str) -> Vec<u8> {
    const NAME: &[u8] = b"\x05build";
    let length = NAME.len() + text.len();
    // Two bytes of LEB128, whatever the length is.
    let (low, high) = ((length & 0x7f) as u8 | 0x80, (length >> 7) as u8);
    [&[0, low, high], NAME, text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guests::sha256;

    #[test]
    fn builds_have_one_size_and_differ_in_their_mark_alone() {
        let (one, other) = (build(1), build(2222));
        assert_eq!(one.len(), other.len());
        let differing = one.iter().zip(&other).filter(|(a, b)| a != b).count();
        assert_eq!(differing, 4, "0001 and 2222");
        assert_ne!(sha256(&one), sha256(&other));
        assert!(one.ends_with(mark(1).as_bytes()));
    }

    #[test]
    fn a_content_has_the_hash_that_everybody_knows() {
        assert!(sha256(b"").starts_with("e3b0c44298fc1c14") && sha256(b"").len() == 64);
    }
}
