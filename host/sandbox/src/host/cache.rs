//! `cache`: the plugin's own objects, read through the informer's `CacheReader`.
//!
//! Invariant: a page is one answer of the reader, so it is one consistent state; it has at most [`PAGE_BYTES`]
//! of text and [`PAGE_OBJECTS`] objects, whatever the guest asks for.

use hark_informer::cache::{CacheProblem, CacheReader};
use hark_informer::object::ObjectKey;

use crate::bindings::hark::plugin::cache::{Host, Page, Problem};
use crate::state::GuestState;

/// Text of one page, unless its first object alone is larger.
const PAGE_BYTES: usize = 4 << 20;
/// Objects looked up for one page: more than fit [`PAGE_BYTES`] in practice (the smallest have about 300 bytes).
const PAGE_OBJECTS: usize = 10_000;

impl Host for GuestState {
    fn get(&mut self, subscription: u32, namespace: String, name: String) -> Result<Option<String>, Problem> {
        let object = self.reader()?.get(subscription, &ObjectKey::new(&namespace, &name))?;
        Ok(object.map(|object| object.json().to_owned()))
    }

    fn list_objects(
        &mut self,
        subscription: u32,
        namespace: String,
        after: String,
        limit: u32,
    ) -> Result<Page, Problem> {
        let limit = usize::try_from(limit).unwrap_or(PAGE_OBJECTS).min(PAGE_OBJECTS);
        if limit == 0 {
            return Err(Problem::Invalid);
        }
        let after = parse_token(&after, &namespace)?;
        // One more than asked for tells whether this is the last page.
        let found = self.reader()?.list(subscription, &namespace, after.as_ref(), limit + 1)?;
        let mut objects = Vec::new();
        let mut size = 0;
        for object in found.iter().take(limit) {
            size += object.json().len();
            if size > PAGE_BYTES && !objects.is_empty() {
                break;
            }
            objects.push(object.json().to_owned());
        }
        let more = objects.len() < found.len();
        let last = objects.len().checked_sub(1).and_then(|last| found.get(last)).filter(|_| more);
        Ok(Page { objects, next: last.map(|object| token(object.key())).unwrap_or_default() })
    }
}

impl GuestState {
    fn reader(&self) -> Result<&dyn CacheReader, Problem> {
        self.cache.as_deref().ok_or(Problem::NotSynced)
    }
}

impl From<CacheProblem> for Problem {
    fn from(problem: CacheProblem) -> Self {
        match problem {
            CacheProblem::NotSynced => Self::NotSynced,
            CacheProblem::UnknownSubscription => Self::UnknownSubscription,
        }
    }
}

/// A page token: the key of the page's last object, always with the slash, which no name may contain.
fn token(key: &ObjectKey) -> String {
    format!("{}/{}", key.namespace(), key.name())
}

fn parse_token(token: &str, namespace: &str) -> Result<Option<ObjectKey>, Problem> {
    if token.is_empty() {
        return Ok(None);
    }
    let (in_namespace, name) = token.split_once('/').ok_or(Problem::Invalid)?;
    let other_list = !namespace.is_empty() && namespace != in_namespace;
    if other_list || name.is_empty() || name.contains('/') {
        return Err(Problem::Invalid);
    }
    Ok(Some(ObjectKey::new(in_namespace, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_their_keys() {
        for key in [ObjectKey::new("n", "a"), ObjectKey::new("", "node")] {
            assert!(matches!(parse_token(&token(&key), ""), Ok(Some(back)) if back == key));
        }
        assert!(matches!(parse_token("", "n"), Ok(None)));
    }

    #[test]
    fn other_tokens_are_invalid() {
        for (token, namespace) in [("a", ""), ("n/", ""), ("a/b/c", ""), ("m/a", "n")] {
            assert!(matches!(parse_token(token, namespace), Err(Problem::Invalid)), "{token}");
        }
    }
}
