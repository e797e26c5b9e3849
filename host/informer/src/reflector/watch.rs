//! The watch states: one event after the other into the store (rules R-W).
//!
//! Invariant: an event moves the version only when the store has it.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::time::{Instant, sleep_until};

use super::waits::{After, MAX_OBEYED};
use super::{EventKind, ListReason, ProblemKind, Reflector, ReflectorStore, State};
use crate::list_watch::{Undecodable, WatchEvent, WatchParams, WatchStream};
use crate::object::Object;
use crate::status::{ApiError, Status};

/// Shortest `timeoutSeconds` of a watch; the longest is twice that (rules of section 1.1).
pub(super) const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// A watch that ends sooner than this, without an event, says that something is wrong (rule R-W-6).
pub(super) const VERY_SHORT_WATCH: Duration = Duration::from_secs(1);

pub(super) struct OpenWatch {
    stream: WatchStream,
    opened: Instant,
    /// Events applied.
    events: u64,
    /// Whether events' versions are recorded: not before the first event that is not ADDED if the watch began
    /// at no version or at "0" (rule R-W-2).
    records_versions: bool,
}

impl OpenWatch {
    /// A watch of what comes after `version`, from now on.
    pub(super) fn new(stream: WatchStream, version: &str) -> Self {
        let records_versions = !matches!(version, "" | "0");
        Self { stream, opened: Instant::now(), events: 0, records_versions }
    }

    fn is_very_short(&self) -> bool {
        self.events == 0 && self.opened.elapsed() < VERY_SHORT_WATCH
    }
}

impl<S: ReflectorStore> Reflector<S> {
    /// R-W-1.
    pub(super) async fn open_watch(&mut self) -> State {
        let timeout = self.watch_timeout();
        let resource_version = self.version.clone();
        let params = WatchParams { resource_version, timeout, initial_events: false };
        match self.source.watch(params).await {
            Ok(stream) => {
                self.watching();
                self.obeyed = 0;
                State::Follow(OpenWatch::new(stream, &self.version))
            }
            Err(error) if self.asks_for_patience(&error) => {
                self.health.failed(error.problem_kind(), error.to_string());
                self.wait(Some(&error), After::Watch)
            }
            Err(error) => self.watch_failed(&error),
        }
    }

    /// Whether a server in trouble says itself when to ask again: then the watch goes on from where it was, as
    /// from client-go's REST layer (section 1.10), but not for ever.
    fn asks_for_patience(&self, error: &ApiError) -> bool {
        error.status().is_some_and(|status| status.code >= 500)
            && error.may_pass_soon()
            && self.obeyed < MAX_OBEYED
    }

    /// `timeoutSeconds` of the next watch (section 1.1).
    pub(super) fn watch_timeout(&mut self) -> Duration {
        let min = self.options.min_watch_timeout.max(MIN_WATCH_TIMEOUT).as_secs();
        Duration::from_secs(self.backoff.draw(min, min.saturating_mul(2)))
    }

    pub(super) fn watching(&mut self) {
        self.health.watching();
        self.metrics.watching();
    }

    /// The next event of the watch. A watch that has lived for a second, or brought an event, shows that what
    /// failed before works again.
    pub(super) async fn follow(&mut self, mut watch: OpenWatch) -> State {
        let proven = watch.opened + VERY_SHORT_WATCH;
        let event = tokio::select! {
            event = watch.stream.next() => event,
            () = sleep_until(proven), if self.health.is_failing() => {
                self.healed();
                return State::Follow(watch);
            }
        };
        match event {
            Some(Ok(event)) => self.apply(watch, event).await,
            Some(Err(error)) => self.new_cycle_after(&error, ListReason::WatchFailed),
            None => self.watch_ended(&watch),
        }
    }

    /// R-W-4, R-W-5: as the server says, without looking at what was before.
    async fn apply(&mut self, mut watch: OpenWatch, event: WatchEvent) -> State {
        watch.records_versions |= !matches!(event, WatchEvent::Added(_));
        match event {
            WatchEvent::Added(object) => {
                self.store.add(Arc::clone(&object)).await;
                self.applied_object(&mut watch, EventKind::Added, &object);
            }
            WatchEvent::Modified(object) => {
                self.store.update(Arc::clone(&object)).await;
                self.applied_object(&mut watch, EventKind::Modified, &object);
            }
            WatchEvent::Deleted(object) => {
                self.store.delete(Arc::clone(&object)).await;
                self.applied_object(&mut watch, EventKind::Deleted, &object);
            }
            WatchEvent::Bookmark { resource_version, .. } => {
                self.store.bookmark(&resource_version);
                self.applied(&mut watch, EventKind::Bookmark, &resource_version);
                self.health.applied(None, &self.version);
            }
            WatchEvent::Undecodable(event) => return self.pass_over(watch, &event),
            WatchEvent::Error(status) => return self.watch_broken_off(&watch, status),
        }
        State::Follow(watch)
    }

    fn applied_object(&mut self, watch: &mut OpenWatch, kind: EventKind, object: &Object) {
        self.applied(watch, kind, object.resource_version());
        self.health.applied(Some(object.key()), &self.version);
    }

    /// R-W-4, no. 8.
    fn applied(&mut self, watch: &mut OpenWatch, kind: EventKind, version: &str) {
        watch.events += 1;
        if watch.records_versions && !version.is_empty() {
            version.clone_into(&mut self.version);
            self.metrics.at_version(version);
            self.expired_version = None;
        }
        self.metrics.applied(kind);
        self.healed();
    }

    /// An event that cannot be applied, which counts for nothing (R-W-4, no. 2 to 5). Where it was a deletion,
    /// only a list can tell now what is gone.
    fn pass_over(&mut self, watch: OpenWatch, event: &Undecodable) -> State {
        self.health.passed_over(event);
        self.metrics.passed_over();
        if event.is_deletion {
            self.reason = ListReason::UndecodableDeletion;
            return self.wait(None, After::Cycle);
        }
        State::Follow(watch)
    }

    fn healed(&mut self) {
        if self.health.healed() == Some(ProblemKind::Absent) {
            self.backoff.reset();
        }
    }

    /// R-W-6: the server ended the watch, or the connection did.
    fn watch_ended(&mut self, watch: &OpenWatch) -> State {
        if !watch.is_very_short() {
            self.very_short_watches = 0;
            return State::Watch;
        }
        self.metrics.watch_was_very_short();
        self.very_short_watches += 1;
        if self.very_short_watches > 1 {
            let message = "the server ends watches at once, without an event".to_owned();
            self.health.failed(ProblemKind::Server, message);
        }
        self.reason = ListReason::ShortWatch;
        self.wait(None, After::Cycle)
    }

    /// R-W-7: the server ended the watch with an error. R-W-8: an internal error may be followed by another
    /// watch at once, but not if the watch ended at once too (a deviation).
    fn watch_broken_off(&mut self, watch: &OpenWatch, status: Status) -> State {
        let retries = status.is_internal() && self.internal_retry.goes_on();
        let error = ApiError::Status(status);
        if !retries {
            return self.watch_failed(&error);
        }
        self.health.failed(error.problem_kind(), error.to_string());
        if watch.is_very_short() { self.wait(Some(&error), After::Watch) } else { State::Watch }
    }

    /// R-W-3, R-W-7: a watch was refused, or ended with an error.
    fn watch_failed(&mut self, error: &ApiError) -> State {
        if error.status().is_some_and(|status| status.is_expired()) {
            return self.watch_expired(error);
        }
        let keeps_its_place = match error {
            ApiError::Status(status) => status.is_too_many_requests(),
            ApiError::Unreachable(_) | ApiError::Credentials(_) => true,
            ApiError::Decode(_) | ApiError::Absent(_) => false,
        };
        if keeps_its_place {
            self.health.failed(error.problem_kind(), error.to_string());
            return self.wait(Some(error), After::Watch);
        }
        self.new_cycle_after(error, ListReason::WatchFailed)
    }

    /// The last version is too old to go on from. Not a problem, but what comes of having been away; the list
    /// that follows is at the same version unless that was tried before.
    fn watch_expired(&mut self, error: &ApiError) -> State {
        tracing::info!(informer = %self.options.name, "watch: {error}; listing again");
        let wait = match self.expired_version.replace(self.version.clone()) {
            None => self.backoff.first_step(),
            Some(before) => {
                self.version_unavailable |= before == self.version;
                self.backoff.step()
            }
        };
        self.reason = ListReason::Expired;
        State::Wait { until: Instant::now() + wait, then: After::Cycle }
    }
}
