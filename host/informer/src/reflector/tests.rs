//! The state machine against a scripted lister-watcher and a recording store, in paused time.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Notify;

use super::*;
use crate::list_watch::Undecodable;
use crate::object::{Ingest, Object};
use crate::status::Status;

// ---- the scripted server -------------------------------------------------------------------------------

/// What happens on a scripted watch. After the last step the stream ends.
enum Step {
    Event(WatchEvent),
    Broken(ApiError),
    After(Duration),
    Hang,
}

type WatchReply = Result<Vec<Step>, ApiError>;

/// Answers in order; a kind of request for which nothing is scripted any more hangs and ends the test.
#[derive(Default)]
struct Script {
    resolves: VecDeque<Result<(), ApiError>>,
    lists: VecDeque<Result<ListPage, ApiError>>,
    watches: VecDeque<WatchReply>,
}

struct Server {
    script: Mutex<Script>,
    requests: Mutex<Vec<(Instant, String)>>,
    timeouts: Mutex<Vec<u64>>,
    forgotten: AtomicU32,
    exhausted: Notify,
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

    fn list(&self, params: ListParams) -> BoxFuture<'_, Result<ListPage, ApiError>> {
        let ListParams { resource_version, limit, continue_token } = params;
        self.record(format!("LIST {resource_version:?} {limit} {continue_token}").trim_end().to_owned());
        let next = self.script.lock().expect("no panic").lists.pop_front();
        self.answer(next)
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        self.record(format!("WATCH {:?}", params.resource_version));
        self.timeouts.lock().expect("no panic").push(params.timeout.as_secs());
        let next = self.script.lock().expect("no panic").watches.pop_front();
        async move { self.answer(next).await.map(stream_of) }.boxed()
    }
}

fn stream_of(steps: Vec<Step>) -> WatchStream {
    futures::stream::unfold(steps.into_iter(), |mut steps| async {
        loop {
            match steps.next()? {
                Step::Event(event) => return Some((Ok(event), steps)),
                Step::Broken(error) => return Some((Err(error), steps)),
                Step::After(time) => tokio::time::sleep(time).await,
                Step::Hang => futures::future::pending().await,
            }
        }
    })
    .boxed()
}

// ---- the recording store -------------------------------------------------------------------------------

#[derive(Default)]
struct Recorder {
    calls: Mutex<Vec<String>>,
    resyncs: Mutex<Vec<Instant>>,
    /// `add` never returns: the queue is at its bound.
    full: bool,
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

    fn resync(&self) {
        self.resyncs.lock().expect("no panic").push(Instant::now());
    }

    fn bookmark(&self, resource_version: &str) {
        self.calls.lock().expect("no panic").push(format!("bookmark@{resource_version}"));
    }
}

// ---- playing a script ----------------------------------------------------------------------------------

struct Played {
    requests: Vec<(Duration, String)>,
    timeouts: Vec<u64>,
    forgotten: u32,
    calls: Vec<String>,
    status: ReflectorStatus,
    /// Every problem that was published, in order; None where it healed.
    problems: Vec<Option<ProblemKind>>,
}

impl Played {
    fn requests(&self) -> Vec<&str> {
        self.requests.iter().map(|(_, request)| request.as_str()).collect()
    }

    /// The time between a request and the one before.
    fn gap(&self, index: usize) -> Duration {
        self.requests[index].0 - self.requests[index - 1].0
    }
}

async fn play(script: Script) -> Played {
    play_with(script, ReflectorOptions::default()).await
}

async fn play_with(script: Script, options: ReflectorOptions) -> Played {
    play_for(script, ReflectorOptions { seed: Some(1), ..options }, None).await
}

/// Plays until the script is exhausted, or for a time.
async fn play_for(script: Script, options: ReflectorOptions, time: Option<Duration>) -> Played {
    let begin = Instant::now();
    let server = server(script);
    let store = Arc::new(Recorder::default());
    let source: Arc<dyn ListerWatcher> = Arc::clone(&server) as _;
    let reflector = Reflector::new(source, Arc::clone(&store), options);
    let mut status = reflector.status();
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
        problems,
    }
}

fn server(script: Script) -> Arc<Server> {
    Arc::new(Server {
        script: Mutex::new(script),
        requests: Mutex::default(),
        timeouts: Mutex::default(),
        forgotten: AtomicU32::new(0),
        exhausted: Notify::new(),
    })
}

fn script(lists: Vec<Result<ListPage, ApiError>>, watches: Vec<WatchReply>) -> Script {
    Script { resolves: VecDeque::new(), lists: lists.into(), watches: watches.into() }
}

fn object(name: &str, version: u64) -> Arc<Object> {
    let text = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
    Object::parse(&text, None, Ingest::default()).expect("an object")
}

fn list(version: &str, names: &[&str]) -> Result<ListPage, ApiError> {
    page(version, names, "")
}

fn page(version: &str, names: &[&str], continue_token: &str) -> Result<ListPage, ApiError> {
    Ok(ListPage {
        items: names.iter().map(|name| object(name, 1)).collect(),
        resource_version: version.into(),
        continue_token: continue_token.into(),
    })
}

fn status_of(json: &str) -> Status {
    Status::from_response(500, None, json.as_bytes())
}

fn refused(code: u16) -> ApiError {
    ApiError::Status(Status::from_response(code, None, b""))
}

fn unreachable() -> ApiError {
    ApiError::Unreachable("connection refused".into())
}

fn expired() -> Status {
    status_of(
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old resource version: 5 (120)"}"#,
    )
}

fn added(name: &str, version: u64) -> Step {
    Step::Event(WatchEvent::Added(object(name, version)))
}

fn modified(name: &str, version: u64) -> Step {
    Step::Event(WatchEvent::Modified(object(name, version)))
}

fn deleted(name: &str, version: u64) -> Step {
    Step::Event(WatchEvent::Deleted(object(name, version)))
}

fn bookmark(version: &str) -> Step {
    Step::Event(WatchEvent::Bookmark { resource_version: version.into(), initial_events_end: false })
}

fn failing(status: Status) -> Step {
    Step::Event(WatchEvent::Error(status))
}

fn undecodable(name: &str, is_deletion: bool) -> Step {
    let key = Some(ObjectKey::new("", name));
    Step::Event(WatchEvent::Undecodable(Undecodable { key, is_deletion, message: "broken".into() }))
}

fn second() -> Step {
    Step::After(Duration::from_secs(1))
}

/// A watch that lives long enough and ends.
fn quiet() -> WatchReply {
    Ok(vec![second()])
}

// ---- lists ---------------------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn lists_at_0_in_pages_and_watches_from_the_lists_version() {
    let events = vec![modified("foo", 2), added("bar", 3), added("baz", 4), bookmark("5"), deleted("bar", 6)];
    let played = play(script(vec![list("1", &["foo"])], vec![Ok(events)])).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"WATCH "1""#, r#"WATCH "6""#],
        "R-LIST-1, R-LIST-2, R-W-1; TestReflectorListAndWatch, watch-list off"
    );
    assert_eq!(
        played.calls,
        ["replace@1 [foo@1]", "update foo@2", "add bar@3", "add baz@4", "bookmark@5", "delete bar@6"],
        "R-LIST-9, R-W-4; TestReflectorResourceVersionUpdate"
    );
    assert_eq!(played.status.resource_version, "6");
    assert_eq!((played.status.lists, played.status.relists, played.status.events), (1, 0, 5));
    assert!(played.status.synced && played.problems.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_relist_is_at_the_last_version_and_not_in_pages() {
    let broken = Ok(vec![second(), failing(status_of(""))]);
    let lists = vec![list("10", &["a"]), list("20", &["a", "b"])];
    let played = play(script(lists, vec![broken])).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"LIST "10" 0"#, r#"WATCH "20""#],
        "R-LIST-2; TestReflectorResyncWithResourceVersion, TestReflectorNotPaginatingNotConsistentReads"
    );
    assert_eq!(played.status.relists, 1);
}

#[tokio::test(start_paused = true)]
async fn an_explicit_page_size_is_sent_with_every_list_request() {
    let pages =
        vec![page("10", &["a", "b"], "C1"), page("10", &["c"], "C2"), list("10", &["d"]), list("11", &[])];
    let broken = Ok(vec![second(), failing(status_of(""))]);
    let options = ReflectorOptions { page_size: Some(4), ..ReflectorOptions::default() };
    let played = play_with(script(pages, vec![broken]), options).await;
    assert_eq!(
        played.requests(),
        [
            r#"LIST "0" 4"#,
            r#"LIST "" 4 C1"#,
            r#"LIST "" 4 C2"#,
            r#"WATCH "10""#,
            r#"LIST "10" 4"#,
            r#"WATCH "11""#
        ],
        "R-LIST-2, R-LIST-3; TestReflectorWatchListPageSize"
    );
    assert_eq!(played.calls.first().map(String::as_str), Some("replace@10 [a@1 b@1 c@1 d@1]"));
}

#[tokio::test(start_paused = true)]
async fn relists_stay_in_pages_once_a_list_at_0_came_in_pages() {
    let broken = || Ok(vec![second(), failing(status_of(""))]);
    let lists = vec![page("10", &["a"], "C1"), list("9", &["b"]), list("20", &["a"])];
    let played = play(script(lists, vec![broken()])).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"LIST "" 500 C1"#, r#"WATCH "10""#, r#"LIST "10" 500"#, r#"WATCH "20""#],
        "R-LIST-6; TestReflectorPaginatingNonConsistentReadsIfWatchCacheDisabled"
    );
}

#[tokio::test(start_paused = true)]
async fn a_consistent_list_in_pages_says_nothing_about_the_servers_cache() {
    let broken = || Ok(vec![second(), failing(status_of(""))]);
    let lists = vec![
        Err(ApiError::Status(expired())),
        page("10", &["a"], "C1"),
        list("10", &["b"]),
        list("20", &["a"]),
    ];
    let played = play(script(lists, vec![broken()])).await;
    assert_eq!(
        played.requests(),
        [
            r#"LIST "0" 500"#,
            r#"LIST "" 500"#,
            r#"LIST "" 500 C1"#,
            r#"WATCH "10""#,
            r#"LIST "10" 0"#,
            r#"WATCH "20""#
        ],
        "R-LIST-6; section 7.12 no. 4"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_at_an_expired_version_is_repeated_at_once_without_one() {
    let broken = Ok(vec![second(), failing(status_of(""))]);
    let lists = vec![list("10", &["a"]), Err(ApiError::Status(expired())), list("11", &["a", "b"])];
    let played = play(script(lists, vec![broken])).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"LIST "10" 0"#, r#"LIST "" 0"#, r#"WATCH "11""#],
        "R-LIST-5; TestReflectorExpiredExactResourceVersion"
    );
    assert_eq!(played.gap(3), Duration::ZERO);
    assert_eq!(
        played.problems,
        [Some(ProblemKind::Server)],
        "the broken watch was one, the expired list is none"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_without_a_version_that_fails_is_tried_without_one_again() {
    let lists = vec![
        Err(ApiError::Status(expired())),
        Err(refused(500)),
        Err(refused(500)),
        list("3", &[]),
        list("4", &[]),
    ];
    let broken = Ok(vec![second(), failing(status_of(""))]);
    let played = play(script(lists, vec![broken])).await;
    assert_eq!(
        played.requests(),
        [
            r#"LIST "0" 500"#,
            r#"LIST "" 500"#,
            r#"LIST "" 500"#,
            r#"LIST "" 500"#,
            r#"WATCH "3""#,
            r#"LIST "3" 0"#,
            r#"WATCH "4""#
        ],
        "R-LIST-5, R-LIST-6: unavailable until a list succeeds"
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_too_large_in_any_encoding_is_given_up_at_once() {
    let head = r#""kind":"Status","apiVersion":"v1","status":"Failure","reason":"Timeout","code":504"#;
    let details = [
        r#""details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1}"#,
        r#""details":{"causes":[{"message":"Too large resource version"}]}"#,
        r#""message":"Too large resource version: 40, current: 1","details":{}"#,
    ];
    let mut lists = vec![list("20", &[])];
    for (version, details) in ["30", "40", "50"].into_iter().zip(details) {
        lists.push(Err(ApiError::Status(status_of(&format!("{{{head},{details}}}")))));
        lists.push(list(version, &[]));
    }
    let broken = || Ok(vec![second(), failing(status_of(""))]);
    let played = play(script(lists, vec![broken(), broken(), broken()])).await;
    let versions: Vec<&str> =
        played.requests().into_iter().filter(|request| request.starts_with("LIST")).collect();
    assert_eq!(
        versions,
        [
            r#"LIST "0" 500"#,
            r#"LIST "20" 0"#,
            r#"LIST "" 0"#,
            r#"LIST "30" 0"#,
            r#"LIST "" 0"#,
            r#"LIST "40" 0"#,
            r#"LIST "" 0"#
        ],
        "R-LIST-5; TestReflectorFullListIfTooLarge; section 7.12 no. 24"
    );
}

#[tokio::test(start_paused = true)]
async fn a_continuation_too_old_makes_one_full_list_at_the_first_version() {
    let broken = Ok(vec![second(), failing(status_of(""))]);
    let lists = vec![
        list("10", &["a"]),
        page("10", &["a", "b"], "C1"),
        Err(ApiError::Status(expired())),
        list("11", &["a", "b", "c"]),
    ];
    let options = ReflectorOptions { page_size: Some(4), ..ReflectorOptions::default() };
    let played = play_with(script(lists, vec![broken]), options).await;
    assert_eq!(
        played.requests(),
        [
            r#"LIST "0" 4"#,
            r#"WATCH "10""#,
            r#"LIST "10" 4"#,
            r#"LIST "" 4 C1"#,
            r#"LIST "10" 0"#,
            r#"WATCH "11""#
        ],
        "R-LIST-4; TestReflectorFullListIfExpired"
    );
    assert_eq!(played.calls.last().map(String::as_str), Some("replace@11 [a@1 b@1 c@1]"));
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_for_the_next_page_again_and_not_for_the_whole_list() {
    let busy =
        ApiError::Status(Status::from_response(429, Some(Duration::from_secs(9)), b"Too many requests"));
    let lists = vec![page("10", &["a"], "C1"), Err(busy), Err(unreachable()), list("10", &["b"])];
    let played = play(script(lists, vec![])).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"LIST "" 500 C1"#, r#"LIST "" 500 C1"#, r#"LIST "" 500 C1"#, r#"WATCH "10""#],
        "section 1.10 (D)"
    );
    assert!(played.gap(2) >= Duration::from_secs(9), "Retry-After is obeyed: {:?}", played.gap(2));
    assert_eq!(played.problems, [Some(ProblemKind::Throttled), Some(ProblemKind::Unreachable)]);
    assert_eq!(played.calls, ["replace@10 [a@1 b@1]"]);
}

#[tokio::test(start_paused = true)]
async fn pages_that_do_not_end_are_an_error() {
    let lists = vec![page("10", &["a"], "C1"), page("10", &["b"], "C1"), list("11", &["c"])];
    let played = play(script(lists, vec![])).await;
    assert_eq!(played.calls, ["replace@11 [c@1]"]);
    assert_eq!(played.problems, [Some(ProblemKind::Decode)]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_leaves_the_store_as_it_was() {
    for error in [
        refused(403),
        refused(404),
        refused(401),
        refused(500),
        refused(429),
        unreachable(),
        ApiError::Decode("item 3 (n/a): object has no metadata.name".into()),
        ApiError::Credentials("exec plugin".into()),
    ] {
        let broken = Ok(vec![second(), failing(status_of(""))]);
        let lists = vec![list("10", &["a"]), Err(error.clone()), list("20", &[])];
        let played = play(script(lists, vec![broken])).await;
        assert_eq!(played.calls, ["replace@10 [a@1]", "replace@20 []"], "design 4.6: {error}");
        assert_eq!(played.problems.iter().rev().find_map(|problem| *problem), Some(error.problem_kind()));
        assert_eq!(played.requests()[3], r#"LIST "10" 0"#);
    }
}

// ---- watches -------------------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_opened_again_at_once_at_the_last_event() {
    let watches = vec![Ok(vec![modified("bar", 55), added("baz", 32)]), quiet(), Ok(vec![bookmark("40")])];
    let played = play(script(vec![list("10", &[])], watches)).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"WATCH "32""#, r#"WATCH "32""#, r#"WATCH "40""#],
        "R-W-6, TestReflectorWatchHandler: the last version, not the greatest; section 7.12 no. 2"
    );
    assert_eq!(
        (played.gap(2), played.gap(3), played.gap(4)),
        (Duration::ZERO, Duration::from_secs(1), Duration::ZERO)
    );
    assert_eq!(played.status.failures, 0);
}

#[tokio::test(start_paused = true)]
async fn a_very_short_watch_is_followed_by_a_wait_and_a_list() {
    let played = play(script(vec![list("10", &[]), list("10", &[])], vec![Ok(vec![])])).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"LIST "10" 0"#, r#"WATCH "10""#],
        "R-W-6, R-W-7; TestReflectorHandleWatchResultChanClosedBefore"
    );
    assert!((0.8..1.6).contains(&played.gap(2).as_secs_f64()), "{:?}", played.gap(2));
    assert!(played.problems.is_empty(), "once is nothing to speak of");
}

#[tokio::test(start_paused = true)]
async fn very_short_watches_in_a_row_are_a_problem_and_wait_longer_each_time() {
    let lists = (0..6).map(|_| list("10", &[])).collect();
    let mut watches: Vec<WatchReply> = (0..5).map(|_| Ok(vec![])).collect();
    watches.push(Ok(vec![second(), second()]));
    let played = play(script(lists, watches)).await;
    let waits: Vec<f64> = (1..6).map(|cycle| played.gap(cycle * 2).as_secs_f64()).collect();
    for (wait, nominal) in waits.iter().zip([0.8, 1.6, 3.2, 6.4, 12.8]) {
        assert!((nominal..nominal * 2.0).contains(wait), "R-BO-1: {waits:?}");
    }
    assert_eq!(played.problems, [Some(ProblemKind::Server), None]);
}

#[tokio::test(start_paused = true)]
async fn events_passed_over_do_not_make_a_watch_longer() {
    let watches = vec![Ok(vec![undecodable("a", false)])];
    let played = play(script(vec![list("10", &[]), list("10", &[])], watches)).await;
    assert_eq!(played.requests()[2], r#"LIST "10" 0"#, "R-W-4, section 7.12 no. 5");
    assert_eq!((played.status.undecodable, played.status.events), (1, 0));
    assert_eq!(played.problems, [Some(ProblemKind::Decode), None], "the list put it right");
}

#[tokio::test(start_paused = true)]
async fn an_event_passed_over_moves_neither_version_nor_store_and_shows_until_put_right() {
    let watches = vec![Ok(vec![undecodable("a", false), second()]), Ok(vec![modified("a", 12)])];
    let played = play(script(vec![list("10", &["a"])], watches)).await;
    assert_eq!(played.requests(), [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"WATCH "10""#, r#"WATCH "12""#]);
    assert_eq!(played.calls, ["replace@10 [a@1]", "update a@12"]);
    assert_eq!(played.problems, [Some(ProblemKind::Decode), None]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_cannot_be_read_makes_a_list() {
    let watches = vec![Ok(vec![added("b", 11), undecodable("a", true), Step::Hang])];
    let played = play(script(vec![list("10", &["a"]), list("12", &["b"])], watches)).await;
    assert_eq!(played.requests(), [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"LIST "11" 0"#, r#"WATCH "12""#]);
    assert_eq!(played.calls.last().map(String::as_str), Some("replace@12 [b@1]"));
    assert_eq!(played.status.undecodable, 1);
}

#[tokio::test(start_paused = true)]
async fn versions_of_unordered_initial_events_are_not_recorded() {
    for start in ["", "0"] {
        let watches = vec![
            Ok(vec![added("a", 9), added("b", 3), second()]),
            Ok(vec![added("a", 9), added("b", 3), modified("b", 10), added("c", 11)]),
        ];
        let played = play(script(vec![list(start, &[])], watches)).await;
        let at_start = format!("WATCH {start:?}");
        assert_eq!(
            played.requests(),
            [r#"LIST "0" 500"#, at_start.as_str(), at_start.as_str(), r#"WATCH "11""#],
            "R-W-2; section 7.12 no. 6"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_without_a_version_does_not_erase_the_last_one() {
    let nameless = Object::parse(r#"{"metadata":{"name":"a"}}"#, None, Ingest::default()).expect("an object");
    let watches = vec![Ok(vec![Step::Event(WatchEvent::Modified(nameless))])];
    let played = play(script(vec![list("10", &["a"])], watches)).await;
    assert_eq!(played.requests().last(), Some(&r#"WATCH "10""#), "a deviation from R-W-4, no. 8");
}

#[tokio::test(start_paused = true)]
async fn a_watch_too_old_waits_a_step_and_lists_at_the_last_version() {
    for reply in [Ok(vec![failing(expired())]), Err(ApiError::Status(expired()))] {
        let watches = vec![reply, Ok(vec![modified("a", 21), Step::Hang])];
        let lists = vec![list("10", &["a"]), list("20", &["a", "b"])];
        let played = play_for(
            script(lists, watches),
            ReflectorOptions { seed: Some(1), ..ReflectorOptions::default() },
            Some(Duration::from_secs(5)),
        )
        .await;
        assert_eq!(
            played.requests(),
            [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"LIST "10" 0"#, r#"WATCH "20""#],
            "R-W-7, R-LOOP-2; section 7.12 no. 3"
        );
        assert!((0.8..1.6).contains(&played.gap(2).as_secs_f64()));
        assert!(played.problems.is_empty(), "having been away is no problem");
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_called_too_old_twice_is_given_up() {
    let watches = vec![Ok(vec![failing(expired())]), Ok(vec![failing(expired())])];
    let lists = vec![list("10", &[]), list("10", &[]), list("30", &[])];
    let played = play(script(lists, watches)).await;
    assert_eq!(
        played.requests(),
        [
            r#"LIST "0" 500"#,
            r#"WATCH "10""#,
            r#"LIST "10" 0"#,
            r#"WATCH "10""#,
            r#"LIST "" 500"#,
            r#"WATCH "30""#
        ],
        "#133810, a deviation from R-W-7"
    );
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_watched_again_at_the_same_version_without_a_list() {
    let busy = || Err(refused(429));
    let watches = vec![busy(), busy(), busy(), busy(), Ok(vec![modified("a", 11)])];
    let played = play(script(vec![list("10", &["a"])], watches)).await;
    assert_eq!(played.status.lists, 1, "R-W-3; TestNoRelistOnTooManyRequests");
    assert_eq!(played.status.watches, 1);
    assert_eq!(played.requests().iter().filter(|request| **request == r#"WATCH "10""#).count(), 5);
    for (index, nominal) in [(2, 0.8), (3, 1.6), (4, 3.2), (5, 6.4)] {
        assert!((nominal..nominal * 2.0).contains(&played.gap(index).as_secs_f64()), "R-BO-1");
    }
    assert_eq!(played.problems, [Some(ProblemKind::Throttled), None]);
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_within_a_stream_keep_its_place_too() {
    let busy =
        status_of(r#"{"kind":"Status","apiVersion":"v1","code":429,"details":{"retryAfterSeconds":17}}"#);
    let watches = vec![Err(refused(429)), Ok(vec![modified("a", 11), failing(busy)]), quiet()];
    let played = play(script(vec![list("10", &["a"])], watches)).await;
    assert_eq!(
        played.requests(),
        [r#"LIST "0" 500"#, r#"WATCH "10""#, r#"WATCH "10""#, r#"WATCH "11""#, r#"WATCH "11""#],
        "R-W-7; TestBackoffOnTooManyRequests"
    );
    assert!((17.0..18.0).contains(&played.gap(3).as_secs_f64()), "Retry-After: {:?}", played.gap(3));
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed_within_reason() {
    let asks = |seconds| {
        Err(ApiError::Status(Status::from_response(429, Some(Duration::from_secs(seconds)), b"plain text")))
    };
    let mut lists = vec![asks(7), asks(1_000_000)];
    lists.extend((0..14).map(|_| asks(1)));
    lists.push(asks(0));
    lists.push(list("1", &[]));
    let played = play(script(lists, vec![])).await;
    let gap = |index| played.gap(index).as_secs_f64();
    assert!((7.0..8.0).contains(&gap(1)));
    assert!((120.0..121.0).contains(&gap(2)));
    for index in 3..=10 {
        assert!((1.0..2.0).contains(&gap(index)), "section 1.10: as asked, {}", gap(index));
    }
    for (index, nominal) in [(11, 1.0), (12, 1.6), (13, 3.2), (14, 6.4), (15, 12.8), (16, 25.6), (17, 30.0)] {
        assert!(
            (nominal..nominal * 2.0).contains(&gap(index)),
            "the back-off's own from then on: {}",
            gap(index)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_too_old_after_an_outage_is_followed_by_a_list_soon() {
    let mut watches: Vec<WatchReply> = (0..8).map(|_| Err(unreachable())).collect();
    watches.push(Ok(vec![failing(expired())]));
    let played = play(script(vec![list("10", &[]), list("20", &[])], watches)).await;
    let relist = played.requests().iter().position(|request| *request == r#"LIST "10" 0"#).expect("a relist");
    assert!(played.gap(relist - 1) > Duration::from_secs(20), "the outage brought the back-off far");
    assert!(played.gap(relist) < Duration::from_secs(2), "a deviation from R-BO-1: {:?}", played.gap(relist));
}

#[tokio::test(start_paused = true)]
async fn the_back_off_begins_anew_when_an_absent_resource_has_appeared() {
    let mut script =
        script(vec![list("1", &["a"])], vec![Ok(vec![second(), second()]), Err(unreachable()), quiet()]);
    script.resolves = (0..8).map(|_| Err(ApiError::Absent("gone".into()))).collect();
    let played = play(script).await;
    assert!(played.gap(8) > Duration::from_secs(20));
    let last = played.requests.len() - 2;
    assert!(played.gap(last) < Duration::from_secs(2), "{:?}", played.gap(last));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_watched_again_at_the_same_version_with_back_off() {
    for (failures, least, most) in [(5, 0.031, 0.064), (40, 1.79, 3.7)] {
        let mut watches: Vec<WatchReply> = (0..failures).map(|_| Err(unreachable())).collect();
        watches.push(Ok(vec![modified("a", 11)]));
        let backoff = BackoffConfig {
            initial: Duration::from_millis(1),
            cap: Duration::from_millis(50),
            ..BackoffConfig::default()
        };
        let options = ReflectorOptions { backoff, ..ReflectorOptions::default() };
        let played = play_with(script(vec![list("10", &["a"])], watches), options).await;
        assert_eq!(played.status.lists, 1, "R-W-3: no relist");
        let total = played.requests.last().map(|(at, _)| at.as_secs_f64()).unwrap_or_default();
        assert!((least..most).contains(&total), "TestReflectorListAndWatchInitConnBackoff: {total}");
        assert_eq!(played.problems, [Some(ProblemKind::Unreachable), None]);
    }
}

#[tokio::test(start_paused = true)]
async fn another_error_of_a_watch_makes_a_new_cycle() {
    let store_read = r#"{"kind":"Status","apiVersion":"v1","code":500,"reason":"StoreReadError"}"#;
    for reply in [
        Ok(vec![added("corrupt", 4), failing(status_of(store_read))]),
        Ok(vec![added("corrupt", 4), Step::Broken(ApiError::Decode("no event".into()))]),
        Ok(vec![added("corrupt", 4), failing(Status::from_response(403, None, b""))]),
    ] {
        let lists = vec![list("3", &["a"]), list("5", &["a"])];
        let played = play(script(lists, vec![reply])).await;
        assert_eq!(
            played.requests(),
            [r#"LIST "0" 500"#, r#"WATCH "3""#, r#"LIST "4" 0"#, r#"WATCH "5""#],
            "R-W-7; TestReflectorReplacesStoreOnUnsafeDelete"
        );
        assert_eq!(played.calls, ["replace@3 [a@1]", "add corrupt@4", "replace@5 [a@1]"]);
    }
    for error in [refused(500), refused(403), ApiError::Decode("html".into())] {
        let played = play(script(vec![list("3", &[]), list("3", &[])], vec![Err(error)])).await;
        assert_eq!(played.requests()[2], r#"LIST "3" 0"#, "R-W-3");
    }
}

#[tokio::test(start_paused = true)]
async fn an_internal_error_is_not_retried_without_a_list() {
    let internal = || Ok(vec![second(), failing(Status::from_response(500, None, b"")), Step::Hang]);
    let lists = vec![list("3", &[]), list("3", &[]), list("3", &[])];
    let played = play(script(lists, vec![internal(), internal()])).await;
    assert_eq!(played.status.lists, 3, "R-W-8 with its default limit of 0; TestRetryInternalError");
}

#[tokio::test(start_paused = true)]
async fn the_watch_timeout_is_drawn_anew_between_its_bounds() {
    for (minimum, least, most) in [(0, 300, 600), (1, 300, 600), (1800, 1800, 3600)] {
        let watches = (0..50).map(|_| quiet()).collect();
        let min_watch_timeout = Duration::from_secs(minimum);
        let options = ReflectorOptions { min_watch_timeout, ..ReflectorOptions::default() };
        let played = play_with(script(vec![list("1", &[])], watches), options).await;
        assert!(played.timeouts.iter().all(|timeout| (least..=most).contains(timeout)), "TestWatchTimeout");
        let distinct: std::collections::BTreeSet<u64> = played.timeouts.iter().copied().collect();
        assert!(distinct.len() > 20, "section 1.1: re-drawn for each request");
    }
}

// ---- healing -------------------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_forbidden_resource_is_tried_again_within_30_s_and_heals() {
    let mut lists: Vec<_> = (0..12).map(|_| Err(refused(403))).collect();
    lists.push(list("1", &["a"]));
    let played = play(script(lists, vec![Ok(vec![second(), second()])])).await;
    for index in 1..=12 {
        assert!(played.gap(index) <= MAX_HEALABLE_WAIT, "{:?}", played.gap(index));
    }
    assert_eq!(played.problems, [Some(ProblemKind::Forbidden), None]);
    assert_eq!(played.calls, ["replace@1 [a@1]"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_allowed_does_not_hide_a_watch_that_is_not() {
    let lists = (0..4).map(|_| list("1", &[])).collect();
    let watches = (0..3).map(|_| Err(refused(403))).collect();
    let played = play(script(lists, watches)).await;
    assert_eq!(played.problems, [Some(ProblemKind::Forbidden)], "no healing and failing at every cycle");
}

#[tokio::test(start_paused = true)]
async fn an_absent_resource_is_looked_for_until_it_appears() {
    let absent = || Err(ApiError::Absent("no Widget in x.io/v1".into()));
    let mut script = script(vec![list("1", &["a"])], vec![Ok(vec![second(), second()])]);
    script.resolves = (0..10).map(|_| absent()).collect();
    script.resolves.push_back(Ok(()));
    let played = play(script).await;
    assert_eq!(played.requests().iter().filter(|request| **request == "RESOLVE").count(), 11);
    for index in 1..=10 {
        assert!(played.gap(index) <= MAX_HEALABLE_WAIT, "{:?}", played.gap(index));
    }
    assert_eq!(played.problems, [Some(ProblemKind::Absent), None]);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_goes_is_resolved_again_and_the_store_keeps_what_it_had() {
    let mut script = script(vec![list("1", &["a"]), list("9", &[])], vec![quiet(), Err(refused(404))]);
    script.resolves = [Ok(()), Err(ApiError::Absent("gone".into())), Ok(())].into();
    let played = play(script).await;
    assert_eq!(
        played.requests(),
        [
            "RESOLVE",
            r#"LIST "0" 500"#,
            r#"WATCH "1""#,
            r#"WATCH "1""#,
            "RESOLVE",
            "RESOLVE",
            r#"LIST "1" 0"#,
            r#"WATCH "9""#
        ]
    );
    assert_eq!(played.forgotten, 2);
    assert_eq!(played.calls, ["replace@1 [a@1]", "replace@9 []"]);
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_failure_costs_no_more_requests_than_the_back_off_allows() {
    let lists = (0..1000).map(|_| Err(unreachable())).collect();
    let options = ReflectorOptions { seed: Some(3), ..ReflectorOptions::default() };
    let played = play_for(script(lists, vec![]), options, Some(Duration::from_secs(3600))).await;
    assert!((60..=126).contains(&played.requests.len()), "I9: {}", played.requests.len());
    assert_eq!(played.status.failures, played.requests.len() as u64);
}

// ---- resync and stopping -------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn resyncs_come_at_every_period_after_the_first_list_through_failures_too() {
    let period = Duration::from_secs(10);
    let lists = vec![Err(unreachable()), Err(unreachable()), Err(unreachable()), list("1", &[])];
    let watches = (0..100).map(|_| Err(unreachable())).collect();
    let server = server(script(lists, watches));
    let store = Arc::new(Recorder::default());
    let options =
        ReflectorOptions { resync_period: Some(period), seed: Some(1), ..ReflectorOptions::default() };
    let reflector = Reflector::new(Arc::clone(&server) as _, Arc::clone(&store), options);
    let mut status = reflector.status();
    let cancel = CancellationToken::new();
    let running = tokio::spawn(reflector.run(cancel.clone()));
    status.wait_for(|status| status.synced).await.expect("running");
    let synced = Instant::now();
    assert!(store.resyncs.lock().expect("no panic").is_empty(), "R-LAW-4: none before the first list");
    tokio::time::sleep(Duration::from_secs(35)).await;
    cancel.cancel();
    running.await.expect("no panic");
    let at: Vec<Duration> = store.resyncs.lock().expect("no panic").iter().map(|at| *at - synced).collect();
    assert_eq!(at.len(), 3, "R-RS-1, R-RS-3 (D)");
    for (at, nominal) in at.iter().zip([10, 20, 30]) {
        assert!(at.abs_diff(Duration::from_secs(nominal)) < Duration::from_millis(50), "{at:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_period_there_is_no_resync() {
    for period in [None, Some(Duration::ZERO)] {
        let server = server(script(vec![list("1", &[])], vec![Ok(vec![Step::Hang])]));
        let store = Arc::new(Recorder::default());
        let options = ReflectorOptions { resync_period: period, ..ReflectorOptions::default() };
        let reflector = Reflector::new(server as _, Arc::clone(&store), options);
        let cancel = CancellationToken::new();
        let running = tokio::spawn(reflector.run(cancel.clone()));
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        cancel.cancel();
        running.await.expect("no panic");
        assert!(store.resyncs.lock().expect("no panic").is_empty(), "R-RS-1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reflector_cancelled_before_it_runs_asks_for_nothing() {
    let server = server(script(vec![list("1", &[])], vec![]));
    let reflector =
        Reflector::new(Arc::clone(&server) as _, Arc::new(Recorder::default()), ReflectorOptions::default());
    let status = reflector.status();
    let cancel = CancellationToken::new();
    cancel.cancel();
    reflector.run(cancel).await;
    assert!(server.requests.lock().expect("no panic").is_empty(), "TestReflectorWatchStoppedBefore");
    assert_eq!(status.borrow().phase, Phase::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_dropped_on_cancelling() {
    struct Dropped(Arc<Notify>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    struct Silent(Arc<Notify>);
    impl ListerWatcher for Silent {
        fn list(&self, _: ListParams) -> BoxFuture<'_, Result<ListPage, ApiError>> {
            futures::future::ready(list("1", &[])).boxed()
        }
        fn watch(&self, _: WatchParams) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
            let guard = Dropped(Arc::clone(&self.0));
            let stream = futures::stream::pending().inspect(move |_| {
                let _keep = &guard;
            });
            futures::future::ready(Ok(stream.boxed())).boxed()
        }
    }
    let dropped = Arc::new(Notify::new());
    let source = Arc::new(Silent(Arc::clone(&dropped)));
    let reflector = Reflector::new(source, Arc::new(Recorder::default()), ReflectorOptions::default());
    let mut status = reflector.status();
    let cancel = CancellationToken::new();
    let running = tokio::spawn(reflector.run(cancel.clone()));
    status.wait_for(|status| status.phase == Phase::Watching).await.expect("running");
    cancel.cancel();
    running.await.expect("no panic");
    dropped.notified().await;
    assert_eq!(status.borrow().phase, Phase::Stopped, "TestReflectorWatchStoppedAfter, TestRunUntil, R-W-10");
}

#[tokio::test(start_paused = true)]
async fn a_full_store_holds_the_watch_back_and_can_be_cancelled() {
    let events = vec![added("a", 2), added("b", 3), added("c", 4)];
    let server = server(script(vec![list("1", &[])], vec![Ok(events)]));
    let store = Arc::new(Recorder { full: true, ..Recorder::default() });
    let reflector = Reflector::new(server as _, Arc::clone(&store), ReflectorOptions::default());
    let cancel = CancellationToken::new();
    let running = tokio::spawn(reflector.run(cancel.clone()));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(*store.calls.lock().expect("no panic"), ["replace@1 []", "add a@2"]);
    cancel.cancel();
    running.await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn the_phase_says_what_it_is_waiting_for() {
    let lists = vec![Err(unreachable()), list("1", &[])];
    let server = server(script(lists, vec![Ok(vec![Step::Hang])]));
    let reflector = Reflector::new(server as _, Arc::new(Recorder::default()), ReflectorOptions::default());
    let mut status = reflector.status();
    assert_eq!(status.borrow().phase, Phase::Idle);
    let cancel = CancellationToken::new();
    let running = tokio::spawn(reflector.run(cancel.clone()));
    let waiting = status
        .wait_for(|status| matches!(status.phase, Phase::Waiting { .. }))
        .await
        .expect("running")
        .clone();
    assert!(matches!(waiting.phase, Phase::Waiting { until } if until > Instant::now()));
    assert_eq!(waiting.problem.map(|problem| problem.kind), Some(ProblemKind::Unreachable));
    assert!(!waiting.synced);
    let watching = status.wait_for(|status| status.phase == Phase::Watching).await.expect("running").clone();
    assert!(watching.synced);
    status.wait_for(|status| status.problem.is_none()).await.expect("healed a second later");
    cancel.cancel();
    running.await.expect("no panic");
}
