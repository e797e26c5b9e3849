//! What the path of a request names: discovery, a resource, an object, a subresource, or something else.
//!
//! Used by the request handler. Purely syntactic: whether the resource exists is looked up later.

use percent_encoding::percent_decode_str;

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`
    Resources { group: String, version: String },
    /// Anything below a group version.
    Resource(ResourcePath),
    /// `/version`, `/healthz`, `/openapi/…` and whatever else there is.
    Other(String),
}

/// The parts of a resource path; absent ones are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    /// The deprecated `/watch/` form.
    pub(crate) watch: bool,
}

/// Parses a percent-encoded path.
pub(crate) fn parse(path: &str) -> Target {
    let parts: Vec<String> = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
        .collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["api"] => Target::CoreVersions,
        ["apis"] => Target::Groups,
        ["apis", group] => Target::Group((*group).to_owned()),
        ["api", version] => Target::Resources { group: String::new(), version: (*version).to_owned() },
        ["apis", group, version] => {
            Target::Resources { group: (*group).to_owned(), version: (*version).to_owned() }
        }
        ["api", version, rest @ ..] => resource("", version, rest, path),
        ["apis", group, version, rest @ ..] => resource(group, version, rest, path),
        _ => Target::Other(path.to_owned()),
    }
}

fn resource(group: &str, version: &str, rest: &[&str], path: &str) -> Target {
    let (watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    let (namespace, rest) = match rest {
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, "", ""),
        [resource, name] => (*resource, *name, ""),
        [resource, name, subresource] => (*resource, *name, *subresource),
        _ => return Target::Other(path.to_owned()),
    };
    Target::Resource(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        watch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(path: &str) -> (String, String) {
        match parse(path) {
            Target::Resource(p) => (
                format!(
                    "{}|{}|{}|{}|{}|{}",
                    p.group, p.version, p.namespace, p.resource, p.name, p.subresource
                ),
                if p.watch { "watch".into() } else { String::new() },
            ),
            other => (format!("{other:?}"), String::new()),
        }
    }

    #[test]
    fn paths_name_what_kubernetes_means_by_them() {
        for (path, expected, watch) in [
            ("/api/v1/pods", "|v1||pods||", ""),
            ("/api/v1/namespaces", "|v1||namespaces||", ""),
            ("/api/v1/namespaces/x", "|v1||namespaces|x|", ""),
            ("/api/v1/namespaces/x/status", "|v1||namespaces|x|status", ""),
            ("/api/v1/namespaces/x/finalize", "|v1||namespaces|x|finalize", ""),
            ("/api/v1/namespaces/x/pods", "|v1|x|pods||", ""),
            ("/api/v1/namespaces/x/pods/p%2Fq/log", "|v1|x|pods|p/q|log", ""),
            ("/apis/apps/v1/namespaces/x/deployments/d/scale", "apps|v1|x|deployments|d|scale", ""),
            ("/api/v1/watch/namespaces/x/pods/p", "|v1|x|pods|p|", "watch"),
            ("/api/v1/watch/pods", "|v1||pods||", "watch"),
            ("/api/", "CoreVersions", ""),
            ("/apis", "Groups", ""),
            ("/apis/a.b", "Group(\"a.b\")", ""),
            ("/api/v1", "Resources { group: \"\", version: \"v1\" }", ""),
            ("/apis/apps/v1/", "Resources { group: \"apps\", version: \"v1\" }", ""),
            ("/nope", "Other(\"/nope\")", ""),
            ("/api/v1/namespaces/x/pods/p/log/more", "Other(\"/api/v1/namespaces/x/pods/p/log/more\")", ""),
        ] {
            assert_eq!(parts(path), (expected.to_owned(), watch.to_owned()), "{path}");
        }
    }
}
