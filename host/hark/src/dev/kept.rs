//! What is kept of a build's output: the beginning and the end, within a bound, and as it may be shown.
//!
//! Filled by [`super::runner`], shown by [`super::words`]. Invariants: never more than twice [`HALF`] is kept of however
//! much comes; what is shown has no control sequence but those of colours, and these only for a terminal.

use std::iter::Peekable;
use std::str::Chars;

/// Bytes that are kept of the beginning, and of the end.
pub(super) const HALF: usize = 32 << 10;

/// Characters of one line that stands for all, as in "still running".
const LINE: usize = 120;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Kept {
    head: Vec<u8>,
    /// The last [`HALF`] bytes beyond the head; up to twice as many, so that it is seldom moved.
    tail: Vec<u8>,
    /// Bytes that came.
    all: u64,
}

impl Kept {
    /// Takes what has come.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.all += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(HALF - self.head.len()));
        self.head.extend_from_slice(first);
        // Of a piece that is larger than all that is kept, only the end matters.
        self.tail.extend_from_slice(&rest[rest.len().saturating_sub(HALF)..]);
        if self.tail.len() > 2 * HALF {
            self.tail.drain(..self.tail.len() - HALF);
        }
    }

    /// The last line that has something in it; none: nothing was said.
    pub(super) fn last_line(&self) -> Option<String> {
        let text = shown(&[self.head.as_slice(), self.end()].concat(), false);
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?.trim();
        let cut = line.chars().count() > LINE;
        Some(line.chars().take(LINE).chain(cut.then_some('…')).collect())
    }

    /// All lines that are kept, safe to show. `few` leaves only so many of the first, and of the last.
    pub(super) fn lines(&self, colours: bool, few: Option<usize>) -> Vec<String> {
        let missing = self.all - (self.head.len() + self.end().len()) as u64;
        let lines = if missing == 0 {
            split(&shown(&[self.head.as_slice(), self.end()].concat(), colours))
        } else {
            // The line that was cut in two is shown on both sides of the gap as far as it is there.
            let mut lines = split(&shown(&self.head, colours));
            lines.push(format!("… {missing} bytes of output are left out here …"));
            lines.extend(split(&shown(self.end(), colours)));
            lines
        };
        match few {
            Some(few) if lines.len() > 2 * few + 1 => {
                let gap = format!("… {} lines are left out here …", lines.len() - 2 * few);
                let end = lines[lines.len() - few..].to_vec();
                lines.into_iter().take(few).chain([gap]).chain(end).collect()
            }
            _ => lines,
        }
    }

    fn end(&self) -> &[u8] {
        &self.tail[self.tail.len().saturating_sub(HALF)..]
    }
}

fn split(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// The text without terminal control, but for colours if they are wanted. A line that was written over (a progress bar)
/// is as it was at last.
fn shown(bytes: &[u8], colours: bool) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let mut out = String::with_capacity(text.len());
    let mut line = 0;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\x1b' => {
                if let Some(colour) = escape(&mut chars)
                    && colours
                {
                    out.push_str(&colour);
                }
            }
            '\n' => {
                out.push('\n');
                line = out.len();
            }
            '\r' if chars.peek().is_some_and(|next| *next != '\n') => out.truncate(line),
            '\t' => out.push(char),
            _ if is_hidden(char) => {}
            _ => out.push(char),
        }
    }
    out
}

/// Takes what follows an escape character; gives the sequence if all it does is to set colours.
fn escape(chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    match chars.next_if(|char| char.is_ascii() && !char.is_control())? {
        '[' => {
            let mut sequence = String::from("\x1b[");
            while let Some(char) = chars.next_if(|char| matches!(char, '\x20'..='\x3f')) {
                sequence.push(char);
            }
            let end = chars.next_if(|char| matches!(char, '\x40'..='\x7e'))?;
            let plain = sequence[2..].chars().all(|char| char.is_ascii_digit() || char == ';' || char == ':');
            (end == 'm' && plain).then(|| sequence + "m")
        }
        // Strings (titles, links) end with BEL, or escape and backslash; one that does not end with its line is none.
        ']' | 'P' | 'X' | '^' | '_' => {
            while let Some(char) = chars.next_if(|char| *char != '\n') {
                if char == '\x07' || (char == '\x1b' && chars.next_if_eq(&'\\').is_some()) {
                    break;
                }
            }
            None
        }
        // Sequences that name a character set have one more.
        '(' | ')' | '#' | '%' => {
            chars.next_if(char::is_ascii_graphic);
            None
        }
        _ => None,
    }
}

/// Control characters, and those that change the direction or hide: a line could be made to read as another.
fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(text: &str) -> Kept {
        let mut kept = Kept::default();
        kept.push(text.as_bytes());
        kept
    }

    #[test]
    fn colours_stay_for_a_terminal_and_other_control_goes() {
        for (text, plain, coloured) in [
            ("a\nb\n\n", vec!["a", "b"], vec!["a", "b"]),
            ("\x1b[1;31merror\x1b[0m: x", vec!["error: x"], vec!["\x1b[1;31merror\x1b[0m: x"]),
            ("\x1b[2J\x1b[Hgone\x1b[?25l", vec!["gone"], vec!["gone"]),
            ("\x1b]0;title\x07text\x1b]8;;x\x1b\\link", vec!["textlink"], vec!["textlink"]),
            ("\x1b]0;endless\nnext", vec!["", "next"], vec!["", "next"]),
            ("10 %\r20 %\r30 %\nx\r\ny\r", vec!["30 %", "x", "y"], vec!["30 %", "x", "y"]),
            ("bell\x07 zero\0 \u{202e}back\u{9b}31m", vec!["bell zero back31m"], vec!["bell zero back31m"]),
            ("\x1b(Bplain\x1b", vec!["plain"], vec!["plain"]),
            ("\x1b[>4;2mnot a colour", vec!["not a colour"], vec!["not a colour"]),
        ] {
            assert_eq!(kept(text).lines(false, None), plain, "{text:?}");
            assert_eq!(kept(text).lines(true, None), coloured, "{text:?}");
        }
    }

    #[test]
    fn what_is_left_out_is_said() {
        let text: String = (0..30).map(|line| format!("line {line}\n")).collect();
        let few = kept(&text).lines(false, Some(2));
        assert_eq!(few, ["line 0", "line 1", "… 26 lines are left out here …", "line 28", "line 29"]);
        assert_eq!(kept("1\n2\n3\n4\n5\n").lines(false, Some(2)).len(), 5, "a gap would be no shorter");
        let much = format!("first\n{}\nlast", "x".repeat(3 * HALF));
        let lines = kept(&much).lines(false, None);
        assert_eq!((lines[0].as_str(), lines[lines.len() - 1].as_str()), ("first", "last"));
        assert!(lines.contains(&format!("… {} bytes of output are left out here …", HALF + 11)), "{lines:?}");
    }

    #[test]
    fn the_last_line_is_the_last_with_something_in_it() {
        assert_eq!(kept("").last_line(), None);
        assert_eq!(kept("\n \n").last_line(), None);
        assert_eq!(kept("one\n  \x1b[32mtwo\x1b[0m\n\n").last_line().as_deref(), Some("two"));
        let long = kept(&"y".repeat(500)).last_line().expect("a line");
        assert_eq!(long.chars().count(), LINE + 1);
    }

    proptest! {
        /// The model: all that came, of which the first and the last bytes are taken.
        #[test]
        fn the_first_and_the_last_are_kept_however_they_come(
            pieces in prop::collection::vec((any::<u8>(), 0_usize..3 * HALF), 0..8)
        ) {
            let mut kept = Kept::default();
            let mut all = Vec::new();
            for (byte, length) in pieces {
                let piece: Vec<u8> = (0..length).map(|place| byte.wrapping_add((place % 251) as u8)).collect();
                kept.push(&piece);
                all.extend(piece);
                prop_assert!(kept.head.len() + kept.tail.len() <= 3 * HALF);
            }
            let head = &all[..all.len().min(HALF)];
            let rest = &all[head.len()..];
            prop_assert_eq!(&kept.head, head);
            prop_assert_eq!(kept.end(), &rest[rest.len().saturating_sub(HALF)..]);
            prop_assert_eq!(kept.all, all.len() as u64);
        }

        #[test]
        fn no_control_comes_through(text in "(\\PC|[\\x00-\\x1f\\x7f-\\x9f]|\\x1b[\\[\\]()PX^_]|[0-9;m]){0,60}") {
            let lines = kept(&text).lines(false, None);
            prop_assert!(lines.iter().all(|line| !line.chars().any(|char| is_hidden(char) && char != '\t')));
            // With colours: each escape character begins a colour.
            for line in kept(&text).lines(true, None) {
                for rest in line.split('\x1b').skip(1) {
                    let end = rest.find('m').expect("an end");
                    prop_assert!(rest[1..end].chars().all(|char| char.is_ascii_digit() || ";:".contains(char)));
                }
            }
        }
    }
}
