//! A Kubernetes object as the informer carries it: the API server's own JSON text, parsed once for metadata.
//!
//! Used by every stage from the reflector to the plugin. An [`Object`] is immutable and shared by reference
//! count; its text is its own allocation, so one surviving object never keeps a list page or a stream buffer
//! alive (rule R-LIST-9).

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

/// `namespace/name`, or `name` for a cluster-scoped object (rule R-KEY-1). The uid is never part of it.
///
/// Cheap to clone. Orders by namespace, then name, so that the objects of a namespace are one range.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl ObjectKey {
    /// The key of `name` in `namespace`; an empty namespace stands for a cluster-scoped object.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why bytes are not an object that an informer can carry.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// Not JSON, or not an object with string metadata.
    #[error("object does not decode: {0}")]
    Decode(#[from] serde_json::Error),
    /// `metadata.name` is absent or empty (rule R-KEY-1: "object has no meta").
    #[error("object has no metadata.name")]
    NoName,
}

/// How objects are prepared as they come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ingest {
    /// Leave `metadata.managedFields` out of the kept text (often half of an object, of no use to handlers).
    pub strip_managed_fields: bool,
}

impl Default for Ingest {
    fn default() -> Self {
        Self { strip_managed_fields: true }
    }
}

/// The apiVersion and kind that list items of built-in kinds lack, to be put into their text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeMeta {
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// `ConfigMap`.
    pub kind: String,
}

/// One state of one object.
#[derive(PartialEq, Eq)]
pub struct Object {
    key: ObjectKey,
    uid: Box<str>,
    resource_version: Box<str>,
    json: Box<str>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "apiVersion", borrow)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    metadata: Option<Metadata<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

impl Object {
    /// Reads one object's text. `default_type` fills in apiVersion and kind where the text has neither, as
    /// for the items of a list of a built-in kind.
    ///
    /// # Errors
    /// [`ObjectError`] if the text is not JSON or names no object.
    pub fn parse(
        text: &str,
        default_type: Option<&TypeMeta>,
        ingest: Ingest,
    ) -> Result<Arc<Self>, ObjectError> {
        let text = text.trim();
        let head: Head<'_> = serde_json::from_str(text)?;
        let meta = head.metadata.ok_or(ObjectError::NoName)?;
        let name = meta.name.filter(|name| !name.is_empty()).ok_or(ObjectError::NoName)?;
        let cut = if ingest.strip_managed_fields {
            meta.managed_fields.and_then(|value| member_span(text, value.get(), "\"managedFields\""))
        } else {
            None
        };
        let missing = default_type.filter(|_| head.api_version.is_none() && head.kind.is_none());
        Ok(Arc::new(Self {
            key: ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), &name),
            uid: meta.uid.unwrap_or_default().into(),
            resource_version: meta.resource_version.unwrap_or_default().into(),
            json: rewrite(text, cut, missing),
        }))
    }

    /// A state that was kept elsewhere, such as the last one of an object that is gone. The text may be any part of
    /// the object's, and need not name it.
    ///
    /// # Errors
    /// [`ObjectError`] if the text is not a JSON object, or there is no name.
    pub fn restore(
        key: ObjectKey,
        uid: &str,
        resource_version: &str,
        json: &str,
    ) -> Result<Arc<Self>, ObjectError> {
        let json = json.trim();
        serde_json::from_str::<HashMap<Cow<'_, str>, &RawValue>>(json)?;
        if key.name().is_empty() {
            return Err(ObjectError::NoName);
        }
        Ok(Arc::new(Self {
            key,
            uid: uid.into(),
            resource_version: resource_version.into(),
            json: json.into(),
        }))
    }

    /// What names the state and nothing else: apiVersion, kind, name, namespace, uid and resourceVersion.
    pub(crate) fn name_only(&self) -> Self {
        let mut metadata = serde_json::json!({
            "name": self.key.name(), "uid": &*self.uid, "resourceVersion": &*self.resource_version,
        });
        if !self.key.namespace().is_empty() {
            metadata["namespace"] = self.key.namespace().into();
        }
        let mut name = serde_json::json!({"metadata": metadata});
        // A projection may have left them out.
        let head = serde_json::from_str::<Head<'_>>(&self.json).ok();
        let head = head.as_ref();
        for (field, value) in [
            ("apiVersion", head.and_then(|head| head.api_version.as_deref())),
            ("kind", head.and_then(|head| head.kind.as_deref())),
        ] {
            if let Some(value) = value {
                name[field] = value.into();
            }
        }
        self.with_json(name.to_string())
    }

    /// The same state with another text, as a projection of it is: key, uid and resourceVersion stay, whether
    /// or not `json` names them.
    pub(crate) fn with_json(&self, json: impl Into<Box<str>>) -> Self {
        Self {
            key: self.key.clone(),
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
            json: json.into(),
        }
    }

    /// Namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// `metadata.uid`; empty if the server gave none.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// `metadata.resourceVersion`: opaque but for equality.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// The JSON text, always with apiVersion and kind where they are known.
    pub fn json(&self) -> &str {
        &self.json
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{} ({})", self.key, self.resource_version, self.uid)
    }
}

/// The byte range of a member (its name, colon, value and one neighbouring comma) of an object in `text`,
/// given the member's value as a slice of `text`. None if the name is not written as `quoted_name`.
fn member_span(text: &str, value: &str, quoted_name: &str) -> Option<(usize, usize)> {
    let start = (value.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let end = start + value.len();
    let before = text.get(..start)?.trim_end().strip_suffix(':')?.trim_end().strip_suffix(quoted_name)?;
    let after = text.get(end..)?;
    if let Some(head) = before.trim_end().strip_suffix(',') {
        return Some((head.len(), end));
    }
    let rest = after.trim_start();
    let end = match rest.strip_prefix(',') {
        Some(tail) => text.len() - tail.len(),
        None => end,
    };
    Some((before.len(), end))
}

/// The trimmed `text` without the byte range `cut` and with the members of `missing` in front.
fn rewrite(text: &str, cut: Option<(usize, usize)>, missing: Option<&TypeMeta>) -> Box<str> {
    let (from, to) = cut.unwrap_or((text.len(), text.len()));
    let Some(type_meta) = missing else {
        if from == to {
            return text.into();
        }
        let mut out = String::with_capacity(text.len() - (to - from));
        out.push_str(&text[..from]);
        out.push_str(&text[to..]);
        return out.into_boxed_str();
    };
    let prefix = format!(
        "{{\"kind\":{},\"apiVersion\":{},",
        serde_json::Value::from(type_meta.kind.as_str()),
        serde_json::Value::from(type_meta.api_version.as_str()),
    );
    let mut out = String::with_capacity(text.len() + prefix.len() - (to - from));
    out.push_str(&prefix);
    // A decoded object starts with '{' and has at least the member `metadata` after it.
    out.push_str(&text[1..from]);
    out.push_str(&text[to..]);
    out.into_boxed_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Arc<Object> {
        Object::parse(text, None, Ingest::default()).expect("an object")
    }

    #[test]
    fn keeps_the_servers_own_text_and_reads_its_metadata() {
        let text = r#"{"kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"},"x":1e3}"#;
        let object = parse(text);
        assert_eq!(object.json(), text);
        assert_eq!(object.key().to_string(), "n/a");
        assert_eq!((object.uid(), object.resource_version()), ("u", "7"));
    }

    #[test]
    fn a_cluster_scoped_key_is_the_bare_name() {
        assert_eq!(parse(r#"{"metadata":{"name":"node-1"}}"#).key().to_string(), "node-1");
    }

    #[test]
    fn managed_fields_are_cut_wherever_they_stand() {
        let cases = [
            (r#"{"metadata":{"name":"a","managedFields":[{"x":[1,"]"]}]}}"#, r#"{"metadata":{"name":"a"}}"#),
            (r#"{"metadata":{"managedFields":[],"name":"a"}}"#, r#"{"metadata":{"name":"a"}}"#),
            (r#"{"metadata":{"managedFields" : [1] , "name":"a"}}"#, r#"{"metadata":{ "name":"a"}}"#),
            (
                r#"{"metadata":{"name":"a" , "managedFields":[1],"uid":"u"}}"#,
                r#"{"metadata":{"name":"a" ,"uid":"u"}}"#,
            ),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text).json(), want);
        }
    }

    #[test]
    fn managed_fields_stay_when_asked_to() {
        let text = r#"{"metadata":{"name":"a","managedFields":[]}}"#;
        let object = Object::parse(text, None, Ingest { strip_managed_fields: false }).expect("an object");
        assert_eq!(object.json(), text);
    }

    #[test]
    fn list_items_get_the_type_that_they_lack() {
        let type_meta = TypeMeta { api_version: "v1".into(), kind: "ConfigMap".into() };
        let item = r#" {"metadata":{"name":"a","managedFields":[1]},"data":{}} "#;
        let object = Object::parse(item, Some(&type_meta), Ingest::default()).expect("an object");
        assert_eq!(
            object.json(),
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{}}"#
        );
        let own = r#"{"kind":"Other","metadata":{"name":"a"}}"#;
        let object = Object::parse(own, Some(&type_meta), Ingest::default()).expect("an object");
        assert_eq!(object.json(), own);
    }

    #[test]
    fn what_is_not_an_object_is_an_error() {
        for text in ["", "[]", "{", r#"{"metadata":{"name":7}}"#, "\u{1F600}"] {
            assert!(
                matches!(Object::parse(text, None, Ingest::default()), Err(ObjectError::Decode(_))),
                "{text}"
            );
        }
        for text in ["{}", r#"{"metadata":{}}"#, r#"{"metadata":{"name":""}}"#, r#"{"metadata":null}"#] {
            assert!(
                matches!(Object::parse(text, None, Ingest::default()), Err(ObjectError::NoName)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_state_kept_elsewhere_needs_a_name_and_a_json_object() {
        let key = || ObjectKey::new("n", "a");
        let text = r#" {"data":{"\u00fc":1}} "#;
        let object = Object::restore(key(), "u", "7", text).expect("an object");
        assert_eq!((object.uid(), object.resource_version(), object.json()), ("u", "7", text.trim()));
        for bad in ["", "[]", "7", "{", "{}{}", "{\"a\":nil}"] {
            assert!(matches!(Object::restore(key(), "u", "7", bad), Err(ObjectError::Decode(_))), "{bad}");
        }
        let nameless = Object::restore(ObjectKey::new("n", ""), "u", "7", "{}");
        assert!(matches!(nameless, Err(ObjectError::NoName)));
    }

    #[test]
    fn escaped_and_wide_text_is_read_as_json_says() {
        let object = parse(r#"{"metadata":{"name":"r\u003ca","namespace":"ü"}}"#);
        assert_eq!(object.key().to_string(), "ü/r<a");
    }
}
