//! A scripted lister-watcher, a recording store, and how a script is played.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::Notify;

use super::super::*;
use crate::list_watch::{ListPage, ListParams, Undecodable, WatchEvent, WatchParams, WatchStream};
use crate::object::{Ingest, ObjectKey};
use crate::status::{ApiError, Status};

// ---- the scripted server -------------------------------------------------------------------------------

/// What happens on a scripted watch. After the last step the stream ends.
pub(super) enum Step {
    Event(WatchEvent),
    Broken(ApiError),
    After(Duration),
    /// The test may end here.
    Exhausted,
    Hang,
}

pub(super) type WatchReply = Result<Vec<Step>, ApiError>;

/// Answers in order; a kind of request for which nothing is scripted any more hangs and ends the test.
#[derive(Default)]
pub(super) struct Script {
    pub(super) resolves: VecDeque<Result<(), ApiError>>,
    pub(super) lists: VecDeque<Result<ListPage, ApiError>>,
    pub(super) watches: VecDeque<WatchReply>,
    /// Lists are to be streamed.
    pub(super) streams: bool,
}

pub(super) struct Server {
    pub(super) script: Mutex<Script>,
    streams: bool,
    pub(super) requests: Mutex<Vec<(Instant, String)>>,
    pub(super) timeouts: Mutex<Vec<u64>>,
    pub(super) forgotten: AtomicU32,
    pub(super) exhausted: Arc<Notify>,
}

impl Server {
    fn record(&self, request: String) {
        self.requests.lock().expect("no panic").push((Instant::now(), request));
    }

    fn answer<T: Send + 'static>(&self, next: Option<T>) -> BoxFuture<'_, T> {
        if let Some(answer) = next {
            return futures::future::ready(answer).boxed();
        }
        self.exhausted.notify_one();
        futures::future::pending().boxed()
    }
}

impl ListerWatcher for Server {
    fn resolve(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        let next = self.script.lock().expect("no panic").resolves.pop_front();
        next.map_or_else(
            || futures::future::ready(Ok(())).boxed(),
            |answer| {
                self.record("RESOLVE".into());
                futures::future::ready(answer).boxed()
            },
        )
    }

    fn forget(&self) {
        self.forgotten.fetch_add(1, Ordering::Relaxed);
    }

    fn supports_watch_list(&self) -> bool {
        self.streams
    }

    fn list(&self, params: ListParams) -> BoxFuture<'_, Result<ListPage, ApiError>> {
        let ListParams { resource_version, limit, continue_token } = params;
        self.record(format!("LIST {resource_version:?} {limit} {continue_token}").trim_end().to_owned());
        let next = self.script.lock().expect("no panic").lists.pop_front();
        self.answer(next)
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        let what = if params.initial_events { "STREAM" } else { "WATCH" };
        self.record(format!("{what} {:?}", params.resource_version));
        self.timeouts.lock().expect("no panic").push(params.timeout.as_secs());
        let next = self.script.lock().expect("no panic").watches.pop_front();
        let exhausted = Arc::clone(&self.exhausted);
        async move { self.answer(next).await.map(|steps| stream_of(steps, exhausted)) }.boxed()
    }
}

fn stream_of(steps: Vec<Step>, exhausted: Arc<Notify>) -> WatchStream {
    futures::stream::unfold((steps.into_iter(), exhausted), |(mut steps, exhausted)| async {
        loop {
            match steps.next()? {
                Step::Event(event) => return Some((Ok(event), (steps, exhausted))),
                Step::Broken(error) => return Some((Err(error), (steps, exhausted))),
                Step::After(time) => tokio::time::sleep(time).await,
                Step::Exhausted => exhausted.notify_one(),
                Step::Hang => futures::future::pending().await,
            }
        }
    })
    .boxed()
}

// ---- the recording store -------------------------------------------------------------------------------

#[derive(Default)]
pub(super) struct Recorder {
    pub(super) calls: Mutex<Vec<String>>,
    /// `add` never returns: the queue is at its bound.
    pub(super) full: bool,
}

impl Recorder {
    fn record(&self, call: &str, object: &Object) {
        self.calls.lock().expect("no panic").push(format!(
            "{call} {}@{}",
            object.key(),
            object.resource_version()
        ));
    }
}

impl ReflectorStore for Recorder {
    async fn add(&self, object: Arc<Object>) {
        self.record("add", &object);
        if self.full {
            std::future::pending().await
        }
    }

    async fn update(&self, object: Arc<Object>) {
        self.record("update", &object);
    }

    async fn delete(&self, object: Arc<Object>) {
        self.record("delete", &object);
    }

    fn replace(&self, objects: Vec<Arc<Object>>, resource_version: &str) {
        let names: Vec<String> =
            objects.iter().map(|object| format!("{}@{}", object.key(), object.resource_version())).collect();
        self.calls
            .lock()
            .expect("no panic")
            .push(format!("replace@{resource_version} [{}]", names.join(" ")));
    }

    fn bookmark(&self, resource_version: &str) {
        self.calls.lock().expect("no panic").push(format!("bookmark@{resource_version}"));
    }
}

// ---- playing a script ----------------------------------------------------------------------------------

pub(super) struct Played {
    pub(super) requests: Vec<(Duration, String)>,
    pub(super) timeouts: Vec<u64>,
    pub(super) forgotten: u32,
    pub(super) calls: Vec<String>,
    pub(super) status: ReflectorStatus,
    pub(super) metrics: Arc<ReflectorMetrics>,
    /// Every problem that was published, in order; None where it healed.
    pub(super) problems: Vec<Option<ProblemKind>>,
}

impl Played {
    pub(super) fn requests(&self) -> Vec<&str> {
        self.requests.iter().map(|(_, request)| request.as_str()).collect()
    }

    /// The time between a request and the one before.
    pub(super) fn gap(&self, index: usize) -> Duration {
        self.requests[index].0 - self.requests[index - 1].0
    }
}

pub(super) async fn play(script: Script) -> Played {
    play_with(script, ReflectorOptions::default()).await
}

pub(super) async fn play_with(script: Script, options: ReflectorOptions) -> Played {
    play_for(script, ReflectorOptions { seed: Some(1), ..options }, None).await
}

/// Plays until the script is exhausted, or for a time.
pub(super) async fn play_for(script: Script, options: ReflectorOptions, time: Option<Duration>) -> Played {
    let begin = Instant::now();
    let server = server(script);
    let store = Arc::new(Recorder::default());
    let source: Arc<dyn ListerWatcher> = Arc::clone(&server) as _;
    let reflector = Reflector::new(source, Arc::clone(&store), options);
    let (mut status, metrics) = (reflector.status(), reflector.metrics());
    let cancel = CancellationToken::new();
    let running = tokio::spawn(reflector.run(cancel.clone()));
    let problems = tokio::spawn(async move {
        let mut problems = Vec::new();
        loop {
            let problem = status.borrow_and_update().problem.as_ref().map(|problem| problem.kind);
            if problems.last().unwrap_or(&None) != &problem {
                problems.push(problem);
            }
            if status.changed().await.is_err() {
                return (problems, status.borrow().clone());
            }
        }
    });
    match time {
        Some(time) => tokio::time::sleep(time).await,
        // Time is paused: the limit is reached at once if nothing else is to happen.
        None => tokio::time::timeout(Duration::from_secs(1_000_000), server.exhausted.notified())
            .await
            .unwrap_or_else(|_| {
                panic!("the script was not played: {:#?}", server.requests.lock().expect("no panic"))
            }),
    }
    // Lets the reflector publish what it came to.
    tokio::task::yield_now().await;
    cancel.cancel();
    running.await.expect("no panic");
    let (problems, status) = problems.await.expect("no panic");
    let requests = server.requests.lock().expect("no panic").clone();
    Played {
        requests: requests.into_iter().map(|(at, request)| (at - begin, request)).collect(),
        timeouts: server.timeouts.lock().expect("no panic").clone(),
        forgotten: server.forgotten.load(Ordering::Relaxed),
        calls: store.calls.lock().expect("no panic").clone(),
        status,
        metrics,
        problems,
    }
}

pub(super) fn server(script: Script) -> Arc<Server> {
    Arc::new(Server {
        streams: script.streams,
        script: Mutex::new(script),
        requests: Mutex::default(),
        timeouts: Mutex::default(),
        forgotten: AtomicU32::new(0),
        exhausted: Arc::default(),
    })
}

pub(super) fn script(lists: Vec<Result<ListPage, ApiError>>, watches: Vec<WatchReply>) -> Script {
    Script { lists: lists.into(), watches: watches.into(), ..Script::default() }
}

/// As [`script`], lists to be streamed.
pub(super) fn streaming(lists: Vec<Result<ListPage, ApiError>>, watches: Vec<WatchReply>) -> Script {
    Script { streams: true, ..script(lists, watches) }
}

pub(super) fn object(name: &str, version: u64) -> Arc<Object> {
    let text = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
    Object::parse(&text, None, Ingest::default()).expect("an object")
}

pub(super) fn list(version: &str, names: &[&str]) -> Result<ListPage, ApiError> {
    page(version, names, "")
}

pub(super) fn page(version: &str, names: &[&str], continue_token: &str) -> Result<ListPage, ApiError> {
    Ok(ListPage {
        items: names.iter().map(|name| object(name, 1)).collect(),
        resource_version: version.into(),
        continue_token: continue_token.into(),
    })
}

pub(super) fn status_of(json: &str) -> Status {
    Status::from_response(500, None, json.as_bytes())
}

pub(super) fn refused(code: u16) -> ApiError {
    ApiError::Status(Status::from_response(code, None, b""))
}

pub(super) fn unreachable() -> ApiError {
    ApiError::Unreachable("connection refused".into())
}

pub(super) fn expired() -> Status {
    status_of(
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old resource version: 5 (120)"}"#,
    )
}

pub(super) fn added(name: &str, version: u64) -> Step {
    Step::Event(WatchEvent::Added(object(name, version)))
}

pub(super) fn modified(name: &str, version: u64) -> Step {
    Step::Event(WatchEvent::Modified(object(name, version)))
}

pub(super) fn deleted(name: &str, version: u64) -> Step {
    Step::Event(WatchEvent::Deleted(object(name, version)))
}

pub(super) fn bookmark(version: &str) -> Step {
    Step::Event(WatchEvent::Bookmark { resource_version: version.into(), initial_events_end: false })
}

/// The end of a streaming list's initial events.
pub(super) fn marker(version: &str) -> Step {
    Step::Event(WatchEvent::Bookmark { resource_version: version.into(), initial_events_end: true })
}

pub(super) fn failing(status: Status) -> Step {
    Step::Event(WatchEvent::Error(status))
}

pub(super) fn undecodable(name: &str, is_deletion: bool) -> Step {
    let key = Some(ObjectKey::new("", name));
    Step::Event(WatchEvent::Undecodable(Undecodable { key, is_deletion, message: "broken".into() }))
}

pub(super) fn second() -> Step {
    Step::After(Duration::from_secs(1))
}

/// A watch that lives long enough and ends.
pub(super) fn quiet() -> WatchReply {
    Ok(vec![second()])
}
