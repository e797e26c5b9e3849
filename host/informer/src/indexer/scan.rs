//! Reading the objects in key order: a range, a filtered range, the namespaces.
//!
//! Used by [`super::Indexer`]. Invariant: keys order by namespace first, so the objects of a namespace are one
//! range of the map.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::object::{Object, ObjectKey};

/// What a filtered reading found. See [`super::Indexer::range_where`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// In key order.
    pub objects: Vec<Arc<Object>>,
    /// The last key looked at, to go on after; none: there is nothing behind it.
    pub reached: Option<ObjectKey>,
    /// Objects looked at.
    pub scanned: usize,
}

impl Scan {
    /// Looks at `range`, which has one object more than may be looked at if there are so many.
    pub(super) fn of(
        range: Vec<Arc<Object>>,
        limit: usize,
        scan_limit: usize,
        mut predicate: impl FnMut(&Object) -> bool,
    ) -> Self {
        let mut scan = Self::default();
        let mut range = range.into_iter().peekable();
        while scan.objects.len() < limit && scan.scanned < scan_limit {
            let Some(object) = range.next() else { break };
            scan.scanned += 1;
            scan.reached = range.peek().is_some().then(|| object.key().clone());
            if predicate(&object) {
                scan.objects.push(object);
            }
        }
        scan
    }
}

/// The objects with a key greater than `after`, in key order; those of one namespace if it is not empty.
pub(super) fn range<'a>(
    items: &'a BTreeMap<ObjectKey, Arc<Object>>,
    namespace: &'a str,
    after: Option<&ObjectKey>,
) -> impl Iterator<Item = &'a Arc<Object>> {
    let of_all = namespace.is_empty();
    behind(items, namespace, after).take_while(move |object| of_all || object.key().namespace() == namespace)
}

/// The same of just this namespace, the empty one being that of cluster-scoped objects.
pub(super) fn of_namespace<'a>(
    items: &'a BTreeMap<ObjectKey, Arc<Object>>,
    namespace: &'a str,
    after: Option<&ObjectKey>,
) -> impl Iterator<Item = &'a Arc<Object>> {
    behind(items, namespace, after).take_while(move |object| object.key().namespace() == namespace)
}

/// From the beginning of a namespace to the end of all, behind `after` if that is further.
fn behind<'a>(
    items: &'a BTreeMap<ObjectKey, Arc<Object>>,
    namespace: &str,
    after: Option<&ObjectKey>,
) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
    let first = ObjectKey::new(namespace, "");
    let start = match after {
        Some(key) if *key > first => Bound::Excluded(key.clone()),
        _ => Bound::Included(first),
    };
    items.range((start, Bound::Unbounded)).map(|(_, object)| object)
}

/// The namespaces that have objects, in order, greater than `after`; a step for each, not for each object.
pub(super) fn namespaces(
    items: &BTreeMap<ObjectKey, Arc<Object>>,
    after: Option<&str>,
) -> impl Iterator<Item = String> {
    // No string lies between a namespace and the same with a zero byte after it.
    let next = |namespace: &str| {
        let (key, _) = items.range(ObjectKey::new(&format!("{namespace}\0"), "")..).next()?;
        Some(key.namespace().to_owned())
    };
    let first = match after {
        Some(namespace) => next(namespace),
        None => items.first_key_value().map(|(key, _)| key.namespace().to_owned()),
    };
    std::iter::successors(first, move |namespace| next(namespace))
}
