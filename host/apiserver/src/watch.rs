//! One watch: what has happened since a revision, then what happens, until its time is up.
//!
//! Used by the request handler, which turns the stream into a response body. Invariant: between the first event
//! and the end nothing that matches is left out and nothing comes twice; the revision of a bookmark covers
//! exactly what has been sent.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use rand::Rng as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::accept::Form;
use crate::faults::LastWords;
use crate::history::Change;
use crate::object::{Stored, View};
use crate::options::Options;
use crate::resources::EVENTS;
use crate::selectors::Selectors;
use crate::status::ApiError;
use crate::store::{Store, Subscription};
use crate::table;

/// A watch as it was asked for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) view: View,
    pub(crate) namespace: String,
    pub(crate) selectors: Selectors,
    pub(crate) options: Options,
    pub(crate) form: Form,
    /// How often a bookmark is sent on an idle watch.
    pub(crate) bookmark_interval: Duration,
}

/// What is still to be sent before the live changes.
#[derive(Debug)]
enum Pending {
    Existing(Arc<Stored>),
    Change(Arc<Change>),
    InitialEnd,
    Error(ApiError),
}

/// A running watch.
struct Watch {
    request: Request,
    store: Arc<Store>,
    pending: VecDeque<Pending>,
    /// `None` until a future revision has been reached, or when an error ends the watch.
    live: Option<Live>,
    /// The revision still waited for, if it was in the future when a streaming list was asked for.
    waiting: Option<u64>,
    /// Changes up to here have been dealt with.
    revision: u64,
    /// Columns go with the first event of a Table watch.
    head: bool,
    /// What it says last has been said.
    has_spoken: bool,
    deadline: Instant,
    bookmark: Instant,
}

struct Live {
    subscription: Subscription,
    cuts_before: u64,
}

/// Opens a watch. Everything that can be refused has been before: from here on, errors are events.
pub(crate) fn open(
    store: Arc<Store>,
    request: Request,
    wanted: u64,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let now = Instant::now();
    let timeout =
        request.options.timeout.unwrap_or_else(|| Duration::from_secs(rand::rng().random_range(1800..3600)));
    let mut watch = Watch {
        store,
        pending: VecDeque::new(),
        live: None,
        waiting: None,
        revision: wanted,
        head: true,
        has_spoken: false,
        deadline: now + timeout,
        bookmark: now,
        request,
    };
    watch.schedule_bookmark();
    if watch.is_initial(wanted) && wanted > watch.store.revision() {
        watch.waiting = Some(wanted);
    } else {
        watch.begin(wanted);
    }
    futures::stream::unfold(watch, |mut watch| async move {
        let item = watch.next().await?;
        Some((item, watch))
    })
}

impl Watch {
    /// Whether the objects that exist are sent first.
    fn is_initial(&self, wanted: u64) -> bool {
        self.request.options.send_initial_events.unwrap_or(wanted == 0)
    }

    fn prefix(&self) -> String {
        match self.request.namespace.as_str() {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        }
    }

    /// Subscribes, and queues what came before: existing objects, or changes since a revision.
    fn begin(&mut self, wanted: u64) {
        let (prefix, initial) = (self.prefix(), self.is_initial(wanted));
        let store = Arc::clone(&self.store);
        let mut state = store.lock();
        if !state.serves(&self.request.view.resource) {
            return;
        }
        let name = self.request.view.resource.collection.clone();
        let subscription = state.subscribe(&name, &prefix);
        let collection = state.collection(&name);
        if initial {
            self.revision = subscription.revision;
            self.pending.extend(collection.range(&prefix, "").map(|(_, o)| Pending::Existing(Arc::clone(o))));
            if self.announces_initial_end(&name) {
                self.pending.push_back(Pending::InitialEnd);
            }
        } else {
            match collection.since(wanted) {
                Ok(changes) => {
                    let mine = changes.into_iter().filter(|c| !c.lost && c.key.starts_with(&prefix));
                    self.pending.extend(mine.map(Pending::Change));
                }
                Err(too_old) => {
                    self.pending.push_back(Pending::Error(expired(&name, wanted, too_old.floor)));
                    return;
                }
            }
        }
        let cuts_before = subscription.cut.borrow().times;
        self.live = Some(Live { subscription, cuts_before });
    }

    /// Events have no watch cache in a kube-apiserver, and that shows: it sends the marker unasked.
    fn announces_initial_end(&self, collection: &str) -> bool {
        let asked = self.request.options.send_initial_events == Some(true) || collection == EVENTS;
        asked && self.request.options.bookmarks
    }

    fn schedule_bookmark(&mut self) {
        let now = Instant::now();
        let regular = now + self.request.bookmark_interval;
        let last = self.deadline.checked_sub(Duration::from_millis(1000)).filter(|last| *last > now);
        self.bookmark = last.map_or(regular, |last| regular.min(last));
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if let Some(wanted) = self.waiting.take() {
            match self.store.reach(wanted).await {
                Ok(()) => self.begin(wanted),
                Err(error) => self.pending.push_back(Pending::Error(error)),
            }
        }
        loop {
            if let Some(end) = self.is_cut() {
                return end;
            }
            if let Some(pending) = self.pending.pop_front() {
                match self.render_pending(pending) {
                    Some(event) => return Some(Ok(event)),
                    None => continue,
                }
            }
            match self.wait().await {
                Step::Change(change) => {
                    if let Some(event) = self.render_change(&change) {
                        return Some(Ok(event));
                    }
                }
                Step::Bookmark => {
                    self.schedule_bookmark();
                    if self.request.options.bookmarks {
                        self.catch_up();
                        return Some(Ok(self.bookmark_event(false)));
                    }
                }
                Step::Again => {}
                Step::End => return None,
            }
        }
    }

    /// Whether all watches have been cut since this one began, and what this one still has to say then.
    fn is_cut(&mut self) -> Option<Option<io::Result<Bytes>>> {
        let live = self.live.as_ref()?;
        let cut = live.subscription.cut.borrow().clone();
        if cut.times == live.cuts_before {
            return None;
        }
        if !std::mem::replace(&mut self.has_spoken, true)
            && let Some(words) = self.last_words(cut.says)
        {
            return Some(Some(Ok(words)));
        }
        Some(cut.broken.then(|| Err(io::Error::other("watch cut on request"))))
    }

    fn last_words(&mut self, says: LastWords) -> Option<Bytes> {
        match says {
            LastWords::Nothing => None,
            LastWords::Bookmark if self.request.options.bookmarks && self.pending.is_empty() => {
                self.catch_up();
                Some(self.bookmark_event(false))
            }
            LastWords::Bookmark => None,
            LastWords::Error(error) => Some(error_event(&error)),
            LastWords::Text(text) => Some(Bytes::from(text)),
        }
    }

    async fn wait(&mut self) -> Step {
        let (deadline, bookmark) = (self.deadline, self.bookmark);
        let Some(live) = &mut self.live else { return Step::End };
        tokio::select! {
            biased;
            _ = live.subscription.cut.changed() => Step::Again,
            change = live.subscription.changes.recv() => change.map_or(Step::End, Step::Change),
            () = sleep_until(deadline) => Step::End,
            () = sleep_until(bookmark) => Step::Bookmark,
        }
    }

    /// With nothing queued, everything has been dealt with up to the store's revision, or up to the one at which
    /// this watch was cut and no longer told.
    fn catch_up(&mut self) {
        let store = Arc::clone(&self.store);
        let state = store.lock();
        let Some(live) = &self.live else { return };
        let cut = live.subscription.cut.borrow();
        let told = if cut.times == live.cuts_before { state.revision() } else { cut.revision };
        if live.subscription.changes.is_empty() {
            self.revision = self.revision.max(told);
        }
    }

    fn render_pending(&mut self, pending: Pending) -> Option<Bytes> {
        match pending {
            Pending::Existing(object) => {
                self.request.selectors.matches(&object.value).then(|| self.event("ADDED", &object))
            }
            Pending::Change(change) => self.render_change(&change),
            Pending::InitialEnd => Some(self.bookmark_event(true)),
            Pending::Error(error) => Some(error_event(&error)),
        }
    }

    /// The event a change is for this watch's selectors, if it is one.
    fn render_change(&mut self, change: &Change) -> Option<Bytes> {
        if change.revision <= self.revision {
            return None;
        }
        self.revision = change.revision;
        let selectors = &self.request.selectors;
        let before = change.old.as_ref().filter(|old| selectors.matches(&old.value));
        let after = change.after().filter(|new| selectors.matches(&new.value));
        match (before, after) {
            (None, None) => None,
            (None, Some(new)) => Some(self.event("ADDED", new)),
            (Some(_), Some(new)) => Some(self.event("MODIFIED", new)),
            (Some(_), None) if change.deleted => Some(self.event("DELETED", &change.new)),
            (Some(old), None) => {
                let left = old.at(change.revision, self.request.view.resource.custom);
                Some(self.event("DELETED", &left))
            }
        }
    }

    fn event(&mut self, kind: &str, object: &Stored) -> Bytes {
        let view = &self.request.view;
        let mut out = BytesMut::with_capacity(object.body.len() + 128);
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        match self.request.form {
            Form::Plain => view.put(&mut out, object),
            Form::Partial => table::put_partial(&mut out, object),
            Form::Table => {
                let head = std::mem::take(&mut self.head);
                table::put_one(&mut out, view, object, &self.request.options.include_object, head);
            }
        }
        out.put_slice(b"}\n");
        out.freeze()
    }

    fn bookmark_event(&mut self, initial_end: bool) -> Bytes {
        let resource = &self.request.view.resource;
        let mut value = zero_value(&resource.collection);
        if initial_end {
            value["metadata"] = json!({"annotations": {"k8s.io/initial-events-end": "true"}});
        }
        let object = Stored::new(value, self.revision, resource.custom);
        self.event("BOOKMARK", &object)
    }
}

enum Step {
    Change(Arc<Change>),
    Bookmark,
    Again,
    End,
}

/// The fields a typed server cannot leave out of an empty object.
fn zero_value(collection: &str) -> Value {
    match collection {
        "pods" => json!({"spec": {"containers": null}, "status": {}}),
        "nodes" => {
            json!({"spec": {}, "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": {}}})
        }
        "namespaces" => json!({"spec": {}, "status": {}}),
        "services" => json!({"spec": {}, "status": {"loadBalancer": {}}}),
        EVENTS => {
            let mut event = json!({});
            crate::events::fill_zero_values(&mut event);
            event
        }
        _ => json!({}),
    }
}

fn expired(collection: &str, wanted: u64, floor: u64) -> ApiError {
    let message = if collection == EVENTS {
        "The resourceVersion for the provided watch is too old.".to_owned()
    } else {
        format!("too old resource version: {wanted} ({floor})")
    };
    ApiError::Expired { message, continue_token: None }
}

fn error_event(error: &ApiError) -> Bytes {
    let mut out = BytesMut::new();
    out.extend_from_slice(b"{\"type\":\"ERROR\",\"object\":");
    out.extend_from_slice(&error.status().to_json());
    out.extend_from_slice(b"}\n");
    out.freeze()
}
