//! `where`: conditions on an object's values. An object is a member of the subscription if all of them hold.
//!
//! Used by [`Filter`](super::Filter). The words are those of Kubernetes' selectors:
//!
//! | operator | holds if, of the values that the pointer reaches, |
//! | --- | --- |
//! | `exists` | there is any, `null` included |
//! | `not-exists` | there is none |
//! | `in` | any is one of the listed |
//! | `not-in` | none is one of the listed; so also if there is none |
//! | `gt`, `lt` | any is a number above, below the one listed |
//!
//! A string equals a listed value by its content, a number by its exact value where the listed one is a number
//! too (`1.0` is `1`), `true`, `false` and `null` by their text. Objects and arrays equal nothing.
//!
//! Invariant: an object that cannot be judged is let through, and said to be so. That is the case if its text
//! cannot be scanned, or if `gt` or `lt` meets something that is not a number and no number for which it holds;
//! unless another condition fails plainly, for then the object is out whatever the rest would say.

use std::ops::ControlFlow;
use std::str::FromStr;

use super::number::Number;
use super::pointer::{Pointer, PointerError};
use super::scan::{ScanError, Value};
use super::trie::Trie;

/// Most values that a condition lists.
pub const MAX_VALUES: usize = 64;
/// Longest listed value, in bytes.
pub const MAX_VALUE: usize = 256;

/// How a condition compares. See the file's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// `exists`
    Exists,
    /// `not-exists`
    NotExists,
    /// `in`
    In,
    /// `not-in`
    NotIn,
    /// `gt`
    Gt,
    /// `lt`
    Lt,
}

impl Operator {
    /// The operator's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exists => "exists",
            Self::NotExists => "not-exists",
            Self::In => "in",
            Self::NotIn => "not-in",
            Self::Gt => "gt",
            Self::Lt => "lt",
        }
    }
}

/// A word that is no operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not an operator: exists, not-exists, in, not-in, gt, lt")]
pub struct UnknownOperator(pub String);

impl FromStr for Operator {
    type Err = UnknownOperator;

    fn from_str(word: &str) -> Result<Self, UnknownOperator> {
        [Self::Exists, Self::NotExists, Self::In, Self::NotIn, Self::Gt, Self::Lt]
            .into_iter()
            .find(|operator| operator.as_str() == word)
            .ok_or_else(|| UnknownOperator(word.to_owned()))
    }
}

/// One condition as a user wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Condition {
    /// Which values; see [`Pointer`].
    pub pointer: String,
    /// How they are compared.
    pub operator: Operator,
    /// With what: one or more for `in` and `not-in`, one number for `gt` and `lt`, none for the others.
    pub values: Vec<String>,
}

/// What is wrong with a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// Its pointer.
    #[error(transparent)]
    Pointer(#[from] PointerError),
    /// `exists` and `not-exists` compare with nothing.
    #[error("it takes no values")]
    NoValues,
    /// `in` and `not-in` need something to compare with.
    #[error("it needs at least one value")]
    MissingValue,
    /// `gt` and `lt` compare with one number.
    #[error("it takes exactly one value, a number as JSON writes it")]
    OneNumber,
    /// More than [`MAX_VALUES`].
    #[error("it has more than {MAX_VALUES} values")]
    TooManyValues,
    /// Longer than [`MAX_VALUE`].
    #[error("value {} is longer than {MAX_VALUE} bytes", .0 + 1)]
    ValueTooLong(usize),
}

impl Condition {
    fn compile(&self) -> Result<(Pointer, Test), ConditionError> {
        let pointer = self.pointer.parse()?;
        let numeric = |value: &String| Number::parse(value).is_some();
        match self.operator {
            Operator::Exists | Operator::NotExists if !self.values.is_empty() => {
                return Err(ConditionError::NoValues);
            }
            Operator::In | Operator::NotIn if self.values.is_empty() => {
                return Err(ConditionError::MissingValue);
            }
            Operator::Gt | Operator::Lt if self.values.len() != 1 || !self.values.iter().all(numeric) => {
                return Err(ConditionError::OneNumber);
            }
            _ => {}
        }
        if self.values.len() > MAX_VALUES {
            return Err(ConditionError::TooManyValues);
        }
        if let Some(at) = self.values.iter().position(|value| value.len() > MAX_VALUE) {
            return Err(ConditionError::ValueTooLong(at));
        }
        Ok((pointer, Test { operator: self.operator, values: self.values.clone() }))
    }
}

/// What the conditions of a filter say of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All hold.
    Holds,
    /// One does not.
    Fails,
    /// None fails plainly, but one could not be judged.
    Unknown,
}

/// What is known of one condition while an object is walked; a later kind outweighs an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    /// No value that counts.
    Nothing,
    /// Values that it cannot compare, and no other.
    Incomparable,
    /// A value for which it holds.
    Match,
}

#[derive(Debug)]
struct Test {
    operator: Operator,
    values: Vec<String>,
}

/// The compiled conditions of a filter.
#[derive(Debug)]
pub(super) struct Conditions {
    trie: Trie,
    tests: Vec<Test>,
}

impl Conditions {
    /// Compiles them; gives every error, with the condition that it is of.
    pub(super) fn compile(conditions: &[Condition]) -> Result<Self, Vec<(&Condition, ConditionError)>> {
        let (mut pointers, mut tests, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for condition in conditions {
            match condition.compile() {
                Ok((pointer, test)) => {
                    pointers.push(pointer);
                    tests.push(test);
                }
                Err(error) => errors.push((condition, error)),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self { trie: Trie::new(pointers.iter().map(Pointer::segments)), tests })
    }

    /// Judges an object by its text.
    pub(super) fn judge(&self, text: &str) -> Verdict {
        if self.tests.is_empty() {
            return Verdict::Holds;
        }
        let mut seen = vec![Seen::Nothing; self.tests.len()];
        let mut refuted = false;
        let scanned = self.trie.walk(text, |number, value| {
            let (Some(test), Some(seen)) = (self.tests.get(number), seen.get_mut(number)) else {
                return ControlFlow::Continue(());
            };
            *seen = (*seen).max(test.look(value));
            refuted = *seen == Seen::Match && test.is_negative();
            if refuted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if refuted { Verdict::Fails } else { self.sum_up(&seen, scanned) }
    }

    fn sum_up(&self, seen: &[Seen], scanned: Result<(), ScanError>) -> Verdict {
        if scanned.is_err() {
            return Verdict::Unknown;
        }
        let mut positive = self.tests.iter().zip(seen).filter(|(test, _)| !test.is_negative());
        if positive.clone().any(|(_, seen)| *seen == Seen::Nothing) {
            return Verdict::Fails;
        }
        if positive.any(|(_, seen)| *seen == Seen::Incomparable) { Verdict::Unknown } else { Verdict::Holds }
    }
}

impl Test {
    /// Whether a matching value refutes the condition instead of fulfilling it.
    fn is_negative(&self) -> bool {
        matches!(self.operator, Operator::NotExists | Operator::NotIn)
    }

    /// What one value, given as its text, says.
    fn look(&self, raw: &str) -> Seen {
        let matches = match self.operator {
            Operator::Exists | Operator::NotExists => true,
            Operator::In | Operator::NotIn => Value::of(raw).is_ok_and(|value| self.lists(value)),
            Operator::Gt | Operator::Lt => {
                let (Some(value), Some(bound)) =
                    (Number::parse(raw), self.values.first().and_then(|bound| Number::parse(bound)))
                else {
                    return Seen::Incomparable;
                };
                if self.operator == Operator::Gt { value > bound } else { value < bound }
            }
        };
        if matches { Seen::Match } else { Seen::Nothing }
    }

    fn lists(&self, value: Value<'_>) -> bool {
        match value {
            Value::String(string) => {
                let text = string.text();
                self.values.iter().any(|listed| *listed == text)
            }
            Value::Number(raw) => {
                let number = Number::parse(raw);
                self.values
                    .iter()
                    .any(|listed| listed == raw || (number.is_some() && Number::parse(listed) == number))
            }
            Value::Literal(raw) => self.values.iter().any(|listed| listed == raw),
            Value::Container => false,
        }
    }
}
