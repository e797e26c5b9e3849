//! The configuration file changes under a running host.
//!
//! Used by the manager. Invariant: a file that is not valid as a whole changes nothing, and what is wrong with it is said
//! once.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::Manager;
use crate::config::PluginConfig;

impl Manager {
    /// Takes what the configuration file says now; plugins whose part of it changed get a new version.
    pub(super) fn configure(&mut self) {
        let Some(read) = self.looker.configuration.borrow_and_update().clone() else { return };
        let before: BTreeMap<String, PluginConfig> =
            self.slots.keys().map(|plugin| (plugin.clone(), self.config.current().plugin(plugin))).collect();
        let host = self.config.current().host.clone();
        match self.config.take(&read) {
            Ok(None) => self.config_error = None,
            Ok(Some(config)) => {
                let changed = before.iter().filter(|(plugin, old)| config.plugin(plugin) != **old).count();
                let plugins = if changed == 1 { "plugin" } else { "plugins" };
                tracing::info!("configuration reloaded: {changed} {plugins} affected");
                waits_for_the_next_start(&config.host.differing(&host));
                self.options.dev.send_if_modified(|dev| {
                    let differs = *dev != config.dev;
                    dev.clone_from(&config.dev);
                    differs
                });
                self.config_error = None;
                let now = Instant::now();
                for (plugin, slot) in &mut self.slots {
                    if before.get(plugin).is_some_and(|old| config.plugin(plugin) != *old) {
                        slot.noticed = now;
                    }
                }
                self.complain();
                self.prepare_changed();
            }
            Err(error) => {
                let message = error.to_string();
                if self.config_error.as_deref() != Some(&message) {
                    tracing::error!("{message}\nwhat was configured before stays");
                    self.config_error = Some(message);
                }
            }
        }
    }
}

/// Keys of the host that have changed while it runs.
fn waits_for_the_next_start(keys: &[&str]) {
    match keys {
        [] => {}
        [key] => tracing::warn!("{key} changed: acts at the next start"),
        keys => tracing::warn!("{} changed: act at the next start", keys.join(", ")),
    }
}
