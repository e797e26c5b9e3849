//! Sets of fields as `managedFields` writes them, and the values they stand for.
//!
//! Used by `managed.rs`. A field is the path to it: `f:` and a key, `k:` and the keys of a list element, `v:`
//! and an element of a set. Invariant: a set survives being written and read again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::lists::{self, ListKind};
use crate::object::View;

/// Path of one field.
pub(crate) type FieldPath = Vec<String>;
/// The fields somebody owns.
pub(crate) type FieldSet = BTreeSet<FieldPath>;

/// Metadata that belongs to the server and is never owned.
const SYSTEM: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "uid",
    "selfLink",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
];

/// Maps that are owned as a whole.
const ATOMIC_MAPS: &[&str] = &[
    "selector",
    "labelSelector",
    "nodeSelector",
    "podSelector",
    "namespaceSelector",
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "secretRef",
];

/// Maps with keys of the user's, which are themselves owned by whoever makes them with an update.
const OPEN_MAPS: &[&str] =
    &["labels", "annotations", "data", "binaryData", "matchLabels", "limits", "requests"];

/// How the lists of a kind merge: by the table for built-in kinds, by the schema for custom ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a>(pub(crate) &'a View);

impl Shape<'_> {
    pub(crate) fn list(&self, names: &[String]) -> ListKind {
        let resource = &self.0.resource;
        if !resource.custom || names.first().is_some_and(|n| n == "metadata") {
            return lists::kind_of(&resource.collection, names);
        }
        let schema = self.0.version().schema.as_deref();
        let Some(node) = schema.and_then(|schema| schema_at(schema, names)) else { return ListKind::Atomic };
        match node.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => ListKind::Set,
            Some("map") => {
                let keys = node.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                ListKind::Keyed(
                    keys.into_iter().flatten().filter_map(|k| k.as_str().map(str::to_owned)).collect(),
                )
            }
            _ => ListKind::Atomic,
        }
    }

    fn is_atomic_map(&self, names: &[String]) -> bool {
        !self.0.resource.custom && names.last().is_some_and(|n| ATOMIC_MAPS.contains(&n.as_str()))
    }
}

fn schema_at<'a>(schema: &'a Value, names: &[String]) -> Option<&'a Value> {
    names.iter().try_fold(schema, |node, name| {
        let node = node.get("items").unwrap_or(node);
        node.get("properties").and_then(|p| p.get(name)).or_else(|| node.get("additionalProperties"))
    })
}

/// Every field of a stored object with its value; `Null` where the field is only a place for others.
pub(crate) fn flatten(shape: Shape<'_>, object: &Value, markers: bool) -> BTreeMap<FieldPath, Value> {
    let mut walk = Walk { shape, markers, path: Vec::new(), names: Vec::new(), found: BTreeMap::new() };
    for (key, value) in object.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", Value::Object(meta)) => {
                let own = meta.iter().filter(|(k, _)| !SYSTEM.contains(&k.as_str()));
                for (key, value) in own {
                    walk.path.push("f:metadata".into());
                    walk.names.push("metadata".into());
                    walk.field(key, value);
                    walk.path.pop();
                    walk.names.pop();
                }
            }
            _ => walk.field(key, value),
        }
    }
    walk.found
}

struct Walk<'a> {
    shape: Shape<'a>,
    /// Whether open maps and keyed lists are fields themselves.
    markers: bool,
    path: FieldPath,
    /// The path without list elements.
    names: Vec<String>,
    found: BTreeMap<FieldPath, Value>,
}

impl Walk<'_> {
    fn field(&mut self, key: &str, value: &Value) {
        self.path.push(format!("f:{key}"));
        self.names.push(key.to_owned());
        self.value(value);
        self.names.pop();
        self.path.pop();
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(map) if !map.is_empty() && !self.shape.is_atomic_map(&self.names) => {
                if self.markers && self.names.last().is_some_and(|n| OPEN_MAPS.contains(&n.as_str())) {
                    self.found.insert(self.path.clone(), Value::Null);
                }
                for (key, value) in map {
                    self.field(key, value);
                }
            }
            Value::Array(items) => self.list(value, items),
            _ => {
                self.found.insert(self.path.clone(), value.clone());
            }
        }
    }

    fn list(&mut self, value: &Value, items: &[Value]) {
        let kind = self.shape.list(&self.names);
        if kind == ListKind::Atomic || items.is_empty() {
            self.found.insert(self.path.clone(), value.clone());
            return;
        }
        if self.markers {
            self.found.insert(self.path.clone(), Value::Null);
        }
        for item in items {
            self.path.push(element(&kind, item));
            match (&kind, item) {
                (ListKind::Keyed(_), Value::Object(map)) => {
                    self.found.insert(self.path.clone(), Value::Null);
                    for (key, value) in map {
                        self.field(key, value);
                    }
                }
                _ => {
                    self.found.insert(self.path.clone(), item.clone());
                }
            }
            self.path.pop();
        }
    }
}

/// The path element of a list's element.
pub(crate) fn element(kind: &ListKind, item: &Value) -> String {
    match kind {
        ListKind::Keyed(keys) => {
            let found: Map<String, Value> =
                keys.iter().filter_map(|k| Some((k.clone(), key_value(item, k)?))).collect();
            format!("k:{}", Value::Object(found))
        }
        _ => format!("v:{item}"),
    }
}

/// The value of a key of a list's element; the protocol of a port has a default.
fn key_value(item: &Value, key: &str) -> Option<Value> {
    item.get(key).cloned().or_else(|| (key == "protocol").then(|| json!("TCP")))
}

/// Whether an element is the one a path element means.
pub(crate) fn is_element(step: &str, item: &Value) -> bool {
    if let Some(keys) = step.strip_prefix("k:") {
        let Ok(Value::Object(keys)) = serde_json::from_str(keys) else { return false };
        return keys.iter().all(|(k, v)| key_value(item, k).as_ref() == Some(v));
    }
    step.strip_prefix("v:").and_then(|v| serde_json::from_str::<Value>(v).ok()).as_ref() == Some(item)
}

/// Whether a field is one of those by which an element of a list is known: it goes with the element only.
pub(crate) fn is_key(path: &[String]) -> bool {
    let [.., element, field] = path else { return false };
    let keys = element.strip_prefix("k:").and_then(|k| serde_json::from_str::<Map<String, Value>>(k).ok());
    keys.zip(field.strip_prefix("f:")).is_some_and(|(keys, field)| keys.contains_key(field))
}

/// Removes a field from an object, and maps that are empty without it.
pub(crate) fn remove(object: &mut Value, path: &[String]) {
    let Some((step, rest)) = path.split_first() else { return };
    match object {
        Value::Object(map) => {
            let Some(key) = step.strip_prefix("f:") else { return };
            if rest.is_empty() {
                map.remove(key);
                return;
            }
            if let Some(inner) = map.get_mut(key) {
                remove(inner, rest);
                let empty = match inner {
                    Value::Object(inner) => inner.is_empty(),
                    Value::Array(inner) => inner.is_empty(),
                    _ => false,
                };
                if empty {
                    map.remove(key);
                }
            }
        }
        Value::Array(items) if rest.is_empty() => items.retain(|item| !is_element(step, item)),
        Value::Array(items) => {
            if let Some(item) = items.iter_mut().find(|item| is_element(step, item)) {
                remove(item, rest);
            }
        }
        _ => {}
    }
}

/// A path as conflicts tell it: `.spec.containers[name="a"].image`.
pub(crate) fn display(path: &[String]) -> String {
    path.iter()
        .map(|step| match step.split_at_checked(2) {
            Some(("f:", key)) => format!(".{key}"),
            Some(("k:", keys)) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let pairs: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
                format!("[{}]", pairs.join(","))
            }
            Some(("v:", value)) => format!("[={value}]"),
            _ => step.clone(),
        })
        .collect()
}

/// A set as `fieldsV1`.
pub(crate) fn to_v1(set: &FieldSet) -> Value {
    let mut root = json!({});
    for path in set {
        let steps: Vec<&str> = path.iter().map(String::as_str).chain(std::iter::once(".")).collect();
        let (last, places) = steps.split_last().unwrap_or((&".", &[]));
        let place = places.iter().fold(&mut root, |place, step| &mut place[*step]);
        place[*last] = json!({});
    }
    drop_lone_dots(&mut root);
    root
}

/// A field with nothing below it is written without the dot.
fn drop_lone_dots(node: &mut Value) {
    let Some(map) = node.as_object_mut() else { return };
    if map.len() == 1 {
        map.remove(".");
    }
    map.values_mut().for_each(drop_lone_dots);
}

/// The set that `fieldsV1` writes.
pub(crate) fn from_v1(fields: &Value) -> FieldSet {
    let mut set = FieldSet::new();
    collect(fields, &mut Vec::new(), &mut set);
    set
}

fn collect(node: &Value, path: &mut FieldPath, set: &mut FieldSet) {
    let Some(map) = node.as_object() else { return };
    if !path.is_empty() && (map.is_empty() || map.contains_key(".")) {
        set.insert(path.clone());
    }
    for (step, inner) in map.iter().filter(|(step, _)| *step != ".") {
        path.push(step.clone());
        collect(inner, path, set);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_survives_being_written_and_read() {
        let written = json!({
            "f:data": {".": {}, "f:k": {}},
            "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:name": {}}}, "f:replicas": {}},
            "f:metadata": {"f:finalizers": {"v:\"x\"": {}}},
        });
        let set = from_v1(&written);
        assert_eq!(set.len(), 7);
        assert_eq!(to_v1(&set), written);
    }

    #[test]
    fn paths_are_told_as_the_real_server_tells_them() {
        let path = ["f:spec", "f:containers", "k:{\"name\":\"a\"}", "f:image"].map(str::to_owned);
        assert_eq!(display(&path), r#".spec.containers[name="a"].image"#);
    }

    #[test]
    fn a_removed_field_takes_the_maps_it_leaves_empty_with_it() {
        let mut object =
            json!({"data": {"a": "b"}, "spec": {"list": [{"name": "x", "v": 1}, {"name": "y"}]}});
        remove(&mut object, &["f:data".to_owned(), "f:a".to_owned()]);
        remove(&mut object, &["f:spec", "f:list", "k:{\"name\":\"x\"}"].map(str::to_owned));
        assert_eq!(object, json!({"spec": {"list": [{"name": "y"}]}}));
    }
}
