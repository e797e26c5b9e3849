//! CustomResourceDefinitions: what they make the server serve, and what goes with them.
//!
//! Used by writes and deletions. Invariant: the registry has a custom resource exactly while its definition is
//! stored and established, and a definition goes after the last of its objects.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::columns::{Column, ColumnKind, Source, age_column, name_column};
use crate::delete::{self, Deleted, Preconditions};
use crate::jsonpath::JsonPath;
use crate::object::{Stored, View, set_meta, set_path, timestamp};
use crate::resources::{CRDS, Form, Resource, ScalePaths, Verbs, Version};
use crate::status::{Cause, GroupResource};
use crate::store::State;
use crate::validate;
use crate::write::has_finalizers;

const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn texts(value: &Value, pointer: &str) -> Vec<String> {
    list(value, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What is wrong with a definition, if anything.
pub(crate) fn validate(definition: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let name = text(definition, "/metadata/name");
    for (field, value) in [
        ("spec.group", group),
        ("spec.names.plural", plural),
        ("spec.names.kind", text(definition, "/spec/names/kind")),
    ] {
        if value.is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    let domain = validate::is_subdomain(group) && group.contains('.');
    if !group.is_empty() && !domain {
        causes.push(Cause::invalid(
            "spec.group",
            &format!("{group:?}"),
            "should be a domain with at least one dot",
        ));
    }
    if name != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &format!("{name:?}"), why));
    }
    let scope = text(definition, "/spec/scope");
    if !matches!(scope, "Namespaced" | "Cluster") {
        causes.push(Cause::unsupported("spec.scope", scope, &["Cluster", "Namespaced"]));
    }
    let versions = list(definition, "/spec/versions");
    let stored = versions.iter().filter(|v| v.get("storage") == Some(&json!(true))).count();
    if stored != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", "[]", why));
    }
    for (i, version) in versions.iter().enumerate() {
        if version.pointer("/schema/openAPIV3Schema").is_none() {
            causes.push(Cause::required(
                format!("spec.versions[{i}].schema.openAPIV3Schema"),
                "schemas are required",
            ));
        }
    }
    causes
}

/// Names that may be left out.
pub(crate) fn default_names(definition: &mut Value) {
    let kind = text(definition, "/spec/names/kind").to_owned();
    if kind.is_empty() {
        return;
    }
    if text(definition, "/spec/names/singular").is_empty() {
        set_path(definition, &["spec", "names", "singular"], json!(kind.to_lowercase()));
    }
    if text(definition, "/spec/names/listKind").is_empty() {
        set_path(definition, &["spec", "names", "listKind"], json!(format!("{kind}List")));
    }
}

/// The resource a definition describes.
fn resource(definition: &Value) -> Resource {
    let group = text(definition, "/spec/group").to_owned();
    let plural = text(definition, "/spec/names/plural").to_owned();
    let kind = text(definition, "/spec/names/kind").to_owned();
    let versions: Vec<Version> =
        list(definition, "/spec/versions").iter().map(|v| version(definition, v)).collect();
    Resource {
        collection: GroupResource { group: group.clone(), resource: plural.clone() }.to_string(),
        singular: text(definition, "/spec/names/singular").to_owned(),
        list_kind: text(definition, "/spec/names/listKind").to_owned(),
        namespaced: text(definition, "/spec/scope") == "Namespaced",
        short_names: texts(definition, "/spec/names/shortNames"),
        categories: texts(definition, "/spec/names/categories"),
        form: Form::AsStored,
        verbs: Verbs::All,
        generation: true,
        custom: true,
        group,
        plural,
        kind,
        versions,
    }
}

fn version(definition: &Value, version: &Value) -> Version {
    let flag = |key: &str| version.get(key).and_then(Value::as_bool).unwrap_or(false);
    let selectable = list(version, "/selectableFields").iter().filter_map(|f| {
        let path = f.get("jsonPath")?.as_str()?;
        Some((path.trim_start_matches('.').to_owned(), JsonPath::parse(path)?.keys()?))
    });
    Version {
        name: text(version, "/name").to_owned(),
        served: flag("served"),
        storage: flag("storage"),
        status: version.pointer("/subresources/status").is_some(),
        scale: version.pointer("/subresources/scale").and_then(scale),
        columns: columns(version),
        deprecation: flag("deprecated").then(|| deprecation(definition, version)),
        schema: version.pointer("/schema/openAPIV3Schema").map(|s| Arc::new(s.clone())),
        selectable: selectable.collect(),
    }
}

fn scale(scale: &Value) -> Option<ScalePaths> {
    let keys = |field: &str| JsonPath::parse(scale.get(field)?.as_str()?)?.keys();
    Some(ScalePaths {
        spec: keys("specReplicasPath")?,
        status: keys("statusReplicasPath")?,
        selector: keys("labelSelectorPath"),
    })
}

fn deprecation(definition: &Value, version: &Value) -> String {
    let own = text(version, "/deprecationWarning");
    if !own.is_empty() {
        return own.to_owned();
    }
    let (group, kind) = (text(definition, "/spec/group"), text(definition, "/spec/names/kind"));
    let warning = format!("{group}/{} {kind} is deprecated", text(version, "/name"));
    let current = list(definition, "/spec/versions").iter().find(|v| {
        v.get("served") == Some(&json!(true)) && v.get("deprecated").is_none_or(|d| d == &json!(false))
    });
    match current {
        Some(current) => format!("{warning}; use {group}/{} {kind}", text(current, "/name")),
        None => warning,
    }
}

fn columns(version: &Value) -> Vec<Column> {
    let own: Vec<Column> = list(version, "/additionalPrinterColumns").iter().filter_map(column).collect();
    let age = own.is_empty().then(age_column);
    std::iter::once(name_column()).chain(own).chain(age).collect()
}

fn column(definition: &Value) -> Option<Column> {
    let (kind, shown) = match text(definition, "/type") {
        "integer" => ("integer", ColumnKind::Number),
        "number" => ("number", ColumnKind::Number),
        "boolean" => ("boolean", ColumnKind::Boolean),
        "date" => ("date", ColumnKind::Date),
        _ => ("string", ColumnKind::String),
    };
    Some(Column {
        name: text(definition, "/name").to_owned(),
        kind,
        format: "",
        description: text(definition, "/description").to_owned(),
        priority: definition.get("priority").and_then(Value::as_i64).unwrap_or(0),
        source: Source::Path { path: JsonPath::parse(text(definition, "/jsonPath"))?, kind: shown },
    })
}

/// A definition was written: serve it, and say so in its status.
pub(crate) fn written(state: &mut State, definition: &Arc<Stored>) {
    if definition.is_terminating() {
        return;
    }
    let new = resource(&definition.value);
    let generation = generation(&definition.value);
    if established(&definition.value) && state.registry.served_generation(&new.collection) == Some(generation)
    {
        return;
    }
    let collection = new.collection.clone();
    let revision = state.revision();
    state.registry.register(new, revision, generation);
    state.end_watches(&collection);
    if !established(&definition.value) {
        establish(state, definition);
    }
}

fn generation(definition: &Value) -> i64 {
    definition.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0)
}

fn established(definition: &Value) -> bool {
    let is = |c: &Value| text(c, "/type") == "Established" && text(c, "/status") == "True";
    list(definition, "/status/conditions").iter().any(is)
}

fn condition(kind: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": "True", "lastTransitionTime": timestamp(), "reason": reason, "message": message})
}

fn establish(state: &mut State, definition: &Arc<Stored>) {
    let Some(crds) = state.registry.of_collection(CRDS).cloned() else { return };
    let mut value = definition.value.clone();
    let names = value.pointer("/spec/names").cloned().unwrap_or_default();
    let stored: Vec<Value> = list(&value, "/spec/versions")
        .iter()
        .filter(|v| v.get("storage") == Some(&json!(true)))
        .filter_map(|v| v.get("name").cloned())
        .collect();
    let status = json!({
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": names,
        "storedVersions": stored,
    });
    set_path(&mut value, &["status"], status);
    state.put(&crds, definition.meta("name"), value);
}

/// Begins to delete a definition: marks it, deletes its objects, and goes when they have gone.
pub(crate) fn terminate(state: &mut State, crds: &Arc<Resource>, definition: &Arc<Stored>) -> Deleted {
    let name = definition.meta("name").to_owned();
    let mut marked = Arc::clone(definition);
    if !definition.is_terminating() {
        let mut value = definition.value.clone();
        set_meta(&mut value, "deletionTimestamp", json!(timestamp()));
        add_finalizer(&mut value);
        marked = state.put(crds, &name, value.clone());
        let going =
            condition("Terminating", "InstanceDeletionInProgress", "CustomResource deletion is in progress");
        if let Some(conditions) = value.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
            conditions.push(going);
        }
        state.put(crds, &name, value);
    }
    delete_objects(state, &name);
    finish(state, &name);
    Deleted::Object(marked)
}

fn add_finalizer(value: &mut Value) {
    let mut finalizers = texts(value, "/metadata/finalizers");
    if !finalizers.iter().any(|f| f == CLEANUP) {
        finalizers.push(CLEANUP.into());
    }
    set_meta(value, "finalizers", json!(finalizers));
}

fn delete_objects(state: &mut State, collection: &str) {
    let Some(resource) = state.registry.of_collection(collection).filter(|r| r.custom).cloned() else {
        return;
    };
    let keys: Vec<String> = state.collection(collection).objects.keys().cloned().collect();
    for key in keys {
        let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
        let deleted = delete::delete(state, &resource, namespace, name, &Preconditions::default());
        debug_assert!(deleted.is_ok(), "an object just listed can be deleted");
    }
}

/// Removes a definition that is being deleted, if none of its objects is left and nobody else holds it.
pub(crate) fn finish(state: &mut State, name: &str) {
    let Some(definition) = state.get(CRDS, name).filter(|d| d.is_terminating()).cloned() else { return };
    if !state.collection(name).objects.is_empty() {
        return;
    }
    let Some(crds) = state.registry.of_collection(CRDS).cloned() else { return };
    let mut value = definition.value.clone();
    let others: Vec<String> =
        texts(&value, "/metadata/finalizers").into_iter().filter(|f| f != CLEANUP).collect();
    if others.is_empty() {
        delete::remove(state, &crds, name);
    } else if texts(&value, "/metadata/finalizers").len() != others.len() {
        set_meta(&mut value, "finalizers", json!(others));
        debug_assert!(has_finalizers(&value), "others are left");
        state.put(&crds, name, value);
    }
}

/// A definition is gone: its resource is served no more.
pub(crate) fn removed(state: &mut State, definition: &Stored) {
    let (group, plural) =
        (text(&definition.value, "/spec/group"), text(&definition.value, "/spec/names/plural"));
    state.registry.unregister(group, plural);
    state.end_watches(definition.meta("name"));
    state.drop_collection(definition.meta("name"));
}

/// A new definition's status as its creation answers it, before its names are accepted.
pub(crate) fn initial_status(view: &View, definition: &mut Value) {
    if !view.resource.is(CRDS) {
        return;
    }
    let stored: Vec<Value> = list(definition, "/spec/versions")
        .iter()
        .filter(|v| v.get("storage") == Some(&json!(true)))
        .filter_map(|v| v.get("name").cloned())
        .collect();
    let names = json!({"plural": "", "kind": ""});
    let status = json!({"conditions": null, "acceptedNames": names, "storedVersions": stored});
    set_path(definition, &["status"], status);
}
