//! Small objects for this crate's own tests.

use std::sync::Arc;

use crate::object::{Ingest, Object};

/// An object whose key is written `namespace/name` (or `name`).
pub(crate) fn object(key: &str, uid: &str, resource_version: &str) -> Arc<Object> {
    object_with(key, uid, resource_version, "")
}

/// The same, with more members: `"a":1,"b":2`.
pub(crate) fn object_with(key: &str, uid: &str, resource_version: &str, members: &str) -> Arc<Object> {
    let comma = if members.is_empty() { "" } else { "," };
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{resource_version}"}}{comma}{members}}}"#
    );
    Object::parse(&text, None, Ingest::default()).expect("a well-formed object")
}
