//! The streaming list's states: everything that there is, as the beginning of a watch (rules R-WL, KEP-3157).
//!
//! What the server has to hold for it is one object at a time, where a list holds the whole answer; and the
//! watch goes on from it without another request. Invariant: the store sees nothing of a stream before the
//! server said that the initial events are through, and then all of it at once.
//!
//! Deviations from client-go: a server that has shown that it does not know streaming lists is not asked in
//! each cycle, but an hour later; a wait for a busy server can be cancelled (R-WL-5); a server that never sends the
//! marker is given up after a time (R-WL-7, #129408), and warned of once; a stream that is closed again and
//! again before the marker is given up, too (R-WL-6 would ask at once for ever); an event that does not decode
//! makes a list, since without that object nobody could say what is gone.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::time::{Instant, sleep_until};

use super::watch::{MIN_WATCH_TIMEOUT, OpenWatch, VERY_SHORT_WATCH};
use super::{
    FallBack, InitialList, ListOutcome, ListWay, Reflector, ReflectorMetrics, ReflectorStore, State,
};
use crate::list_watch::{Turn, Undecodable, WatchEvent, WatchParams, WatchStream};
use crate::object::{Object, ObjectKey};
use crate::status::ApiError;

/// How long lists are not streamed after the server has shown that it cannot: until somebody may have
/// upgraded it.
const UNSUPPORTED_FOR: Duration = Duration::from_secs(3600);

/// A stream that has brought no object for so long, and no marker, is spoken of (rule R-WL-7).
const SLOW: Duration = Duration::from_secs(10);

/// A stream that has brought no object for so long, and no marker, will not bring one: kube-apiserver waits 3 s
/// for its cache before it refuses, sends the marker about a second after the last object, and gives no other
/// list more than 60 s. Bookmarks do not count, since they are sent by servers that know of no marker.
const OVERDUE: Duration = Duration::from_secs(60);

/// The marker is overdue after so long in any case, since from then on the server may end the watch. A
/// collection in which something always happens looks as if the initial events never ended.
const OVERDUE_IN_ALL: Duration = MIN_WATCH_TIMEOUT;

/// Streams of one cycle that may be closed before the marker and be asked for again at once.
const MAX_CUT_STREAMS: u32 = 3;

/// A streaming list that is coming in.
pub(super) struct StreamedList {
    stream: WatchStream,
    /// Held until the list is in the store.
    turn: Turn,
    opened: Instant,
    /// When the last object came.
    last: Instant,
    spoken_of: bool,
    events: u64,
    /// In the order of a list.
    objects: BTreeMap<ObjectKey, Arc<Object>>,
}

/// What a streaming list came to, after any number of objects.
enum Gathered {
    /// The initial events are through, up to this version.
    Marker(String),
    /// The server gave up, or the stream makes no sense.
    Failed(ApiError),
    /// Something that cannot be carried.
    Undecodable(Undecodable),
    /// The stream was closed.
    Closed,
    /// No object came for some time.
    Slow,
    /// Too much time is over.
    Overdue,
}

impl StreamedList {
    fn new(stream: WatchStream, turn: Turn) -> Self {
        let now = Instant::now();
        Self { stream, turn, opened: now, last: now, spoken_of: false, events: 0, objects: BTreeMap::new() }
    }

    /// Takes in objects until something else happens (R-WL-2).
    async fn gather(&mut self, metrics: &ReflectorMetrics) -> Gathered {
        loop {
            // A long list must not keep its thread from the other tasks.
            tokio::task::consume_budget().await;
            let deadline = self.deadline();
            let event = tokio::select! {
                biased;
                event = self.stream.next() => event,
                () = sleep_until(deadline) => return self.late(),
            };
            match event {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    metrics.listing_more(1);
                    self.objects.insert(object.key().clone(), object);
                    self.last = Instant::now();
                }
                Some(Ok(WatchEvent::Deleted(object))) => {
                    self.objects.remove(object.key());
                }
                // R-WL-3
                Some(Ok(WatchEvent::Bookmark { resource_version, initial_events_end: true })) => {
                    return Gathered::Marker(resource_version);
                }
                Some(Ok(WatchEvent::Bookmark { .. })) => {}
                Some(Ok(WatchEvent::Undecodable(event))) => return Gathered::Undecodable(event),
                Some(Ok(WatchEvent::Error(status))) => return Gathered::Failed(ApiError::Status(status)),
                Some(Err(error)) => return Gathered::Failed(error),
                None => return Gathered::Closed,
            }
            self.events += 1;
        }
    }

    fn deadline(&self) -> Instant {
        let quiet = if self.spoken_of { OVERDUE } else { SLOW };
        (self.last + quiet).min(self.opened + OVERDUE_IN_ALL)
    }

    fn late(&mut self) -> Gathered {
        let is_overdue = self.last.elapsed() >= OVERDUE || self.opened.elapsed() >= OVERDUE_IN_ALL;
        self.spoken_of = true;
        if is_overdue { Gathered::Overdue } else { Gathered::Slow }
    }

    fn is_very_short(&self) -> bool {
        self.events == 0 && self.opened.elapsed() < VERY_SHORT_WATCH
    }
}

impl FallBack {
    /// Whether it says something of the server that will hold in the next cycle, too.
    fn is_lasting(self) -> bool {
        matches!(self, Self::Unsupported | Self::NoMarker)
    }
}

impl<S: ReflectorStore> Reflector<S> {
    /// R-LAW-1.
    pub(super) fn streams_lists(&self) -> bool {
        self.options.initial_list == InitialList::StreamingList
            && self.source.supports_watch_list()
            && self.lists_until.is_none_or(|until| until <= Instant::now())
    }

    /// R-WL-1: at the last version, the first time at none, which is the newest.
    pub(super) async fn open_stream(&mut self, turn: Turn) -> State {
        let resource_version = if self.version_unavailable { String::new() } else { self.version.clone() };
        let params = WatchParams { resource_version, timeout: self.watch_timeout(), initial_events: true };
        match self.source.watch(params).await {
            Ok(stream) => State::Stream(StreamedList::new(stream, turn)),
            Err(error) => {
                self.metrics.listed(ListWay::Streaming, ListOutcome::Failed, Duration::ZERO);
                let is_unsupported = error.status().is_some_and(|status| status.is_invalid());
                self.stream_failed(turn, &error, is_unsupported)
            }
        }
    }

    pub(super) async fn stream(&mut self, mut list: StreamedList) -> State {
        let gathered = list.gather(&self.metrics).await;
        if let Gathered::Slow = gathered {
            self.speak_of(&list);
            return State::Stream(list);
        }
        let is_whole = matches!(gathered, Gathered::Marker(_));
        let outcome = if is_whole { ListOutcome::Ok } else { ListOutcome::Failed };
        self.metrics.listed(ListWay::Streaming, outcome, list.opened.elapsed());
        match gathered {
            Gathered::Marker(version) => self.streamed(list, version),
            Gathered::Failed(error) => {
                // How a server says so whose etcd is too old for it.
                let is_unsupported =
                    list.events == 0 && error.status().is_some_and(|status| status.is_internal());
                self.stream_failed(list.turn, &error, is_unsupported)
            }
            Gathered::Undecodable(event) => {
                self.metrics.passed_over();
                self.fall_back(list.turn, FallBack::Undecodable, &event.message)
            }
            Gathered::Closed => self.stream_closed(list),
            Gathered::Overdue | Gathered::Slow => {
                let message = format!("no marker after {:.0?}", list.opened.elapsed());
                self.fall_back(list.turn, FallBack::NoMarker, &message)
            }
        }
    }

    /// R-WL-4: the same stream goes on as the watch. As client-go counts, the watch begins now (R-W-6).
    fn streamed(&mut self, list: StreamedList, version: String) -> State {
        self.listed(list.objects.into_values().collect(), version);
        self.fell_back = None;
        self.watching();
        State::Follow(OpenWatch::new(list.stream, &self.version))
    }

    /// R-WL-5: a stream was refused, or ended with an error.
    fn stream_failed(&mut self, turn: Turn, error: &ApiError, is_unsupported: bool) -> State {
        if error.makes_version_unavailable() && !self.version_unavailable {
            self.version_is_unavailable(error);
            return State::OpenStream(turn);
        }
        if error.may_pass_soon() || matches!(error, ApiError::Credentials(_)) {
            return self.cycle_failed(error);
        }
        let why = match error {
            _ if is_unsupported => FallBack::Unsupported,
            ApiError::Decode(_) => FallBack::Undecodable,
            _ => FallBack::Refused,
        };
        self.fall_back(turn, why, error)
    }

    /// R-WL-6: the stream was closed before the marker.
    fn stream_closed(&mut self, list: StreamedList) -> State {
        self.cut_streams += 1;
        if list.is_very_short() || self.cut_streams > MAX_CUT_STREAMS {
            return self.fall_back(list.turn, FallBack::Closed, &"closed before the marker");
        }
        State::OpenStream(list.turn)
    }

    /// R-LAW-2: a list in the same cycle. If that fails too, it is what is spoken of.
    fn fall_back(&mut self, turn: Turn, why: FallBack, what: &dyn Display) -> State {
        self.metrics.fell_back(why);
        let informer = &self.options.name;
        if self.fell_back.replace(why) == Some(why) {
            tracing::debug!(%informer, reason = why.as_str(), "the list is not streamed: {what}");
        } else {
            tracing::info!(%informer, reason = why.as_str(), "the list is not streamed: {what}");
        }
        if why.is_lasting() {
            self.lists_until = Some(Instant::now() + UNSUPPORTED_FOR);
        }
        State::List(turn)
    }

    /// R-WL-7, but once.
    fn speak_of(&self, list: &StreamedList) {
        tracing::warn!(
            informer = %self.options.name,
            "waiting for the end of the initial events, no object for {:.0?} after {} objects",
            list.last.elapsed(),
            list.objects.len(),
        );
    }
}
