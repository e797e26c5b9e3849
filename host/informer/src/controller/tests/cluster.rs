//! A small collection on a pretended API server: a list is what is there, a watch what has happened since.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::future::{BoxFuture, ready};
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::watch;

use crate::list_watch::{ListPage, ListParams, ListerWatcher, WatchEvent, WatchParams, WatchStream};
use crate::object::Object;
use crate::status::{ApiError, Status};
use crate::testing::object;

/// See the file's head. Clones are the same collection.
#[derive(Clone)]
pub(super) struct Cluster {
    state: Arc<Mutex<State>>,
    /// Rises with everything that watches have to look at.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Arc<Object>>,
    version: u64,
    history: Vec<(u64, WatchEvent)>,
    /// Watches at an older version than this are too old.
    compacted: u64,
    lists: u32,
}

impl Cluster {
    pub(super) fn new() -> Self {
        let state = State { version: 1, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), changes: watch::Sender::new(0) }
    }

    /// Creates or changes an object; gives its version.
    pub(super) fn put(&self, key: &str, uid: &str) -> u64 {
        self.change(|state| {
            let object = object(key, uid, &state.version.to_string());
            match state.objects.insert(key.to_owned(), object.clone()) {
                None => Some(WatchEvent::Added(object)),
                Some(_) => Some(WatchEvent::Modified(object)),
            }
        })
    }

    /// Deletes an object, if it is there; gives the version of that.
    pub(super) fn delete(&self, key: &str) -> u64 {
        self.change(|state| {
            let last = state.objects.remove(key)?;
            Some(WatchEvent::Deleted(object(key, last.uid(), &state.version.to_string())))
        })
    }

    fn change(&self, work: impl FnOnce(&mut State) -> Option<WatchEvent>) -> u64 {
        let mut state = self.lock();
        state.version += 1;
        let event = work(&mut state);
        let version = state.version;
        state.history.extend(event.map(|event| (version, event)));
        drop(state);
        self.changes.send_modify(|changes| *changes += 1);
        version
    }

    /// Does things that no watch will show: it ends as too old, and only a list tells.
    pub(super) fn unseen(&self, work: impl FnOnce(&Self)) {
        // Watches run in the same thread, so they see nothing in between.
        work(self);
        let mut state = self.lock();
        state.history.clear();
        state.compacted = state.version;
        drop(state);
        self.changes.send_modify(|changes| *changes += 1);
    }

    pub(super) fn objects(&self) -> Vec<Arc<Object>> {
        self.lock().objects.values().cloned().collect()
    }

    /// Lists that were answered.
    pub(super) fn lists(&self) -> u32 {
        self.lock().lists
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the collection")
    }
}

impl State {
    /// The first event after a version, and whether such a watch is too old.
    fn after(&self, version: u64) -> Result<Option<(u64, WatchEvent)>, Status> {
        if version < self.compacted {
            return Err(Status::from_response(410, None, b"too old resource version"));
        }
        Ok(self.history.iter().find(|(at, _)| *at > version).cloned())
    }
}

impl ListerWatcher for Cluster {
    fn list(&self, _: ListParams) -> BoxFuture<'_, Result<ListPage, ApiError>> {
        let mut state = self.lock();
        state.lists += 1;
        let items = state.objects.values().cloned().collect();
        let resource_version = state.version.to_string();
        ready(Ok(ListPage { items, resource_version, ..ListPage::default() })).boxed()
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        let from: u64 = params.resource_version.parse().expect("a version of ours");
        if let Err(status) = self.lock().after(from) {
            return ready(Err(ApiError::Status(status))).boxed();
        }
        let begin = (self.clone(), self.changes.subscribe(), from);
        let events = futures::stream::unfold(begin, async |(cluster, mut changes, from)| {
            loop {
                changes.borrow_and_update();
                let next = cluster.lock().after(from);
                match next {
                    Ok(Some((version, event))) => return Some((Ok(event), (cluster, changes, version))),
                    Err(status) => return Some((Ok(WatchEvent::Error(status)), (cluster, changes, from))),
                    Ok(None) => changes.changed().await.ok()?,
                }
            }
        });
        ready(Ok(events.boxed())).boxed()
    }
}
