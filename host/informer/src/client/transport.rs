//! What sends a request: kube's credentials and addresses on top of connections of our own.
//!
//! kube's own connections speak HTTP/1.1 and have no pings, so that a watch on one that is dead at the other end
//! goes unnoticed until its time is over (pitfall #65012). Used by [`config`](super::config). Invariant: no request
//! is sent twice. Only one that never left, because its connection had just ended, goes out on another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::uri::Scheme;
use http::{Request, Response};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::config::Config;
use tokio::runtime::Handle;
use tower_service::Service;

use super::ClientLimits;
use super::connection::{LeasedBody, SendError};
use super::dial::{BoxError, Dialer};
use super::http1::{Http1, is_http2};
use super::streams::{Place, Streams};

/// kube's client of the server that `config` names, sending over [`Transport`]. Nothing in it retries: that would hide
/// 429s and their `Retry-After` from the reflector, which owns retrying.
///
/// # Errors
/// What the configuration says cannot be used; or there is no tokio runtime here.
pub(super) fn build(config: &Config, limits: ClientLimits) -> Result<kube::Client, BoxError> {
    let runtime = Handle::try_current()?;
    let auth = config.auth_layer()?;
    let valid_until = if auth.is_none() && config.auth_info.exec.is_some() {
        // An exec plugin that gives a certificate. Only kube can tell when it ends, and only of a client of its own,
        // made first: ours is then the newer one.
        *ClientBuilder::try_from(config.clone())?.build().valid_until()
    } else {
        None
    };
    let transport = Transport::new(config, limits, runtime)?;
    let stack = ClientBuilder::new(transport, config.default_namespace.clone())
        .with_layer(&config.extra_headers_layer()?)
        .with_valid_until(valid_until);
    let base = config.base_uri_layer();
    Ok(match auth {
        Some(auth) => stack.with_layer(&auth).with_layer(&base).build(),
        None => stack.with_layer(&base).build(),
    })
}

/// Sends over HTTP/2 where the server offers it in the TLS handshake, else over HTTP/1.1. Cheap to clone.
#[derive(Clone)]
pub(super) struct Transport {
    streams: Streams,
    http1: Arc<Http1>,
    /// The server did not offer HTTP/2 when asked last.
    speaks_http1: Arc<AtomicBool>,
}

impl Transport {
    fn new(config: &Config, limits: ClientLimits, runtime: Handle) -> Result<Self, BoxError> {
        let dialer = Dialer::new(config, limits.connect, runtime)?;
        // Without TLS there is no handshake to offer it in.
        let speaks_http1 = config.cluster_url.scheme() != Some(&Scheme::HTTPS);
        Ok(Self {
            streams: Streams::new(dialer.clone(), limits),
            http1: Arc::new(Http1::new(dialer)),
            speaks_http1: Arc::new(AtomicBool::new(speaks_http1)),
        })
    }

    async fn send(self, request: Request<Body>) -> Result<Response<LeasedBody>, BoxError> {
        let mut request = request;
        while !self.speaks_http1.load(Ordering::Relaxed) {
            let lease = match self.streams.place().await? {
                Place::Stream(lease) => lease,
                Place::Http1(spare) => {
                    self.speaks_http1.store(true, Ordering::Relaxed);
                    if let Some(wire) = spare {
                        self.http1.offer(wire);
                    }
                    break;
                }
            };
            request = match lease.send(request).await {
                Ok(response) => return Ok(response),
                Err(SendError::Unsent(unsent)) => *unsent,
                Err(SendError::Failed(error)) => return Err(error.into()),
            };
        }
        self.send_over_http1(request).await
    }

    async fn send_over_http1(&self, request: Request<Body>) -> Result<Response<LeasedBody>, BoxError> {
        match self.http1.send(request).await {
            Ok(response) => Ok(response.map(LeasedBody::alone)),
            Err(error) => {
                if is_http2(&error) {
                    self.speaks_http1.store(false, Ordering::Relaxed);
                }
                Err(error.into())
            }
        }
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<LeasedBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<LeasedBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.clone().send(request).boxed()
    }
}
