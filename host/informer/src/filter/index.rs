//! Index values by pointer: what a plugin's `indexes` are made of.
//!
//! Used as the body of an [`IndexFn`](crate::indexer::IndexFn). Invariant: the values of an object are distinct,
//! in order, and each at most [`MAX_INDEX_VALUE`] bytes.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::pointer::{Pointer, PointerError};
use super::scan::Value;
use super::trie::Trie;
use crate::object::Object;

/// Longest value under which an object is filed, in bytes. A longer one is skipped and counted.
pub const MAX_INDEX_VALUE: usize = 1024;

/// A compiled pointer that gives an object's values under an index.
#[derive(Debug)]
pub struct IndexPointer {
    pointer: Pointer,
    trie: Trie,
    skipped: AtomicU64,
}

impl FromStr for IndexPointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, PointerError> {
        let pointer: Pointer = text.parse()?;
        let trie = Trie::new([pointer.segments()]);
        Ok(Self { pointer, trie, skipped: AtomicU64::new(0) })
    }
}

impl IndexPointer {
    /// The pointer.
    pub fn pointer(&self) -> &Pointer {
        &self.pointer
    }

    /// The values of an object: strings by content, numbers and `true` and `false` as they are written. `null`,
    /// maps and arrays give none.
    pub fn values(&self, object: &Object) -> Vec<String> {
        let mut values = BTreeSet::new();
        let mut skipped = 0;
        let scanned = self.trie.walk(object.json(), |_, raw| {
            let value = match Value::of(raw) {
                Ok(Value::String(string)) => string.text(),
                Ok(Value::Number(raw) | Value::Literal(raw)) if raw != "null" => raw.into(),
                _ => return ControlFlow::Continue(()),
            };
            if value.len() > MAX_INDEX_VALUE {
                skipped += 1;
            } else {
                values.insert(value.into_owned());
            }
            ControlFlow::Continue(())
        });
        skipped += u64::from(scanned.is_err());
        if skipped > 0 {
            self.skipped.fetch_add(skipped, Ordering::Relaxed);
        }
        values.into_iter().collect()
    }

    /// How many values were too long so far, and how many objects could not be scanned to their end.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}
