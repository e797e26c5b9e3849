//! What names and labels may look like, in the words of a kube-apiserver.
//!
//! Used by writes and by the selector parser.

use crate::status::Cause;

pub(crate) const QUALIFIED_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
pub(crate) const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Label keys: an optional DNS prefix and a name of at most 63 characters.
pub(crate) fn is_qualified_name(key: &str) -> bool {
    let name = match key.split_once('/') {
        Some((prefix, name)) if is_subdomain(prefix) => name,
        Some(_) => return false,
        None => key,
    };
    !name.is_empty() && is_label_value(name)
}

/// Label values: up to 63 characters, alphanumeric at both ends.
pub(crate) fn is_label_value(value: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    value.len() <= 63
        && value.chars().all(inner)
        && value.chars().next().is_none_or(|c| c.is_ascii_alphanumeric())
        && value.chars().next_back().is_none_or(|c| c.is_ascii_alphanumeric())
}

fn is_label(label: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
}

pub(crate) fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

/// The test, the words for its failure, and the longest name.
type Rule = (fn(&str) -> bool, &'static str, usize);

/// Which rule the names of a collection follow.
fn rule(collection: &str) -> Option<Rule> {
    let dns_1035 = |name: &str| is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase());
    match collection {
        "namespaces" => Some((is_label, LABEL, 63)),
        "services" => Some((dns_1035, DNS_1035, 63)),
        _ if collection.ends_with("rbac.authorization.k8s.io") => None,
        _ => Some((is_subdomain, SUBDOMAIN, 253)),
    }
}

/// What is wrong with the name of an object to be created, if anything.
pub(crate) fn name(collection: &str, name: &str) -> Vec<Cause> {
    let invalid = |why: &str| Cause::invalid("metadata.name", &format!("{name:?}"), why);
    match rule(collection) {
        None if name == "." || name == ".." => vec![invalid(&format!("may not be '{name}'"))],
        None if name.contains(['/', '%']) => vec![invalid("may not contain '/' or '%'")],
        None => Vec::new(),
        Some((_, _, most)) if name.len() > most => {
            vec![Cause::new(
                "FieldValueTooLong",
                "metadata.name",
                format!("Invalid value: {name:?}: must be no more than {most} bytes"),
            )]
        }
        Some((ok, why, _)) if !ok(name) => vec![invalid(why)],
        Some(_) => Vec::new(),
    }
}

/// What is wrong with an object's labels, if anything.
pub(crate) fn labels(object: &serde_json::Value) -> Vec<Cause> {
    let Some(labels) = object.pointer("/metadata/labels").and_then(|l| l.as_object()) else {
        return Vec::new();
    };
    let mut causes = Vec::new();
    for (key, value) in labels {
        if !is_qualified_name(key) {
            causes.push(Cause::invalid("metadata.labels", &format!("{key:?}"), QUALIFIED_NAME));
        }
        if let Some(value) = value.as_str().filter(|v| !is_label_value(v)) {
            causes.push(Cause::invalid("metadata.labels", &format!("{value:?}"), LABEL_VALUE));
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_the_rule_of_their_kind() {
        for (collection, candidate, good) in [
            ("configmaps", "a.b-c", true),
            ("configmaps", "Bad_Name", false),
            ("configmaps", "-a", false),
            ("configmaps", "a..b", false),
            ("namespaces", "a.b", false),
            ("namespaces", "a-1", true),
            ("services", "1a", false),
            ("services", "a1", true),
            ("roles.rbac.authorization.k8s.io", "system:Node", true),
            ("roles.rbac.authorization.k8s.io", "a/b", false),
        ] {
            assert_eq!(name(collection, candidate).is_empty(), good, "{collection} {candidate}");
        }
        assert!(!name("configmaps", &"a".repeat(254)).is_empty());
    }

    #[test]
    fn label_keys_may_have_a_dns_prefix() {
        for (key, good) in
            [("a", true), ("x.io/a", true), ("X/a", false), ("a/", false), ("/a", false), ("a b", false)]
        {
            assert_eq!(is_qualified_name(key), good, "{key}");
        }
    }
}
