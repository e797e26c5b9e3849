//! Label selectors as the API server reads and applies them.
//!
//! Used where an informer holds more than a subscription asks for, so that the host selects what a server would
//! have selected. The text form is kubectl's: requirements with commas between them, all of which must hold.
//!
//! | requirement | holds if the label |
//! | --- | --- |
//! | `a=b`, `a==b` | is there and is `b`; `a=` if it is empty |
//! | `a!=b` | is not there, or is something else |
//! | `a in (b,c)` | is there and is one of them; `()` is the empty value, and so is a place left empty |
//! | `a notin (b,c)` | is not there, or is none of them |
//! | `a`, `!a` | is there, is not there |
//! | `a>1`, `a<1` | is there and is a larger, a smaller 64-bit integer |
//!
//! Invariant: a text is accepted if and only if apimachinery's `labels.Parse` accepts it, and then matches the
//! same labels; its oddities with empty places in lists (`(a,,b)` is fine, `(a,,)` is not) are kept.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::vec;

use super::pointer::Segment;
use super::scan::{ScanError, Value};
use super::trie::Trie;

/// Why a text is not a label selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelSelectorError {
    /// A word or sign stands where another is expected.
    #[error("found {found}, expected {expected}")]
    Unexpected {
        /// What stands there, quoted; or the end.
        found: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// A label's name that the API server would refuse.
    #[error(
        "\"{0}\" is not a label's name: [prefix/]name, the name at most 63 of A-Z a-z 0-9 - _ . with a letter or digit at both ends, the prefix a DNS subdomain"
    )]
    Key(String),
    /// A label's value that the API server would refuse.
    #[error(
        "\"{0}\" is not a label's value: at most 63 of A-Z a-z 0-9 - _ . with a letter or digit at both ends, or nothing"
    )]
    Value(String),
    /// `>` and `<` compare with an integer.
    #[error("\"{0}\" is not a 64-bit integer, which > and < need")]
    Integer(String),
}

/// What is required of one label.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Exists,
    Absent,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

impl Rule {
    fn allows(&self, label: Option<&str>) -> bool {
        match (self, label) {
            (Self::Exists, label) => label.is_some(),
            (Self::Absent, label) => label.is_none(),
            (Self::In(values), Some(label)) => values.contains(label),
            (Self::NotIn(values), Some(label)) => !values.contains(label),
            (Self::NotIn(_), None) => true,
            (Self::In(_) | Self::Above(_) | Self::Below(_), None) => false,
            (Self::Above(bound), Some(label)) => label.parse::<i64>().is_ok_and(|label| label > *bound),
            (Self::Below(bound), Some(label)) => label.parse::<i64>().is_ok_and(|label| label < *bound),
        }
    }
}

/// A compiled label selector. An empty one selects everything.
#[derive(Debug)]
pub(super) struct LabelSelector {
    rules: Vec<Rule>,
    /// To the label of each rule.
    trie: Trie,
}

impl LabelSelector {
    /// Reads a selector's text.
    pub(super) fn parse(text: &str) -> Result<Self, LabelSelectorError> {
        let requirements = Parser { tokens: tokens(text).into_iter().peekable() }.selector()?;
        let paths: Vec<[Segment; 3]> = requirements
            .iter()
            .map(|(key, _)| ["metadata", "labels", key].map(|name| Segment::Member(name.to_owned())))
            .collect();
        let trie = Trie::new(paths.iter().map(<[Segment; 3]>::as_slice));
        Ok(Self { rules: requirements.into_iter().map(|(_, rule)| rule).collect(), trie })
    }

    /// Whether everything is selected.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether it selects the object with this text.
    pub(super) fn selects(&self, text: &str) -> Result<bool, ScanError> {
        if self.is_empty() {
            return Ok(true);
        }
        let mut labels: Vec<Option<Cow<'_, str>>> = vec![None; self.rules.len()];
        let mut odd = false;
        self.trie.walk(text, |number, raw| {
            match (Value::of(raw), labels.get_mut(number)) {
                (Ok(Value::String(value)), Some(label)) => *label = Some(value.text()),
                _ => odd = true,
            }
            ControlFlow::Continue(())
        })?;
        if odd {
            return Err(ScanError::Malformed);
        }
        Ok(self.rules.iter().zip(&labels).all(|(rule, label)| rule.allows(label.as_deref())))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
}

const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// Cuts a selector into words and signs, the longest sign first. `in` and `notin` are words here: whether they
/// are operators depends on where they stand.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(BLANKS);
    while !rest.is_empty() {
        if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let is_end = |character| BLANKS.contains(&character) || "=!(),><".contains(character);
            let (word, tail) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
            tokens.push(Token::Word(word.to_owned()));
            rest = tail;
        }
        rest = rest.trim_start_matches(BLANKS);
    }
    tokens
}

fn unexpected(found: Option<Token>, expected: &'static str) -> LabelSelectorError {
    let found = match found {
        Some(Token::Word(word)) => format!("\"{word}\""),
        Some(Token::Sign(sign)) => format!("\"{sign}\""),
        None => "the end".to_owned(),
    };
    LabelSelectorError::Unexpected { found, expected }
}

struct Parser {
    tokens: Peekable<vec::IntoIter<Token>>,
}

impl Parser {
    fn selector(mut self) -> Result<Vec<(String, Rule)>, LabelSelectorError> {
        let mut requirements = Vec::new();
        if self.tokens.peek().is_none() {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            match self.tokens.next() {
                None => return Ok(requirements),
                Some(Token::Sign(",")) => {}
                found => return Err(unexpected(found, "\",\" or the end")),
            }
        }
    }

    fn requirement(&mut self) -> Result<(String, Rule), LabelSelectorError> {
        let negated = self.passes("!");
        let key = match self.tokens.next() {
            Some(Token::Word(key)) => key,
            found => return Err(unexpected(found, "a label's name or \"!\"")),
        };
        if !is_label_key(&key) {
            return Err(LabelSelectorError::Key(key));
        }
        if negated {
            return Ok((key, Rule::Absent));
        }
        if matches!(self.tokens.peek(), None | Some(Token::Sign(","))) {
            return Ok((key, Rule::Exists));
        }
        let rule = self.rule()?;
        Ok((key, rule))
    }

    fn rule(&mut self) -> Result<Rule, LabelSelectorError> {
        let operator = self.tokens.next();
        match &operator {
            Some(Token::Sign("=" | "==")) => Ok(Rule::In(BTreeSet::from([self.value()?]))),
            Some(Token::Sign("!=")) => Ok(Rule::NotIn(BTreeSet::from([self.value()?]))),
            Some(Token::Sign(">")) => self.integer().map(Rule::Above),
            Some(Token::Sign("<")) => self.integer().map(Rule::Below),
            Some(Token::Word(word)) if word == "in" => self.list().map(Rule::In),
            Some(Token::Word(word)) if word == "notin" => self.list().map(Rule::NotIn),
            _ => Err(unexpected(operator, "in, notin, =, ==, !=, > or <")),
        }
    }

    /// The one value after a sign; nothing before a comma or the end is the empty value.
    fn value(&mut self) -> Result<String, LabelSelectorError> {
        if matches!(self.tokens.peek(), None | Some(Token::Sign(","))) {
            return Ok(String::new());
        }
        match self.tokens.next() {
            Some(Token::Word(value)) => checked_value(value),
            found => Err(unexpected(found, "a value")),
        }
    }

    fn integer(&mut self) -> Result<i64, LabelSelectorError> {
        let value = self.value()?;
        value.parse().map_err(|_| LabelSelectorError::Integer(value))
    }

    /// The values between parentheses. A place left empty is the empty value; but after two commas in a row,
    /// apimachinery wants another value or comma, and so do we.
    fn list(&mut self) -> Result<BTreeSet<String>, LabelSelectorError> {
        match self.tokens.next() {
            Some(Token::Sign("(")) => {}
            found => return Err(unexpected(found, "\"(\"")),
        }
        let mut values = BTreeSet::new();
        if self.passes(")") {
            values.insert(String::new());
            return Ok(values);
        }
        loop {
            let closed = match self.tokens.next() {
                Some(Token::Word(value)) => {
                    values.insert(checked_value(value)?);
                    self.closes_after_value()?
                }
                Some(Token::Sign(",")) => self.closes_after_comma(&mut values),
                found => return Err(unexpected(found, "\",\" or a value")),
            };
            if closed {
                return Ok(values);
            }
        }
    }

    fn closes_after_value(&mut self) -> Result<bool, LabelSelectorError> {
        if self.tokens.peek() == Some(&Token::Sign(",")) {
            return Ok(false);
        }
        match self.tokens.next() {
            Some(Token::Sign(")")) => Ok(true),
            found => Err(unexpected(found, "\",\" or \")\"")),
        }
    }

    fn closes_after_comma(&mut self, values: &mut BTreeSet<String>) -> bool {
        let at_front = values.is_empty();
        let closed = self.passes(")");
        let doubled = !closed && self.passes(",");
        if at_front || closed || doubled {
            values.insert(String::new());
        }
        closed
    }

    fn passes(&mut self, sign: &'static str) -> bool {
        self.tokens.next_if_eq(&Token::Sign(sign)).is_some()
    }
}

fn checked_value(value: String) -> Result<String, LabelSelectorError> {
    if value.is_empty() || is_label_name(&value) { Ok(value) } else { Err(LabelSelectorError::Value(value)) }
}

/// `[prefix/]name`, as Kubernetes' qualified names are.
fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_label_name(name),
        None => is_label_name(key),
    }
}

/// At most 63 of `A-Za-z0-9-_.`, a letter or digit at both ends.
fn is_label_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let ends = [name.bytes().next(), name.bytes().last()];
    name.len() <= 63
        && name.bytes().all(inner)
        && ends.into_iter().all(|byte| byte.is_some_and(|byte| byte.is_ascii_alphanumeric()))
}

/// At most 253 bytes; parts of `a-z0-9-` with a letter or digit at both ends, dots between them.
fn is_dns_subdomain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.split('.').all(|part| {
            let ends = [part.bytes().next(), part.bytes().last()];
            part.bytes().all(|byte| plain(byte) || byte == b'-')
                && ends.into_iter().all(|byte| byte.is_some_and(plain))
        })
}

#[cfg(test)]
mod tests;
