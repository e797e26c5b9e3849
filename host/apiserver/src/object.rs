//! One stored object: its parsed form, its JSON text, and the metadata every operation needs.
//!
//! Used by the store and by everything that answers with objects. Invariant: `body` is the text of `value`, and
//! neither holds `apiVersion` and `kind`, which depend on the version asked for and come from the `View`.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value, json};

use crate::resources::{Form, Resource, Version};

/// An object at one revision.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Without apiVersion and kind.
    pub(crate) value: Value,
    /// `"metadata":{…},…}`: the JSON text after apiVersion and kind, closing brace included.
    pub(crate) body: Bytes,
    pub(crate) revision: u64,
}

impl Stored {
    /// Revision 0 is of an object that is not stored, which has no version.
    pub(crate) fn new(mut value: Value, revision: u64, custom: bool) -> Self {
        if revision > 0 {
            set_meta(&mut value, "resourceVersion", json!(revision.to_string()));
        }
        let body = encode_body(&value, custom);
        Stored { value, body, revision }
    }

    /// The same state under a later version, as deletions are announced.
    pub(crate) fn at(&self, revision: u64, custom: bool) -> Self {
        Stored::new(self.value.clone(), revision, custom)
    }

    pub(crate) fn meta(&self, field: &str) -> &str {
        meta_str(&self.value, field)
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.value.pointer("/metadata/deletionTimestamp").is_some()
    }
}

/// A metadata string, empty when absent.
pub(crate) fn meta_str<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// Sets a metadata field, making the metadata if need be.
pub(crate) fn set_meta(value: &mut Value, field: &str, to: Value) {
    if let Some(meta) = metadata_mut(value) {
        meta.insert(field.to_owned(), to);
    }
}

/// Removes a metadata field.
pub(crate) fn remove_meta(value: &mut Value, field: &str) {
    if let Some(meta) = metadata_mut(value) {
        meta.remove(field);
    }
}

/// The metadata map, made if it is not there; `None` where the object or its metadata is not a map.
pub(crate) fn metadata_mut(value: &mut Value) -> Option<&mut Map<String, Value>> {
    let object = value.as_object_mut()?;
    let meta = object.entry("metadata").or_insert_with(|| json!({}));
    if meta.is_null() {
        *meta = json!({});
    }
    meta.as_object_mut()
}

/// Follows a path of keys.
pub(crate) fn at_path<'a>(value: &'a Value, path: &[impl AsRef<str>]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key.as_ref()))
}

/// Sets a value at a path of keys, making the maps on the way.
pub(crate) fn set_path(value: &mut Value, path: &[impl AsRef<str>], to: Value) {
    let mut place = value;
    for key in path {
        if !place.is_object() {
            *place = json!({});
        }
        let Some(map) = place.as_object_mut() else { return };
        place = map.entry(key.as_ref().to_owned()).or_insert(Value::Null);
    }
    *place = to;
}

/// Keys of ObjectMeta in the order in which a typed server writes them.
const META_ORDER: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

fn encode_body(value: &Value, custom: bool) -> Bytes {
    let Some(object) = value.as_object() else { return Bytes::from_static(b"}") };
    let mut out = BytesMut::with_capacity(512);
    let mut first = true;
    let mut keys: Vec<&String> = object.keys().collect();
    if !custom {
        keys.sort_by_key(|k| (k.as_str() != "metadata", k.as_str() == "status"));
    }
    for key in keys {
        put_key(&mut out, key, &mut first);
        match (&object[key], key.as_str()) {
            (Value::Object(meta), "metadata") if !custom => put_metadata(&mut out, meta),
            (other, _) => put_value(&mut out, other),
        }
    }
    out.put_u8(b'}');
    out.freeze()
}

pub(crate) fn put_metadata(out: &mut BytesMut, meta: &Map<String, Value>) {
    out.put_u8(b'{');
    let mut first = true;
    let known = META_ORDER.iter().filter_map(|k| meta.get_key_value(*k));
    let unknown = meta.iter().filter(|(k, _)| !META_ORDER.contains(&k.as_str()));
    for (key, value) in known.chain(unknown) {
        put_key(out, key, &mut first);
        put_value(out, value);
    }
    out.put_u8(b'}');
}

fn put_key(out: &mut BytesMut, key: &str, first: &mut bool) {
    if !std::mem::take(first) {
        out.put_u8(b',');
    }
    put_value(out, key);
    out.put_u8(b':');
}

/// Writing JSON to memory cannot fail: values have string keys only.
pub(crate) fn put_value<T: serde::Serialize + ?Sized>(out: &mut BytesMut, value: &T) {
    let written = serde_json::to_writer(out.writer(), value);
    debug_assert!(written.is_ok(), "JSON values always serialize");
}

/// A resource in one of its versions: how stored objects look to a client.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) resource: Arc<Resource>,
    pub(crate) api_version: String,
    version: usize,
    /// `{"kind":…,"apiVersion":…,`, to which the body of an object is appended.
    prefix: Bytes,
}

impl View {
    pub(crate) fn new(resource: Arc<Resource>, version: &str) -> Option<Self> {
        let index = resource.versions.iter().position(|v| v.name == version && v.served)?;
        let api_version = resource.api_version(version);
        let (kind, api) = (json!(resource.kind), json!(api_version));
        let prefix = if resource.custom {
            format!("{{\"apiVersion\":{api},\"kind\":{kind},")
        } else {
            format!("{{\"kind\":{kind},\"apiVersion\":{api},")
        };
        Some(View { prefix: Bytes::from(prefix), api_version, version: index, resource })
    }

    pub(crate) fn version(&self) -> &Version {
        &self.resource.versions[self.version]
    }

    /// Appends the object with apiVersion and kind.
    pub(crate) fn put(&self, out: &mut BytesMut, object: &Stored) {
        out.extend_from_slice(&self.prefix);
        self.put_body(out, object);
    }

    /// Appends the object as an item of a list: built-in kinds leave apiVersion and kind to the list.
    pub(crate) fn put_item(&self, out: &mut BytesMut, object: &Stored) {
        if self.resource.custom {
            self.put(out, object);
        } else {
            out.put_u8(b'{');
            self.put_body(out, object);
        }
    }

    fn put_body(&self, out: &mut BytesMut, object: &Stored) {
        match self.resource.form {
            Form::AsStored => out.extend_from_slice(&object.body),
            Form::EventsV1 => {
                let value = crate::events::to_events_v1(object.value.clone());
                out.extend_from_slice(&encode_body(&value, false));
            }
        }
    }

    /// The object as a document, apiVersion and kind included.
    pub(crate) fn document(&self, stored: &Value) -> Value {
        let mut value = match self.resource.form {
            Form::AsStored => stored.clone(),
            Form::EventsV1 => crate::events::to_events_v1(stored.clone()),
        };
        if let Some(object) = value.as_object_mut() {
            object.insert("apiVersion".into(), json!(self.api_version));
            object.insert("kind".into(), json!(self.resource.kind));
        }
        value
    }

    /// The stored form of a document, whose apiVersion and kind have been checked.
    pub(crate) fn stored_form(&self, mut document: Value) -> Value {
        if let Some(object) = document.as_object_mut() {
            object.remove("apiVersion");
            object.remove("kind");
        }
        match self.resource.form {
            Form::AsStored => document,
            Form::EventsV1 => crate::events::from_events_v1(document),
        }
    }
}

/// Now, as `creationTimestamp` is written.
pub(crate) fn timestamp() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_objects_are_written_in_the_order_of_their_fields_and_custom_ones_by_name() {
        let value = json!({"data": {"k": "v"}, "metadata": {"uid": "u", "name": "n", "labels": {"a": "b"}}});
        let stored = Stored::new(value, 7, false);
        assert_eq!(
            stored.body,
            r#""metadata":{"name":"n","uid":"u","resourceVersion":"7","labels":{"a":"b"}},"data":{"k":"v"}}"#
        );
        let custom = Stored::new(json!({"spec": {}, "metadata": {"uid": "u", "name": "n"}}), 8, true);
        assert_eq!(custom.body, r#""metadata":{"name":"n","resourceVersion":"8","uid":"u"},"spec":{}}"#);
    }
}
