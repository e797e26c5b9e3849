//! Finds each request a place on an HTTP/2 connection, and opens another connection when there is none.
//!
//! Used by [`Transport`](super::transport::Transport). Invariants: no request waits for another's stream to end, so
//! that a list is never stuck behind watches that take all streams of a connection; one connection is made at a
//! time, and who waits for it shares its failure; no lock is held across an await.
//!
//! Connections with nothing to do are left to the server, which closes them (kube-apiserver: after 90 s).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::ClientLimits;
use super::connection::{Connection, Lease};
use super::dial::{BoxError, Dialer, Wire, too_long};

/// The HTTP/2 connections to one server. Cheap to clone.
#[derive(Clone)]
pub(super) struct Streams {
    dialer: Dialer,
    limits: ClientLimits,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The oldest first: it is filled first, so that the others fall idle.
    connections: Vec<Arc<Connection>>,
    dialing: Option<Dialing>,
    /// A connection on which the server chose HTTP/1.1, for whoever speaks that.
    spare: Option<Wire>,
}

impl State {
    fn free(&mut self) -> Option<Lease> {
        self.connections.retain(|connection| !connection.is_closed());
        self.connections.iter().find_map(Connection::lease)
    }
}

/// A connection that is being made, by a task of its own: whoever asked for it may leave.
struct Dialing {
    task: AbortHandle,
    outcome: Shared<BoxFuture<'static, Result<Dialed, DialError>>>,
}

#[derive(Clone)]
enum Dialed {
    /// There is another connection; its owner is the list of them.
    Http2(Weak<Connection>),
    /// There is a spare.
    Http1,
}

/// Why there is no connection, for each of those who waited for it.
#[derive(Debug, Clone)]
pub(super) struct DialError(Arc<BoxError>);

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for DialError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// What there is for a request.
pub(super) enum Place {
    /// A stream.
    Stream(Lease),
    /// Nothing: the server speaks HTTP/1.1. The connection that showed it, unless somebody else has it already.
    Http1(Option<Wire>),
}

impl Streams {
    /// Makes no connection yet.
    pub(super) fn new(dialer: Dialer, limits: ClientLimits) -> Self {
        Self { dialer, limits, state: Arc::default() }
    }

    /// A place for one request. Waits for nothing but a new connection.
    ///
    /// # Errors
    /// A new one was needed, and could not be made.
    pub(super) async fn place(&self) -> Result<Place, DialError> {
        loop {
            let outcome = match self.look() {
                Ok(lease) => return Ok(Place::Stream(lease)),
                Err(outcome) => outcome,
            };
            match outcome.await {
                // It may be full already, but one that is gone already would be made for ever.
                Ok(Dialed::Http2(made)) if made.upgrade().is_none_or(|made| made.is_closed()) => {
                    return Err(DialError(Arc::new(
                        "the server ends connections as soon as they are made".into(),
                    )));
                }
                Ok(Dialed::Http2(_)) => {}
                Ok(Dialed::Http1) => return Ok(Place::Http1(self.lock().spare.take())),
                // Meanwhile a stream may have ended.
                Err(error) => return self.lock().free().map(Place::Stream).ok_or(error),
            }
        }
    }

    /// A place, or the connection to wait for.
    fn look(&self) -> Result<Lease, Shared<BoxFuture<'static, Result<Dialed, DialError>>>> {
        let mut state = self.lock();
        if let Some(lease) = state.free() {
            return Ok(lease);
        }
        let going_on = state.dialing.take().filter(|dialing| !dialing.task.is_finished());
        let dialing = going_on.unwrap_or_else(|| self.dial());
        let outcome = dialing.outcome.clone();
        state.dialing = Some(dialing);
        Err(outcome)
    }

    fn dial(&self) -> Dialing {
        let streams = self.clone();
        let task = self.dialer.runtime().spawn(async move { streams.connect().await });
        let abort = task.abort_handle();
        let outcome = task.map(|done| {
            let outcome = done.unwrap_or_else(|error| Err(error.into()));
            outcome.map_err(|error| DialError(Arc::new(error)))
        });
        Dialing { task: abort, outcome: outcome.boxed().shared() }
    }

    async fn connect(&self) -> Result<Dialed, BoxError> {
        let wire = self.dialer.dial().await?;
        if !wire.is_http2() {
            self.lock().spare = Some(wire);
            return Ok(Dialed::Http1);
        }
        let opening = Connection::open(wire, &self.limits, self.dialer.runtime());
        let limit = self.limits.connect;
        let connection = timeout(limit, opening).await.unwrap_or_else(|_| Err(too_long(limit)))?;
        let connection = Arc::new(connection);
        let made = Arc::downgrade(&connection);
        self.lock().connections.push(connection);
        Ok(Dialed::Http2(made))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
