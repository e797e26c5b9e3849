//! What one subscription sees of an informer: which of its objects are the subscription's, and what of them a
//! handler is shown.
//!
//! Made by the shared informer, which gives subscriptions that ask the same the same view, so that an object is
//! judged, and its fields are copied out, once for all of them. Used by the processor, which narrows each event
//! to what the view sees of it; by the listener's cursor and cache reads; and by the queue, when merging.
//!
//! | was the subscription's | is it now | an update becomes |
//! | --- | --- | --- |
//! | no | no | nothing |
//! | no | yes | an add |
//! | yes | no | a delete of the old state: `deleted` if it left the selectors, as a server reports it; else `filtered` |
//! | yes | yes | an update, if something named in `changed` did |
//!
//! Invariants: whether an object is the subscription's depends on its text and on the namespaces followed, and on
//! nothing else, so what was seen of an earlier state can be found again from that state; the namespaces change
//! under the informer's lock only.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tokio_util::task::AbortOnDropHandle;

use crate::filter::{Filter, FilterError, FilterSpec};
use crate::handler::{DeleteReason, Event};
use crate::object::Object;

/// What a view is to see. Two equal ones at the same informer are the same view.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ViewSpec {
    /// Selectors that no server has evaluated, conditions, and what is shown.
    pub filter: FilterSpec,
    /// A label selector of namespaces, followed live; empty: objects of all namespaces.
    pub namespace_selector: String,
}

/// See the file's head.
pub struct View {
    spec: ViewSpec,
    /// None: everything passes, and is shown wholly.
    filter: Option<Filter>,
    /// The namespaces that match now; none before they are known. Meaningful if the view follows any.
    namespaces: RwLock<Option<BTreeSet<Arc<str>>>>,
    /// The task that keeps `namespaces`.
    follower: OnceLock<AbortOnDropHandle<()>>,
}

impl View {
    /// A view that follows nothing yet.
    ///
    /// # Errors
    /// Everything that is wrong with the filter.
    pub(crate) fn compile(spec: ViewSpec) -> Result<Self, Vec<FilterError>> {
        let filter = Filter::compile(spec.filter.clone())?;
        Ok(Self { spec, filter: Some(filter), namespaces: RwLock::default(), follower: OnceLock::new() })
    }

    /// The view that sees everything, wholly.
    pub(crate) fn of_everything() -> Self {
        Self {
            spec: ViewSpec::default(),
            filter: None,
            namespaces: RwLock::default(),
            follower: OnceLock::new(),
        }
    }

    /// What was asked for.
    pub fn spec(&self) -> &ViewSpec {
        &self.spec
    }

    /// How often the filter could not judge an object, and let it pass.
    pub fn failures(&self) -> u64 {
        self.filter.as_ref().map_or(0, Filter::failures)
    }

    /// Whether it is known which objects are the subscription's.
    pub(crate) fn is_ready(&self) -> bool {
        !self.follows() || self.namespaces.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether both see the same objects, whatever they show of them.
    pub(crate) fn has_the_same_objects_as(&self, other: &Self) -> bool {
        let members = |view: &Self| ViewSpec {
            filter: FilterSpec { changed: Vec::new(), fields: Vec::new(), ..view.spec.filter.clone() },
            ..view.spec.clone()
        };
        members(self) == members(other)
    }

    /// Whether every object of the informer is the subscription's.
    pub(crate) fn has_all(&self) -> bool {
        !self.follows() && self.filter.as_ref().is_none_or(Filter::passes_all)
    }

    /// Whether an object is the subscription's.
    pub(crate) fn has(&self, object: &Object) -> bool {
        self.reason_against(object).is_none()
    }

    /// Whether an update says something that the subscription wants to hear.
    pub(crate) fn is_change(&self, old: &Arc<Object>, new: &Arc<Object>) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.is_change(old, new))
    }

    /// What the view sees of an event; `was` is the state that the cache had before a deletion.
    pub(crate) fn narrow(&self, event: &Event, was: &Object) -> Option<Event> {
        let seen = match event {
            Event::Add { object, .. } => self.has(object),
            Event::Delete { .. } => self.has(was),
            Event::Update { new, resync: true, .. } => self.has(new),
            Event::Update { old, new, resync: false } => return self.narrow_update(old, new),
        };
        seen.then(|| event.clone())
    }

    fn narrow_update(&self, old: &Arc<Object>, new: &Arc<Object>) -> Option<Event> {
        let update = || Event::Update { old: old.clone(), new: new.clone(), resync: false };
        match (self.has(old), self.reason_against(new)) {
            (true, None) => self.is_change(old, new).then(update),
            (false, None) => Some(Event::Add { object: new.clone(), initial: false }),
            (true, Some(reason)) => Some(Event::Delete { object: old.clone(), reason }),
            (false, Some(_)) => None,
        }
    }

    /// Why an object is not the subscription's; none if it is.
    fn reason_against(&self, object: &Object) -> Option<DeleteReason> {
        if self.follows() && !self.has_namespace(object.key().namespace()) {
            return Some(DeleteReason::NamespaceLeft);
        }
        let filter = self.filter.as_ref()?;
        if !filter.selects(object) {
            Some(DeleteReason::Deleted)
        } else if !filter.satisfies(object) {
            Some(DeleteReason::Filtered)
        } else {
            None
        }
    }

    /// The event as a handler is shown it: the named fields only.
    pub(crate) fn show(&self, event: Event) -> Event {
        let Some(filter) = &self.filter else { return event };
        match event {
            Event::Add { object, initial } => Event::Add { object: filter.project(&object), initial },
            Event::Update { old, new, resync } => {
                Event::Update { old: filter.project(&old), new: filter.project(&new), resync }
            }
            Event::Delete { object, reason } => Event::Delete { object: filter.project(&object), reason },
        }
    }

    /// Bytes of the object's text as a handler is shown it.
    pub(crate) fn shown_bytes(&self, object: &Arc<Object>) -> usize {
        self.filter.as_ref().map_or(object.json().len(), |filter| filter.projected_bytes(object))
    }

    /// Whether the object's text as a handler is shown it has so many bytes at most.
    pub(crate) fn shows_at_most(&self, object: &Arc<Object>, max: usize) -> bool {
        // What is left out of an array becomes `null`, so that a part may be longer than the whole, but not by so much.
        object.json().len() <= max / 4 || self.shown_bytes(object) <= max
    }

    /// Whether it follows namespaces by their labels.
    pub(crate) fn follows(&self) -> bool {
        !self.spec.namespace_selector.is_empty()
    }

    fn has_namespace(&self, name: &str) -> bool {
        let namespaces = self.namespaces.read().unwrap_or_else(PoisonError::into_inner);
        namespaces.as_ref().is_some_and(|names| names.contains(name))
    }

    /// Gives the view the task that tells it of namespaces. The first one stays.
    pub(crate) fn set_follower(&self, task: impl FnOnce() -> AbortOnDropHandle<()>) {
        self.follower.get_or_init(task);
    }

    /// How `now` differs from the namespaces that matched before.
    pub(crate) fn namespace_change(&self, now: &BTreeSet<Arc<str>>) -> NamespaceChange {
        let namespaces = self.namespaces.read().unwrap_or_else(PoisonError::into_inner);
        let nothing = BTreeSet::new();
        let before = namespaces.as_ref().unwrap_or(&nothing);
        NamespaceChange {
            is_first: namespaces.is_none(),
            entered: now.difference(before).cloned().collect(),
            left: before.difference(now).cloned().collect(),
        }
    }

    /// Takes over the namespaces that match now. Called under the informer's lock.
    pub(crate) fn set_namespaces(&self, now: BTreeSet<Arc<str>>) {
        *self.namespaces.write().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }
}

/// How the namespaces that a view follows have changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamespaceChange {
    /// They were not known before.
    pub(crate) is_first: bool,
    pub(crate) entered: Vec<Arc<str>>,
    pub(crate) left: Vec<Arc<str>>,
}
