//! Streaming lists against a scripted API server: bytes in, a store's contents out.

mod support;

use hark_informer::reflector::{FallBack, ListOutcome, ListWay};
use support::{Reply, Running, Server, bookmark, error_event, event, list, marker};

const STREAM: &str = "/api/v1/namespaces/n/configmaps?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true";
const LIST: &str = "/api/v1/namespaces/n/configmaps?limit=500&resourceVersion=0";

fn watch(version: &str) -> String {
    format!("/api/v1/namespaces/n/configmaps?allowWatchBookmarks=true&resourceVersion={version}&watch=true")
}

fn stream(version: &str) -> String {
    STREAM.replace("&resourceVersionMatch", &format!("&resourceVersion={version}&resourceVersionMatch"))
}

#[tokio::test]
async fn one_request_brings_what_exists_and_what_changes() {
    for size in [1, 7, 100, 100_000] {
        let server = Server::start().await;
        let events = [
            event("ADDED", "a", 9),
            event("ADDED", "b", 3),
            marker(10, "true"),
            event("MODIFIED", "b", 11),
            event("DELETED", "a", 12),
            bookmark(20),
        ];
        server.on_watch(vec![Reply::watch_in_pieces(&events, size)]);
        let running = Running::start_streaming(&server);
        let view = running.store.wait_for("the bookmark", |view| !view.bookmarks.is_empty()).await;
        assert_eq!(view.names(), ["b"], "chunks of {size}");
        assert_eq!((view.replaced, view.bookmarks), (vec!["10".to_owned()], vec!["20".to_owned()]));
        assert_eq!(server.requests(), [STREAM], "R-WL-1, TestWatchListSemanticsSimple");
        let timeout = server.heads().last().map(|head| head.contains("timeoutSeconds="));
        assert_eq!(timeout, Some(true), "R-WL-1");
        assert_eq!(running.metrics.resource_version(), 20);
    }
}

#[tokio::test]
async fn only_the_annotations_exact_value_ends_the_initial_events() {
    let server = Server::start().await;
    let events = [
        event("ADDED", "a", 9),
        marker(10, "false"),
        marker(11, ""),
        bookmark(12),
        event("ADDED", "b", 13),
        marker(14, "true"),
    ];
    server.on_watch(vec![Reply::watch(&events).hold()]);
    let running = Running::start_streaming(&server);
    let view = running.store.has(&["a", "b"]).await;
    assert_eq!(view.replaced, ["14"], "R-WL-3; TestWatchList 11; section 7.12 no. 20");
}

#[tokio::test]
async fn a_stream_cut_within_an_object_is_begun_anew_and_shows_nothing_of_itself() {
    let server = Server::start().await;
    let half = &event("ADDED", "gone", 2)[..70];
    server.on_watch(vec![
        Reply::watch(&[event("ADDED", "gone", 1)]).cut_within(half),
        Reply::watch(&[event("ADDED", "a", 5), marker(6, "true")]).hold(),
    ]);
    let running = Running::start_streaming(&server);
    let view = running.store.has(&["a"]).await;
    assert_eq!(view.replaced, ["6"]);
    assert_eq!(server.requests(), [STREAM, STREAM], "R-WL-6; section 1.10, 7.12 no. 22");
    assert_eq!(running.metrics.lists(ListWay::Streaming, ListOutcome::Failed), 1);
}

#[tokio::test]
async fn a_server_without_streaming_lists_is_listed() {
    let gate_off = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"ListOptions"},"code":422}"#;
    let old_etcd = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled","reason":"InternalError","code":500}"#;
    for refusal in [Reply::json(422, gate_off), Reply::watch(&[error_event(old_etcd)])] {
        let server = Server::start().await;
        server.on_list(vec![list("10", &["a"])]);
        server.on_watch(vec![refusal, Reply::watch(&[event("ADDED", "b", 11)]).hold()]);
        let running = Running::start_streaming(&server);
        running.store.has(&["a", "b"]).await;
        assert_eq!(
            server.requests(),
            [STREAM.to_owned(), LIST.into(), watch("10")],
            "R-LAW-2, TestWatchList 4"
        );
        assert_eq!(running.metrics.fall_backs(FallBack::Unsupported), 1);
        assert_eq!(running.status().problem, None);
    }
}

#[tokio::test]
async fn a_too_large_version_after_a_restored_server_is_given_up_within_the_stream() {
    let too_large = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 100, current: 6","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#;
    let server = Server::start().await;
    let expired = error_event(support::EXPIRED);
    server.on_watch(vec![
        Reply::watch(&[event("ADDED", "a", 99), marker(100, "true"), expired]),
        Reply::watch(&[error_event(too_large)]),
        Reply::watch(&[event("ADDED", "b", 5), marker(6, "true")]).hold(),
    ]);
    let running = Running::start_streaming(&server);
    let view = running.store.has(&["b"]).await;
    assert_eq!(view.replaced, ["100", "6"]);
    assert_eq!(server.requests(), [STREAM.to_owned(), stream("100"), STREAM.into()], "R-WL-5; 7.12 no. 24");
}

#[tokio::test]
async fn a_table_in_a_stream_is_not_taken_for_objects() {
    let server = Server::start().await;
    let table =
        r#"{"type":"ADDED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"rows":[]}}"#;
    server.on_list(vec![list("10", &["a"])]);
    server.on_watch(vec![Reply::watch(&[table.into(), marker(9, "true")])]);
    let running = Running::start_streaming(&server);
    let view = running.store.has(&["a"]).await;
    assert_eq!(view.replaced, ["10"], "R-W-4 no. 4, R-LIST-8, #132926");
    assert_eq!(running.metrics.fall_backs(FallBack::Undecodable), 1);
}

#[tokio::test]
async fn a_page_for_people_in_the_place_of_a_stream_makes_a_list() {
    let server = Server::start().await;
    server.on_list(vec![list("10", &["a"])]);
    server.on_watch(vec![Reply::new(
        200,
        &[("Content-Type", "text/html")],
        "<html>\n<h1>Sign in</h1>\n</html>",
    )]);
    let running = Running::start_streaming(&server);
    let view = running.store.has(&["a"]).await;
    assert_eq!(
        (view.replaced, server.requests()[..2].to_vec()),
        (vec!["10".to_owned()], vec![STREAM.into(), LIST.into()])
    );
    assert_eq!(running.metrics.fall_backs(FallBack::Undecodable), 1, "R-WL-5");
}

#[tokio::test]
async fn objects_as_large_as_they_come_are_streamed() {
    let wide = "größer 😀 ".repeat(120_000);
    let events = ["a", "b", "c"].map(|name| event("ADDED", name, 5).replace("größer", &wide));
    let lines: Vec<String> = events.into_iter().chain([marker(6, "true")]).collect();
    let server = Server::start().await;
    server.on_watch(vec![Reply::watch_in_pieces(&lines, 4093)]);
    let running = Running::start_streaming(&server);
    let view = running.store.has(&["a", "b", "c"]).await;
    assert_eq!(view.replaced, ["6"], "each of {} bytes", lines[0].len());
}
