//! The operator's settings for this plugin: the table `[plugins.STEM.settings]` of `hark.toml`. Used by plugin
//! authors. Invariant: they do not change while a version of the plugin lives; a change is a new version.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::host;

/// Decodes the whole table. Give the type `#[serde(default)]` and `#[serde(deny_unknown_fields)]`, and load it
/// in [`Plugin::describe`](crate::Plugin::describe) too: then a misspelt key is refused at once, by name.
///
/// ```
/// # use hark_guest::settings;
/// #[derive(serde::Deserialize)]
/// #[serde(default, deny_unknown_fields)]
/// struct Settings {
///     channel: String,
/// }
///
/// impl Default for Settings {
///     fn default() -> Self {
///         Self { channel: "#ops".into() }
///     }
/// }
///
/// assert_eq!(settings::load::<Settings>()?.channel, "#ops");
/// # Ok::<(), settings::Error>(())
/// ```
pub fn load<T: DeserializeOwned>() -> Result<T, Error> {
    serde_json::from_str(&host::settings()).map_err(Error)
}

/// The value of one key, or none if it is not set. A string is given as it is, any other value as JSON text.
pub fn get(key: &str) -> Option<String> {
    host::setting(key)
}

/// Settings that are not what the plugin can use.
#[derive(Debug)]
pub struct Error(serde_json::Error);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Line and column would be those of the host's JSON text, which no operator ever sees.
        let (text, place) =
            (self.0.to_string(), format!(" at line {} column {}", self.0.line(), self.0.column()));
        write!(f, "settings: {}", text.strip_suffix(&place).unwrap_or(&text))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}
