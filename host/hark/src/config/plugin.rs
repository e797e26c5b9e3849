//! What the operator says of plugins: of one in `[plugins.NAME]`, of all in `[defaults]`, and both together.
//!
//! Read with the rest of the file, used by the plugin manager. Invariant: a plugin's own table comes before the defaults,
//! key by key.

use std::num::NonZeroU32;

use hark_informer::listener::{OnRestart, OnSwap};
use hark_informer::queue::Merge;
use hark_sandbox::{Compile, Limits, Proposal, Settings};

use super::limits::LimitsTable;
use super::reader::Reader;

/// `rollback_after` if nothing is said of it: attempts that all have to break a new version.
const ROLLBACK_AFTER: NonZeroU32 = NonZeroU32::new(3).unwrap();

/// What `[defaults]` and `[plugins.NAME]` may both say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Overrides {
    on_reload: Option<OnSwap>,
    on_restart: Option<OnRestart>,
    delivery: Option<Merge>,
    concurrency: Option<usize>,
    compile: Option<Compile>,
    rollback: Option<bool>,
    rollback_after: Option<NonZeroU32>,
    limits: LimitsTable,
}

/// `[plugins.NAME]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PluginTable {
    overrides: Overrides,
    settings: serde_json::Map<String, serde_json::Value>,
}

/// Everything the operator says about one plugin, resolved.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PluginConfig {
    /// `settings`, as the guest reads them.
    pub(crate) settings: Settings,
    /// `on_reload`, `on_restart`, `delivery`, `concurrency`: what the operator says of them. What they do not say,
    /// the plugin may propose.
    pub(crate) treatment: Proposal,
    /// `compile`; none: as is usual for the command.
    pub(crate) compile: Option<Compile>,
    /// `rollback`, and `rollback_after`: attempts that, if all of them break a new version, bring the one before back;
    /// none: it is off.
    pub(crate) rollback: Option<NonZeroU32>,
    /// `limits`, the sandbox's share.
    pub(crate) limits: Limits,
    /// `limits.queue`: events that wait before they are merged.
    pub(crate) queue: usize,
    /// `limits.max_attempts`.
    pub(crate) max_attempts: u32,
    /// `limits.quarantine_after`; none: off.
    pub(crate) quarantine_after: Option<usize>,
}

impl Overrides {
    /// Reads either.
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            limits: reader.table("limits", LimitsTable::read).unwrap_or_default(),
            on_reload: reader
                .choice("on_reload", &[("replay", OnSwap::Replay), ("continue", OnSwap::Continue)]),
            on_restart: reader
                .choice("on_restart", &[("replay", OnRestart::Replay), ("continue", OnRestart::Continue)]),
            delivery: reader.choice("delivery", &[("all", Merge::All), ("latest", Merge::Latest)]),
            compile: reader.choice("compile", &[("fast", Compile::Fast), ("optimized", Compile::Optimized)]),
            concurrency: reader.count("concurrency", 1, 64),
            rollback: reader.boolean("rollback"),
            rollback_after: reader.count("rollback_after", 1, 100).and_then(NonZeroU32::new),
        }
    }
}

impl PluginTable {
    /// Reads `[plugins.NAME]`.
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self { overrides: Overrides::read(reader), settings: reader.json("settings") }
    }
}

impl PluginConfig {
    /// What a plugin's own table says, and, where that says nothing, `then`.
    pub(super) fn resolve(own: PluginTable, then: &Overrides) -> Self {
        let PluginTable { overrides: first, settings } = own;
        let (queue, max_attempts) = first.limits.listener(&then.limits);
        let rolls_back = first.rollback.or(then.rollback).unwrap_or(false);
        let rollback_after = first.rollback_after.or(then.rollback_after).unwrap_or(ROLLBACK_AFTER);
        Self {
            settings: Settings::new(settings),
            treatment: Proposal {
                on_reload: first.on_reload.or(then.on_reload),
                on_restart: first.on_restart.or(then.on_restart),
                delivery: first.delivery.or(then.delivery),
                concurrency: first.concurrency.or(then.concurrency),
            },
            compile: first.compile.or(then.compile),
            rollback: rolls_back.then_some(rollback_after),
            queue,
            max_attempts,
            quarantine_after: first.limits.quarantine_after(&then.limits),
            limits: first.limits.sandbox(&then.limits),
        }
    }
}
