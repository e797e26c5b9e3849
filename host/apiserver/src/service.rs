//! One request: what it asks for, who answers it, and what the answer looks like.
//!
//! Used by each connection. Reads and watches are answered here, changes in `changes.rs`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::Value;

use crate::accept::{self, Form};
use crate::body::{self, Body};
use crate::faults::{Failure, RequestInfo, Rules};
use crate::object::{Stored, View};
use crate::options::Options;
use crate::path::{self, ResourcePath, Target};
use crate::protobuf::{self, DecodeError};
use crate::resources::Verbs;
use crate::selectors::{FieldSelector, LabelSelector, Selectors};
use crate::status::ApiError;
use crate::store::Store;
use crate::{changes, discovery, list, openapi, table, version, watch, write};

/// What answers requests.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) store: Arc<Store>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) address: SocketAddr,
    pub(crate) max_body: usize,
    pub(crate) bookmark_interval: Duration,
}

/// A connection that is to be closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("disconnected on request")]
pub(crate) struct Disconnect;

/// An answer before it becomes a response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: Body,
    pub(crate) headers: Vec<(header::HeaderName, String)>,
}

pub(crate) const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

impl Answer {
    pub(crate) fn new(code: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Answer { code, content_type, body: body::whole(body.into()), headers: Vec::new() }
    }

    pub(crate) fn json(code: u16, body: impl Into<Bytes>) -> Self {
        Answer::new(code, JSON, body)
    }

    pub(crate) fn warn(mut self, texts: &[String]) -> Self {
        for text in texts {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            self.headers.push((header::WARNING, format!("299 - \"{text}\"")));
        }
        self
    }
}

/// A request for a resource, with everything that was looked up for it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: ResourcePath,
    pub(crate) view: View,
    pub(crate) options: Options,
    pub(crate) accept: String,
    pub(crate) content_type: String,
    pub(crate) user_agent: String,
    pub(crate) body: Bytes,
}

impl Call {
    pub(crate) fn form(&self, list: bool) -> Result<Form, ApiError> {
        accept::form(&self.accept, list)
    }

    pub(crate) fn selectors(&self) -> Result<Selectors, ApiError> {
        let labels = LabelSelector::parse(&self.options.label_selector)?;
        let resource = &self.view.resource;
        let fields = if self.path.name.is_empty() {
            FieldSelector::parse(&self.options.field_selector, resource, self.view.version())?
        } else {
            FieldSelector::name(&self.path.name)
        };
        Ok(Selectors { labels, fields })
    }

    pub(crate) fn not_found(&self) -> ApiError {
        write::not_found(&self.view.resource, &self.path.name)
    }

    /// An object in the form the client asked for.
    pub(crate) fn show(&self, code: u16, object: &Stored) -> Result<Answer, ApiError> {
        let mut out = BytesMut::with_capacity(object.body.len() + 128);
        match self.form(false)? {
            Form::Plain => self.view.put(&mut out, object),
            Form::Partial => table::put_partial(&mut out, object),
            Form::Table => table::put_one(&mut out, &self.view, object, &self.options.include_object, true),
        }
        out.put_u8(b'\n');
        Ok(Answer::json(code, out.freeze()))
    }
}

fn header_text(headers: &HeaderMap, name: header::HeaderName) -> String {
    let values = headers.get_all(name).iter().filter_map(|v| v.to_str().ok());
    values.collect::<Vec<_>>().join(",")
}

impl Service {
    pub(crate) async fn handle(&self, request: Request<Incoming>) -> Result<Response<Body>, Disconnect> {
        let began = Instant::now();
        let target = path::parse(request.uri().path());
        let info = describe(&request, &target);
        let pretty = wants_indentation(&request);
        self.rules.admitted(&info).await;
        let answer = match self.rules.failure(&info) {
            Some(Failure::Disconnect) => return Err(Disconnect),
            Some(Failure::Status(error)) => refused(&error),
            Some(Failure::Text { code, body, retry_after }) => {
                let mut answer = Answer::new(code, TEXT, body);
                answer.headers.extend(retry_after.map(|s| (header::RETRY_AFTER, s.to_string())));
                answer
            }
            Some(Failure::Stream(body)) => Answer::json(200, body),
            None => self.answer(request, target).await.unwrap_or_else(|error| refused(&error)),
        };
        tracing::debug!(
            method = info.method,
            path = info.path,
            query = info.query,
            status = answer.code,
            micros = began.elapsed().as_micros(),
            "request"
        );
        Ok(respond(answer, pretty && info.verb != "watch").await)
    }

    async fn answer(&self, request: Request<Incoming>, target: Target) -> Result<Answer, ApiError> {
        match target {
            Target::Resource(path) => self.resource(request, path).await,
            other if !matches!(*request.method(), Method::GET | Method::HEAD) => {
                drop(other);
                Err(ApiError::MethodNotAllowed)
            }
            Target::CoreVersions | Target::Groups => self.discovery(&request, target == Target::CoreVersions),
            Target::Group(group) => {
                let body = discovery::group(&self.store.lock().registry, &group);
                body.map(|b| Answer::json(200, b)).ok_or(ApiError::UnknownPath)
            }
            Target::Resources { group, version } => {
                let state = self.store.lock();
                let body = discovery::resources(&state.registry, &group, &version);
                let unknown = unknown(&state.registry, &group);
                body.map(|b| Answer::json(200, b)).ok_or(unknown)
            }
            Target::Other(path) => self.other(&path),
        }
    }

    fn discovery(&self, request: &Request<Incoming>, core: bool) -> Result<Answer, ApiError> {
        let accept = header_text(request.headers(), header::ACCEPT);
        let form = accept::discovery(&accept)?;
        let state = self.store.lock();
        if form == accept::Discovery::Plain {
            let body = if core {
                discovery::core_versions(&self.address.to_string())
            } else {
                discovery::groups(&state.registry)
            };
            return Ok(Answer::json(200, body));
        }
        let body = discovery::aggregated(&state.registry, core);
        let etag = discovery::etag(&body);
        let known = header_text(request.headers(), header::IF_NONE_MATCH) == etag;
        let mut answer =
            if known { Answer::json(304, "") } else { Answer::new(200, discovery::AGGREGATED, body) };
        answer.headers.push((header::ETAG, etag));
        answer.headers.push((header::VARY, "Accept".into()));
        Ok(answer)
    }

    fn other(&self, path: &str) -> Result<Answer, ApiError> {
        let state = self.store.lock();
        match path.trim_end_matches('/') {
            "/version" => Ok(Answer::json(200, version::document())),
            "/healthz" | "/livez" | "/readyz" => Ok(Answer::new(200, TEXT, "ok")),
            "/openapi/v3" => Ok(Answer::json(200, openapi::index(&state.registry).to_string())),
            "" => Ok(Answer::json(
                200,
                r#"{"paths":["/api","/apis","/healthz","/livez","/openapi/v3","/readyz","/version"]}"#,
            )),
            other => {
                let document =
                    other.strip_prefix("/openapi/v3/").and_then(|p| openapi::document(&state.registry, p));
                document.map(|d| Answer::json(200, d.to_string())).ok_or(ApiError::UnknownPath)
            }
        }
    }

    async fn resource(&self, request: Request<Incoming>, path: ResourcePath) -> Result<Answer, ApiError> {
        let view = self.view(&path, request.method())?;
        let (parts, body) = request.into_parts();
        let mut options = Options::parse(parts.uri.query().unwrap_or_default())?;
        options.watch |= path.watch;
        let call = Call {
            accept: header_text(&parts.headers, header::ACCEPT),
            content_type: header_text(&parts.headers, header::CONTENT_TYPE),
            user_agent: header_text(&parts.headers, header::USER_AGENT),
            method: parts.method,
            body: self.read(body).await?,
            path,
            view,
            options,
        };
        let warnings: Vec<String> = call.view.version().deprecation.clone().into_iter().collect();
        Ok(self.dispatch(call).await?.warn(&warnings))
    }

    /// Looks up the resource of a path, and whether the path fits it.
    fn view(&self, path: &ResourcePath, method: &Method) -> Result<View, ApiError> {
        let state = self.store.lock();
        let unknown = unknown(&state.registry, &path.group);
        let resource = state.registry.find(&path.group, &path.resource).cloned();
        let Some(view) = resource.and_then(|r| View::new(r, &path.version)) else { return Err(unknown) };
        let namespaced = !path.namespace.is_empty();
        if namespaced && !view.resource.namespaced {
            return Err(unknown);
        }
        if view.resource.namespaced && !namespaced {
            match (path.name.as_str(), method) {
                ("", &Method::GET) => {}
                ("", _) => return Err(ApiError::MethodNotAllowed),
                _ => return Err(unknown),
            }
        }
        Ok(view)
    }

    async fn read(&self, body: Incoming) -> Result<Bytes, ApiError> {
        let limit = self.max_body;
        match Limited::new(body, limit).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(ApiError::TooLarge { limit }),
            Err(error) => Err(ApiError::BadRequest(format!("cannot read the request: {error}"))),
        }
    }

    async fn dispatch(&self, call: Call) -> Result<Answer, ApiError> {
        if call.view.resource.verbs == Verbs::CreateOnly && call.method != Method::POST {
            return Err(ApiError::MethodNotAllowed);
        }
        let (method, name, sub) = (&call.method, call.path.name.as_str(), call.path.subresource.as_str());
        match (method, name, sub) {
            (&Method::GET, "", "") if call.options.watch => self.watch(call),
            (&Method::GET, _, "") if call.path.watch => self.watch(call),
            (&Method::GET, "", "") => self.list(&call).await,
            (&Method::GET, _, "") => self.get(&call).await,
            (&Method::GET, _, "status") if call.view.version().status => self.get(&call).await,
            _ => changes::dispatch(&self.store, &call).await,
        }
    }

    async fn get(&self, call: &Call) -> Result<Answer, ApiError> {
        let wanted = call.options.version()?;
        if wanted > self.store.revision() {
            self.store.reach(wanted).await?;
        }
        let resource = &call.view.resource;
        let key = resource.key(&call.path.namespace, &call.path.name);
        let object = self.store.lock().get(&resource.collection, &key).cloned();
        call.show(200, &*object.ok_or_else(|| call.not_found())?)
    }

    async fn list(&self, call: &Call) -> Result<Answer, ApiError> {
        let form = call.form(true)?;
        let selectors = call.selectors()?;
        let request = list::Request {
            view: &call.view,
            namespace: &call.path.namespace,
            selectors: &selectors,
            options: &call.options,
        };
        let page = request.read(&self.store).await?;
        Ok(Answer::json(200, page.encode(&call.view, form, &call.options.include_object)))
    }

    fn watch(&self, call: Call) -> Result<Answer, ApiError> {
        let mut call = call;
        call.options.watch = true;
        let form = call.form(true)?;
        let selectors = call.selectors()?;
        call.options.check_watch()?;
        let wanted = call.options.version()?;
        let request = watch::Request {
            view: call.view,
            namespace: call.path.namespace,
            selectors,
            options: call.options,
            form,
            bookmark_interval: self.bookmark_interval,
        };
        let events = watch::open(Arc::clone(&self.store), request, wanted);
        Ok(Answer { code: 200, content_type: JSON, body: body::stream(events), headers: Vec::new() })
    }
}

/// Unknown resources of built-in groups are told by a Status, others by the router.
fn unknown(registry: &crate::registry::Registry, group: &str) -> ApiError {
    if registry.is_built_in_group(group) { ApiError::UnknownResource } else { ApiError::UnknownPath }
}

/// The answer that an error is.
pub(crate) fn refused(error: &ApiError) -> Answer {
    if *error == ApiError::UnknownPath {
        let mut answer = Answer::new(404, TEXT, "404 page not found\n");
        answer.headers.push((header::X_CONTENT_TYPE_OPTIONS, "nosniff".into()));
        return answer;
    }
    let mut body = error.status().to_json();
    body.push(b'\n');
    let mut answer = Answer::json(error.code(), body);
    if let Some(seconds) = error.retry_after() {
        answer.headers.push((header::RETRY_AFTER, seconds.to_string()));
    }
    if matches!(error, ApiError::TooLarge { .. }) {
        answer.headers.push((header::CONNECTION, "close".into()));
    }
    answer
}

/// Browsers and curl get indented JSON unasked, as from a kube-apiserver.
fn wants_indentation(request: &Request<Incoming>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    if let Some((_, value)) = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "pretty") {
        return !matches!(value.as_ref(), "0" | "false");
    }
    let agent = header_text(request.headers(), header::USER_AGENT);
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix))
}

async fn respond(answer: Answer, pretty: bool) -> Response<Body> {
    let mut body = answer.body;
    if pretty && answer.content_type.starts_with(JSON) && answer.code != 304 {
        // Bodies that are not watches are in memory and never fail.
        let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        body = body::whole(Bytes::from(body::indent(&bytes)));
    }
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    // A type on a 304 would replace that of the copy a client has kept.
    if answer.code != 304 {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if let Ok(id) = HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()) {
        headers.insert(header::HeaderName::from_static("audit-id"), id);
    }
    for (name, value) in answer.headers {
        match HeaderValue::from_str(&value) {
            Ok(value) => {
                headers.append(name, value);
            }
            Err(error) => tracing::debug!(%error, "a header could not be sent"),
        }
    }
    response
}

fn describe(request: &Request<Incoming>, target: &Target) -> RequestInfo {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let (resource, verb) = match target {
        Target::Resource(path) => {
            let watch = path.watch || Options::parse(&query).is_ok_and(|o| o.watch && path.name.is_empty());
            (path.resource.clone(), verb(request.method(), path, watch))
        }
        _ => (String::new(), ""),
    };
    RequestInfo {
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        query,
        resource,
        verb,
    }
}

fn verb(method: &Method, path: &ResourcePath, watch: bool) -> &'static str {
    match (method, path.name.is_empty()) {
        (&Method::GET, _) if watch => "watch",
        (&Method::GET, true) => "list",
        (&Method::GET, false) => "get",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, true) => "deletecollection",
        (&Method::DELETE, false) => "delete",
        _ => "",
    }
}

/// The document in a request's body.
pub(crate) fn document(call: &Call) -> Result<Value, ApiError> {
    let media = call.content_type.split(';').next().unwrap_or_default().trim();
    if media == protobuf::MEDIA_TYPE {
        return protobuf::decode(&call.body).map_err(|error| match error {
            DecodeError::UnknownKind(_) => ApiError::UnsupportedMediaType(error.to_string()),
            other => ApiError::BadRequest(other.to_string()),
        });
    }
    serde_json::from_slice(&call.body).map_err(|error| {
        let kind = &call.view.resource.kind;
        let why = if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
        let text = String::from_utf8_lossy(&call.body);
        ApiError::BadRequest(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {why} ({text})"
        ))
    })
}
