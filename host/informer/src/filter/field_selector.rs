//! Field selectors, as far as the host can apply them itself: on `metadata.name` and `metadata.namespace`.
//!
//! Used beside the label selector. Every resource has these two fields; which others it has, and what they are
//! called inside the object, only the API server knows. The text form is apimachinery's `fields.ParseSelector`:
//! `field=value`, `field==value` or `field!=value`, commas between them, and in a value `\,`, `\=` and `\\`.
//! Invariant: a selector that cannot be applied exactly is refused, never guessed.

use crate::object::ObjectKey;

/// Why a field selector is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    /// A term without `=`, `==` or `!=`.
    #[error("\"{0}\" is none of field=value, field==value, field!=value")]
    Term(String),
    /// A value with a bare `=`, or with a backslash before something that needs none.
    #[error("\"{0}\": in a value, \",\" \"=\" and \"\\\" have a \"\\\" before them, and nothing else has")]
    Escape(String),
    /// Another field than the two.
    #[error(
        "a selector on field \"{0}\" cannot be evaluated here: only on metadata.name and metadata.namespace"
    )]
    NotEvaluable(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: Field,
    equal: bool,
    value: String,
}

/// A compiled field selector. An empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSelector {
    terms: Vec<Term>,
}

impl FieldSelector {
    /// Reads a selector's text.
    pub(super) fn parse(text: &str) -> Result<Self, FieldSelectorError> {
        let terms = split_terms(text).into_iter().filter(|term| !term.is_empty());
        Ok(Self { terms: terms.map(parse_term).collect::<Result<_, _>>()? })
    }

    /// Whether everything is selected.
    pub(super) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether it selects the object with this key.
    pub(super) fn selects(&self, key: &ObjectKey) -> bool {
        self.terms.iter().all(|term| {
            let value = match term.field {
                Field::Name => key.name(),
                Field::Namespace => key.namespace(),
            };
            (value == term.value) == term.equal
        })
    }
}

/// The texts between the commas that have no backslash before them.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn parse_term(term: &str) -> Result<Term, FieldSelectorError> {
    let operator = term.find("!=").into_iter().chain(term.find('=')).min();
    let (name, rest) = operator
        .and_then(|at| term.split_at_checked(at))
        .ok_or_else(|| FieldSelectorError::Term(term.to_owned()))?;
    let (equal, raw) = match rest.strip_prefix("!=") {
        Some(raw) => (false, raw),
        None => (true, rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')).unwrap_or(rest)),
    };
    let field = match name {
        "metadata.name" => Field::Name,
        "metadata.namespace" => Field::Namespace,
        other => return Err(FieldSelectorError::NotEvaluable(other.to_owned())),
    };
    let value = unescape(raw).ok_or_else(|| FieldSelectorError::Escape(term.to_owned()))?;
    Ok(Term { field, equal, value })
}

/// None where `fields.UnescapeValue` has an error.
fn unescape(raw: &str) -> Option<String> {
    let mut value = String::with_capacity(raw.len());
    let mut characters = raw.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => value.push(characters.next().filter(|next| matches!(next, ',' | '=' | '\\'))?),
            ',' | '=' => return None,
            _ => value.push(character),
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_fields_are_compared_as_the_server_does() {
        let cases = [
            ("", true),
            (",", true),
            ("metadata.name=a", true),
            ("metadata.name==a", true),
            ("metadata.name!=a", false),
            ("metadata.name=b", false),
            ("metadata.name!=b", true),
            ("metadata.name=", false),
            ("metadata.namespace=n", true),
            ("metadata.namespace!=n", false),
            ("metadata.name=a,metadata.namespace=n", true),
            ("metadata.name=a,metadata.namespace=m", false),
            ("metadata.name=a,,metadata.namespace!=m", true),
            (r"metadata.name!=a\,b\=c\\", true),
        ];
        let key = ObjectKey::new("n", "a");
        for (text, want) in cases {
            let selector = FieldSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(selector.selects(&key), want, "{text}");
            assert_eq!(selector.is_empty(), text.len() < 2, "{text}");
        }
        let escaped = FieldSelector::parse(r"metadata.name=a\,b\=\\").expect("a selector");
        assert!(escaped.selects(&ObjectKey::new("", r"a,b=\")));
    }

    #[test]
    fn what_cannot_be_evaluated_is_refused_by_name() {
        use FieldSelectorError as E;
        let cases = [
            ("status.phase=Running", E::NotEvaluable("status.phase".into())),
            ("metadata.name=a,spec.nodeName!=b", E::NotEvaluable("spec.nodeName".into())),
            (" metadata.name=a", E::NotEvaluable(" metadata.name".into())),
            ("=a", E::NotEvaluable(String::new())),
            ("metadata.name", E::Term("metadata.name".into())),
            ("!metadata.name", E::Term("!metadata.name".into())),
            ("metadata.name=a=b", E::Escape("metadata.name=a=b".into())),
            ("metadata.name===b", E::Escape("metadata.name===b".into())),
            (r"metadata.name=\a", E::Escape(r"metadata.name=\a".into())),
            (r"metadata.name=a\", E::Escape(r"metadata.name=a\".into())),
        ];
        for (text, want) in cases {
            assert_eq!(FieldSelector::parse(text), Err(want), "{text}");
        }
    }
}
