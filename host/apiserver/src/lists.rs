//! How the lists of the built-in kinds merge: as a whole, as a set, or element by element under a key.
//!
//! Used by strategic merge patches and by server-side apply. The real server reads this from its types; here it
//! is a table by field name, with the few names that mean different things in different places told apart.

/// How a list merges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Replaced as a whole.
    Atomic,
    /// A set of plain values.
    Set,
    /// Elements that share the values of these keys are the same; strategic merges go by the first only.
    Keyed(Vec<String>),
}

const NAME: &[&str] = &["name"];
const TYPE: &[&str] = &["type"];

/// Field name and keys.
const KEYED: &[(&str, &[&str])] = &[
    ("containers", NAME),
    ("initContainers", NAME),
    ("ephemeralContainers", NAME),
    ("env", NAME),
    ("volumes", NAME),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("imagePullSecrets", NAME),
    ("resourceClaims", NAME),
    ("schedulingGates", NAME),
    ("hostAliases", &["ip"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("conditions", TYPE),
    ("podIPs", &["ip"]),
    ("hostIPs", &["ip"]),
    ("ownerReferences", &["uid"]),
];

const SETS: &[&str] = &["finalizers", "podCIDRs"];

const IN_CONTAINERS: &[&str] = &["containers", "initContainers", "ephemeralContainers"];

/// How the list at a path of a built-in kind merges. The path holds field names only, no indexes.
pub(crate) fn kind_of(collection: &str, path: &[String]) -> ListKind {
    let Some(field) = path.last().map(String::as_str) else { return ListKind::Atomic };
    let keyed = |keys: &[&str]| ListKind::Keyed(keys.iter().map(ToString::to_string).collect());
    if SETS.contains(&field) {
        return ListKind::Set;
    }
    let parent = path.len().checked_sub(2).and_then(|i| path.get(i)).map_or("", String::as_str);
    match (collection, field, parent) {
        (_, "ports", parent) if IN_CONTAINERS.contains(&parent) => keyed(&["containerPort", "protocol"]),
        ("services", "ports", "spec") => keyed(&["port", "protocol"]),
        ("serviceaccounts", "secrets", _) => keyed(NAME),
        ("nodes", "addresses", "status") => keyed(TYPE),
        (crate::resources::CRDS, "conditions", _) => ListKind::Atomic,
        _ => KEYED.iter().find(|(name, _)| *name == field).map_or(ListKind::Atomic, |(_, keys)| keyed(keys)),
    }
}
