//! The configuration file changes under a running host.
//!
//! Used by the manager. Invariant: a file that is not valid as a whole changes nothing, and what is wrong with it is said
//! once, as is that it is not any more.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::Manager;
use crate::config::{ConfigError, PluginConfig};

impl Manager {
    /// Takes what the configuration file says now; plugins whose part of it changed get a new version.
    pub(super) fn configure(&mut self) {
        let Some(read) = self.looker.configuration.borrow_and_update().clone() else { return };
        let before: BTreeMap<String, PluginConfig> =
            self.slots.keys().map(|plugin| (plugin.clone(), self.config.current().plugin(plugin))).collect();
        let host = self.config.current().host.clone();
        match self.config.take(&read) {
            Ok(None) => {
                let is_gone = read.as_ref().as_ref().is_err_and(ConfigError::is_absence);
                self.config_is_good(!is_gone);
            }
            Ok(Some(config)) => {
                let differing = |(plugin, old): (&String, &PluginConfig)| {
                    let keys = config.plugin(plugin).differing(old);
                    (!keys.is_empty()).then(|| (plugin.clone(), keys))
                };
                let affected: BTreeMap<String, Vec<String>> = before.iter().filter_map(differing).collect();
                let of_host = config.host.differing(&host);
                let of_dev = self.options.dev.send_if_modified(|dev| {
                    let differs = *dev != config.dev;
                    dev.clone_from(&config.dev);
                    differs
                });
                let others = of_host.into_iter().chain(of_dev.then_some("dev"));
                if let Some(what) = describe(others.collect(), &affected) {
                    tracing::info!("configuration reloaded: {what}");
                }
                self.config_is_good(true);
                self.say_what_waits();
                let now = Instant::now();
                for (plugin, slot) in &mut self.slots {
                    if affected.contains_key(plugin) {
                        slot.noticed = now;
                    }
                }
                self.complain();
                self.prepare_changed();
            }
            Err(error) => self.config_is_bad(error),
        }
    }

    /// What is wrong with the file is said once.
    fn config_is_bad(&mut self, error: &ConfigError) {
        let message = error.to_string();
        if self.config_error.as_deref() == Some(&message) {
            return;
        }
        match error.is_emptiness() {
            true => tracing::warn!("{message}\nwhat was configured before stays"),
            false => tracing::error!("{message}\nwhat was configured before stays"),
        }
        self.config_error = Some(message);
    }

    /// What was wrong with the file is not any more: it was mended, or else is gone as it was at the start.
    fn config_is_good(&mut self, is_there: bool) {
        if self.config_error.take().is_some() {
            let how = if is_there { "holds again" } else { "is gone again, as at the start" };
            tracing::info!("{} {how}", self.config.path().display());
        }
    }

    /// Names the keys of the host that act at its next start, if they are others than those named last.
    fn say_what_waits(&mut self) {
        let waiting = self.config.waiting();
        if waiting != self.waiting {
            waits_for_the_next_start(&waiting);
            self.waiting = waiting;
        }
    }
}

/// Plugins, and keys of each, that a line names.
const NAMED: usize = 5;

/// What differs: keys and tables that are no plugin's, how many plugins are affected, which, and what of each changed;
/// nothing may.
fn describe(others: Vec<&str>, affected: &BTreeMap<String, Vec<String>>) -> Option<String> {
    let named = affected.iter().take(NAMED).map(|(plugin, keys)| format!("{plugin} ({})", some_of(keys)));
    let mut named: Vec<String> = named.collect();
    named.extend(affected.len().checked_sub(NAMED + 1).map(|more| format!("{} more", more + 1)));
    let plugins = if affected.len() == 1 { "plugin" } else { "plugins" };
    let plugins = format!("{} {plugins} affected: {}", affected.len(), named.join(", "));
    let mut parts = others;
    parts.extend((!affected.is_empty()).then_some(plugins.as_str()));
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn some_of(keys: &[String]) -> String {
    match keys.len().checked_sub(NAMED + 1) {
        None => keys.join(", "),
        Some(more) => format!("{}, {} more", keys[..NAMED].join(", "), more + 1),
    }
}

/// Keys of the host that are not what it was started with.
fn waits_for_the_next_start(keys: &[&str]) {
    match keys {
        [] => {}
        [key] => tracing::warn!("{key} changed: acts at the next start"),
        keys => tracing::warn!("{} changed: act at the next start", keys.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_affected_is_named_up_to_a_few() {
        let keys = |count: usize| (0..count).map(|number| format!("k{number}")).collect::<Vec<_>>();
        let affected = |count: usize| (0..count).map(|number| (format!("p{number}"), keys(1))).collect();
        let described = |count: usize| describe(Vec::new(), &affected(count)).expect("some");
        assert_eq!(describe(Vec::new(), &affected(0)), None);
        assert_eq!(described(1), "1 plugin affected: p0 (k0)");
        assert_eq!(described(2), "2 plugins affected: p0 (k0), p1 (k0)");
        assert!(described(5).ends_with(", p4 (k0)"));
        assert!(described(6).ends_with(", p4 (k0), 1 more"));
        assert!(described(9).ends_with(", p4 (k0), 4 more"));
        let others = || vec!["host.log", "dev"];
        assert_eq!(describe(others(), &affected(0)).as_deref(), Some("host.log, dev"));
        let all = "host.log, dev, 1 plugin affected: p0 (k0)";
        assert_eq!(describe(others(), &affected(1)).as_deref(), Some(all));
        assert_eq!(some_of(&keys(5)), "k0, k1, k2, k3, k4");
        assert_eq!(some_of(&keys(7)), "k0, k1, k2, k3, k4, 2 more");
    }
}
