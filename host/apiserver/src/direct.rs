//! The server's own operations without HTTP, for tests and for loading manifests.
//!
//! Used through `Handle`. The same checks apply as to a request.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::delete::{self, Preconditions};
use crate::object::{View, meta_str};
use crate::status::ApiError;
use crate::store::{State, Store};
use crate::write::{self, By, Part, Written};

/// Namespaces that every cluster has.
const NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

fn by() -> By {
    By { manager: "hark".into(), ..By::default() }
}

/// The view, namespace and name that a document speaks of.
fn addressed(state: &State, document: &Value) -> Result<(View, String, String), ApiError> {
    let text = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = state.registry.find_kind(group, version, kind).cloned();
    let view = resource.and_then(|r| View::new(r, version)).ok_or_else(|| {
        ApiError::BadRequest(format!("no matches for kind {kind:?} in version {api_version:?}"))
    })?;
    let namespace = match meta_str(document, "namespace") {
        _ if !view.resource.namespaced => "",
        "" => "default",
        namespace => namespace,
    };
    Ok((view, namespace.to_owned(), meta_str(document, "name").to_owned()))
}

fn shown(view: &View, written: &Written) -> Value {
    view.document(&written.object.value)
}

pub(crate) fn create(store: &Store, document: Value) -> Result<Value, ApiError> {
    let mut state = store.lock();
    let (view, namespace, _) = addressed(&state, &document)?;
    let written = write::create(&mut state, &view, &namespace, document, &by())?;
    Ok(shown(&view, &written))
}

pub(crate) fn update(store: &Store, document: Value, part: Part) -> Result<Value, ApiError> {
    let mut state = store.lock();
    let (view, namespace, name) = addressed(&state, &document)?;
    let written = write::update(&mut state, &view, (&namespace, &name), part, &by(), |current| {
        Ok(with_version(document, current))
    })?;
    Ok(shown(&view, &written))
}

/// An update that names no version is of whatever there is.
fn with_version(mut document: Value, current: &Value) -> Value {
    if meta_str(&document, "resourceVersion").is_empty() {
        crate::object::set_meta(
            &mut document,
            "resourceVersion",
            json!(meta_str(current, "resourceVersion")),
        );
    }
    document
}

pub(crate) fn apply(store: &Store, document: Value) -> Result<Value, ApiError> {
    match create(store, document.clone()) {
        Err(ApiError::AlreadyExists { .. }) => update(store, document, Part::Main),
        other => other,
    }
}

pub(crate) fn delete(store: &Store, document: &Value) -> Result<Value, ApiError> {
    let mut state = store.lock();
    let (view, namespace, name) = addressed(&state, document)?;
    let resource = Arc::clone(&view.resource);
    let deleted = delete::delete(&mut state, &resource, &namespace, &name, &Preconditions::default())?;
    Ok(view.document(&deleted.object().value))
}

pub(crate) fn get(store: &Store, document: &Value) -> Result<Value, ApiError> {
    let state = store.lock();
    let (view, namespace, name) = addressed(&state, document)?;
    let key = view.resource.key(&namespace, &name);
    match state.get(&view.resource.collection, &key) {
        Some(object) => Ok(view.document(&object.value)),
        None => Err(write::not_found(&view.resource, &name)),
    }
}

pub(crate) fn list(store: &Store, api_version: &str, kind: &str) -> Result<Vec<Value>, ApiError> {
    let mut state = store.lock();
    let (view, ..) = addressed(&state, &json!({"apiVersion": api_version, "kind": kind}))?;
    let objects = state.collection(&view.resource.collection).objects.values();
    Ok(objects.map(|object| view.document(&object.value)).collect())
}

/// The namespaces a server begins with.
pub(crate) fn create_namespaces(store: &Store, more: &[String]) {
    for name in NAMESPACES.iter().copied().chain(more.iter().map(String::as_str)) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        if let Err(error) = create(store, namespace) {
            tracing::warn!(name, %error, "cannot create a namespace");
        }
    }
}
