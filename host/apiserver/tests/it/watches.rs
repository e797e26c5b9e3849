//! Watches: where they begin, what they tell, how they end.

use std::time::{Duration, Instant};

use hark_apiserver::Config;
use serde_json::json;

use crate::client::{Next, start, start_with};

const WATCH: &str = "/api/v1/namespaces/t/configmaps?watch=true";
const BOOKMARKS: &str = "&allowWatchBookmarks=true";
const STREAMING: &str = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

#[tokio::test]
async fn a_life_is_told_from_a_version_on() {
    let t = start().await;
    let begin = t.server.revision();
    t.write("ev", json!({}), json!({"n": "1"}));
    t.write("ev", json!({}), json!({"n": "2"}));
    let mut watch = t.watch(&format!("{WATCH}&resourceVersion={begin}")).await;
    assert_eq!(watch.brief().await, format!("ADDED ev {}", begin + 1));
    assert_eq!(watch.brief().await, format!("MODIFIED ev {}", begin + 2));
    t.write("ev", json!({}), json!({"n": "2"}));
    t.delete_config_map("ev");
    let Next::Event(kind, object) = watch.next().await else { panic!("an event") };
    assert_eq!((kind.as_str(), &object["data"]["n"]), ("DELETED", &json!("2")), "the last state");
    assert_eq!(
        object["metadata"]["resourceVersion"],
        (begin + 3).to_string(),
        "under the version of the deletion"
    );
    assert_eq!((object["kind"].as_str(), object["apiVersion"].as_str()), (Some("ConfigMap"), Some("v1")));
    t.server.shutdown().await;
}

#[tokio::test]
async fn leaving_a_selector_is_a_deletion_of_the_old_state() {
    let t = start().await;
    let mut watch =
        t.watch(&format!("{WATCH}&labelSelector=app%3Dsel&resourceVersion={}", t.server.revision())).await;
    t.write("sel", json!({"app": "sel"}), json!({"n": "1"}));
    t.write("sel", json!({"app": "sel"}), json!({"n": "2"}));
    t.write("sel", json!({"app": "other"}), json!({"n": "3"}));
    let left = t.server.revision();
    t.write("sel", json!({"app": "other"}), json!({"n": "4"}));
    t.write("sel", json!({"app": "sel"}), json!({"n": "5"}));
    let mut told = Vec::new();
    for _ in 0..4 {
        let Next::Event(kind, object) = watch.next().await else { panic!("an event") };
        told.push((kind, object["data"]["n"].clone(), object["metadata"]["resourceVersion"].clone()));
    }
    let states: Vec<(&str, &str)> =
        told.iter().map(|(k, n, _)| (k.as_str(), n.as_str().expect("text"))).collect();
    assert_eq!(states, [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2"), ("ADDED", "5")]);
    assert_eq!(told[2].2, left.to_string());
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_watch_from_nowhere_begins_with_what_exists() {
    let t = start().await;
    t.config_map("a", json!({}), json!({}));
    t.config_map("b", json!({}), json!({}));
    let last = t.server.revision();
    for query in ["", "&resourceVersion=0"] {
        let mut watch = t.watch(&format!("{WATCH}{query}")).await;
        assert_eq!(watch.briefs(2).await, [format!("ADDED a {}", last - 1), format!("ADDED b {last}")]);
    }
    let mut legacy = t.watch("/api/v1/watch/namespaces/t/configmaps/b").await;
    assert_eq!(legacy.brief().await, format!("ADDED b {last}"));
    let single = t.get("/api/v1/namespaces/t/configmaps/b?watch=true").await;
    assert_eq!(single.json()["kind"], "ConfigMap", "watch on one object is a get");
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_streaming_list_ends_with_its_marker() {
    let t = start().await;
    t.config_map("a", json!({}), json!({}));
    let last = t.server.revision();
    for query in ["".to_owned(), "&resourceVersion=0".into(), format!("&resourceVersion={last}")] {
        let mut watch = t.watch(&format!("{WATCH}{STREAMING}{query}")).await;
        assert_eq!(watch.brief().await, format!("ADDED a {last}"));
        assert_eq!(
            watch.next().await,
            Next::Event(
                "BOOKMARK".into(),
                json!({
                    "kind": "ConfigMap", "apiVersion": "v1",
                    "metadata": {"resourceVersion": last.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}},
                })
            ),
            "{query}"
        );
    }
    let mut pods = t.watch(&format!("/api/v1/namespaces/t/pods?watch=true{STREAMING}")).await;
    let Next::Event(_, pod) = pods.next().await else { panic!("a bookmark") };
    assert_eq!((&pod["spec"], &pod["status"]), (&json!({"containers": null}), &json!({})));
    let mut silent = t
        .watch(&format!("{WATCH}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"))
        .await;
    assert_eq!(
        silent.briefs(2).await,
        [format!("ADDED a {last}"), "End".into()],
        "no marker without bookmarks"
    );
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_streaming_list_of_a_future_version_fails_in_the_stream() {
    let t = start().await;
    let mut watch = t.watch(&format!("{WATCH}{STREAMING}&resourceVersion=999999999")).await;
    let current = t.server.revision();
    let expected =
        format!("ERROR 504 \"Timeout: Too large resource version: 999999999, current: {current}\"");
    assert_eq!(watch.briefs(2).await, [expected, "End".into()]);
    t.server.shutdown().await;
}

#[tokio::test]
async fn bookmarks_come_regularly_and_before_the_end_and_cover_other_changes() {
    let t = start_with(Config { bookmark_interval: Duration::from_millis(200), ..Config::default() }).await;
    let begin = t.server.revision();
    let mut watch = t.watch(&format!("{WATCH}{BOOKMARKS}&timeoutSeconds=30&resourceVersion={begin}")).await;
    t.server
        .create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "t"}}))
        .expect("created");
    assert_eq!(watch.brief().await, format!("BOOKMARK  {}", begin + 1));
    let mut without = t.watch(&format!("{WATCH}&timeoutSeconds=1&resourceVersion={begin}")).await;
    assert_eq!(without.brief().await, "End");
    t.server.shutdown().await;

    let t = start().await;
    let mut last = t
        .watch(&format!("{WATCH}{BOOKMARKS}&timeoutSeconds=2&resourceVersion={}", t.server.revision()))
        .await;
    let began = Instant::now();
    assert_eq!(last.briefs(2).await, [format!("BOOKMARK  {}", t.server.revision()), "End".into()]);
    assert!(began.elapsed() < Duration::from_secs(4));
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_version_too_old_is_an_error_in_the_stream() {
    let t = start_with(Config { history: 3, ..Config::default() }).await;
    let begin = t.server.revision();
    for n in 0..5 {
        t.write("ev", json!({}), json!({"n": n.to_string()}));
    }
    let mut watch = t.watch(&format!("{WATCH}&resourceVersion={begin}")).await;
    assert_eq!(
        watch.next().await,
        Next::Event(
            "ERROR".into(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": format!("too old resource version: {begin} ({})", begin + 2), "reason": "Expired", "code": 410,
            })
        )
    );
    assert_eq!(watch.next().await, Next::End);
    let mut inside = t.watch(&format!("{WATCH}&resourceVersion={}", begin + 2)).await;
    assert_eq!(inside.brief().await, format!("MODIFIED ev {}", begin + 3));
    let mut one = t.watch(&format!("{WATCH}&resourceVersion=1")).await;
    assert!(one.brief().await.starts_with("ERROR 410"));
    let mut events = t.watch("/api/v1/namespaces/t/events?watch=true&resourceVersion=1").await;
    assert_eq!(events.brief().await, "ERROR 410 \"The resourceVersion for the provided watch is too old.\"");
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_plain_watch_of_the_future_waits() {
    let t = start().await;
    let future = t.server.revision() + 2;
    let mut watch = t.watch(&format!("{WATCH}&resourceVersion={future}")).await;
    for name in ["a", "b", "c"] {
        t.config_map(name, json!({}), json!({}));
    }
    assert_eq!(watch.brief().await, format!("ADDED c {}", future + 1));
    t.server.shutdown().await;
}

#[tokio::test]
async fn bad_options_are_refused_before_the_stream_begins() {
    let t = start().await;
    for (query, code) in [
        ("&sendInitialEvents=true", 422),
        ("&resourceVersionMatch=NotOlderThan&resourceVersion=1", 422),
        ("&resourceVersion=abc", 500),
        ("&fieldSelector=data.k%3Dv", 400),
    ] {
        assert_eq!(t.get(&format!("{WATCH}{query}")).await.code, code, "{query}");
    }
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_finalizer_delays_the_deletion_and_shows() {
    let t = start().await;
    let mut watch = t.watch(&format!("{WATCH}&resourceVersion={}", t.server.revision())).await;
    let mut fin = t.config_map("fin", json!({}), json!({}));
    fin["metadata"]["finalizers"] = json!(["x.io/hold"]);
    t.server.update(fin.clone()).expect("updated");
    t.delete_config_map("fin");
    let mut marked = t.server.get(&fin).expect("still there");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    marked["metadata"]["finalizers"] = json!([]);
    t.server.update(marked).expect("released");
    let kinds: Vec<String> =
        watch.briefs(4).await.iter().map(|b| b[..b.find(' ').expect("space")].to_owned()).collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]);
    assert!(t.server.get(&fin).is_err());
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_table_watch_has_columns_once() {
    let t = start().await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let mut watch = t.watch_as(&format!("{WATCH}&resourceVersion={}", t.server.revision()), accept).await;
    t.write("ev", json!({}), json!({"n": "1"}));
    t.write("ev", json!({}), json!({"n": "2"}));
    let Next::Event(_, first) = watch.next().await else { panic!("an event") };
    assert_eq!(first["columnDefinitions"][0]["name"], "Name");
    assert_eq!(first["rows"][0]["cells"][0], "ev");
    let Next::Event(_, second) = watch.next().await else { panic!("an event") };
    assert_eq!(second["columnDefinitions"], json!(null));
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_watcher_that_does_not_read_is_cut_off_and_nobody_waits_for_it() {
    let t = start_with(Config { watch_buffer: 4, ..Config::default() }).await;
    let mut watch = t.watch(&format!("{WATCH}&resourceVersion={}", t.server.revision())).await;
    let filler = "x".repeat(100_000);
    let mut written = 0;
    while t.server.faults().open_watches() > 0 {
        t.write("big", json!({}), json!({"n": written.to_string(), "filler": filler}));
        written += 1;
        assert!(written < 2_000, "the watcher is still there");
    }
    let mut read = 0;
    loop {
        match watch.next().await {
            Next::Event(..) => read += 1,
            end => break assert_eq!(end, Next::End, "a clean end, no error"),
        }
    }
    assert!(read < written, "events are missing: {read} of {written}");
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_watch() {
    let t = start().await;
    let watch = t.watch(&format!("{WATCH}&resourceVersion={}", t.server.revision())).await;
    assert_eq!(t.server.faults().open_watches(), 1);
    drop(watch);
    let began = Instant::now();
    while t.server.faults().open_watches() > 0 {
        assert!(began.elapsed() < crate::client::PATIENCE, "the watch is still open");
        tokio::task::yield_now().await;
    }
    t.server.shutdown().await;
}
