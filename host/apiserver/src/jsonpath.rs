//! The small part of JSONPath that custom resource definitions use: `.spec.list[0].name`, `.metadata.labels.a\.b`,
//! `.status.conditions[?(@.type=="Ready")].status`.
//!
//! Used by custom columns, scale subresources and selectable fields.

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(i64),
    All,
    /// Elements whose field equals a text.
    Where(Vec<String>, String),
}

impl JsonPath {
    /// Parses a path; `None` where it uses more of JSONPath than this.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            rest = match rest.strip_prefix('[') {
                Some(inner) => {
                    let end = bracket_end(inner)?;
                    steps.push(bracket(&inner[..end])?);
                    &inner[end + 1..]
                }
                None => {
                    let name = rest.strip_prefix('.').unwrap_or(rest);
                    let (key, after) = key(name);
                    if !key.is_empty() {
                        steps.push(Step::Key(key));
                    } else if after.len() == rest.len() {
                        return None;
                    }
                    after
                }
            };
        }
        Some(JsonPath(steps))
    }

    /// The keys, if the path is made of keys only.
    pub(crate) fn keys(&self) -> Option<Vec<String>> {
        self.0.iter().map(|step| if let Step::Key(key) = step { Some(key.clone()) } else { None }).collect()
    }

    /// The first value the path leads to.
    pub(crate) fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        walk(&self.0, value)
    }
}

fn walk<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match step {
        Step::Key(key) => walk(rest, value.get(key)?),
        Step::Index(index) => {
            let list = value.as_array()?;
            let index = if *index < 0 { i64::try_from(list.len()).ok()? + index } else { *index };
            walk(rest, list.get(usize::try_from(index).ok()?)?)
        }
        Step::All => value.as_array()?.iter().find_map(|item| walk(rest, item)),
        Step::Where(path, wanted) => value
            .as_array()?
            .iter()
            .filter(|item| {
                let found = path.iter().try_fold(*item, |v, key| v.get(key));
                found.is_some_and(|v| v.as_str().map_or_else(|| shown(v) == *wanted, |s| s == wanted))
            })
            .find_map(|item| walk(rest, item)),
    }
}

fn shown(value: &Value) -> String {
    value.to_string()
}

/// A key up to an unescaped dot or bracket, and what follows.
fn key(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut escaped = false;
    for (i, c) in text.char_indices() {
        match c {
            '\\' if !escaped => escaped = true,
            '.' | '[' if !escaped => return (name, &text[i..]),
            _ => {
                escaped = false;
                name.push(c);
            }
        }
    }
    (name, "")
}

fn bracket_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (None, ']') => return Some(i),
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<Step> {
    let unquoted = |s: &str| s.trim().trim_matches(['\'', '"']).to_owned();
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|t| t.strip_suffix(')')) {
        let (left, right) = filter.split_once("==")?;
        let path = left.trim().strip_prefix("@.")?;
        return Some(Step::Where(path.split('.').map(str::to_owned).collect(), unquoted(right)));
    }
    if text.starts_with(['\'', '"']) {
        return Some(Step::Key(unquoted(text)));
    }
    text.parse().ok().map(Step::Index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_paths_of_printer_columns_lead_where_they_should() {
        let object = json!({
            "spec": {"size": 3, "list": [{"name": "a"}, {"name": "b"}]},
            "metadata": {"labels": {"x.io/y": "z"}},
            "status": {"conditions": [{"type": "A", "status": "no"}, {"type": "Ready", "status": "yes"}]},
        });
        for (path, expected) in [
            (".spec.size", Some(json!(3))),
            ("spec.size", Some(json!(3))),
            ("{.spec.size}", Some(json!(3))),
            (".spec.list[1].name", Some(json!("b"))),
            (".spec.list[-1].name", Some(json!("b"))),
            (".spec.list[*].name", Some(json!("a"))),
            (r".metadata.labels.x\.io/y", Some(json!("z"))),
            (".metadata.labels['x.io/y']", Some(json!("z"))),
            (r#".status.conditions[?(@.type=="Ready")].status"#, Some(json!("yes"))),
            (".spec.absent", None),
            (".spec.list[9].name", None),
        ] {
            let parsed = JsonPath::parse(path).expect(path);
            assert_eq!(parsed.first(&object).cloned(), expected, "{path}");
        }
        assert_eq!(JsonPath::parse(".spec[?(@.a>1)]"), None);
    }
}
