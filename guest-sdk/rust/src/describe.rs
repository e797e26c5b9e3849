//! What a plugin is and what it wants to be told: builders for the answer to `describe`. Used by plugin
//! authors; read by the adapter and by the tests' fake host. Invariant: subscriptions keep the order in which
//! they were added, since handlers are told their index.

use std::fmt;
use std::time::Duration;

use crate::condition::Condition;
use crate::proposal::{DeliveryMode, Proposal, QueuePolicy};

/// What a plugin is and what it wants to be told.
///
/// ```
/// use hark_guest::{Description, QueuePolicy, Subscription};
///
/// let description = Description::new("pod-audit", "1.2.0")
///     .watch(Subscription::new("pods", "v1", "Pod").namespace("default").labels("app=web"))
///     .on_reload(QueuePolicy::Keep);
/// assert_eq!(description.subscriptions().len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) proposal: Proposal,
    pub(crate) extra: Vec<(String, String)>,
}

impl Description {
    /// A plugin of this name and version, both for people: the host knows a plugin by its file's stem and
    /// its content. [`description!`](crate::description) takes both from the crate.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            subscriptions: Vec::new(),
            proposal: Proposal::default(),
            extra: Vec::new(),
        }
    }

    /// Adds a subscription. The first one added is number 0 in [`Added::subscription`](crate::Added) and
    /// its like, and for [`cache`](crate::cache).
    #[must_use]
    pub fn watch(mut self, subscription: Subscription) -> Self {
        self.subscriptions.push(subscription);
        self
    }

    /// Adds several subscriptions, in their order.
    #[must_use]
    pub fn watch_all(mut self, subscriptions: impl IntoIterator<Item = Subscription>) -> Self {
        self.subscriptions.extend(subscriptions);
        self
    }

    /// Proposes what a new version of the plugin does with the events that wait. The host's default is
    /// [`QueuePolicy::Replay`]; the operator's file comes before what is proposed, here as below.
    #[must_use]
    pub fn on_reload(mut self, policy: QueuePolicy) -> Self {
        self.proposal.on_reload = Some(policy);
        self
    }

    /// Proposes what a fresh instance does with them after a trap or a missed deadline. The host's default is
    /// [`QueuePolicy::Keep`].
    #[must_use]
    pub fn on_restart(mut self, policy: QueuePolicy) -> Self {
        self.proposal.on_restart = Some(policy);
        self
    }

    /// Proposes when waiting events of one object are merged. The host's default is [`DeliveryMode::All`].
    #[must_use]
    pub fn delivery(mut self, mode: DeliveryMode) -> Self {
        self.proposal.delivery = Some(mode);
        self
    }

    /// Proposes how many instances share the events, 1 to 64; the host's default is 1. Each has a value and a
    /// memory of its own; the events of one object always go to the same one.
    #[must_use]
    pub fn concurrency(mut self, instances: u32) -> Self {
        self.proposal.concurrency = Some(instances);
        self
    }

    /// A pair that newer hosts may understand; a host ignores names that it does not know.
    #[must_use]
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extra.push((name.into(), value.into()));
        self
    }

    /// The subscriptions so far, by number.
    pub fn subscriptions(&self) -> &[Subscription] {
        &self.subscriptions
    }
}

/// One kind of object, in some namespaces, narrowed by selectors and conditions; and what of it is handed over.
/// As built by [`Subscription::new`]: every object of the kind, in all namespaces, whole, at every change, never
/// resynced.
///
/// All of it is evaluated by the host: a plugin that asks for little is woken seldom, and parses little. A
/// pointer is a JSON pointer (`/spec/nodeName`; `~1` stands for a slash in a segment, `~0` for a tilde) with one
/// addition: a segment `*` stands for every element of an array or every value of a map
/// (`/spec/containers/*/image`; `~2` for an asterisk). There are no array indices.
///
/// ```
/// use hark_guest::{Condition, Subscription};
///
/// // Woken when an image of a running pod changes, and then handed its images and nothing else.
/// let images = Subscription::new("pods", "v1", "Pod")
///     .when(Condition::equals("/status/phase", "Running"))
///     .fields(["/spec/containers/*/image"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    pub(crate) name: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespaces: Vec<String>,
    pub(crate) namespace_selector: String,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) changed: Vec<String>,
    pub(crate) fields: Vec<String>,
    /// Name and pointer of each.
    pub(crate) indexes: Vec<(String, String)>,
    pub(crate) resync_seconds: u32,
    pub(crate) extra: Vec<(String, String)>,
}

impl Subscription {
    /// A subscription to a kind. `name` is unique within the plugin: a reload matches old and new by it.
    pub fn new(name: impl Into<String>, api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            api_version: api_version.into(),
            kind: kind.into(),
            namespaces: Vec::new(),
            namespace_selector: String::new(),
            label_selector: String::new(),
            field_selector: String::new(),
            conditions: Vec::new(),
            changed: Vec::new(),
            fields: Vec::new(),
            indexes: Vec::new(),
            resync_seconds: 0,
            extra: Vec::new(),
        }
    }

    /// A subscription named after a kind as an operator writes it in settings: `v1/ConfigMap`,
    /// `apps/v1/Deployment`.
    pub fn to_kind(kind: &str) -> Result<Self, KindError> {
        match kind.rsplit_once('/') {
            Some((api_version, name)) if is_api_version(api_version) && !name.is_empty() => {
                Ok(Self::new(kind, api_version, name))
            }
            _ => Err(KindError(kind.to_owned())),
        }
    }

    /// Only this namespace; may be called for several.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self
    }

    /// Only these namespaces; none: all.
    #[must_use]
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.namespaces.extend(namespaces.into_iter().map(Into::into));
        self
    }

    /// Only namespaces with these labels, as kubectl's `-l` takes them, followed live: objects of a namespace that
    /// comes to match are added, those of one that ceases to are deleted with reason
    /// [`NamespaceLeft`](crate::DeleteReason::NamespaceLeft). Not together with namespaces by name.
    #[must_use]
    pub fn namespaces_with(mut self, labels: impl Into<String>) -> Self {
        self.namespace_selector = labels.into();
        self
    }

    /// Only objects with these labels, as kubectl's `-l` takes them: `app=web,tier!=test`.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = selector.into();
        self
    }

    /// Only objects with these fields, as kubectl's `--field-selector` takes them.
    #[must_use]
    pub fn field_selector(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = selector.into();
        self
    }

    /// Only objects that satisfy this condition; may be called for several, all of which must hold. An object that
    /// comes to satisfy them arrives as an add, one that ceases to as a delete with reason
    /// [`Filtered`](crate::DeleteReason::Filtered).
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Only updates that change a value at one of these pointers; none: at one of [`fields`](Self::fields), if
    /// there are any. Adds, deletes and resyncs come as always.
    #[must_use]
    pub fn changed<P: Into<String>>(mut self, pointers: impl IntoIterator<Item = P>) -> Self {
        self.changed.extend(pointers.into_iter().map(Into::into));
        self
    }

    /// Only the values at these pointers are handed over, each at its place; none: whole objects. What is absent
    /// stays absent; arrays keep their length, with `{}` for maps of which nothing is named, else `null`.
    #[must_use]
    pub fn fields<P: Into<String>>(mut self, pointers: impl IntoIterator<Item = P>) -> Self {
        self.fields.extend(pointers.into_iter().map(Into::into));
        self
    }

    /// Lets the host keep an index over the subscription's objects, by their values at a pointer, for
    /// [`cache::by_index`](crate::cache::by_index).
    #[must_use]
    pub fn index(mut self, name: impl Into<String>, pointer: impl Into<String>) -> Self {
        self.indexes.push((name.into(), pointer.into()));
        self
    }

    /// Hands every cached object over again this often, as an update that
    /// [says so](crate::Updated::is_resync). The host counts in whole seconds, and takes 10 for less.
    #[must_use]
    pub fn resync(mut self, every: Duration) -> Self {
        let rounded_up = every.as_secs().saturating_add(u64::from(every.subsec_nanos() > 0));
        self.resync_seconds = u32::try_from(rounded_up).unwrap_or(u32::MAX);
        self
    }

    /// A pair that newer hosts may understand; a host ignores names that it does not know.
    #[must_use]
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extra.push((name.into(), value.into()));
        self
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// `v1` or `apps/v1`: a group, if any, and a version, neither empty.
fn is_api_version(text: &str) -> bool {
    text.split('/').count() <= 2 && text.split('/').all(|part| !part.is_empty())
}

/// A text that does not name a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindError(String);

impl fmt::Display for KindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a kind such as `v1/ConfigMap` or `apps/v1/Deployment`", self.0)
    }
}

impl std::error::Error for KindError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_an_api_version_and_a_name() {
        let core = Subscription::to_kind("v1/ConfigMap").unwrap();
        assert_eq!((core.api_version.as_str(), core.kind.as_str()), ("v1", "ConfigMap"));
        let grouped = Subscription::to_kind("apps/v1/Deployment").unwrap();
        assert_eq!((grouped.api_version.as_str(), grouped.kind.as_str()), ("apps/v1", "Deployment"));
        assert_eq!(grouped.name(), "apps/v1/Deployment");
        for bad in ["", "ConfigMap", "v1/", "/ConfigMap", "a/b/c/d", "apps//Deployment"] {
            assert!(Subscription::to_kind(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_resync_period_is_never_rounded_down_to_none() {
        let pods = || Subscription::new("pods", "v1", "Pod");
        assert_eq!(pods().resync(Duration::from_millis(1)).resync_seconds, 1);
        assert_eq!(pods().resync(Duration::from_secs(600)).resync_seconds, 600);
        assert_eq!(pods().resync(Duration::ZERO).resync_seconds, 0);
        assert_eq!(pods().resync(Duration::MAX).resync_seconds, u32::MAX);
    }
}
