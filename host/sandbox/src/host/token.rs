//! Page tokens: where the next page of an answer begins, as text for the guest to hand back.
//!
//! Used by [`cache`](super::cache). Invariant: a token is never empty, since the empty one asks for the first page;
//! what no answer can have given is refused.

use hark_informer::object::ObjectKey;

/// A text is not a token of such a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoToken;

/// The token for the page after an object: its key, always with the slash, which no name may contain.
pub(super) fn of_key(key: &ObjectKey) -> String {
    format!("{}/{}", key.namespace(), key.name())
}

/// Where to go on; none: at the start. `namespace` is the one asked for; empty: all.
pub(super) fn key(token: &str, namespace: &str) -> Result<Option<ObjectKey>, NoToken> {
    if token.is_empty() {
        return Ok(None);
    }
    let (in_namespace, name) = token.split_once('/').ok_or(NoToken)?;
    let other_list = !namespace.is_empty() && namespace != in_namespace;
    if other_list || name.is_empty() || name.contains('/') {
        return Err(NoToken);
    }
    Ok(Some(ObjectKey::new(in_namespace, name)))
}

/// The token for the page after a value, which may be empty.
pub(super) fn of_value(value: &str) -> String {
    format!("={value}")
}

/// The value to go on after; none: at the start.
pub(super) fn value(token: &str) -> Result<Option<&str>, NoToken> {
    if token.is_empty() { Ok(None) } else { token.strip_prefix('=').map(Some).ok_or(NoToken) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_what_they_were_made_of() {
        for one in [ObjectKey::new("n", "a"), ObjectKey::new("", "node")] {
            assert_eq!(key(&of_key(&one), ""), Ok(Some(one)));
        }
        for one in ["", "=", "a b"] {
            assert_eq!(value(&of_value(one)), Ok(Some(one)));
        }
        assert_eq!((key("", "n"), value("")), (Ok(None), Ok(None)));
    }

    #[test]
    fn other_tokens_are_refused() {
        for (token, namespace) in [("a", ""), ("n/", ""), ("a/b/c", ""), ("m/a", "n")] {
            assert_eq!(key(token, namespace), Err(NoToken), "{token}");
        }
        assert_eq!(value("a"), Err(NoToken));
    }
}
