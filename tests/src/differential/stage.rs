//! One client's own API server, and what a script does to it.
//!
//! Used by the player, which has one stage for each client and does the same to all of them. Invariant: two
//! stages to which the same was done have the same objects at the same versions; only uids differ, and are told
//! apart here by incarnation.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use hark_apiserver::{ApiError, Config, Failure, Handle, LastWords, RequestInfo, Server};
use serde_json::{Value, json};

use super::event::State;
use super::script::{Action, Change, Ending, Hiccup, Mishap, Requests, Setup};

/// The label of the informers' selector.
pub(super) const LABEL: &str = "picked=yes";

/// The object by whose changes a settling is seen.
const MARKER: &str = "marker";

/// How long a request for a version that is still to come waits: short, since no script reaches it meanwhile.
const PATIENCE: Duration = Duration::from_millis(20);

/// A resource that informers are of. A script has one or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Resource {
    ConfigMaps,
    Secrets,
}

impl Resource {
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::ConfigMaps => "ConfigMap",
            Self::Secrets => "Secret",
        }
    }

    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::ConfigMaps => "configmaps",
            Self::Secrets => "secrets",
        }
    }

    /// How an object of it is called in traces.
    pub(super) fn key(self, name: &str) -> String {
        format!("{} {name}", self.plural())
    }

    pub(super) fn marker(self) -> String {
        self.key(&format!("default/{MARKER}"))
    }
}

/// An object as a cache or the server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) state: State,
    pub(super) text: String,
}

/// See the file's head.
pub(super) struct Stage {
    pub(super) server: Handle,
    pub(super) resources: &'static [Resource],
    log: Arc<Log>,
    streaming: bool,
    opening: Vec<Hiccup>,
    /// Of each uid, its name in traces.
    incarnations: HashMap<String, String>,
    /// Of each key, how many there were.
    counts: HashMap<String, usize>,
    /// Written into every object, so that no two states have the same content.
    writes: u64,
    losing: bool,
}

/// Requests for lists and watches so far.
#[derive(Debug, Default)]
struct Log {
    all: AtomicUsize,
    lists: AtomicUsize,
}

impl Stage {
    pub(super) async fn new(setup: &Setup) -> Result<Self> {
        let namespaces = vec!["other".to_owned()];
        let server = Server::start(Config { namespaces, patience: PATIENCE, ..Config::default() }).await?;
        let resources: &[_] = match setup.held {
            None => &[Resource::ConfigMaps],
            Some(_) => &[Resource::ConfigMaps, Resource::Secrets],
        };
        let log = Arc::new(Log::default());
        let mut stage = Self {
            server,
            resources,
            log,
            streaming: setup.streaming,
            opening: Vec::new(),
            incarnations: HashMap::new(),
            counts: HashMap::new(),
            writes: 0,
            losing: false,
        };
        stage.forgive();
        stage.mark()?;
        for key in &setup.existing {
            stage.change(Change { key: *key, action: Action::Put })?;
        }
        stage.server.faults().compact();
        if setup.held.is_none() {
            stage.hiccups(&setup.opening);
        }
        stage.opening.clone_from(&setup.opening);
        Ok(stage)
    }

    /// Takes all hiccups back; what is left counts requests, by a rule that never applies, and refuses streaming
    /// lists where they are unknown.
    pub(super) fn forgive(&self) {
        let faults = self.server.faults();
        faults.clear();
        faults.lose_events(self.losing);
        let log = Arc::clone(&self.log);
        let count = move |request: &RequestInfo| {
            log.all.fetch_add(usize::from(is(Requests::Watch, request)), Ordering::SeqCst);
            if is(Requests::List, request) {
                log.all.fetch_add(1, Ordering::SeqCst);
                log.lists.fetch_add(1, Ordering::SeqCst);
            }
            false
        };
        faults.fail_next(usize::MAX, count, Failure::Disconnect);
        if !self.streaming {
            let (code, reason) = (422, "Invalid".to_owned());
            let message = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled".to_owned();
            let invalid = Failure::Status(ApiError::Other { code, reason, message, retry_after: None });
            faults.fail_next(usize::MAX, |request| is(Requests::Streaming, request), invalid);
        }
    }

    /// Requests for lists and watches, and for lists alone, so far.
    pub(super) fn requests(&self) -> (usize, usize) {
        (self.log.all.load(Ordering::SeqCst), self.log.lists.load(Ordering::SeqCst))
    }

    /// Changes an object; deleting what is not there is nothing.
    pub(super) fn change(&mut self, change: Change) -> Result<()> {
        // A number is a resource, a namespace and a name; names repeat in the two namespaces.
        let (resource, number) =
            (self.resources[change.key % self.resources.len()], change.key / self.resources.len());
        let (namespace, name) = (["default", "other"][number % 2], format!("k{}", number / 2));
        if matches!(change.action, Action::Delete | Action::Recreate) {
            match self.server.delete(&document(resource, namespace, &name)) {
                Ok(_) | Err(ApiError::NotFound { .. }) => {}
                Err(error) => return Err(error).context("deleting an object"),
            }
        }
        match change.action {
            Action::Delete => Ok(()),
            Action::Put | Action::Recreate => self.write(resource, namespace, &name, true).map(drop),
            Action::Hide => self.write(resource, namespace, &name, false).map(drop),
        }
    }

    /// Changes the markers, whatever else is lost; gives their versions.
    pub(super) fn mark(&mut self) -> Result<Vec<(String, String)>> {
        self.server.faults().lose_events(false);
        let mut markers = Vec::new();
        for resource in self.resources {
            let version = self.write(*resource, "default", MARKER, true)?;
            markers.push((resource.marker(), version));
        }
        self.server.faults().lose_events(self.losing);
        Ok(markers)
    }

    pub(super) fn lose(&mut self, lose: bool) {
        self.losing = lose;
        self.server.faults().lose_events(lose);
    }

    fn write(&mut self, resource: Resource, namespace: &str, name: &str, picked: bool) -> Result<String> {
        self.writes += 1;
        let mut document = document(resource, namespace, name);
        document["metadata"]["annotations"] = json!({"text": self.writes.to_string()});
        document["metadata"]["labels"] = json!({"picked": if picked { "yes" } else { "no" }});
        let written = self.server.apply(document).context("writing an object")?;
        let state = state(&written);
        if !self.incarnations.contains_key(&state.uid) {
            let count = self.counts.entry(resource.key(&format!("{namespace}/{name}"))).or_default();
            *count += 1;
            self.incarnations.insert(state.uid, format!("#{count}"));
        }
        Ok(state.version)
    }

    /// A state with its uid as traces name it.
    pub(super) fn named(&self, state: &State) -> State {
        let uid = self.incarnations.get(&state.uid).unwrap_or(&state.uid).clone();
        State { uid, version: state.version.clone() }
    }

    /// What an informer that is up to date has in its cache.
    pub(super) fn objects(&self, selects: bool) -> Result<BTreeMap<String, Held>> {
        let mut objects = BTreeMap::new();
        for resource in self.resources {
            for object in self.server.list("v1", resource.kind())? {
                let meta = &object["metadata"];
                if selects && meta["labels"]["picked"] != "yes" {
                    continue;
                }
                let name = format!("{}/{}", text(&meta["namespace"]), text(&meta["name"]));
                objects.insert(resource.key(&name), held(&object));
            }
        }
        Ok(objects)
    }

    /// Ends every open watch.
    pub(super) fn end_watches(&self, ending: Ending) {
        let (says, broken) = last_words(ending);
        self.server.faults().end_watches(says, broken);
    }

    /// Keeps lists and watches waiting.
    pub(super) fn hold(&self) {
        self.server.faults().hold(|request| is(Requests::List, request) || is(Requests::Watch, request));
    }

    /// Keeps the first list of the second resource waiting.
    pub(super) fn hold_first_list(&self) {
        self.server.faults().hold(|request| request.resource == Resource::Secrets.plural());
    }

    /// Answers it, through the hiccups of the opening: no list of the first resource may repeat what came between.
    pub(super) fn release_first_list(&self) {
        self.hiccups_of(Resource::Secrets, &self.opening);
        self.server.faults().release();
    }

    /// Tells the next watch of each resource that its version is too old.
    pub(super) fn expire_watches(&self) {
        for resource in self.resources {
            let matches =
                |request: &RequestInfo| request.resource == resource.plural() && is(Requests::Watch, request);
            self.server.faults().fail_next(1, matches, failure(Mishap::Expired));
        }
    }

    /// Lets the next requests go wrong, as many for each resource: who asks first is chance.
    pub(super) fn hiccups(&self, hiccups: &[Hiccup]) {
        for resource in self.resources {
            self.hiccups_of(*resource, hiccups);
        }
    }

    fn hiccups_of(&self, resource: Resource, hiccups: &[Hiccup]) {
        for Hiccup { on, times, mishap } in hiccups.iter().copied() {
            let matches =
                move |request: &RequestInfo| request.resource == resource.plural() && is(on, request);
            self.server.faults().fail_next(times, matches, failure(mishap));
        }
    }
}

fn document(resource: Resource, namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": resource.kind(), "metadata": {"namespace": namespace, "name": name},
    })
}

fn state(object: &Value) -> State {
    let meta = &object["metadata"];
    State { uid: text(&meta["uid"]), version: text(&meta["resourceVersion"]) }
}

/// An object in JSON, as far as scripts know it.
pub(super) fn held(object: &Value) -> Held {
    Held { state: state(object), text: text(&object["metadata"]["annotations"]["text"]) }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Whether a request is one of those, of a resource that scripts use.
fn is(requests: Requests, request: &RequestInfo) -> bool {
    let known = ["configmaps", "secrets"].contains(&request.resource.as_str());
    let streaming = request.query.contains("sendInitialEvents=true");
    known
        && match requests {
            Requests::Watch => request.verb == "watch" && !streaming,
            Requests::List => request.verb == "list" || (request.verb == "watch" && streaming),
            Requests::Streaming => request.verb == "watch" && streaming,
        }
}

fn expired() -> ApiError {
    ApiError::Expired { message: "too old resource version: 1 (2)".into(), continue_token: None }
}

fn other(code: u16, reason: &str) -> ApiError {
    ApiError::Other { code, reason: reason.into(), message: "scripted".into(), retry_after: None }
}

/// The beginning of an event, up to the middle of an object.
const HALF: &str = r#"{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"na"#;
const GARBAGE: &str = "{]\n";

fn last_words(ending: Ending) -> (LastWords, bool) {
    let says = match ending {
        Ending::Clean | Ending::Broken => LastWords::Nothing,
        Ending::Bookmark => LastWords::Bookmark,
        Ending::HalfEvent => LastWords::Text(HALF.into()),
        Ending::Expired => LastWords::Error(expired()),
        Ending::Busy => LastWords::Error(other(429, "TooManyRequests")),
        Ending::Internal => LastWords::Error(other(500, "InternalError")),
        Ending::StoreRead => LastWords::Error(other(500, "StoreReadError")),
        Ending::NoStatus => LastWords::Text(
            "{\"type\":\"ERROR\",\"object\":{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{}}}\n".into(),
        ),
        Ending::Garbage => LastWords::Text(GARBAGE.into()),
        Ending::UnknownType => LastWords::Text(
            "{\"type\":\"RENAMED\",\"object\":{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"x\"}}}\n".into(),
        ),
    };
    (says, ending == Ending::Broken)
}

fn failure(mishap: Mishap) -> Failure {
    let said = |code, body: &str, retry_after| Failure::Text { code, body: body.to_owned(), retry_after };
    match mishap {
        Mishap::Busy => Failure::Status(other(429, "TooManyRequests")),
        Mishap::BusyForASecond => Failure::too_many_requests(1),
        Mishap::BusyText => said(429, "Too many requests, please try again later.\n", Some(1)),
        Mishap::Internal => Failure::Status(other(500, "InternalError")),
        Mishap::Unavailable => said(503, "shutting down\n", Some(1)),
        Mishap::BadGateway => said(502, "<html><h1>502 Bad Gateway</h1></html>\n", None),
        Mishap::Forbidden => Failure::status(403, "scripted"),
        Mishap::NotFound => Failure::status(404, "scripted"),
        Mishap::Gone => Failure::Status(expired()),
        Mishap::Expired => {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "too old resource version: 1 (2)", "reason": "Expired", "code": 410,
            });
            Failure::Stream(format!("{}\n", json!({"type": "ERROR", "object": status})))
        }
        Mishap::Empty => Failure::Stream(String::new()),
        Mishap::HalfEvent => Failure::Stream(HALF.into()),
        Mishap::Garbage => Failure::Stream(GARBAGE.into()),
        Mishap::Disconnect => Failure::Disconnect,
    }
}
