//! Text for people: what a guest says, made safe to show, and sizes.
//!
//! Everything that comes from a guest and is shown goes through [`clean`]. Invariant: its answer has no
//! control character, no terminal escape sequence and no direction override, and is one line within the size.

#[cfg(test)]
mod fuzz;

use std::iter::Peekable;
use std::str::Chars;

/// `text` as one line of at most `max` bytes: newlines shown as `\n`, terminal control left out, the end cut
/// off with a note of how much is missing (the note is not counted).
pub(crate) fn clean(text: &str, max: usize) -> String {
    clean_beyond(text, max, 0)
}

/// Like [`clean`], for a text of which so many bytes were cut off already: they count as missing too.
pub(crate) fn clean_beyond(text: &str, max: usize, beyond: usize) -> String {
    // Where a line ends is no part of it; but what was cut off did not end there.
    let text = if beyond == 0 { text.trim_end_matches(['\n', '\r']) } else { text };
    let mut out = String::with_capacity(text.len().min(max));
    let mut rest = Rest { chars: text.chars().peekable(), endless: false };
    let mut seen = 0;
    let mut utf8 = [0; 4];
    let mut missing = beyond;
    while let Some(char) = rest.chars.next() {
        let mut skipped = 0;
        let shown = match char {
            '\x1b' => {
                skipped = rest.skip_escape();
                ""
            }
            '\n' | '\u{2028}' | '\u{2029}' => "\\n",
            '\r' => "\\r",
            '\t' => "\t",
            _ if is_hidden(char) => "",
            _ => char.encode_utf8(&mut utf8),
        };
        if out.len() + shown.len() > max {
            missing += text.len() - seen;
            break;
        }
        out.push_str(shown);
        seen += char.len_utf8() + skipped;
    }
    if missing > 0 {
        out.push_str(&format!("… [{} cut]", bytes(missing)));
    }
    out
}

/// Like [`clean`], in quotes: for a name in the middle of a sentence.
pub(crate) fn quoted(name: &str) -> String {
    format!("`{}`", clean(name, 80))
}

/// Names in a list, each cleaned, no more than 20 of them.
pub(crate) fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    const SHOWN: usize = 20;
    let mut rest = names.into_iter();
    let mut list: Vec<_> = rest.by_ref().take(SHOWN).map(|name| clean(name, 200)).collect();
    match rest.count() {
        0 => {}
        more => list.push(format!("and {more} more")),
    }
    list
}

/// A size for people: whole units where they fit.
pub(crate) fn bytes(size: usize) -> String {
    const MIB: usize = 1 << 20;
    const KIB: usize = 1 << 10;
    match size {
        _ if size >= MIB && size.is_multiple_of(MIB) => format!("{} MiB", size / MIB),
        _ if size >= MIB => format!("{:.1} MiB", size as f64 / MIB as f64),
        _ if size >= KIB && size.is_multiple_of(KIB) => format!("{} KiB", size / KIB),
        1 => "1 byte".into(),
        _ => format!("{size} bytes"),
    }
}

/// Control characters, and those that change the direction or hide: a line could be made to read as another.
fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// What of a text was not looked at yet.
struct Rest<'a> {
    chars: Peekable<Chars<'a>>,
    /// The rest has no end of a terminal string. Looked for once only: a text may be full of beginnings.
    endless: bool,
}

impl Rest<'_> {
    /// Skips what follows an escape character: a control sequence, a string (title, hyperlink), or one
    /// character. Gives the number of bytes skipped. An unfinished string loses only its introducer.
    fn skip_escape(&mut self) -> usize {
        let chars = &mut self.chars;
        let Some(kind) = chars.peek().copied().filter(char::is_ascii) else { return 0 };
        if kind == '\n' || kind == '\x1b' {
            return 0;
        }
        chars.next();
        match kind {
            '[' => {
                let mut skipped = 1;
                while let Some(char) = chars.next_if(|char| matches!(char, '\x20'..='\x3f')) {
                    skipped += char.len_utf8();
                }
                skipped + chars.next_if(|char| matches!(char, '\x40'..='\x7e')).map_or(0, char::len_utf8)
            }
            ']' | 'P' | 'X' | '^' | '_' => 1 + self.skip_string(),
            _ => 1,
        }
    }

    /// Skips to the end of a terminal string (BEL, or escape and backslash), if it has one.
    fn skip_string(&mut self) -> usize {
        if self.endless {
            return 0;
        }
        let mut ahead = self.chars.clone();
        let mut skipped = 0;
        while let Some(char) = ahead.next() {
            skipped += char.len_utf8();
            let ends = match char {
                '\x07' => true,
                '\x1b' => ahead.next_if_eq(&'\\').map(|_| skipped += 1).is_some(),
                _ => false,
            };
            if ends {
                self.chars = ahead;
                return skipped;
            }
        }
        self.endless = true;
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_plain_text_as_it_is_and_hides_control() {
        let cases = [
            ("plain, ünïcode, 日本 👍", "plain, ünïcode, 日本 👍"),
            ("two\nlines\r\n", "two\\nlines"),
            ("a\tb", "a\tb"),
            ("a\rb", "a\\rb"),
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b[2J\x1b[1;1Hgone", "gone"),
            ("\x1b]0;title\x07after", "after"),
            ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1b]0;never ends", "0;never ends"),
            ("\x1bcreset", "reset"),
            ("end\x1b", "end"),
            ("\x1b\x1b[1mx", "x"),
            ("bell\x07, nul\0, del\x7f, csi\u{9b}31m", "bell, nul, del, csi31m"),
            ("\u{202e}evil\u{202c}", "evil"),
            ("a\u{2028}b", "a\\nb"),
            ("", ""),
            ("\n", ""),
        ];
        for (text, want) in cases {
            assert_eq!(clean(text, 1000), want, "{text:?}");
        }
    }

    #[test]
    fn cuts_between_characters_and_says_so() {
        assert_eq!(clean("abcdef", 6), "abcdef");
        assert_eq!(clean("abcdef", 4), "abcd… [2 bytes cut]");
        assert_eq!(clean("aéé", 2), "a… [4 bytes cut]");
        assert_eq!(clean("a\n\nb", 3), "a\\n… [2 bytes cut]");
        assert_eq!(clean(&"x".repeat(3 << 20), 0), "… [3 MiB cut]");
    }

    #[test]
    fn any_bytes_come_out_as_one_bounded_line() {
        // A small generator instead of a dependency: every run sees the same texts.
        let mut seed = 7_u32;
        for _ in 0..2000 {
            let raw: Vec<u8> = std::iter::repeat_with(|| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                b"\x1b[]\\;m1a\n\r\x07\xc2\x9b\xe2\x80\xae"[(seed >> 16) as usize % 16]
            })
            .take(24)
            .collect();
            let shown = clean(&String::from_utf8_lossy(&raw), 10);
            assert!(!shown.chars().any(|char| is_hidden(char) && char != '\t'), "{raw:?} became {shown:?}");
            assert!(shown.split('…').next().is_some_and(|kept| kept.len() <= 10), "{shown:?}");
        }
    }

    #[test]
    fn long_lists_say_how_much_they_leave_out() {
        let all: Vec<String> = (0..22).map(|n| n.to_string()).collect();
        let list = names(all.iter().map(String::as_str));
        assert_eq!((list.len(), list[20].as_str()), (21, "and 2 more"));
    }

    #[test]
    fn sizes_read_well() {
        let cases =
            [(0, "0 bytes"), (1, "1 byte"), (1500, "1500 bytes"), (8192, "8 KiB"), (1_600_000, "1.5 MiB")];
        for (size, want) in cases {
            assert_eq!(bytes(size), want);
        }
    }
}
