//! Target `clean`: any text on its way to a terminal.

use std::time::Duration;

use hark_fuzz::{Target, odd_text};
use proptest::prelude::*;

use super::{bytes, clean};

/// Stands at the end of what [`clean`] cuts.
const NOTE: &str = "… [";

/// Marks of direction, and what has no width: by Unicode's `Bidi_Control`, the zero-width characters, the invisible
/// operators and the byte order mark.
const HIDDEN: [char; 18] = [
    '\u{61c}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}',
    '\u{202c}', '\u{202d}', '\u{202e}', '\u{2060}', '\u{2064}', '\u{2066}', '\u{2067}', '\u{2068}',
    '\u{2069}', '\u{feff}',
];

#[test]
fn fuzz_clean() {
    let target = Target { name: "clean", cases: 6000, within: Duration::from_millis(200) };
    let input = || (odd_text(40), prop_oneof![Just(usize::MAX), 0_usize..80]);
    hark_fuzz::values(target, input, |(text, max)| check(text, *max));
}

fn check(text: &str, max: usize) -> Result<(), TestCaseError> {
    let shown = clean(text, max);
    prop_assert!(!shown.chars().any(|char| char.is_control() && char != '\t'), "{shown:?}");
    prop_assert!(!shown.contains(HIDDEN) && !shown.contains(['\u{2028}', '\u{2029}']), "{shown:?}");
    let whole = clean(text, usize::MAX);
    prop_assert_eq!(&clean(&whole, usize::MAX), &whole, "what is clean stays as it is");
    if whole.len() <= max {
        prop_assert_eq!(&shown, &whole);
        return Ok(());
    }
    let (kept, note) = shown.rsplit_once(NOTE).expect("what is cut says so");
    prop_assert!(kept.len() <= max && whole.starts_with(kept), "{kept:?} of {whole:?}");
    is_counted(text, kept, note)
}

/// The note counts the bytes from a place on up to which the text gives what was kept.
fn is_counted(text: &str, kept: &str, note: &str) -> Result<(), TestCaseError> {
    let text = text.trim_end_matches(['\n', '\r']);
    let counts = |at: &usize| {
        // A letter that ends nothing keeps the end of the prefix from being trimmed.
        let gives = || clean(&format!("{}é", &text[..*at]), usize::MAX) == format!("{kept}é");
        format!("{} cut]", bytes(text.len() - at)) == *note && gives()
    };
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    prop_assert!(places.iter().any(counts), "{kept:?} and {note:?} of {text:?}");
    Ok(())
}

/// Each introducer of a string that never ends made the rest be looked at once more.
#[test]
fn a_text_full_of_unfinished_strings_is_read_once() {
    let text = "\x1b]".repeat(1 << 20);
    assert_eq!(clean(&text, 10), "");
    assert_eq!(clean(&format!("{text}a\x1b\\b"), 10), "b");
}
