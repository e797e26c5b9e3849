//! Which objects a subscription asks for, and which informers serve a listener's subscriptions at present.
//!
//! Used by a swap, to tell a subscription that both versions have from a new one of the same name; and by the
//! [`Factory`](crate::factory::Factory), so that one that both have goes on where it is. Invariant: a reach says what was
//! asked for, never which informer serves it: the same question has the same reach, whatever else runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::config::Subscription;
use super::{Listener, Shared};
use crate::filter::Condition;
use crate::resource::Selector;
use crate::shared_informer::SharedInformer;
use crate::view::View;

/// See the file's head. Not in it: what of the objects is told (`changed`), shown (`fields`) or indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Kind and selectors, of all namespaces.
    pub(crate) selector: Selector,
    /// Namespaces by name; none: all.
    pub(crate) namespaces: BTreeSet<String>,
    /// Namespaces by their labels.
    pub(crate) namespace_selector: String,
    /// All of them must hold.
    pub(crate) conditions: Vec<Condition>,
}

impl Reach {
    /// Every object that an informer has.
    pub(super) fn of_everything(selector: &Selector) -> Self {
        let namespaces = Some(selector.namespace.clone()).filter(|name| !name.is_empty());
        Self {
            selector: Selector { namespace: String::new(), ..selector.clone() },
            namespaces: namespaces.into_iter().collect(),
            namespace_selector: String::new(),
            conditions: Vec::new(),
        }
    }
}

/// An informer that a listener has joined for one of its subscriptions. It runs for as long as this is kept.
pub struct Registration {
    pub(super) id: u64,
    pub(crate) name: String,
    pub(crate) reach: Arc<Reach>,
    pub(crate) informer: Arc<SharedInformer>,
    pub(crate) view: Arc<View>,
}

impl Registration {
    /// Whether its informer has no other objects than those that the subscription's selectors ask for.
    pub(crate) fn is_its_own(&self) -> bool {
        let filter = &self.view.spec().filter;
        filter.namespaces.is_empty() && filter.label_selector.is_empty() && filter.field_selector.is_empty()
    }

    /// Whether it is told of the same objects, for the same subscription.
    pub(super) fn serves(&self, subscription: &Subscription) -> bool {
        self.name == subscription.name
            && self.reach == subscription.reach
            && Arc::ptr_eq(&self.informer, &subscription.informer)
            && self.view.has_the_same_objects_as(&subscription.view)
    }
}

impl Listener {
    /// The informers that serve its subscriptions at present.
    pub fn registrations(&self) -> Vec<Registration> {
        self.shared.registrations()
    }
}

impl Shared {
    pub(super) fn registrations(&self) -> Vec<Registration> {
        let state = self.lock();
        let listed = |(id, one): (&u64, &super::registrations::Registered)| Registration {
            id: *id,
            name: one.name.clone(),
            reach: one.reach.clone(),
            informer: one.informer.clone(),
            view: one.view.clone(),
        };
        state.registrations.iter().map(listed).collect()
    }
}
