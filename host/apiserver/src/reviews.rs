//! Reviews: questions about who may do what. Whoever can reach this server may do everything.
//!
//! Used by the request handler for creations of kinds that are not kept.

use serde_json::{Value, json};

use crate::object::{View, timestamp};

/// Answers a review with its document completed by a status.
pub(crate) fn answer(view: &View, mut review: Value) -> Value {
    let status = match view.resource.kind.as_str() {
        "SelfSubjectReview" => json!({"userInfo": {
            "username": "hark:admin",
            "groups": ["system:masters", "system:authenticated"],
        }}),
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => json!({"allowed": true, "reason": "everything is allowed on this server"}),
    };
    review["kind"] = json!(view.resource.kind);
    review["apiVersion"] = json!(view.api_version);
    if review.get("metadata").is_none_or(Value::is_null) {
        review["metadata"] = json!({"creationTimestamp": timestamp()});
    }
    review["status"] = status;
    review
}
