//! The contract's pointers, on [`Value`]s: plain and slow, where the real host works on text. Used by the fake
//! host for conditions, `changed`, `fields` and indexes. Invariant: no index into an array is ever followed.

use serde_json::{Map, Value};

/// One step of a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// A member of a map.
    Member(String),
    /// `*`: every element of an array, every value of a map.
    Every,
}

/// A checked pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pointer(Vec<Segment>);

impl Pointer {
    /// Reads a pointer, or says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let refused = |why: &str| Err(format!("pointer `{text}`: {why}"));
        let Some(path) = text.strip_prefix('/') else { return refused("it does not begin with `/`") };
        let segments: Vec<_> = path.split('/').map(segment).collect();
        let wildcards = segments.iter().filter(|segment| matches!(segment, Ok(Segment::Every))).count();
        if text.len() > 1024 || segments.len() > 32 || wildcards > 4 {
            return refused("it has more than 1,024 bytes, 32 segments or 4 asterisks");
        }
        let segments: Result<_, _> = segments.into_iter().collect();
        segments.map(Self).or_else(refused)
    }

    /// The values that it leads to, in the object's order.
    pub(super) fn values<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        self.0.iter().fold(vec![object], |found, segment| {
            found.into_iter().flat_map(|value| children(value, segment)).collect()
        })
    }
}

fn segment(text: &str) -> Result<Segment, &'static str> {
    if text == "*" {
        return Ok(Segment::Every);
    }
    if text == "-" || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err("a place in an array cannot be named: `*` stands for all of them");
    }
    let mut pieces = text.split('~');
    let mut name = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let unescaped = [("0", '~'), ("1", '/'), ("2", '*')]
            .into_iter()
            .find_map(|(escape, character)| Some((character, piece.strip_prefix(escape)?)));
        let (character, rest) = unescaped.ok_or("`~` is written `~0`, `/` is `~1`, a name `*` is `~2`")?;
        name.push(character);
        name.push_str(rest);
    }
    Ok(Segment::Member(name))
}

fn children<'a>(value: &'a Value, segment: &Segment) -> Vec<&'a Value> {
    match (segment, value) {
        (Segment::Member(name), Value::Object(map)) => map.get(name).into_iter().collect(),
        (Segment::Every, Value::Object(map)) => map.values().collect(),
        (Segment::Every, Value::Array(elements)) => elements.iter().collect(),
        _ => Vec::new(),
    }
}

/// The object with the values at these pointers and nothing else; the whole object if there are none.
pub(super) fn project(object: &Value, fields: &[Pointer]) -> Value {
    if fields.is_empty() {
        return object.clone();
    }
    let paths: Vec<&[Segment]> = fields.iter().map(|pointer| pointer.0.as_slice()).collect();
    part(object, &paths).unwrap_or_else(|| Value::Object(Map::new()))
}

/// What the paths leave of a value; none if they lead to nothing in it.
fn part(value: &Value, paths: &[&[Segment]]) -> Option<Value> {
    if paths.iter().any(|path| path.is_empty()) {
        return Some(value.clone());
    }
    match value {
        Value::Object(map) => {
            let kept = |(name, value): (&String, &Value)| {
                Some((name.clone(), part(value, &below(paths, Some(name)))?))
            };
            let kept: Map<_, _> = map.iter().filter_map(kept).collect();
            Some(Value::Object(kept)).filter(|kept| kept.as_object().is_some_and(|kept| !kept.is_empty()))
        }
        Value::Array(elements) => {
            let paths = below(paths, None);
            let kept =
                elements.iter().map(|element| part(element, &paths).unwrap_or_else(|| nothing_of(element)));
            (!paths.is_empty()).then(|| kept.collect())
        }
        _ => None,
    }
}

/// What stands for an element of which nothing is named.
fn nothing_of(element: &Value) -> Value {
    if element.is_object() { Value::Object(Map::new()) } else { Value::Null }
}

/// How the paths go on in a member of this name, or in an element.
fn below<'a>(paths: &[&'a [Segment]], name: Option<&str>) -> Vec<&'a [Segment]> {
    let leads = |segment: &Segment| match segment {
        Segment::Every => true,
        Segment::Member(member) => name == Some(member),
    };
    paths
        .iter()
        .filter_map(|path| path.split_first().filter(|(first, _)| leads(first)).map(|(_, rest)| rest))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointer(text: &str) -> Pointer {
        Pointer::parse(text).unwrap()
    }

    #[test]
    fn pointers_lead_to_values() {
        let object = json!({"a": {"b/c": 1, "~*": null}, "l": [{"x": 1}, 2, {"x": 3}], "*": "star"});
        let cases = [
            ("/a/b~1c", vec![json!(1)]),
            ("/a/~0~2", vec![json!(null)]),
            ("/~2", vec![json!("star")]),
            ("/l/*/x", vec![json!(1), json!(3)]),
            ("/a/*", vec![json!(1), json!(null)]),
            ("/a/none", vec![]),
            ("/l/x", vec![]),
        ];
        for (text, want) in cases {
            let found: Vec<Value> = pointer(text).values(&object).into_iter().cloned().collect();
            assert_eq!(found, want, "{text}");
        }
    }

    #[test]
    fn what_is_no_pointer_is_refused_by_name() {
        let long = format!("/{}", "a".repeat(1024));
        for text in ["", "a/b", "/a/0", "/-", "/a~", "/~3", &long, &"/a".repeat(33), &"/*".repeat(5)] {
            let error = Pointer::parse(text).expect_err(text);
            assert!(error.starts_with(&format!("pointer `{text}`: ")), "{error}");
        }
    }

    #[test]
    fn a_projection_keeps_places_and_lengths() {
        let object = json!({
            "metadata": {"name": "a", "labels": {"x": "1"}},
            "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d"}, 3], "empty": {}},
        });
        let cases = [
            (vec!["/metadata/name"], json!({"metadata": {"name": "a"}})),
            (vec!["/spec/containers/*/image"], json!({"spec": {"containers": [{"image": "i"}, {}, null]}})),
            (vec!["/metadata/labels", "/metadata/labels/x"], json!({"metadata": {"labels": {"x": "1"}}})),
            (vec!["/metadata/labels/none", "/spec/empty/x"], json!({})),
            (vec!["/spec/containers/name"], json!({})),
        ];
        for (fields, want) in cases {
            let pointers: Vec<Pointer> = fields.iter().map(|text| pointer(text)).collect();
            let projected = project(&object, &pointers);
            assert_eq!(projected, want, "{fields:?}");
            assert_eq!(project(&projected, &pointers), want, "{fields:?}, twice");
        }
        assert_eq!(project(&object, &[]), object);
    }
}
