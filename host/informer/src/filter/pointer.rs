//! Pointers into objects: RFC 6901 with `*`.
//!
//! Used by conditions, `changed`, `fields` and indexes. A pointer is a list of segments, each after a `/`:
//!
//! | segment | stands for |
//! | --- | --- |
//! | `*` | every element of an array, every value of a map |
//! | anything else | the member of a map with this name |
//! | `~0`, `~1`, `~2` in a name | `~`, `/`, `*` |
//!
//! So `~2` as a whole segment is the member named `*`; inside a longer name a `*` is only itself. A segment
//! that is all digits, or `-`, is refused, since RFC 6901 would mean an array's element by it, and an object does
//! not say beforehand whether there is an array; a member with such a name is reached through `*`. The empty
//! pointer, the whole document, is refused too. Invariant: a pointer that was made is within the bounds below.

use std::fmt::{self, Write as _};
use std::str::FromStr;

/// Longest pointer, in bytes.
pub const MAX_POINTER: usize = 1024;
/// Most segments of a pointer; so matching goes no deeper into an object.
pub const MAX_SEGMENTS: usize = 32;
/// Most `*` of a pointer.
pub const MAX_WILDCARDS: usize = 4;

/// How much of a refused pointer an error repeats, in characters.
pub(super) const SHOWN: usize = 80;

/// Why a text is not a pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pointer \"{pointer}\": {reason}")]
pub struct PointerError {
    /// The pointer as it was written, cut off if it is very long.
    pub pointer: String,
    /// What is wrong with it.
    pub reason: PointerReason,
}

/// What is wrong with a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PointerReason {
    /// It is empty.
    #[error("it is empty, which would be the whole object: name a part of it")]
    Empty,
    /// It begins with something else than a slash.
    #[error("it does not begin with \"/\"")]
    NoSlash,
    /// A tilde without 0, 1 or 2 after it.
    #[error("\"~\" is written ~0 (\"/\" is ~1, a name \"*\" is ~2)")]
    Escape,
    /// A segment that would be an array's index.
    #[error("a place in an array cannot be named: use \"*\" for all of them")]
    ArrayIndex,
    /// Longer than [`MAX_POINTER`].
    #[error("it is longer than {MAX_POINTER} bytes")]
    TooLong,
    /// More than [`MAX_SEGMENTS`].
    #[error("it has more than {MAX_SEGMENTS} segments")]
    TooManySegments,
    /// More than [`MAX_WILDCARDS`].
    #[error("it has more than {MAX_WILDCARDS} \"*\"")]
    TooManyWildcards,
}

/// One step of a pointer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Segment {
    /// The member of a map with this name, unescaped.
    Member(String),
    /// `*`: every element of an array, every value of a map.
    Every,
}

/// See the file's head. [`FromStr`] reads one; [`fmt::Display`] gives the canonical text, which reads back as an
/// equal pointer.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pointer {
    segments: Vec<Segment>,
}

impl Pointer {
    /// Its segments: at least one.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, PointerError> {
        parse(text)
            .map(|segments| Self { segments })
            .map_err(|reason| PointerError { pointer: text.chars().take(SHOWN).collect(), reason })
    }
}

fn parse(text: &str) -> Result<Vec<Segment>, PointerReason> {
    if text.is_empty() {
        return Err(PointerReason::Empty);
    }
    if text.len() > MAX_POINTER {
        return Err(PointerReason::TooLong);
    }
    let path = text.strip_prefix('/').ok_or(PointerReason::NoSlash)?;
    let segments = path.split('/').map(segment).collect::<Result<Vec<_>, _>>()?;
    if segments.len() > MAX_SEGMENTS {
        return Err(PointerReason::TooManySegments);
    }
    if segments.iter().filter(|segment| **segment == Segment::Every).count() > MAX_WILDCARDS {
        return Err(PointerReason::TooManyWildcards);
    }
    Ok(segments)
}

fn segment(text: &str) -> Result<Segment, PointerReason> {
    if text == "*" {
        return Ok(Segment::Every);
    }
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits || text == "-" {
        return Err(PointerReason::ArrayIndex);
    }
    let mut pieces = text.split('~');
    let mut name = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (escaped, rest) = piece.split_at_checked(1).ok_or(PointerReason::Escape)?;
        name.push(match escaped {
            "0" => '~',
            "1" => '/',
            "2" => '*',
            _ => return Err(PointerReason::Escape),
        });
        name.push_str(rest);
    }
    Ok(Segment::Member(name))
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Every => f.write_str("/*")?,
                Segment::Member(name) if name == "*" => f.write_str("/~2")?,
                Segment::Member(name) => {
                    f.write_char('/')?;
                    for character in name.chars() {
                        match character {
                            '~' => f.write_str("~0")?,
                            '/' => f.write_str("~1")?,
                            _ => f.write_char(character)?,
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pointer(text: &str) -> Pointer {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn member(name: &str) -> Segment {
        Segment::Member(name.into())
    }

    #[test]
    fn a_pointer_is_read_by_segments() {
        let cases = [
            ("/a", vec![member("a")]),
            ("/", vec![member("")]),
            ("//", vec![member(""), member("")]),
            ("/spec/containers/*/image", {
                vec![member("spec"), member("containers"), Segment::Every, member("image")]
            }),
            ("/a~1b/~0~1~2", vec![member("a/b"), member("~/*")]),
            ("/~01", vec![member("~1")]),
            ("/~2", vec![member("*")]),
            ("/a*b/**", vec![member("a*b"), member("**")]),
            ("/1a/--/٣", vec![member("1a"), member("--"), member("٣")]),
            ("/é \"\\", vec![member("é \"\\")]),
        ];
        for (text, want) in cases {
            assert_eq!(pointer(text).segments(), want, "{text}");
        }
    }

    #[test]
    fn what_is_refused_is_named_with_its_reason() {
        use PointerReason as R;
        let long = format!("/{}", "a".repeat(MAX_POINTER));
        let deep = "/a".repeat(MAX_SEGMENTS + 1);
        let wild = "/*".repeat(MAX_WILDCARDS + 1);
        let cases = [
            ("", R::Empty),
            ("a", R::NoSlash),
            ("*", R::NoSlash),
            ("/a/0", R::ArrayIndex),
            ("/007/a", R::ArrayIndex),
            ("/a/-", R::ArrayIndex),
            ("/~", R::Escape),
            ("/~3", R::Escape),
            ("/a~/b", R::Escape),
            ("/~é", R::Escape),
            (&long, R::TooLong),
            (&deep, R::TooManySegments),
            (&wild, R::TooManyWildcards),
        ];
        for (text, reason) in cases {
            let error = text.parse::<Pointer>().expect_err(text);
            assert_eq!(error.reason, reason, "{text}");
            assert!(text.starts_with(&error.pointer), "{text}");
        }
        let error = "/a/0".parse::<Pointer>().expect_err("an index");
        assert_eq!(
            error.to_string(),
            "pointer \"/a/0\": a place in an array cannot be named: use \"*\" for all of them"
        );
    }

    #[test]
    fn the_bounds_themselves_are_allowed() {
        for text in [
            format!("/{}", "a".repeat(MAX_POINTER - 1)),
            "/a".repeat(MAX_SEGMENTS),
            "/*".repeat(MAX_WILDCARDS),
        ] {
            assert_eq!(pointer(&text).to_string(), text);
        }
    }

    #[test]
    fn display_is_canonical() {
        for (text, canonical) in
            [("/a~2b", "/a*b"), ("/~2", "/~2"), ("/*", "/*"), ("/~0~1", "/~0~1"), ("/~2~2", "/**")]
        {
            assert_eq!(pointer(text).to_string(), canonical, "{text}");
        }
        assert_eq!(pointer("/a~2b"), pointer("/a*b"));
        assert_ne!(pointer("/~2"), pointer("/*"));
    }

    proptest! {
        #[test]
        fn what_is_displayed_reads_back_as_the_same(text in "(/[a~012*é/-]{0,6}){1,5}") {
            if let Ok(pointer) = text.parse::<Pointer>() {
                prop_assert_eq!(pointer.to_string().parse::<Pointer>(), Ok(pointer));
            }
        }
    }
}
