//! Who owns which field: `managedFields`, and server-side apply, which is decided by it.
//!
//! Used by writes. Invariant: after a write, every field of the object that a client set is owned by whoever
//! set it last, or by all who applied the value it has. What the server defaults is owned by nobody.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::fields::{self, FieldPath, FieldSet, Shape};
use crate::lists::ListKind;
use crate::object::{View, meta_str, remove_meta, set_meta, timestamp};
use crate::options::{self, Options};
use crate::status::{ApiError, Cause};
use crate::store::State;
use crate::write::{self, By, Part, Written};

/// One entry of `managedFields`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    manager: String,
    apply: bool,
    api_version: String,
    subresource: String,
    time: String,
    fields: FieldSet,
}

impl Entry {
    fn new(view: &View, manager: &str, apply: bool, part: Part) -> Self {
        Entry {
            manager: manager.to_owned(),
            apply,
            api_version: view.api_version.clone(),
            subresource: part.subresource().to_owned(),
            time: timestamp(),
            fields: FieldSet::new(),
        }
    }

    fn parse(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Entry {
            manager: text("manager"),
            apply: text("operation") == "Apply",
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            fields: fields::from_v1(value.get("fieldsV1")?),
        })
    }

    fn write(&self) -> Value {
        let mut entry = Map::new();
        entry.insert("manager".into(), json!(self.manager));
        entry.insert("operation".into(), json!(if self.apply { "Apply" } else { "Update" }));
        entry.insert("apiVersion".into(), json!(self.api_version));
        entry.insert("time".into(), json!(self.time));
        entry.insert("fieldsType".into(), json!("FieldsV1"));
        entry.insert("fieldsV1".into(), fields::to_v1(&self.fields));
        if !self.subresource.is_empty() {
            entry.insert("subresource".into(), json!(self.subresource));
        }
        Value::Object(entry)
    }

    fn is_same_writer(&self, other: &Entry) -> bool {
        (self.apply, &self.manager, &self.api_version, &self.subresource)
            == (other.apply, &other.manager, &other.api_version, &other.subresource)
    }

    /// As the causes of an apply conflict name it.
    fn conflict(&self) -> String {
        let mut text = format!("conflict with {:?}", self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if !self.apply {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

fn entries(object: &Value) -> Vec<Entry> {
    let list = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Entry::parse).collect()
}

fn put_entries(object: &mut Value, mut entries: Vec<Entry>) {
    entries.retain(|e| !e.fields.is_empty());
    entries.sort_by(|a, b| (!a.apply, &a.time, &a.manager).cmp(&(!b.apply, &b.time, &b.manager)));
    if entries.is_empty() {
        remove_meta(object, "managedFields");
    } else {
        set_meta(object, "managedFields", Value::Array(entries.iter().map(Entry::write).collect()));
    }
}

/// Whether a field is of the part that a write is about; the status is nobody's who does not write it.
fn of_part(view: &View, part: Part, path: &[String]) -> bool {
    let status = path.first().is_some_and(|step| step == "f:status");
    !view.version().status || status == (part == Part::Status)
}

/// Notes in a new state what a write changed against the old one.
pub(crate) fn track(view: &View, old: Option<&Value>, new: &mut Value, by: &By, part: Part) {
    if let Some(applied) = &by.applied {
        return settle(old, new, applied.clone());
    }
    let shape = Shape(view);
    let before = old.map(|old| fields::flatten(shape, old, true)).unwrap_or_default();
    let after = fields::flatten(shape, new, true);
    let changed: FieldSet = after
        .iter()
        .filter(|(path, v)| of_part(view, part, path) && before.get(*path) != Some(v))
        .map(|(path, _)| path.clone())
        .collect();
    let removed: FieldSet = before.keys().filter(|path| !after.contains_key(*path)).cloned().collect();
    let mut entries = base_entries(old, new);
    let mut mine = Entry::new(view, &by.manager, false, part);
    if !by.subresource.is_empty() {
        by.subresource.clone_into(&mut mine.subresource);
    }
    for entry in &mut entries {
        if entry.is_same_writer(&mine) {
            mine.fields = std::mem::take(&mut entry.fields);
            mine.time.clone_from(&entry.time);
        } else {
            entry.fields.retain(|path| !changed.contains(path) && !removed.contains(path));
        }
    }
    if !changed.is_empty() || mine.fields.iter().any(|p| removed.contains(p)) {
        mine.time = timestamp();
    }
    mine.fields.retain(|path| !removed.contains(path));
    mine.fields.extend(changed);
    entries.push(mine);
    settle(old, new, entries);
}

/// The entries a write starts from: its own, if it brings any, since they may be edited; an empty one clears.
fn base_entries(old: Option<&Value>, new: &Value) -> Vec<Entry> {
    match new.pointer("/metadata/managedFields").and_then(Value::as_array) {
        Some(list) if !list.is_empty() => entries(new),
        _ => old.map(entries).unwrap_or_default(),
    }
}

/// Writes the entries, or leaves the old ones where nothing but a time would differ.
fn settle(old: Option<&Value>, new: &mut Value, entries: Vec<Entry>) {
    put_entries(new, entries);
    let Some(old) = old else { return };
    let timeless = |object: &Value| {
        let mut list = object.pointer("/metadata/managedFields").cloned().unwrap_or_default();
        for entry in list.as_array_mut().into_iter().flatten() {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("time");
            }
        }
        list
    };
    if timeless(old) == timeless(new)
        && let Some(kept) = old.pointer("/metadata/managedFields")
    {
        set_meta(new, "managedFields", kept.clone());
    }
}

/// Server-side apply: creates the object, or makes it hold what the configuration says and nothing that the
/// same manager applied before and has dropped.
pub(crate) fn apply(
    state: &mut State,
    view: &View,
    (namespace, name): (&str, &str),
    part: Part,
    options: &Options,
    config: Value,
) -> Result<Written, ApiError> {
    let manager = options.field_manager.as_str();
    check(view, name, manager, &config)?;
    let mut config = view.stored_form(config);
    remove_meta(&mut config, "creationTimestamp");
    let strict = options.field_validation == "Strict";
    let by = By { manager: manager.to_owned(), dry_run: options.dry_run, strict, ..By::default() };
    let key = view.resource.key(namespace, name);
    let mut mine = Entry::new(view, manager, true, part);
    mine.fields = fields::flatten(Shape(view), &config, false).into_keys().collect();
    mine.fields.retain(|path| of_part(view, part, path));
    let Some(live) = state.get(&view.resource.collection, &key).cloned() else {
        if part == Part::Status {
            return Err(write::not_found(&view.resource, name));
        }
        set_meta(&mut config, "name", json!(name));
        let by = By { applied: Some(vec![mine]), ..by };
        return write::create(state, view, namespace, view.document(&config), &by);
    };
    let merged = merge(view, &live.value, &config, mine, options.force)?;
    let by = By { applied: Some(merged.entries), ..by };
    let object = view.document(&merged.object);
    let live = Arc::clone(&live);
    write::update(state, view, (namespace, name), part, &by, |_| {
        drop(live);
        Ok(object)
    })
}

fn check(view: &View, name: &str, manager: &str, config: &Value) -> Result<(), ApiError> {
    if manager.is_empty() {
        return Err(ApiError::Invalid {
            resource: options::meta("PatchOptions"),
            name: String::new(),
            causes: vec![Cause::required("fieldManager", "is required for apply patch")],
        });
    }
    let bad = |text: String| Err(ApiError::BadRequest(text));
    if !config.is_object() {
        return bad("error decoding YAML: only a JSON object is understood".into());
    }
    for (key, wanted) in [("apiVersion", &view.api_version), ("kind", &view.resource.kind)] {
        if config.get(key).and_then(Value::as_str) != Some(wanted) {
            return bad(format!("apply needs {key} {wanted:?} in the configuration"));
        }
    }
    let given = meta_str(config, "name");
    if !given.is_empty() && given != name {
        return bad(format!("the name of the object ({given}) does not match the name on the URL ({name})"));
    }
    if config.pointer("/metadata/managedFields").is_some_and(|m| !m.is_null()) {
        return bad("metadata.managedFields must be nil".into());
    }
    Ok(())
}

struct Merged {
    object: Value,
    entries: Vec<Entry>,
}

fn merge(view: &View, live: &Value, config: &Value, mine: Entry, force: bool) -> Result<Merged, ApiError> {
    let shape = Shape(view);
    let mut entries = entries(live);
    let before = entries
        .iter()
        .position(|e| e.apply && e.manager == mine.manager && e.subresource == mine.subresource);
    let before = before.map(|i| entries.remove(i).fields).unwrap_or_default();
    let wanted = fields::flatten(shape, config, false);
    let have = fields::flatten(shape, live, true);
    let mut causes = Vec::new();
    let granted = last_applied(view, live, &mine.manager);
    for entry in &mut entries {
        let taken: BTreeSet<FieldPath> = mine
            .fields
            .intersection(&entry.fields)
            .filter(|path| wanted.get(*path) != have.get(*path))
            .cloned()
            .collect();
        let conflict = entry.conflict();
        causes.extend(
            taken
                .difference(&granted)
                .map(|p| Cause::new("FieldManagerConflict", fields::display(p), conflict.clone())),
        );
        entry.fields.retain(|path| !taken.contains(path));
    }
    if !causes.is_empty() && !force {
        return Err(ApiError::ApplyConflict { causes });
    }
    let mut object = live.clone();
    overlay(shape, &mut object, config, &mut Vec::new());
    for path in before.difference(&mine.fields).filter(|path| !fields::is_key(path)) {
        let below =
            |fields: &FieldSet| fields.range(path.clone()..).next().is_some_and(|p| p.starts_with(path));
        if !below(&mine.fields) && !entries.iter().any(|e| below(&e.fields)) {
            fields::remove(&mut object, path);
        }
    }
    entries.push(mine);
    Ok(Merged { object, entries })
}

/// Fields that a client-side apply has set and nobody has changed since: when kubectl moves to server-side apply
/// they are its own, though another manager's name is on them.
fn last_applied(view: &View, live: &Value, manager: &str) -> FieldSet {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let text = live.pointer("/metadata/annotations").and_then(|a| a.get(ANNOTATION)).and_then(Value::as_str);
    let Some(config) =
        text.filter(|_| manager == "kubectl").and_then(|t| serde_json::from_str::<Value>(t).ok())
    else {
        return FieldSet::new();
    };
    let applied = fields::flatten(Shape(view), &view.stored_form(config), false);
    let have = fields::flatten(Shape(view), live, true);
    applied.into_iter().filter(|(path, value)| have.get(path) == Some(value)).map(|(path, _)| path).collect()
}

/// Lays a configuration over an object.
fn overlay(shape: Shape<'_>, object: &mut Value, config: &Value, names: &mut Vec<String>) {
    match (object, config) {
        (Value::Object(object), Value::Object(config)) => {
            for (key, value) in config {
                names.push(key.clone());
                overlay(shape, object.entry(key.clone()).or_insert(Value::Null), value, names);
                names.pop();
            }
        }
        (Value::Array(have), Value::Array(items)) => match shape.list(names) {
            ListKind::Atomic => have.clone_from(items),
            kind => {
                for item in items {
                    let step = fields::element(&kind, item);
                    match have.iter_mut().find(|have| fields::is_element(&step, have)) {
                        Some(same) => overlay(shape, same, item, names),
                        None => have.push(item.clone()),
                    }
                }
            }
        },
        (object, config) => object.clone_from(config),
    }
}
