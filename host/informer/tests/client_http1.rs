//! The client over HTTP/1.1, where a server offers nothing newer, and the change from one to the other.

mod client_support;

use std::time::Duration;

use futures::StreamExt as _;
use hark_informer::client::ClientLimits;
use hark_informer::status::ApiError;

use client_support::relay::Relay;
use client_support::{Api, Offer, PATIENT, list, list_or_watch, watch, within};

async fn api(offer: Offer) -> Api {
    Api::start(offer, |request| list_or_watch(&request)).await
}

fn versions(api: &Api) -> Vec<String> {
    api.requests().iter().filter_map(|line| line.split(' ').next().map(ToOwned::to_owned)).collect()
}

#[tokio::test]
async fn a_server_that_offers_only_http1_is_spoken_to_in_http1() {
    for protocols in [vec![b"http/1.1".as_slice()], vec![]] {
        let api = api(Offer { protocols, ..Offer::default() }).await;
        let client = api.client(PATIENT).await;
        for _ in 0..3 {
            assert_eq!(list(&client).await, "listed");
        }
        assert_eq!(versions(&api), ["HTTP/1.1"; 3]);
        assert_eq!(api.connections(), 1, "the one that showed it is used, and kept");
        let watches = (watch(&client).await, watch(&client).await);
        assert_eq!(list(&client).await, "listed", "a watch has a connection for itself");
        assert_eq!(api.connections(), 3);
        drop(watches);
    }
}

/// `TestReconnectBrokenTCP_HTTP1`, in its form for watches: there are no pings, so the watch's own time is what ends it.
#[tokio::test]
async fn a_watch_on_a_dead_connection_ends_after_its_time_and_the_slack() {
    let api = api(Offer::http1()).await;
    let relay = Relay::start(api.address).await;
    let slack = Duration::from_millis(100);
    let client = api.client_at(relay.address, ClientLimits { watch_slack: slack, ..PATIENT }).await;
    let timeout = Duration::from_millis(150);
    let opened = within("a watch", client.get_watch("/w?watch=true", timeout)).await;
    let mut stream = opened.expect("an answer");
    within("a line", stream.next()).await.expect("a line").expect("no error");
    relay.fall_silent();
    let began = std::time::Instant::now();
    let last = within("the end", stream.next()).await;
    assert!(
        matches!(&last, Some(Err(ApiError::Unreachable(text))) if text.contains("silent for 250ms")),
        "{last:?}"
    );
    assert!(began.elapsed() >= timeout, "not before the server would have ended it");
    drop(watch(&client).await);
}

/// `TestReconnectBrokenTCP_HTTP1`: a broken connection is left, the next request has another.
#[tokio::test]
async fn after_a_break_the_next_request_has_a_new_connection() {
    let api = api(Offer::http1()).await;
    let relay = Relay::start(api.address).await;
    let client = api.client_at(relay.address, PATIENT).await;
    let mut stream = watch(&client).await;
    relay.cut();
    let last = within("the end", stream.next()).await;
    assert!(matches!(last, Some(Err(ApiError::Unreachable(_)))), "{last:?}");
    drop(watch(&client).await);
}

/// `TestRestClientTimeout`.
#[tokio::test]
async fn an_answer_that_does_not_begin_in_time_is_not_waited_for() {
    for offer in [Offer::default(), Offer::http1()] {
        let api = api(offer).await;
        let relay = Relay::start(api.address).await;
        let limits = ClientLimits { response: Duration::from_secs(1), ..PATIENT };
        let client = api.client_at(relay.address, limits).await;
        assert_eq!(list(&client).await, "listed");
        relay.fall_silent();
        let failed = within("the limit", client.get("/l")).await;
        assert!(
            matches!(&failed, Err(ApiError::Unreachable(text)) if text.contains("no answer within 1s")),
            "{failed:?}"
        );
    }
}

#[tokio::test]
async fn a_server_may_change_its_protocol() {
    let api = api(Offer::http1()).await;
    let relay = Relay::start(api.address).await;
    let client = api.client_at(relay.address, PATIENT).await;
    assert_eq!(list(&client).await, "listed");
    api.offer(Offer::default());
    drop(watch(&client).await);
    relay.cut();
    // The first request on a new connection finds out.
    while let Err(error) = client.get("/l").await {
        assert!(matches!(&error, ApiError::Unreachable(_)), "{error}");
    }
    let newest = list(&client).await;
    assert_eq!((newest.as_str(), versions(&api).last().map(String::as_str)), ("listed", Some("HTTP/2.0")));
    api.offer(Offer::http1());
    relay.cut();
    while let Err(error) = client.get("/l").await {
        assert!(matches!(&error, ApiError::Unreachable(_)), "{error}");
    }
    assert_eq!(versions(&api).last().map(String::as_str), Some("HTTP/1.1"));
}
