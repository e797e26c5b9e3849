//! Label and field selectors: parsing, the errors a kube-apiserver answers, and matching.
//!
//! Used by lists, watches and deletions of collections. Invariant: what parses here selects exactly what the
//! real server selects; what does not parse is a 400 and never selects everything.

use serde_json::Value;

use crate::object::{at_path, meta_str};
use crate::resources::{Resource, Version};
use crate::status::ApiError;

/// A label selector: all requirements hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        let mut requirements = Vec::new();
        while parser.peek().is_some() {
            requirements.push(parser.requirement().map_err(unparsable)?);
            match parser.next() {
                None => break,
                Some(Token::Comma) if parser.peek().is_some() => {}
                Some(other) => {
                    let why = format!("found '{other}', expected: ',' or 'end of string'");
                    return Err(ApiError::BadRequest(why));
                }
            }
        }
        Ok(LabelSelector(requirements))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        self.0.iter().all(|r| r.test.holds(labels.and_then(|l| l.get(&r.key)).and_then(Value::as_str)))
    }
}

fn unparsable(why: String) -> ApiError {
    ApiError::BadRequest(format!("unable to parse requirement: {why}"))
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match self {
            Test::In(values) => value.is_some_and(|v| values.iter().any(|x| x == v)),
            Test::NotIn(values) => value.is_none_or(|v| values.iter().all(|x| x != v)),
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::Greater(bound) => number().is_some_and(|n| n > *bound),
            Test::Less(bound) => number().is_some_and(|n| n < *bound),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Comma,
    Open,
    Close,
    Operator(&'static str),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Token::Word(word) => word,
            Token::Comma => ",",
            Token::Open => "(",
            Token::Close => ")",
            Token::Operator(op) => op,
        })
    }
}

fn tokens(text: &str) -> Vec<Token> {
    const OPERATORS: [&str; 6] = ["==", "!=", "=", "!", ">", "<"];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let operator = OPERATORS.into_iter().find(|op| rest.starts_with(op));
        let (token, length) = match (c, operator) {
            (',', _) => (Token::Comma, 1),
            ('(', _) => (Token::Open, 1),
            (')', _) => (Token::Close, 1),
            (_, Some(op)) => (Token::Operator(op), op.len()),
            _ => {
                let end =
                    rest.find(|c: char| c.is_whitespace() || ",()=!<>".contains(c)).unwrap_or(rest.len());
                (Token::Word(rest[..end].to_owned()), end)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        if self.peek() == Some(&Token::Operator("!")) {
            self.at += 1;
            return Ok(Requirement { key: self.key()?, test: Test::Absent });
        }
        let key = self.key()?;
        let test = match self.peek().cloned() {
            None | Some(Token::Comma) => Test::Exists,
            Some(Token::Operator("=" | "==")) => Test::In(vec![self.single_value()?]),
            Some(Token::Operator("!=")) => Test::NotIn(vec![self.single_value()?]),
            Some(Token::Operator(">")) => Test::Greater(self.bound()?),
            Some(Token::Operator("<")) => Test::Less(self.bound()?),
            Some(Token::Word(word)) if word == "in" => Test::In(self.values()?),
            Some(Token::Word(word)) if word == "notin" => Test::NotIn(self.values()?),
            Some(other) => {
                return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        };
        Ok(Requirement { key, test })
    }

    fn key(&mut self) -> Result<String, String> {
        let key = match self.next() {
            Some(Token::Word(word)) => word,
            Some(other) => return Err(format!("found '{other}', expected: identifier")),
            None => return Err("found '', expected: identifier".into()),
        };
        if crate::validate::is_qualified_name(&key) {
            Ok(key)
        } else {
            Err(format!("<nil>: Invalid value: {key:?}: {}", crate::validate::QUALIFIED_NAME))
        }
    }

    fn single_value(&mut self) -> Result<String, String> {
        self.at += 1;
        let value = match self.peek() {
            Some(Token::Word(word)) => word.clone(),
            Some(Token::Comma) | None => return Ok(String::new()),
            Some(other) => return Err(format!("found '{other}', expected: identifier")),
        };
        self.at += 1;
        Parser::checked_value(value)
    }

    fn checked_value(value: String) -> Result<String, String> {
        if crate::validate::is_label_value(&value) {
            Ok(value)
        } else {
            Err(format!("values[0][]: Invalid value: {value:?}: {}", crate::validate::LABEL_VALUE))
        }
    }

    fn bound(&mut self) -> Result<i64, String> {
        let value = self.single_value()?;
        value.parse().map_err(|_| format!("values[0][]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"))
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        self.at += 1;
        if self.next() != Some(Token::Open) {
            let found = self.tokens.get(self.at - 1).map(ToString::to_string).unwrap_or_default();
            return Err(format!("found '{found}' expected: '('"));
        }
        let mut values = vec![String::new()];
        loop {
            match self.next() {
                Some(Token::Word(word)) => {
                    if let Some(last) = values.last_mut() {
                        *last = Parser::checked_value(word)?;
                    }
                }
                Some(Token::Comma) => values.push(String::new()),
                Some(Token::Close) => return Ok(values),
                Some(other) => return Err(format!("found '{other}', expected: ',', ')' or identifier")),
                None => return Err("found '', expected: ',' or ')'".into()),
            }
        }
    }
}

/// A field selector: all terms hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    label: String,
    path: Vec<String>,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Parses a selector and checks that the resource can be selected by its fields.
    pub(crate) fn parse(text: &str, resource: &Resource, version: &Version) -> Result<Self, ApiError> {
        let mut terms = Vec::new();
        for part in split_terms(text).into_iter().filter(|p| !p.is_empty()) {
            let (label, equal, value) = term(part).ok_or_else(|| {
                ApiError::BadRequest(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })?;
            let path = path_of(&label, resource, version)?;
            terms.push(Term { label, path, equal, value: unescape(&value) });
        }
        Ok(FieldSelector(terms))
    }

    /// The selector of one name, as a watch by path means it.
    pub(crate) fn name(name: &str) -> Self {
        let path = vec!["metadata".to_owned(), "name".to_owned()];
        FieldSelector(vec![Term { label: "metadata.name".into(), path, equal: true, value: name.into() }])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one namespace this selects, if it does: such a list need not look at the others.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.0.iter().find(|t| t.equal && t.label == "metadata.namespace").map(|t| t.value.as_str())
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|term| {
            let found = match at_path(object, &term.path) {
                Some(Value::String(s)) => s.clone(),
                Some(Value::Bool(b)) => b.to_string(),
                Some(Value::Number(n)) => n.to_string(),
                _ => zero(&term.label).to_owned(),
            };
            (found == term.value) == term.equal
        })
    }
}

/// What an absent field compares as.
fn zero(label: &str) -> &'static str {
    match label {
        "spec.unschedulable" | "spec.hostNetwork" => "false",
        "status.replicas" | "status.successful" => "0",
        _ => "",
    }
}

fn path_of(label: &str, resource: &Resource, version: &Version) -> Result<Vec<String>, ApiError> {
    let known = match label {
        "metadata.name" => true,
        "metadata.namespace" => resource.namespaced || !resource.custom,
        _ => false,
    };
    if known {
        return Ok(label.split('.').map(str::to_owned).collect());
    }
    if let Some((_, path)) = version.selectable.iter().find(|(l, _)| l == label) {
        return Ok(path.clone());
    }
    Err(ApiError::BadRequest(if resource.custom || !version.selectable.is_empty() {
        format!("field label not supported: {label}")
    } else {
        format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    }))
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// One term as label, whether it asks for equality, and the value still escaped.
fn term(part: &str) -> Option<(String, bool, String)> {
    let mut escaped = false;
    for (i, c) in part.char_indices() {
        let rest = &part[i..];
        let operator =
            [("!=", false), ("==", true), ("=", true)].into_iter().find(|(op, _)| rest.starts_with(op));
        match (c, operator) {
            _ if escaped => escaped = false,
            ('\\', _) => escaped = true,
            (_, Some((op, equal))) => {
                return Some((part[..i].trim().to_owned(), equal, rest[op.len()..].to_owned()));
            }
            _ => {}
        }
    }
    None
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut escaped = false;
    for c in text.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            escaped = false;
            out.push(c);
        }
    }
    out
}

/// Both selectors of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selectors {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selectors {
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }

    /// A cheap way to see that an object is not the one selected by name.
    pub(crate) fn rules_out_namespace(&self, object: &Value) -> bool {
        self.fields.namespace().is_some_and(|ns| ns != meta_str(object, "namespace"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::built_in;
    use serde_json::json;

    #[test]
    fn label_selectors_select_what_kubernetes_selects() {
        let object = json!({"metadata": {"labels": {"app": "a", "tier": "5", "x.io/y": "", "empty": ""}}});
        let bare = json!({"metadata": {}});
        for (selector, on_object, on_bare) in [
            ("", true, true),
            ("app=a", true, false),
            ("app==a", true, false),
            ("app = a , tier", true, false),
            ("app!=a", false, true),
            ("app!=b", true, true),
            ("app in (a, b)", true, false),
            ("app in (b,c)", false, false),
            ("app notin (b)", true, true),
            ("app notin (a)", false, true),
            ("app", true, false),
            ("!app", false, true),
            ("x.io/y", true, false),
            ("empty=", true, false),
            ("empty in (,z)", true, false),
            ("tier>4", true, false),
            ("tier<5", false, false),
            ("app=a,!missing,tier in (5)", true, false),
        ] {
            let parsed = LabelSelector::parse(selector).expect(selector);
            assert_eq!(parsed.matches(&object), on_object, "{selector} on the object");
            assert_eq!(parsed.matches(&bare), on_bare, "{selector} on no labels");
        }
    }

    #[test]
    fn a_label_selector_that_does_not_parse_is_an_error() {
        for bad in
            ["=a", "app in a", "app in (a", "a b", "app=a=b", ",", "app,,tier", "app>x", "-a=b", "!", "a=b,"]
        {
            let result = LabelSelector::parse(bad);
            assert!(matches!(&result, Err(ApiError::BadRequest(_))), "{bad}: {result:?}");
        }
    }

    fn fields(plural: &str, text: &str) -> Result<FieldSelector, ApiError> {
        let resource = built_in().into_iter().find(|r| r.plural == plural).expect("built in");
        FieldSelector::parse(text, &resource, &resource.versions[0])
    }

    #[test]
    fn field_selectors_select_by_supported_fields() {
        let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "x"}, "status": {"phase": "Running"}});
        for (selector, expected) in [
            ("metadata.name=p", true),
            ("metadata.name==p,metadata.namespace=n", true),
            ("metadata.name!=p", false),
            ("status.phase=Running,spec.nodeName!=y", true),
            ("spec.serviceAccountName=", true),
            ("spec.hostNetwork=false", true),
            ("", true),
        ] {
            assert_eq!(fields("pods", selector).expect(selector).matches(&pod), expected, "{selector}");
        }
        assert!(
            fields("configmaps", r"metadata.name=a\,b")
                .expect("escaped")
                .matches(&json!({"metadata": {"name": "a,b"}}))
        );
    }

    #[test]
    fn unsupported_field_selectors_are_refused_in_the_real_servers_words() {
        let message = |r: Result<FieldSelector, ApiError>| r.expect_err("refused").to_string();
        assert_eq!(
            message(fields("configmaps", "data.k=v")),
            r#""data.k" is not a known field selector: only "metadata.name", "metadata.namespace""#
        );
        assert_eq!(message(fields("pods", "spec.color=v")), "field label not supported: spec.color");
        assert_eq!(
            message(fields("configmaps", "metadata.name")),
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'"
        );
    }
}
