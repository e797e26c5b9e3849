//! What is wrong with the plain parts of a subscription: names, kinds, namespaces, sizes.
//!
//! Used by [`check`](super::check). Invariant: each function gives one sentence, safe to show, or none.

use super::{EXTRA_BYTES, EXTRAS, LABEL_BYTES, NAME_BYTES, NAMESPACES};
use crate::text;

pub(super) fn name_problem(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("`name` is empty".into());
    }
    if name.len() > NAME_BYTES {
        return Some(format!("`name` has {} bytes, more than {NAME_BYTES}", name.len()));
    }
    (text::clean(name, NAME_BYTES) != name).then(|| "`name` has control characters".into())
}

/// `v1` or `group/v1`. Checked here because it becomes part of a URL.
pub(super) fn api_version_problem(api_version: &str) -> Option<String> {
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

pub(super) fn kind_problem(kind: &str) -> Option<String> {
    if kind.is_empty() {
        return Some("`kind` is empty".into());
    }
    let right = kind.len() <= LABEL_BYTES
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    (!right)
        .then(|| format!("`kind` {} is neither a kind (`Pod`) nor a resource (`pods`)", text::quoted(kind)))
}

pub(super) fn namespaces_problem(namespaces: &[String]) -> Option<String> {
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

pub(super) fn extra_problem(extra: &[(String, String)]) -> Option<String> {
    if extra.len() > EXTRAS {
        return Some(format!("`extra` has {} entries, more than {EXTRAS}", extra.len()));
    }
    let long = extra.iter().any(|(name, value)| name.len() + value.len() > EXTRA_BYTES);
    long.then(|| format!("an entry of `extra` has more than {EXTRA_BYTES} bytes"))
}
