//! From the builders to the contract's records. Used by the adapter for the answer to `describe`. Invariant:
//! nothing is checked or changed on the way: the host judges what the author wrote.

use crate::bindings::hark::plugin::plugin_types as wit;
use crate::condition::{Comparison, Condition};
use crate::proposal::Proposal;
use crate::{DeliveryMode, Description, QueuePolicy, Subscription};

impl From<Description> for wit::Description {
    fn from(description: Description) -> Self {
        let Description { name, version, subscriptions, proposal, extra } = description;
        let subscriptions = subscriptions.into_iter().map(Into::into).collect();
        Self { name, version, subscriptions, proposal: proposal.into(), extra }
    }
}

impl From<Proposal> for wit::Proposal {
    fn from(proposal: Proposal) -> Self {
        Self {
            on_reload: proposal.on_reload.map(Into::into),
            on_restart: proposal.on_restart.map(Into::into),
            delivery: proposal.delivery.map(Into::into),
            concurrency: proposal.concurrency,
        }
    }
}

impl From<QueuePolicy> for wit::QueuePolicy {
    fn from(policy: QueuePolicy) -> Self {
        match policy {
            QueuePolicy::Replay => Self::Replay,
            QueuePolicy::Keep => Self::Keep,
        }
    }
}

impl From<DeliveryMode> for wit::DeliveryMode {
    fn from(mode: DeliveryMode) -> Self {
        match mode {
            DeliveryMode::All => Self::All,
            DeliveryMode::Latest => Self::Latest,
        }
    }
}

impl From<Subscription> for wit::Subscription {
    fn from(subscription: Subscription) -> Self {
        let index = |(name, pointer)| wit::IndexDefinition { name, pointer };
        Self {
            name: subscription.name,
            api_version: subscription.api_version,
            kind: subscription.kind,
            namespaces: subscription.namespaces,
            namespace_selector: subscription.namespace_selector,
            label_selector: subscription.label_selector,
            field_selector: subscription.field_selector,
            conditions: subscription.conditions.into_iter().map(Into::into).collect(),
            changed: subscription.changed,
            fields: subscription.fields,
            indexes: subscription.indexes.into_iter().map(index).collect(),
            resync_seconds: subscription.resync_seconds,
            extra: subscription.extra,
        }
    }
}

impl From<Condition> for wit::Condition {
    fn from(condition: Condition) -> Self {
        let Condition { pointer, comparison, values } = condition;
        Self { pointer, comparison: comparison.into(), values }
    }
}

impl From<Comparison> for wit::Comparison {
    fn from(comparison: Comparison) -> Self {
        match comparison {
            Comparison::Exists => Self::Exists,
            Comparison::Absent => Self::Absent,
            Comparison::OneOf => Self::OneOf,
            Comparison::NoneOf => Self::NoneOf,
            Comparison::Greater => Self::Greater,
            Comparison::Less => Self::Less,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_built_reaches_the_contract() {
        let pods = Subscription::new("pods", "v1", "Pod")
            .namespaces_with("team=a")
            .labels("app=web")
            .field_selector("spec.nodeName=n")
            .when(Condition::none_of("/status/phase", ["Failed"]))
            .changed(["/a"])
            .fields(["/b", "/c"])
            .index("node", "/spec/nodeName");
        let built = Description::new("p", "1")
            .watch(pods)
            .on_reload(QueuePolicy::Keep)
            .on_restart(QueuePolicy::Replay)
            .delivery(DeliveryMode::Latest)
            .concurrency(4);
        let wit::Description { subscriptions, proposal, .. } = built.into();
        let [pods] = subscriptions.as_slice() else { panic!("{subscriptions:?}") };
        assert_eq!(pods.namespace_selector, "team=a");
        assert_eq!(
            (pods.label_selector.as_str(), pods.field_selector.as_str()),
            ("app=web", "spec.nodeName=n")
        );
        let [condition] = pods.conditions.as_slice() else { panic!("{pods:?}") };
        assert_eq!(
            (condition.pointer.as_str(), condition.comparison),
            ("/status/phase", wit::Comparison::NoneOf)
        );
        assert_eq!(condition.values, ["Failed"]);
        assert_eq!((pods.changed.as_slice(), pods.fields.len()), (["/a".to_owned()].as_slice(), 2));
        assert_eq!(
            (pods.indexes[0].name.as_str(), pods.indexes[0].pointer.as_str()),
            ("node", "/spec/nodeName")
        );
        assert_eq!(proposal.on_reload, Some(wit::QueuePolicy::Keep));
        assert_eq!(proposal.on_restart, Some(wit::QueuePolicy::Replay));
        assert_eq!(proposal.delivery, Some(wit::DeliveryMode::Latest));
        assert_eq!(proposal.concurrency, Some(4));
    }

    #[test]
    fn what_is_not_proposed_is_left_to_the_host() {
        let wit::Description { proposal, .. } = Description::new("p", "1").into();
        assert_eq!(
            (proposal.on_reload, proposal.on_restart, proposal.delivery, proposal.concurrency),
            (None, None, None, None)
        );
    }
}
