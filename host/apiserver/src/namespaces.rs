//! What makes a namespace more than an object: others live in it, and go with it.
//!
//! Used by writes and deletions. In a cluster a controller empties a namespace; here the server does it at
//! once. Invariant: no object is created in a namespace that is not there or is being deleted, and a namespace
//! goes when the last object in it has gone, not before.

use std::sync::Arc;

use serde_json::json;

use crate::delete::{self, Preconditions};
use crate::object::{Stored, set_meta, set_path, timestamp};
use crate::resources::{NAMESPACES, Resource};
use crate::status::{ApiError, Cause, GroupResource};
use crate::store::State;
use crate::write::has_finalizers;

/// Refuses creations in a namespace that is not there or not for long.
pub(crate) fn check_create(
    state: &State,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<(), ApiError> {
    if !resource.namespaced {
        return Ok(());
    }
    let Some(found) = state.get(NAMESPACES, namespace) else {
        let resource = GroupResource { group: String::new(), resource: NAMESPACES.into() };
        return Err(ApiError::NotFound { resource, name: namespace.to_owned() });
    };
    if !found.is_terminating() {
        return Ok(());
    }
    let cause = Cause::new(
        "NamespaceTerminating",
        "metadata.namespace",
        format!("namespace {namespace} is being terminated"),
    );
    Err(ApiError::Forbidden {
        resource: resource.group_resource(),
        name: name.to_owned(),
        detail: format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        ),
        causes: vec![cause],
    })
}

/// Begins to delete a namespace: marks it, then deletes what is in it.
pub(crate) fn terminate(state: &mut State, resource: &Resource, namespace: &Arc<Stored>) -> Arc<Stored> {
    let name = namespace.meta("name").to_owned();
    let mut marked = Arc::clone(namespace);
    if !namespace.is_terminating() {
        let mut value = namespace.value.clone();
        set_meta(&mut value, "deletionTimestamp", json!(timestamp()));
        set_path(&mut value, &["status", "phase"], json!("Terminating"));
        marked = state.put(resource, &name, value);
    }
    let prefix = format!("{name}/");
    for collection in state.collection_names() {
        let Some(resource) = state.registry.of_collection(&collection).filter(|r| r.namespaced).cloned()
        else {
            continue;
        };
        let keys: Vec<String> =
            state.collection(&collection).range(&prefix, "").map(|(key, _)| key.to_owned()).collect();
        for key in keys {
            let object = key.strip_prefix(&prefix).unwrap_or(&key);
            let deleted = delete::delete(state, &resource, &name, object, &Preconditions::default());
            debug_assert!(deleted.is_ok(), "an object just listed can be deleted");
        }
    }
    finish(state, &name);
    marked
}

/// Removes a namespace that is being deleted, if nothing is left in it.
pub(crate) fn finish(state: &mut State, name: &str) {
    let Some(namespace) = state.get(NAMESPACES, name).filter(|n| n.is_terminating()) else { return };
    if has_finalizers(&namespace.value) {
        return;
    }
    let prefix = format!("{name}/");
    let names = state.collection_names();
    let empty = names.iter().all(|collection| {
        let namespaced = state.registry.of_collection(collection).is_none_or(|r| r.namespaced);
        !namespaced || state.collection(collection).range(&prefix, "").next().is_none()
    });
    if !empty {
        return;
    }
    if let Some(resource) = state.registry.find("", NAMESPACES).cloned() {
        delete::remove(state, &resource, name);
    }
}
