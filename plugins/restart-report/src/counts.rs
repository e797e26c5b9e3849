//! What is counted: restarts, by namespace and by how the container ended before. Used by the plugin, which saves it.
//! Invariant: grows with the number of namespaces and causes, not with that of pods or restarts.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// See the file's head.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts(BTreeMap<String, Causes>);

/// The restarts of one namespace.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Causes(BTreeMap<String, u64>);

impl Counts {
    /// Adds restarts: what its namespace comes to, before and now.
    pub(crate) fn add(&mut self, namespace: &str, cause: &str, restarts: u64) -> (u64, &Causes) {
        let causes = self.0.entry(namespace.to_owned()).or_default();
        let before = causes.total();
        let count = causes.0.entry(cause.to_owned()).or_default();
        *count = count.saturating_add(restarts);
        (before, causes)
    }

    /// Each namespace with restarts, in order.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = (&str, &Causes)> {
        self.0.iter().map(|(namespace, causes)| (namespace.as_str(), causes))
    }
}

impl Causes {
    pub(crate) fn total(&self) -> u64 {
        self.0.values().fold(0, |total, count| total.saturating_add(*count))
    }
}

/// `3 restarts so far: 2 OOMKilled, 1 Error`, the most frequent cause first.
impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let restarts = if total == 1 { "restart" } else { "restarts" };
        write!(f, "{total} {restarts} so far")?;
        let mut causes: Vec<_> = self.0.iter().collect();
        causes.sort_by_key(|(cause, count)| (std::cmp::Reverse(**count), (*cause).clone()));
        for (number, (cause, count)) in causes.into_iter().enumerate() {
            let before = if number == 0 { ": " } else { ", " };
            write!(f, "{before}{count} {cause}")?;
        }
        Ok(())
    }
}
