//! Whether two JSON texts say the same.
//!
//! Used by the `changed` filter where two states differ as bytes. The order of members, white space, escapes and
//! the spelling of numbers do not matter; the order of elements does. Invariant: numbers are compared exactly,
//! so a change is never rounded away. Cost: one pass over both texts while members come in the same order (as
//! the API server writes them), at most one a level of nesting otherwise.

use std::borrow::Cow;

use super::number::Number;
use super::scan::{Cursor, MAX_DEPTH, ScanError, Value};

/// Whether `left` and `right` say the same.
///
/// # Errors
/// [`ScanError`] if a text is seen not to be JSON, or is nested deeper than [`MAX_DEPTH`] where that matters.
pub(super) fn same(left: &str, right: &str) -> Result<bool, ScanError> {
    if left == right {
        return Ok(true);
    }
    same_values(&mut Cursor::new(left), &mut Cursor::new(right), MAX_DEPTH)
}

fn same_values(left: &mut Cursor<'_>, right: &mut Cursor<'_>, depth: usize) -> Result<bool, ScanError> {
    let (_, left_byte) = left.peek()?;
    let (_, right_byte) = right.peek()?;
    match (left_byte, right_byte) {
        (b'{' | b'[', b'{' | b'[') if left_byte != right_byte => Ok(false),
        (b'{' | b'[', b'{' | b'[') => {
            let depth = depth.checked_sub(1).ok_or(ScanError::TooDeep)?;
            left.open();
            right.open();
            if left_byte == b'{' { same_objects(left, right, depth) } else { same_arrays(left, right, depth) }
        }
        _ => Ok(same_scalars(Value::of(left.skip_value()?)?, Value::of(right.skip_value()?)?)),
    }
}

fn same_scalars(left: Value<'_>, right: Value<'_>) -> bool {
    match (left, right) {
        (Value::String(left), Value::String(right)) => {
            left.raw() == right.raw() || left.text() == right.text()
        }
        (Value::Number(left), Value::Number(right)) => {
            let numbers = Number::parse(left).zip(Number::parse(right));
            left == right || numbers.is_some_and(|(left, right)| left == right)
        }
        (Value::Literal(left), Value::Literal(right)) => left == right,
        _ => false,
    }
}

fn same_arrays(left: &mut Cursor<'_>, right: &mut Cursor<'_>, depth: usize) -> Result<bool, ScanError> {
    let (mut left_first, mut right_first) = (true, true);
    loop {
        match (left.next_element(&mut left_first)?, right.next_element(&mut right_first)?) {
            (true, true) => {
                if !same_values(left, right, depth)? {
                    return Ok(false);
                }
            }
            (left_more, right_more) => return Ok(left_more == right_more),
        }
    }
}

/// Compares in step while the names agree; from the first that does not, by sorted names.
fn same_objects<'l, 'r>(
    left: &mut Cursor<'l>,
    right: &mut Cursor<'r>,
    depth: usize,
) -> Result<bool, ScanError> {
    let (mut left_first, mut right_first) = (true, true);
    loop {
        match (left.next_member(&mut left_first)?, right.next_member(&mut right_first)?) {
            (None, None) => return Ok(true),
            (Some(left_name), Some(right_name)) => {
                let (left_name, right_name) = (left_name.text(), right_name.text());
                if left_name != right_name {
                    let left = members_from(left, left_name)?;
                    let right = members_from(right, right_name)?;
                    return same_members(&left, &right, depth);
                }
                if !same_values(left, right, depth)? {
                    return Ok(false);
                }
            }
            _ => return Ok(false),
        }
    }
}

/// Names and texts of the values of an object's members from the one on whose name, `name`, has just been
/// read; sorted by name.
fn members_from<'a>(
    cursor: &mut Cursor<'a>,
    name: Cow<'a, str>,
) -> Result<Vec<(Cow<'a, str>, &'a str)>, ScanError> {
    cursor.peek()?;
    let mut members = vec![(name, cursor.skip_value()?)];
    let mut first = false;
    while let Some(name) = cursor.next_member(&mut first)? {
        members.push((name.text(), cursor.skip_value()?));
    }
    members.sort_by(|(left, _), (right, _)| left.cmp(right));
    Ok(members)
}

fn same_members(
    left: &[(Cow<'_, str>, &str)],
    right: &[(Cow<'_, str>, &str)],
    depth: usize,
) -> Result<bool, ScanError> {
    let names = |members: &[(Cow<'_, str>, &str)], other: &[(Cow<'_, str>, &str)]| {
        members.len() == other.len() && members.iter().zip(other).all(|((left, _), (right, _))| left == right)
    };
    if !names(left, right) {
        return Ok(false);
    }
    for ((_, left), (_, right)) in left.iter().zip(right) {
        if left != right && !same_values(&mut Cursor::new(left), &mut Cursor::new(right), depth)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_members_does_not_matter_at_any_level() {
        let left = r#"{"a":1,"b":{"c":[{"d":1,"e":2}],"f":3},"g":4}"#;
        let right = r#"{"a":1,"g":4,"b":{"f":3,"c":[{"e":2,"d":1}]}}"#;
        assert_eq!(same(left, right), Ok(true));
        assert_eq!(same(left, &right.replace("\"e\":2", "\"e\":3")), Ok(false));
        assert_eq!(same(left, &right.replace("\"g\"", "\"h\"")), Ok(false));
        assert_eq!(same(left, &right.replace(",\"g\":4", "")), Ok(false));
    }

    #[test]
    fn depth_is_bounded_only_where_it_has_to_be_compared() {
        let nested = |depth: usize, value: u32| format!("{}{value}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(same(&nested(MAX_DEPTH, 1), &nested(MAX_DEPTH, 2)), Ok(false));
        assert_eq!(same(&nested(MAX_DEPTH + 1, 1), &nested(MAX_DEPTH + 1, 2)), Err(ScanError::TooDeep));
        assert_eq!(same(&nested(MAX_DEPTH + 1, 1), &nested(MAX_DEPTH + 1, 1)), Ok(true));
    }

    #[test]
    fn members_in_another_order_are_not_compared_twice_at_each_level() {
        // Were what is equal compared again after each name out of order, this would take 2^100 steps.
        let nest = |first: &str, second: &str| {
            (0..100).fold("0".to_owned(), |inner, _| format!(r#"{{"a":{inner},"{first}":1,"{second}":1}}"#))
        };
        assert_eq!(same(&nest("b", "c"), &nest("c", "b")), Ok(true));
    }
}
