//! The `fields` of questions to the cache, compiled.
//!
//! Used by [`cache`](super::cache); part of a store's state. Invariant: one list is remembered, the last one asked
//! for, so that a guest which goes through pages, or asks the same in every event, has it compiled once.

use std::sync::Arc;

use hark_informer::filter::{Fields, MAX_POINTERS};

/// The last list of pointers, and what it was compiled to.
#[derive(Default)]
pub(crate) struct AskedFields(Option<(Vec<String>, Arc<Fields>)>);

impl AskedFields {
    /// The compiled form of a list; none if it is too long, or if a text in it is not a pointer.
    pub(super) fn compile(&mut self, pointers: Vec<String>) -> Option<Arc<Fields>> {
        if let Some((last, fields)) = &self.0
            && *last == pointers
        {
            return Some(Arc::clone(fields));
        }
        if pointers.len() > MAX_POINTERS {
            return None;
        }
        let fields = Arc::new(Fields::compile(&pointers).ok()?);
        self.0 = Some((pointers, Arc::clone(&fields)));
        Some(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn the_last_list_is_compiled_once() {
        let mut asked = AskedFields::default();
        let first = asked.compile(list(&["/a", "/b"])).expect("pointers");
        let again = asked.compile(list(&["/a", "/b"])).expect("pointers");
        assert!(Arc::ptr_eq(&first, &again));
        let other = asked.compile(list(&["/a"])).expect("pointers");
        assert!(!Arc::ptr_eq(&first, &other));
        assert!(asked.compile(list(&[])).expect("nothing named").is_whole());
    }

    #[test]
    fn what_is_no_list_of_pointers_is_none_and_not_remembered() {
        let mut asked = AskedFields::default();
        let kept = asked.compile(list(&["/a"])).expect("a pointer");
        assert!(asked.compile(list(&["/a", "b"])).is_none());
        assert!(asked.compile(vec!["/a".to_owned(); MAX_POINTERS + 1]).is_none());
        assert!(Arc::ptr_eq(&kept, &asked.compile(list(&["/a"])).expect("a pointer")));
    }
}
