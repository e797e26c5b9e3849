//! Faults on demand: what a test makes this server do that a healthy one would not.
//!
//! Used by tests through `Handle::faults`, and asked by the request handler and the accept loop. Invariant: a
//! server on which nothing was asked for behaves as if this file were not there.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::server::Listening;
use crate::status::ApiError;
use crate::store::Store;

/// What a request is about, for deciding whether it is to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    /// HTTP method.
    pub method: String,
    /// Path as sent.
    pub path: String,
    /// Query as sent, without the question mark.
    pub query: String,
    /// Plural name of the resource, empty for other paths.
    pub resource: String,
    /// Kubernetes verb: get, list, watch, create, update, patch, delete, deletecollection, or empty.
    pub verb: &'static str,
}

impl RequestInfo {
    /// Whether this is the verb on the resource.
    pub fn is(&self, verb: &str, resource: &str) -> bool {
        self.verb == verb && self.resource == resource
    }
}

/// An answer given in the place of the right one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A `Status` document.
    Status(ApiError),
    /// A plain text, as of a proxy or of the max-in-flight limit.
    Text {
        /// HTTP status code.
        code: u16,
        /// Body.
        body: String,
        /// `Retry-After` in seconds.
        retry_after: Option<u32>,
    },
    /// 200 and this as the whole of a stream of events: nothing, half an event, what is no event at all.
    Stream(String),
    /// The connection is closed without an answer.
    Disconnect,
}

/// What a watch that is ended on request says last, in the place of what is queued for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LastWords {
    /// It just ends.
    #[default]
    Nothing,
    /// A bookmark of what has been sent, to those who may get one.
    Bookmark,
    /// An ERROR event.
    Error(ApiError),
    /// This, as it is.
    Text(String),
}

impl Failure {
    /// The `Status` that goes with a code, such as 500 or 503.
    pub fn status(code: u16, message: &str) -> Self {
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            410 => "Expired",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "",
        };
        let (reason, message) = (reason.to_owned(), message.to_owned());
        Failure::Status(ApiError::Other { code, reason, message, retry_after: None })
    }

    /// 429 with a `Retry-After`, as a `Status`.
    pub fn too_many_requests(retry_after: u32) -> Self {
        Failure::Status(ApiError::Other {
            code: 429,
            reason: "TooManyRequests".into(),
            message: "storage is (re)initializing".into(),
            retry_after: Some(retry_after),
        })
    }
}

type Predicate = Box<dyn Fn(&RequestInfo) -> bool + Send + Sync>;

struct Rule {
    left: usize,
    matches: Predicate,
    failure: Failure,
}

/// The rules in force.
#[derive(Default)]
pub(crate) struct Rules {
    failures: Mutex<Vec<Rule>>,
    /// Which requests are to wait.
    held: watch::Sender<Option<Predicate>>,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rules")
    }
}

impl Rules {
    /// Waits while requests such as this one are held back.
    pub(crate) async fn admitted(&self, request: &RequestInfo) {
        let free = |held: &Option<Predicate>| !held.as_ref().is_some_and(|matches| matches(request));
        // Ends with an error only if the sender is gone, which is in `self`.
        let _ = self.held.subscribe().wait_for(free).await;
    }

    /// The failure this request is to have, if any; counts it.
    pub(crate) fn failure(&self, request: &RequestInfo) -> Option<Failure> {
        let mut rules = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let at = rules.iter().position(|rule| (rule.matches)(request))?;
        let failure = rules[at].failure.clone();
        rules[at].left -= 1;
        if rules[at].left == 0 {
            rules.remove(at);
        }
        Some(failure)
    }
}

/// Makes the server misbehave. Cloneable; all clones speak of the same server.
#[derive(Debug, Clone)]
pub struct Faults {
    pub(crate) store: Arc<Store>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) listening: Listening,
}

impl Faults {
    /// Ends every watch at once and cleanly, whatever is queued for it.
    pub fn cut_watches(&self) {
        self.end_watches(LastWords::Nothing, false);
    }

    /// Breaks every watch off in the middle of its body, as when the server is killed.
    pub fn break_watches(&self) {
        self.end_watches(LastWords::Nothing, true);
    }

    /// Ends every watch at once, whatever is queued for it, after some last words: cleanly, or `broken` off in
    /// the middle of its body.
    pub fn end_watches(&self, says: LastWords, broken: bool) {
        self.store.lock().cut_watches(says, broken);
    }

    /// Goes back to what there was at a revision, versions included, as a server does whose etcd was restored
    /// from a backup: it remembers nothing from before, and counts on from there. False if that revision is not
    /// remembered; then nothing has happened. Watches that are open are not told and must be ended.
    pub fn restore(&self, revision: u64) -> bool {
        self.store.lock().restore(revision)
    }

    /// Forgets all history up to now: older watches and pages are expired from here on.
    pub fn compact(&self) {
        self.store.lock().compact();
    }

    /// Changes are made, but no watcher is told, now or later. Until turned off again.
    pub fn lose_events(&self, lose: bool) {
        self.store.lock().lose_events = lose;
    }

    /// Answers the next `times` requests that match with a failure.
    pub fn fail_next(
        &self,
        times: usize,
        matches: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static,
        failure: Failure,
    ) {
        if times == 0 {
            return;
        }
        let rule = Rule { left: times, matches: Box::new(matches), failure };
        self.rules.failures.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    /// Leaves requests that match without an answer, until they are released.
    pub fn hold(&self, matches: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static) {
        self.rules.held.send_replace(Some(Box::new(matches)));
    }

    /// Answers the requests that are held, and holds no more.
    pub fn release(&self) {
        self.rules.held.send_replace(None);
    }

    /// Takes all rules of `fail_next` back, releases what is held, and loses no more events.
    pub fn clear(&self) {
        self.release();
        self.rules.failures.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.lose_events(false);
    }

    /// Stops listening: new connections are refused once this returns, open ones go on.
    pub async fn refuse_connections(&self) {
        self.listening.set(false).await;
    }

    /// Closes every open connection at once, without finishing what is being answered.
    pub fn kill_connections(&self) {
        self.listening.kill_connections();
    }

    /// Listens again on the same port.
    ///
    /// Answers whether the port could be had.
    pub async fn accept_connections(&self) -> bool {
        self.listening.set(true).await
    }

    /// Waits until so many watches are open, or more.
    pub async fn watched(&self, watches: usize) {
        self.store.watched(watches).await;
    }

    /// How many watches are open.
    pub fn open_watches(&self) -> usize {
        self.store.lock().watcher_count()
    }
}
