//! What a list costs in memory beyond the objects themselves, whichever way it comes, counted by the allocator.
//!
//! In a binary of its own, since the allocator counts for all of it; the tests run one after the other. The
//! server makes up its objects while it sends them, so that it does not count for much.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use hark_informer::client::{Client, ClientLimits};
use hark_informer::list_watch::{ListParams, ListWatch, ListerWatcher as _, WatchEvent, WatchParams};
use hark_informer::object::{Ingest, Object};
use hark_informer::reflector::{InitialList, Phase, Reflector, ReflectorOptions, ReflectorStore};
use hark_informer::resource::Selector;
use peak_alloc::PeakAlloc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a test on a runtime of its own, which is gone with all it held before the next test begins.
fn alone(test: impl Future<Output = ()>) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(test);
}

/// What the server has: so many objects with a text of so many bytes.
#[derive(Debug, Clone, Copy)]
struct Collection {
    objects: usize,
    text: usize,
}

impl Collection {
    fn object(self, number: usize, head: &str) -> String {
        let text = "x".repeat(self.text);
        format!(
            r#"{{{head}"metadata":{{"name":"object-{number:06}","namespace":"n","uid":"{number}","resourceVersion":"{number}"}},"data":{{"text":"{text}"}}}}"#
        )
    }

    /// Answers one request, in chunks.
    async fn answer(self, stream: &mut TcpStream, target: &str) -> std::io::Result<()> {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await?;
        let mut chunks = Chunks { stream, text: String::new() };
        if !target.contains('?') {
            let entry =
                r#"{"name":"configmaps","namespaced":true,"kind":"ConfigMap","verbs":["list","watch"]}"#;
            chunks.push(&format!(r#"{{"kind":"APIResourceList","resources":[{entry}]}}"#)).await?;
        } else if target.contains("sendInitialEvents") {
            let head = r#""kind":"ConfigMap","apiVersion":"v1","#;
            for number in 0..self.objects {
                let object = self.object(number, head);
                chunks.push(&format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n")).await?;
            }
            let meta = r#"{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}"#;
            chunks.push(&format!("{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{meta}}}}}\n")).await?;
            return chunks.flush().await;
        } else if target.contains("watch=true") {
            return chunks.flush().await;
        } else {
            chunks.push(r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"9"},"items":["#).await?;
            for number in 0..self.objects {
                let comma = if number > 0 { "," } else { "" };
                chunks.push(&format!("{comma}{}", self.object(number, ""))).await?;
            }
            chunks.push("]}").await?;
        }
        chunks.flush().await?;
        chunks.stream.write_all(b"0\r\n\r\n").await
    }
}

struct Chunks<'a> {
    stream: &'a mut TcpStream,
    text: String,
}

impl Chunks<'_> {
    async fn push(&mut self, text: &str) -> std::io::Result<()> {
        self.text.push_str(text);
        if self.text.len() > 32 * 1024 { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> std::io::Result<()> {
        if !self.text.is_empty() {
            let chunk = format!("{:x}\r\n{}\r\n", self.text.len(), self.text);
            self.stream.write_all(chunk.as_bytes()).await?;
            self.text.clear();
        }
        Ok(())
    }
}

async fn serve(collection: Collection) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = vec![0; 4096];
                loop {
                    // The client sends a head in one piece, and the next one when it has the answer.
                    let read = stream.read(&mut head).await.unwrap_or_default();
                    let text = String::from_utf8_lossy(&head[..read]).into_owned();
                    let Some(target) = text.split(' ').nth(1) else { return };
                    if collection.answer(&mut stream, target).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    Client::from_url(&url, ClientLimits::default()).expect("a client")
}

/// A store that is nothing but its objects.
#[derive(Default)]
struct Kept(Mutex<Vec<Arc<Object>>>);

impl ReflectorStore for Kept {
    async fn add(&self, _: Arc<Object>) {}

    async fn update(&self, _: Arc<Object>) {}

    async fn delete(&self, _: Arc<Object>) {}

    fn replace(&self, mut objects: Vec<Arc<Object>>, _: &str) {
        objects.shrink_to_fit();
        *self.0.lock().expect("no panic") = objects;
    }

    fn bookmark(&self, _: &str) {}
}

fn source(client: Client) -> Arc<ListWatch> {
    Arc::new(ListWatch::new(client, Selector::new("v1", "ConfigMap").in_namespace("n"), Ingest::default()))
}

/// Lists `collection` with a reflector; gives what was allocated at the most beyond what is held afterwards,
/// and what is held.
async fn list(collection: Collection, initial_list: InitialList) -> (usize, usize) {
    let client = serve(collection).await;
    let store = Arc::new(Kept::default());
    let options = ReflectorOptions { initial_list, ..ReflectorOptions::default() };
    let reflector = Reflector::new(source(client), Arc::clone(&store), options);
    let mut status = reflector.status();
    let cancel = CancellationToken::new();
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let running = tokio::spawn(reflector.run(cancel.clone()));
    status.wait_for(|status| status.phase == Phase::Watching).await.expect("running");
    let (peak, held) = (MEMORY.peak_usage(), MEMORY.current_usage());
    cancel.cancel();
    running.await.expect("no panic");
    assert_eq!(store.0.lock().expect("no panic").len(), collection.objects);
    (peak - held, held.saturating_sub(before))
}

#[test]
fn a_hundred_thousand_objects_are_taken_in_as_they_come() {
    let collection = Collection { objects: 100_000, text: 300 };
    // A list keeps a vector of pointers, which doubles as it grows; a streaming one a sorted map to find
    // what is changed meanwhile. The rest is buffers.
    for (way, per_object) in [(InitialList::List, 32), (InitialList::StreamingList, 128)] {
        alone(async {
            let (extra, held) = list(collection, way).await;
            let text = collection.objects * collection.text;
            assert!(held > text, "{way:?}: the objects are there: {held}");
            let bound = collection.objects * per_object + 2 * 1024 * 1024;
            assert!(extra < bound, "{way:?}: {extra} bytes beyond the objects' {held}");
        });
    }
}

const FEW: Collection = Collection { objects: 1000, text: 10_000 };

/// R-LIST-9, TestReflectorListExtract: what is kept of a list is what it says, not the page it came in.
#[test]
fn one_object_that_is_kept_does_not_keep_its_page_alive() {
    alone(async {
        let source = source(serve(FEW).await);
        source.resolve().await.expect("resolved");
        let before = MEMORY.current_usage();
        let params = ListParams { resource_version: "0".into(), ..ListParams::default() };
        let mut page = source.list(params).await.expect("a list");
        let whole = MEMORY.current_usage().saturating_sub(before);
        assert!(whole > FEW.objects * FEW.text, "the page is there: {whole}");
        let kept = page.items.swap_remove(500);
        drop(page);
        let held = MEMORY.current_usage().saturating_sub(before);
        assert!(held < whole / 4, "{held} bytes of {whole} for an object of {}", kept.json().len());
    });
}

#[test]
fn one_object_that_is_kept_does_not_keep_its_stream_alive() {
    alone(async {
        let source = source(serve(FEW).await);
        source.resolve().await.expect("resolved");
        let before = MEMORY.current_usage();
        let params = WatchParams { initial_events: true, ..WatchParams::default() };
        let mut events = source.watch(params).await.expect("a stream");
        let mut objects = Vec::new();
        while let Some(Ok(WatchEvent::Added(object))) = events.next().await {
            objects.push(object);
        }
        let whole = MEMORY.current_usage().saturating_sub(before);
        assert!(whole > FEW.objects * FEW.text, "the stream's objects are there: {whole}");
        let kept = objects.swap_remove(500);
        drop((objects, events));
        let held = MEMORY.current_usage().saturating_sub(before);
        assert!(held < whole / 4, "{held} bytes of {whole} for an object of {}", kept.json().len());
    });
}
