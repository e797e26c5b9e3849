//! A scripted API server on loopback, and a store that can be waited for.
//!
//! Answers are written as bytes, so that every framing and every fault of a real connection can be had.
//! Waits have a limit, which is how a test fails, never how it goes on.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(unreachable_pub, reason = "a module of several test crates")]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hark_informer::backoff::BackoffConfig;
use hark_informer::client::{Client, ClientLimits};
use hark_informer::list_watch::ListWatch;
use hark_informer::object::{Ingest, Object};
use hark_informer::reflector::{
    InitialList, Reflector, ReflectorMetrics, ReflectorOptions, ReflectorStatus, ReflectorStore,
};
use hark_informer::resource::Selector;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// One piece of an answer.
#[derive(Debug, Clone)]
enum Act {
    Send(Vec<u8>),
    Pause(Duration),
    /// Say nothing more, but keep the connection.
    Hold,
    /// Close the connection.
    Cut,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Reply {
    acts: Vec<Act>,
}

impl Reply {
    pub fn new(code: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut head = format!("HTTP/1.1 {code} X\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Self { acts: vec![Act::Send(format!("{head}\r\n{body}").into_bytes())] }
    }

    pub fn json(code: u16, body: &str) -> Self {
        Self::new(code, &[("Content-Type", "application/json")], body)
    }

    /// A watch's lines, each a chunk; ended cleanly.
    pub fn watch(lines: &[String]) -> Self {
        let mut acts = vec![Act::Send(CHUNKED.as_bytes().to_vec())];
        acts.extend(lines.iter().map(|line| Act::Send(chunk(format!("{line}\n").as_bytes()))));
        acts.push(Act::Send(b"0\r\n\r\n".to_vec()));
        Self { acts }
    }

    /// A watch whose text comes in chunks of so many bytes.
    pub fn watch_in_pieces(lines: &[String], size: usize) -> Self {
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        let mut acts = vec![Act::Send(CHUNKED.as_bytes().to_vec())];
        acts.extend(text.as_bytes().chunks(size).map(|piece| Act::Send(chunk(piece))));
        Self { acts }.hold()
    }

    /// Instead of ending, the connection stays open and silent.
    pub fn hold(mut self) -> Self {
        self.drop_end();
        self.acts.push(Act::Hold);
        self
    }

    /// Instead of ending, it is silent for a while and ends then.
    pub fn end_after(mut self, time: Duration) -> Self {
        let end = self.acts.pop();
        self.acts.push(Act::Pause(time));
        self.acts.extend(end);
        self
    }

    /// Instead of ending, some bytes of one more line are sent and the connection is cut.
    pub fn cut_within(mut self, text: &str) -> Self {
        self.drop_end();
        self.acts.push(Act::Send(chunk(text.as_bytes())));
        self.acts.push(Act::Cut);
        self
    }

    /// Only so many bytes of the answer are sent, and the connection is cut.
    pub fn cut_at(mut self, bytes: usize) -> Self {
        if let Some(Act::Send(text)) = self.acts.first_mut() {
            text.truncate(bytes);
        }
        self.acts.push(Act::Cut);
        self
    }

    fn drop_end(&mut self) {
        if matches!(self.acts.last(), Some(Act::Send(end)) if end == b"0\r\n\r\n") {
            self.acts.pop();
        }
    }

    /// No answer at all.
    pub fn silence() -> Self {
        Self { acts: vec![Act::Hold] }
    }
}

const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunk(data: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", data.len()).into_bytes();
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
    out
}

#[derive(Default)]
struct Script {
    discovery: VecDeque<Reply>,
    lists: VecDeque<Reply>,
    watches: VecDeque<Reply>,
}

#[derive(Default)]
struct Shared {
    script: Mutex<Script>,
    requests: watch::Sender<Vec<String>>,
    heads: Mutex<Vec<String>>,
}

/// The server. Discovery answers with ConfigMaps unless scripted; lists and watches beyond the script are
/// answered with silence.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    running: CancellationToken,
}

impl Server {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = Self { address, shared: Arc::default(), running: CancellationToken::new() };
        server.serve(listener);
        server
    }

    fn serve(&self, listener: TcpListener) {
        let (shared, running) = (Arc::clone(&self.shared), self.running.clone());
        tokio::spawn(self.running.clone().run_until_cancelled_owned(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let connection = serve_connection(stream, Arc::clone(&shared));
                tokio::spawn(running.clone().run_until_cancelled_owned(connection));
            }
        }));
    }

    /// Closes the port and every connection.
    pub async fn stop(&mut self) {
        self.running.cancel();
        until("the port to be closed", async || TcpStream::connect(self.address).await.is_err()).await;
    }

    /// The same port again.
    pub async fn restart(&mut self) {
        self.running = CancellationToken::new();
        let listener = TcpListener::bind(self.address).await.expect("the port again");
        self.serve(listener);
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn client(&self) -> Client {
        Client::from_url(&self.url(), ClientLimits::default()).expect("a client")
    }

    pub fn on_discovery(&self, replies: Vec<Reply>) {
        self.shared.script.lock().expect("no panic").discovery.extend(replies);
    }

    pub fn on_list(&self, replies: Vec<Reply>) {
        self.shared.script.lock().expect("no panic").lists.extend(replies);
    }

    pub fn on_watch(&self, replies: Vec<Reply>) {
        self.shared.script.lock().expect("no panic").watches.extend(replies);
    }

    /// Request targets but discovery's, `timeoutSeconds` left out.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.borrow().clone()
    }

    /// Whole request heads.
    pub fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().expect("no panic").clone()
    }

    /// Waits until so many lists and watches have been asked for.
    pub async fn requested(&self, count: usize) -> Vec<String> {
        let mut requests = self.shared.requests.subscribe();
        let wait = requests.wait_for(|requests| requests.len() >= count);
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(seen) => seen.expect("the server lives").clone(),
            Err(_) => panic!("waited for {count} requests: {:#?}", self.requests()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.cancel();
    }
}

async fn serve_connection(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut read = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(count) => read.extend_from_slice(&buffer[..count]),
            }
        };
        let head = String::from_utf8_lossy(&read[..end]).into_owned();
        read.drain(..end);
        let reply = shared.reply_to(&head);
        for act in reply.acts {
            let sent = match act {
                Act::Send(bytes) => stream.write_all(&bytes).await,
                Act::Pause(time) => {
                    tokio::time::sleep(time).await;
                    Ok(())
                }
                Act::Hold => std::future::pending().await,
                Act::Cut => return,
            };
            if sent.is_err() {
                return;
            }
        }
    }
}

impl Shared {
    fn reply_to(&self, head: &str) -> Reply {
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        self.heads.lock().expect("no panic").push(head.to_owned());
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let is_discovery = path == "/api/v1" || path.split('/').count() == 4 && path.starts_with("/apis/");
        let is_watch = query.contains("watch=true");
        // Taken before the request is counted, so that whoever waited for it sees the script as it is.
        let mut script = self.script.lock().expect("no panic");
        if is_discovery {
            return script.discovery.pop_front().unwrap_or_else(|| discovery(true));
        }
        let replies = if is_watch { &mut script.watches } else { &mut script.lists };
        let reply = replies.pop_front().unwrap_or_else(Reply::silence);
        drop(script);
        let shown = target.split('&').filter(|part| !part.starts_with("timeoutSeconds=")).collect::<Vec<_>>();
        self.requests.send_modify(|requests| requests.push(shown.join("&")));
        reply
    }
}

/// A discovery document, with or without the kind `Gadget`.
pub fn discovery(with_gadgets: bool) -> Reply {
    let entry = |name: &str, kind: &str| {
        format!(
            r#"{{"name":"{name}","singularName":"","namespaced":true,"kind":"{kind}","verbs":["get","list","watch"]}}"#
        )
    };
    let mut entries = vec![entry("configmaps", "ConfigMap")];
    entries.extend(with_gadgets.then(|| entry("gadgets", "Gadget")));
    Reply::json(
        200,
        &format!(r#"{{"kind":"APIResourceList","groupVersion":"v1","resources":[{}]}}"#, entries.join(",")),
    )
}

pub fn list(version: &str, names: &[&str]) -> Reply {
    page(version, names, "")
}

pub fn page(version: &str, names: &[&str], continue_token: &str) -> Reply {
    let items: Vec<String> = names
        .iter()
        .map(|name| {
            format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"u-{name}","resourceVersion":"1"}}}}"#
            )
        })
        .collect();
    Reply::json(
        200,
        &format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{continue_token}"}},"items":[{}]}}"#,
            items.join(",")
        ),
    )
}

pub fn event(kind: &str, name: &str, version: u64) -> String {
    format!(
        r#"{{"type":"{kind}","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n","uid":"u-{name}","resourceVersion":"{version}","annotations":{{"note":"größer \u00e9 😀"}}}}}}}}"#
    )
}

pub fn bookmark(version: u64) -> String {
    format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}}}}}}"#
    )
}

/// The bookmark that ends a streaming list's initial events, with this value of its annotation.
pub fn marker(version: u64, value: &str) -> String {
    format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"{value}"}}}}}}}}"#
    )
}

pub const EXPIRED: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 351 (366)","reason":"Expired","code":410}"#;

pub const FORBIDDEN: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps is forbidden: User \"nobody\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"n\"","reason":"Forbidden","details":{"kind":"configmaps"},"code":403}"#;

pub fn error_event(status: &str) -> String {
    format!(r#"{{"type":"ERROR","object":{status}}}"#)
}

/// What the store holds: name to version, and the calls that were not of single objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    pub objects: BTreeMap<String, String>,
    pub replaced: Vec<String>,
    pub bookmarks: Vec<String>,
}

impl View {
    pub fn names(&self) -> Vec<&str> {
        self.objects.keys().map(String::as_str).collect()
    }
}

/// A store that is just the present state.
#[derive(Default)]
pub struct Store {
    view: watch::Sender<View>,
}

impl Store {
    pub fn view(&self) -> View {
        self.view.borrow().clone()
    }

    pub async fn wait_for(&self, what: &str, condition: impl FnMut(&View) -> bool) -> View {
        let mut view = self.view.subscribe();
        match tokio::time::timeout(PATIENCE, view.wait_for(condition)).await {
            Ok(view) => view.expect("the store lives").clone(),
            Err(_) => panic!("waited for {what}: {:#?}", self.view()),
        }
    }

    pub async fn has(&self, names: &[&str]) -> View {
        self.wait_for(&format!("{names:?}"), |view| view.names() == names).await
    }

    fn put(&self, object: &Object) {
        self.view.send_modify(|view| {
            view.objects.insert(object.key().name().to_owned(), object.resource_version().to_owned());
        });
    }
}

impl ReflectorStore for Store {
    async fn add(&self, object: Arc<Object>) {
        self.put(&object);
    }

    async fn update(&self, object: Arc<Object>) {
        self.put(&object);
    }

    async fn delete(&self, object: Arc<Object>) {
        self.view.send_modify(|view| {
            view.objects.remove(object.key().name());
        });
    }

    fn replace(&self, objects: Vec<Arc<Object>>, resource_version: &str) {
        self.view.send_modify(|view| {
            view.objects = objects
                .iter()
                .map(|object| (object.key().name().to_owned(), object.resource_version().to_owned()))
                .collect();
            view.replaced.push(resource_version.to_owned());
        });
    }

    fn bookmark(&self, resource_version: &str) {
        self.view.send_modify(|view| view.bookmarks.push(resource_version.to_owned()));
    }
}

/// A reflector of the server's ConfigMaps, running.
pub struct Running {
    pub store: Arc<Store>,
    pub metrics: Arc<ReflectorMetrics>,
    status: watch::Receiver<ReflectorStatus>,
    cancel: CancellationToken,
}

impl Running {
    pub fn start(server: &Server) -> Self {
        Self::start_of(server, Selector::new("v1", "ConfigMap").in_namespace("n"), None)
    }

    pub fn start_of(server: &Server, selector: Selector, page_size: Option<u32>) -> Self {
        let options =
            ReflectorOptions { initial_list: InitialList::List, page_size, ..ReflectorOptions::default() };
        Self::start_with(server, selector, options)
    }

    /// A reflector that streams its lists.
    pub fn start_streaming(server: &Server) -> Self {
        let selector = Selector::new("v1", "ConfigMap").in_namespace("n");
        Self::start_with(server, selector, ReflectorOptions::default())
    }

    fn start_with(server: &Server, selector: Selector, options: ReflectorOptions) -> Self {
        let backoff = BackoffConfig {
            initial: Duration::from_millis(20),
            cap: Duration::from_millis(200),
            ..BackoffConfig::default()
        };
        let options = ReflectorOptions { name: selector.to_string(), backoff, ..options };
        let store = Arc::new(Store::default());
        let source = Arc::new(ListWatch::new(server.client(), selector, Ingest::default()));
        let reflector = Reflector::new(source, Arc::clone(&store), options);
        let (status, metrics) = (reflector.status(), reflector.metrics());
        let cancel = CancellationToken::new();
        tokio::spawn(reflector.run(cancel.clone()));
        Self { store, metrics, status, cancel }
    }

    pub fn stop(&self) {
        self.cancel.cancel();
    }

    pub fn status(&self) -> ReflectorStatus {
        self.status.borrow().clone()
    }

    pub async fn wait_for(
        &self,
        what: &str,
        condition: impl FnMut(&ReflectorStatus) -> bool,
    ) -> ReflectorStatus {
        let mut status = self.status.clone();
        match tokio::time::timeout(PATIENCE, status.wait_for(condition)).await {
            Ok(status) => status.expect("the reflector lives").clone(),
            Err(_) => panic!("waited for {what}: {:#?}", self.status()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "waited for {what}");
}
