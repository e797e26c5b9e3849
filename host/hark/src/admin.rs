//! The admin port: what runs, how it does and what it counts, for people, probes and Prometheus.
//!
//! Started by the composition root; reads what the manager publishes and what the informers count, at the moment of
//! a request. One task, `admin`, accepts connections and owns one small task for each; it ends when [`Serving`] is
//! dropped. Invariants: nothing here waits for a plugin, or holds a lock across an await; a connection is one
//! request, lasts no longer than [`CONNECTION`], and when there are too many the oldest gives way, so that no crowd
//! of idle clients keeps a probe out.

mod address;
mod api;
mod exposition;
mod http;
mod metrics;
mod pulse;
mod readiness;
mod replay;
mod snapshot;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hark_apiserver::Refusals;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tracing::Instrument;

pub(crate) use self::address::AdminAddress;
pub(crate) use self::pulse::{Heart, pulse};
pub(crate) use self::replay::GUARD;
pub(crate) use self::snapshot::Sources;

/// Connections at a time. Prometheus and a kubelet need three.
const CONNECTIONS: usize = 64;

/// How long a client may take to say what it wants.
const HEADER: Duration = Duration::from_secs(5);

/// How long a connection may last in all: `/livez` waits 2 s at most, the rest is for slow readers.
const CONNECTION: Duration = Duration::from_secs(15);

/// Bytes of a request's head that are read; larger ones are answered with 431.
const HEAD_BYTES: usize = 16 << 10;

/// The admin port cannot be had.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot open the admin port on {address}: {source}; choose another with --admin ADDR, or none with --admin off"
)]
pub(crate) struct AdminError {
    address: SocketAddr,
    source: io::Error,
}

impl AdminError {
    /// Whether another process has the address.
    pub(crate) fn is_in_use(&self) -> bool {
        self.source.kind() == io::ErrorKind::AddrInUse
    }
}

/// An admin port that is open, and answers nobody yet.
pub(crate) struct Admin {
    listener: TcpListener,
    address: SocketAddr,
}

/// The admin task; dropping it ends the task and its connections.
pub(crate) struct Serving {
    task: AbortHandle,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Admin {
    /// Opens the port.
    ///
    /// # Errors
    /// If it cannot be had.
    pub(crate) async fn bind(address: SocketAddr) -> Result<Self, AdminError> {
        let failed = |source| AdminError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Where it is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts to answer.
    pub(crate) fn serve(self, sources: Sources) -> Serving {
        let span = tracing::info_span!("admin");
        let task = tokio::spawn(accept(self.listener, Arc::new(sources)).instrument(span));
        Serving { task: task.abort_handle() }
    }
}

/// The admin task. Never ends by itself.
async fn accept(listener: TcpListener, sources: Arc<Sources>) {
    let (mut connections, mut refusals) = (Connections::default(), Refusals::default());
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    refusals.accepted();
                    connections.admit(serve(stream, sources.clone()));
                }
                Err(error) => refusals.refused(&error).await,
            },
            // Nothing to learn from one that is over; a panic in it was reported by the panic hook.
            Some(_) = connections.tasks.join_next() => {}
        }
    }
}

/// The connections there are, at most [`CONNECTIONS`].
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    /// In the order in which they came.
    order: VecDeque<AbortHandle>,
}

impl Connections {
    /// Takes one more in; the oldest gives way if there is no room.
    fn admit(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        self.order.retain(|task| !task.is_finished());
        if self.order.len() >= CONNECTIONS
            && let Some(oldest) = self.order.pop_front()
        {
            oldest.abort();
        }
        self.order.push_back(self.tasks.spawn(connection));
    }
}

/// One connection: one request and its answer.
async fn serve(stream: TcpStream, sources: Arc<Sources>) {
    let service = service_fn(move |request| {
        let sources = sources.clone();
        async move { Ok::<_, Infallible>(http::answer(&request, &sources).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER)
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("a connection failed: {error}"),
        Err(_) => tracing::debug!("a connection was too slow"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_too_many_connections_the_oldest_give_way_and_those_that_are_over_do_not_count() {
        let mut connections = Connections::default();
        for _ in 0..CONNECTIONS {
            connections.admit(std::future::ready(()));
        }
        while connections.tasks.join_next().await.is_some() {}
        for _ in 0..CONNECTIONS + 3 {
            connections.admit(std::future::pending());
        }
        assert_eq!(connections.order.len(), CONNECTIONS);
        for _ in 0..3 {
            let ended = connections.tasks.join_next().await;
            assert!(ended.is_some_and(|ended| ended.is_err_and(|error| error.is_cancelled())));
        }
        assert_eq!(connections.tasks.len(), CONNECTIONS);
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_an_error_that_says_what_to_do() {
        let first = Admin::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a free port");
        let error = Admin::bind(first.address()).await.err().expect("taken");
        assert!(error.is_in_use());
        let message = error.to_string();
        let begin = format!("cannot open the admin port on {}: ", first.address());
        assert!(message.starts_with(&begin) && message.contains("--admin off"), "{message}");
    }
}
