//! Structural schemas of custom resources: pruning, defaulting, and the validation that is simple to do.
//!
//! Used by writes. What it does not know (CEL rules, `allOf` and the like, formats) it lets pass.

use serde_json::{Map, Value};

use crate::status::Cause;

fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

/// The schema of values whose keys are not listed, if it says something about them.
fn additional(schema: &Value) -> Option<&Value> {
    schema.get("additionalProperties").filter(|a| a.is_object())
}

fn keeps_unknown(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-preserve-unknown-fields")
        || schema.get("additionalProperties").is_some_and(|a| a != &Value::Bool(false))
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Removes what the schema does not have; the answer is what was removed.
pub(crate) fn prune(schema: &Value, object: &mut Value) -> Vec<String> {
    let mut removed = Vec::new();
    prune_at(schema, object, "", &mut removed);
    removed
}

fn prune_at(schema: &Value, value: &mut Value, path: &str, removed: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let known = properties(schema);
            let embedded = path.is_empty() || flag(schema, "x-kubernetes-embedded-resource");
            let keep = |key: &str| {
                known.is_some_and(|k| k.contains_key(key))
                    || keeps_unknown(schema)
                    || embedded && matches!(key, "apiVersion" | "kind" | "metadata")
            };
            let unknown: Vec<String> = map.keys().filter(|k| !keep(k)).cloned().collect();
            for key in unknown {
                map.remove(&key);
                removed.push(join(path, &key));
            }
            for (key, value) in map.iter_mut().filter(|(key, _)| !(embedded && *key == "metadata")) {
                if let Some(inner) = known.and_then(|k| k.get(key)).or_else(|| additional(schema)) {
                    prune_at(inner, value, &join(path, key), removed);
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = schema.get("items") else { return };
            for (i, item) in items.iter_mut().enumerate() {
                prune_at(inner, item, &format!("{path}[{i}]"), removed);
            }
        }
        _ => {}
    }
}

/// Fills in defaults.
pub(crate) fn default(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in properties(schema).into_iter().flatten() {
                if let Some(default) = inner.get("default")
                    && map.get(key).is_none_or(|v| v.is_null() && !flag(inner, "nullable"))
                {
                    map.insert(key.clone(), default.clone());
                }
            }
            for (key, value) in map.iter_mut() {
                if let Some(inner) =
                    properties(schema).and_then(|p| p.get(key)).or_else(|| additional(schema))
                {
                    default(inner, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = schema.get("items") {
                items.iter_mut().for_each(|item| default(inner, item));
            }
        }
        _ => {}
    }
}

/// What is wrong with an object.
pub(crate) fn validate(schema: &Value, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    validate_at(schema, object, "", &mut causes);
    // Ranges before enumerations, as the real server tells them.
    causes.sort_by_key(|cause| cause.reason == "FieldValueNotSupported");
    causes
}

fn validate_at(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.is_null() && flag(schema, "nullable") {
        return;
    }
    if !has_type(schema, value) {
        let wanted = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        let found = type_name(value);
        let why = format!("{path} in body must be of type {wanted}: {found:?}");
        causes.push(Cause::new("FieldValueTypeInvalid", path, format!("Invalid value: {found:?}: {why}")));
        return;
    }
    validate_value(schema, value, path, causes);
    match value {
        Value::Object(map) => {
            for key in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                if let Some(key) = key.as_str().filter(|k| !map.contains_key(*k)) {
                    causes.push(Cause::required(join(path, key), ""));
                }
            }
            for (key, value) in map.iter().filter(|(key, _)| !(path.is_empty() && *key == "metadata")) {
                if let Some(inner) =
                    properties(schema).and_then(|p| p.get(key)).or_else(|| additional(schema))
                {
                    validate_at(inner, value, &join(path, key), causes);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = schema.get("items") {
                for (i, item) in items.iter().enumerate() {
                    validate_at(inner, item, &format!("{path}[{i}]"), causes);
                }
            }
        }
        _ => {}
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    let found = type_name(value);
    if flag(schema, "x-kubernetes-int-or-string") {
        return matches!(found, "integer" | "string");
    }
    match schema.get("type").and_then(Value::as_str) {
        None => true,
        Some("number") => matches!(found, "integer" | "number"),
        Some("integer") => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        Some(wanted) => wanted == found,
    }
}

fn validate_value(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut invalid = |why: String| {
        causes.push(Cause::invalid(path, &value.to_string(), &format!("{path} in body {why}")));
    };
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    if let Some(number) = value.as_f64() {
        if let Some(least) = bound("minimum").filter(|least| number < *least) {
            invalid(format!("should be greater than or equal to {least}"));
        }
        if let Some(most) = bound("maximum").filter(|most| number > *most) {
            invalid(format!("should be less than or equal to {most}"));
        }
    }
    if let Some(length) = value.as_str().map(|s| s.chars().count() as f64) {
        if let Some(least) = bound("minLength").filter(|least| length < *least) {
            invalid(format!("should be at least {least} chars long"));
        }
        if let Some(most) = bound("maxLength").filter(|most| length > *most) {
            invalid(format!("should be at most {most} chars long"));
        }
    }
    if let Some(length) = value.as_array().map(|a| a.len() as f64) {
        if let Some(least) = bound("minItems").filter(|least| length < *least) {
            invalid(format!("should have at least {least} items"));
        }
        if let Some(most) = bound("maxItems").filter(|most| length > *most) {
            invalid(format!("should have at most {most} items"));
        }
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array).filter(|e| !e.contains(value)) {
        let shown: Vec<String> =
            allowed.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
        let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
        let found = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        causes.push(Cause::unsupported(path, &found, &shown));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn widget() -> Value {
        json!({"type": "object", "required": ["spec"], "properties": {
            "spec": {"type": "object", "required": ["size"], "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "color": {"type": "string", "enum": ["red", "green", "blue"], "default": "red"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            }},
        }})
    }

    #[test]
    fn unknown_fields_go_and_known_free_ones_stay() {
        let mut object = json!({"metadata": {"anything": 1}, "spec": {"size": 1, "bogus": 1, "free": {"x": 1}, "tags": {"t": "u"}, "list": [{"a": "b", "c": "d"}]}, "more": 2});
        assert_eq!(prune(&widget(), &mut object), ["more", "spec.bogus", "spec.list[0].c"]);
        assert_eq!(
            object,
            json!({"metadata": {"anything": 1}, "spec": {"size": 1, "free": {"x": 1}, "tags": {"t": "u"}, "list": [{"a": "b"}]}})
        );
    }

    #[test]
    fn defaults_are_filled_in() {
        let mut object = json!({"spec": {"size": 1}});
        default(&widget(), &mut object);
        assert_eq!(object, json!({"spec": {"size": 1, "color": "red"}}));
    }

    #[test]
    fn violations_are_told_in_the_real_servers_words() {
        let message = |v: &Value| {
            validate(&widget(), v).iter().map(|c| format!("{}: {}", c.field, c.message)).collect::<Vec<_>>()
        };
        assert_eq!(
            message(&json!({"spec": {"size": 99, "color": "pink"}})),
            [
                "spec.size: Invalid value: 99: spec.size in body should be less than or equal to 10",
                "spec.color: Unsupported value: \"pink\": supported values: \"red\", \"green\", \"blue\"",
            ]
        );
        assert_eq!(message(&json!({})), ["spec: Required value"]);
        assert_eq!(
            message(&json!({"spec": {"size": "x"}})),
            ["spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",]
        );
    }
}
