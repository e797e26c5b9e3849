//! Decodes list pages and watch events into objects.
//!
//! Used by [`ListWatch`](super::ListWatch). Invariant: nothing is dropped in silence. A list with one object
//! that does not decode is an error that names it; a watch event with one is told as such.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ListPage, Undecodable, WatchEvent};
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    api_version: Option<Cow<'a, str>>,
    metadata: Option<ListMeta>,
    // Two options: absent is not a list, null is an empty one (Go's nil slice).
    #[serde(borrow, default, deserialize_with = "present")]
    items: Option<Option<Vec<&'a RawValue>>>,
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

    /// A list's body. Items without a type get the list's, `ConfigMapList` making a `ConfigMap`. A Table, or
    /// anything else without items, is refused (rule R-LIST-8).
    pub(super) fn page(&self, body: &[u8]) -> Result<ListPage, ApiError> {
        let text = std::str::from_utf8(body).map_err(|error| undecodable_list(&error.to_string()))?;
        let list: List<'_> =
            serde_json::from_str(text).map_err(|error| undecodable_list(&error.to_string()))?;
        let Some(items) = list.items else {
            let kind = list.kind.as_deref().unwrap_or("something without a kind");
            return Err(undecodable_list(&format!("it is no list, but {kind}")));
        };
        let item_type = self.item_type(list.kind.as_deref(), list.api_version.as_deref());
        let items = items.unwrap_or_default();
        let objects = items.iter().enumerate().map(|(index, item)| {
            Object::parse(item.get(), Some(&item_type), self.ingest).map_err(|error| {
                let name = lenient_key(item.get()).map_or_else(String::new, |key| format!(" ({key})"));
                undecodable_list(&format!("item {index}{name}: {error}"))
            })
        });
        let items = objects.collect::<Result<_, _>>()?;
        let meta = list.metadata.unwrap_or_default();
        Ok(ListPage {
            items,
            resource_version: meta.resource_version.unwrap_or_default(),
            continue_token: meta.continue_token.unwrap_or_default(),
        })
    }

    fn item_type(&self, list_kind: Option<&str>, api_version: Option<&str>) -> TypeMeta {
        match list_kind.and_then(|kind| kind.strip_suffix("List")).filter(|kind| !kind.is_empty()) {
            Some(kind) => TypeMeta {
                api_version: api_version.unwrap_or(&self.expected.api_version).to_owned(),
                kind: kind.to_owned(),
            },
            None => self.expected.clone(),
        }
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

fn undecodable_list(what: &str) -> ApiError {
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
        decoder_of("", "v1", "ConfigMap")
    }

    fn decoder_of(group: &str, version: &str, kind: &str) -> Decoder {
        let resource = Resource {
            group: group.into(),
            version: version.into(),
            plural: "things".into(),
            kind: kind.into(),
            namespaced: true,
        };
        Decoder::new(&resource, Ingest::default())
    }

    fn event(line: &str) -> WatchEvent {
        decoder().event(line.as_bytes()).expect("an event")
    }

    fn list_problem(body: &str) -> String {
        decoder().page(body.as_bytes()).expect_err("no list").to_string()
    }

    #[test]
    fn items_of_a_built_in_list_get_their_type_from_the_list() {
        let body = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"228","continue":"abc","remainingItemCount":3},"items":[{"metadata":{"name":"cm-0","namespace":"wire"},"data":{"n":"0"}}]}"#;
        let page = decoder().page(body.as_bytes()).expect("a page");
        assert_eq!((page.resource_version.as_str(), page.continue_token.as_str()), ("228", "abc"));
        assert_eq!(
            page.items.first().map(|object| object.json()),
            Some(
                r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cm-0","namespace":"wire"},"data":{"n":"0"}}"#
            )
        );
    }

    #[test]
    fn a_custom_resource_list_has_its_metadata_last_and_an_odd_kind() {
        let body = r#"{"apiVersion":"x.io/v1","items":[{"apiVersion":"x.io/v1","kind":"Gadget","metadata":{"name":"g"}},{"metadata":{"name":"h"}}],"kind":"GadgetCollection","metadata":{"continue":"","resourceVersion":"9"}}"#;
        let page = decoder_of("x.io", "v1", "Gadget").page(body.as_bytes()).expect("a page");
        assert_eq!((page.resource_version.as_str(), page.continue_token.as_str()), ("9", ""));
        let texts: Vec<&str> = page.items.iter().map(|object| object.json()).collect();
        assert_eq!(
            texts,
            [
                r#"{"apiVersion":"x.io/v1","kind":"Gadget","metadata":{"name":"g"}}"#,
                r#"{"kind":"Gadget","apiVersion":"x.io/v1","metadata":{"name":"h"}}"#
            ]
        );
    }

    #[test]
    fn no_items_is_an_empty_list_only_if_the_server_says_so() {
        for items in ["[]", "null"] {
            let body =
                format!(r#"{{"kind":"ConfigMapList","metadata":{{"resourceVersion":"1"}},"items":{items}}}"#);
            assert!(decoder().page(body.as_bytes()).expect("a page").items.is_empty());
        }
        let table = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"rows":[]}"#;
        assert!(list_problem(table).contains("no list, but Table"), "R-LIST-8, TestIsUnsupportedTableObject");
        assert!(list_problem("{}").contains("no list"));
        assert!(list_problem("{\"items\":[").contains("does not decode"));
        assert!(decoder().page(b"{\"kind\":\"\xff\"}").is_err());
    }

    #[test]
    fn one_bad_item_fails_the_list_and_is_named() {
        let body = r#"{"kind":"ConfigMapList","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b","namespace":"n","uid":7}}]}"#;
        assert!(
            list_problem(body).contains("item 1 (n/b): object does not decode"),
            "{}",
            list_problem(body)
        );
        let nameless = r#"{"kind":"ConfigMapList","items":[{"metadata":{}}]}"#;
        assert!(list_problem(nameless).contains("item 0: object has no metadata.name"));
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
