//! `fields`: an object's text cut down to the values that pointers name, at their paths.
//!
//! Used by [`Filter`](super::Filter) for what a handler is given and for `changed`, and by itself for reads of the
//! cache. What the projection of an object holds:
//!
//! - A value that a pointer names, as the server wrote it. A pointer into such a value adds nothing.
//! - A map on the way to one, with only the members that hold one. An absent value leaves no trace: neither its
//!   name nor an empty map.
//! - An array on the way, reached by a pointer that goes on with `*`, always with all its elements, so that
//!   places keep their meaning: an element of which nothing is selected is `{}` if it is a map, else `null`.
//! - Nothing else: apiVersion, kind and metadata are there if they are named. A projection of nothing is `{}`.
//!
//! Invariant: a projection is JSON if the object is, and the projection of a projection is itself.

use std::borrow::Cow;

use super::pointer::{Pointer, PointerError};
use super::scan::{Cursor, ScanError};
use super::trie::{Active, Paths, ROOT, Trie, Wanted};
use crate::object::Object;

/// Compiled `fields`. No pointers at all stand for whole objects.
#[derive(Debug)]
pub struct Fields {
    /// None: whole objects.
    trie: Option<Trie>,
}

impl Fields {
    /// Compiles pointers.
    ///
    /// # Errors
    /// Everything that is wrong with any of them.
    pub fn compile(pointers: &[String]) -> Result<Self, Vec<PointerError>> {
        let (mut good, mut errors) = (Vec::new(), Vec::new());
        for text in pointers {
            match text.parse::<Pointer>() {
                Ok(pointer) => good.push(pointer),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self { trie: (!good.is_empty()).then(|| Trie::new(good.iter().map(Pointer::segments))) })
    }

    /// Whether nothing is cut off.
    pub fn is_whole(&self) -> bool {
        self.trie.is_none()
    }

    /// The projection of an object; its whole text if no pointers are named, or if the text cannot be scanned.
    pub fn project<'o>(&self, object: &'o Object) -> Cow<'o, str> {
        self.try_project(object.json()).unwrap_or(Cow::Borrowed(object.json()))
    }

    pub(super) fn try_project<'o>(&self, text: &'o str) -> Result<Cow<'o, str>, ScanError> {
        let Some(trie) = &self.trie else { return Ok(Cow::Borrowed(text)) };
        let mut projection = Projection {
            paths: Paths::new(trie),
            cursor: Cursor::new(text),
            out: String::new(),
            over: false,
        };
        if !projection.value(ROOT, true)? {
            projection.out.push_str("{}");
        }
        Ok(Cow::Owned(projection.out))
    }
}

struct Projection<'t, 'a> {
    paths: Paths<'t>,
    cursor: Cursor<'a>,
    out: String,
    /// Everything that can be selected has been: the rest of the text is not read.
    over: bool,
}

impl Projection<'_, '_> {
    /// Writes what is selected of the value that comes next; whether that is anything. `last`: no pointer can
    /// reach anything after it.
    fn value(&mut self, active: Active, last: bool) -> Result<bool, ScanError> {
        let (_, byte) = self.cursor.peek()?;
        let selected = if self.paths.has_end(active) {
            self.out.push_str(self.cursor.skip_value()?);
            true
        } else {
            match (byte, self.paths.wanted(active)) {
                (b'{', wanted) => self.object(active, wanted, last)?,
                (b'[', Wanted::Every) => self.array(active)?,
                _ => {
                    if !last {
                        self.cursor.skip_value()?;
                    }
                    false
                }
            }
        };
        self.over |= last;
        Ok(selected)
    }

    fn object(&mut self, active: Active, mut wanted: Wanted, last: bool) -> Result<bool, ScanError> {
        let start = self.out.len();
        let mut opening = '{';
        let mut first = true;
        self.cursor.open();
        while let Some(name) = self.cursor.next_member(&mut first)? {
            let inner = self.paths.enter_member(active, name);
            if inner.is_empty() {
                self.cursor.skip_value()?;
                continue;
            }
            wanted = wanted.after(inner);
            let before = self.out.len();
            self.out.push(opening);
            self.out.extend(["\"", name.raw(), "\":"]);
            if self.value(inner, last && wanted.is_over())? {
                opening = ',';
            } else {
                self.out.truncate(before);
            }
            self.paths.leave(inner);
            if self.over {
                break;
            }
            if wanted.is_over() {
                self.cursor.skip_rest()?;
                break;
            }
        }
        let any = self.out.len() > start;
        if any {
            self.out.push('}');
        }
        Ok(any)
    }

    fn array(&mut self, active: Active) -> Result<bool, ScanError> {
        self.out.push('[');
        self.cursor.open();
        let mut first = true;
        let mut separator = "";
        while self.cursor.next_element(&mut first)? {
            let inner = self.paths.enter_element(active);
            self.out.push_str(separator);
            let (_, byte) = self.cursor.peek()?;
            if !self.value(inner, false)? {
                self.out.push_str(if byte == b'{' { "{}" } else { "null" });
            }
            self.paths.leave(inner);
            separator = ",";
        }
        self.out.push(']');
        Ok(true)
    }
}
