//! The resources served at this moment: the built-in ones, then those of CustomResourceDefinitions.
//!
//! Used by routing and discovery. Invariant: a (group, plural) is registered once, and a collection's floor is
//! never below the revision at which its resource began to be served.

use std::collections::HashMap;
use std::sync::Arc;

use crate::resources::Resource;

/// All served resources.
#[derive(Debug)]
pub(crate) struct Registry {
    resources: Vec<Arc<Resource>>,
    floors: HashMap<String, u64>,
    /// Generations of the definitions behind the custom resources, by collection.
    definitions: HashMap<String, i64>,
    default_floor: u64,
    /// Counts changes, for the ETag of discovery.
    generation: u64,
}

impl Registry {
    pub(crate) fn new(built_in: Vec<Resource>, floor: u64) -> Self {
        let resources = built_in.into_iter().map(Arc::new).collect();
        Registry {
            resources,
            floors: HashMap::new(),
            definitions: HashMap::new(),
            default_floor: floor,
            generation: 0,
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn find(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|r| r.group == group && r.plural == plural)
    }

    /// The resource of a kind, in a group version.
    pub(crate) fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|r| r.group == group && r.kind == kind && r.version(version).is_some())
    }

    /// The resource that owns a collection.
    pub(crate) fn of_collection(&self, collection: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|r| r.collection == collection)
    }

    /// Whether a group is one of the built-in ones, whose router answers unknown resources with a Status.
    pub(crate) fn is_built_in_group(&self, group: &str) -> bool {
        self.resources.iter().any(|r| r.group == group && !r.custom)
    }

    /// Groups in the order of discovery.
    pub(crate) fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for resource in &self.resources {
            if !groups.contains(&resource.group.as_str()) && resource.versions.iter().any(|v| v.served) {
                groups.push(&resource.group);
            }
        }
        groups
    }

    /// Served versions of a group, most preferred first.
    pub(crate) fn versions(&self, group: &str) -> Vec<&str> {
        let mut versions: Vec<&str> = Vec::new();
        for version in self.resources.iter().filter(|r| r.group == group).flat_map(|r| &r.versions) {
            if version.served && !versions.contains(&version.name.as_str()) {
                versions.push(&version.name);
            }
        }
        versions.sort_by_key(|v| std::cmp::Reverse(version_rank(v)));
        versions
    }

    /// Resources of a group version, by name.
    pub(crate) fn in_version(&self, group: &str, version: &str) -> Vec<&Arc<Resource>> {
        let mut found: Vec<&Arc<Resource>> =
            self.resources.iter().filter(|r| r.group == group && r.version(version).is_some()).collect();
        found.sort_by(|a, b| a.plural.cmp(&b.plural));
        found
    }

    /// Adds a custom resource, or puts it in the place of its earlier definition.
    pub(crate) fn register(&mut self, resource: Resource, floor: u64, definition: i64) {
        self.generation += 1;
        self.definitions.insert(resource.collection.clone(), definition);
        let place =
            self.resources.iter().position(|r| r.group == resource.group && r.plural == resource.plural);
        match place {
            Some(i) => self.resources[i] = Arc::new(resource),
            None => {
                self.floors.insert(resource.collection.clone(), floor);
                self.resources.push(Arc::new(resource));
            }
        }
    }

    pub(crate) fn unregister(&mut self, group: &str, plural: &str) {
        self.generation += 1;
        self.resources.retain(|r| !(r.custom && r.group == group && r.plural == plural));
        self.definitions.remove(&format!("{plural}.{group}"));
    }

    /// Which generation of its definition a custom collection is served by.
    pub(crate) fn served_generation(&self, collection: &str) -> Option<i64> {
        self.definitions.get(collection).copied()
    }

    pub(crate) fn floor(&self, collection: &str) -> u64 {
        self.floors.get(collection).copied().unwrap_or(0).max(self.default_floor)
    }

    pub(crate) fn raise_floor(&mut self, revision: u64) {
        self.default_floor = self.default_floor.max(revision);
    }
}

/// Kubernetes' order of versions: GA over beta over alpha, then by number; other names last, by name.
fn version_rank(version: &str) -> (u8, u32, u32, std::cmp::Reverse<String>) {
    let last = (0, 0, 0, std::cmp::Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return last };
    let (level, major, minor) = if let Some((major, minor)) = rest.split_once("alpha") {
        (1, major, minor)
    } else if let Some((major, minor)) = rest.split_once("beta") {
        (2, major, minor)
    } else {
        (3, rest, "0")
    };
    match (major.parse(), minor.parse()) {
        (Ok(major), Ok(minor)) => (level, major, minor, std::cmp::Reverse(String::new())),
        _ => last,
    }
}

#[cfg(test)]
mod tests {
    use super::version_rank;

    #[test]
    fn versions_are_preferred_as_kubernetes_prefers_them() {
        let mut names =
            ["foo10", "v1alpha1", "v2", "v1beta2", "v10", "foo1", "v1beta10", "v11alpha2", "v12alpha1"];
        names.sort_by_key(|v| std::cmp::Reverse(version_rank(v)));
        assert_eq!(
            names,
            ["v10", "v2", "v1beta10", "v1beta2", "v12alpha1", "v11alpha2", "v1alpha1", "foo1", "foo10"]
        );
    }
}
