//! What a plugin is and what it wants to be told: builders for the answer to `describe`. Used by plugin
//! authors; read by the adapter and by the tests' fake host. Invariant: subscriptions keep the order in which
//! they were added, since handlers are told their index.

use std::fmt;
use std::time::Duration;

/// What a plugin is and what it wants to be told.
///
/// ```
/// use hark_guest::{Description, Subscription};
///
/// let description = Description::new("pod-audit", "1.2.0")
///     .watch(Subscription::new("pods", "v1", "Pod").namespace("default").labels("app=web"));
/// assert_eq!(description.subscriptions().len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) extra: Vec<(String, String)>,
}

impl Description {
    /// A plugin of this name and version, both for people: the host knows a plugin by its file's stem and
    /// its content. [`description!`](crate::description) takes both from the crate.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), subscriptions: Vec::new(), extra: Vec::new() }
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

/// One kind of object, in some namespaces, narrowed by selectors that the API server evaluates. As built by
/// [`Subscription::new`]: every object of the kind, in all namespaces, never resynced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    pub(crate) name: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespaces: Vec<String>,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
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
            label_selector: String::new(),
            field_selector: String::new(),
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

    /// Only objects with these labels, as kubectl's `-l` takes them: `app=web,tier!=test`.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = selector.into();
        self
    }

    /// Only objects with these fields, as kubectl's `--field-selector` takes them.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = selector.into();
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
