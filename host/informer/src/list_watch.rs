//! What the reflector asks of an API server: list a collection page by page, and watch it.
//!
//! [`ListerWatcher`] is the seam; [`ListWatch`] is the one that talks to a server, tests script their own.
//! Invariant: a list either gives every object of its page or fails; a watch gives every event of its stream
//! in order, also those that it could not decode.

mod decode;
mod page;
mod turns;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};

use self::decode::Decoder;
use self::page::PageReader;
pub use self::turns::{LISTS_AT_A_TIME, Turn, Turns};
use crate::client::Client;
use crate::frame::{DEFAULT_MAX_LINE, Frame, FrameError, Frames};
use crate::object::{Ingest, Object, ObjectKey};
use crate::resource::{Resource, Selector, percent_encode};
use crate::status::{ApiError, Status};

/// The changing parameters of a list request; selectors belong to the lister-watcher.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListParams {
    /// `resourceVersion`; empty: not sent.
    pub resource_version: String,
    /// `limit`; 0: not sent.
    pub limit: u32,
    /// `continue`; empty: not sent.
    pub continue_token: String,
}

/// The changing parameters of a watch request. Bookmarks are always asked for (rule R-W-1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchParams {
    /// `resourceVersion`; empty: not sent.
    pub resource_version: String,
    /// `timeoutSeconds`: after this time the server ends the watch.
    pub timeout: Duration,
    /// Whether the watch begins with what exists, up to a marker: `sendInitialEvents` and
    /// `resourceVersionMatch=NotOlderThan` (rule R-WL-1).
    pub initial_events: bool,
}

/// One page of a list, or all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListPage {
    /// In the server's order.
    pub items: Vec<Arc<Object>>,
    /// The version that the collection had.
    pub resource_version: String,
    /// Asks for the next page; empty: this is the last one.
    pub continue_token: String,
}

/// One event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// The object is new, or came to satisfy the selectors.
    Added(Arc<Object>),
    /// The object changed.
    Modified(Arc<Object>),
    /// The object is gone, or no longer satisfies the selectors: its last state, the deletion's version.
    Deleted(Arc<Object>),
    /// Nothing happened up to this version.
    Bookmark {
        /// The version.
        resource_version: String,
        /// The annotation that ends the initial events of a streaming list (rule R-WL-3).
        initial_events_end: bool,
    },
    /// The server gives this watch up.
    Error(Status),
    /// An event whose object is not one that can be carried.
    Undecodable(Undecodable),
}

/// An event that has to be passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecodable {
    /// The object's key, if that much can be read.
    pub key: Option<ObjectKey>,
    /// It would have been a deletion, which cannot be passed over without losing it.
    pub is_deletion: bool,
    /// What is wrong with it.
    pub message: String,
}

/// The events of a watch. Ends when the server ends it, or when the connection does; an error is an event
/// stream that makes no sense, and the last item.
pub type WatchStream = BoxStream<'static, Result<WatchEvent, ApiError>>;

/// Something that can be listed and watched.
pub trait ListerWatcher: Send + Sync {
    /// Finds out what to list and watch; at once if it is known.
    fn resolve(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        futures::future::ready(Ok(())).boxed()
    }

    /// Forgets what [`ListerWatcher::resolve`] found, since the server no longer has it.
    fn forget(&self) {}

    /// Whether [`ListerWatcher::watch`] heeds `initial_events`. Not unless it says so: one that has never heard of
    /// streaming lists would never send the marker either (R-LAW-1, where absent means yes; #129408).
    fn supports_watch_list(&self) -> bool {
        false
    }

    /// Waits for a turn to list, where lists at a time are bounded.
    fn turn(&self) -> BoxFuture<'_, Turn> {
        futures::future::ready(Turn::default()).boxed()
    }

    /// One list request.
    fn list(&self, params: ListParams) -> BoxFuture<'_, Result<ListPage, ApiError>>;

    /// One watch request.
    fn watch(&self, params: WatchParams) -> BoxFuture<'_, Result<WatchStream, ApiError>>;
}

/// Lists and watches what a selector selects, on an API server.
#[derive(Debug)]
pub struct ListWatch {
    client: Client,
    selector: Selector,
    ingest: Ingest,
    resolved: Mutex<Option<Arc<Resource>>>,
}

impl ListWatch {
    /// Sends nothing yet.
    pub fn new(client: Client, selector: Selector, ingest: Ingest) -> Self {
        Self { client, selector, ingest, resolved: Mutex::new(None) }
    }

    /// The resource, if discovery has been asked.
    pub fn resource(&self) -> Option<Arc<Resource>> {
        self.resolved.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn resource_or_resolve(&self) -> Result<Arc<Resource>, ApiError> {
        if let Some(resource) = self.resource() {
            return Ok(resource);
        }
        let resource = Arc::new(self.client.resolve(&self.selector.api_version, &self.selector.kind).await?);
        check_scope(&self.selector, &resource)?;
        *self.resolved.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&resource));
        Ok(resource)
    }

    /// Path and query, the parameters in alphabetical order as client-go sends them.
    fn request(&self, resource: &Resource, parameters: &[(&str, &str)]) -> String {
        let selectors = [
            ("fieldSelector", &*self.selector.field_selector),
            ("labelSelector", &*self.selector.label_selector),
        ];
        let mut all: Vec<(&str, &str)> = parameters.iter().copied().chain(selectors).collect();
        all.retain(|(_, value)| !value.is_empty());
        all.sort_unstable();
        let mut request = resource.path(&self.selector.namespace);
        let mut separator = '?';
        for (name, value) in all {
            // Writing to a string cannot fail.
            let _ = write!(request, "{separator}{name}=");
            percent_encode(&mut request, value);
            separator = '&';
        }
        request
    }

    async fn list_page(&self, params: ListParams) -> Result<ListPage, ApiError> {
        let resource = self.resource_or_resolve().await?;
        let limit = if params.limit == 0 { String::new() } else { params.limit.to_string() };
        let request = self.request(
            &resource,
            &[
                ("continue", &*params.continue_token),
                ("limit", &*limit),
                ("resourceVersion", &*params.resource_version),
            ],
        );
        let decoder = Decoder::new(&resource, self.ingest);
        let mut page = PageReader::new(&decoder);
        let mut chunks = self.client.get_chunks(&request).await?;
        while let Some(chunk) = chunks.next().await {
            page.push(&chunk?)?;
        }
        page.finish()
    }

    async fn watch_stream(&self, params: WatchParams) -> Result<WatchStream, ApiError> {
        let resource = self.resource_or_resolve().await?;
        let (version_match, initial) =
            if params.initial_events { ("NotOlderThan", "true") } else { ("", "") };
        let request = self.request(
            &resource,
            &[
                ("allowWatchBookmarks", "true"),
                ("resourceVersion", &*params.resource_version),
                ("resourceVersionMatch", version_match),
                ("sendInitialEvents", initial),
                ("timeoutSeconds", &*params.timeout.as_secs().to_string()),
                ("watch", "true"),
            ],
        );
        let bytes = self.client.get_watch(&request, params.timeout).await?;
        let frames = Frames::new(bytes, DEFAULT_MAX_LINE);
        Ok(decode_events(frames, Decoder::new(&resource, self.ingest)))
    }
}

impl ListerWatcher for ListWatch {
    fn resolve(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        async { self.resource_or_resolve().await.map(|_| ()) }.boxed()
    }

    fn forget(&self) {
        *self.resolved.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn supports_watch_list(&self) -> bool {
        true
    }

    fn turn(&self) -> BoxFuture<'_, Turn> {
        self.client.turns().next().boxed()
    }

    fn list(&self, params: ListParams) -> BoxFuture<'_, Result<ListPage, ApiError>> {
        self.list_page(params).boxed()
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        self.watch_stream(params).boxed()
    }
}

/// A cluster-scoped resource has no objects "in a namespace". kubectl shows all of them; to somebody who asked for
/// some that would be events never asked for.
fn check_scope(selector: &Selector, resource: &Resource) -> Result<(), ApiError> {
    if resource.namespaced || selector.namespace.is_empty() {
        return Ok(());
    }
    let (kind, namespace) = (&resource.kind, &selector.namespace);
    Err(ApiError::Absent(format!(
        "{kind} is cluster-scoped: there is none in namespace {namespace}; name no namespaces"
    )))
}

/// Events from lines. A connection that breaks and a last line that is cut off are the end of the stream, not
/// an error (section 1.10); a line that is no event is an error and the end.
fn decode_events<S, B>(frames: Frames<S>, decoder: Decoder) -> WatchStream
where
    S: futures::Stream<Item = Result<B, ApiError>> + Unpin + Send + 'static,
    B: AsRef<[u8]>,
{
    stream::unfold(Some((frames, decoder)), |state| async {
        let (mut frames, decoder) = state?;
        let event = match frames.next().await? {
            Ok(Frame::Line(line)) => decoder.event(&line),
            Ok(Frame::Rest(rest)) => match decoder.event(&rest) {
                Err(_) => return ended("the last line was cut off"),
                event => event,
            },
            Err(FrameError::Stream(error)) => return ended(&error.to_string()),
            Err(error @ FrameError::TooLong { .. }) => Err(ApiError::Decode(format!("watch: {error}"))),
        };
        let next = event.is_ok().then_some((frames, decoder));
        Some((event, next))
    })
    .boxed()
}

fn ended<T>(how: &str) -> Option<T> {
    tracing::debug!("watch ended early: {how}");
    None
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::client::ClientLimits;

    fn configmaps() -> Resource {
        Resource {
            group: String::new(),
            version: "v1".into(),
            plural: "configmaps".into(),
            kind: "ConfigMap".into(),
            namespaced: true,
        }
    }

    fn decoded(chunks: Vec<Result<Bytes, ApiError>>) -> Vec<Result<WatchEvent, ApiError>> {
        let frames = Frames::new(stream::iter(chunks), 200);
        let events = decode_events(frames, Decoder::new(&configmaps(), Ingest::default()));
        events.collect().now_or_never().expect("nothing to wait for")
    }

    const BOOKMARK: &str = r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}"#;

    fn bookmark() -> Result<WatchEvent, ApiError> {
        Ok(WatchEvent::Bookmark { resource_version: "7".into(), initial_events_end: false })
    }

    #[test]
    fn a_cut_off_line_and_a_broken_connection_just_end_the_stream() {
        let line = Bytes::from(format!("{BOOKMARK}\n"));
        let half = line.slice(..40);
        let broken = Err(ApiError::Unreachable("reset".into()));
        assert_eq!(
            decoded(vec![Ok(line.clone()), Ok(half.clone())]),
            [bookmark()],
            "section 1.10, 7.12 no. 22"
        );
        assert_eq!(decoded(vec![Ok(line), Ok(half), broken]), [bookmark()], "section 1.10");
    }

    #[test]
    fn a_last_line_without_its_end_counts_if_it_is_whole() {
        assert_eq!(decoded(vec![Ok(Bytes::from_static(BOOKMARK.as_bytes()))]), [bookmark()]);
    }

    #[test]
    fn a_line_that_is_no_event_ends_the_stream_with_an_error() {
        for bad in
            ["garbage", "{\"type\":\"NEW\",\"object\":{}}", "{\"kind\":\"Status\"}", "[]", &"x".repeat(300)]
        {
            let got = decoded(vec![Ok(Bytes::from(format!("{BOOKMARK}\n{bad}\n{BOOKMARK}\n")))]);
            assert_eq!(got.len(), 2, "section 1.10, 7.12 no. 23: {bad}");
            assert!(matches!(got.last(), Some(Err(ApiError::Decode(_)))), "{bad}");
        }
    }

    #[test]
    fn a_namespace_for_a_cluster_scoped_resource_is_refused() {
        let everywhere = Selector::new("v1", "ConfigMap");
        let somewhere = everywhere.clone().in_namespace("n");
        let cluster_scoped = Resource { namespaced: false, kind: "Node".into(), ..configmaps() };
        for fits in
            [(&everywhere, &configmaps()), (&somewhere, &configmaps()), (&everywhere, &cluster_scoped)]
        {
            assert_eq!(check_scope(fits.0, fits.1), Ok(()));
        }
        let refused = check_scope(&somewhere, &cluster_scoped).expect_err("there is none");
        assert!(
            refused.to_string().starts_with("Node is cluster-scoped: there is none in namespace n"),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn requests_have_the_parameters_of_the_rules_and_no_others() {
        let client = Client::from_url("http://127.0.0.1:1", ClientLimits::default()).expect("a client");
        let selector = Selector::new("v1", "ConfigMap").in_namespace("n").with_labels("a in (b,c)");
        let list_watch = ListWatch::new(client, selector, Ingest::default());
        let request =
            list_watch.request(&configmaps(), &[("watch", "true"), ("resourceVersion", ""), ("limit", "5")]);
        assert_eq!(
            request,
            "/api/v1/namespaces/n/configmaps?labelSelector=a%20in%20%28b%2Cc%29&limit=5&watch=true"
        );
    }
}
