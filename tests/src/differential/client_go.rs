//! client-go's side: one process for each of its queues, with many informers, spoken to in lines of JSON.
//!
//! Used by the player. Invariants: a process ends when its [`Process`] is dropped, since its standard input ends
//! then; a report goes to the recorder of the script whose informer it is of; if the process ends by itself,
//! every recorder learns of it.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use super::event::{Event, State, Told};
use super::recorder::{Book, Recorder};
use super::stage::{Held, LABEL, Resource};
use crate::go_binary::GoBinary;

/// Requests that may wait for the process to read them.
const BACKLOG: usize = 1024;

/// The newest release, whose queue is in order.
const IN_ORDER: GoBinary = GoBinary {
    folder: "differential",
    name: "hark-differential",
    what: "client-go",
    module_file: "go.mod",
    version_of: "k8s.io/client-go",
    flags: &["-mod=readonly", "-trimpath", "-buildvcs=false", "-modfile=go.mod"],
    linker_flags: |_| "-s -w".into(),
    takes: "a few minutes",
};

/// The newest release that still has the classic queue.
const CLASSIC: GoBinary = GoBinary {
    module_file: "classic.mod",
    flags: &["-mod=readonly", "-trimpath", "-buildvcs=false", "-modfile=classic.mod"],
    ..IN_ORDER
};

/// One of client-go's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// RealFIFO.
    InOrder,
    /// DeltaFIFO.
    Classic,
}

/// A running process.
pub struct Process {
    requests: mpsc::Sender<String>,
    routes: Routes,
    _child: Child,
}

/// Whose informer it is, by its name.
#[derive(Clone, Default)]
struct Routes(Arc<Mutex<HashMap<String, Route>>>);

struct Route {
    recorder: Arc<Recorder>,
    resource: Resource,
}

/// A line of its standard output.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Report {
    id: String,
    listener: String,
    op: String,
    key: String,
    uid: String,
    rv: String,
    old_uid: String,
    old_rv: String,
    initial: bool,
    unknown: bool,
    cache: Option<BTreeMap<String, Cached>>,
    left: bool,
    stopped: bool,
    error: String,
}

#[derive(Debug, Deserialize)]
struct Cached {
    uid: String,
    rv: String,
    text: String,
}

/// The binary for a queue, built when first needed; none where it cannot be, which was said. Blocks.
///
/// # Errors
/// If the build fails.
pub(super) fn ensure_built(queue: Queue) -> Result<Option<PathBuf>> {
    match queue {
        Queue::InOrder => IN_ORDER.ensure_built(),
        Queue::Classic => CLASSIC.ensure_built(),
    }
}

impl Process {
    /// Starts a binary for a queue.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(binary: &PathBuf, queue: Queue) -> Result<Self> {
        let mut command = Command::new(binary);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // Locked to true, and so not to be set at all, in newer releases.
        if queue == Queue::Classic {
            command.env("KUBE_FEATURE_InOrderInformers", "false");
        }
        let mut child = command.spawn().with_context(|| format!("starting {}", binary.display()))?;
        let input = child.stdin.take().context("no standard input")?;
        let output = child.stdout.take().context("no standard output")?;
        let (requests, waiting) = mpsc::channel(BACKLOG);
        let routes = Routes::default();
        tokio::spawn(write(input, waiting));
        tokio::spawn(read(output, routes.clone()));
        Ok(Self { requests, routes, _child: child })
    }

    async fn ask(&self, request: Value) -> Result<()> {
        self.requests.send(format!("{request}\n")).await.context("client-go's process has ended")
    }
}

async fn write(mut input: ChildStdin, mut requests: mpsc::Receiver<String>) {
    while let Some(request) = requests.recv().await {
        if input.write_all(request.as_bytes()).await.is_err() {
            return; // the reader tells of its end
        }
    }
}

async fn read(output: ChildStdout, routes: Routes) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str::<Report>(&line) {
            Ok(report) => routes.deliver(report),
            Err(error) => routes.fail(&format!("client-go's process said {line:?}: {error}")),
        }
    }
    routes.fail("client-go's process has ended");
}

impl Routes {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Route>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, report: Report) {
        let mut routes = self.lock();
        let Some(Route { recorder, resource }) = routes.get(&report.id) else { return };
        recorder.write(|book| note(book, *resource, &report));
        if report.stopped {
            routes.remove(&report.id);
        }
    }

    fn fail(&self, problem: &str) {
        for route in self.lock().values() {
            route.recorder.write(|book| book.errors.push(problem.to_owned()));
        }
    }
}

/// Writes a report down.
fn note(book: &mut Book, resource: Resource, report: &Report) {
    if !report.error.is_empty() {
        book.errors.push(report.error.clone());
    }
    if let Some(cache) = &report.cache {
        let held = |cached: &Cached| Held {
            state: State { uid: cached.uid.clone(), version: cached.rv.clone() },
            text: cached.text.clone(),
        };
        book.caches.push(cache.iter().map(|(key, cached)| (resource.key(key), held(cached))).collect());
    }
    if report.left {
        *book.left.entry(report.listener.clone()).or_default() += 1;
    }
    let state = State { uid: report.uid.clone(), version: report.rv.clone() };
    let told = match report.op.as_str() {
        "add" => Told::Add { state, initial: report.initial },
        "update" => {
            let old = State { uid: report.old_uid.clone(), version: report.old_rv.clone() };
            Told::Update { old, new: state, resync: false }
        }
        "delete" => Told::Delete { state, unknown: report.unknown },
        _ => return,
    };
    let event = Event { key: resource.key(&report.key), told };
    book.told.entry(report.listener.clone()).or_default().push(event);
}

/// One script's informers in the process.
pub(super) struct ClientGo {
    process: Arc<Process>,
    recorder: Arc<Recorder>,
    ids: Vec<String>,
}

impl ClientGo {
    /// Starts an informer for each resource, with a first listener.
    pub(super) async fn start(
        process: &Arc<Process>,
        script: &str,
        url: &str,
        resources: &[Resource],
        selects: bool,
        (listener, resync): (&str, Option<Duration>),
        recorder: Arc<Recorder>,
    ) -> Result<Self> {
        let mut ids = Vec::new();
        for resource in resources {
            let id = format!("{script} {}", resource.plural());
            let route = Route { recorder: Arc::clone(&recorder), resource: *resource };
            process.routes.lock().insert(id.clone(), route);
            let selector = if selects { LABEL } else { "" };
            let start = json!({
                "do": "start", "id": id, "url": url, "resource": resource.plural(), "selector": selector,
                "listener": listener, "resync_ms": millis(resync),
            });
            process.ask(start).await?;
            ids.push(id);
        }
        Ok(Self { process: Arc::clone(process), recorder, ids })
    }

    /// Adds a listener to every informer.
    pub(super) async fn listen(&self, name: &str, resync: Option<Duration>) -> Result<()> {
        self.all(json!({"do": "listen", "listener": name, "resync_ms": millis(resync)})).await
    }

    /// Removes a listener from every informer.
    pub(super) async fn leave(&self, name: &str) -> Result<()> {
        self.all(json!({"do": "leave", "listener": name})).await
    }

    /// What the caches hold.
    pub(super) async fn cache(&self) -> Result<BTreeMap<String, Held>> {
        self.recorder.write(|book| book.caches.clear());
        self.all(json!({"do": "cache"})).await?;
        let wanted = self.ids.len();
        self.recorder.until(|book| book.caches.len() >= wanted || !book.errors.is_empty()).await;
        Ok(self.recorder.read(|book| {
            book.caches.iter().flatten().map(|(key, held)| (key.clone(), held.clone())).collect()
        }))
    }

    /// Stops the informers; they end by themselves.
    pub(super) async fn stop(self) -> Result<()> {
        self.all(json!({"do": "stop"})).await
    }

    async fn all(&self, request: Value) -> Result<()> {
        for id in &self.ids {
            let mut request = request.clone();
            request["id"] = json!(id);
            self.process.ask(request).await?;
        }
        Ok(())
    }
}

fn millis(resync: Option<Duration>) -> u128 {
    resync.map_or(0, |period| period.as_millis())
}
