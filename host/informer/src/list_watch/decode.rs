//! Decodes list items and watch events into objects.
//!
//! Used by [`ListWatch`](super::ListWatch) and its page reader. Invariant: nothing is dropped in silence. A list with one object
//! that does not decode is an error that names it; a watch event with one is told as such.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Undecodable, WatchEvent};
use crate::object::{Ingest, Object, ObjectKey, TypeMeta};
use crate::resource::Resource;
use crate::status::{ApiError, Status, printable};

/// The annotation of the bookmark that ends a streaming list's initial events; its value must be `true`
/// (rule R-WL-3).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Decodes what a server sends about one resource.
#[derive(Debug)]
pub(super) struct Decoder {
    expected: TypeMeta,
    ingest: Ingest,
}

/// What a list says besides its items.
#[derive(Debug, Default)]
pub(super) struct ListHead {
    pub(super) resource_version: String,
    pub(super) continue_token: String,
}

/// A list without its items.
#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    metadata: Option<ListMeta>,
    // Two options: absent is not a list, null is an empty one (Go's nil slice).
    #[serde(default, deserialize_with = "present")]
    items: Option<Option<[(); 0]>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    api_version: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Marker {
    metadata: MarkerMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkerMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    annotations: Option<std::collections::HashMap<String, String>>,
}

impl Decoder {
    pub(super) fn new(resource: &Resource, ingest: Ingest) -> Self {
        let expected = TypeMeta { api_version: resource.api_version(), kind: resource.kind.clone() };
        Self { expected, ingest }
    }

    /// The type that items without one get: the list's, `ConfigMapList` making a `ConfigMap`; where that says
    /// nothing, or says it only after the items, what discovery said. `before` is the text before the items.
    pub(super) fn item_type(&self, before: &[u8]) -> TypeMeta {
        let mut text = before.to_vec();
        text.extend_from_slice(b"]}");
        let head: Option<Head<'_>> = serde_json::from_slice(&text).ok();
        let list_kind = head.as_ref().and_then(|head| head.kind.as_deref());
        match list_kind.and_then(|kind| kind.strip_suffix("List")).filter(|kind| !kind.is_empty()) {
            Some(kind) => TypeMeta {
                api_version: head
                    .as_ref()
                    .and_then(|head| head.api_version.as_deref())
                    .unwrap_or(&self.expected.api_version)
                    .to_owned(),
                kind: kind.to_owned(),
            },
            None => self.expected.clone(),
        }
    }

    /// One item of a list.
    ///
    /// # Errors
    /// It does not decode; the error says which one it is.
    pub(super) fn item(
        &self,
        index: usize,
        text: &[u8],
        item_type: &TypeMeta,
    ) -> Result<Arc<Object>, ApiError> {
        let text =
            std::str::from_utf8(text).map_err(|error| undecodable_list(&format!("item {index}: {error}")))?;
        Object::parse(text, Some(item_type), self.ingest).map_err(|error| {
            let name = lenient_key(text).map_or_else(String::new, |key| format!(" ({key})"));
            undecodable_list(&format!("item {index}{name}: {error}"))
        })
    }

    /// One line of a watch.
    ///
    /// # Errors
    /// The line is not an event at all (section 1.10: the stream makes no sense any more).
    pub(super) fn event(&self, line: &[u8]) -> Result<WatchEvent, ApiError> {
        let text = std::str::from_utf8(line).map_err(|error| undecodable_event(&error.to_string()))?;
        let envelope: Envelope<'_> =
            serde_json::from_str(text).map_err(|error| undecodable_event(&error.to_string()))?;
        let object = envelope.object.get();
        let make: fn(_) -> _ = match &*envelope.kind {
            "ADDED" => WatchEvent::Added,
            "MODIFIED" => WatchEvent::Modified,
            "DELETED" => WatchEvent::Deleted,
            "BOOKMARK" => return Ok(bookmark(object)),
            "ERROR" => {
                let status = Status::from_watch_error(object);
                return status.map(WatchEvent::Error).ok_or_else(|| {
                    ApiError::Decode(format!("watch: an ERROR that is no Status: {}", printable(object)))
                });
            }
            other => return Err(undecodable_event(&format!("unknown type {}", printable(other)))),
        };
        let parsed = self.check_type(object).and_then(|()| {
            Object::parse(object, Some(&self.expected), self.ingest).map_err(|error| error.to_string())
        });
        Ok(parsed.map_or_else(
            |message| {
                let is_deletion = &*envelope.kind == "DELETED";
                WatchEvent::Undecodable(Undecodable { key: lenient_key(object), is_deletion, message })
            },
            make,
        ))
    }

    /// Rule R-W-4, no. 3 and 4: an object of another kind, a Table among them, is not for us.
    fn check_type(&self, object: &str) -> Result<(), String> {
        if self.has_usual_beginning(object) {
            return Ok(());
        }
        let head: Head<'_> = serde_json::from_str(object).map_err(|error| error.to_string())?;
        let differs = |got: &Option<Cow<'_, str>>, want: &str| got.as_deref().is_some_and(|got| got != want);
        if differs(&head.kind, &self.expected.kind) || differs(&head.api_version, &self.expected.api_version)
        {
            let kind = head.kind.unwrap_or_default();
            let api_version = head.api_version.unwrap_or_default();
            return Err(format!("it is a {api_version}/{kind}"));
        }
        Ok(())
    }

    /// Objects begin with their type, built-in and custom ones in different order: so the type is known
    /// without reading the whole text once more.
    fn has_usual_beginning(&self, object: &str) -> bool {
        let member = |text: &str, name: &str, value: &str| -> Option<usize> {
            let rest = text.strip_prefix('"')?.strip_prefix(name)?.strip_prefix("\":\"")?;
            let rest = rest.strip_prefix(value)?.strip_prefix("\",")?;
            Some(text.len() - rest.len())
        };
        let TypeMeta { api_version, kind } = &self.expected;
        let orders =
            [[("kind", kind), ("apiVersion", api_version)], [("apiVersion", api_version), ("kind", kind)]];
        orders.iter().any(|order| {
            let mut rest = object.strip_prefix('{').unwrap_or_default();
            order.iter().all(|(name, value)| {
                let length = member(rest, name, value);
                rest = length.and_then(|length| rest.get(length..)).unwrap_or_default();
                length.is_some()
            })
        })
    }
}

impl ListHead {
    /// Reads a list whose items have been taken out. A Table, or anything else without items, is refused
    /// (rule R-LIST-8).
    pub(super) fn read(text: &[u8]) -> Result<Self, ApiError> {
        let list: List<'_> =
            serde_json::from_slice(text).map_err(|error| undecodable_list(&error.to_string()))?;
        if list.items.is_none() {
            let kind = list.kind.as_deref().unwrap_or("something without a kind");
            return Err(undecodable_list(&format!("it is no list, but {kind}")));
        }
        let meta = list.metadata.unwrap_or_default();
        Ok(Self {
            resource_version: meta.resource_version.unwrap_or_default(),
            continue_token: meta.continue_token.unwrap_or_default(),
        })
    }
}

fn bookmark(object: &str) -> WatchEvent {
    match serde_json::from_str::<Marker>(object) {
        Ok(Marker { metadata }) => {
            let end = metadata.annotations.as_ref().and_then(|all| all.get(INITIAL_EVENTS_END));
            WatchEvent::Bookmark {
                initial_events_end: end.is_some_and(|value| value == "true"),
                resource_version: metadata.resource_version,
            }
        }
        Err(error) => {
            let message = format!("a bookmark: {error}");
            WatchEvent::Undecodable(Undecodable { key: None, is_deletion: false, message })
        }
    }
}

/// Namespace and name of an object whose other metadata may be broken.
fn lenient_key(object: &str) -> Option<ObjectKey> {
    let value: serde_json::Value = serde_json::from_str(object).ok()?;
    let meta = value.get("metadata")?;
    let name = meta.get("name")?.as_str().filter(|name| !name.is_empty())?;
    let namespace = meta.get("namespace").and_then(serde_json::Value::as_str).unwrap_or_default();
    Some(ObjectKey::new(namespace, name))
}

pub(super) fn undecodable_list(what: &str) -> ApiError {
    ApiError::Decode(format!("the list does not decode: {}", printable(what)))
}

fn undecodable_event(what: &str) -> ApiError {
    ApiError::Decode(format!("watch: an event does not decode: {}", printable(what)))
}

fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder() -> Decoder {
        let resource = Resource {
            group: String::new(),
            version: "v1".into(),
            plural: "configmaps".into(),
            kind: "ConfigMap".into(),
            namespaced: true,
        };
        Decoder::new(&resource, Ingest::default())
    }

    fn event(line: &str) -> WatchEvent {
        decoder().event(line.as_bytes()).expect("an event")
    }

    #[test]
    fn events_of_each_type_are_told_apart() {
        let line = |kind: &str| {
            format!(
                r#"{{"type":"{kind}","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"a"}}}}}}"#
            )
        };
        assert!(matches!(event(&line("ADDED")), WatchEvent::Added(_)));
        assert!(matches!(event(&line("MODIFIED")), WatchEvent::Modified(_)));
        assert!(matches!(event(&line("DELETED")), WatchEvent::Deleted(_)));
        assert!(decoder().event(line("RENAMED").as_bytes()).is_err(), "section 1.10");
        let swapped = r#" { "object" : {"metadata":{"name":"a"}} , "type" : "ADDED" } "#;
        assert!(matches!(event(swapped), WatchEvent::Added(_)));
    }

    #[test]
    fn only_the_exact_annotation_ends_the_initial_events() {
        for (annotations, want) in [
            (r#""annotations":{"k8s.io/initial-events-end":"true"},"#, true),
            (r#""annotations":{"k8s.io/initial-events-end":"false"},"#, false),
            (r#""annotations":{"k8s.io/initial-events-end":""},"#, false),
            (r#""annotations":{},"#, false),
            (r#""annotations":null,"#, false),
            ("", false),
        ] {
            let line = format!(
                r#"{{"type":"BOOKMARK","object":{{"metadata":{{{annotations}"resourceVersion":"3"}}}}}}"#
            );
            let bookmark = WatchEvent::Bookmark { resource_version: "3".into(), initial_events_end: want };
            assert_eq!(event(&line), bookmark, "R-WL-3, TestWatchList 11: {annotations}");
        }
    }

    #[test]
    fn an_error_event_holds_a_status_or_makes_no_sense() {
        let expired = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 351 (366)","reason":"Expired","code":410}}"#;
        assert!(matches!(event(expired), WatchEvent::Error(status) if status.is_expired()));
        let pod = r#"{"type":"ERROR","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}}"#;
        assert!(
            matches!(decoder().event(pod.as_bytes()), Err(ApiError::Decode(_))),
            "TestCloseWatchChannelOnError"
        );
    }

    #[test]
    fn an_object_of_another_kind_is_passed_over() {
        for head in [
            r#""kind":"Secret","apiVersion":"v1""#,
            r#""apiVersion":"v2","kind":"ConfigMap""#,
            r#""kind":"Table","apiVersion":"meta.k8s.io/v1""#,
        ] {
            let line = format!(r#"{{"type":"ADDED","object":{{{head},"metadata":{{"name":"a"}}}}}}"#);
            assert!(matches!(event(&line), WatchEvent::Undecodable(_)), "R-W-4: {head}");
        }
        for head in [
            r#""kind":"ConfigMap","apiVersion":"v1""#,
            r#""apiVersion":"v1","kind":"ConfigMap""#,
            r#" "kind" : "ConfigMap" "#,
        ] {
            let line = format!(r#"{{"type":"ADDED","object":{{{head},"metadata":{{"name":"a"}}}}}}"#);
            assert!(matches!(event(&line), WatchEvent::Added(_)), "{head}");
        }
    }

    #[test]
    fn an_object_that_does_not_decode_is_told_with_what_can_be_known() {
        let cases = [
            ("ADDED", r#"{"metadata":{"name":"a","namespace":"n","uid":7}}"#, Some("n/a"), false),
            ("DELETED", r#"{"metadata":{"name":"a","uid":7}}"#, Some("a"), true),
            ("DELETED", "{}", None, true),
            ("MODIFIED", "7", None, false),
            ("BOOKMARK", "{}", None, false),
        ];
        for (kind, object, key, deletion) in cases {
            let line = format!(r#"{{"type":"{kind}","object":{object}}}"#);
            let WatchEvent::Undecodable(told) = event(&line) else { panic!("decoded: {line}") };
            assert_eq!(told.key.map(|key| key.to_string()).as_deref(), key, "{line}");
            assert_eq!(told.is_deletion, deletion, "{line}");
        }
    }
}
