//! Strategic merge patch: like a merge patch, but lists of known kinds merge by key, and directives steer it.
//!
//! Used by `patch.rs`. Invariant: no directive (`$patch`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`,
//! `$retainKeys`) ever ends up in the object.

use serde_json::{Map, Value};

use crate::lists::{ListKind, kind_of};

/// A patch that cannot be applied.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum PatchError {
    #[error("map: {0} does not contain declared merge key: {1}")]
    NoMergeKey(String, String),
    #[error("unrecognized type of list element in {0}")]
    BadElement(String),
    #[error("unknown directive $patch: {0}")]
    UnknownDirective(String),
}

const DIRECTIVE: &str = "$patch";
const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";
const RETAIN: &str = "$retainKeys";

/// Applies a patch to an object of a collection.
pub(crate) fn merge(collection: &str, object: &mut Value, patch: &Value) -> Result<(), PatchError> {
    Merge { collection, path: Vec::new() }.value(object, patch)
}

struct Merge<'a> {
    collection: &'a str,
    path: Vec<String>,
}

impl Merge<'_> {
    fn value(&mut self, current: &mut Value, patch: &Value) -> Result<(), PatchError> {
        let Value::Object(patch) = patch else {
            *current = patch.clone();
            return Ok(());
        };
        match patch.get(DIRECTIVE).and_then(Value::as_str) {
            None | Some("merge") => {}
            Some("replace") => {
                *current = Value::Object(plain(patch));
                return Ok(());
            }
            Some("delete") => {
                *current = Value::Object(Map::new());
                return Ok(());
            }
            Some(other) => return Err(PatchError::UnknownDirective(other.to_owned())),
        }
        if !current.is_object() {
            *current = Value::Object(Map::new());
        }
        let Some(map) = current.as_object_mut() else { return Ok(()) };
        self.map(map, patch)
    }

    fn map(
        &mut self,
        current: &mut Map<String, Value>,
        patch: &Map<String, Value>,
    ) -> Result<(), PatchError> {
        if let Some(retain) = patch.get(RETAIN).and_then(Value::as_array) {
            current.retain(|key, _| retain.iter().any(|r| r == key));
        }
        for (key, value) in patch {
            if let Some(field) = key.strip_prefix(DELETE) {
                let gone = value.as_array().map_or(&[][..], Vec::as_slice);
                if let Some(list) = current.get_mut(field).and_then(Value::as_array_mut) {
                    list.retain(|item| !gone.contains(item));
                }
            } else if !key.starts_with('$') {
                self.field(current, key, value)?;
            }
        }
        for (key, order) in patch {
            let Some(field) = key.strip_prefix(ORDER) else { continue };
            self.path.push(field.to_owned());
            let kind = kind_of(self.collection, &self.path);
            self.path.pop();
            if let (Some(Value::Array(list)), Some(order)) = (current.get_mut(field), order.as_array()) {
                reorder(list, order, &kind);
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        current: &mut Map<String, Value>,
        key: &str,
        patch: &Value,
    ) -> Result<(), PatchError> {
        if patch.is_null() {
            current.remove(key);
            return Ok(());
        }
        self.path.push(key.to_owned());
        let place = current.entry(key.to_owned()).or_insert(Value::Null);
        let result = match patch {
            Value::Array(items) => self.list(place, items),
            _ => self.value(place, patch),
        };
        self.path.pop();
        if patch.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
            current.remove(key);
        }
        result
    }

    fn list(&mut self, current: &mut Value, patch: &[Value]) -> Result<(), PatchError> {
        let kind = kind_of(self.collection, &self.path);
        let replaces =
            patch.iter().any(|p| is_directive(p, "replace") && p.as_object().is_some_and(|o| o.len() == 1));
        if kind == ListKind::Atomic || replaces {
            let kept = patch.iter().filter(|p| p.get(DIRECTIVE).is_none()).cloned().collect();
            *current = Value::Array(kept);
            return Ok(());
        }
        if !current.is_array() {
            *current = Value::Array(Vec::new());
        }
        let Some(list) = current.as_array_mut() else { return Ok(()) };
        match kind {
            ListKind::Set => {
                for item in patch {
                    if !list.contains(item) {
                        list.push(item.clone());
                    }
                }
                Ok(())
            }
            ListKind::Keyed(keys) => self.keyed(list, patch, keys.first().map_or("name", String::as_str)),
            ListKind::Atomic => Ok(()),
        }
    }

    fn keyed(&mut self, list: &mut Vec<Value>, patch: &[Value], key: &str) -> Result<(), PatchError> {
        for item in patch {
            let Some(object) = item.as_object() else {
                return Err(PatchError::BadElement(self.path.join(".")));
            };
            let Some(id) = object.get(key) else {
                return Err(PatchError::NoMergeKey(item.to_string(), key.to_owned()));
            };
            let place = list.iter().position(|have| have.get(key) == Some(id));
            match (place, is_directive(item, "delete")) {
                (_, true) => list.retain(|have| have.get(key) != Some(id)),
                (Some(i), false) => self.value(&mut list[i], item)?,
                (None, false) => {
                    let mut new = Value::Null;
                    self.value(&mut new, item)?;
                    list.push(new);
                }
            }
        }
        Ok(())
    }
}

fn is_directive(value: &Value, directive: &str) -> bool {
    value.get(DIRECTIVE).and_then(Value::as_str) == Some(directive)
}

/// A map without the directives at its top.
fn plain(patch: &Map<String, Value>) -> Map<String, Value> {
    patch.iter().filter(|(k, _)| !k.starts_with('$')).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// Puts the listed elements in the listed order; the others stay behind the element they were behind.
fn reorder(list: &mut Vec<Value>, order: &[Value], kind: &ListKind) {
    let key = match kind {
        ListKind::Keyed(keys) => keys.first().map(String::as_str),
        _ => None,
    };
    let id = |item: &Value| match key {
        Some(key) => item.get(key).cloned().unwrap_or(Value::Null),
        None => item.clone(),
    };
    let wanted: Vec<Value> = order.iter().map(id).collect();
    let rank = |item: &Value| wanted.iter().position(|w| *w == id(item));
    let mut ranked: Vec<(usize, Value)> = Vec::new();
    let mut others: Vec<(Option<Value>, Value)> = Vec::new();
    let mut before: Option<Value> = None;
    for item in std::mem::take(list) {
        let this = id(&item);
        match rank(&item) {
            Some(rank) => ranked.push((rank, item)),
            None => others.push((before.take(), item)),
        }
        before = Some(this);
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    *list = ranked.into_iter().map(|(_, item)| item).collect();
    for (before, item) in others {
        let at = before.and_then(|b| list.iter().position(|have| id(have) == b)).map_or(0, |i| i + 1);
        list.insert(at, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(collection: &str, object: Value, patch: Value) -> Value {
        let mut object = object;
        merge(collection, &mut object, &patch).expect("applies");
        object
    }

    #[test]
    fn lists_merge_by_their_keys() {
        let object = json!({"spec": {"containers": [
            {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}], "ports": [{"containerPort": 80}]},
            {"name": "b", "image": "b:1"},
        ]}});
        let patch = json!({"spec": {"containers": [
            {"name": "a", "image": "a:2", "env": [{"name": "Y", "value": "2"}], "ports": [{"containerPort": 81}]},
        ]}});
        assert_eq!(
            patched("pods", object, patch),
            json!({"spec": {"containers": [
                {"name": "a", "image": "a:2", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}],
                 "ports": [{"containerPort": 80}, {"containerPort": 81}]},
                {"name": "b", "image": "b:1"},
            ]}})
        );
    }

    #[test]
    fn other_lists_are_replaced() {
        let object = json!({"spec": {"containers": [{"name": "a", "args": ["x", "y"]}], "tolerations": [{"key": "k"}]}});
        let patch = json!({"spec": {"containers": [{"name": "a", "args": ["z"]}], "tolerations": []}});
        assert_eq!(
            patched("pods", object, patch),
            json!({"spec": {"containers": [{"name": "a", "args": ["z"]}], "tolerations": []}})
        );
    }

    #[test]
    fn the_same_name_means_different_lists_in_different_kinds() {
        let ports = json!({"spec": {"ports": [{"port": 80, "name": "a"}]}});
        let patch = json!({"spec": {"ports": [{"port": 81}]}});
        assert_eq!(
            patched("services", ports.clone(), patch.clone()),
            json!({"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81}]}})
        );
        assert_eq!(
            patched("networkpolicies.networking.k8s.io", ports, patch),
            json!({"spec": {"ports": [{"port": 81}]}})
        );
    }

    #[test]
    fn directives_delete_replace_retain_and_order() {
        let object = json!({
            "metadata": {"finalizers": ["a", "b", "c"]},
            "spec": {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w"}], "strategy": {"type": "RollingUpdate", "rollingUpdate": {}}},
        });
        let patch = json!({
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["b"]},
            "spec": {
                "volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {}}, {"name": "x"}],
                "$setElementOrder/volumes": [{"name": "x"}, {"name": "v"}],
                "strategy": {"$retainKeys": ["type"], "type": "Recreate"},
            },
        });
        assert_eq!(
            patched("deployments.apps", object, patch),
            json!({
                "metadata": {"finalizers": ["a", "c"]},
                "spec": {"volumes": [{"name": "x"}, {"name": "v", "secret": {}}, {"name": "w"}], "strategy": {"type": "Recreate"}},
            })
        );
    }

    #[test]
    fn elements_and_maps_can_be_deleted_or_replaced() {
        let object = json!({"spec": {"containers": [{"name": "a"}, {"name": "b", "image": "i"}], "nodeSelector": {"x": "y"}}});
        let patch = json!({"spec": {
            "containers": [{"name": "a", "$patch": "delete"}, {"name": "b", "$patch": "replace", "command": ["c"]}],
            "nodeSelector": {"$patch": "replace", "z": "w"},
        }});
        assert_eq!(
            patched("pods", object, patch),
            json!({"spec": {"containers": [{"name": "b", "command": ["c"]}], "nodeSelector": {"z": "w"}}})
        );
        let patch =
            json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "n"}], "nodeSelector": null}});
        let object = json!({"spec": {"containers": [{"name": "a"}], "nodeSelector": {"x": "y"}}});
        assert_eq!(patched("pods", object, patch), json!({"spec": {"containers": [{"name": "n"}]}}));
    }

    #[test]
    fn an_element_without_its_key_is_refused() {
        let mut object = json!({"spec": {"containers": []}});
        let error = merge("pods", &mut object, &json!({"spec": {"containers": [{"image": "x"}]}}));
        assert_eq!(error, Err(PatchError::NoMergeKey(r#"{"image":"x"}"#.into(), "name".into())));
    }
}
