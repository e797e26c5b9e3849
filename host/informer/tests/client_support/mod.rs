//! An HTTPS server on loopback with a certificate made for it, a relay that can fall silent or be cut in front of it,
//! and kubeconfigs that lead there.
//!
//! Waits have a limit, which is how a test fails, never how it goes on.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(unreachable_pub, reason = "a module of several test crates")]

pub mod proxy;
pub mod relay;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use hark_informer::client::{ByteStream, Client, ClientLimits, ClientOptions};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_util::sync::CancellationToken;

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The name in the server's certificate, beside its address.
pub const NAME: &str = "api.test";

/// Empty settings, and a GOAWAY for all streams, without an error.
const HANGING_UP: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Long enough to play no part, so that a test says which limits do.
const NEVER: Duration = Duration::from_secs(3600);

/// Limits of which none is reached.
pub const PATIENT: ClientLimits = ClientLimits {
    connect: NEVER,
    response: NEVER,
    body_idle: NEVER,
    watch_slack: NEVER,
    ping_interval: NEVER,
    ping_timeout: NEVER,
    streams: 100,
};

pub type Answer = Response<BoxBody<Bytes, Infallible>>;

type Handler = dyn Fn(Request<Incoming>) -> Answer + Send + Sync;

/// What the server offers.
#[derive(Clone)]
pub struct Offer {
    /// In the TLS handshake, the best first.
    pub protocols: Vec<&'static [u8]>,
    /// Streams of an HTTP/2 connection.
    pub streams: u32,
    /// HTTP/2 connections end as soon as they are there: settings, and no request taken.
    pub hangs_up: bool,
}

impl Default for Offer {
    fn default() -> Self {
        Self { protocols: vec![b"h2", b"http/1.1"], streams: 100, hangs_up: false }
    }
}

impl Offer {
    pub fn http1() -> Self {
        Self { protocols: vec![b"http/1.1"], ..Self::default() }
    }
}

struct Shared {
    handler: Box<Handler>,
    offer: Mutex<Offer>,
    connections: watch::Sender<usize>,
    /// Told once to each connection there is: take nothing new.
    retire: watch::Sender<u32>,
    /// Protocol, target and `Accept-Encoding` of each request.
    requests: Mutex<Vec<String>>,
    key: (Vec<u8>, Vec<u8>),
}

/// The server. Ends when dropped.
pub struct Api {
    pub address: SocketAddr,
    certificate: String,
    shared: Arc<Shared>,
    running: CancellationToken,
}

impl Api {
    pub async fn start(
        offer: Offer,
        handler: impl Fn(Request<Incoming>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let names = [NAME, "127.0.0.1"].map(String::from).to_vec();
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            offer: Mutex::new(offer),
            connections: watch::Sender::new(0),
            retire: watch::Sender::new(0),
            requests: Mutex::default(),
            key: (made.cert.der().to_vec(), made.signing_key.serialize_der()),
        });
        let address = listener.local_addr().expect("an address");
        let running = CancellationToken::new();
        let serving = serve(listener, Arc::clone(&shared), running.clone());
        tokio::spawn(running.clone().run_until_cancelled_owned(serving));
        Self { address, certificate: made.cert.pem(), shared, running }
    }

    /// From the next connection on.
    pub fn offer(&self, offer: Offer) {
        *self.shared.offer.lock().expect("no panic") = offer;
    }

    /// Every connection there is takes no new request (GOAWAY), and ends with its last answer.
    pub fn retire_connections(&self) {
        self.shared.retire.send_modify(|times| *times += 1);
    }

    /// How many connections got through the TLS handshake so far.
    pub fn connections(&self) -> usize {
        *self.shared.connections.borrow()
    }

    /// Protocol, target and `Accept-Encoding` of each request.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().expect("no panic").clone()
    }

    /// A kubeconfig that leads to `address`, with these further lines of its cluster (indented by four) and user.
    pub fn kubeconfig(&self, server: &str, cluster: &str, user: &str) -> PathBuf {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("client-{}-{number}.kubeconfig", self.address.port());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: it\ncontexts:\n- name: it\n  context: {{cluster: it, user: it}}\n\
             clusters:\n- name: it\n  cluster:\n    server: {server}\n{cluster}users:\n- name: it\n  user:\n{user}"
        );
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// The line of a kubeconfig's cluster that trusts this server.
    pub fn trust(&self) -> String {
        format!("    certificate-authority-data: {}\n", base64(&self.certificate))
    }

    /// A client that trusts this server and looks for it at `address`.
    pub async fn client_at(&self, address: SocketAddr, limits: ClientLimits) -> Client {
        let path = self.kubeconfig(&format!("https://{address}"), &self.trust(), "    token: secret\n");
        client(path, limits).await
    }

    pub async fn client(&self, limits: ClientLimits) -> Client {
        self.client_at(self.address, limits).await
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.running.cancel();
    }
}

pub fn base64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

pub async fn client(kubeconfig: PathBuf, limits: ClientLimits) -> Client {
    let options = ClientOptions { kubeconfig: Some(kubeconfig), context: None };
    Client::with_limits(options, limits).await.expect("a client")
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, running: CancellationToken) {
    while let Ok((stream, _)) = listener.accept().await {
        let connection = serve_connection(stream, Arc::clone(&shared));
        tokio::spawn(running.clone().run_until_cancelled_owned(connection));
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<Shared>) {
    let offer = shared.offer.lock().expect("no panic").clone();
    let acceptor = acceptor(&shared.key, &offer);
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let mut retired = shared.retire.subscribe();
    shared.connections.send_modify(|count| *count += 1);
    if offer.hangs_up {
        let _ = stream.write_all(HANGING_UP).await;
        let _ = stream.shutdown().await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
        return;
    }
    let service = service_fn(|request: Request<Incoming>| {
        let answer = shared.answer(request);
        async { Ok::<_, Infallible>(answer) }
    });
    let io = TokioIo::new(stream);
    if !is_http2 {
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
        return;
    }
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder.max_concurrent_streams(offer.streams);
    let mut connection = pin!(builder.serve_connection(io, service));
    tokio::select! {
        _ = &mut connection => return,
        _ = retired.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

fn acceptor((certificate, key): &(Vec<u8>, Vec<u8>), offer: &Offer) -> TlsAcceptor {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.clone()));
    let config = ServerConfig::builder().with_no_client_auth();
    let mut config = config.with_single_cert(vec![certificate.clone().into()], key).expect("a key");
    config.alpn_protocols = offer.protocols.iter().map(|name| name.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

impl Shared {
    fn answer(&self, request: Request<Incoming>) -> Answer {
        let target = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let encoding = request.headers().get("accept-encoding").and_then(|value| value.to_str().ok());
        let line = format!("{:?} {target} {}", request.version(), encoding.unwrap_or("none"));
        self.requests.lock().expect("no panic").push(line);
        (self.handler)(request)
    }
}

/// A whole body.
pub fn whole(body: impl Into<Bytes>) -> Answer {
    Response::new(Full::new(body.into()).boxed())
}

/// These pieces, and then nothing more, without an end.
pub fn open_ended(pieces: impl Stream<Item = Bytes> + Send + Sync + 'static) -> Answer {
    let pieces = pieces.chain(stream::pending());
    Response::new(BodyExt::boxed(StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece))))))
}

/// A watch as a server would have it: one line at once and then silence; anything else is a whole text.
pub fn list_or_watch(request: &Request<Incoming>) -> Answer {
    if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
        open_ended(stream::iter([Bytes::from_static(b"line\n")]))
    } else {
        whole("listed")
    }
}

/// Opens a watch and reads its first line.
pub async fn watch(client: &Client) -> ByteStream {
    let opened = within("a watch", client.get_watch("/w?watch=true", NEVER)).await;
    let mut stream = opened.expect("an answer");
    let line = within("the first line", stream.next()).await;
    assert_eq!(line, Some(Ok(Bytes::from_static(b"line\n"))));
    stream
}

/// Lists, and says what came.
pub async fn list(client: &Client) -> String {
    let mut stream = within("a list", client.get_chunks("/l")).await.expect("an answer");
    let mut text = Vec::new();
    while let Some(chunk) = within("the list's body", stream.next()).await {
        text.extend_from_slice(&chunk.expect("a chunk"));
    }
    String::from_utf8(text).expect("text")
}

/// Fails the test if it takes too long.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(done) => done,
        Err(_) => panic!("waited for {what}"),
    }
}
