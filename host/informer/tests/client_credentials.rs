//! What a kubeconfig says about trust, names, proxies and credentials holds for our own connections.

mod client_support;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hark_informer::status::ApiError;

use client_support::proxy::Proxy;
use client_support::{Api, NAME, Offer, PATIENT, base64, client, list, list_or_watch, whole};

const TOKEN: &str = "    token: secret\n";

async fn api() -> Api {
    Api::start(Offer::default(), |request| list_or_watch(&request)).await
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_not_spoken_to() {
    let (api, stranger) = (api().await, api().await);
    let path = api.kubeconfig(&format!("https://{}", api.address), &stranger.trust(), TOKEN);
    let refused = client(path, PATIENT).await.get("/l").await;
    assert!(
        matches!(&refused, Err(ApiError::Unreachable(text)) if text.contains("certificate")),
        "{refused:?}"
    );
    assert_eq!(api.requests(), Vec::<String>::new(), "no token was sent");
    let lenient = "    insecure-skip-tls-verify: true\n";
    let path = api.kubeconfig(&format!("https://{}", api.address), lenient, TOKEN);
    assert_eq!(list(&client(path, PATIENT).await).await, "listed");
    assert!(api.requests().iter().all(|line| line.starts_with("HTTP/2.0 ")));
}

#[tokio::test]
async fn a_certificate_is_checked_against_the_tls_server_name() {
    let api = api().await;
    let address = format!("https://{}", api.address);
    for (name, fits) in [(NAME, true), ("other.test", false)] {
        let cluster = format!("{}    tls-server-name: {name}\n", api.trust());
        let client = client(api.kubeconfig(&address, &cluster, TOKEN), PATIENT).await;
        assert_eq!(client.get("/l").await.is_ok(), fits, "{name}");
    }
}

#[tokio::test]
async fn requests_go_through_the_proxy_with_its_password() {
    let api = api().await;
    let proxy = Proxy::start(api.address).await;
    let cluster = format!("{}    proxy-url: http://user:pa%40ss@{}\n", api.trust(), proxy.address);
    let path = api.kubeconfig(&format!("https://{NAME}:6443"), &cluster, TOKEN);
    assert_eq!(list(&client(path, PATIENT).await).await, "listed");
    let heads = proxy.heads();
    assert_eq!(heads.len(), 1);
    let head = heads.first().expect("one");
    assert!(head.starts_with("CONNECT api.test:6443 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("Proxy-Authorization: Basic {}\r\n", base64("user:pa@ss"))), "{head}");
    assert!(api.requests().iter().all(|line| line.starts_with("HTTP/2.0 ")), "HTTP/2 through the tunnel");
}

#[tokio::test]
async fn a_proxy_that_cannot_be_spoken_to_is_named_without_its_password() {
    let api = api().await;
    let cluster = "    proxy-url: socks5://user:secret@127.0.0.1:1\n";
    let path = api.kubeconfig("https://127.0.0.1:1", cluster, TOKEN);
    let options = hark_informer::client::ClientOptions { kubeconfig: Some(path), context: None };
    let error = hark_informer::client::Client::with_limits(options, PATIENT).await.expect_err("no client");
    let text = error.to_string();
    assert!(text.contains("not with socks5") && !text.contains("secret"), "{text}");
}

/// An exec plugin that counts its runs and says what `status` says, `$n` being the number of the run.
fn plugin(name: &str, status: &str) -> (String, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (script, runs) = (folder.join(format!("{name}.sh")), folder.join(format!("{name}.runs")));
    let _ = std::fs::remove_file(&runs);
    let text = format!(
        "echo run >> '{runs}'\nn=$(wc -l < '{runs}' | tr -d ' ')\ncat <<EOF\n\
         {{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{status}}}\nEOF\n",
        runs = runs.display()
    );
    std::fs::write(&script, text).expect("a file");
    let user = format!(
        "    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      interactiveMode: Never\n      command: sh\n      args: ['{}']\n",
        script.display()
    );
    (user, runs)
}

fn runs(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

#[tokio::test]
async fn a_token_that_runs_out_is_asked_for_again() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let api = Api::start(Offer::default(), move |request| {
        let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        kept.lock().expect("no panic").push(token.unwrap_or_default().to_owned());
        whole("listed")
    })
    .await;
    let status = r#"{"token":"t$n","expirationTimestamp":"2020-01-01T00:00:00Z"}"#;
    let (user, _) = plugin("token", status);
    let path = api.kubeconfig(&format!("https://{}", api.address), &api.trust(), &user);
    let client = client(path, PATIENT).await;
    for _ in 0..3 {
        assert_eq!(list(&client).await, "listed");
    }
    let seen = seen.lock().expect("no panic").clone();
    let mut distinct = seen.clone();
    distinct.dedup();
    assert_eq!((seen.len(), distinct.len()), (3, 3), "each time a newer one: {seen:?}");
    assert!(seen.iter().all(|token| token.starts_with("Bearer t")), "{seen:?}");
    assert_eq!(api.connections(), 1);
}

#[tokio::test]
async fn a_certificate_that_runs_out_is_made_again_with_its_connections() {
    let api = api().await;
    let made = rcgen::generate_simple_self_signed(vec![String::from("me")]).expect("a certificate");
    for (expiry, is_over) in [("2020-01-01T00:00:00Z", true), ("2200-01-01T00:00:00Z", false)] {
        let status = serde_json::json!({
            "clientCertificateData": made.cert.pem(),
            "clientKeyData": made.signing_key.serialize_pem(),
            "expirationTimestamp": expiry,
        });
        // Within the shell's here-document, a backslash before `n` stays as it is.
        let (user, log) = plugin(&format!("certificate-{is_over}"), &status.to_string());
        let path = api.kubeconfig(&format!("https://{}", api.address), &api.trust(), &user);
        let client = client(path, PATIENT).await;
        let at_first = runs(&log);
        assert!(at_first > 0);
        assert_eq!(list(&client).await, "listed");
        assert_eq!(runs(&log) > at_first, is_over, "{expiry}");
    }
}
