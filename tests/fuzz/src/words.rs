//! Text as nobody wants it: control characters, terminal sequences, directions, every width of UTF-8.

use proptest::prelude::*;

/// One character, ordinary or not.
pub fn odd_char() -> impl Strategy<Value = char> {
    prop_oneof![
        6 => prop::char::range('a', 'z'),
        4 => prop::sample::select(vec![
            '\0', '\x07', '\x08', '\t', '\n', '\r', '\x1b', '\x7f', '\u{80}', '\u{9b}', '\u{9c}', '\u{ad}', '\u{61c}',
            '\u{200b}', '\u{200e}', '\u{2028}', '\u{2029}', '\u{202e}', '\u{2066}', '\u{feff}', '\u{fffd}',
        ]),
        4 => prop::sample::select("[]\\()<>?;:,.-_/~=*!\"'`$%#@ 0159".chars().collect::<Vec<_>>()),
        2 => any::<char>(),
    ]
}

/// A text of up to so many pieces: characters, and what a terminal obeys, whole and unfinished.
pub fn odd_text(pieces: usize) -> impl Strategy<Value = String> {
    let sequence = prop::sample::select(vec![
        "\x1b[31m",
        "\x1b[2J",
        "\x1b[",
        "\x1b]0;title\x07",
        "\x1b]8;;u\x1b\\",
        "\x1b]",
        "\x1bP",
        "\x1b_",
        "\x1b\\",
        "\r\n",
        "日本",
        "👍🏽",
        "é",
        "ab",
        "… [1 byte cut]",
    ]);
    let piece = prop_oneof![3 => odd_char().prop_map(String::from), 1 => sequence.prop_map(str::to_owned)];
    prop::collection::vec(piece, 0..=pieces).prop_map(|pieces| pieces.concat())
}
