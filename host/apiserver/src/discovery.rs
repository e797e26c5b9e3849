//! Discovery: which groups, versions and resources there are, in the form of old and of new clients.
//!
//! Used by the request handler. All of it is derived from the registry on each request, so a definition that
//! has just been established is there.

use base64::Engine as _;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::registry::Registry;
use crate::resources::{Resource, Verbs, Version};

/// Media type of the aggregated form.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/api`
pub(crate) fn core_versions(address: &str) -> String {
    let addresses = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]);
    format!("{{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":{addresses}}}\n")
}

/// `/apis`
pub(crate) fn groups(registry: &Registry) -> String {
    let groups: Vec<Value> =
        registry.groups().into_iter().filter(|g| !g.is_empty()).map(|g| group_body(registry, g)).collect();
    format!("{{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":{}}}\n", Value::Array(groups))
}

/// `/apis/GROUP`
pub(crate) fn group(registry: &Registry, group: &str) -> Option<String> {
    if group.is_empty() || registry.versions(group).is_empty() {
        return None;
    }
    let Value::Object(mut body) = group_body(registry, group) else { return None };
    body.insert("kind".into(), json!("APIGroup"));
    body.insert("apiVersion".into(), json!("v1"));
    Some(format!("{}\n", Value::Object(body)))
}

fn group_body(registry: &Registry, group: &str) -> Value {
    let version = |v: &str| json!({"groupVersion": format!("{group}/{v}"), "version": v});
    let versions: Vec<Value> = registry.versions(group).into_iter().map(version).collect();
    json!({"name": group, "preferredVersion": versions.first(), "versions": versions})
}

/// `/api/v1`, `/apis/GROUP/VERSION`
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<String> {
    let resources = registry.in_version(group, version);
    if resources.is_empty() {
        return None;
    }
    let entries: Vec<Value> = resources.iter().flat_map(|r| entries(r, version)).collect();
    let (prefix, group_version) = match group {
        "" => ("\"kind\":\"APIResourceList\"", version.to_owned()),
        _ => ("\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\"", format!("{group}/{version}")),
    };
    let list = Value::Array(entries);
    Some(format!("{{{prefix},\"groupVersion\":\"{group_version}\",\"resources\":{list}}}\n"))
}

/// A resource and its subresources.
fn entries(resource: &Resource, version: &str) -> Vec<Value> {
    let mut entry = Map::new();
    entry.insert("name".into(), json!(resource.plural));
    entry.insert("singularName".into(), json!(resource.singular));
    entry.insert("namespaced".into(), json!(resource.namespaced));
    entry.insert("kind".into(), json!(resource.kind));
    entry.insert("verbs".into(), json!(resource.verbs()));
    put_names(&mut entry, resource);
    if resource.verbs != Verbs::CreateOnly {
        entry.insert("storageVersionHash".into(), json!(storage_version_hash(resource)));
    }
    let mut entries = vec![Value::Object(entry)];
    for sub in subresources(resource, version) {
        let mut entry = json!({
            "name": format!("{}/{}", resource.plural, sub.name),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": sub.kind,
            "verbs": sub.verbs,
        });
        if let Some((group, version)) = sub.group_version {
            entry["group"] = json!(group);
            entry["version"] = json!(version);
        }
        entries.push(entry);
    }
    entries
}

fn put_names(entry: &mut Map<String, Value>, resource: &Resource) {
    if !resource.short_names.is_empty() {
        entry.insert("shortNames".into(), json!(resource.short_names));
    }
    if !resource.categories.is_empty() {
        entry.insert("categories".into(), json!(resource.categories));
    }
}

struct Subresource<'a> {
    name: &'static str,
    kind: &'a str,
    group_version: Option<(&'static str, &'static str)>,
    verbs: &'static [&'static str],
}

fn subresources<'a>(resource: &'a Resource, version: &str) -> Vec<Subresource<'a>> {
    const CHANGE: &[&str] = &["get", "patch", "update"];
    let none = Version::default();
    let version = resource.version(version).unwrap_or(&none);
    let mut found = Vec::new();
    if resource.is("pods") {
        let kind = "Eviction";
        found.push(Subresource {
            name: "eviction",
            kind,
            group_version: Some(("policy", "v1")),
            verbs: &["create"],
        });
    }
    if resource.is("namespaces") {
        found.push(Subresource {
            name: "finalize",
            kind: &resource.kind,
            group_version: None,
            verbs: &["update"],
        });
    }
    if version.scale.is_some() {
        let group_version = Some(("autoscaling", "v1"));
        found.push(Subresource { name: "scale", kind: "Scale", group_version, verbs: CHANGE });
    }
    if version.status {
        found.push(Subresource { name: "status", kind: &resource.kind, group_version: None, verbs: CHANGE });
    }
    found
}

fn storage_version_hash(resource: &Resource) -> String {
    let version = resource.versions.iter().find(|v| v.storage).map_or("", |v| v.name.as_str());
    let digest = Sha256::digest(format!("{}/{version}/{}", resource.group, resource.kind));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

/// All groups with all they have: the core group for `/api`, the others for `/apis`.
pub(crate) fn aggregated(registry: &Registry, core: bool) -> String {
    let groups = registry.groups().into_iter().filter(|g| g.is_empty() == core);
    let items: Vec<Value> = groups
        .map(|group| {
            let versions: Vec<Value> = registry
                .versions(group)
                .into_iter()
                .map(|v| aggregated_version(registry, group, v))
                .collect();
            let metadata = if core { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let items = Value::Array(items);
    format!(
        "{{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{{}},\"items\":{items}}}\n"
    )
}

fn aggregated_version(registry: &Registry, group: &str, version: &str) -> Value {
    let resources: Vec<Value> =
        registry.in_version(group, version).into_iter().map(|r| aggregated_resource(r, version)).collect();
    json!({"version": version, "resources": resources, "freshness": "Current"})
}

fn aggregated_resource(resource: &Resource, version: &str) -> Value {
    let kind = |(group, version): (&str, &str), kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut entry = Map::new();
    let own = if resource.custom { (resource.group.as_str(), version) } else { ("", "") };
    entry.insert("resource".into(), json!(resource.plural));
    entry.insert("responseKind".into(), kind(own, &resource.kind));
    entry.insert("scope".into(), json!(if resource.namespaced { "Namespaced" } else { "Cluster" }));
    entry.insert("singularResource".into(), json!(resource.singular));
    entry.insert("verbs".into(), json!(resource.verbs()));
    put_names(&mut entry, resource);
    let subresources: Vec<Value> = subresources(resource, version)
        .into_iter()
        .map(|s| {
            let response = kind(s.group_version.unwrap_or(own), s.kind);
            json!({"subresource": s.name, "responseKind": response, "verbs": s.verbs})
        })
        .collect();
    if !subresources.is_empty() {
        entry.insert("subresources".into(), json!(subresources));
    }
    Value::Object(entry)
}

/// Fingerprint of an answer.
pub(crate) fn etag(body: &str) -> String {
    let digest = Sha256::digest(body);
    let hex: String = digest.iter().map(|b| format!("{b:02X}")).collect();
    format!("\"{hex}\"")
}
