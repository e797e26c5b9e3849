//! Keeps a store equal to a collection on the API server: list, then watch, for ever.
//!
//! Run by the shared informer, one reflector an informer. Its heart is the state machine `State`, whose
//! steps are client-go's rules R-LOOP, R-LAW, R-LIST, R-WL, R-W and R-BO; each state's step has its own file.
//! Invariants: only a list that succeeded says what is gone, so a failure leaves the store as it was; the
//! version never goes back to an older one of the server's but when the server cannot serve it; every failure
//! is followed by a wait, except where a rule says "at once", and "at once" never twice in a row for ever.
//!
//! Deviations from client-go, all on the side of fewer relists: any failure to reach the server for a watch
//! is retried at the same version, not only a refused connection (R-W-3); a page after the first that the
//! server is too busy for is asked for again, not the whole list; a version that the watch calls too old
//! twice in a row is given up (#133810); an event without a version does not erase the last one. And some on
//! the side of healing sooner: a watch too old for the first time is followed by a list after the first step,
//! however far an outage had brought the back-off; the back-off begins anew when an absent resource has
//! appeared. The back-off's own is in [`crate::backoff`], the streaming list's in `reflector/watch_list.rs`.
//!
//! Resync is not the reflector's business: it never talks to the server (R-RS-4), so whoever owns the queue
//! has the timer (R-RS-1, R-RS-2). That it is not set back by a relist is a deviation from R-RS-3, by which
//! frequent failures put resyncs off for ever.

mod health;
mod internal_retry;
mod list;
mod metrics;
mod options;
mod store;
mod waits;
mod watch;
mod watch_list;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch as channel;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use self::health::Health;
pub use self::health::{Phase, Problem, ProblemKind, ReflectorStatus};
use self::internal_retry::InternalRetry;
pub use self::metrics::{EventKind, FallBack, ListOutcome, ListReason, ListWay, ReflectorMetrics};
pub use self::options::{InitialList, ReflectorOptions};
pub use self::store::ReflectorStore;
use self::waits::After;
use self::watch::OpenWatch;
use self::watch_list::StreamedList;
use crate::backoff::Backoff;
use crate::list_watch::{ListerWatcher, Turn};
use crate::object::Object;

/// Shortest and longest wait for a turn to list, in milliseconds; then the list is asked for without one, so
/// that lists which hang hold nobody back for ever. Drawn for each, so that not all who wait run out together.
const PATIENCE_FOR_A_TURN: (u64, u64) = (10_000, 30_000);

/// See the file's head.
pub struct Reflector<S> {
    source: Arc<dyn ListerWatcher>,
    store: Arc<S>,
    options: ReflectorOptions,
    backoff: Backoff,
    internal_retry: InternalRetry,
    health: Health,
    metrics: Arc<ReflectorMetrics>,
    /// The last version seen; empty before the first list.
    version: String,
    /// The server cannot serve `version`: the next list does without (rule R-LIST-5).
    version_unavailable: bool,
    /// A list at "0" came in pages, so the server has no cache to ignore `limit` with (rule R-LIST-6).
    paginated: bool,
    /// The version that the last watch called too old.
    expired_version: Option<String>,
    /// Watches in a row that were very short.
    very_short_watches: u32,
    /// `Retry-After`s obeyed since something last succeeded.
    obeyed: u32,
    /// Why the next list will be made.
    reason: ListReason,
    /// Streaming lists are not asked for until then, the server having shown that it has none.
    lists_until: Option<Instant>,
    /// Why the last list was not streamed, if it was to be.
    fell_back: Option<FallBack>,
    /// Streams of this cycle that were closed before the initial events were through.
    cut_streams: u32,
}

/// Where the reflector is. Each state is left by one step, which does one thing and says what is next.
enum State {
    /// To ask discovery what to list, if that is not known. → `Queue`; on failure `Wait`.
    Resolve,
    /// To wait for a turn to list. → `OpenStream`, or `List` if lists are not to be streamed.
    Queue,
    /// To ask for a watch that begins with what exists. → `Stream`; if the version cannot be served, once more
    /// without; if the server cannot be reached or is too busy, `Wait` and then `Resolve`; on another failure
    /// `List`.
    OpenStream(Turn),
    /// To take in the initial events. → `Follow` the same stream when they are through and in the store; if it
    /// ends before, `OpenStream`, but not for ever; if it ends with an error, as for `OpenStream`; if the
    /// server does not say that they are through, `List`.
    Stream(StreamedList),
    /// To list and replace the store's contents. → `Watch`; on failure `Wait` and then `Resolve`.
    List(Turn),
    /// To open a watch at the last version. → `Follow`; if the server cannot be reached or is too busy,
    /// `Wait` and then `Watch`; on another failure `Wait` and then `Resolve`.
    Watch,
    /// To apply the open watch's next event. → `Follow`; if the stream ends, `Watch`; if it ends with an
    /// error, as for `Watch`.
    Follow(OpenWatch),
    /// To leave the server alone until then.
    Wait { until: Instant, then: After },
}

impl<S: ReflectorStore> Reflector<S> {
    /// A reflector that has done nothing yet.
    pub fn new(source: Arc<dyn ListerWatcher>, store: Arc<S>, options: ReflectorOptions) -> Self {
        Self {
            source,
            store,
            backoff: Backoff::new(options.backoff, options.seed),
            internal_retry: InternalRetry::new(options.max_internal_error_retry),
            health: Health::new(options.name.clone()),
            metrics: Arc::default(),
            options,
            version: String::new(),
            version_unavailable: false,
            paginated: false,
            expired_version: None,
            very_short_watches: 0,
            obeyed: 0,
            reason: ListReason::Start,
            lists_until: None,
            fell_back: None,
            cut_streams: 0,
        }
    }

    /// What the reflector tells of itself, from now on.
    pub fn status(&self) -> channel::Receiver<ReflectorStatus> {
        self.health.subscribe()
    }

    /// What the reflector counts; stays readable when it has ended.
    pub fn metrics(&self) -> Arc<ReflectorMetrics> {
        Arc::clone(&self.metrics)
    }

    /// Lists and watches until cancelled (rule R-LOOP-1). What was being done is then dropped (rule R-W-9).
    pub async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            never = self.drive() => match never {},
        }
        self.health.phase(Phase::Stopped);
    }

    async fn drive(&mut self) -> Infallible {
        let mut state = State::Resolve;
        loop {
            state = self.step(state).await;
        }
    }

    async fn step(&mut self, state: State) -> State {
        match state {
            State::Resolve => self.resolve().await,
            State::Queue => self.queue().await,
            State::OpenStream(turn) => self.open_stream(turn).await,
            State::Stream(list) => self.stream(list).await,
            State::List(turn) => self.list(turn).await,
            State::Watch => self.open_watch().await,
            State::Follow(watch) => self.follow(watch).await,
            State::Wait { until, then } => {
                self.health.phase(Phase::Waiting { until });
                sleep_until(until).await;
                match then {
                    After::Cycle => State::Resolve,
                    After::Watch => State::Watch,
                }
            }
        }
    }

    async fn resolve(&mut self) -> State {
        self.health.phase(Phase::Resolving);
        match self.source.resolve().await {
            Ok(()) => State::Queue,
            Err(error) => self.cycle_failed(&error),
        }
    }

    /// R-LAW-1, R-LAW-2: streams lists if everybody can, and tries so anew in each cycle.
    async fn queue(&mut self) -> State {
        self.health.phase(Phase::Listing);
        self.metrics.list_begun(self.reason);
        let (least, most) = PATIENCE_FOR_A_TURN;
        let patience = Duration::from_millis(self.backoff.draw(least, most));
        let turn = timeout(patience, self.source.turn()).await.unwrap_or_default();
        self.cut_streams = 0;
        if self.streams_lists() { State::OpenStream(turn) } else { State::List(turn) }
    }

    /// R-LIST-9, R-WL-4: a list is there. The store first, then the version.
    fn listed(&mut self, objects: Vec<Arc<Object>>, version: String) {
        self.store.replace(objects, &version);
        self.health.listed(&version);
        self.metrics.at_version(&version);
        self.version = version;
        self.version_unavailable = false;
        self.obeyed = 0;
    }
}

#[cfg(test)]
mod tests;
