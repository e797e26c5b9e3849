//! A plugin's subscription in `/api/plugins`: everything that it asked for, under the contract's own names.
//!
//! Part of the running version's document. Invariant: what was not asked for is there too, empty.

use hark_informer::filter::Condition;
use hark_informer::listener::Joined;
use hark_sandbox::Subscription;
use serde::Serialize;

/// One subscription.
#[derive(Serialize)]
pub(super) struct SubscriptionDocument<'a> {
    name: &'a str,
    api_version: &'a str,
    kind: &'a str,
    /// None and no selector of them: all.
    namespaces: &'a [String],
    namespace_selector: &'a str,
    label_selector: &'a str,
    field_selector: &'a str,
    conditions: Vec<ConditionDocument<'a>>,
    changed: &'a [String],
    fields: &'a [String],
    indexes: Vec<IndexDocument<'a>>,
    resync_seconds: Option<u64>,
    /// The informers that serve it, by the names that `/readyz` has for them.
    informers: Vec<String>,
    /// How often its filter could not judge an object, and let it pass.
    filter_failures: u64,
}

#[derive(Serialize)]
struct ConditionDocument<'a> {
    pointer: &'a str,
    operator: &'static str,
    values: &'a [String],
}

#[derive(Serialize)]
struct IndexDocument<'a> {
    name: &'a str,
    pointer: &'a str,
}

/// The document of a subscription; `joined` has what its listener says of it, if it is there yet.
pub(super) fn subscription<'a>(one: &'a Subscription, joined: &[Joined]) -> SubscriptionDocument<'a> {
    let joined = joined.iter().find(|joined| joined.subscription == one.name);
    SubscriptionDocument {
        name: &one.name,
        api_version: &one.api_version,
        kind: &one.kind,
        namespaces: &one.namespaces,
        namespace_selector: &one.namespace_selector,
        label_selector: &one.label_selector,
        field_selector: &one.field_selector,
        conditions: one.filter.conditions.iter().map(condition).collect(),
        changed: &one.filter.changed,
        fields: &one.filter.fields,
        indexes: one.indexes.iter().map(|(name, pointer)| IndexDocument { name, pointer }).collect(),
        resync_seconds: one.resync.map(|period| period.as_secs()),
        informers: joined.iter().flat_map(|joined| &joined.informers).map(ToString::to_string).collect(),
        filter_failures: joined.map_or(0, |joined| joined.filter_failures),
    }
}

fn condition(condition: &Condition) -> ConditionDocument<'_> {
    let Condition { pointer, operator, values } = condition;
    ConditionDocument { pointer, operator: operator.as_str(), values }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hark_informer::filter::{FilterSpec, Operator};
    use hark_informer::resource::Selector;

    use super::*;

    #[test]
    fn a_subscription_is_shown_as_it_was_asked_for() {
        let pointer = || "/status/phase".to_owned();
        let values = vec!["Running".to_owned()];
        let filter = FilterSpec {
            conditions: vec![Condition { pointer: pointer(), operator: Operator::NotIn, values }],
            changed: vec![pointer()],
            ..FilterSpec::default()
        };
        let one = Subscription {
            name: "pods".into(),
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespaces: vec!["web".into()],
            namespace_selector: String::new(),
            label_selector: "app".into(),
            field_selector: String::new(),
            filter,
            indexes: vec![("node".into(), "/spec/nodeName".into())],
            resync: Some(Duration::from_secs(60)),
            extra: Vec::new(),
        };
        let want = "{\"name\":\"pods\",\"api_version\":\"v1\",\"kind\":\"Pod\",\"namespaces\":[\"web\"],\
                    \"namespace_selector\":\"\",\"label_selector\":\"app\",\"field_selector\":\"\",\
                    \"conditions\":[{\"pointer\":\"/status/phase\",\"operator\":\"not-in\",\
                    \"values\":[\"Running\"]}],\"changed\":[\"/status/phase\"],\"fields\":[],\
                    \"indexes\":[{\"name\":\"node\",\"pointer\":\"/spec/nodeName\"}],\"resync_seconds\":60,\
                    \"informers\":[\"v1/Pod in web\"],\"filter_failures\":2}";
        let pods = Selector::new("v1", "Pod").in_namespace("web");
        let joined = |name: &str, filter_failures| Joined {
            subscription: name.into(),
            informers: vec![pods.clone()],
            filter_failures,
        };
        let joined = [joined("other", 1), joined("pods", 2)];
        assert_eq!(serde_json::to_string(&subscription(&one, &joined)).expect("JSON"), want);
    }
}
