//! Creating and updating: what the server itself sets, what a writer may not touch, and who wins.
//!
//! Used by the request handler for POST, PUT and PATCH, and by the in-process handle. Invariant: an object is
//! committed only if everything about it has been checked, and a write that changes nothing is not one.

use std::sync::Arc;

use rand::Rng as _;
use serde_json::{Value, json};

use crate::object::{Stored, View, at_path, meta_str, remove_meta, set_meta, set_path, timestamp};
use crate::resources::{CRDS, NAMESPACES, Resource};
use crate::status::{ApiError, Cause, GroupResource};
use crate::store::State;
use crate::{crd, defaults, delete, managed, namespaces, schema, validate};

/// Who writes, and how.
#[derive(Debug, Clone, Default)]
pub(crate) struct By {
    /// Field manager, for managedFields.
    pub(crate) manager: String,
    pub(crate) dry_run: bool,
    /// Unknown fields are an error rather than a warning.
    pub(crate) strict: bool,
    /// The subresource written through, where it is not the part itself.
    pub(crate) subresource: &'static str,
    /// The owners that server-side apply has worked out; `None` for every other write.
    pub(crate) applied: Option<Vec<managed::Entry>>,
}

/// Which part of an object a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but the status, where the kind has a status subresource.
    Main,
    /// Only the status.
    Status,
}

impl Part {
    pub(crate) fn subresource(self) -> &'static str {
        match self {
            Part::Main => "",
            Part::Status => "status",
        }
    }
}

/// What came of a write.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) object: Arc<Stored>,
    pub(crate) created: bool,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

/// Creates an object from a document.
pub(crate) fn create(
    state: &mut State,
    view: &View,
    namespace: &str,
    document: Value,
    by: &By,
) -> Result<Written, ApiError> {
    let resource = Arc::clone(&view.resource);
    if !state.serves(&resource) {
        return Err(ApiError::UnknownPath);
    }
    let document = checked_type(view, document)?;
    let mut value = view.stored_form(document);
    adopt_namespace(&resource, namespace, &mut value)?;
    if !meta_str(&value, "resourceVersion").is_empty() {
        return Err(ApiError::Storage("resourceVersion should not be set on objects to be created".into()));
    }
    name_new_object(&resource, &mut value)?;
    let name = meta_str(&value, "name").to_owned();
    namespaces::check_create(state, &resource, namespace, &name)?;
    set_new_metadata(&resource, &mut value);
    if view.version().status {
        reset_status(&resource, &mut value);
    }
    defaults::apply(&resource.collection, &mut value);
    crd::initial_status(view, &mut value);
    let warnings = admit(view, &mut value, by)?;
    let key = resource.key(namespace, &name);
    if state.get(&resource.collection, &key).is_some() {
        return Err(ApiError::AlreadyExists { resource: resource.group_resource(), name });
    }
    managed::track(view, None, &mut value, by, Part::Main);
    let object = if by.dry_run {
        Arc::new(Stored::new(value, 0, resource.custom))
    } else {
        let object = state.put(&resource, &key, value);
        after_write(state, &resource, &object);
        object
    };
    Ok(Written { object, created: true, warnings })
}

/// Updates an object: `change` makes the new document from the current one.
pub(crate) fn update(
    state: &mut State,
    view: &View,
    (namespace, name): (&str, &str),
    part: Part,
    by: &By,
    change: impl FnOnce(&Value) -> Result<Value, ApiError>,
) -> Result<Written, ApiError> {
    let resource = Arc::clone(&view.resource);
    let key = resource.key(namespace, name);
    let Some(old) = state.get(&resource.collection, &key).cloned() else {
        return Err(not_found(&resource, name));
    };
    let document = change(&view.document(&old.value))?;
    let mut value = view.stored_form(checked_type(view, document)?);
    adopt_namespace(&resource, namespace, &mut value)?;
    check_identity(&resource, name, &old, &mut value)?;
    keep_what_writers_may_not_touch(&resource, &old.value, &mut value);
    keep_other_part(view, part, &old.value, &mut value);
    defaults::apply(&resource.collection, &mut value);
    let warnings = admit(view, &mut value, by)?;
    check_no_new_finalizers(&resource, &old, &value)?;
    count_generation(view, &old.value, &mut value);
    managed::track(view, Some(&old.value), &mut value, by, part);
    if value == old.value {
        return Ok(Written { object: old, created: false, warnings });
    }
    if by.dry_run {
        let object = Arc::new(Stored::new(value, old.revision, resource.custom));
        return Ok(Written { object, created: false, warnings });
    }
    if old.is_terminating() && !has_finalizers(&value) && resource.collection != NAMESPACES {
        let removed = Arc::new(Stored::new(value, old.revision, resource.custom));
        delete::remove(state, &resource, &key);
        return Ok(Written { object: removed, created: false, warnings });
    }
    let object = state.put(&resource, &key, value);
    after_write(state, &resource, &object);
    Ok(Written { object, created: false, warnings })
}

pub(crate) fn not_found(resource: &Resource, name: &str) -> ApiError {
    ApiError::NotFound { resource: resource.group_resource(), name: name.to_owned() }
}

pub(crate) fn has_finalizers(value: &Value) -> bool {
    value.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|f| !f.is_empty())
}

/// What other parts of the server do when an object has been written.
fn after_write(state: &mut State, resource: &Resource, object: &Arc<Stored>) {
    match resource.collection.as_str() {
        CRDS => crd::written(state, object),
        NAMESPACES => namespaces::finish(state, object.meta("name")),
        _ => {}
    }
}

/// Refuses a document of another kind or version than the path's.
fn checked_type(view: &View, document: Value) -> Result<Value, ApiError> {
    let kind = &view.resource.kind;
    let Some(object) = document.as_object() else {
        return Err(ApiError::BadRequest(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: json: cannot unmarshal into Go value"
        )));
    };
    let given = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, given_kind) = (given("apiVersion"), given("kind"));
    if !api_version.is_empty() && api_version != view.api_version {
        return Err(ApiError::BadRequest(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            view.api_version
        )));
    }
    if view.resource.custom && given_kind.is_empty() {
        return Err(ApiError::BadRequest(format!(
            "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in '{document}'"
        )));
    }
    if view.resource.custom && given_kind != *kind {
        let resource = GroupResource { group: view.resource.group.clone(), resource: given_kind.clone() };
        let causes = vec![Cause::invalid("kind", &format!("{given_kind:?}"), &format!("must be {kind}"))];
        return Err(ApiError::Invalid { resource, name: meta_str(&document, "name").to_owned(), causes });
    }
    if !given_kind.is_empty() && given_kind != *kind {
        return Err(ApiError::BadRequest(format!(
            "{given_kind} in version {:?} cannot be handled as a {kind}: converting ({given_kind}) to ({kind}): unknown conversion",
            view.version().name
        )));
    }
    for place in ["metadata", "spec", "status"] {
        if object.get(place).is_some_and(|v| place == "metadata" && !v.is_object() && !v.is_null()) {
            return Err(wrong_type(view, "object", place));
        }
    }
    Ok(document)
}

fn wrong_type(view: &View, wanted: &str, field: &str) -> ApiError {
    ApiError::BadRequest(format!(
        "{0} in version {1:?} cannot be handled as a {0}: json: cannot unmarshal into Go struct field {0}.{field} of type {wanted}",
        view.resource.kind,
        view.version().name
    ))
}

/// The namespace of the path is that of the object.
fn adopt_namespace(resource: &Resource, namespace: &str, value: &mut Value) -> Result<(), ApiError> {
    let given = meta_str(value, "namespace");
    if !resource.namespaced {
        remove_meta(value, "namespace");
    } else if given.is_empty() {
        set_meta(value, "namespace", json!(namespace));
    } else if given != namespace {
        return Err(ApiError::BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request".into(),
        ));
    }
    Ok(())
}

fn name_new_object(resource: &Resource, value: &mut Value) -> Result<(), ApiError> {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let prefix = meta_str(value, "generateName").to_owned();
    if meta_str(value, "name").is_empty() && !prefix.is_empty() {
        let mut rng = rand::rng();
        let suffix: String =
            (0..5).map(|_| char::from(LETTERS[rng.random_range(0..LETTERS.len())])).collect();
        set_meta(value, "name", json!(format!("{}{suffix}", &prefix[..prefix.len().min(58)])));
    }
    let name = meta_str(value, "name").to_owned();
    let causes = if name.is_empty() {
        vec![Cause::required("metadata.name", "name or generateName is required")]
    } else {
        validate::name(&resource.collection, &name)
    };
    invalid_if(resource, &name, causes)
}

pub(crate) fn invalid_if(resource: &Resource, name: &str, causes: Vec<Cause>) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid { resource: resource.group_kind(), name: name.to_owned(), causes })
}

fn set_new_metadata(resource: &Resource, value: &mut Value) {
    for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        remove_meta(value, field);
    }
    set_meta(value, "uid", json!(uuid::Uuid::new_v4().to_string()));
    set_meta(value, "creationTimestamp", json!(timestamp()));
    if resource.generation {
        set_meta(value, "generation", json!(1));
    }
    if resource.is(NAMESPACES) {
        let name = meta_str(value, "name").to_owned();
        set_path(value, &["metadata", "labels", "kubernetes.io/metadata.name"], json!(name));
    }
}

/// A new object has no status yet; nodes bring theirs, as a kubelet registers itself.
fn reset_status(resource: &Resource, value: &mut Value) {
    if resource.is("nodes") {
        return;
    }
    if let Some(object) = value.as_object_mut() {
        object.remove("status");
    }
}

/// Name, uid and version of an update must be those of the object.
fn check_identity(resource: &Resource, name: &str, old: &Stored, value: &mut Value) -> Result<(), ApiError> {
    let given = meta_str(value, "name");
    if !given.is_empty() && given != name {
        return Err(ApiError::BadRequest(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    let conflict = |detail: String| ApiError::Conflict {
        resource: resource.group_resource(),
        name: name.to_owned(),
        detail,
    };
    let (uid, old_uid) = (meta_str(value, "uid"), old.meta("uid"));
    if !uid.is_empty() && uid != old_uid {
        let key = format!("/registry/{}/{}", resource.plural, resource.key(old.meta("namespace"), name));
        return Err(conflict(format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}"
        )));
    }
    let version = meta_str(value, "resourceVersion");
    if version.is_empty() && resource.custom {
        let causes = vec![Cause::invalid("metadata.resourceVersion", "0", "must be specified for an update")];
        return Err(ApiError::Invalid { resource: resource.group_resource(), name: name.to_owned(), causes });
    }
    if !matches!(version, "" | "0") && version != old.meta("resourceVersion") {
        return Err(conflict(
            "the object has been modified; please apply your changes to the latest version and try again"
                .into(),
        ));
    }
    Ok(())
}

fn keep_what_writers_may_not_touch(resource: &Resource, old: &Value, value: &mut Value) {
    const SYSTEM: &[&str] = &[
        "name",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
    ];
    for field in SYSTEM {
        match old.get("metadata").and_then(|m| m.get(*field)) {
            Some(kept) => set_meta(value, field, kept.clone()),
            None => remove_meta(value, field),
        }
    }
    if resource.is("services") {
        for field in ["clusterIP", "clusterIPs"] {
            if let (None, Some(ip)) = (at_path(value, &["spec", field]), at_path(old, &["spec", field])) {
                set_path(value, &["spec", field], ip.clone());
            }
        }
    }
}

/// Where status is a subresource, writes of the object leave it alone, and writes of it everything else.
fn keep_other_part(view: &View, part: Part, old: &Value, value: &mut Value) {
    if !view.version().status {
        return;
    }
    let status = match part {
        Part::Main => old.get("status").cloned(),
        Part::Status => {
            let status = value.get("status").cloned();
            let managed = value.pointer("/metadata/managedFields").cloned();
            value.clone_from(old);
            if let Some(managed) = managed {
                set_meta(value, "managedFields", managed);
            }
            status
        }
    };
    if let Some(object) = value.as_object_mut() {
        match status {
            Some(status) => object.insert("status".into(), status),
            None => object.remove("status"),
        };
    }
}

/// Validation, which for custom resources follows their schema. Returns warnings.
fn admit(view: &View, value: &mut Value, by: &By) -> Result<Vec<String>, ApiError> {
    let resource = &view.resource;
    let name = meta_str(value, "name").to_owned();
    drop_empty_metadata(value);
    check_maps(view, value)?;
    let mut warnings = Vec::new();
    let mut causes = validate::labels(value);
    if let Some(schema) = &view.version().schema {
        let unknown = schema::prune(schema, value);
        if by.strict && !unknown.is_empty() {
            let list =
                unknown.iter().map(|f| format!("unknown field \"{f}\"")).collect::<Vec<_>>().join(", ");
            return Err(ApiError::BadRequest(format!(
                "{0} in version {1:?} cannot be handled as a {0}: strict decoding error: {list}",
                resource.kind,
                view.version().name
            )));
        }
        warnings.extend(unknown.iter().map(|f| format!("unknown field \"{f}\"")));
        schema::default(schema, value);
        causes.extend(schema::validate(schema, value));
    }
    causes.extend(required(resource, value));
    if resource.is(CRDS) {
        crd::default_names(value);
        causes.extend(crd::validate(value));
    }
    invalid_if(resource, &name, causes)?;
    Ok(warnings)
}

/// A typed server does not keep maps and lists with nothing in them.
fn drop_empty_metadata(value: &mut Value) {
    for field in ["labels", "annotations", "finalizers", "ownerReferences", "managedFields", "generateName"] {
        let empty = match value.get("metadata").and_then(|m| m.get(field)) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Null) => true,
            _ => false,
        };
        if empty {
            remove_meta(value, field);
        }
    }
}

/// Maps of strings hold nothing but strings.
fn check_maps(view: &View, value: &Value) -> Result<(), ApiError> {
    let mut maps = vec![
        (vec!["metadata", "labels"], "ObjectMeta.metadata.labels"),
        (vec!["metadata", "annotations"], "ObjectMeta.metadata.annotations"),
    ];
    if view.resource.is("configmaps") {
        maps.push((vec!["data"], "ConfigMap.data"));
    }
    for (path, field) in maps {
        let entries = at_path(value, &path).and_then(Value::as_object);
        let Some(wrong) =
            entries.into_iter().flatten().map(|(_, v)| v).find(|v| !v.is_string() && !v.is_null())
        else {
            continue;
        };
        let found = match wrong {
            Value::Number(_) => "number",
            Value::Bool(_) => "bool",
            Value::Array(_) => "array",
            _ => "object",
        };
        return Err(ApiError::BadRequest(format!(
            "{0} in version {1:?} cannot be handled as a {0}: json: cannot unmarshal {found} into Go struct field {field} of type string",
            view.resource.kind,
            view.version().name
        )));
    }
    Ok(())
}

/// Fields without which the real server does not take an object of a kind.
fn required(resource: &Resource, value: &Value) -> Vec<Cause> {
    let fields: &[&str] = match resource.collection.as_str() {
        "pods" => &["spec.containers"],
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" | "daemonsets.apps" => {
            &["spec.selector", "spec.template.spec.containers"]
        }
        "jobs.batch" => &["spec.template.spec.containers"],
        _ => &[],
    };
    let missing = |field: &&&str| {
        let path: Vec<&str> = field.split('.').collect();
        match at_path(value, &path) {
            None | Some(Value::Null) => true,
            Some(Value::Array(items)) => items.is_empty(),
            Some(_) => false,
        }
    };
    fields.iter().filter(missing).map(|field| Cause::required(*field, "")).collect()
}

fn check_no_new_finalizers(resource: &Resource, old: &Stored, value: &Value) -> Result<(), ApiError> {
    if !old.is_terminating() {
        return Ok(());
    }
    let list =
        |v: &Value| v.pointer("/metadata/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    let before = list(&old.value);
    let added: Vec<Value> = list(value).into_iter().filter(|f| !before.contains(f)).collect();
    if added.is_empty() {
        return Ok(());
    }
    let found = added.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let why = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{found}}}"
    );
    invalid_if(resource, old.meta("name"), vec![Cause::forbidden("metadata.finalizers", &why)])
}

/// The generation counts changes of what is desired.
fn count_generation(view: &View, old: &Value, value: &mut Value) {
    if !view.resource.generation {
        return;
    }
    let has_status = view.version().status || !view.resource.custom;
    let desired = |v: &Value| {
        let mut v = v.clone();
        if let Some(object) = v.as_object_mut() {
            object.remove("metadata");
            if has_status {
                object.remove("status");
            }
        }
        v
    };
    if desired(old) != desired(value) {
        let generation = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
        set_meta(value, "generation", json!(generation + 1));
    }
}
