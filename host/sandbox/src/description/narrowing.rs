//! How a subscription is narrowed, and what of an object is handed over: from the guest's records to what the
//! host evaluates.
//!
//! Used by [`check`](super::check). Invariant: the grammars of pointers, conditions and label selectors are those
//! of `hark_informer::filter`, which compiles what is accepted here; the words of the problems are the contract's.

use std::collections::HashSet;

use hark_informer::filter::{
    Condition, ConditionError, Filter, FilterError, FilterSpec, IndexPointer, MAX_CONDITIONS, MAX_POINTERS,
    Operator,
};

use super::{INDEXES, NAME_BYTES, SELECTOR_BYTES};
use crate::bindings::hark::plugin::plugin_types as wit;
use crate::text;

/// Bytes of one problem: pointers and selectors in it are the guest's words.
const PROBLEM_BYTES: usize = 1024;

/// What the host evaluates of a subscription.
pub(super) fn filter(from: &wit::Subscription) -> FilterSpec {
    FilterSpec {
        conditions: from.conditions.iter().map(condition).collect(),
        changed: from.changed.clone(),
        fields: from.fields.clone(),
        ..FilterSpec::default()
    }
}

fn condition(from: &wit::Condition) -> Condition {
    let operator = match from.comparison {
        wit::Comparison::Exists => Operator::Exists,
        wit::Comparison::Absent => Operator::NotExists,
        wit::Comparison::OneOf => Operator::In,
        wit::Comparison::NoneOf => Operator::NotIn,
        wit::Comparison::Greater => Operator::Gt,
        wit::Comparison::Less => Operator::Lt,
    };
    Condition { pointer: from.pointer.clone(), operator, values: from.values.clone() }
}

/// The operator's word in the contract, which is not the filter's.
fn word(operator: &str) -> &str {
    match operator {
        "not-exists" => "absent",
        "in" => "one-of",
        "not-in" => "none-of",
        "gt" => "greater",
        "lt" => "less",
        other => other,
    }
}

/// What is wrong, one sentence each, safe to show.
pub(super) fn problems(from: &wit::Subscription) -> Vec<String> {
    let mut problems = Vec::new();
    if !from.namespaces.is_empty() && !from.namespace_selector.is_empty() {
        problems.push("it has both `namespaces` and `namespace-selector`".into());
    }
    problems.extend(label_problem("namespace-selector", &from.namespace_selector));
    problems.extend(label_problem("label-selector", &from.label_selector));
    problems.extend(field_selector_problem(&from.field_selector));
    problems.extend(too_many(from));
    let errors = Filter::compile(bounded(filter(from))).err().unwrap_or_default();
    problems.extend(errors.iter().map(sentence));
    problems.extend(index_problems(&from.indexes));
    problems.iter().map(|problem| text::clean(problem, PROBLEM_BYTES)).collect()
}

fn sentence(error: &FilterError) -> String {
    match error {
        FilterError::Condition { pointer, operator, error } => {
            let why = match error {
                // Its own text would name the pointer again.
                ConditionError::Pointer(error) => error.reason.to_string(),
                other => other.to_string(),
            };
            format!("`conditions` has {} on {}: {why}", word(operator), text::quoted(pointer))
        }
        FilterError::Pointer { part, error } => {
            format!("`{}` has {}: {}", part.as_str(), text::quoted(&error.pointer), error.reason)
        }
        other => other.to_string(),
    }
}

/// Lists that are longer than they may be. Only as much of them as may be there is looked at.
fn too_many(from: &wit::Subscription) -> impl Iterator<Item = String> {
    let counts = [
        ("conditions", from.conditions.len(), MAX_CONDITIONS),
        ("changed", from.changed.len(), MAX_POINTERS),
        ("fields", from.fields.len(), MAX_POINTERS),
        ("indexes", from.indexes.len(), INDEXES),
    ];
    let long = counts.into_iter().filter(|(_, count, most)| count > most);
    long.map(|(field, count, most)| format!("`{field}` has {count} entries, more than {most}"))
}

fn bounded(mut spec: FilterSpec) -> FilterSpec {
    spec.conditions.truncate(MAX_CONDITIONS);
    spec.changed.truncate(MAX_POINTERS);
    spec.fields.truncate(MAX_POINTERS);
    spec
}

fn index_problems(indexes: &[wit::IndexDefinition]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut names = HashSet::new();
    for wit::IndexDefinition { name, pointer } in indexes.iter().take(INDEXES) {
        let label = format!("`indexes` has {}", text::quoted(name));
        if name.is_empty() || name.len() > NAME_BYTES || text::clean(name, NAME_BYTES) != *name {
            problems.push(format!("{label}: a name has 1 to {NAME_BYTES} bytes and no control characters"));
        } else if !names.insert(name) {
            problems.push(format!("{label} twice"));
        }
        if let Err(error) = pointer.parse::<IndexPointer>() {
            problems.push(format!("{label} on {}: {}", text::quoted(&error.pointer), error.reason));
        }
    }
    problems
}

/// A label selector is checked as the API server reads it, so that what would be refused there, late and far from
/// the plugin, is refused here.
fn label_problem(field: &str, selector: &str) -> Option<String> {
    if let Some(problem) = size_problem(field, selector) {
        return Some(problem);
    }
    let spec = FilterSpec { label_selector: selector.to_owned(), ..FilterSpec::default() };
    let error = Filter::compile(spec).err()?.into_iter().next()?;
    Some(match error {
        FilterError::Labels { error, .. } => format!("`{field}` is {}: {error}", text::quoted(selector)),
        other => format!("`{field}`: {other}"),
    })
}

/// Which fields a selector may name, only the API server knows; it has the last word.
fn field_selector_problem(selector: &str) -> Option<String> {
    let field = "field-selector";
    if selector.is_empty() {
        return None;
    }
    size_problem(field, selector).or_else(|| {
        let mut escaped = false;
        let mut terms = selector.split(|char| {
            let ends = char == ',' && !escaped;
            escaped = char == '\\' && !escaped;
            ends
        });
        let wrong = terms.find(|part| !field_term(part.trim()))?;
        Some(format!("`{field}` has the term {}, which cannot be one", text::quoted(wrong)))
    })
}

fn size_problem(field: &str, selector: &str) -> Option<String> {
    if selector.len() > SELECTOR_BYTES {
        return Some(format!("`{field}` has {} bytes, more than {SELECTOR_BYTES}", selector.len()));
    }
    selector.chars().any(char::is_control).then(|| format!("`{field}` has control characters"))
}

/// `path=value`, `path==value`, `path!=value`.
fn field_term(term: &str) -> bool {
    let Some((path, value)) = term.split_once('=') else { return false };
    let path = path.strip_suffix('!').unwrap_or(path);
    let right = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./[]'".contains(&byte);
    !path.is_empty() && path.bytes().all(right) && !value.chars().any(char::is_control)
}
