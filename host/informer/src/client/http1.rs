//! Requests over HTTP/1.1: one at a time on a connection, for servers and proxies that speak nothing newer.
//!
//! Used by [`Transport`](super::transport::Transport). Invariant: no HTTP/2 connection is ever used here, since it
//! would have no pings.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::TokioTimer;
use kube::client::Body;
use tokio::runtime::Handle;
use tower_service::Service;

use super::dial::{BoxError, Dialer, Wire};

/// Most connections kept for later. A watch has one for itself while it runs.
const MOST_IDLE: usize = 16;

/// The HTTP/1.1 connections to one server.
pub(super) struct Http1 {
    client: legacy::Client<Connector, Body>,
    spare: Arc<Mutex<Option<Wire>>>,
}

impl Http1 {
    /// Makes no connection yet.
    pub(super) fn new(dialer: Dialer) -> Self {
        let spare = Arc::default();
        let executor = OnRuntime(dialer.runtime().clone());
        let connector = Connector { dialer, spare: Arc::clone(&spare) };
        let client = legacy::Client::builder(executor)
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(MOST_IDLE)
            .build(connector);
        Self { client, spare }
    }

    /// A connection made elsewhere, for the next request that needs a new one.
    pub(super) fn offer(&self, wire: Wire) {
        *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(wire);
    }

    /// # Errors
    /// No connection, or it broke before the head of the answer; [`is_http2`] if the server speaks HTTP/2 now.
    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, legacy::Error> {
        self.client.request(request).await
    }
}

/// The server chose HTTP/2 on a connection meant for HTTP/1.1.
#[derive(Debug, thiserror::Error)]
#[error("the server has changed to HTTP/2")]
struct ChoseHttp2;

/// Whether a request failed because the server speaks HTTP/2 now. It was not sent.
pub(super) fn is_http2(error: &legacy::Error) -> bool {
    std::iter::successors(Some(error as &dyn std::error::Error), |&error| error.source())
        .any(|error| error.is::<ChoseHttp2>())
}

#[derive(Clone)]
struct Connector {
    dialer: Dialer,
    spare: Arc<Mutex<Option<Wire>>>,
}

impl Service<Uri> for Connector {
    type Response = Wire;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Wire, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
        let dialer = self.dialer.clone();
        async move {
            let wire = match spare {
                Some(wire) => wire,
                None => dialer.dial().await?,
            };
            if wire.is_http2() { Err(ChoseHttp2.into()) } else { Ok(wire) }
        }
        .boxed()
    }
}

/// Runs the parts of connections on the client's own runtime.
#[derive(Clone)]
struct OnRuntime(Handle);

impl hyper::rt::Executor<Pin<Box<dyn Future<Output = ()> + Send>>> for OnRuntime {
    fn execute(&self, part: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(part);
    }
}
