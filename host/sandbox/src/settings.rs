//! The operator's settings for one plugin, as the guest reads them.
//!
//! Made from `[plugins.STEM.settings]` by the host, read by the `settings` import. Immutable: a change of
//! settings is a new version of the plugin.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// One plugin's table of settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    table: Map<String, Value>,
    json: String,
}

impl Settings {
    /// The settings of a table.
    pub fn new(table: Map<String, Value>) -> Self {
        let json = Value::Object(table.clone()).to_string();
        Self { table, json }
    }

    /// One value: a string as it is, anything else as JSON text.
    pub fn get(&self, key: &str) -> Option<String> {
        Some(match self.table.get(key)? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }

    /// The names of the values that `other` has otherwise, or not at all, or alone.
    pub fn differing<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a str> {
        let names = self.table.keys().chain(other.table.keys()).map(String::as_str);
        names.filter(|name| self.table.get(*name) != other.table.get(*name)).collect()
    }

    /// The whole table as JSON text.
    pub fn json(&self) -> &str {
        &self.json
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(Map::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_bare_and_the_rest_is_json() {
        let table =
            serde_json::json!({"channel": "#ops", "on": true, "n": 3, "list": ["a", "b"], "none": null});
        let Value::Object(table) = table else { panic!("a table") };
        let settings = Settings::new(table);
        let cases = [
            ("channel", Some("#ops")),
            ("on", Some("true")),
            ("n", Some("3")),
            ("list", Some(r#"["a","b"]"#)),
            ("none", Some("null")),
            ("absent", None),
        ];
        for (key, want) in cases {
            assert_eq!(settings.get(key).as_deref(), want, "{key}");
        }
    }

    #[test]
    fn no_settings_are_an_empty_object() {
        assert_eq!(Settings::default().json(), "{}");
    }

    #[test]
    fn a_value_of_another_type_or_missing_on_one_side_differs() {
        let settings = |json: Value| match json {
            Value::Object(table) => Settings::new(table),
            other => panic!("{other} is no table"),
        };
        let one = settings(serde_json::json!({"same": [1], "type": 1, "one": null}));
        let other = settings(serde_json::json!({"same": [1], "type": "1", "other": 2}));
        assert_eq!(one.differing(&other).into_iter().collect::<Vec<_>>(), ["one", "other", "type"]);
        assert!(one.differing(&one).is_empty());
    }
}
