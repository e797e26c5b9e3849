//! All objects, one revision counter, and the watchers to tell of changes.
//!
//! Used by every request. Invariant: everything in `State` changes under its one lock, which is never held
//! across an await; a change is recorded, counted and handed to the watchers in the same critical section, so
//! that all of them see the same order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::faults::LastWords;
use crate::history::{Change, Collection};
use crate::object::Stored;
use crate::registry::Registry;
use crate::resources::Resource;
use crate::status::ApiError;

/// How much is kept, see `Config`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) history: usize,
    pub(crate) watch_buffer: usize,
    /// How long a request waits for a revision that is still to come.
    pub(crate) patience: Duration,
}

/// The shared store.
#[derive(Debug)]
pub(crate) struct Store {
    state: Mutex<State>,
    revision: watch::Receiver<u64>,
    patience: Duration,
    /// Changes when a watch is opened.
    opened: watch::Receiver<()>,
}

/// What the lock protects.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) registry: Registry,
    collections: HashMap<String, Collection>,
    watchers: HashMap<String, Vec<Watcher>>,
    revision: watch::Sender<u64>,
    /// Told to end at once, without what is still queued: cleanly, or by breaking the body off.
    cut: watch::Sender<Cut>,
    opened: watch::Sender<()>,
    limits: Limits,
    /// Injected fault: changes are kept from the watchers.
    pub(crate) lose_events: bool,
}

/// How often all watches have been cut, and how the last time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cut {
    pub(crate) times: u64,
    /// The revision at which it was.
    pub(crate) revision: u64,
    pub(crate) says: LastWords,
    pub(crate) broken: bool,
}

#[derive(Debug)]
struct Watcher {
    /// `namespace/`, or empty for all.
    prefix: String,
    sender: mpsc::Sender<Arc<Change>>,
}

/// A place in the stream of changes, from which nothing after `revision` is missed.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) revision: u64,
    pub(crate) changes: mpsc::Receiver<Arc<Change>>,
    pub(crate) cut: watch::Receiver<Cut>,
}

impl Store {
    pub(crate) fn new(registry: Registry, start: u64, limits: Limits) -> Self {
        let (sender, revision) = watch::channel(start);
        let (opened_sender, opened) = watch::channel(());
        let state = State {
            registry,
            collections: HashMap::new(),
            watchers: HashMap::new(),
            revision: sender,
            cut: watch::Sender::new(Cut::default()),
            opened: opened_sender,
            limits,
            lose_events: false,
        };
        Store { state: Mutex::new(state), revision, patience: limits.patience, opened }
    }

    /// The lock. A panic elsewhere cannot leave a half-made change behind, since changes are made at the end.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn revision(&self) -> u64 {
        *self.revision.borrow()
    }

    /// Waits until so many watches are open.
    pub(crate) async fn watched(&self, watches: usize) {
        let mut opened = self.opened.clone();
        loop {
            opened.mark_unchanged();
            // An error would mean that the sender is gone, which is in `state`.
            if self.lock().watcher_count() >= watches || opened.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits for a revision to be reached, but not for ever.
    pub(crate) async fn reach(&self, wanted: u64) -> Result<(), ApiError> {
        let mut revision = self.revision.clone();
        match tokio::time::timeout(self.patience, revision.wait_for(|now| *now >= wanted)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(ApiError::TooLargeVersion { wanted, current: self.revision() }),
        }
    }
}

impl State {
    pub(crate) fn revision(&self) -> u64 {
        *self.revision.borrow()
    }

    /// A collection, made when it is first asked for; its past begins then at the start of the server.
    pub(crate) fn collection(&mut self, name: &str) -> &mut Collection {
        let floor = self.registry.floor(name);
        let capacity = self.limits.history;
        self.collections.entry(name.to_owned()).or_insert_with(|| Collection::new(floor, capacity))
    }

    /// Whether a resource that was looked up earlier is still served: definitions come and go.
    pub(crate) fn serves(&self, resource: &Resource) -> bool {
        self.registry.find(&resource.group, &resource.plural).is_some()
    }

    pub(crate) fn get(&self, collection: &str, key: &str) -> Option<&Arc<Stored>> {
        self.collections.get(collection)?.objects.get(key)
    }

    /// Names of the collections that hold objects.
    pub(crate) fn collection_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.collections.keys().cloned().collect();
        names.sort();
        names
    }

    /// Writes a new state of an object.
    pub(crate) fn put(&mut self, resource: &Resource, key: &str, value: Value) -> Arc<Stored> {
        let revision = self.revision() + 1;
        let new = Arc::new(Stored::new(value, revision, resource.custom));
        self.commit(resource, key, Arc::clone(&new), false);
        new
    }

    /// Removes an object; the answer is its last state under the revision of the removal.
    pub(crate) fn remove(&mut self, resource: &Resource, key: &str) -> Option<Arc<Stored>> {
        let last = self.get(&resource.collection, key)?;
        let revision = self.revision() + 1;
        let gone = Arc::new(last.at(revision, resource.custom));
        self.commit(resource, key, Arc::clone(&gone), true);
        Some(gone)
    }

    fn commit(&mut self, resource: &Resource, key: &str, new: Arc<Stored>, deleted: bool) {
        let lost = self.lose_events;
        let old = self.get(&resource.collection, key).cloned();
        let revision = new.revision;
        let change = Arc::new(Change { revision, key: key.to_owned(), old, new, deleted, lost });
        self.collection(&resource.collection).record(Arc::clone(&change));
        self.revision.send_replace(revision);
        if !lost {
            self.tell(&resource.collection, &change);
        }
    }

    /// Hands a change to the watchers; one whose buffer is full is dropped, as a kube-apiserver does.
    fn tell(&mut self, collection: &str, change: &Arc<Change>) {
        let Some(watchers) = self.watchers.get_mut(collection) else { return };
        watchers.retain(|watcher| {
            if !change.key.starts_with(&watcher.prefix) {
                return !watcher.sender.is_closed();
            }
            match watcher.sender.try_send(Arc::clone(change)) {
                Ok(()) => true,
                Err(mpsc::error::TrySendError::Closed(_)) => false,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    tracing::debug!(
                        collection,
                        prefix = watcher.prefix,
                        "dropped a watcher that does not read"
                    );
                    false
                }
            }
        });
    }

    /// Registers a watcher: all changes after the returned revision will be in its channel.
    pub(crate) fn subscribe(&mut self, collection: &str, prefix: &str) -> Subscription {
        let (sender, changes) = mpsc::channel(self.limits.watch_buffer.max(1));
        let watchers = self.watchers.entry(collection.to_owned()).or_default();
        // Without changes nothing else would notice those that have left.
        watchers.retain(|watcher| !watcher.sender.is_closed());
        watchers.push(Watcher { prefix: prefix.to_owned(), sender });
        self.opened.send_replace(());
        Subscription { revision: self.revision(), changes, cut: self.cut.subscribe() }
    }

    /// Ends the watches of a collection, after what is queued.
    pub(crate) fn end_watches(&mut self, collection: &str) {
        self.watchers.remove(collection);
    }

    /// Ends every watch at once, whatever is queued; it says something else before.
    pub(crate) fn cut_watches(&mut self, says: LastWords, broken: bool) {
        let revision = self.revision();
        // First, so that no watch ends for want of changes before it knows how.
        self.cut.send_modify(|cut| *cut = Cut { times: cut.times + 1, revision, says, broken });
        self.watchers.clear();
    }

    pub(crate) fn watcher_count(&self) -> usize {
        self.watchers.values().flatten().filter(|w| !w.sender.is_closed()).count()
    }

    /// Forgets the past of every collection.
    pub(crate) fn compact(&mut self) {
        let now = self.revision();
        self.registry.raise_floor(now);
        for collection in self.collections.values_mut() {
            collection.compact(now);
        }
    }

    /// Goes back to what there was at a revision, as a restored backup does, without a past; false if that is
    /// not remembered. Nothing is told to the watches: whoever restores ends them.
    pub(crate) fn restore(&mut self, revision: u64) -> bool {
        let known = |collection: &Collection| collection.range_at("", "", revision).is_ok();
        if revision > self.revision() || !self.collections.values().all(known) {
            return false;
        }
        for collection in self.collections.values_mut() {
            collection.restore(revision);
        }
        self.revision.send_replace(revision);
        true
    }

    /// Forgets a collection whose resource is gone.
    pub(crate) fn drop_collection(&mut self, name: &str) {
        self.collections.remove(name);
    }
}
