//! Deleting: preconditions, finalizers, and what goes with an object.
//!
//! Used by the request handler, by namespaces and definitions that take their contents with them, and by the
//! in-process handle. Invariant: an object with finalizers is never removed, only marked.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::object::{Stored, set_meta, timestamp};
use crate::resources::{CRDS, NAMESPACES, Resource};
use crate::status::ApiError;
use crate::store::State;
use crate::write::{has_finalizers, not_found};
use crate::{crd, namespaces};

/// What must hold for a deletion to happen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl Preconditions {
    /// From the body of a request: `DeleteOptions`, or nothing.
    pub(crate) fn from_options(body: &Value) -> Self {
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let all = json!("All");
        Preconditions {
            uid: text("/preconditions/uid"),
            resource_version: text("/preconditions/resourceVersion"),
            dry_run: body.get("dryRun").and_then(Value::as_array).is_some_and(|d| d.contains(&all)),
        }
    }
}

/// What a deletion did.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object is gone.
    Gone(Arc<Stored>),
    /// It lives on, marked, until its finalizers are done; or it is of a kind whose deletions answer with it.
    Object(Arc<Stored>),
}

impl Deleted {
    pub(crate) fn object(&self) -> &Arc<Stored> {
        match self {
            Deleted::Gone(object) | Deleted::Object(object) => object,
        }
    }
}

/// Kinds whose deletions answer with the object, as it was.
const ANSWERED_WITH: &[&str] = &[
    "services",
    "serviceaccounts",
    "persistentvolumes",
    "persistentvolumeclaims",
    "podtemplates",
    "resourcequotas",
];

/// Deletes an object, or begins to.
pub(crate) fn delete(
    state: &mut State,
    resource: &Arc<Resource>,
    namespace: &str,
    name: &str,
    preconditions: &Preconditions,
) -> Result<Deleted, ApiError> {
    let key = resource.key(namespace, name);
    let Some(object) = state.get(&resource.collection, &key).cloned() else {
        return Err(not_found(resource, name));
    };
    check(resource, name, &object, preconditions)?;
    if preconditions.dry_run {
        return Ok(Deleted::Gone(object));
    }
    match resource.collection.as_str() {
        NAMESPACES => Ok(Deleted::Object(namespaces::terminate(state, resource, &object))),
        CRDS => Ok(crd::terminate(state, resource, &object)),
        _ if has_finalizers(&object.value) => Ok(Deleted::Object(mark(state, resource, &key, &object))),
        "pods" => {
            let marked = mark(state, resource, &key, &object);
            remove(state, resource, &key);
            Ok(Deleted::Object(marked))
        }
        kind if ANSWERED_WITH.contains(&kind) => {
            remove(state, resource, &key);
            Ok(Deleted::Object(object))
        }
        _ => Ok(Deleted::Gone(remove(state, resource, &key).unwrap_or(object))),
    }
}

fn check(resource: &Resource, name: &str, object: &Stored, wanted: &Preconditions) -> Result<(), ApiError> {
    let mut kind = resource.group_kind();
    kind.group.clone_from(&resource.group);
    let conflict =
        |detail: String| ApiError::Conflict { resource: kind.clone(), name: name.to_owned(), detail };
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != object.meta("uid")) {
        return Err(conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            object.meta("uid")
        )));
    }
    let version = object.meta("resourceVersion");
    if let Some(wanted) = wanted.resource_version.as_deref().filter(|wanted| *wanted != version) {
        return Err(conflict(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        )));
    }
    Ok(())
}

/// Sets the deletion timestamp, once.
pub(crate) fn mark(state: &mut State, resource: &Resource, key: &str, object: &Arc<Stored>) -> Arc<Stored> {
    if object.is_terminating() {
        return Arc::clone(object);
    }
    let mut value = object.value.clone();
    set_meta(&mut value, "deletionTimestamp", json!(timestamp()));
    set_meta(&mut value, "deletionGracePeriodSeconds", json!(0));
    if let Some(generation) = value.pointer("/metadata/generation").and_then(Value::as_i64) {
        set_meta(&mut value, "generation", json!(generation + 1));
    }
    state.put(resource, key, value)
}

/// Removes an object, and whatever only waited for it to go.
pub(crate) fn remove(state: &mut State, resource: &Resource, key: &str) -> Option<Arc<Stored>> {
    let gone = state.remove(resource, key)?;
    if resource.namespaced {
        namespaces::finish(state, gone.meta("namespace"));
    }
    if resource.custom {
        crd::finish(state, &resource.collection);
    } else if resource.is(CRDS) {
        crd::removed(state, &gone);
    }
    Some(gone)
}
