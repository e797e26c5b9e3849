//! The way to the API server: configuration, discovery, and requests whose bodies are streamed.
//!
//! The only module that knows `kube`, which it uses for configuration, credentials and TLS; requests are built by
//! hand and connections are our own. Invariant: nothing here retries, so that every refusal reaches the
//! reflector, and nothing waits for ever: connecting, the head of an answer and silence within its body each
//! have a limit ([`ClientLimits`]).
//!
//! The parts, from the configuration to the wire: `config` → `transport` (credentials, and HTTP/2 or HTTP/1.1) →
//! `streams` (which HTTP/2 connection) → `connection` (one of them, with its pings) or `http1` → `dial` (TCP, proxy,
//! TLS); and back: idle limits here, `gzip`.
//!
//! kube's own connections, which only [`Client::from_kube`] brings in, log every failed request at level error; the
//! reflector logs a problem once. A program that uses both leaves kube's out of its log: [`LOG_DIRECTIVE`].

mod chain;
mod config;
mod connection;
mod dial;
mod discovery;
mod gzip;
mod http1;
mod limits;
mod streams;
mod transport;

use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, RETRY_AFTER, USER_AGENT};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::time::timeout;

use self::chain::Chain;
use self::config::Reach;
pub use self::config::{ClientError, ClientOptions};
pub use self::limits::ClientLimits;
use crate::list_watch::Turns;
use crate::resource::{Resource, group_version_path};
use crate::status::{ApiError, Status, printable};

/// What the client calls itself.
const AGENT: &str = concat!("hark/", env!("CARGO_PKG_VERSION"));

/// What to add to a `tracing` filter so that failures are not logged at every retry.
pub const LOG_DIRECTIVE: &str = "kube_client::client::builder=off";

/// As it is: asked for where little is to come, and on loopback.
const IDENTITY: &str = "identity";
const GZIP: &str = "gzip";

/// Most of a refusal's body that is read.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// Most of a discovery document that is read: a hundred times the largest of a cluster with many CRDs.
const MAX_DOCUMENT: usize = 32 * 1024 * 1024;

/// The chunks of an answer's body, as they come.
pub type ByteStream = BoxStream<'static, Result<Bytes, ApiError>>;

/// A client of one API server. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    /// Replaced when credentials that came with an expiry run out.
    transport: RwLock<kube::Client>,
    /// How to make `transport` again.
    options: Option<ClientOptions>,
    server: String,
    /// Whether large answers are asked for in gzip; see [`Client::get_chunks`].
    gzip: bool,
    limits: ClientLimits,
    turns: Turns,
}

impl Client {
    /// A client as a kubeconfig file or the pod's service account says; see [`ClientOptions`]. Sends nothing.
    ///
    /// # Errors
    /// [`ClientError`] naming the file and the context if there is no usable configuration.
    pub async fn from_options(options: ClientOptions) -> Result<Self, ClientError> {
        Self::with_limits(options, ClientLimits::default()).await
    }

    /// As [`Client::from_options`], with other limits.
    ///
    /// # Errors
    /// As [`Client::from_options`].
    pub async fn with_limits(options: ClientOptions, limits: ClientLimits) -> Result<Self, ClientError> {
        let reach = options.connect(limits).await?;
        Ok(Self::assemble(reach, Some(options), limits))
    }

    /// A client with a transport made elsewhere, which must have its own retries off (`default_retry`). Of the limits,
    /// those of connections are for it to keep.
    pub fn from_kube(transport: kube::Client, limits: ClientLimits) -> Self {
        let reach = Reach { transport, server: String::from("the API server"), gzip: false };
        Self::assemble(reach, None, limits)
    }

    /// A client of the server at `url`, without credentials unless the URL's server needs none.
    ///
    /// # Errors
    /// [`ClientError`] if the URL is not one.
    pub fn from_url(url: &str, limits: ClientLimits) -> Result<Self, ClientError> {
        Ok(Self::assemble(config::plain(url, limits)?, None, limits))
    }

    fn assemble(reach: Reach, options: Option<ClientOptions>, limits: ClientLimits) -> Self {
        let Reach { transport, server, gzip } = reach;
        let (transport, turns) = (RwLock::new(transport), Turns::default());
        Self { shared: Arc::new(Shared { transport, options, server, gzip, limits, turns }) }
    }

    /// The turns in which reflectors list through this client and its clones.
    pub(crate) fn turns(&self) -> &Turns {
        &self.shared.turns
    }

    /// Where the API server is, for people.
    pub fn server(&self) -> &str {
        &self.shared.server
    }

    /// The transport below, for requests that are not lists or watches.
    ///
    /// # Errors
    /// [`ApiError::Credentials`] if credentials ran out and could not be made anew.
    pub async fn kube(&self) -> Result<kube::Client, ApiError> {
        let current = self.shared.transport.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(options) = self.shared.options.as_ref().filter(|_| has_expired(&current)) else {
            return Ok(current);
        };
        let fresh = options.connect(self.shared.limits).await;
        let fresh = fresh.map_err(|error| ApiError::Credentials(printable(&error.to_string())))?.transport;
        *self.shared.transport.write().unwrap_or_else(PoisonError::into_inner) = fresh.clone();
        Ok(fresh)
    }

    /// Asks discovery what `api_version` and an exact kind, or else a plural name, stand for.
    ///
    /// # Errors
    /// [`ApiError::Absent`] if the API server does not know it, or does not let it be listed and watched;
    /// any other if the question was not answered.
    pub async fn resolve(&self, api_version: &str, kind_or_plural: &str) -> Result<Resource, ApiError> {
        let (group, version) = discovery::split_api_version(api_version)?;
        match self.get(&group_version_path(group, version)).await {
            Ok(body) => discovery::find(&body, group, version, kind_or_plural),
            Err(ApiError::Status(status)) if status.is_not_found() => {
                Err(ApiError::Absent(format!("the API server does not serve {api_version}")))
            }
            Err(error) => Err(error),
        }
    }

    /// GETs a path with its query and reads the whole body.
    ///
    /// # Errors
    /// [`ApiError`]; a refusal is a [`Status`].
    pub async fn get(&self, path_and_query: &str) -> Result<Bytes, ApiError> {
        let answer = self.send(path_and_query, IDENTITY).await?;
        let body = self.body(answer, self.shared.limits.body_idle)?;
        let document = collect(body, MAX_DOCUMENT).await?;
        if document.len() >= MAX_DOCUMENT {
            return Err(ApiError::Decode(format!("the answer is longer than {MAX_DOCUMENT} bytes")));
        }
        Ok(document)
    }

    /// GETs a path with its query and gives the body as it comes: for lists. Asks for gzip as client-go does, unless
    /// the server is on loopback or the kubeconfig says `disable-compression`. A server that agrees packs what is longer
    /// than 128 KiB, to about a tenth.
    ///
    /// # Errors
    /// [`ApiError`]; a refusal is a [`Status`].
    pub async fn get_chunks(&self, path_and_query: &str) -> Result<ByteStream, ApiError> {
        let answer = self.send(path_and_query, self.large()).await?;
        self.body(answer, self.shared.limits.body_idle)
    }

    /// GETs a watch's path with its query and gives the body as it comes; silence of `idle` plus the limits' slack is
    /// an error. A streaming list (`sendInitialEvents=true`) is asked for in gzip as lists are; another watch is not,
    /// since its few bytes must not wait in a packer.
    ///
    /// # Errors
    /// [`ApiError`]; a refusal is a [`Status`].
    pub async fn get_watch(&self, path_and_query: &str, idle: Duration) -> Result<ByteStream, ApiError> {
        let encoding = if is_streaming_list(path_and_query) { self.large() } else { IDENTITY };
        let answer = self.send(path_and_query, encoding).await?;
        self.body(answer, idle + self.shared.limits.watch_slack)
    }

    /// The encoding to ask for where much is to come.
    fn large(&self) -> &'static str {
        if self.shared.gzip { GZIP } else { IDENTITY }
    }

    /// Sends and reads the head of the answer; a refusal's body too.
    async fn send(&self, path_and_query: &str, encoding: &'static str) -> Result<Response<Body>, ApiError> {
        let request = Request::get(path_and_query)
            .header(ACCEPT, "application/json")
            .header(ACCEPT_ENCODING, encoding)
            .header(USER_AGENT, AGENT)
            .body(Body::empty())
            .map_err(|error| ApiError::Decode(format!("not a request path: {error}")))?;
        let transport = self.kube().await?;
        let response = timeout(self.shared.limits.response, transport.send(request))
            .await
            .map_err(|_| self.unreachable(&format!("no answer within {:?}", self.shared.limits.response)))?
            .map_err(|error| self.transport_error(&error))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response).await) }
    }

    async fn refusal(&self, response: Response<Body>) -> ApiError {
        let code = response.status().as_u16();
        let retry_after = retry_after(response.headers());
        let body = match self.body(response, self.shared.limits.body_idle) {
            Ok(body) => collect(body, MAX_ERROR_BODY).await.unwrap_or_default(),
            Err(_) => Bytes::new(),
        };
        ApiError::Status(Status::from_response(code, retry_after, &body))
    }

    /// The body as it was before it was packed. gzip is understood whether or not it was asked for, since proxies pack
    /// what they like.
    fn body(&self, answer: Response<Body>, idle: Duration) -> Result<ByteStream, ApiError> {
        let encoding =
            answer.headers().get(CONTENT_ENCODING).map_or(IDENTITY.as_bytes(), |name| name.as_bytes());
        let is = |name: &str| encoding.eq_ignore_ascii_case(name.as_bytes());
        if is(IDENTITY) || encoding.is_empty() {
            Ok(self.chunks(answer.into_body(), idle).boxed())
        } else if is(GZIP) || is("x-gzip") {
            Ok(gzip::decode(self.chunks(answer.into_body(), idle).boxed()).boxed())
        } else {
            let name = printable(&String::from_utf8_lossy(encoding));
            Err(ApiError::Decode(format!("the answer's encoding is `{name}`, which was not asked for")))
        }
    }

    /// The bytes that were sent; silence of `idle` is an error.
    fn chunks(
        &self,
        body: Body,
        idle: Duration,
    ) -> impl Stream<Item = Result<Bytes, ApiError>> + Send + use<> {
        let client = self.clone();
        stream::try_unfold(body.into_data_stream(), move |mut chunks| {
            let client = client.clone();
            async move {
                match timeout(idle, chunks.next()).await {
                    Ok(Some(Ok(chunk))) => Ok(Some((chunk, chunks))),
                    Ok(Some(Err(error))) => Err(client.transport_error(&error)),
                    Ok(None) => Ok(None),
                    Err(_) => Err(client.unreachable(&format!("silent for {idle:?}"))),
                }
            }
        })
    }

    fn transport_error(&self, error: &kube::Error) -> ApiError {
        let chain = Chain(Some(error));
        let text = printable(&chain.to_string());
        let mut sources = std::iter::successors(Some(error as &dyn StdError), |&error| error.source());
        if sources.any(|source| source.is::<kube::client::AuthError>()) {
            ApiError::Credentials(text)
        } else {
            self.unreachable(&text)
        }
    }

    fn unreachable(&self, what: &str) -> ApiError {
        ApiError::Unreachable(format!("{}: {what}", self.shared.server))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.shared.server).finish_non_exhaustive()
    }
}

/// What a body is up to `limit` bytes; the rest is left unread.
async fn collect(mut body: ByteStream, limit: usize) -> Result<Bytes, ApiError> {
    let mut whole = BytesMut::new();
    while let Some(chunk) = body.next().await {
        whole.extend_from_slice(&chunk?);
        if whole.len() >= limit {
            whole.truncate(limit);
            break;
        }
    }
    Ok(whole.freeze())
}

/// Whether a request is for a watch that begins with all there is (rule R-WL-1).
fn is_streaming_list(path_and_query: &str) -> bool {
    let query = path_and_query.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|parameter| parameter == "sendInitialEvents=true")
}

/// Whether credentials made by an exec plugin with an expiry have run out.
fn has_expired(transport: &kube::Client) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    transport
        .valid_until()
        .as_ref()
        .is_some_and(|until| u64::try_from(until.as_second()).unwrap_or_default() <= now + 10)
}

/// `Retry-After` in seconds; the other form, a date, is not used by API servers.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_a_watch_with_initial_events_is_a_streaming_list() {
        for (request, want) in [
            ("/api/v1/pods?sendInitialEvents=true&watch=true", true),
            ("/api/v1/pods?watch=true&sendInitialEvents=true", true),
            ("/api/v1/pods?watch=true", false),
            ("/api/v1/pods?fieldSelector=sendInitialEvents=true1&watch=true", false),
            ("/api/v1/pods/sendInitialEvents=true", false),
        ] {
            assert_eq!(is_streaming_list(request), want, "{request}");
        }
    }

    #[test]
    fn retry_after_is_read_in_seconds_only() {
        for (value, want) in [
            ("1", Some(1)),
            (" 30 ", Some(30)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", None),
            ("-1", None),
            ("1.5", None),
        ] {
            let headers =
                HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(value).expect("a header"))]);
            assert_eq!(retry_after(&headers), want.map(Duration::from_secs), "{value}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
