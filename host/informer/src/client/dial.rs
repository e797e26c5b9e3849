//! Makes connections: TCP, through a proxy where one is configured, and TLS that offers HTTP/2.
//!
//! Used by [`Transport`](super::transport::Transport) and [`Streams`](super::streams::Streams). Invariants:
//! making one never takes longer than its limit; connections live on the runtime that the client was made on,
//! whoever asks for them, so that none dies with the asker.

use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use kube::client::ConfigExt as _;
use kube::config::Config;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tower_service::Service;

/// Any error on the way to a connection.
pub(super) type BoxError = Box<dyn StdError + Send + Sync>;

/// TCP keep-alive: a first probe after this long without traffic, as client-go's connections.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
/// Then a probe so often …
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
/// … and so many before the kernel gives the connection up: 45 s in all, as the pings of HTTP/2. It only sees the
/// next hop, which may be a proxy.
const KEEPALIVE_PROBES: u32 = 3;

/// What a connection's bytes go through.
trait Io: Read + Write + Connection + Send + Unpin {}

impl<T: Read + Write + Connection + Send + Unpin> Io for T {}

/// A connection before anything was said on it.
pub(super) struct Wire(Box<dyn Io>);

impl Wire {
    /// Whether the server chose HTTP/2 in the TLS handshake.
    pub(super) fn is_http2(&self) -> bool {
        self.0.connected().is_negotiated_h2()
    }
}

type Connect = dyn Fn(Uri) -> BoxFuture<'static, Result<Wire, BoxError>> + Send + Sync;

/// Makes connections to one server. Cheap to clone.
#[derive(Clone)]
pub(super) struct Dialer {
    connect: Arc<Connect>,
    server: Uri,
    limit: Duration,
    runtime: Handle,
}

impl Dialer {
    /// # Errors
    /// The configuration's certificates, keys, server name or proxy cannot be used.
    pub(super) fn new(config: &Config, limit: Duration, runtime: Handle) -> Result<Self, BoxError> {
        let tcp = tcp();
        let connect = match &config.proxy_url {
            None => secured(config, tcp)?,
            Some(proxy) => match proxy.scheme_str() {
                Some("http") => secured(config, tunnel(proxy, tcp)?)?,
                Some("https") => {
                    let to_proxy = config.rustls_https_connector_with_connector(tcp)?;
                    secured(config, tunnel(proxy, to_proxy)?)?
                }
                other => {
                    let scheme = other.unwrap_or("no scheme");
                    return Err(format!("a proxy is spoken to with http or https, not with {scheme}").into());
                }
            },
        };
        Ok(Self { connect, server: config.cluster_url.clone(), limit, runtime })
    }

    /// The runtime that connections live on.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// A new connection to the server.
    ///
    /// # Errors
    /// Refused, timed out, not trusted.
    pub(super) async fn dial(&self) -> Result<Wire, BoxError> {
        let connecting = timeout(self.limit, (self.connect)(self.server.clone()));
        let limit = self.limit;
        self.runtime.spawn(connecting).await?.unwrap_or_else(|_| Err(too_long(limit)))
    }
}

/// That the server could not be reached within the limit.
pub(super) fn too_long(limit: Duration) -> BoxError {
    format!("no connection within {limit:?}").into()
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE_AFTER));
    tcp.set_keepalive_interval(Some(KEEPALIVE_EVERY));
    tcp.set_keepalive_retries(Some(KEEPALIVE_PROBES));
    tcp
}

/// Asks the proxy for a tunnel, with the user and password of its URL if there are any.
fn tunnel<C>(proxy: &Uri, to_proxy: C) -> Result<Tunnel<C>, BoxError> {
    let tunnel = Tunnel::new(proxy.clone(), to_proxy);
    let Some((user, _)) = proxy.authority().and_then(|authority| authority.as_str().rsplit_once('@')) else {
        return Ok(tunnel);
    };
    Ok(tunnel.with_auth(basic_auth(user)?))
}

/// `user:password` with each percent escape undone, since `Uri` leaves them.
fn basic_auth(user: &str) -> Result<HeaderValue, BoxError> {
    let plain: Vec<u8> = percent_encoding::percent_decode_str(user).collect();
    let coded = base64::engine::general_purpose::STANDARD.encode(plain);
    Ok(HeaderValue::from_str(&format!("Basic {coded}"))?)
}

/// Puts TLS on top, where the server's address says https: HTTP/2 or else HTTP/1.1, as the server chooses.
fn secured<C>(config: &Config, below: C) -> Result<Arc<Connect>, BoxError>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Connection + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let tls = HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    let tls = match &config.tls_server_name {
        Some(name) => tls.with_server_name_resolver(FixedServerNameResolver::new(name.clone().try_into()?)),
        None => tls,
    };
    let connector = tls.enable_all_versions().wrap_connector(below);
    Ok(Arc::new(move |server| {
        let mut connector = connector.clone();
        async move {
            poll_fn(|cx| connector.poll_ready(cx)).await?;
            Ok(Wire(Box::new(connector.call(server).await?)))
        }
        .boxed()
    }))
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        self.0.connected()
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, pieces)
    }
}

#[cfg(test)]
impl Wire {
    /// One without TLS.
    pub(super) fn plain(stream: tokio::net::TcpStream) -> Self {
        Self(Box::new(hyper_util::rt::TokioIo::new(stream)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxys_password_is_sent_as_it_is_meant() {
        for (user, want) in
            [("u:p", "Basic dTpw"), ("user:pa%40ss", "Basic dXNlcjpwYUBzcw=="), ("u", "Basic dQ==")]
        {
            assert_eq!(basic_auth(user).expect("a header"), want, "{user}");
        }
    }
}
