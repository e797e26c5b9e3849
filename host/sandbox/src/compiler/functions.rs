//! Functions that were compiled before: what Cranelift need not do again for the next version of a plugin.
//!
//! Used by the child that compiles; between two children they lie in the artefact cache, a pack for each lineage
//! (`artefacts`). Cranelift asks by a hash of all that its output depends on, its settings and version included. A new
//! build of a component has most functions of the one before, above all one with an interpreter in it, where only
//! data changes: one line of JavaScript changed in 1.1 MB of QuickJS takes 0.44 to 0.5 s of CPU instead of 1.8 (hits and
//! misses: 3,467 and 222), with a pack of 4.3 MB; 12 MB of SpiderMonkey are ready after 2.7 s of two cores rather than some
//! 10, 18 MB of Python after 2.3 rather than 8. What is compiled for the first time takes as long as without. Each
//! result is the very same code. Invariants: a pack holds what its last version needed, and no more than
//! [`PACK_MAX`] bytes; a pack that is not well-formed is an empty one.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use wasmtime::CacheStore;

/// Bytes of a pack: several times that of 12 MB of SpiderMonkey, which are 37 MB.
const PACK_MAX: usize = 128 << 20;

/// Before each entry: the bytes of its key and of its value, little-endian.
const HEAD: usize = 8;

/// An entry of the pack.
#[derive(Debug)]
struct Known {
    /// Where its value is.
    value: Range<usize>,
    /// It was asked for.
    used: AtomicBool,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Functions {
    pack: Vec<u8>,
    /// By key.
    known: HashMap<Vec<u8>, Known>,
    new: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    bytes: AtomicUsize,
}

impl Functions {
    /// Those of a pack.
    pub(super) fn of(pack: Vec<u8>) -> Self {
        let known = index(&pack).unwrap_or_default();
        Self { pack, known, ..Self::default() }
    }

    /// Writes a pack of those that were asked for or are new.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for (key, Known { value, used }) in &self.known {
            if used.load(Ordering::Relaxed) {
                write_entry(out, key, &self.pack[value.clone()])?;
            }
        }
        let new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        new.iter().try_for_each(|(key, value)| write_entry(out, key, value))
    }

    /// Counts an entry of the pack to be; says whether there is room.
    fn takes(&self, key: &[u8], value: usize) -> bool {
        let more = HEAD + key.len() + value;
        self.bytes.fetch_add(more, Ordering::Relaxed) + more <= PACK_MAX
    }
}

impl CacheStore for Functions {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        if let Some(Known { value, used }) = self.known.get(key) {
            // What is known fits: it came from a pack.
            if !used.swap(true, Ordering::Relaxed) {
                self.takes(key, value.len());
            }
            return Some(Cow::Borrowed(&self.pack[value.clone()]));
        }
        let new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        new.get(key).cloned().map(Cow::Owned)
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let fits = self.takes(key, value.len());
        if fits {
            self.new.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_vec(), value);
        }
        fits
    }
}

/// Where each value is; none if the pack is not well-formed.
fn index(pack: &[u8]) -> Option<HashMap<Vec<u8>, Known>> {
    let mut known = HashMap::new();
    let mut at = 0;
    while at < pack.len() {
        let (key, value) = pack.get(at..at + HEAD)?.split_at(HEAD / 2);
        let number = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize);
        let (from, key, value) = (at + HEAD, number(key)?, number(value)?);
        let range = from + key..from + key + value;
        pack.get(range.clone())?;
        at = range.end;
        known.insert(pack[from..from + key].to_vec(), Known { value: range, used: AtomicBool::new(false) });
    }
    Some(known)
}

fn write_entry(out: &mut impl Write, key: &[u8], value: &[u8]) -> io::Result<()> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(io::Error::other);
    out.write_all(&length(key)?.to_le_bytes())?;
    out.write_all(&length(value)?.to_le_bytes())?;
    out.write_all(key)?;
    out.write_all(value)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::{Backends, Compile};
    use super::*;
    use crate::engine::RunOptions;
    use crate::hash::ContentHash;

    /// A component with functions of which one returns another number.
    fn component(number: u32) -> Vec<u8> {
        let others: String = (0..20)
            .map(|n| format!("(func (param i32) (result i32) (i32.mul (local.get 0) (i32.const {n})))"))
            .collect();
        let text = format!("(component (core module {others} (func (result i32) (i32.const {number}))))");
        wat::parse_str(&text).expect("right text")
    }

    fn backends(functions: Option<&Arc<Functions>>) -> Backends {
        let functions = functions.map(|functions| Arc::clone(functions) as Arc<dyn CacheStore>);
        Backends::with_functions(RunOptions::default(), functions).expect("engines")
    }

    #[test]
    fn what_is_made_with_the_functions_of_another_version_is_the_very_same() {
        let make = |functions: Option<&Arc<Functions>>, number| {
            let engine = backends(functions).optimized.engine;
            engine.precompile_component(&component(number)).expect("it compiles")
        };
        let first = Arc::new(Functions::default());
        assert_eq!(make(Some(&first), 7), make(None, 7));
        let second = Arc::new(Functions::of(packed(&first)));
        assert_eq!(make(Some(&second), 8), make(None, 8));
        let used = second.known.values().filter(|known| known.used.load(Ordering::Relaxed)).count();
        let new = second.new.lock().expect("no panic").len();
        assert!(used >= 20 && new == 1, "{used} were known, {new} new");
    }

    #[test]
    fn they_change_nothing_of_what_an_artefact_is_called() {
        let functions = Arc::new(Functions::default());
        for mode in Compile::ALL {
            let keys = [None, Some(&functions)].map(|functions| {
                let backends = backends(functions);
                backends.of(mode).expect("a backend").key(&ContentHash::of(b"a")).to_string()
            });
            assert_eq!(keys[0], keys[1]);
        }
    }

    fn packed(functions: &Functions) -> Vec<u8> {
        let mut pack = Vec::new();
        functions.write(&mut pack).expect("a vector takes it");
        pack
    }

    fn get(functions: &Functions, key: &[u8]) -> Option<Vec<u8>> {
        functions.get(key).map(Cow::into_owned)
    }

    #[test]
    fn a_pack_has_what_was_used_or_is_new() {
        let first = Functions::default();
        for (key, value) in [(b"one", "1"), (b"two", "2")] {
            assert!(first.insert(key, value.into()));
        }
        assert_eq!(get(&first, b"one"), Some(b"1".to_vec()), "within one file, too");
        let second = Functions::of(packed(&first));
        assert_eq!(get(&second, b"two"), Some(b"2".to_vec()));
        assert_eq!(get(&second, b"six"), None);
        assert!(second.insert(b"six", b"6".to_vec()));
        let third = Functions::of(packed(&second));
        let values = [b"one", b"two", b"six"].map(|key| get(&third, key));
        assert_eq!(values, [None, Some(b"2".to_vec()), Some(b"6".to_vec())], "nobody asked for the first");
    }

    #[test]
    fn a_pack_has_a_bound() {
        let functions = Functions::default();
        let value = PACK_MAX - HEAD - 1;
        assert!(functions.insert(b"a", vec![0; value]));
        assert!(!functions.insert(b"b", Vec::new()), "not a byte more");
        assert!(get(&functions, b"a").is_some() && get(&functions, b"b").is_none());
    }

    proptest! {
        #[test]
        fn a_pack_that_is_cut_or_changed_holds_what_it_holds_and_breaks_nothing(
            entries in prop::collection::btree_map(prop::collection::vec(any::<u8>(), 1..40), prop::collection::vec(any::<u8>(), 0..40), 0..8),
            cut in any::<prop::sample::Index>(),
            flip in any::<prop::sample::Index>(),
        ) {
            let functions = Functions::default();
            entries.iter().for_each(|(key, value)| assert!(functions.insert(key, value.clone())));
            let whole = packed(&functions);
            let again = Functions::of(whole.clone());
            for (key, value) in &entries {
                prop_assert_eq!(get(&again, key), Some(value.clone()));
            }
            let mut changed = whole[..cut.index(whole.len() + 1)].to_vec();
            if !changed.is_empty() {
                let at = flip.index(changed.len());
                changed[at] ^= 0x55;
            }
            let changed = Functions::of(changed);
            entries.keys().for_each(|key| drop(get(&changed, key)));
            Functions::of(packed(&changed));
        }
    }
}
