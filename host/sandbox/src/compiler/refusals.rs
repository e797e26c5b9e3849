//! Contents that Winch was found not to take, so that it is not asked again.
//!
//! Where there is an artefact cache, it remembers them too. Invariant: bounded; the oldest are forgotten, which costs
//! one attempt.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::Key;

/// Several times the plugins that one host has.
const MOST: usize = 1024;

/// See the file's head.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<VecDeque<Key>>);

impl Refusals {
    pub(super) fn has(&self, key: &Key) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    pub(super) fn add(&self, key: &Key) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(key) {
            return;
        }
        if known.len() == MOST {
            known.pop_front();
        }
        known.push_back(*key);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Backends, Compile};
    use super::*;
    use crate::hash::ContentHash;

    #[test]
    fn the_newest_are_remembered() {
        let backends = Backends::new(crate::engine::RunOptions::default()).expect("engines");
        let backend = backends.of(Compile::Optimized).expect("always there");
        let key = |number: usize| backend.key(&ContentHash::of(&number.to_le_bytes()));
        let refusals = Refusals::default();
        for number in (0..=MOST).chain([MOST]) {
            refusals.add(&key(number));
        }
        let known: Vec<bool> = [0, 1, 2, MOST, MOST + 1].map(|number| refusals.has(&key(number))).into();
        assert_eq!(known, [false, true, true, true, false]);
    }
}
