//! Keeps a store equal to a collection on the API server: list, then watch, for ever.
//!
//! Run by the shared informer, one reflector an informer. Its heart is the state machine `State`, whose
//! steps are client-go's rules R-LOOP, R-LIST, R-W and R-BO. Invariants: only a list that succeeded says what
//! is gone, so a failure leaves the store as it was; the version never goes back to an older one of the
//! server's but when the server cannot serve it; every failure is followed by a wait, except where a rule
//! says "at once".
//!
//! Deviations from client-go, all on the side of fewer relists: any failure to reach the server for a watch
//! is retried at the same version, not only a refused connection (R-W-3); a page after the first that the
//! server is too busy for is asked for again, not the whole list; a version that the watch calls too old
//! twice in a row is given up (#133810); an event without a version does not erase the last one. And some on
//! the side of healing sooner: a watch too old for the first time is followed by a list after the first step,
//! however far an outage had brought the back-off; the back-off begins anew when an absent resource has
//! appeared; the resync timer runs through failures (R-RS-3). The back-off's own is in [`crate::backoff`].

mod health;
mod store;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use self::health::Health;
pub use self::health::{Phase, Problem, ProblemKind, ReflectorStatus};
pub use self::store::ReflectorStore;
use crate::backoff::{Backoff, BackoffConfig};
use crate::list_watch::{ListPage, ListParams, ListerWatcher, WatchEvent, WatchParams, WatchStream};
use crate::object::ObjectKey;
use crate::status::ApiError;

/// Objects a page (rule R-LIST-2).
const PAGE_SIZE: u32 = 500;

/// Shortest `timeoutSeconds` of a watch; the longest is twice that (rules of section 1.1).
const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// A watch that ends sooner than this, without an event, says that something is wrong (rule R-W-6).
const VERY_SHORT_WATCH: Duration = Duration::from_secs(1);

/// Longest `Retry-After` that is obeyed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);

/// How often in a row a `Retry-After` is obeyed as it is; then the back-off's step counts if it is longer
/// (client-go's REST layer, section 1.10).
const MAX_OBEYED: u32 = 10;

/// Longest wait before asking again for a resource that is absent or forbidden: somebody may be putting that
/// right just now.
const MAX_HEALABLE_WAIT: Duration = Duration::from_secs(30);

/// How often one page after the first is asked for, while the server is too busy or cannot be reached.
const PAGE_ATTEMPTS: u32 = 5;

/// What can be set about a reflector. The defaults are client-go's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReflectorOptions {
    /// What it is called in logs.
    pub name: String,
    /// How often the store is told to resync; none: never (rule R-RS-1).
    pub resync_period: Option<Duration>,
    /// How long it waits after failures.
    pub backoff: BackoffConfig,
    /// `limit` of every list request; none: as rule R-LIST-2 says.
    pub page_size: Option<u32>,
    /// Shortest `timeoutSeconds`; heard only if it is more than the usual five minutes.
    pub min_watch_timeout: Duration,
    /// Makes the jitter repeatable.
    pub seed: Option<u64>,
}

/// See the file's head.
pub struct Reflector<S> {
    source: Arc<dyn ListerWatcher>,
    store: Arc<S>,
    options: ReflectorOptions,
    backoff: Backoff,
    health: Health,
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
}

/// Where the reflector is. Each state is left by one step, which does one thing and says what is next.
enum State {
    /// To ask discovery what to list, if that is not known. → `List`; on failure `Wait`.
    Resolve,
    /// To list and replace the store's contents. → `Watch`; on failure `Wait` and then `Resolve`.
    List,
    /// To open a watch at the last version. → `Follow`; if the server cannot be reached or is too busy,
    /// `Wait` and then `Watch`; on another failure `Wait` and then `Resolve`.
    Watch,
    /// To apply the open watch's next event. → `Follow`; if the stream ends, `Watch`; if it ends with an
    /// error, as for `Watch`.
    Follow(OpenWatch),
    /// To leave the server alone until then.
    Wait { until: Instant, then: After },
}

/// What follows a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// A whole new cycle: discovery if need be, list, watch.
    Cycle,
    /// A watch at the last version; no list.
    Watch,
}

struct OpenWatch {
    stream: WatchStream,
    opened: Instant,
    /// Events applied.
    events: u64,
    /// Whether events' versions are recorded: not before the first event that is not ADDED if the watch began
    /// at no version or at "0" (rule R-W-2).
    records_versions: bool,
}

impl<S: ReflectorStore> Reflector<S> {
    /// A reflector that has done nothing yet.
    pub fn new(source: Arc<dyn ListerWatcher>, store: Arc<S>, options: ReflectorOptions) -> Self {
        Self {
            source,
            store,
            backoff: Backoff::new(options.backoff, options.seed),
            health: Health::new(options.name.clone()),
            options,
            version: String::new(),
            version_unavailable: false,
            paginated: false,
            expired_version: None,
            very_short_watches: 0,
            obeyed: 0,
        }
    }

    /// What the reflector tells of itself, from now on.
    pub fn status(&self) -> watch::Receiver<ReflectorStatus> {
        self.health.subscribe()
    }

    /// Lists and watches until cancelled (rule R-LOOP-1). What was being done is then dropped (rule R-W-9).
    pub async fn run(mut self, cancel: CancellationToken) {
        let resyncs = resync_forever(Arc::clone(&self.store), self.status(), self.options.resync_period);
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            never = self.drive() => match never {},
            never = resyncs => match never {},
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
            State::List => self.list().await,
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
            Ok(()) => State::List,
            Err(error) => self.cycle_failed(&error),
        }
    }

    async fn list(&mut self) -> State {
        self.health.phase(Phase::Listing);
        match self.list_at_some_version().await {
            Ok(list) => {
                // R-LIST-9: the store first, then the version.
                self.store.replace(list.items, &list.resource_version);
                self.health.listed(&list.resource_version);
                self.version = list.resource_version;
                self.version_unavailable = false;
                self.obeyed = 0;
                State::Watch
            }
            Err(error) => self.cycle_failed(&error),
        }
    }

    /// R-LIST-1, R-LIST-5: at the last version; if the server cannot serve it, at once without.
    async fn list_at_some_version(&mut self) -> Result<ListPage, ApiError> {
        let version = match self.version.as_str() {
            _ if self.version_unavailable => "",
            "" => "0",
            last => last,
        }
        .to_owned();
        let limit = self.page_limit(&version);
        let list = self.list_pages(&version, limit).await;
        match list {
            Err(error) if error.makes_version_unavailable() => {
                self.version_unavailable = true;
                self.list_pages("", limit).await
            }
            list => list,
        }
    }

    /// R-LIST-2.
    fn page_limit(&self, version: &str) -> u32 {
        let no_limit = !matches!(version, "" | "0") && !self.paginated;
        self.options.page_size.unwrap_or(if no_limit { 0 } else { PAGE_SIZE })
    }

    /// R-LIST-3, R-LIST-4: page by page, the version being the first page's; if the continuation is too old,
    /// once more in one piece.
    async fn list_pages(&mut self, version: &str, limit: u32) -> Result<ListPage, ApiError> {
        let first = ListParams { resource_version: version.to_owned(), limit, ..ListParams::default() };
        let mut list = self.source.list(first.clone()).await?;
        let is_paged = !list.continue_token.is_empty();
        while !list.continue_token.is_empty() {
            let continue_token = std::mem::take(&mut list.continue_token);
            let next = ListParams { limit, continue_token: continue_token.clone(), ..ListParams::default() };
            match self.list_next_page(next).await {
                Ok(page) if page.continue_token == continue_token => {
                    return Err(ApiError::Decode("the list's pages do not end".into()));
                }
                Ok(page) => {
                    list.items.extend(page.items);
                    list.continue_token = page.continue_token;
                }
                Err(error) if error.status().is_some_and(|status| status.is_expired()) => {
                    list = self.source.list(ListParams { limit: 0, ..first.clone() }).await?;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        // R-LIST-6
        self.paginated |= is_paged && version == "0";
        Ok(list)
    }

    /// A page after the first. Asked for again while the server is too busy or cannot be reached, so that a
    /// long list need not begin anew (what client-go's REST layer does, section 1.10).
    async fn list_next_page(&mut self, params: ListParams) -> Result<ListPage, ApiError> {
        for _ in 1..PAGE_ATTEMPTS {
            match self.source.list(params.clone()).await {
                Err(error) if error.may_pass_soon() => {
                    self.health.failed(error.problem_kind(), error.to_string());
                    let until = Instant::now() + self.next_wait(&error);
                    self.health.phase(Phase::Waiting { until });
                    sleep_until(until).await;
                    self.health.phase(Phase::Listing);
                }
                answer => return answer,
            }
        }
        self.source.list(params).await
    }

    /// R-W-1.
    async fn open_watch(&mut self) -> State {
        let min = self.options.min_watch_timeout.max(MIN_WATCH_TIMEOUT).as_secs();
        let timeout = Duration::from_secs(self.backoff.draw(min, min.saturating_mul(2)));
        let params = WatchParams { resource_version: self.version.clone(), timeout };
        match self.source.watch(params).await {
            Ok(stream) => {
                self.health.watching();
                self.obeyed = 0;
                let records_versions = !matches!(self.version.as_str(), "" | "0");
                State::Follow(OpenWatch { stream, opened: Instant::now(), events: 0, records_versions })
            }
            Err(error) => self.watch_failed(&error),
        }
    }

    /// The next event of the watch. A watch that has lived for a second, or brought an event, shows that what
    /// failed before works again.
    async fn follow(&mut self, mut watch: OpenWatch) -> State {
        let proven = watch.opened + VERY_SHORT_WATCH;
        let event = tokio::select! {
            event = watch.stream.next() => event,
            () = sleep_until(proven), if self.health.is_failing() => {
                self.healed();
                return State::Follow(watch);
            }
        };
        match event {
            Some(Ok(WatchEvent::Error(status))) => self.watch_failed(&ApiError::Status(status)),
            Some(Ok(event)) => self.apply(watch, event).await,
            Some(Err(error)) => self.cycle_failed(&error),
            None => self.watch_ended(&watch),
        }
    }

    /// R-W-4, R-W-5: as the server says, without looking at what was before.
    async fn apply(&mut self, mut watch: OpenWatch, event: WatchEvent) -> State {
        watch.records_versions |= !matches!(event, WatchEvent::Added(_));
        match event {
            WatchEvent::Added(object) => {
                self.store.add(Arc::clone(&object)).await;
                self.applied(&mut watch, Some(object.key()), object.resource_version());
            }
            WatchEvent::Modified(object) => {
                self.store.update(Arc::clone(&object)).await;
                self.applied(&mut watch, Some(object.key()), object.resource_version());
            }
            WatchEvent::Deleted(object) => {
                self.store.delete(Arc::clone(&object)).await;
                self.applied(&mut watch, Some(object.key()), object.resource_version());
            }
            WatchEvent::Bookmark { resource_version, .. } => {
                self.store.bookmark(&resource_version);
                self.applied(&mut watch, None, &resource_version);
            }
            WatchEvent::Undecodable(event) => {
                self.health.passed_over(&event);
                if event.is_deletion {
                    // Only a list can tell now what is gone.
                    return self.wait(None, After::Cycle);
                }
            }
            WatchEvent::Error(status) => return self.watch_failed(&ApiError::Status(status)),
        }
        State::Follow(watch)
    }

    /// R-W-4, no. 8.
    fn applied(&mut self, watch: &mut OpenWatch, key: Option<&ObjectKey>, version: &str) {
        watch.events += 1;
        if watch.records_versions && !version.is_empty() {
            version.clone_into(&mut self.version);
            self.expired_version = None;
        }
        self.health.applied(key, &self.version);
        self.healed();
    }

    fn healed(&mut self) {
        if self.health.healed() == Some(ProblemKind::Absent) {
            self.backoff.reset();
        }
    }

    /// R-W-6: the server ended the watch, or the connection did.
    fn watch_ended(&mut self, watch: &OpenWatch) -> State {
        if watch.events > 0 || watch.opened.elapsed() >= VERY_SHORT_WATCH {
            self.very_short_watches = 0;
            return State::Watch;
        }
        self.very_short_watches += 1;
        if self.very_short_watches > 1 {
            let message = "the server ends watches at once, without an event".to_owned();
            self.health.failed(ProblemKind::Server, message);
        }
        self.wait(None, After::Cycle)
    }

    /// R-W-3, R-W-7: a watch was refused, or ended with an error.
    fn watch_failed(&mut self, error: &ApiError) -> State {
        let is_expired = error.status().is_some_and(|status| status.is_expired());
        if is_expired {
            // Not a problem, but what comes of having been away; the list that follows is at the same version
            // unless that was tried before.
            tracing::info!(informer = %self.options.name, "watch: {error}; listing again");
            let wait = match self.expired_version.replace(self.version.clone()) {
                None => self.backoff.first_step(),
                Some(before) => {
                    self.version_unavailable |= before == self.version;
                    self.backoff.step()
                }
            };
            return State::Wait { until: Instant::now() + wait, then: After::Cycle };
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
        self.cycle_failed(error)
    }

    /// R-LOOP-1: wait, and begin a new cycle. A resource that is not there is looked up again then.
    fn cycle_failed(&mut self, error: &ApiError) -> State {
        let kind = error.problem_kind();
        if kind == ProblemKind::Absent {
            self.source.forget();
        }
        self.health.failed(kind, error.to_string());
        self.wait(Some(error), After::Cycle)
    }

    fn wait(&mut self, error: Option<&ApiError>, then: After) -> State {
        let wait = match error {
            Some(error) => self.next_wait(error),
            None => self.backoff.step(),
        };
        State::Wait { until: Instant::now() + wait, then }
    }

    /// R-BO-1: one sequence for everything, but what the server asks for goes before it.
    fn next_wait(&mut self, error: &ApiError) -> Duration {
        if !error.problem_kind().holds_others_back() {
            return self.backoff.step().min(MAX_HEALABLE_WAIT);
        }
        let Some(asked) = error.status().and_then(|status| status.retry_after) else {
            return self.backoff.step();
        };
        let asked = asked.min(MAX_RETRY_AFTER);
        self.obeyed += 1;
        let step = if self.obeyed > MAX_OBEYED { self.backoff.step() } else { Duration::ZERO };
        step.max(self.backoff.spread(asked))
    }
}

impl ApiError {
    /// Whether the same request may well succeed in a moment.
    fn may_pass_soon(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Status(status) => {
                let is_busy =
                    status.is_too_many_requests() || (status.code >= 500 && status.retry_after.is_some());
                is_busy && !self.makes_version_unavailable()
            }
            Self::Credentials(_) | Self::Decode(_) | Self::Absent(_) => false,
        }
    }
}

/// R-RS-1, R-RS-4: after the first list, at every period from the end of the resync before. Unlike client-go's
/// timer (R-RS-3) it is not set back by a relist, so that frequent failures do not put resyncs off for ever.
async fn resync_forever<S: ReflectorStore>(
    store: Arc<S>,
    mut status: watch::Receiver<ReflectorStatus>,
    period: Option<Duration>,
) -> Infallible {
    if let Some(period) = period.filter(|period| !period.is_zero())
        && status.wait_for(|status| status.synced).await.is_ok()
    {
        loop {
            tokio::time::sleep(period).await;
            store.resync();
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests;
