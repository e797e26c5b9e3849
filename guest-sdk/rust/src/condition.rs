//! Conditions: what an object must satisfy to be a subscription's. Made by plugin authors for
//! [`Subscription::when`](crate::Subscription::when); read by the adapter and by the tests' fake host.
//! Invariant: a condition has as many values as its comparison wants, as far as the constructor's types can say.

use std::fmt::Display;

/// Something that an object must satisfy, evaluated by the host before the plugin is woken.
///
/// A pointer is a JSON pointer (`/spec/nodeName`) in which a segment `*` stands for every element of an array
/// or every value of a map (`/spec/containers/*/image`): then there may be several values. A text is compared
/// by its content, a number as a number, `true`, `false` and `null` by their names.
///
/// ```
/// use hark_guest::{Condition, Subscription};
///
/// let failing = Subscription::new("pods", "v1", "Pod")
///     .when(Condition::one_of("/status/phase", ["Failed", "Unknown"]))
///     .when(Condition::absent("/metadata/deletionTimestamp"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub(crate) pointer: String,
    pub(crate) comparison: Comparison,
    pub(crate) values: Vec<String>,
}

/// The contract's operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Exists,
    Absent,
    OneOf,
    NoneOf,
    Greater,
    Less,
}

impl Condition {
    /// There is a value, be it `null`.
    pub fn exists(pointer: impl Into<String>) -> Self {
        Self::new(pointer, Comparison::Exists, Vec::new())
    }

    /// There is no value.
    pub fn absent(pointer: impl Into<String>) -> Self {
        Self::new(pointer, Comparison::Absent, Vec::new())
    }

    /// One of the values found is this one: a text, a number, `true` or `false`.
    pub fn equals(pointer: impl Into<String>, value: impl Display) -> Self {
        Self::one_of(pointer, [value])
    }

    /// One of the values found is one of these. At least one must be given.
    pub fn one_of<V: Display>(pointer: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self::new(pointer, Comparison::OneOf, texts(values))
    }

    /// None of the values found is one of these: also if there is no value. At least one must be given.
    pub fn none_of<V: Display>(pointer: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self::new(pointer, Comparison::NoneOf, texts(values))
    }

    /// One of the values found is a number greater than this one.
    pub fn greater(pointer: impl Into<String>, number: impl Display) -> Self {
        Self::new(pointer, Comparison::Greater, texts([number]))
    }

    /// One of the values found is a number less than this one.
    pub fn less(pointer: impl Into<String>, number: impl Display) -> Self {
        Self::new(pointer, Comparison::Less, texts([number]))
    }

    fn new(pointer: impl Into<String>, comparison: Comparison, values: Vec<String>) -> Self {
        Self { pointer: pointer.into(), comparison, values }
    }
}

fn texts<V: Display>(values: impl IntoIterator<Item = V>) -> Vec<String> {
    values.into_iter().map(|value| value.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_as_texts_in_their_order() {
        assert_eq!(Condition::one_of("/a", ["x", "y"]).values, ["x", "y"]);
        assert_eq!(Condition::equals("/a", true).values, ["true"]);
        assert_eq!(Condition::greater("/a", 3).values, ["3"]);
        assert_eq!(Condition::less("/a", 0.5).values, ["0.5"]);
        assert_eq!(Condition::none_of("/a", [1, 2]).comparison, Comparison::NoneOf);
        assert_eq!(Condition::exists("/a").values, [""; 0]);
    }
}
