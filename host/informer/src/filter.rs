//! What the host does with an object before a handler is woken: data, no code, bounded work on its JSON text.
//!
//! A [`FilterSpec`] is what a subscription says; [`Filter::compile`] makes of it what is applied. In the order in
//! which an event meets them:
//!
//! | part | decides | asked by |
//! | --- | --- | --- |
//! | namespaces, label selector, field selector | what a server would have sent | [`Filter::selects`] |
//! | `where` | membership: coming to satisfy it is an add, ceasing to a delete | [`Filter::satisfies`] |
//! | `changed` | whether an update is worth an event | [`Filter::is_change`] |
//! | `fields` | what of the object is handed over | [`Filter::project`] |
//!
//! Invariants: an object is scanned once for each question, whatever the number of pointers; nothing panics on
//! any text; a filter that cannot judge an object delivers it, whole, and counts that ([`Filter::failures`]).
//! A name that stands twice in one map, which no API server writes, is undefined but harmless.

mod condition;
mod equal;
mod error;
mod field_selector;
mod fields;
mod index;
mod labels;
mod memo;
mod number;
mod pointer;
mod scan;
mod trie;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use self::condition::{Condition, ConditionError, MAX_VALUE, MAX_VALUES, Operator, UnknownOperator};
pub use self::error::{FilterError, Part};
pub use self::field_selector::FieldSelectorError;
pub use self::fields::Fields;
pub use self::index::{IndexPointer, MAX_INDEX_VALUE};
pub use self::labels::LabelSelectorError;
pub use self::pointer::{
    MAX_POINTER, MAX_SEGMENTS, MAX_WILDCARDS, Pointer, PointerError, PointerReason, Segment,
};

use self::condition::{Conditions, Verdict};
use self::field_selector::FieldSelector;
use self::labels::LabelSelector;
use self::memo::Memo;
use self::scan::ScanError;
use crate::object::Object;

/// Most conditions of a filter.
pub const MAX_CONDITIONS: usize = 32;
/// Most pointers of `changed`, and of `fields`.
pub const MAX_POINTERS: usize = 64;
/// Longest selector, in bytes.
pub const MAX_SELECTOR: usize = 16 * 1024;

/// A subscription's filter as a user wrote it. Equal ones may share a [`Filter`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FilterSpec {
    /// Label selector as kubectl writes it; empty: all.
    pub label_selector: String,
    /// Field selector as kubectl writes it, on `metadata.name` and `metadata.namespace`; empty: all.
    pub field_selector: String,
    /// Only these namespaces; none, or an empty name among them: all. Cluster-scoped objects always pass.
    pub namespaces: Vec<String>,
    /// `where`: all of them must hold.
    pub conditions: Vec<Condition>,
    /// Pointers to the values whose change makes an update worth an event; none: those of `fields`.
    pub changed: Vec<String>,
    /// Pointers to the values that are handed over; none: whole objects.
    pub fields: Vec<String>,
}

/// A compiled filter. Shared by `Arc` among everyone who asks the same, so that their projections are one.
#[derive(Debug)]
pub struct Filter {
    spec: FilterSpec,
    labels: LabelSelector,
    field_selector: FieldSelector,
    /// Sorted; empty: all.
    namespaces: Vec<String>,
    conditions: Conditions,
    /// None: the same as `fields`.
    changed: Option<Fields>,
    fields: Fields,
    memo: Memo,
    failures: AtomicU64,
}

impl Filter {
    /// Compiles a filter.
    ///
    /// # Errors
    /// Everything that is wrong with it, each naming the pointer or the selector.
    pub fn compile(spec: FilterSpec) -> Result<Self, Vec<FilterError>> {
        let mut errors = too_many(&spec);
        let labels = keep(compile_labels(&spec.label_selector), &mut errors);
        let field_selector = keep(compile_field_selector(&spec.field_selector), &mut errors);
        let conditions = keep(compile_conditions(&spec.conditions), &mut errors);
        let changed = keep(compile_fields(Part::Changed, &spec.changed), &mut errors);
        let fields = keep(compile_fields(Part::Fields, &spec.fields), &mut errors);
        let (Some(labels), Some(field_selector), Some(conditions), Some(changed), Some(fields), []) =
            (labels, field_selector, conditions, changed, fields, errors.as_slice())
        else {
            return Err(errors);
        };
        let mut namespaces = spec.namespaces.clone();
        namespaces.sort();
        if namespaces.first().is_some_and(String::is_empty) {
            namespaces.clear();
        }
        let changed = Some(changed).filter(|changed| !changed.is_whole() && spec.changed != spec.fields);
        Ok(Self {
            spec,
            labels,
            field_selector,
            namespaces,
            conditions,
            changed,
            fields,
            memo: Memo::default(),
            failures: AtomicU64::new(0),
        })
    }

    /// What it was compiled from.
    pub fn spec(&self) -> &FilterSpec {
        &self.spec
    }

    /// Whether every object passes: there are neither namespaces nor selectors nor conditions.
    pub fn passes_all(&self) -> bool {
        self.namespaces.is_empty()
            && self.labels.is_empty()
            && self.field_selector.is_empty()
            && self.spec.conditions.is_empty()
    }

    /// Whether a server asked with these namespaces and selectors would have sent the object.
    pub fn selects(&self, object: &Object) -> bool {
        let key = object.key();
        let in_namespace = self.namespaces.is_empty()
            || key.namespace().is_empty()
            || self.namespaces.binary_search_by(|name| name.as_str().cmp(key.namespace())).is_ok();
        in_namespace
            && self.field_selector.selects(key)
            && self.judged(self.labels.selects(object.json()), true)
    }

    /// Whether the conditions hold.
    pub fn satisfies(&self, object: &Object) -> bool {
        match self.conditions.judge(object.json()) {
            Verdict::Holds => true,
            Verdict::Fails => false,
            Verdict::Unknown => self.failed(true),
        }
    }

    /// Whether an update from `old` to `new` is a change: whether their projections by `changed` differ as JSON.
    /// So absence differs from `null`, the length of an array that a `*` goes through counts, and the order of
    /// members does not. Without `changed` and `fields`, everything is a change.
    pub fn is_change(&self, old: &Arc<Object>, new: &Arc<Object>) -> bool {
        match &self.changed {
            None if self.fields.is_whole() => true,
            _ if old.json() == new.json() => false,
            None => {
                let (old, new) = (self.projected(old), self.projected(new));
                let same = old.and_then(|old| equal::same(old.json(), new?.json()));
                self.judged(same.map(|same| !same), true)
            }
            Some(changed) => self.judged(differ(changed, old.json(), new.json()), true),
        }
    }

    /// The object as handlers see it: with the values of `fields` only, and the same key, uid and
    /// resourceVersion; the very same object if none are named. Asked again soon, it gives the same `Arc`.
    pub fn project(&self, object: &Arc<Object>) -> Arc<Object> {
        let projected = self.projected(object);
        self.judged(projected, object.clone())
    }

    /// Bytes of the text of [`Filter::project`]. Does not count as a failure where that would.
    pub(crate) fn projected_bytes(&self, object: &Arc<Object>) -> usize {
        self.projected(object).map_or(object.json().len(), |projected| projected.json().len())
    }

    /// How often an object was delivered because it could not be judged.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    fn projected(&self, object: &Arc<Object>) -> Result<Arc<Object>, ScanError> {
        if self.fields.is_whole() {
            return Ok(object.clone());
        }
        if let Some(known) = self.memo.get(object) {
            return Ok(known);
        }
        let text = self.fields.try_project(object.json())?;
        Ok(self.memo.put(object, Arc::new(object.with_json(text.into_owned()))))
    }

    fn judged<T>(&self, judgement: Result<T, ScanError>, otherwise: T) -> T {
        judgement.unwrap_or_else(|_| self.failed(otherwise))
    }

    fn failed<T>(&self, otherwise: T) -> T {
        self.failures.fetch_add(1, Ordering::Relaxed);
        otherwise
    }
}

fn differ(changed: &Fields, old: &str, new: &str) -> Result<bool, ScanError> {
    let (old, new): (Cow<'_, str>, Cow<'_, str>) = (changed.try_project(old)?, changed.try_project(new)?);
    Ok(!equal::same(&old, &new)?)
}

/// The value, or None with the errors put to the others.
fn keep<T>(result: Result<T, Vec<FilterError>>, errors: &mut Vec<FilterError>) -> Option<T> {
    result.map_err(|mut more| errors.append(&mut more)).ok()
}

fn too_many(spec: &FilterSpec) -> Vec<FilterError> {
    [
        (Part::Where, spec.conditions.len(), MAX_CONDITIONS),
        (Part::Changed, spec.changed.len(), MAX_POINTERS),
        (Part::Fields, spec.fields.len(), MAX_POINTERS),
    ]
    .into_iter()
    .filter(|(_, count, limit)| count > limit)
    .map(|(part, count, limit)| FilterError::TooMany { part, count, limit })
    .collect()
}

fn compile_labels(selector: &str) -> Result<LabelSelector, Vec<FilterError>> {
    if selector.len() > MAX_SELECTOR {
        return Err(vec![FilterError::SelectorTooLong { which: "label", limit: MAX_SELECTOR }]);
    }
    LabelSelector::parse(selector)
        .map_err(|error| vec![FilterError::Labels { selector: selector.to_owned(), error }])
}

fn compile_field_selector(selector: &str) -> Result<FieldSelector, Vec<FilterError>> {
    if selector.len() > MAX_SELECTOR {
        return Err(vec![FilterError::SelectorTooLong { which: "field", limit: MAX_SELECTOR }]);
    }
    FieldSelector::parse(selector)
        .map_err(|error| vec![FilterError::FieldSelector { selector: selector.to_owned(), error }])
}

fn compile_conditions(conditions: &[Condition]) -> Result<Conditions, Vec<FilterError>> {
    Conditions::compile(conditions).map_err(|errors| {
        let named = |(condition, error): (&Condition, ConditionError)| FilterError::Condition {
            pointer: condition.pointer.chars().take(pointer::SHOWN).collect(),
            operator: condition.operator.as_str(),
            error,
        };
        errors.into_iter().map(named).collect()
    })
}

fn compile_fields(part: Part, pointers: &[String]) -> Result<Fields, Vec<FilterError>> {
    let named = |error| FilterError::Pointer { part, error };
    Fields::compile(pointers).map_err(|errors| errors.into_iter().map(named).collect())
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
