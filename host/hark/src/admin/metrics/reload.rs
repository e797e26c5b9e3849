//! Metrics of reloads: what became of changes in the plugins folder and in the configuration, and how long each part took.
//!
//! No series for each plugin: parts depend on the file's size, and `hark_plugin_versions_total` says whose reloads there
//! were.

use super::Metric;
use crate::admin::exposition::Family;
use crate::timings::ReloadStats;

/// See the file's head.
pub(super) static METRICS: &[Metric<ReloadStats>] = &[
    Metric {
        family: Family::counter(
            "hark_reloads_total",
            &["result"],
            "Changes of plugins' files and settings that were acted on, by what came of it; unchanged: the same content, which runs or was refused before.",
        ),
        read: |stats, series| {
            for (result, count) in stats.results() {
                series.labelled(&[result], count);
            }
        },
    },
    Metric {
        family: Family::histogram(
            "hark_reload_seconds",
            &["part"],
            "How long the parts of reloads took, for versions that have taken over from another one: as the log has them, and `total`.",
        ),
        read: |stats, series| {
            for (part, times) in stats.times() {
                series.histogram_of(&[part], times);
            }
        },
    },
];
