//! Faults on demand, and the life of the server.

use std::sync::Arc;

use futures::FutureExt as _;
use hark_apiserver::{ApiError, Config, Failure, LastWords, Server};
use serde_json::json;
use tokio::sync::Notify;

use crate::client::{Next, start};

const MAPS: &str = "/api/v1/namespaces/t/configmaps";

#[tokio::test]
async fn watches_can_be_cut_cleanly_or_in_the_middle() {
    let t = start().await;
    let path = format!("{MAPS}?watch=true&resourceVersion={}", t.server.revision());
    let mut clean = t.watch(&path).await;
    t.server.faults().cut_watches();
    assert_eq!(clean.next().await, Next::End);
    let mut broken = t.watch(&path).await;
    t.server.faults().break_watches();
    assert_eq!(broken.next().await, Next::Broken);
    let mut again = t.watch(&path).await;
    t.config_map("a", json!({}), json!({}));
    assert!(again.brief().await.starts_with("ADDED a"), "later watches are well");
    t.server.shutdown().await;
}

#[tokio::test]
async fn watches_can_be_given_last_words() {
    let t = start().await;
    let path = format!("{MAPS}?watch=true&resourceVersion={}", t.server.revision());
    let told = format!("{path}&allowWatchBookmarks=true");
    let faults = t.server.faults();

    let (mut watch, mut deaf) = (t.watch(&told).await, t.watch(&path).await);
    t.server
        .create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}))
        .expect("created");
    let told = t.server.revision();
    faults.end_watches(LastWords::Bookmark, false);
    t.config_map("later", json!({}), json!({}));
    assert_eq!(watch.brief().await, format!("BOOKMARK  {told}"), "it covers nothing that was not sent");
    assert_eq!(watch.next().await, Next::End);
    assert_eq!(deaf.next().await, Next::End, "a bookmark is only for those who allow it");

    let path = format!("{MAPS}?watch=true&resourceVersion={}", t.server.revision());
    let mut watch = t.watch(&path).await;
    let expired = ApiError::Expired { message: "too old".into(), continue_token: None };
    faults.end_watches(LastWords::Error(expired), false);
    assert_eq!(watch.brief().await, "ERROR 410 \"too old\"");
    assert_eq!(watch.next().await, Next::End);

    let mut watch = t.watch(&path).await;
    faults.end_watches(LastWords::Text("{\"type\":\"GIBBERISH\"}\n".into()), false);
    assert_eq!(watch.brief().await, "GIBBERISH  ");
    assert_eq!(watch.next().await, Next::End);
    let stream = Failure::Stream("{\"type\":\"SAID\"}\n".into());
    faults.fail_next(1, |r| r.is("watch", "configmaps"), stream);
    let mut watch = t.watch(&path).await;
    assert_eq!((watch.brief().await, watch.next().await), ("SAID  ".to_owned(), Next::End));
    t.server.shutdown().await;
}

#[tokio::test]
async fn requests_can_be_held_until_they_are_released() {
    let t = start().await;
    let faults = t.server.faults().clone();
    let asked = Arc::new(Notify::new());
    let asking = Arc::clone(&asked);
    faults.hold(move |r| {
        let held = r.is("list", "configmaps");
        if held {
            asking.notify_one();
        }
        held
    });
    assert_eq!(t.get("/api/v1/namespaces/t/secrets").await.code, 200, "other requests are answered");
    let mut held = Box::pin(t.get(MAPS));
    tokio::select! {
        answer = &mut held => panic!("answered with {}", answer.code),
        () = asked.notified() => {}
    }
    t.config_map("meanwhile", json!({}), json!({}));
    faults.release();
    assert_eq!(held.await.names(), ["meanwhile"], "it is answered as of now");
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_backup_can_be_restored_and_has_no_past() {
    let t = start().await;
    let faults = t.server.faults();
    t.config_map("kept", json!({}), json!({}));
    let then = t.server.revision();
    t.config_map("lost", json!({}), json!({}));
    assert!(!faults.restore(then + 100), "the future is not known");
    assert!(faults.restore(then));
    assert_eq!((t.get(MAPS).await.names(), t.server.revision()), (vec!["kept".to_owned()], then));
    let mut old = t.watch(&format!("{MAPS}?watch=true&resourceVersion={}", then - 1)).await;
    assert!(old.brief().await.starts_with("ERROR 410"), "what was before is not remembered");
    let mut watch = t.watch(&format!("{MAPS}?watch=true&resourceVersion={then}")).await;
    t.config_map("new", json!({}), json!({}));
    assert_eq!(watch.brief().await, format!("ADDED new {}", then + 1), "it counts on from there");
    t.server.shutdown().await;
}

#[tokio::test]
async fn open_watches_can_be_waited_for() {
    let t = start().await;
    let faults = t.server.faults().clone();
    let mut two = Box::pin(faults.watched(2));
    let _first = t.watch(&format!("{MAPS}?watch=true&resourceVersion=0")).await;
    assert!((&mut two).now_or_never().is_none());
    let _second = t.watch(&format!("{MAPS}?watch=true&resourceVersion=0")).await;
    two.await;
    t.server.shutdown().await;
}

#[tokio::test]
async fn events_can_be_lost() {
    let t = start().await;
    let path = format!("{MAPS}?watch=true&resourceVersion={}", t.server.revision());
    let mut watch = t.watch(&path).await;
    t.server.faults().lose_events(true);
    t.config_map("lost", json!({}), json!({}));
    t.server.faults().lose_events(false);
    t.config_map("told", json!({}), json!({}));
    assert!(watch.brief().await.starts_with("ADDED told"));
    let mut later = t.watch(&path).await;
    assert!(later.brief().await.starts_with("ADDED told"), "not even later");
    assert_eq!(t.get(MAPS).await.names(), ["lost", "told"], "but it happened");
    t.server.shutdown().await;
}

#[tokio::test]
async fn chosen_requests_can_be_made_to_fail_a_number_of_times() {
    let t = start().await;
    let faults = t.server.faults();
    faults.fail_next(1, |r| r.is("list", "configmaps"), Failure::too_many_requests(7));
    faults.fail_next(1, |r| r.is("list", "configmaps"), Failure::status(503, "away"));
    let text = Failure::Text {
        code: 429,
        body: "Too many requests, please try again later.\n".into(),
        retry_after: Some(1),
    };
    faults.fail_next(1, |r| r.is("watch", "configmaps"), text);
    assert_eq!(t.get("/api/v1/namespaces/t/secrets").await.code, 200);
    let first = t.get(MAPS).await;
    assert_eq!(
        (first.code, first.header("retry-after"), first.text.trim_end()),
        (
            429,
            "7",
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"storage is (re)initializing","reason":"TooManyRequests","details":{"retryAfterSeconds":7},"code":429}"#
        )
    );
    let second = t.get(MAPS).await;
    assert_eq!((second.code, second.json()["reason"].clone()), (503, json!("ServiceUnavailable")));
    assert_eq!(t.get(MAPS).await.code, 200);
    let plain = t.get(&format!("{MAPS}?watch=true")).await;
    assert_eq!((plain.code, plain.header("content-type")), (429, "text/plain; charset=utf-8"));
    faults.fail_next(9, |_| true, Failure::Disconnect);
    assert!(t.raw("GET", MAPS, &[], "").await.is_err());
    faults.clear();
    assert_eq!(t.get(MAPS).await.code, 200);
    t.server.shutdown().await;
}

#[tokio::test]
async fn the_server_can_go_away_and_come_back_on_its_port() {
    let t = start().await;
    let mut watch = t.watch(&format!("{MAPS}?watch=true&resourceVersion={}", t.server.revision())).await;
    let faults = t.server.faults();
    faults.refuse_connections().await;
    assert!(t.connect().await.is_err());
    t.config_map("a", json!({}), json!({}));
    assert!(watch.brief().await.starts_with("ADDED a"), "old connections live on");
    faults.kill_connections();
    assert_eq!(watch.next().await, Next::Broken);
    assert!(faults.accept_connections().await);
    assert_eq!(t.get(MAPS).await.names(), ["a"]);
    t.server.shutdown().await;
}

#[tokio::test]
async fn shutting_down_ends_watches_and_frees_the_port() {
    let t = start().await;
    let address = t.server.address();
    let mut watch = t.watch(&format!("{MAPS}?watch=true&resourceVersion={}", t.server.revision())).await;
    t.server.shutdown().await;
    assert_eq!(watch.next().await, Next::End);
    let again = Server::start(Config { address, ..Config::default() }).await.expect("the port is free");
    again.shutdown().await;
}

#[tokio::test]
async fn only_loopback_is_served() {
    let address = ([0, 0, 0, 0], 0).into();
    assert!(Server::start(Config { address, ..Config::default() }).await.is_err());
}

#[tokio::test]
async fn http_2_is_understood_without_an_upgrade() {
    let t = start().await;
    let stream = tokio::net::TcpStream::connect(t.server.address()).await.expect("connects");
    let (mut sender, connection) = hyper::client::conn::http2::handshake(
        hyper_util::rt::TokioExecutor::new(),
        hyper_util::rt::TokioIo::new(stream),
    )
    .await
    .expect("speaks HTTP/2");
    let connection = tokio::spawn(connection);
    let request = hyper::Request::get(format!("{}{MAPS}", t.server.url()))
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .expect("a request");
    assert_eq!(sender.send_request(request).await.expect("an answer").status(), 200);
    drop(sender);
    t.server.shutdown().await;
    connection.abort();
}
