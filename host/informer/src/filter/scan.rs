//! A cursor over JSON text: finds members, elements and ends of values without building anything.
//!
//! Used by everything in this folder that looks into an object. The text was parsed when it came in, so it is
//! valid JSON; the cursor does not check it again. Invariants: it never panics and never goes back, whatever
//! the bytes are, and it needs no memory for nesting that it only skips.

use std::borrow::Cow;

use memchr::memchr2;

/// How deep a value may be nested where it has to be understood (compared), not only skipped or copied.
/// serde_json's own limit for documents.
pub(super) const MAX_DEPTH: usize = 128;

/// So many bytes of a string are looked at one by one before the fast search is called, which pays only then.
/// Most names and values are shorter; measured, a quarter of the time of a scan.
const SHORT: usize = 16;

/// Why an object's text could not be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScanError {
    /// The text ends or goes on where JSON would not.
    #[error("the text is not JSON")]
    Malformed,
    /// Values to compare are nested deeper than [`MAX_DEPTH`].
    #[error("values are nested deeper than {MAX_DEPTH}")]
    TooDeep,
}

/// A JSON string between its quotes, as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawString<'a> {
    raw: &'a str,
    escaped: bool,
}

impl<'a> RawString<'a> {
    /// The content with the quotes left out and escapes kept.
    pub(super) fn raw(self) -> &'a str {
        self.raw
    }

    /// What the string says; copied only if something in it is escaped.
    pub(super) fn text(self) -> Cow<'a, str> {
        if self.escaped { Cow::Owned(unescape(self.raw)) } else { Cow::Borrowed(self.raw) }
    }
}

/// A value's text by its kind.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    /// A string.
    String(RawString<'a>),
    /// A number, as it is written.
    Number(&'a str),
    /// `true`, `false` or `null`.
    Literal(&'a str),
    /// An object or an array.
    Container,
}

impl<'a> Value<'a> {
    /// The kind of a value given its whole text.
    pub(super) fn of(raw: &'a str) -> Result<Self, ScanError> {
        match raw.as_bytes().first() {
            Some(b'"') => Cursor::new(raw).string().map(Self::String),
            Some(b'{' | b'[') => Ok(Self::Container),
            Some(b'-' | b'0'..=b'9') => Ok(Self::Number(raw)),
            Some(_) => Ok(Self::Literal(raw)),
            None => Err(ScanError::Malformed),
        }
    }
}

/// A place in a JSON text.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the front of `text`.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The first byte of what comes next, white space passed over; and where it stands.
    pub(super) fn peek(&mut self) -> Result<(usize, u8), ScanError> {
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Ok((self.at, byte));
            }
            self.at += 1;
        }
        Err(ScanError::Malformed)
    }

    /// The text from `start` up to here.
    pub(super) fn since(&self, start: usize) -> Result<&'a str, ScanError> {
        self.text.get(start..self.at).ok_or(ScanError::Malformed)
    }

    /// Passes over `{` or `[`, which is known to come next.
    pub(super) fn open(&mut self) {
        self.at += 1;
    }

    /// In an opened object: the next member's name, the cursor then being at its value; None after the `}`.
    /// `first` is true before the first member, and kept by this function.
    pub(super) fn next_member(&mut self, first: &mut bool) -> Result<Option<RawString<'a>>, ScanError> {
        if !self.next_item(first, b'}')? {
            return Ok(None);
        }
        self.peek()?;
        let name = self.string()?;
        let (_, byte) = self.peek()?;
        if byte != b':' {
            return Err(ScanError::Malformed);
        }
        self.at += 1;
        Ok(Some(name))
    }

    /// In an opened array: whether another element comes, the cursor then being at it. `first` as for members.
    pub(super) fn next_element(&mut self, first: &mut bool) -> Result<bool, ScanError> {
        self.next_item(first, b']')
    }

    fn next_item(&mut self, first: &mut bool, close: u8) -> Result<bool, ScanError> {
        let (_, byte) = self.peek()?;
        if byte == close {
            self.at += 1;
            return Ok(false);
        }
        if !std::mem::replace(first, false) {
            if byte != b',' {
                return Err(ScanError::Malformed);
            }
            self.at += 1;
        }
        Ok(true)
    }

    /// The string that begins here.
    pub(super) fn string(&mut self) -> Result<RawString<'a>, ScanError> {
        let bytes = self.text.as_bytes();
        if bytes.get(self.at) != Some(&b'"') {
            return Err(ScanError::Malformed);
        }
        let start = self.at + 1;
        let (end, escaped) = string_end(bytes, start).ok_or(ScanError::Malformed)?;
        self.at = end + 1;
        let raw = self.text.get(start..end).ok_or(ScanError::Malformed)?;
        Ok(RawString { raw, escaped })
    }

    /// Passes over one value; gives its text.
    pub(super) fn skip_value(&mut self) -> Result<&'a str, ScanError> {
        let (start, byte) = self.peek()?;
        match byte {
            b'"' => {
                self.string()?;
            }
            b'{' | b'[' => {
                self.at += 1;
                self.skip_rest()?;
            }
            _ => self.skip_scalar(),
        }
        let raw = self.since(start)?;
        if raw.is_empty() { Err(ScanError::Malformed) } else { Ok(raw) }
    }

    /// Passes over what is left of the innermost opened object or array, with its closing bracket.
    pub(super) fn skip_rest(&mut self) -> Result<(), ScanError> {
        let bytes = self.text.as_bytes();
        let mut depth = 1_usize;
        while let Some(byte) = bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => self.at = string_end(bytes, self.at).ok_or(ScanError::Malformed)?.0 + 1,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        Err(ScanError::Malformed)
    }

    fn skip_scalar(&mut self) {
        while let Some(byte) = self.text.as_bytes().get(self.at) {
            if matches!(byte, b',' | b'}' | b']' | b':' | b'"' | b' ' | b'\n' | b'\r' | b'\t') {
                return;
            }
            self.at += 1;
        }
    }
}

/// Where the closing quote of the string stands whose content begins at `from`, and whether anything in it is
/// escaped.
fn string_end(bytes: &[u8], from: usize) -> Option<(usize, bool)> {
    let mut at = from;
    for byte in bytes.get(from..)?.iter().take(SHORT) {
        match byte {
            b'"' => return Some((at, false)),
            b'\\' => break,
            _ => at += 1,
        }
    }
    let mut escaped = false;
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(at) == Some(&b'"') {
            return Some((at, escaped));
        }
        escaped = true;
        at += 2;
    }
}

/// A string's content with its escapes resolved. Half a surrogate pair, or an escape that JSON does not know,
/// becomes U+FFFD, as Go's decoder has it.
fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, tail)) = rest.split_once('\\') {
        out.push_str(plain);
        let mut tail = tail.chars();
        match tail.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some(same @ ('"' | '\\' | '/')) => out.push(same),
            Some('u') => {
                let (character, after) = unicode_escape(tail.as_str());
                out.push(character);
                tail = after.chars();
            }
            _ => out.push(char::REPLACEMENT_CHARACTER),
        }
        rest = tail.as_str();
    }
    out.push_str(rest);
    out
}

/// The character of the escape whose `\u` stands just before `text`, and what comes after it.
fn unicode_escape(text: &str) -> (char, &str) {
    let Some((unit, after)) = hex4(text) else {
        return (char::REPLACEMENT_CHARACTER, text);
    };
    if (0xD800..0xDC00).contains(&unit)
        && let Some((low, end)) = after.strip_prefix("\\u").and_then(hex4)
        && (0xDC00..0xE000).contains(&low)
    {
        let code = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), end);
    }
    (char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER), after)
}

fn hex4(text: &str) -> Option<(u32, &str)> {
    let digits = text.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Some((u32::from_str_radix(digits, 16).ok()?, text.get(4..)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text_of(quoted: &str) -> String {
        Cursor::new(quoted).string().expect("a string").text().into_owned()
    }

    #[test]
    fn strings_are_read_as_json_says() {
        let cases = [
            (r#""""#, ""),
            (r#""plain ü""#, "plain ü"),
            (r#""a\"b\\c\/d""#, "a\"b\\c/d"),
            (r#""\b\f\n\r\t""#, "\u{8}\u{c}\n\r\t"),
            (r#""\u0041\u00fc\u20AC""#, "Aü€"),
            (r#""\ud83d\ude00!""#, "\u{1F600}!"),
            (r#""\\u0041""#, "\\u0041"),
        ];
        for (quoted, want) in cases {
            assert_eq!(text_of(quoted), want, "{quoted}");
        }
    }

    #[test]
    fn a_string_ends_at_its_own_quote_whatever_its_length() {
        for length in 0..3 * SHORT {
            for escape in [None, Some(0), Some(length / 2), length.checked_sub(1)] {
                let mut content = "x".repeat(length);
                if let Some(at) = escape {
                    content.insert_str(at, "\\\"");
                }
                let text = format!("\"{content}\",\"tail\"");
                let string = Cursor::new(&text).string().expect("a string");
                assert_eq!(string.raw(), content);
                assert_eq!(string.text(), content.replace('\\', ""));
                let nested = format!("[{text}]!");
                assert_eq!(Cursor::new(&nested).skip_value(), Ok(&nested[..nested.len() - 1]));
            }
        }
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced_and_nothing_after_it_is_lost() {
        assert_eq!(text_of(r#""\ud83dx""#), "\u{FFFD}x");
        assert_eq!(text_of(r#""\ude00x""#), "\u{FFFD}x");
        assert_eq!(text_of(r#""\ud83d\u0041""#), "\u{FFFD}A");
        assert_eq!(text_of(r#""\ud83d\ud83d\ude00""#), "\u{FFFD}\u{1F600}");
    }

    #[test]
    fn a_value_is_skipped_to_its_own_end() {
        let values =
            ["1", "-0.5e+7", "true", "null", r#""a,}]""#, r#""\"""#, r#"[{"a":[]},"]"]"#, "{ }", "[]"];
        for value in values {
            for tail in [",", "}", "]", " ,", "\n", ""] {
                let text = format!(" {value}{tail}");
                let mut cursor = Cursor::new(&text);
                assert_eq!(cursor.skip_value(), Ok(value), "{text}");
            }
        }
    }

    #[test]
    fn members_and_elements_are_walked_with_any_white_space() {
        let text = " { \"a\" : 1 ,\n\"b\":[ 2 , 3 ] } ";
        let mut cursor = Cursor::new(text);
        assert_eq!(cursor.peek(), Ok((1, b'{')));
        cursor.open();
        let mut first = true;
        assert_eq!(cursor.next_member(&mut first).expect("a").expect("a").raw(), "a");
        assert_eq!(cursor.skip_value(), Ok("1"));
        assert_eq!(cursor.next_member(&mut first).expect("b").expect("b").raw(), "b");
        cursor.peek().expect("[");
        cursor.open();
        let mut head = true;
        assert_eq!(cursor.next_element(&mut head), Ok(true));
        assert_eq!(cursor.skip_value(), Ok("2"));
        assert_eq!(cursor.next_element(&mut head), Ok(true));
        assert_eq!(cursor.skip_value(), Ok("3"));
        assert_eq!(cursor.next_element(&mut head), Ok(false));
        assert!(cursor.next_member(&mut first).expect("the end").is_none());
        assert_eq!(cursor.peek(), Err(ScanError::Malformed), "the end");
    }

    #[test]
    fn text_that_ends_early_is_an_error() {
        for text in ["", " ", "\"", r#""\"#, r#""\""#, "{", "[1", r#"{"a"#, "[\"]", ","] {
            assert_eq!(Cursor::new(text).skip_value(), Err(ScanError::Malformed), "{text}");
        }
    }

    proptest! {
        #[test]
        fn unescaping_agrees_with_serde_json(text in any::<String>(), ascii in any::<bool>()) {
            let mut quoted = serde_json::to_string(&text).expect("a string");
            if ascii {
                let units = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
                quoted = format!("\"{units}\"");
            }
            prop_assert_eq!(text_of(&quoted), text);
        }

        #[test]
        fn no_text_makes_the_cursor_panic(text in "[\\[\\]{}:,\"\\\\u0-9a-fé \n]{0,40}") {
            let mut cursor = Cursor::new(&text);
            while cursor.skip_value().is_ok() {}
            let _ = Value::of(&text);
            let _ = unescape(&text);
        }
    }
}
