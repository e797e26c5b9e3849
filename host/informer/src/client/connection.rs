//! One HTTP/2 connection: its pings, its windows, and how many requests it has room for.
//!
//! Used by [`Streams`](super::streams::Streams). Invariants: a dead connection is given up after ping interval
//! plus ping timeout, and every stream on it ends then; there are never more streams than the server allows, so
//! that none waits inside the connection; a stream that nobody reads holds up no other.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http2::{Builder, Connection as Protocol, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioTimer;
use kube::client::Body;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use super::ClientLimits;
use super::dial::{BoxError, Wire};

/// What one stream may have received that was not read yet. A watch that is held back keeps no more than this in
/// memory; one that is read gets 50 MB a second at a round trip of 20 ms.
const STREAM_WINDOW: u32 = 1024 * 1024;

/// A connection that is up. Ends when it breaks, when its pings are not answered, or when nobody has it any more and
/// its streams are done.
pub(super) struct Connection {
    sender: SendRequest<Body>,
    /// How many streams the server allows at present.
    allowed: watch::Receiver<usize>,
    most: usize,
    open: AtomicUsize,
    /// How many requests it was ever given.
    served: AtomicUsize,
}

impl Connection {
    /// Speaks HTTP/2 on `wire` and waits for the server's settings, since only they say how many streams it allows.
    ///
    /// # Errors
    /// The server does not speak HTTP/2, or goes away.
    pub(super) async fn open(wire: Wire, limits: &ClientLimits, runtime: &Handle) -> Result<Self, BoxError> {
        let executor = Noticing { runtime: runtime.clone(), moved: Arc::default() };
        let moved = Arc::clone(&executor.moved);
        let (sender, protocol) = builder(executor, limits).handshake(wire).await?;
        let (allow, mut allowed) = watch::channel(0);
        runtime.spawn(drive(protocol, moved, allow));
        allowed.wait_for(|allowed| *allowed > 0).await.map_err(|_| "closed before it sent its settings")?;
        let (open, served) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Ok(Self { sender, allowed, most: limits.streams.max(1), open, served })
    }

    /// Whether nothing new can be sent on it; streams that it has may still go on.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// A place for one more stream, if there is one. Called by one at a time.
    pub(super) fn lease(self: &Arc<Self>) -> Option<Lease> {
        let room = self.most.min(*self.allowed.borrow());
        if self.is_closed() || self.open.load(Ordering::Acquire) >= room {
            return None;
        }
        self.open.fetch_add(1, Ordering::AcqRel);
        let is_first = self.served.fetch_add(1, Ordering::Relaxed) == 0;
        Some(Lease { connection: Arc::clone(self), is_first })
    }
}

/// The connection window is that of all streams together, 100 MiB for 100 of them: those that nobody reads leave the
/// others theirs. It is a bound, not an allocation.
fn builder(executor: Noticing, limits: &ClientLimits) -> Builder<Noticing> {
    let streams = u32::try_from(limits.streams.max(1)).unwrap_or(u32::MAX);
    let whole = STREAM_WINDOW.saturating_mul(streams).min(i32::MAX.unsigned_abs());
    let mut builder = Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.ping_interval)
        .keep_alive_timeout(limits.ping_timeout)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(whole)
        // None until the settings are there: that is how they are told from a guess.
        .initial_max_send_streams(0);
    builder
}

/// Takes requests to their streams until the connection ends, and tells how many the server allows.
async fn drive(
    mut protocol: Protocol<Wire, Body, Noticing>,
    moved: Arc<Notify>,
    allow: watch::Sender<usize>,
) {
    loop {
        tokio::select! {
            // The settings first: a server may say goodbye in the same breath.
            biased;
            () = moved.notified() => {
                let now = protocol.current_max_send_streams();
                allow.send_if_modified(|allowed| std::mem::replace(allowed, now) != now);
            }
            ended = &mut protocol => {
                if let Err(error) = ended {
                    tracing::debug!("an HTTP/2 connection ended: {error}");
                }
                return;
            }
        }
    }
}

/// Runs the parts of a connection, and says each time that one has moved: a change of the server's settings is told in
/// no other way.
#[derive(Clone)]
struct Noticing {
    runtime: Handle,
    moved: Arc<Notify>,
}

impl<F> hyper::rt::Executor<F> for Noticing
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, part: F) {
        let moved = Arc::clone(&self.moved);
        let mut part = Box::pin(part);
        self.runtime.spawn(std::future::poll_fn(move |cx| {
            let polled = part.as_mut().poll(cx);
            moved.notify_one();
            polled
        }));
    }
}

/// A stream's place on a connection, kept until its answer is dropped.
pub(super) struct Lease {
    connection: Arc<Connection>,
    is_first: bool,
}

/// Why a request has no answer.
pub(super) enum SendError {
    /// It never left: the connection had ended before, but not for its first request.
    Unsent(Box<Request<Body>>),
    /// Anything else; the server may have seen it.
    Failed(hyper::Error),
}

impl Lease {
    /// Sends a request; the place goes over to the answer's body.
    pub(super) async fn send(self, request: Request<Body>) -> Result<Response<LeasedBody>, SendError> {
        let sent = self.connection.sender.clone().try_send_request(request).await;
        match sent {
            Ok(response) => Ok(response.map(|body| LeasedBody { body, _lease: Some(self) })),
            Err(error) => Err(self.sort(error)),
        }
    }

    fn sort(&self, mut error: TrySendError<Request<Body>>) -> SendError {
        match error.take_message() {
            Some(request) if !self.is_first => SendError::Unsent(Box::new(request)),
            _ => SendError::Failed(error.into_error()),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.connection.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// An answer's body, with its place if it came over HTTP/2. The body goes first when dropped: its stream is reset
/// before the place is free.
pub(super) struct LeasedBody {
    body: Incoming,
    _lease: Option<Lease>,
}

impl LeasedBody {
    /// One that came over a connection of its own.
    pub(super) fn alone(body: Incoming) -> Self {
        Self { body, _lease: None }
    }
}

impl HttpBody for LeasedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use http_body_util::Empty;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    use super::*;

    /// A connection without TLS, and the server at its other end.
    async fn connected() -> (Arc<Connection>, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let ours = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("the server");
        let (theirs, _) = listener.accept().await.expect("the client");
        let server = tokio::spawn(async move {
            let answer = service_fn(async |_| Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())));
            let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = serving.serve_connection(TokioIo::new(theirs), answer).await;
        });
        let limits = ClientLimits { streams: 2, ..ClientLimits::default() };
        let opened = Connection::open(Wire::plain(ours), &limits, &Handle::current()).await;
        (Arc::new(opened.expect("a connection")), server)
    }

    fn request() -> Request<Body> {
        Request::get("http://test/path").body(Body::empty()).expect("a request")
    }

    async fn end(connection: &Connection, server: JoinHandle<()>) {
        server.abort();
        let _ = server.await;
        let closed = async {
            while !connection.is_closed() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), closed).await.expect("closed in time");
    }

    #[tokio::test]
    async fn there_are_as_many_places_as_allowed_and_each_comes_back() {
        let (connection, _server) = connected().await;
        let (first, second) = (connection.lease().expect("a place"), connection.lease().expect("a place"));
        assert!(connection.lease().is_none(), "both are taken");
        drop(first);
        let again = connection.lease().expect("the first's place");
        let answer = again.send(request()).await.ok().expect("an answer");
        assert!(connection.lease().is_none(), "an answer keeps its place");
        drop((answer, second));
        assert!(connection.lease().is_some());
    }

    #[tokio::test]
    async fn a_request_that_never_left_is_given_back_but_for_a_connections_first() {
        let (connection, server) = connected().await;
        let (first, second) = (connection.lease().expect("a place"), connection.lease().expect("a place"));
        end(&connection, server).await;
        assert!(
            matches!(first.send(request()).await, Err(SendError::Failed(_))),
            "or it would go round for ever"
        );
        match second.send(request()).await {
            Err(SendError::Unsent(unsent)) => assert_eq!(unsent.uri(), "http://test/path"),
            _ => panic!("it did not come back"),
        }
        assert!(connection.lease().is_none(), "no place on a connection that ended");
    }
}
