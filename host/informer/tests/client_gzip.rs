//! Packed answers over real connections: what is asked for, and what is understood.

mod client_support;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{StreamExt as _, stream};
use hark_informer::status::ApiError;
use http::HeaderValue;
use tokio::sync::Semaphore;

use client_support::proxy::Proxy;
use client_support::{Answer, Api, NAME, Offer, PATIENT, client, list, open_ended, whole, within};

const LONG: Duration = Duration::from_secs(3600);

fn packed(text: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).expect("to memory");
    encoder.finish().expect("to memory").into()
}

fn encoded(mut answer: Answer, name: &'static str) -> Answer {
    answer.headers_mut().insert("content-encoding", HeaderValue::from_static(name));
    answer
}

#[tokio::test]
async fn gzip_is_asked_for_where_much_is_to_come_over_a_network() {
    for (cluster, away, large) in
        [("", true, "gzip"), ("    disable-compression: true\n", true, "identity"), ("", false, "identity")]
    {
        let api = Api::start(Offer::default(), |_| whole("x")).await;
        let proxy = Proxy::start(api.address).await;
        let server = if away {
            format!("https://{NAME}:6443")
        } else {
            format!("https://localhost:{}", api.address.port())
        };
        let cluster = format!(
            "{}{cluster}    proxy-url: http://{}\n    tls-server-name: {NAME}\n",
            api.trust(),
            proxy.address
        );
        let client = client(api.kubeconfig(&server, &cluster, "    token: t\n"), PATIENT).await;
        client.get("/document").await.expect("an answer");
        drop(client.get_chunks("/list").await.expect("an answer"));
        drop(client.get_watch("/w?watch=true", LONG).await.expect("an answer"));
        drop(client.get_watch("/w?sendInitialEvents=true&watch=true", LONG).await.expect("an answer"));
        let want = [
            "HTTP/2.0 /document identity".to_owned(),
            format!("HTTP/2.0 /list {large}"),
            "HTTP/2.0 /w?watch=true identity".to_owned(),
            format!("HTTP/2.0 /w?sendInitialEvents=true&watch=true {large}"),
        ];
        assert_eq!(api.requests(), want, "{cluster}");
    }
}

/// kube#2079, 7.12 no. 21: a server of 1.37 packs each flush by itself, and the next may be minutes away.
#[tokio::test]
async fn each_member_of_a_stream_is_there_before_the_next_is_sent() {
    for offer in [Offer::default(), Offer::http1()] {
        let permits = Arc::new(Semaphore::new(1));
        let granted = Arc::clone(&permits);
        let api = Api::start(offer, move |_| {
            let granted = Arc::clone(&granted);
            let members = stream::iter(0..5).then(move |number| {
                let granted = Arc::clone(&granted);
                async move {
                    granted.acquire().await.expect("open").forget();
                    packed(format!("event {number}\n").as_bytes())
                }
            });
            encoded(open_ended(members), "gzip")
        })
        .await;
        let client = api.client(PATIENT).await;
        let mut stream = within("a watch", client.get_watch("/w?watch=true", LONG)).await.expect("an answer");
        for number in 0..5 {
            let event = within("an event", stream.next()).await;
            assert_eq!(event, Some(Ok(Bytes::from(format!("event {number}\n")))));
            permits.add_permits(1);
        }
    }
}

/// Proxies pack what they like, asked or not.
#[tokio::test]
async fn a_packed_list_and_a_packed_refusal_are_understood() {
    let api = Api::start(Offer::default(), |request| {
        if request.uri().path() == "/l" {
            return encoded(whole(packed(&b"0123456789".repeat(100_000))), "gzip");
        }
        let status =
            br#"{"kind":"Status","status":"Failure","message":"no","reason":"Forbidden","code":403}"#;
        let mut refused = encoded(whole(packed(status)), "GZIP");
        *refused.status_mut() = http::StatusCode::FORBIDDEN;
        refused
    })
    .await;
    let client = api.client(PATIENT).await;
    assert!(list(&client).await.as_bytes() == b"0123456789".repeat(100_000));
    let refused = client.get("/forbidden").await.expect_err("a refusal");
    assert_eq!(
        refused.status().map(|status| (status.code, status.reason.as_str())),
        Some((403, "Forbidden"))
    );
}

#[tokio::test]
async fn an_encoding_that_is_not_known_is_an_error_that_names_it() {
    for name in ["br", "gzip, gzip", "deflate"] {
        let api = Api::start(Offer::default(), move |_| encoded(whole("?"), name)).await;
        let failed = api.client(PATIENT).await.get("/l").await;
        assert!(
            matches!(&failed, Err(ApiError::Decode(text)) if text.contains(&format!("`{name}`"))),
            "{failed:?}"
        );
    }
}

/// A gigabyte of zeros is a megabyte on the wire. A document of that size is refused, not held.
#[tokio::test]
async fn a_bomb_is_left_unread_once_it_is_too_large() {
    let api = Api::start(Offer::default(), |_| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let zeros = vec![0; 1024 * 1024];
        for _ in 0..256 {
            encoder.write_all(&zeros).expect("to memory");
        }
        encoded(whole(encoder.finish().expect("to memory")), "gzip")
    })
    .await;
    let client = api.client(PATIENT).await;
    let failed = within("the end", client.get("/document")).await;
    assert!(matches!(&failed, Err(ApiError::Decode(text)) if text.contains("longer than")), "{failed:?}");
}
