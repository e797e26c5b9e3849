//! What one shared informer does with a popped key: cache first, then every registration.
//!
//! Used by the shared informer's process loop and by listeners that join, leave or read on. Invariant: the
//! cache changes and its events are offered under one lock ([`Core::with`]), so a listener that reads the cache
//! under it sees exactly the events before that moment in the cache, and exactly those after as events.

mod resync;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use self::resync::Resync;
use crate::controller::transition;
use crate::delta_fifo::Delta;
use crate::handler::{DeleteReason, Event};
use crate::indexer::Indexer;
use crate::object::Object;
use crate::view::View;

/// Where events of one informer go: a listener, by the number that it gave its registration.
///
/// Called under the informer's lock; must not block and must not call the informer.
pub(crate) trait Sink: Send + Sync {
    /// Something happened to an object that is in the cache already.
    fn offer(&self, registration: u64, event: Event);
    /// The first list is in the cache: everything in it is the registration's to read.
    fn synced(&self, registration: u64);
    /// The informer cannot list its resource for a reason that must not hold other subscriptions back
    /// (forbidden, absent), or can again.
    fn excused(&self, registration: u64, excused: bool);
}

/// The cache of one informer and the registrations that hear of its changes.
pub(crate) struct Core {
    pub(crate) indexer: Arc<Indexer>,
    processor: Mutex<Processor>,
}

/// Fan-out to the registrations (client-go's sharedProcessor).
#[derive(Default)]
pub(crate) struct Processor {
    synced: bool,
    excused: bool,
    groups: Vec<Group>,
}

/// The registrations that have one view: an event is narrowed once for all of them. Never empty.
struct Group {
    view: Arc<View>,
    /// The view cannot know its namespaces, for a reason that must not hold other subscriptions back.
    excused: bool,
    registrations: Vec<Registration>,
}

struct Registration {
    sink: Weak<dyn Sink>,
    id: u64,
    resync: Option<Resync>,
}

impl Core {
    pub(crate) fn new() -> Self {
        Self { indexer: Arc::default(), processor: Mutex::default() }
    }

    /// Runs `work` while nothing changes the cache and no event is offered. Must not be called while a
    /// listener's lock is held: the informer's lock is the outer one.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Processor, &Indexer) -> R) -> R {
        work(&mut self.lock(), &self.indexer)
    }

    /// Brings one delta into the cache and tells of it.
    pub(crate) fn apply(&self, delta: &Delta) {
        apply(&self.indexer, &mut self.lock(), delta);
    }

    /// The first list is in the cache.
    pub(crate) fn become_synced(&self) {
        self.lock().become_synced(&self.indexer);
    }

    fn lock(&self) -> MutexGuard<'_, Processor> {
        // See Indexer: going on after a panic elsewhere beats stopping for good.
        self.processor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Brings one delta into the cache, then tells of it (delivery contract 2).
fn apply(indexer: &Indexer, processor: &mut Processor, delta: &Delta) {
    let known = transition::store(indexer, delta);
    for event in transition::events(known.as_ref(), delta, false) {
        match &event {
            Event::Update { new, resync: true, .. } => processor.distribute_resync(new),
            _ => processor.distribute(&event, known.as_ref().unwrap_or(&delta.object)),
        }
    }
}

impl Processor {
    /// Whether the first list is in the cache.
    pub(crate) fn synced(&self) -> bool {
        self.synced
    }

    /// Whether the informer's resource is refused or absent.
    pub(crate) fn excused(&self) -> bool {
        self.excused
    }

    /// Adds a registration and tells it at once where the informer stands.
    pub(crate) fn register(
        &mut self,
        sink: &Arc<dyn Sink>,
        id: u64,
        resync: Option<Duration>,
        view: &Arc<View>,
    ) {
        let registration = Registration { sink: Arc::downgrade(sink), id, resync: Resync::every(resync) };
        let (synced, excused) = (self.synced, self.excused);
        let group = self.group(view);
        if synced && view.is_ready() {
            sink.synced(id);
        } else if excused || group.excused {
            sink.excused(id, true);
        }
        group.registrations.push(registration);
    }

    /// Removes a registration; an unknown one is no error (R-EH-5).
    pub(crate) fn unregister(&mut self, sink: &Arc<dyn Sink>, id: u64) {
        self.take(sink, id);
    }

    /// Gives a registration another resync period, and another view of the same objects.
    pub(crate) fn rebind(
        &mut self,
        sink: &Arc<dyn Sink>,
        id: u64,
        resync: Option<Duration>,
        view: &Arc<View>,
    ) {
        let Some(mut registration) = self.take(sink, id) else { return };
        let resync = Resync::every(resync);
        if registration.resync.as_ref().map(Resync::period) != resync.as_ref().map(Resync::period) {
            registration.resync = resync;
        }
        self.group(view).registrations.push(registration);
    }

    fn take(&mut self, sink: &Arc<dyn Sink>, id: u64) -> Option<Registration> {
        let sink = Arc::downgrade(sink);
        let is_it = |one: &Registration| one.id == id && one.sink.ptr_eq(&sink);
        let mut taken = None;
        for group in &mut self.groups {
            if let Some(place) = group.registrations.iter().position(is_it) {
                taken = Some(group.registrations.remove(place));
            }
        }
        self.groups.retain(|group| !group.registrations.is_empty());
        taken
    }

    fn group(&mut self, view: &Arc<View>) -> &mut Group {
        let place = self.groups.iter().position(|group| Arc::ptr_eq(&group.view, view));
        let place = place.unwrap_or_else(|| {
            self.groups.push(Group { view: view.clone(), excused: false, registrations: Vec::new() });
            self.groups.len() - 1
        });
        &mut self.groups[place]
    }

    /// How many registrations there are.
    #[cfg(test)]
    pub(crate) fn registered(&self) -> usize {
        self.groups.iter().map(|group| group.registrations.len()).sum()
    }

    /// Says whether the informer's resource is refused or absent.
    pub(crate) fn set_excused(&mut self, excused: bool) {
        if self.excused != excused {
            self.excused = excused;
            for group in &self.groups {
                group.each(|sink, id| sink.excused(id, excused || group.excused));
            }
        }
    }

    /// Says whether a view cannot know its namespaces.
    pub(crate) fn set_view_excused(&mut self, view: &Arc<View>, excused: bool) {
        let informer_excused = self.excused;
        let group = self.groups.iter_mut().find(|group| Arc::ptr_eq(&group.view, view));
        if let Some(group) = group.filter(|group| group.excused != excused) {
            group.excused = excused;
            group.each(|sink, id| sink.excused(id, excused || informer_excused));
        }
    }

    /// Tells a view which namespaces match now, and its registrations of the objects that came and went with them
    /// (delivery contract, reason `namespace-left`).
    pub(crate) fn set_namespaces(&mut self, view: &Arc<View>, now: BTreeSet<Arc<str>>, indexer: &Indexer) {
        let change = view.namespace_change(&now);
        let seen_in = |names: &[Arc<str>]| -> Vec<Arc<Object>> {
            let objects = names.iter().flat_map(|name| indexer.range(name, None, usize::MAX));
            objects.filter(|object| view.has(object)).collect()
        };
        let gone = seen_in(&change.left);
        view.set_namespaces(now);
        let Some(group) = self.groups.iter().find(|group| Arc::ptr_eq(&group.view, view)) else { return };
        if change.is_first {
            // What is in them is the registrations' to read.
            if self.synced {
                group.warn_of_no_namespaces(indexer);
                group.each(|sink, id| sink.synced(id));
            }
            return;
        }
        for object in gone {
            group.offer(&Event::Delete { object, reason: DeleteReason::NamespaceLeft });
        }
        for object in seen_in(&change.entered) {
            group.offer(&Event::Add { object, initial: false });
        }
    }

    fn become_synced(&mut self, indexer: &Indexer) {
        self.synced = true;
        for group in self.groups.iter().filter(|group| group.view.is_ready()) {
            group.warn_of_no_namespaces(indexer);
            group.each(|sink, id| sink.synced(id));
        }
    }

    /// Offers an event to everybody whose view sees it; `was` is the state that the cache had before.
    fn distribute(&mut self, event: &Event, was: &Object) {
        for group in &self.groups {
            if let Some(event) = group.view.narrow(event, was) {
                group.offer(&event);
            }
        }
    }
}

impl Group {
    fn each(&self, mut tell: impl FnMut(&dyn Sink, u64)) {
        for registration in &self.registrations {
            if let Some(sink) = registration.sink.upgrade() {
                tell(&*sink, registration.id);
            }
        }
    }

    /// A namespace selector for objects that are in no namespace would silently select nothing.
    fn warn_of_no_namespaces(&self, indexer: &Indexer) {
        let first = || indexer.range("", None, 1).into_iter().next();
        if self.view.follows() && first().is_some_and(|object| object.key().namespace().is_empty()) {
            let selector = &self.view.spec().namespace_selector;
            tracing::warn!(
                "the kind is cluster-scoped: a namespace selector ({selector}) selects none of it"
            );
        }
    }

    fn offer(&self, event: &Event) {
        self.registrations.iter().for_each(|registration| registration.offer(event));
    }
}

impl Registration {
    fn offer(&self, event: &Event) {
        if let Some(sink) = self.sink.upgrade() {
            sink.offer(self.id, event.clone());
        }
    }
}
