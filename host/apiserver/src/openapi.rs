//! Just enough OpenAPI v3 for kubectl: which query parameters patches understand.
//!
//! Used by the request handler. kubectl reads it to learn that the server validates fields itself; it has no
//! schemas, so that for everything else kubectl falls back to what it knows of the built-in types. The v2
//! document is not served, which has the same effect.

use serde_json::{Map, Value, json};

use crate::registry::Registry;

/// `/openapi/v3`: where the documents are.
pub(crate) fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for group in registry.groups() {
        for version in registry.versions(group) {
            let path = path(group, version);
            let url = format!("/openapi/v3/{path}?hash={}", registry.generation());
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// `/openapi/v3/api/v1`, `/openapi/v3/apis/GROUP/VERSION`
pub(crate) fn document(registry: &Registry, path_of_document: &str) -> Option<Value> {
    let (group, version) = match path_of_document.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => (String::new(), (*version).to_owned()),
        ["apis", group, version] => ((*group).to_owned(), (*version).to_owned()),
        _ => return None,
    };
    let resources = registry.in_version(&group, &version);
    if resources.is_empty() {
        return None;
    }
    let mut paths = Map::new();
    for resource in resources {
        let scope = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
        let url = format!("/{}/{scope}{}/{{name}}", path(&group, &version), resource.plural);
        let kind = json!({"group": group, "version": version, "kind": resource.kind});
        paths.insert(url, json!({"patch": patch(&kind)}));
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": crate::version::GIT_VERSION},
        "paths": paths,
    }))
}

fn patch(kind: &Value) -> Value {
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "force"]
        .into_iter()
        .map(|name| {
            let kind = if name == "force" { "boolean" } else { "string" };
            json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
        })
        .collect();
    json!({
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind,
    })
}
