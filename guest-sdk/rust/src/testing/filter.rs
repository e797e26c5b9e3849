//! What the real host does before it wakes a plugin, for one subscription: conditions, `changed`, `fields`. Used
//! by the fake host. Invariant: only what is in the description decides; selectors and namespaces, which are
//! the cluster's to judge, count as satisfied.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::pointer::{Pointer, project};
use crate::Subscription;
use crate::condition::{Comparison, Condition};

/// A subscription's data, ready for use.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    conditions: Vec<(Pointer, Condition)>,
    changed: Vec<Pointer>,
    fields: Vec<Pointer>,
    indexes: Vec<(String, Pointer)>,
}

impl Filter {
    /// Reads the pointers of a subscription, or says what is wrong with the first one that is.
    pub(super) fn of(subscription: &Subscription) -> Result<Self, String> {
        let Subscription { conditions, changed, fields, indexes, .. } = subscription;
        let condition = |one: &Condition| Ok((Pointer::parse(&one.pointer)?, one.clone()));
        let index = |(name, pointer): &(String, String)| Ok((name.clone(), Pointer::parse(pointer)?));
        Ok(Self {
            conditions: conditions.iter().map(condition).collect::<Result<_, String>>()?,
            changed: pointers(if changed.is_empty() { fields } else { changed })?,
            fields: pointers(fields)?,
            indexes: indexes.iter().map(index).collect::<Result<_, String>>()?,
        })
    }

    /// Whether an object is the subscription's.
    pub(super) fn accepts(&self, object: &Value) -> bool {
        self.conditions.iter().all(|(pointer, condition)| holds(condition, &pointer.values(object)))
    }

    /// Whether an update is handed over.
    pub(super) fn is_change(&self, old: &Value, new: &Value) -> bool {
        self.changed.is_empty()
            || self.changed.iter().any(|pointer| pointer.values(old) != pointer.values(new))
    }

    /// What is handed over of an object.
    pub(super) fn text(&self, object: &Value) -> String {
        project(object, &self.fields).to_string()
    }

    /// The values under which an index files an object, or none if there is no such index.
    pub(super) fn index(&self, name: &str, object: &Value) -> Option<Vec<String>> {
        let (_, pointer) = self.indexes.iter().find(|(known, _)| known == name)?;
        Some(pointer.values(object).into_iter().filter_map(index_value).collect())
    }

    /// Whether there is such an index.
    pub(super) fn has_index(&self, name: &str) -> bool {
        self.indexes.iter().any(|(known, _)| known == name)
    }
}

/// Reads some pointers, or says what is wrong with the first one that is.
pub(super) fn pointers(texts: &[String]) -> Result<Vec<Pointer>, String> {
    texts.iter().map(|text| Pointer::parse(text)).collect()
}

fn holds(condition: &Condition, found: &[&Value]) -> bool {
    let listed = || condition.values.iter().any(|text| found.iter().any(|value| equals(value, text)));
    match condition.comparison {
        Comparison::Exists => !found.is_empty(),
        Comparison::Absent => found.is_empty(),
        Comparison::OneOf => listed(),
        Comparison::NoneOf => !listed(),
        Comparison::Greater => compares(condition, found, Ordering::Greater),
        Comparison::Less => compares(condition, found, Ordering::Less),
    }
}

/// A value that is no number cannot be judged, and counts.
fn compares(condition: &Condition, found: &[&Value], wanted: Ordering) -> bool {
    let bound = condition.values.first().and_then(|text| number(text));
    found.iter().any(|value| match (value, &bound) {
        (Value::Number(value), Some(bound)) => compare(value, bound) == Some(wanted),
        _ => true,
    })
}

fn equals(value: &Value, text: &str) -> bool {
    match value {
        Value::String(content) => content == text,
        Value::Number(value) => {
            number(text).is_some_and(|number| compare(value, &number) == Some(Ordering::Equal))
        }
        Value::Bool(value) => text == if *value { "true" } else { "false" },
        Value::Null => text == "null",
        Value::Array(_) | Value::Object(_) => false,
    }
}

fn number(text: &str) -> Option<Number> {
    serde_json::from_str(text).ok()
}

/// Whole numbers of 64 bits exactly, others as floats; the real host is exact everywhere.
fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn index_value(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(content) => content.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    Some(text).filter(|text| text.len() <= 1024)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn accepts(condition: Condition, object: &Value) -> bool {
        Filter::of(&Subscription::new("x", "v1", "X").when(condition)).unwrap().accepts(object)
    }

    #[test]
    fn conditions_decide_as_the_contract_says() {
        let object = json!({"n": 3, "big": 9_007_199_254_740_993_u64, "t": "web", "b": true, "z": null,
            "l": [{"x": 1}, {"x": "2"}], "o": {}});
        let cases = [
            (Condition::exists("/z"), true),
            (Condition::exists("/none"), false),
            (Condition::absent("/none"), true),
            (Condition::absent("/l/*/x"), false),
            (Condition::equals("/t", "web"), true),
            (Condition::equals("/n", "3.0"), true),
            (Condition::equals("/big", "9007199254740992"), false),
            (Condition::one_of("/l/*/x", ["2", "7"]), true),
            (Condition::one_of("/none", ["2"]), false),
            (Condition::equals("/b", true), true),
            (Condition::equals("/z", "null"), true),
            (Condition::equals("/o", "{}"), false),
            (Condition::none_of("/t", ["db"]), true),
            (Condition::none_of("/l/*/x", [1]), false),
            (Condition::none_of("/none", [1]), true),
            (Condition::greater("/n", 2), true),
            (Condition::greater("/n", 3), false),
            (Condition::less("/n", 3.5), true),
            (Condition::less("/none", 3), false),
            // What cannot be judged counts as satisfied.
            (Condition::greater("/t", 2), true),
        ];
        for (condition, want) in cases {
            let shown = format!("{condition:?}");
            assert_eq!(accepts(condition, &object), want, "{shown}");
        }
    }

    #[test]
    fn a_change_is_one_at_the_pointers_named() {
        let (old, new) = (json!({"a": 1, "b": 1}), json!({"a": 1, "b": 2}));
        let is_change = |subscription: Subscription| Filter::of(&subscription).unwrap().is_change(&old, &new);
        let plain = || Subscription::new("x", "v1", "X");
        assert!(is_change(plain()));
        assert!(is_change(plain().changed(["/a", "/b"])));
        assert!(!is_change(plain().changed(["/a"])));
        assert!(!is_change(plain().fields(["/a"])), "none named: the fields");
        assert!(is_change(plain().fields(["/a"]).changed(["/b"])));
        assert!(!is_change(plain().changed(["/c"])));
    }

    #[test]
    fn an_index_files_an_object_under_its_plain_values() {
        let long = "x".repeat(1025);
        let object = json!({"l": ["a", 7, true, null, {}, long]});
        let filter = Filter::of(&Subscription::new("x", "v1", "X").index("all", "/l/*")).unwrap();
        assert_eq!(filter.index("all", &object), Some(vec!["a".into(), "7".into(), "true".into()]));
        assert_eq!(filter.index("other", &object), None);
    }
}
