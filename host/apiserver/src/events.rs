//! The two faces of an Event: stored as core/v1, shown as `events.k8s.io/v1` on request.
//!
//! Used by `object::View`. Invariant: the two functions undo each other but for zero values.

use serde_json::{Map, Value, json};

/// Core name, `events.k8s.io` name.
const RENAMED: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

pub(crate) fn to_events_v1(mut event: Value) -> Value {
    if let Some(object) = event.as_object_mut() {
        for (core, new) in RENAMED {
            rename(object, core, new);
        }
    }
    event
}

pub(crate) fn from_events_v1(mut event: Value) -> Value {
    if let Some(object) = event.as_object_mut() {
        for (core, new) in RENAMED {
            rename(object, new, core);
        }
    }
    event
}

/// Fields that the typed server writes even when they are empty.
pub(crate) fn fill_zero_values(event: &mut Value) {
    let Some(object) = event.as_object_mut() else { return };
    for (field, zero) in [
        ("involvedObject", json!({})),
        ("source", json!({})),
        ("firstTimestamp", Value::Null),
        ("lastTimestamp", Value::Null),
        ("eventTime", Value::Null),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
    ] {
        object.entry(field).or_insert(zero);
    }
}

fn rename(object: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = object.remove(from) {
        object.insert(to.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_faces_hold_the_same_event() {
        let core = json!({"involvedObject": {"name": "x"}, "message": "m", "count": 2, "reason": "R"});
        let new = to_events_v1(core.clone());
        assert_eq!(
            new,
            json!({"regarding": {"name": "x"}, "note": "m", "deprecatedCount": 2, "reason": "R"})
        );
        assert_eq!(from_events_v1(new), core);
    }
}
