//! The reflector and its client against a scripted API server: bytes in, a store's contents out.

mod support;

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use hark_informer::client::{Client, ClientLimits};
use hark_informer::reflector::{Phase, ProblemKind};
use hark_informer::resource::Selector;
use hark_informer::status::ApiError;
use support::{
    EXPIRED, FORBIDDEN, Reply, Running, Server, bookmark, discovery, error_event, event, list, page,
};

const LIST: &str = "/api/v1/namespaces/n/configmaps?limit=500&resourceVersion=0";

fn relist(version: &str) -> String {
    format!("/api/v1/namespaces/n/configmaps?resourceVersion={version}")
}

fn watch(version: &str) -> String {
    format!("/api/v1/namespaces/n/configmaps?allowWatchBookmarks=true&resourceVersion={version}&watch=true")
}

#[tokio::test]
async fn requests_on_the_wire_are_those_of_the_rules() {
    let server = Server::start().await;
    server.on_list(vec![page("10", &["a"], "C/1="), list("10", &["b"])]);
    let selector =
        Selector::new("v1", "configmaps").with_labels("app in (x)").with_fields("metadata.name!=z");
    let running = Running::start_of(&server, selector, Some(1));
    server.requested(3).await;
    running.store.has(&["a", "b"]).await;
    let common = "fieldSelector=metadata.name%21%3Dz&labelSelector=app%20in%20%28x%29";
    assert_eq!(
        server.requests(),
        [
            format!("/api/v1/configmaps?{common}&limit=1&resourceVersion=0"),
            format!("/api/v1/configmaps?continue=C%2F1%3D&{common}&limit=1"),
            format!("/api/v1/configmaps?allowWatchBookmarks=true&{common}&resourceVersion=10&watch=true"),
        ],
        "R-LIST-1, R-LIST-3, R-LIST-11, R-W-1"
    );
    for head in server.heads() {
        let head = head.to_ascii_lowercase();
        for line in ["accept: application/json\r\n", "accept-encoding: identity\r\n", "user-agent: hark/"] {
            assert!(head.contains(line), "{head}");
        }
        if head.contains("watch=true") {
            let timeout = head.split("timeoutseconds=").nth(1).and_then(|rest| rest.split(['&', ' ']).next());
            let seconds: u64 = timeout.and_then(|text| text.parse().ok()).expect("timeoutSeconds");
            assert!((300..=600).contains(&seconds), "section 1.1: {seconds}");
        }
    }
}

#[tokio::test]
async fn a_watch_is_read_whatever_the_sizes_of_its_chunks() {
    for size in [1, 2, 3, 7, 64, 1000, 100_000] {
        let server = Server::start().await;
        let events = [
            event("ADDED", "a", 11),
            event("MODIFIED", "old", 12),
            event("ADDED", "b", 13),
            event("DELETED", "a", 14),
            bookmark(20),
        ];
        server.on_list(vec![list("10", &["old"])]);
        server.on_watch(vec![Reply::watch_in_pieces(&events, size)]);
        let running = Running::start(&server);
        let view = running.store.wait_for("the bookmark", |view| !view.bookmarks.is_empty()).await;
        assert_eq!(view.names(), ["b", "old"], "chunks of {size}");
        assert_eq!(view.objects.get("old").map(String::as_str), Some("12"));
        assert_eq!(view.bookmarks, ["20"]);
    }
}

#[tokio::test]
async fn a_watch_that_the_server_ends_is_opened_again_from_where_it_was() {
    let server = Server::start().await;
    server.on_list(vec![list("10", &[])]);
    server.on_watch(vec![
        Reply::watch(&[event("ADDED", "a", 11)]),
        Reply::watch(&[bookmark(30)]),
        Reply::watch(&[]).end_after(Duration::from_millis(1100)),
    ]);
    let running = Running::start(&server);
    assert_eq!(
        server.requested(5).await,
        [LIST.into(), watch("10"), watch("11"), watch("30"), watch("30")],
        "R-W-6"
    );
    assert_eq!(running.status().failures, 0);
    assert_eq!(running.store.view().replaced, ["10"]);
}

#[tokio::test]
async fn a_watch_too_old_is_followed_by_a_list_in_either_form_of_410() {
    for reply in [Reply::watch(&[error_event(EXPIRED)]), Reply::json(410, EXPIRED)] {
        let server = Server::start().await;
        server.on_list(vec![list("10", &["a", "b"]), list("20", &["b", "c"])]);
        server.on_watch(vec![reply]);
        let running = Running::start(&server);
        assert_eq!(
            server.requested(4).await,
            [LIST.into(), watch("10"), relist("10"), watch("20")],
            "R-W-7, R-LOOP-2"
        );
        running.store.has(&["b", "c"]).await;
        assert_eq!(running.status().problem, None);
    }
}

#[tokio::test]
async fn a_list_too_old_is_repeated_without_a_version() {
    let server = Server::start().await;
    server.on_list(vec![list("10", &["a"]), Reply::json(410, EXPIRED), list("20", &["b"])]);
    server.on_watch(vec![Reply::json(410, EXPIRED)]);
    let running = Running::start(&server);
    let requests = server.requested(5).await;
    assert_eq!(
        requests,
        [LIST.into(), watch("10"), relist("10"), "/api/v1/namespaces/n/configmaps".into(), watch("20")],
        "R-LIST-5"
    );
    running.store.has(&["b"]).await;
}

#[tokio::test]
async fn a_second_page_too_old_makes_one_full_list() {
    let server = Server::start().await;
    server.on_list(vec![page("10", &["a", "b"], "C1"), Reply::json(410, EXPIRED), list("12", &["a", "c"])]);
    let running = Running::start(&server);
    assert_eq!(
        server.requested(4).await,
        [
            LIST.into(),
            "/api/v1/namespaces/n/configmaps?continue=C1&limit=500".into(),
            "/api/v1/namespaces/n/configmaps?resourceVersion=0".into(),
            watch("12")
        ],
        "R-LIST-4"
    );
    running.store.has(&["a", "c"]).await;
}

#[tokio::test]
async fn too_many_requests_in_plain_text_are_waited_for_as_long_as_asked() {
    let server = Server::start().await;
    let headers = [("Content-Type", "text/plain; charset=utf-8"), ("Retry-After", "1")];
    let busy = || Reply::new(429, &headers, "Too many requests, please try again later.");
    server.on_list(vec![busy(), list("10", &["a"])]);
    server.on_watch(vec![busy(), Reply::watch(&[event("ADDED", "b", 11)]).hold()]);
    let begin = Instant::now();
    let running = Running::start(&server);
    let throttled = running.wait_for("the problem", |status| status.problem.is_some()).await.problem;
    let problem = throttled.expect("a problem");
    assert_eq!(problem.kind, ProblemKind::Throttled);
    assert!(problem.message.contains("Too many requests, please"), "{}", problem.message);
    running.store.has(&["a", "b"]).await;
    assert!(begin.elapsed() >= Duration::from_secs(2), "{:?}", begin.elapsed());
    assert_eq!(server.requests(), [LIST.into(), LIST.into(), watch("10"), watch("10")], "R-W-3");
    running.wait_for("healing", |status| status.problem.is_none()).await;
}

#[tokio::test]
async fn a_gateways_html_is_a_problem_told_in_one_line_and_heals() {
    let server = Server::start().await;
    let html = || {
        let body = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n\u{1b}[2J</html>";
        Reply::new(500, &[("Content-Type", "text/html")], body)
    };
    server.on_list(vec![html(), html(), list("10", &["a"])]);
    server.on_watch(vec![Reply::watch(&[event("ADDED", "b", 11)]).hold()]);
    let running = Running::start(&server);
    let problem = running.wait_for("the problem", |status| status.problem.is_some()).await.problem;
    let problem = problem.expect("a problem");
    assert_eq!(problem.kind, ProblemKind::Server);
    assert!(problem.message.contains("502 Bad Gateway"), "{}", problem.message);
    assert!(!problem.message.contains(['\n', '\r', '\u{1b}']), "{}", problem.message);
    running.wait_for("healing", |status| status.synced && status.problem.is_none()).await;
    running.store.has(&["a", "b"]).await;
}

#[tokio::test]
async fn a_page_for_people_in_the_place_of_an_answer_is_not_taken_for_one() {
    let html = || Reply::new(200, &[("Content-Type", "text/html")], "<html>\n<h1>Sign in</h1>\n</html>");
    let server = Server::start().await;
    server.on_list(vec![html(), list("10", &["a"]), list("20", &["b"])]);
    server.on_watch(vec![html()]);
    let running = Running::start(&server);
    let status = running.wait_for("the problem", |status| status.problem.is_some()).await;
    assert_eq!(status.problem.map(|problem| problem.kind), Some(ProblemKind::Decode));
    let view = running.store.has(&["b"]).await;
    assert_eq!(view.replaced, ["10", "20"], "neither an empty list nor a watch that ended well");
    assert_eq!(server.requests()[..4], [LIST.to_owned(), LIST.into(), watch("10"), relist("10")]);
}

#[tokio::test]
async fn an_object_as_large_as_they_come_is_read_with_wide_characters_across_chunks() {
    let wide = "größer 😀 ".repeat(120_000);
    let large = event("ADDED", "large", 11).replace("größer", &wide);
    assert!(large.len() > 1_500_000, "etcd's limit: {}", large.len());
    let item = large.strip_prefix(r#"{"type":"ADDED","object":"#).and_then(|rest| rest.strip_suffix('}'));
    let body = format!(
        r#"{{"kind":"ConfigMapList","metadata":{{"resourceVersion":"10"}},"items":[{}]}}"#,
        item.expect("an event").replace("\"large\"", "\"listed\"")
    );
    let server = Server::start().await;
    server.on_list(vec![Reply::json(200, &body)]);
    server.on_watch(vec![Reply::watch_in_pieces(&[large, bookmark(12)], 4093)]);
    let running = Running::start(&server);
    let view = running.store.wait_for("the bookmark", |view| !view.bookmarks.is_empty()).await;
    assert_eq!(view.names(), ["large", "listed"]);
    assert_eq!(running.status().undecodable, 0);
}

#[tokio::test]
async fn a_server_that_restarts_is_watched_again_at_the_same_version_without_a_list() {
    let mut server = Server::start().await;
    server.on_list(vec![list("10", &["a"])]);
    server.on_watch(vec![Reply::watch(&[event("ADDED", "b", 11)]).hold()]);
    let running = Running::start(&server);
    running.store.has(&["a", "b"]).await;
    server.stop().await;
    let down = running.wait_for("the problem", |status| status.problem.is_some()).await;
    let problem = down.problem.expect("a problem");
    assert_eq!(problem.kind, ProblemKind::Unreachable);
    assert!(problem.message.starts_with(&server.url()), "{}", problem.message);
    assert!(problem.message.to_lowercase().contains("refused"), "{}", problem.message);
    running.wait_for("some retries", |status| status.failures >= 3 || status.problem.is_none()).await;
    server.on_watch(vec![Reply::watch(&[event("DELETED", "a", 12)]).hold()]);
    server.restart().await;
    let view = running.store.has(&["b"]).await;
    assert_eq!(view.replaced, ["10"], "R-W-3: no relist");
    assert_eq!(server.requests(), [LIST.into(), watch("10"), watch("11")]);
    running.wait_for("healing", |status| status.problem.is_none()).await;
}

#[tokio::test]
async fn a_connection_that_is_cut_within_an_event_loses_nothing() {
    let server = Server::start().await;
    let half = &event("MODIFIED", "a", 12)[..70];
    server.on_list(vec![list("10", &["a"])]);
    server.on_watch(vec![
        Reply::watch(&[event("ADDED", "b", 11)]).cut_within(half),
        Reply::watch(&[event("MODIFIED", "a", 12)]).hold(),
    ]);
    let running = Running::start(&server);
    running.store.wait_for("a@12", |view| view.objects.get("a").is_some_and(|version| version == "12")).await;
    assert_eq!(server.requests(), [LIST.into(), watch("10"), watch("11")], "section 1.10, 7.12 no. 22");
}

#[tokio::test]
async fn a_line_that_is_no_event_makes_a_list() {
    let too_long = format!(r#"{{"type":"ADDED","object":{{"x":"{}"}}}}"#, "y".repeat(9 << 20));
    for bad in ["{\"type\":\"ADDED\",\"object\":{\"a\":}}", "hello", &too_long] {
        let server = Server::start().await;
        server.on_list(vec![list("10", &["a"]), list("20", &["b"])]);
        server.on_watch(vec![Reply::watch(&[bookmark(11), bad.into(), bookmark(99)]).hold()]);
        let running = Running::start(&server);
        assert_eq!(
            server.requested(4).await,
            [LIST.into(), watch("10"), relist("11"), watch("20")],
            "section 1.10, 7.12 no. 23"
        );
        running.store.has(&["b"]).await;
    }
}

#[tokio::test]
async fn a_list_that_is_cut_off_or_holds_a_bad_item_leaves_the_store_as_it_was() {
    let cut = || list("20", &["x"]).cut_at(120);
    let bad = Reply::json(
        200,
        r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"20"},"items":[{"metadata":{"name":"x"}},{"metadata":{"name":"y","uid":{}}}]}"#,
    );
    let half = Reply::json(
        200,
        r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"20"},"items":[{"metadata""#,
    );
    for (reply, kind) in
        [(cut(), ProblemKind::Unreachable), (bad, ProblemKind::Decode), (half, ProblemKind::Decode)]
    {
        let server = Server::start().await;
        server.on_list(vec![list("10", &["a"]), reply, list("30", &["b"])]);
        server.on_watch(vec![Reply::json(410, EXPIRED)]);
        let running = Running::start(&server);
        let status = running.wait_for("the problem", |status| status.problem.is_some()).await;
        assert_eq!(status.problem.map(|problem| problem.kind), Some(kind));
        let view = running.store.has(&["b"]).await;
        assert_eq!(view.replaced, ["10", "30"], "design 4.6");
    }
}

#[tokio::test]
async fn very_short_watches_are_not_opened_again_at_once() {
    let server = Server::start().await;
    server.on_list((0..4).map(|_| list("10", &[])).collect());
    server.on_watch((0..3).map(|_| Reply::watch(&[])).collect());
    let running = Running::start(&server);
    let begin = Instant::now();
    let requests = server.requested(8).await;
    assert_eq!(requests[..4], [LIST.to_owned(), watch("10"), relist("10"), watch("10")], "R-W-6");
    assert!(begin.elapsed() >= Duration::from_millis(20 + 40 + 80), "R-BO-1: {:?}", begin.elapsed());
    let status = running.wait_for("the problem", |status| status.problem.is_some()).await;
    assert_eq!(status.problem.map(|problem| problem.kind), Some(ProblemKind::Server));
}

#[tokio::test]
async fn a_forbidden_list_heals_when_it_is_allowed() {
    let server = Server::start().await;
    server.on_list(vec![Reply::json(403, FORBIDDEN), Reply::json(403, FORBIDDEN), list("10", &["a"])]);
    server.on_watch(vec![Reply::watch(&[event("ADDED", "b", 11)]).hold()]);
    let running = Running::start(&server);
    let status = running.wait_for("the problem", |status| status.problem.is_some()).await;
    let problem = status.problem.expect("a problem");
    assert_eq!(problem.kind, ProblemKind::Forbidden);
    assert!(problem.message.contains("cannot list resource \"configmaps\""), "{}", problem.message);
    assert!(!status.synced && running.store.view().replaced.is_empty());
    running.wait_for("healing", |status| status.synced && status.problem.is_none()).await;
    running.store.has(&["a", "b"]).await;
}

#[tokio::test]
async fn wrong_credentials_are_told_as_such() {
    let server = Server::start().await;
    let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;
    server.on_discovery(vec![Reply::json(401, body)]);
    server.on_list(vec![list("10", &["a"])]);
    let running = Running::start(&server);
    let status = running.wait_for("the problem", |status| status.problem.is_some()).await;
    assert_eq!(status.problem.map(|problem| problem.kind), Some(ProblemKind::Unauthorized));
    running.store.has(&["a"]).await;
}

#[tokio::test]
async fn a_custom_resource_may_come_late_go_and_come_back() {
    let server = Server::start().await;
    let unknown = || Reply::new(404, &[("Content-Type", "text/plain")], "404 page not found\n");
    server.on_discovery(vec![
        unknown(),
        discovery(false),
        discovery(true),
        discovery(false),
        discovery(true),
    ]);
    server.on_list(vec![gadgets("10", "a"), gadgets("30", "c")]);
    server.on_watch(vec![
        Reply::watch(&[gadget("ADDED", "b", 11), gadget("DELETED", "a", 12), gadget("DELETED", "b", 13)]),
        unknown(),
    ]);
    let selector = Selector::new("x.example.com/v1", "Gadget").in_namespace("n");
    let running = Running::start_of(&server, selector, None);
    let status = running.wait_for("the problem", |status| status.problem.is_some()).await;
    let problem = status.problem.expect("a problem");
    assert_eq!(problem.kind, ProblemKind::Absent);
    assert!(problem.message.contains("x.example.com/v1"), "{}", problem.message);
    let view = running.store.has(&["c"]).await;
    assert_eq!(view.replaced, ["10", "30"]);
    let path = "/apis/x.example.com/v1/namespaces/n/gadgets";
    assert_eq!(
        server.requested(5).await,
        [
            format!("{path}?limit=500&resourceVersion=0"),
            format!("{path}?allowWatchBookmarks=true&resourceVersion=10&watch=true"),
            format!("{path}?allowWatchBookmarks=true&resourceVersion=13&watch=true"),
            format!("{path}?resourceVersion=13"),
            format!("{path}?allowWatchBookmarks=true&resourceVersion=30&watch=true"),
        ]
    );
}

fn gadget(kind: &str, name: &str, version: u64) -> String {
    event(kind, name, version).replace(
        r#""kind":"ConfigMap","apiVersion":"v1""#,
        r#""apiVersion":"x.example.com/v1","kind":"Gadget""#,
    )
}

fn gadgets(version: &str, name: &str) -> Reply {
    Reply::json(
        200,
        &format!(
            r#"{{"apiVersion":"x.example.com/v1","items":[{{"apiVersion":"x.example.com/v1","kind":"Gadget","metadata":{{"name":"{name}","namespace":"n"}}}}],"kind":"GadgetList","metadata":{{"continue":"","resourceVersion":"{version}"}}}}"#
        ),
    )
}

#[tokio::test]
async fn a_client_waits_for_a_silent_server_no_longer_than_its_limits() {
    let server = Server::start().await;
    server.on_list(vec![Reply::silence(), list("1", &[]).cut_at(150), list("1", &["a"])]);
    server.on_watch(vec![Reply::watch(&[bookmark(5)]).hold()]);
    let limits = ClientLimits {
        response: Duration::from_millis(200),
        body_idle: Duration::from_millis(200),
        watch_slack: Duration::from_millis(100),
        ..ClientLimits::default()
    };
    let client = Client::from_url(&server.url(), limits).expect("a client");
    let silent = client.get("/api/v1/configmaps").await;
    assert!(matches!(&silent, Err(ApiError::Unreachable(text)) if text.contains("no answer")), "{silent:?}");
    let cut = client.get("/api/v1/configmaps").await;
    assert!(matches!(cut, Err(ApiError::Unreachable(_))), "{cut:?}");
    let stream = client.get_watch("/api/v1/configmaps?watch=true", Duration::from_millis(100)).await;
    let got: Vec<_> = stream.expect("a watch").collect().await;
    assert!(matches!(got.first(), Some(Ok(_))));
    assert!(
        matches!(got.last(), Some(Err(ApiError::Unreachable(text))) if text.contains("silent for 200ms")),
        "section 1.10, #65012: a half-open connection: {got:?}"
    );
}

#[tokio::test]
async fn discovery_tells_what_is_absent_from_what_cannot_be_asked() {
    let mut server = Server::start().await;
    server.on_discovery(vec![
        discovery(true),
        discovery(false),
        Reply::new(404, &[], "404 page not found"),
        Reply::new(503, &[], "service unavailable"),
        Reply::json(200, "<html>"),
    ]);
    let client = server.client();
    let gadgets = client.resolve("v1", "gadgets").await.expect("gadgets");
    assert_eq!(gadgets.kind, "Gadget");
    assert!(matches!(client.resolve("v1", "Gadget").await, Err(ApiError::Absent(_))));
    assert!(matches!(client.resolve("y.io/v1", "Gadget").await, Err(ApiError::Absent(_))));
    assert!(matches!(client.resolve("v1", "Gadget").await, Err(ApiError::Status(_))));
    assert!(matches!(client.resolve("v1", "Gadget").await, Err(ApiError::Decode(_))));
    server.stop().await;
    assert!(matches!(client.resolve("v1", "Gadget").await, Err(ApiError::Unreachable(_))));
}

#[tokio::test]
async fn cancelling_closes_the_watch() {
    let server = Server::start().await;
    server.on_list(vec![list("10", &["a"])]);
    server.on_watch(vec![Reply::watch(&[bookmark(11)]).hold()]);
    let running = Running::start(&server);
    running.wait_for("the watch", |status| status.phase == Phase::Watching).await;
    running.stop();
    running.wait_for("the end", |status| status.phase == Phase::Stopped).await;
}
