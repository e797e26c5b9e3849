//! What a plugin says it is and wants, checked.
//!
//! Made by `Plugin::describe` from the guest's answer; used by the host to subscribe. Invariant: a
//! [`Description`] has 1 to 64 subscriptions with unique names, every text is bounded and safe to show, and
//! whatever the guest got wrong is reported at once.

use std::collections::HashSet;
use std::time::Duration;

use crate::bindings::hark::plugin::plugin_types as wit;
use crate::text;

/// What a plugin is and wants to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The plugin's own name for itself, for people. May be empty.
    pub name: String,
    /// The author's version, for people. May be empty.
    pub version: String,
    /// What it wants to be told, in the order that subscription numbers count.
    pub subscriptions: Vec<Subscription>,
    /// Pairs of a later contract; this host knows none.
    pub extra: Vec<(String, String)>,
}

/// One kind of object that a plugin wants to be told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Unique within the plugin.
    pub name: String,
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// The kind, or the plural resource name.
    pub kind: String,
    /// Namespaces, each once; none: all.
    pub namespaces: Vec<String>,
    /// A label selector as the API server takes it; empty: every object.
    pub label_selector: String,
    /// A field selector as the API server takes it; empty: every object.
    pub field_selector: String,
    /// How often each object is handed over again; at least 10 s.
    pub resync: Option<Duration>,
    /// Pairs of a later contract; this host knows none.
    pub extra: Vec<(String, String)>,
}

const SUBSCRIPTIONS: usize = 64;
const NAMESPACES: usize = 1000;
/// Bytes of a name or version for people.
const LABEL_BYTES: usize = 256;
/// Bytes of a subscription's name: it goes into traces and metrics.
const NAME_BYTES: usize = 128;
/// Bytes of a selector: it goes into a URL.
const SELECTOR_BYTES: usize = 4096;
const EXTRAS: usize = 64;
const EXTRA_BYTES: usize = 4096;
const MIN_RESYNC: Duration = Duration::from_secs(10);

/// Checks a guest's answer.
///
/// # Errors
/// Everything that is wrong with it, one sentence each.
pub(crate) fn check(from: wit::Description) -> Result<Description, Vec<String>> {
    let mut problems = Vec::new();
    let count = from.subscriptions.len();
    if count == 0 {
        problems.push("it subscribes to nothing: `subscriptions` must have at least one entry".into());
    }
    if count > SUBSCRIPTIONS {
        problems.push(format!("it has {count} subscriptions, more than {SUBSCRIPTIONS}"));
    }
    if let Some(problem) = extra_problem(&from.extra) {
        problems.push(problem);
    }
    let mut names = HashSet::new();
    for (index, subscription) in from.subscriptions.iter().enumerate().take(SUBSCRIPTIONS) {
        let label = format!("subscription {index} ({})", text::quoted(&subscription.name));
        let mut found = subscription_problems(subscription);
        if !subscription.name.is_empty() && !names.insert(subscription.name.as_str()) {
            found.push("another subscription has this name".into());
        }
        problems.extend(found.into_iter().map(|problem| format!("{label}: {problem}")));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Description {
        name: text::clean(&from.name, LABEL_BYTES),
        version: text::clean(&from.version, LABEL_BYTES),
        subscriptions: from.subscriptions.into_iter().map(subscription).collect(),
        extra: from.extra,
    })
}

fn subscription(from: wit::Subscription) -> Subscription {
    let mut seen = HashSet::new();
    let resync = Duration::from_secs(from.resync_seconds.into());
    Subscription {
        name: from.name,
        api_version: from.api_version,
        kind: from.kind,
        namespaces: from.namespaces.into_iter().filter(|name| seen.insert(name.clone())).collect(),
        label_selector: from.label_selector,
        field_selector: from.field_selector,
        resync: Some(resync).filter(|resync| !resync.is_zero()).map(|resync| resync.max(MIN_RESYNC)),
        extra: from.extra,
    }
}

fn subscription_problems(from: &wit::Subscription) -> Vec<String> {
    let checks = [
        name_problem(&from.name),
        api_version_problem(&from.api_version),
        kind_problem(&from.kind),
        namespaces_problem(&from.namespaces),
        selector_problem("label-selector", &from.label_selector, label_term),
        selector_problem("field-selector", &from.field_selector, field_term),
        extra_problem(&from.extra),
    ];
    checks.into_iter().flatten().collect()
}

fn name_problem(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("`name` is empty".into());
    }
    if name.len() > NAME_BYTES {
        return Some(format!("`name` has {} bytes, more than {NAME_BYTES}", name.len()));
    }
    (text::clean(name, NAME_BYTES) != name).then(|| "`name` has control characters".into())
}

/// `v1` or `group/v1`. Checked here because it becomes part of a URL.
fn api_version_problem(api_version: &str) -> Option<String> {
    let parts: Vec<_> = api_version.split('/').collect();
    let plain = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
    };
    if api_version.is_empty() {
        return Some("`api-version` is empty (for built-in kinds it is `v1`, `apps/v1`, …)".into());
    }
    let right = api_version.len() <= LABEL_BYTES && parts.len() <= 2 && parts.iter().all(plain);
    (!right).then(|| {
        format!(
            "`api-version` {} is neither a version (`v1`) nor group and version (`apps/v1`)",
            text::quoted(api_version)
        )
    })
}

fn kind_problem(kind: &str) -> Option<String> {
    if kind.is_empty() {
        return Some("`kind` is empty".into());
    }
    let right = kind.len() <= LABEL_BYTES
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    (!right)
        .then(|| format!("`kind` {} is neither a kind (`Pod`) nor a resource (`pods`)", text::quoted(kind)))
}

fn namespaces_problem(namespaces: &[String]) -> Option<String> {
    if namespaces.len() > NAMESPACES {
        return Some(format!("it names {} namespaces, more than {NAMESPACES}", namespaces.len()));
    }
    let wrong = namespaces.iter().find(|name| !is_dns_label(name))?;
    Some(format!(
        "{} cannot be a namespace's name (for all namespaces, leave the list empty)",
        text::quoted(wrong)
    ))
}

fn is_dns_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Is a selector one at all? The API server has the last word; this catches what would otherwise fail late
/// and far from the plugin.
fn selector_problem(field: &str, selector: &str, term: fn(&str) -> bool) -> Option<String> {
    if selector.len() > SELECTOR_BYTES {
        return Some(format!("`{field}` has {} bytes, more than {SELECTOR_BYTES}", selector.len()));
    }
    if selector.is_empty() {
        return None;
    }
    if selector.chars().any(char::is_control) {
        return Some(format!("`{field}` has control characters"));
    }
    let wrong = terms(selector).into_iter().find(|part| !term(part.trim()))?;
    Some(format!("`{field}` has the term {}, which cannot be one", text::quoted(wrong)))
}

/// The parts between commas, but for commas in parentheses.
fn terms(selector: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    selector
        .split(|char| {
            match char {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            char == ',' && depth == 0
        })
        .collect()
}

/// `key`, `!key`, `key=value`, `key==value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key>1`, `key<1`.
fn label_term(term: &str) -> bool {
    let key_ends = term.find(['=', '!', '<', '>', ' ', '(']).filter(|end| *end > 0).unwrap_or(term.len());
    let (key, rest) = term.split_at(key_ends);
    let rest = rest.trim();
    let set = |rest: &str| {
        let list = rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        list.is_some_and(|list| list.split(',').all(|value| is_label_value(value.trim())))
    };
    let operators = ["==", "!=", "=", ">", "<"];
    let compared = operators.iter().find_map(|operator| rest.strip_prefix(operator));
    let right = match (rest, compared) {
        ("", _) => true,
        (_, Some(value)) => is_label_value(value.trim()),
        _ => rest.strip_prefix("notin").or(rest.strip_prefix("in")).is_some_and(set),
    };
    right && is_label_key(if rest.is_empty() { key.strip_prefix('!').unwrap_or(key).trim() } else { key })
}

fn is_label_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
}

fn is_label_value(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// `path=value`, `path==value`, `path!=value`.
fn field_term(term: &str) -> bool {
    let Some((path, value)) = term.split_once('=') else { return false };
    let path = path.strip_suffix('!').unwrap_or(path);
    let right = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./[]'".contains(&byte);
    !path.is_empty() && path.bytes().all(right) && !value.chars().any(char::is_control)
}

fn extra_problem(extra: &[(String, String)]) -> Option<String> {
    if extra.len() > EXTRAS {
        return Some(format!("`extra` has {} entries, more than {EXTRAS}", extra.len()));
    }
    let long = extra.iter().any(|(name, value)| name.len() + value.len() > EXTRA_BYTES);
    long.then(|| format!("an entry of `extra` has more than {EXTRA_BYTES} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> wit::Subscription {
        wit::Subscription {
            name: "pods".into(),
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespaces: vec![],
            label_selector: String::new(),
            field_selector: String::new(),
            resync_seconds: 0,
            extra: vec![],
        }
    }

    fn plugin(subscriptions: Vec<wit::Subscription>) -> wit::Description {
        wit::Description { name: "p".into(), version: "1".into(), subscriptions, extra: vec![] }
    }

    fn problems(subscription: wit::Subscription) -> Vec<String> {
        check(plugin(vec![subscription])).err().unwrap_or_default()
    }

    #[test]
    fn a_plain_description_is_taken_over() {
        let mut from = plugin(vec![pods(), wit::Subscription { name: "other".into(), ..pods() }]);
        from.name = "evil\x1b[2J\nname".into();
        from.extra = vec![("a".into(), "b".into())];
        from.subscriptions[0].namespaces = vec!["a".into(), "b".into(), "a".into()];
        let description = check(from).expect("right");
        assert_eq!(description.name, "evil\\nname");
        assert_eq!(description.subscriptions[0].namespaces, ["a", "b"]);
        assert_eq!(description.extra, [("a".to_owned(), "b".to_owned())]);
    }

    #[test]
    fn resync_is_never_or_at_least_ten_seconds() {
        let cases = [(0, None), (1, Some(10)), (9, Some(10)), (10, Some(10)), (600, Some(600))];
        for (seconds, want) in cases {
            let from = plugin(vec![wit::Subscription { resync_seconds: seconds, ..pods() }]);
            let resync = check(from).expect("right").subscriptions[0].resync;
            assert_eq!(resync, want.map(Duration::from_secs), "{seconds}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let wrong = wit::Subscription { api_version: String::new(), kind: "Pod/log".into(), ..pods() };
        let found = check(plugin(vec![pods(), wrong])).expect_err("wrong");
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().all(|problem| problem.starts_with("subscription 1 (`pods`): ")), "{found:?}");
        assert!(found[2].ends_with("another subscription has this name"), "{found:?}");
    }

    #[test]
    fn the_number_of_subscriptions_is_bounded() {
        assert!(check(plugin(vec![])).is_err());
        let named = |n: usize| wit::Subscription { name: format!("s{n}"), ..pods() };
        assert!(check(plugin((0..SUBSCRIPTIONS).map(named).collect())).is_ok());
        let found = check(plugin((0..=SUBSCRIPTIONS).map(named).collect())).expect_err("too many");
        assert_eq!(found, ["it has 65 subscriptions, more than 64"]);
    }

    #[test]
    fn names_and_types_are_checked() {
        let wrong = [
            wit::Subscription { name: String::new(), ..pods() },
            wit::Subscription { name: "x".repeat(NAME_BYTES + 1), ..pods() },
            wit::Subscription { name: "a\nb".into(), ..pods() },
            wit::Subscription { api_version: "apps/v1/x".into(), ..pods() },
            wit::Subscription { api_version: "/v1".into(), ..pods() },
            wit::Subscription { api_version: "v1?watch=1".into(), ..pods() },
            wit::Subscription { kind: "../pods".into(), ..pods() },
            wit::Subscription { namespaces: vec!["Default".into()], ..pods() },
            wit::Subscription { namespaces: vec![String::new()], ..pods() },
            wit::Subscription { namespaces: vec!["a/b".into()], ..pods() },
            wit::Subscription { extra: vec![("k".into(), "v".repeat(EXTRA_BYTES))], ..pods() },
        ];
        for subscription in wrong {
            let shown = format!("{subscription:?}");
            assert_eq!(problems(subscription).len(), 1, "{shown}");
        }
    }

    #[test]
    fn label_selectors() {
        let right = [
            "app=web",
            "app==web,tier!=test",
            "app",
            "!app",
            "a in (x, y),b notin (z)",
            "a in ()",
            "n>3",
            "n < 3",
            "example.com/part-of=x",
            "empty=",
            " a = b , c ",
        ];
        let wrong =
            ["=", "a=b,", ",", "a=b c", "a in x", "a in (x", "a)(", "a=$x", "a ~ b", "a&b", "!a=b", "a=b\n"];
        for selector in right {
            assert_eq!(
                problems(wit::Subscription { label_selector: selector.into(), ..pods() }).len(),
                0,
                "{selector}"
            );
        }
        for selector in wrong {
            assert_eq!(
                problems(wit::Subscription { label_selector: selector.into(), ..pods() }).len(),
                1,
                "{selector}"
            );
        }
    }

    #[test]
    fn field_selectors() {
        for selector in ["metadata.name=a", "spec.nodeName!=n,status.phase==Running", "spec.nodeName="] {
            assert_eq!(
                problems(wit::Subscription { field_selector: selector.into(), ..pods() }).len(),
                0,
                "{selector}"
            );
        }
        for selector in ["metadata.name", "=a", "a=b,", "a in (b)", "a b=c", "a=\u{1}"] {
            assert_eq!(
                problems(wit::Subscription { field_selector: selector.into(), ..pods() }).len(),
                1,
                "{selector}"
            );
        }
    }
}
