//! Takes typed values out of a TOML table and remembers everything that is wrong with it.
//!
//! Used by the configuration alone. Invariant: each key is taken once; what nobody took is an unknown key.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use toml::{Table, Value};

use super::units;

/// One table of the file, on its way to being used up.
pub(crate) struct Reader<'e> {
    table: Table,
    path: String,
    known: Vec<&'static str>,
    errors: &'e mut Vec<String>,
}

/// What may be written in a short and in a long form.
pub(crate) enum TextOrTables<T> {
    Text(String),
    Tables(Vec<T>),
}

impl<'e> Reader<'e> {
    pub(crate) fn new(table: Table, path: String, errors: &'e mut Vec<String>) -> Self {
        Self { table, path, known: Vec::new(), errors }
    }

    /// Reports what nobody took.
    pub(crate) fn finish(self) {
        let known = self.known.join(", ");
        for key in self.table.keys() {
            self.errors.push(format!("{}{}: unknown key (known here: {known})", self.path, segment(key)));
        }
    }

    /// A table, read by `read`.
    pub(crate) fn table<T>(&mut self, key: &'static str, read: impl Fn(&mut Reader<'_>) -> T) -> Option<T> {
        let table = self.take(key, "a table", into_table)?;
        Some(self.within(key, table, &read))
    }

    /// A table of tables with names of the operator's choosing, each read by `read`.
    pub(crate) fn tables<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&mut Reader<'_>) -> T,
    ) -> BTreeMap<String, T> {
        let Some(table) = self.take(key, "a table", into_table) else { return BTreeMap::new() };
        let mut all = BTreeMap::new();
        for (name, value) in table {
            let path = format!("{key}.{}", segment(&name));
            match value {
                Value::Table(table) => {
                    all.insert(name, self.within(&path, table, &read));
                }
                other => {
                    let found = described(&other);
                    self.errors.push(format!("{}{path}: expected a table, found {found}", self.path));
                }
            }
        }
        all
    }

    fn within<T>(&mut self, key: &str, table: Table, read: impl Fn(&mut Reader<'_>) -> T) -> T {
        let mut reader = Reader::new(table, format!("{}{key}.", self.path), self.errors);
        let value = read(&mut reader);
        reader.finish();
        value
    }

    /// A text (not blank, and with no zero in it), or an array of tables each read by `read`. `what` the text is, errors
    /// say.
    pub(crate) fn text_or_tables<T>(
        &mut self,
        key: &'static str,
        what: &str,
        read: impl Fn(&mut Reader<'_>) -> T,
    ) -> Option<TextOrTables<T>> {
        let expected = format!("{what} or an array of tables");
        match self.take(
            key,
            &expected,
            |value| if is_text_or_array(&value) { Ok(value) } else { Err(value) },
        )? {
            Value::String(text) => self.not_blank(key, what, text).map(TextOrTables::Text),
            Value::Array(items) if items.is_empty() => {
                self.error(key, "expected at least one table, found an empty array");
                None
            }
            Value::Array(items) => {
                let tables = items.into_iter().enumerate();
                let read = tables.filter_map(|(place, item)| match item {
                    Value::Table(table) => Some(self.within(&format!("{key}[{place}]"), table, &read)),
                    other => {
                        let found = described(&other);
                        self.error(&format!("{key}[{place}]"), &format!("expected a table, found {found}"));
                        None
                    }
                });
                Some(TextOrTables::Tables(read.collect()))
            }
            // Refused above.
            _ => None,
        }
    }

    /// A text that must be there, is not blank, and has no zero in it.
    pub(crate) fn required_text(&mut self, key: &'static str, what: &str) -> Option<String> {
        if !self.table.contains_key(key) {
            self.known.push(key);
            self.error(key, &format!("expected {what}, found nothing"));
            return None;
        }
        let text = self.string(key)?;
        self.not_blank(key, what, text)
    }

    fn not_blank(&mut self, key: &str, what: &str, text: String) -> Option<String> {
        if text.trim().is_empty() || text.contains('\0') {
            self.error(key, &format!("expected {what}, found {text:?}"));
            return None;
        }
        Some(text)
    }

    /// Files or folders: at least one.
    pub(crate) fn paths(&mut self, key: &'static str) -> Option<Vec<PathBuf>> {
        if self.table.get(key).and_then(Value::as_array).is_some_and(Vec::is_empty) {
            self.error(key, "expected at least one path, found an empty array");
        }
        let texts = self.strings(key)?;
        let paths = texts.into_iter().filter_map(|(path, text)| self.checked_path(&path, text));
        Some(paths.collect())
    }

    /// Texts in a notation of their own, whose error says what was expected.
    pub(crate) fn list_of<T: FromStr<Err: Display>>(&mut self, key: &'static str) -> Option<Vec<T>> {
        let texts = self.strings(key)?;
        let items = texts.into_iter().filter_map(|(path, text)| {
            text.parse::<T>().map_err(|error| self.error(&path, &error.to_string())).ok()
        });
        Some(items.collect())
    }

    /// The texts of an array, each with its place.
    fn strings(&mut self, key: &'static str) -> Option<Vec<(String, String)>> {
        let items = self.take(key, "an array of strings", |value| match value {
            Value::Array(items) => Ok(items),
            other => Err(other),
        })?;
        let places = items.into_iter().enumerate().map(|(place, item)| (format!("{key}[{place}]"), item));
        let texts = places.filter_map(|(path, item)| match item {
            Value::String(text) => Some((path, text)),
            other => {
                self.error(&path, &format!("expected a string, found {}", described(&other)));
                None
            }
        });
        Some(texts.collect())
    }

    pub(crate) fn string(&mut self, key: &'static str) -> Option<String> {
        self.take(key, "a string", |value| match value {
            Value::String(text) => Ok(text),
            other => Err(other),
        })
    }

    /// A file or folder: its name is not empty, and the system takes it.
    pub(crate) fn path(&mut self, key: &'static str) -> Option<PathBuf> {
        let text = self.string(key)?;
        self.checked_path(key, text)
    }

    fn checked_path(&mut self, key: &str, text: String) -> Option<PathBuf> {
        if text.is_empty() || text.contains('\0') {
            self.error(key, &format!("expected a path, found {text:?}"));
            return None;
        }
        Some(PathBuf::from(text))
    }

    /// A string in a notation of its own, whose error says what was expected.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&mut self, key: &'static str) -> Option<T> {
        let text = self.string(key)?;
        text.parse::<T>().map_err(|error| self.error(key, &error.to_string())).ok()
    }

    pub(crate) fn boolean(&mut self, key: &'static str) -> Option<bool> {
        self.take(key, "true or false", |value| value.as_bool().ok_or(value))
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let found = self.string(key)?;
        let choice = choices.iter().find(|(word, _)| *word == found).map(|(_, value)| *value);
        if choice.is_none() {
            let words: Vec<String> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
            self.error(key, &format!("expected {}, found {found:?}", words.join(" or ")));
        }
        choice
    }

    /// A whole number within bounds.
    pub(crate) fn count<T: TryFrom<i64>>(&mut self, key: &'static str, min: i64, max: i64) -> Option<T> {
        let number = self.take(key, "a whole number", |value| value.as_integer().ok_or(value))?;
        if !(min..=max).contains(&number) {
            self.error(key, &format!("{number} is out of range ({min} to {max})"));
            return None;
        }
        T::try_from(number).ok()
    }

    /// A size such as `"64MiB"`, in bytes.
    pub(crate) fn bytes(&mut self, key: &'static str, min: usize, max: usize) -> Option<usize> {
        let text = self.string(key)?;
        match units::bytes(&text) {
            Some(size) if (min..=max).contains(&size) => Some(size),
            Some(_) => {
                self.error(key, &format!("{text:?} is out of range ({min} to {max} bytes)"));
                None
            }
            None => {
                self.error(key, &format!("expected a size such as \"64MiB\", found {text:?}"));
                None
            }
        }
    }

    /// A duration such as `"250ms"`.
    pub(crate) fn duration(&mut self, key: &'static str, min: Duration, max: Duration) -> Option<Duration> {
        let text = self.string(key)?;
        match units::duration(&text) {
            Some(duration) if (min..=max).contains(&duration) => Some(duration),
            Some(_) => {
                self.error(key, &format!("{text:?} is out of range ({min:?} to {max:?})"));
                None
            }
            None => {
                let message = format!("expected a duration such as \"250ms\" or \"1s\", found {text:?}");
                self.error(key, &message);
                None
            }
        }
    }

    /// A value that may also be `"off"`: none if it is, else what `read` takes.
    pub(crate) fn unless_off<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.table.get(key).and_then(Value::as_str) == Some("off") {
            self.string(key)?;
            return Some(None);
        }
        read(self).map(Some)
    }

    /// A table of any values, as JSON.
    pub(crate) fn json(&mut self, key: &'static str) -> serde_json::Map<String, serde_json::Value> {
        let Some(table) = self.take(key, "a table", into_table) else { return serde_json::Map::new() };
        let path = format!("{}{key}", self.path);
        table
            .into_iter()
            .filter_map(|(name, value)| {
                let json = to_json(value, &format!("{path}.{}", segment(&name)), self.errors)?;
                Some((name, json))
            })
            .collect()
    }

    fn take<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        convert: impl FnOnce(Value) -> Result<T, Value>,
    ) -> Option<T> {
        self.known.push(key);
        match convert(self.table.remove(key)?) {
            Ok(value) => Some(value),
            Err(other) => {
                let found = described(&other);
                self.error(key, &format!("expected {expected}, found {found}"));
                None
            }
        }
    }

    fn error(&mut self, key: &str, message: &str) {
        self.errors.push(format!("{}{key}: {message}", self.path));
    }
}

/// A key in a path, quoted where TOML would quote it: one with a line break in it must not break an error's line.
pub(super) fn segment(key: &str) -> Cow<'_, str> {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !key.is_empty() && key.bytes().all(bare) { key.into() } else { format!("{key:?}").into() }
}

fn is_text_or_array(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Array(_))
}

fn into_table(value: Value) -> Result<Table, Value> {
    match value {
        Value::Table(table) => Ok(table),
        other => Err(other),
    }
}

fn described(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a float",
        Value::Boolean(_) => "a boolean",
        Value::Datetime(_) => "a date or time",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
    }
}

fn to_json(value: Value, path: &str, errors: &mut Vec<String>) -> Option<serde_json::Value> {
    match value {
        Value::String(text) => Some(text.into()),
        Value::Integer(number) => Some(number.into()),
        Value::Boolean(truth) => Some(truth.into()),
        Value::Float(number) => {
            let json = serde_json::Number::from_f64(number).map(serde_json::Value::Number);
            if json.is_none() {
                errors.push(format!("{path}: {number} cannot be a setting: JSON has no such number"));
            }
            json
        }
        Value::Datetime(_) => {
            errors.push(format!("{path}: a date or time cannot be a setting: write it as a string"));
            None
        }
        // Each is looked at although another is wrong, so that all errors are told.
        Value::Array(items) => {
            let items = items.into_iter().enumerate();
            let all: Vec<_> =
                items.map(|(place, item)| to_json(item, &format!("{path}[{place}]"), errors)).collect();
            all.into_iter().collect()
        }
        Value::Table(table) => {
            let items = table.into_iter();
            let all: Vec<_> = items
                .map(|(name, item)| {
                    let json = to_json(item, &format!("{path}.{}", segment(&name)), errors)?;
                    Some((name, json))
                })
                .collect();
            all.into_iter().collect::<Option<serde_json::Map<_, _>>>().map(serde_json::Value::Object)
        }
    }
}
