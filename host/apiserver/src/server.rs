//! The server as a whole: its configuration, its life, the connections, and the handle to it.
//!
//! Used by `hark dev` and by tests. One task accepts, one task serves each connection. Invariant: once
//! `shutdown` has returned, no task of this server is left and its port is free.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::direct;
use crate::faults::{Faults, LastWords, Rules};
use crate::kubeconfig;
use crate::refusals::Refusals;
use crate::registry::Registry;
use crate::resources::built_in;
use crate::service::Service;
use crate::status::ApiError;
use crate::store::{Limits, Store};

/// How to run a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen; port 0 takes a free one. Only loopback addresses are accepted, since there is no
    /// authentication. Default 127.0.0.1:0.
    pub address: SocketAddr,
    /// Revision the counter starts at. Default 100: never 1, so that nobody takes versions for small indexes.
    pub start_revision: u64,
    /// How many changes are remembered for each resource. Default 4096.
    pub history: usize,
    /// How many changes may wait for a watcher before it is cut off. Default 4096.
    pub watch_buffer: usize,
    /// How often a watch with bookmarks gets one. Default a minute, as a kube-apiserver.
    pub bookmark_interval: Duration,
    /// How long a request waits for a version that is still to come. Default 3 s, as a kube-apiserver.
    pub patience: Duration,
    /// Longest request body. Default 3 MiB, as a kube-apiserver.
    pub max_body: usize,
    /// Namespaces made at the start, besides `default` and the `kube-` ones. Default none.
    pub namespaces: Vec<String>,
    /// How long `shutdown` lets requests finish before it closes their connections. Default 1 s.
    pub grace: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            start_revision: 100,
            history: 4096,
            watch_buffer: 4096,
            bookmark_interval: Duration::from_secs(60),
            patience: Duration::from_secs(3),
            max_body: 3 * 1024 * 1024,
            namespaces: Vec::new(),
            grace: Duration::from_secs(1),
        }
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address can be reached from other machines, which a server without authentication must not.
    #[error("{0} is not a loopback address")]
    NotLoopback(SocketAddr),
    /// The address could not be had.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// An in-memory Kubernetes API server.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Starts a server, which is ready when this returns.
    pub async fn start(config: Config) -> Result<Handle, StartError> {
        let address = config.address;
        if !address.ip().is_loopback() {
            return Err(StartError::NotLoopback(address));
        }
        let bind = |source| StartError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let Config { history, watch_buffer, patience, .. } = config;
        let limits = Limits { history, watch_buffer, patience };
        let start = config.start_revision;
        let store = Arc::new(Store::new(Registry::new(built_in(), start), start, limits));
        direct::create_namespaces(&store, &config.namespaces);
        let rules = Arc::new(Rules::default());
        let service = Service {
            store: Arc::clone(&store),
            rules: Arc::clone(&rules),
            address,
            max_body: config.max_body,
            bookmark_interval: config.bookmark_interval,
        };
        let (listening, commands) = Listening::new();
        let stop = CancellationToken::new();
        let tracker = TaskTracker::new();
        let accept = Accept {
            service: Arc::new(service),
            address,
            stop: stop.clone(),
            kill: listening.kill.subscribe(),
            tracker: tracker.clone(),
        };
        let task = tokio::spawn(accept.run(listener, commands));
        tracing::debug!(%address, "serving");
        let faults = Faults { store: Arc::clone(&store), rules, listening };
        Ok(Handle { address, store, faults, stop, tracker, task, grace: config.grace })
    }
}

/// A running server. Dropping the handle stops it, without waiting.
#[derive(Debug)]
pub struct Handle {
    address: SocketAddr,
    store: Arc<Store>,
    faults: Faults,
    stop: CancellationToken,
    tracker: TaskTracker,
    task: JoinHandle<()>,
    grace: Duration,
}

impl Handle {
    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig for it.
    pub fn kubeconfig(&self) -> String {
        kubeconfig::text(&self.url())
    }

    /// Writes the kubeconfig to a file.
    pub fn write_kubeconfig(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.kubeconfig())
    }

    /// Faults on demand.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.store.revision()
    }

    /// Creates an object from a document with apiVersion and kind; the answer is the object as created.
    pub fn create(&self, document: Value) -> Result<Value, ApiError> {
        direct::create(&self.store, document)
    }

    /// Replaces an object, all but its status.
    pub fn update(&self, document: Value) -> Result<Value, ApiError> {
        direct::update(&self.store, document, crate::write::Part::Main)
    }

    /// Replaces the status of an object.
    pub fn update_status(&self, document: Value) -> Result<Value, ApiError> {
        direct::update(&self.store, document, crate::write::Part::Status)
    }

    /// Creates an object, or replaces it if it is there.
    pub fn apply(&self, document: Value) -> Result<Value, ApiError> {
        direct::apply(&self.store, document)
    }

    /// Deletes the object that a document names by apiVersion, kind, namespace and name.
    pub fn delete(&self, document: &Value) -> Result<Value, ApiError> {
        direct::delete(&self.store, document)
    }

    /// The object that a document names.
    pub fn get(&self, document: &Value) -> Result<Value, ApiError> {
        direct::get(&self.store, document)
    }

    /// All objects of a kind, in all namespaces.
    pub fn list(&self, api_version: &str, kind: &str) -> Result<Vec<Value>, ApiError> {
        direct::list(&self.store, api_version, kind)
    }

    /// Stops listening, ends the watches, lets other requests finish for a moment, and closes what is left.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.store.lock().cut_watches(LastWords::Nothing, false);
        self.tracker.close();
        if tokio::time::timeout(self.grace, self.tracker.wait()).await.is_err() {
            self.faults.listening.kill_connections();
            self.tracker.wait().await;
        }
        self.task.abort();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.cancel();
        self.faults.listening.kill_connections();
        self.task.abort();
    }
}

/// Whether new connections are accepted, and the end of open ones.
#[derive(Debug, Clone)]
pub(crate) struct Listening {
    commands: mpsc::Sender<Command>,
    kill: Arc<watch::Sender<u64>>,
}

#[derive(Debug)]
struct Command {
    listen: bool,
    done: oneshot::Sender<bool>,
}

impl Listening {
    fn new() -> (Self, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel(1);
        (Listening { commands, kill: Arc::new(watch::Sender::new(0)) }, receiver)
    }

    /// Starts or stops listening; the answer is whether that is so now.
    pub(crate) async fn set(&self, listen: bool) -> bool {
        let (done, answer) = oneshot::channel();
        if self.commands.send(Command { listen, done }).await.is_err() {
            return false;
        }
        answer.await.unwrap_or(false)
    }

    pub(crate) fn kill_connections(&self) {
        self.kill.send_modify(|times| *times += 1);
    }
}

/// The accept loop.
struct Accept {
    service: Arc<Service>,
    address: SocketAddr,
    stop: CancellationToken,
    kill: watch::Receiver<u64>,
    tracker: TaskTracker,
}

impl Accept {
    async fn run(self, listener: TcpListener, mut commands: mpsc::Receiver<Command>) {
        let (mut listener, mut refusals) = (Some(listener), Refusals::default());
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                command = commands.recv() => {
                    let Some(command) = command else { return };
                    let ok = self.obey(&mut listener, command.listen).await;
                    // Whoever asked may have given up waiting.
                    let _ = command.done.send(ok);
                }
                stream = accept(listener.as_ref(), &mut refusals) => self.serve(stream),
            }
        }
    }

    async fn obey(&self, listener: &mut Option<TcpListener>, listen: bool) -> bool {
        if !listen {
            *listener = None;
            return true;
        }
        if listener.is_none() {
            match TcpListener::bind(self.address).await {
                Ok(bound) => *listener = Some(bound),
                Err(error) => tracing::warn!(%error, address = %self.address, "cannot listen again"),
            }
        }
        listener.is_some()
    }

    fn serve(&self, stream: TcpStream) {
        let service = Arc::clone(&self.service);
        let (stop, mut kill) = (self.stop.clone(), self.kill.clone());
        kill.mark_unchanged();
        self.tracker.spawn(async move {
            // Events are small and must not wait for more of them.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "cannot set TCP_NODELAY");
            }
            let handler = hyper::service::service_fn(move |request| {
                let service = Arc::clone(&service);
                async move { service.handle(request).await }
            });
            let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            let connection = builder.serve_connection(TokioIo::new(stream), handler);
            tokio::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                _ = kill.changed() => return,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    tokio::select! {
                        ended = connection.as_mut() => ended,
                        _ = kill.changed() => return,
                    }
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
}

/// The next connection; waits for ever while not listening, and after errors such as too many open files.
async fn accept(listener: Option<&TcpListener>, refusals: &mut Refusals) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                refusals.accepted();
                return stream;
            }
            Err(error) => refusals.refused(&error).await,
        }
    }
}
