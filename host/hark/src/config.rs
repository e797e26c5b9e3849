//! `hark.toml`: the operator's one file, read whole, with every error at once.
//!
//! Used by the composition root at start and by the reloader whenever the file changes. Invariant: a [`Config`]
//! is valid as a whole: a file with any error gives none, and unknown keys are errors, since a misspelt limit
//! would otherwise silently not be one.
//!
//! | file | subject |
//! | --- | --- |
//! | `load` | reading the file |
//! | `host`, `dev`, `plugin`, `limits` | its tables |
//! | `reader`, `units` | tables with unknown keys and wrong values, all of them named |
//! | `differences` | what a change is about |

mod dev;
mod differences;
#[cfg(test)]
mod fuzz;
mod host;
mod limits;
mod load;
mod plugin;
mod reader;
mod units;

use std::collections::BTreeMap;
use std::path::Path;

use self::plugin::{Overrides, PluginTable};
use self::reader::Reader;

pub(crate) use self::dev::{Build, DevConfig};
pub(crate) use self::host::HostConfig;
pub(crate) use self::load::ConfigError;
pub(crate) use self::plugin::PluginConfig;

/// The file's contents, checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Config {
    /// `[host]`.
    pub(crate) host: HostConfig,
    /// `[dev]`: for `hark dev` alone.
    pub(crate) dev: DevConfig,
    defaults: Overrides,
    plugins: BTreeMap<String, PluginTable>,
}

impl Config {
    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let table: toml::Table = toml::from_str(text)
            .map_err(|source| ConfigError::Syntax { path: path.to_owned(), source: Box::new(source) })?;
        let mut errors = Vec::new();
        let mut root = Reader::new(table, String::new(), &mut errors);
        let host = root.table("host", HostConfig::read).unwrap_or_default();
        let dev = root.table("dev", DevConfig::read).unwrap_or_default();
        let defaults = root.table("defaults", Overrides::read).unwrap_or_default();
        let plugins = root.tables("plugins", PluginTable::read);
        root.finish();
        if errors.is_empty() {
            Ok(Self { host, dev, defaults, plugins })
        } else {
            Err(ConfigError::Invalid { path: path.to_owned(), errors })
        }
    }

    /// What holds for the plugin with this file stem.
    pub(crate) fn plugin(&self, stem: &str) -> PluginConfig {
        PluginConfig::resolve(self.plugins.get(stem).cloned().unwrap_or_default(), &self.defaults)
    }

    /// The plugins that have a table of their own.
    pub(crate) fn plugin_names(&self) -> impl Iterator<Item = &String> {
        self.plugins.keys()
    }
}

#[cfg(test)]
mod tests;
