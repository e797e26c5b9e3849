//! Which informers serve a listener's subscriptions, and how their filters fare, for status pages and metrics.
//!
//! Read at any time by [`Listener::joined`]. Invariant: what it answers holds no informer.

use std::collections::BTreeMap;

use super::Listener;
use crate::resource::Selector;

/// One of a listener's subscriptions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Joined {
    /// Its name.
    pub subscription: String,
    /// The informers that it joined, one for each namespace that it names; a wider one than was asked for where
    /// that was in use already.
    pub informers: Vec<Selector>,
    /// How often a filter could not judge an object, and let it pass. Subscriptions of one informer that ask the
    /// same share their filter, and this number with it.
    pub filter_failures: u64,
}

impl Listener {
    /// The subscriptions of this moment, by name.
    pub fn joined(&self) -> Vec<Joined> {
        let state = self.shared.lock();
        let mut joined: BTreeMap<&str, Joined> = BTreeMap::new();
        for registered in state.registrations.values() {
            let one = joined.entry(&registered.name).or_default();
            one.subscription.clone_from(&registered.name);
            one.informers.push(registered.informer.selector().clone());
            one.filter_failures += registered.view.failures();
        }
        joined.into_values().collect()
    }
}
