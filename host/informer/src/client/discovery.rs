//! Reads discovery documents (`APIResourceList`).
//!
//! Used by [`Client::resolve`](super::Client::resolve). Invariant: a kind that is not there is told apart from
//! an answer that cannot be read.

use serde::Deserialize;

use crate::resource::Resource;
use crate::status::ApiError;

#[derive(Deserialize)]
struct ResourceList {
    resources: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

impl Entry {
    fn is_watchable(&self) -> bool {
        ["list", "watch"].iter().all(|verb| self.verbs.iter().any(|has| has == verb))
    }
}

/// `v1` is version v1 of the core group, `apps/v1` of group apps.
pub(super) fn split_api_version(api_version: &str) -> Result<(&str, &str), ApiError> {
    let (group, version) = match api_version.split_once('/') {
        Some(("", _)) => ("", ""),
        Some(split) => split,
        None => ("", api_version),
    };
    if version.is_empty() || version.contains('/') {
        return Err(ApiError::Absent(format!(
            "`{api_version}` is not an apiVersion: VERSION or GROUP/VERSION"
        )));
    }
    Ok((group, version))
}

/// The resource of exactly this kind, else of this plural name; subresources are passed over.
pub(super) fn find(
    document: &[u8],
    group: &str,
    version: &str,
    kind_or_plural: &str,
) -> Result<Resource, ApiError> {
    let list: ResourceList = serde_json::from_slice(document)
        .map_err(|error| ApiError::Decode(format!("the discovery document does not decode: {error}")))?;
    let mut entries = list.resources.unwrap_or_default();
    entries.retain(|entry| !entry.name.contains('/'));
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let wanted = |entry: &&Entry| entry.kind == kind_or_plural;
    let plural = |entry: &&Entry| entry.name == kind_or_plural;
    let by_kind = entries.iter().filter(wanted).max_by_key(|entry| entry.is_watchable());
    let Some(entry) = by_kind.or_else(|| entries.iter().find(plural)) else {
        return Err(ApiError::Absent(format!("the API server has no {kind_or_plural} in {api_version}")));
    };
    if !entry.is_watchable() {
        return Err(ApiError::Absent(format!("{api_version}/{} cannot be listed and watched", entry.kind)));
    }
    Ok(Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: entry.name.clone(),
        kind: entry.kind.clone(),
        namespaced: entry.namespaced,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[
        {"name":"pods/exec","singularName":"","namespaced":true,"kind":"PodExecOptions","verbs":["get"]},
        {"name":"oldpods","singularName":"oldpod","namespaced":true,"kind":"Pod","verbs":["list"]},
        {"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["list","watch","get"]},
        {"name":"pods/status","singularName":"","namespaced":true,"kind":"Pod","verbs":["get","list","watch"]},
        {"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","verbs":["list","watch"]},
        {"name":"bindings","singularName":"binding","namespaced":true,"kind":"Binding","verbs":["create"]},
        {"name":"Pod","singularName":"","namespaced":true,"kind":"Trap","verbs":["list","watch"]}]}"#;

    fn find_in_v1(name: &str) -> Result<Resource, ApiError> {
        find(DOCUMENT.as_bytes(), "", "v1", name)
    }

    #[test]
    fn a_kind_goes_before_a_plural_and_subresources_do_not_count() {
        for name in ["Pod", "pods"] {
            let pods = find_in_v1(name).expect("pods");
            assert_eq!(
                (pods.plural.as_str(), pods.kind.as_str(), pods.namespaced),
                ("pods", "Pod", true),
                "{name}"
            );
        }
        assert!(!find_in_v1("Node").expect("nodes").namespaced);
    }

    #[test]
    fn what_is_not_there_or_cannot_be_watched_is_absent() {
        for name in ["Widget", "pod", "PODS", "pods/exec", "PodExecOptions", "Binding", "bindings", ""] {
            assert!(matches!(find_in_v1(name), Err(ApiError::Absent(_))), "{name}");
        }
        assert!(matches!(find(br#"{"resources":null}"#, "g", "v1", "X"), Err(ApiError::Absent(_))));
    }

    #[test]
    fn a_document_that_cannot_be_read_is_not_an_absent_kind() {
        for text in ["", "<html>", "{\"resources\":[{}]}"] {
            assert!(matches!(find(text.as_bytes(), "", "v1", "Pod"), Err(ApiError::Decode(_))), "{text}");
        }
    }

    #[test]
    fn an_api_version_is_a_version_or_a_group_and_a_version() {
        assert_eq!(split_api_version("v1"), Ok(("", "v1")));
        assert_eq!(split_api_version("apps/v1"), Ok(("apps", "v1")));
        for bad in ["", "/", "/v1", "apps/", "a/b/c"] {
            assert!(matches!(split_api_version(bad), Err(ApiError::Absent(_))), "{bad}");
        }
    }
}
