//! The three events, as handlers receive them. Built by the adapter (and by the tests' fake host), read by
//! plugin authors. Invariant: an event owns the host's text untouched; nothing is decoded until asked for.

use std::fmt;

use serde::Deserialize;

/// Which object, and which state of it, an event is about: the new state for adds and updates, the last known
/// one for deletes. Displays as `namespace/name`, or `name` for a cluster-scoped object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// Empty for a cluster-scoped object.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's uid: another one means that it was deleted and created anew.
    pub uid: String,
    /// The state's resource version.
    pub resource_version: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// An object that was not there, for this subscription, is there now.
#[derive(Debug, Clone)]
pub struct Added {
    pub(crate) subscription: u32,
    pub(crate) target: Target,
    pub(crate) object: String,
    pub(crate) initial: bool,
}

impl Added {
    /// Whether the object existed when the subscription began (first list, or replay after a reload).
    pub fn is_initial(&self) -> bool {
        self.initial
    }
}

/// An object changed. States between the old and the new one may have been skipped, never reordered; a
/// deletion and re-creation under one name is never an update. Where the subscription names
/// [`changed`](crate::Subscription::changed), the old state has there what was handed over last; elsewhere it may
/// be newer, since other updates went by unseen.
#[derive(Debug, Clone)]
pub struct Updated {
    pub(crate) subscription: u32,
    pub(crate) target: Target,
    pub(crate) old_object: String,
    pub(crate) object: String,
    pub(crate) resync: bool,
}

impl Updated {
    /// Whether nothing changed and the subscription's resync period is over; old and new are the same then.
    pub fn is_resync(&self) -> bool {
        self.resync
    }

    /// Decodes the state before. See [`Updated::object`].
    pub fn old_object<'a, T: Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
        serde_json::from_str(&self.old_object)
    }

    /// The state before, as the API server's JSON.
    pub fn old_json(&self) -> &str {
        &self.old_object
    }
}

/// An object is gone.
#[derive(Debug, Clone)]
pub struct Deleted {
    pub(crate) subscription: u32,
    pub(crate) target: Target,
    pub(crate) object: String,
    pub(crate) reason: DeleteReason,
}

impl Deleted {
    /// How the host learned of it.
    pub fn reason(&self) -> DeleteReason {
        self.reason
    }
}

/// How the host learned that an object is gone, or is no longer the subscription's. Displays as the contract
/// spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeleteReason {
    /// The watch said so, which includes an object that ceased to match the subscription's selectors.
    Deleted,
    /// A relist no longer had it: the object handed over may be older than its final state.
    Unknown,
    /// It ceased to satisfy the subscription's [conditions](crate::Subscription::when). It may well exist; the
    /// object handed over is the last state that did.
    Filtered,
    /// Its namespace ceased to match [`namespaces_with`](crate::Subscription::namespaces_with), or is gone.
    NamespaceLeft,
    /// A reason newer than this SDK: treat it as a delete.
    Other,
}

impl fmt::Display for DeleteReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deleted => "deleted",
            Self::Unknown => "unknown",
            Self::Filtered => "filtered",
            Self::NamespaceLeft => "namespace-left",
            Self::Other => "other",
        })
    }
}

/// What the three events have in common.
macro_rules! common {
    ($($event:ident),*) => {$(
        impl $event {
            /// Number of the subscription, in the order of the [`Description`](crate::Description).
            pub fn subscription(&self) -> u32 {
                self.subscription
            }

            /// Which object, and which state of it.
            pub fn target(&self) -> &Target {
                &self.target
            }

            /// Decodes the object: the new state of an add or update, the last known one of a delete.
            ///
            /// Into anything that serde can fill: a struct of the few fields needed (cheapest: what is not
            /// named is skipped, and `&str` fields are borrowed), a [`serde_json::Value`], or a type of the
            /// `k8s-openapi` crate.
            pub fn object<'a, T: Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
                serde_json::from_str(&self.object)
            }

            /// The object as the API server's JSON, or what the subscription's `fields` leave of it.
            pub fn json(&self) -> &str {
                &self.object
            }
        }
    )*};
}
common!(Added, Updated, Deleted);
