//! What an informer is of: the selector a user wrote, and the resource that discovery made of it.
//!
//! A [`Selector`] is an informer's identity: subscriptions with equal selectors share one. A [`Resource`] is
//! what the API server calls it, and where. Invariant: a selector never changes; a resource may, when a
//! CustomResourceDefinition is replaced, and is then resolved anew.

use std::fmt::{self, Write as _};

/// Which objects an informer holds. Two equal selectors are the same informer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// `ConfigMap`; the plural resource name (`configmaps`) is accepted too.
    pub kind: String,
    /// Only this namespace; empty: all of them (rule R-LIST-11). A cluster-scoped resource has
    /// none (see `list_watch`).
    pub namespace: String,
    /// Label selector as kubectl writes it; empty: all.
    pub label_selector: String,
    /// Field selector as kubectl writes it; empty: all.
    pub field_selector: String,
}

impl Selector {
    /// Every object of a kind.
    pub fn new(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { api_version: api_version.into(), kind: kind.into(), ..Self::default() }
    }

    /// The same, of one namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), ..self }
    }

    /// The same, with a label selector.
    #[must_use]
    pub fn with_labels(self, label_selector: impl Into<String>) -> Self {
        Self { label_selector: label_selector.into(), ..self }
    }

    /// The same, with a field selector.
    #[must_use]
    pub fn with_fields(self, field_selector: impl Into<String>) -> Self {
        Self { field_selector: field_selector.into(), ..self }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version, self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, " in {}", self.namespace)?;
        }
        let selectors = [("l", &self.label_selector), ("f", &self.field_selector)];
        let mut opening = " (";
        for (letter, text) in selectors.into_iter().filter(|(_, text)| !text.is_empty()) {
            write!(f, "{opening}{letter}: {text}")?;
            opening = "; ";
        }
        if opening == "; " { f.write_char(')') } else { Ok(()) }
    }
}

/// A resource as discovery knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// `apps`; empty for the core group.
    pub group: String,
    /// `v1`.
    pub version: String,
    /// `deployments`.
    pub plural: String,
    /// `Deployment`.
    pub kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of the collection. A namespace is left out for a cluster-scoped resource, as kubectl does.
    pub fn path(&self, namespace: &str) -> String {
        let mut path = group_version_path(&self.group, &self.version);
        if self.namespaced && !namespace.is_empty() {
            path.push_str("/namespaces/");
            percent_encode(&mut path, namespace);
        }
        path.push('/');
        percent_encode(&mut path, &self.plural);
        path
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.plural, self.version)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// `/api/v1` for the core group, `/apis/GROUP/VERSION` for the others.
pub(crate) fn group_version_path(group: &str, version: &str) -> String {
    let mut path = String::from(if group.is_empty() { "/api/" } else { "/apis/" });
    if !group.is_empty() {
        percent_encode(&mut path, group);
        path.push('/');
    }
    percent_encode(&mut path, version);
    path
}

/// Appends `text` with everything but RFC 3986's unreserved characters escaped: safe in paths and queries.
pub(crate) fn percent_encode(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => {
                out.push('%');
                for nibble in [byte >> 4, byte & 0xf] {
                    out.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0').to_ascii_uppercase());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, plural: &str, kind: &str, namespaced: bool) -> Resource {
        Resource {
            group: group.into(),
            version: "v1".into(),
            plural: plural.into(),
            kind: kind.into(),
            namespaced,
        }
    }

    #[test]
    fn a_selector_reads_as_a_person_would_say_it() {
        let all = Selector::new("v1", "ConfigMap");
        let cases = [
            (all.clone(), "v1/ConfigMap"),
            (all.clone().in_namespace("default"), "v1/ConfigMap in default"),
            (all.clone().in_namespace("default").with_labels("app=x"), "v1/ConfigMap in default (l: app=x)"),
            (all.clone().with_fields("metadata.name=a"), "v1/ConfigMap (f: metadata.name=a)"),
            (all.with_labels("a,b").with_fields("c=d"), "v1/ConfigMap (l: a,b; f: c=d)"),
        ];
        for (selector, text) in cases {
            assert_eq!(selector.to_string(), text);
        }
    }

    #[test]
    fn paths_follow_group_and_scope() {
        let configmaps = resource("", "configmaps", "ConfigMap", true);
        let nodes = resource("", "nodes", "Node", false);
        let deployments = resource("apps", "deployments", "Deployment", true);
        assert_eq!(configmaps.path(""), "/api/v1/configmaps");
        assert_eq!(configmaps.path("a"), "/api/v1/namespaces/a/configmaps");
        assert_eq!(configmaps.path("../a b"), "/api/v1/namespaces/..%2Fa%20b/configmaps");
        assert_eq!(nodes.path("a"), "/api/v1/nodes", "a cluster-scoped resource has no namespace");
        assert_eq!(deployments.path("a"), "/apis/apps/v1/namespaces/a/deployments");
        assert_eq!((configmaps.api_version(), deployments.api_version()), ("v1".into(), "apps/v1".into()));
        assert_eq!(
            (configmaps.to_string(), deployments.to_string()),
            ("configmaps.v1".into(), "deployments.v1.apps".into())
        );
    }
}
