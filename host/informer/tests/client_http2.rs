//! The client over HTTP/2: connections that die, streams that run out, watches that nobody reads.

mod client_support;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use futures::{StreamExt as _, stream};
use hark_informer::client::{ByteStream, ClientLimits};
use hark_informer::status::ApiError;
use tokio::net::TcpListener;
use tokio::sync::watch::Sender;

use client_support::relay::Relay;
use client_support::{Api, Offer, PATIENT, list, list_or_watch, open_ended, watch, whole, within};

/// Pings that notice a dead connection at once.
const PINGING: ClientLimits = ClientLimits {
    ping_interval: Duration::from_millis(40),
    ping_timeout: Duration::from_millis(200),
    ..PATIENT
};

async fn api(offer: Offer) -> Api {
    Api::start(offer, |request| list_or_watch(&request)).await
}

/// That a watch ends with its connection, saying so.
async fn ended(stream: &mut ByteStream) {
    let last = within("the watch to end", stream.next()).await;
    assert!(matches!(last, Some(Err(ApiError::Unreachable(_)))), "section 1.10: {last:?}");
    assert_eq!(within("its end", stream.next()).await, None);
}

#[tokio::test]
async fn one_connection_carries_all_requests() {
    let api = api(Offer::default()).await;
    let client = api.client(PATIENT).await;
    let watches = join_all((0..40).map(|_| watch(&client))).await;
    assert_eq!(list(&client).await, "listed");
    assert_eq!(api.connections(), 1, "also those that were asked for before it was there");
    assert!(api.requests().iter().all(|line| line.starts_with("HTTP/2.0 ")), "{:?}", api.requests());
    drop(watches);
}

/// `TestReconnectBrokenTCP_HTTP2`: with no limit but the pings' in reach, a server that went silent is noticed.
#[tokio::test]
async fn a_server_that_answers_no_ping_ends_every_watch_and_they_open_again_elsewhere() {
    let api = api(Offer::default()).await;
    let relay = Relay::start(api.address).await;
    let client = api.client_at(relay.address, PINGING).await;
    let mut watches = join_all((0..5).map(|_| watch(&client))).await;
    relay.fall_silent();
    for stream in &mut watches {
        ended(stream).await;
    }
    let again = join_all((0..5).map(|_| watch(&client))).await;
    assert_eq!((api.connections(), again.len()), (2, 5), "R section 1.10, pitfall #65012");
}

/// `TestReconnectBrokenTCP_HTTP2`, while a request waits for its answer.
#[tokio::test]
async fn a_request_that_waits_on_a_dead_connection_fails_with_it() {
    let api = api(Offer::default()).await;
    let relay = Relay::start(api.address).await;
    let client = api.client_at(relay.address, PINGING).await;
    assert_eq!(list(&client).await, "listed");
    relay.fall_silent();
    let failed = within("the request to fail", client.get_chunks("/l")).await.err();
    assert!(
        matches!(&failed, Some(ApiError::Unreachable(text)) if text.contains("keep-alive timed out")),
        "{failed:?}"
    );
    assert_eq!(list(&client).await, "listed");
}

/// A connection without requests is pinged too, so that the next request does not find out.
#[tokio::test]
async fn a_dead_connection_is_noticed_while_nothing_is_asked() {
    let api = api(Offer::default()).await;
    let relay = Relay::start(api.address).await;
    let client = api.client_at(relay.address, PINGING).await;
    assert_eq!(list(&client).await, "listed");
    relay.hear(3).await;
    relay.fall_silent();
    // No request of the test itself may be what finds it dead: a second client's tells when the time is over.
    let other = api.client_at(relay.address, PINGING).await;
    let mut clock = watch(&other).await;
    relay.fall_silent();
    ended(&mut clock).await;
    assert_eq!(list(&client).await, "listed");
}

#[tokio::test]
async fn the_silence_of_a_live_server_does_not_end_a_watch() {
    let more = Arc::new(tokio::sync::Notify::new());
    let told = Arc::clone(&more);
    let api = Api::start(Offer::default(), move |_| {
        let told = Arc::clone(&told);
        let line = |text: &'static str| Bytes::from_static(text.as_bytes());
        let later = stream::once(async move {
            told.notified().await;
            line("later\n")
        });
        open_ended(stream::iter([line("line\n")]).chain(later))
    })
    .await;
    let relay = Relay::start(api.address).await;
    let client = api.client_at(relay.address, PINGING).await;
    let mut stream = watch(&client).await;
    relay.hear(8).await;
    more.notify_one();
    let line = within("the line", stream.next()).await;
    assert_eq!(line, Some(Ok(Bytes::from_static(b"later\n"))), "eight pings and no word: R section 1.10");
    assert_eq!(api.connections(), 1);
}

/// `TestReconnectBrokenTCP_HTTP2`, where the connection is not silent but gone.
#[tokio::test]
async fn a_connection_that_breaks_ends_each_of_its_watches_and_they_open_again() {
    let api = api(Offer::default()).await;
    let relay = Relay::start(api.address).await;
    let client = api.client_at(relay.address, PATIENT).await;
    let mut watches = join_all((0..5).map(|_| watch(&client))).await;
    relay.cut();
    for stream in &mut watches {
        ended(stream).await;
        *stream = watch(&client).await;
    }
    assert_eq!(api.connections(), 2);
}

#[tokio::test]
async fn a_list_does_not_wait_for_watches_that_take_all_streams() {
    for (server, own) in [(4, 100), (100, 4), (1, 100), (3, 1)] {
        let api = api(Offer { streams: server, ..Offer::default() }).await;
        let client = api.client(ClientLimits { streams: own, ..PATIENT }).await;
        let watches = join_all((0..8).map(|_| watch(&client))).await;
        assert_eq!(list(&client).await, "listed", "{server} {own}");
        let each = usize::try_from(server).expect("small").min(own);
        assert_eq!(api.connections(), 9_usize.div_ceil(each), "nine requests, {each} on a connection");
        drop(watches);
    }
}

#[tokio::test]
async fn a_stream_that_ended_makes_room_for_another() {
    let api = api(Offer { streams: 2, ..Offer::default() }).await;
    let client = api.client(PATIENT).await;
    let held = watch(&client).await;
    for _ in 0..20 {
        assert_eq!(list(&client).await, "listed");
        drop(watch(&client).await);
    }
    assert_eq!(api.connections(), 1, "read to its end or dropped, both make room");
    drop(held);
}

#[tokio::test]
async fn watches_that_nobody_reads_hold_up_no_other_request() {
    const WINDOW: usize = 1024 * 1024;
    let sent = Arc::new(Sender::new(0_usize));
    let counted = Arc::clone(&sent);
    let api = Api::start(Offer::default(), move |request| {
        if request.uri().path() == "/l" {
            return whole(vec![b'x'; 4 * WINDOW]);
        }
        let counted = Arc::clone(&counted);
        let flood = stream::iter(0..64).map(move |_| {
            counted.send_modify(|sent| *sent += WINDOW / 16);
            Bytes::from(vec![b'x'; WINDOW / 16])
        });
        open_ended(flood)
    })
    .await;
    let client = api.client(ClientLimits { streams: 4, ..PATIENT }).await;
    let watches = join_all((0..3).map(|_| client.get_watch("/w?watch=true", Duration::MAX / 4))).await;
    let mut sent = sent.subscribe();
    within("windows to fill", sent.wait_for(|sent| *sent >= 3 * WINDOW)).await.expect("the server lives");
    assert_eq!(list(&client).await.len(), 4 * WINDOW);
    assert_eq!(api.connections(), 1, "on the connection of the three");
    drop(watches);
}

#[tokio::test]
async fn a_connection_that_takes_no_more_requests_keeps_its_watches() {
    let (tell, _) = tokio::sync::broadcast::channel::<()>(1);
    let teller = tell.clone();
    let api = Api::start(Offer::default(), move |request| {
        if request.uri().path() == "/l" {
            return list_or_watch(&request);
        }
        let mut told = teller.subscribe();
        let later = stream::once(async move {
            let _ = told.recv().await;
            Bytes::from_static(b"later\n")
        });
        open_ended(stream::iter([Bytes::from_static(b"line\n")]).chain(later))
    })
    .await;
    let client = api.client(PATIENT).await;
    let mut old = watch(&client).await;
    api.retire_connections();
    for _ in 0..5 {
        assert_eq!(list(&client).await, "listed", "kube-apiserver's --goaway-chance is no failure");
    }
    assert_eq!(api.connections(), 2);
    let _ = tell.send(());
    assert_eq!(within("the line", old.next()).await, Some(Ok(Bytes::from_static(b"later\n"))));
}

/// Connections that end before they served anything are failures, told at once, however many there are.
#[tokio::test]
async fn a_server_that_hangs_up_at_once_is_a_failure_and_not_a_loop() {
    let api = api(Offer { hangs_up: true, ..Offer::default() }).await;
    let client = api.client(PATIENT).await;
    let asked = join_all((0..20).map(|_| client.get("/l")));
    let failed = within("all to fail", asked).await;
    assert!(failed.iter().all(|failed| matches!(failed, Err(ApiError::Unreachable(_)))), "{failed:?}");
    assert!(api.connections() <= 20, "{} for 20 requests", api.connections());
    api.offer(Offer::default());
    assert_eq!(list(&client).await, "listed");
}

/// Whoever waits for a connection shares its failure: twenty requests do not fail one after another.
#[tokio::test]
async fn requests_that_wait_for_one_connection_fail_together() {
    let api = api(Offer::default()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let accepted = Arc::new(Sender::new(0));
    let counted = Arc::clone(&accepted);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.send_modify(|count| *count += 1);
        }
    });
    let client = api.client_at(address, PATIENT).await;
    let failed = join_all((0..20).map(|_| client.get("/l"))).await;
    assert!(failed.iter().all(|failed| matches!(failed, Err(ApiError::Unreachable(_)))), "{failed:?}");
    assert_eq!(*accepted.borrow(), 1, "one connection was tried");
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_given_up_after_the_limit() {
    let api = api(Offer::default()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let limits = ClientLimits { connect: Duration::from_millis(50), ..PATIENT };
    let client = api.client_at(listener.local_addr().expect("an address"), limits).await;
    let failed = within("the limit", client.get("/l")).await;
    assert!(
        matches!(&failed, Err(ApiError::Unreachable(text)) if text.contains("no connection within 50ms")),
        "{failed:?}"
    );
}

/// Watches belong to informers, and a connection may be opened for a plugin's request on a runtime that ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_outlives_the_runtime_of_whoever_asked_for_it() {
    let api = api(Offer::default()).await;
    let client = api.client(PATIENT).await;
    let asker = client.clone();
    let elsewhere = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async { list(&asker).await })
    });
    let listed = tokio::task::spawn_blocking(move || elsewhere.join().expect("no panic")).await;
    assert_eq!(listed.expect("no panic"), "listed");
    drop(watch(&client).await);
    assert_eq!(api.connections(), 1, "the connection is still there");
}
