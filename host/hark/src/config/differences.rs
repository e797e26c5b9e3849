//! What differs between what the operator says of a plugin now and what was said before, for people.
//!
//! Used when the file is reloaded. Invariant: no difference is passed over: everything is taken apart, so that a key that
//! is still to come cannot be forgotten.

use hark_sandbox::{Limits, Proposal};

use super::PluginConfig;
use super::reader::segment;

impl PluginConfig {
    /// The keys that `other` has otherwise, as the file has them.
    pub(crate) fn differing(&self, other: &Self) -> Vec<String> {
        let Self { settings, treatment, compile, limits, queue, max_attempts, quarantine_after, rollback } =
            self;
        let Proposal { on_reload, on_restart, delivery, concurrency } = treatment;
        let then = &other.treatment;
        let keys = [
            ("on_reload", *on_reload != then.on_reload),
            ("on_restart", *on_restart != then.on_restart),
            ("delivery", *delivery != then.delivery),
            ("concurrency", *concurrency != then.concurrency),
            ("compile", *compile != other.compile),
            ("rollback", rollback.is_some() != other.rollback.is_some()),
            ("rollback_after", rollback.zip(other.rollback).is_some_and(|(now, then)| now != then)),
            ("limits.queue", *queue != other.queue),
            ("limits.max_attempts", *max_attempts != other.max_attempts),
            ("limits.quarantine_after", *quarantine_after != other.quarantine_after),
        ];
        let settings = settings.differing(&other.settings).into_iter();
        let settings = settings.map(|key| format!("settings.{}", segment(key)));
        let keys = keys.into_iter().chain(of_limits(limits, &other.limits));
        settings.chain(keys.filter(|(_, differs)| *differs).map(|(key, _)| key.to_owned())).collect()
    }
}

fn of_limits(now: &Limits, then: &Limits) -> impl Iterator<Item = (&'static str, bool)> {
    let Limits {
        memory,
        tables,
        instances,
        handles,
        call_bytes,
        describe,
        state,
        page,
        deadline,
        host_call,
        budget,
        object,
        log_lines,
        log_line,
        recycle_events,
        recycle_memory,
    } = now;
    [
        ("limits.memory", *memory != then.memory),
        ("limits.tables", *tables != then.tables),
        ("limits.instances", *instances != then.instances),
        ("limits.handles", *handles != then.handles),
        ("limits.call_bytes", *call_bytes != then.call_bytes),
        ("limits.describe", *describe != then.describe),
        ("limits.state", *state != then.state),
        ("limits.page", *page != then.page),
        ("limits.deadline", *deadline != then.deadline),
        ("limits.host_call", *host_call != then.host_call),
        ("limits.budget", *budget != then.budget),
        ("limits.object", *object != then.object),
        ("limits.log_lines", *log_lines != then.log_lines),
        ("limits.log_line", *log_line != then.log_line),
        ("limits.recycle_events", *recycle_events != then.recycle_events),
        ("limits.recycle_memory", *recycle_memory != then.recycle_memory),
    ]
    .into_iter()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::{Config, PluginConfig};

    fn plugin(table: &str) -> PluginConfig {
        Config::parse(&format!("[plugins.p]\n{table}"), Path::new("hark.toml")).expect("valid").plugin("p")
    }

    #[test]
    fn how_soon_is_rolled_back_differs_only_where_it_is_at_all() {
        let (three, seven) = (plugin("rollback = true"), plugin("rollback = true\nrollback_after = 7"));
        assert_eq!(three.differing(&seven), ["rollback_after"]);
        assert_eq!(seven.differing(&plugin("")), ["rollback"]);
        assert!(plugin("rollback_after = 7").differing(&plugin("")).is_empty());
    }

    #[test]
    fn each_key_that_changed_is_named_as_the_file_has_it() {
        for (key, value) in [
            ("on_reload", "\"continue\""),
            ("on_restart", "\"replay\""),
            ("delivery", "\"latest\""),
            ("concurrency", "2"),
            ("compile", "\"fast\""),
            ("rollback", "true"),
            ("limits.queue", "7"),
            ("limits.max_attempts", "7"),
            ("limits.quarantine_after", "\"off\""),
            ("limits.memory", "\"1MiB\""),
            ("limits.tables", "7"),
            ("limits.instances", "7"),
            ("limits.handles", "7"),
            ("limits.call_bytes", "\"1MiB\""),
            ("limits.describe", "\"2MiB\""),
            ("limits.state", "\"1MiB\""),
            ("limits.page", "\"1MiB\""),
            ("limits.deadline", "\"7s\""),
            ("limits.host_call", "\"7s\""),
            ("limits.budget", "\"7s\""),
            ("limits.object", "\"1MiB\""),
            ("limits.log_lines", "7"),
            ("limits.log_line", "\"1KiB\""),
            ("limits.recycle_events", "7"),
            ("limits.recycle_memory", "\"1MiB\""),
            ("settings.kinds", "[\"v1/Pod\"]"),
            ("settings.\"a b\"", "1"),
        ] {
            let (with, without) = (plugin(&format!("{key} = {value}")), plugin(""));
            assert_eq!(with.differing(&without), [key]);
            assert_eq!(without.differing(&with), [key]);
            assert!(with.differing(&with).is_empty());
        }
    }
}
