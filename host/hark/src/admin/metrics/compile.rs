//! Metrics of the compilers and of the artefact cache.
//!
//! One series for each of the two ways of compiling. What only a cache has is left out where there is none.

use hark_sandbox::{Compile, CompileStats};

use super::Metric;
use crate::admin::exposition::Family;

/// See the file's head.
pub(super) static METRICS: &[Metric<CompileStats>] = &[
    Metric {
        family: Family::counter(
            "hark_compile_total",
            &["mode", "result"],
            "Plugin contents that were asked for, by what came of it; cached: no compiler was needed; refused: Winch does not take them, Cranelift does.",
        ),
        read: |stats, series| {
            for mode in Compile::ALL {
                let one = stats.of(mode);
                let results = [
                    ("compiled", one.compiled),
                    ("cached", one.cached),
                    ("refused", one.refused),
                    ("failed", one.failed),
                ];
                for (result, count) in results {
                    series.labelled(&[mode.as_str(), result], count);
                }
            }
        },
    },
    Metric {
        family: Family::summary(
            "hark_compile_seconds",
            &["mode"],
            "How long compiling took, on the clock, for what was compiled.",
        ),
        read: |stats, series| {
            for mode in Compile::ALL {
                let one = stats.of(mode);
                series.summary(&[mode.as_str()], one.compiled, one.time.as_secs_f64());
            }
        },
    },
    Metric {
        family: Family::gauge(
            "hark_artefact_cache_bytes",
            &[],
            "Bytes of the artefacts in the cache, when this host last added one; absent without a cache.",
        ),
        read: |stats, series| series.maybe(stats.cache.map(|cache| cache.bytes)),
    },
    Metric {
        family: Family::gauge(
            "hark_artefact_cache_entries",
            &[],
            "Artefacts in the cache, when this host last added one; absent without a cache.",
        ),
        read: |stats, series| series.maybe(stats.cache.map(|cache| cache.entries)),
    },
    Metric {
        family: Family::counter(
            "hark_artefact_cache_dropped_total",
            &["reason"],
            "Artefacts dropped: damaged, foreign (a link, or others could write to it), or evicted to keep the bound.",
        ),
        read: |stats, series| {
            let Some(cache) = stats.cache else { return };
            let reasons =
                [("damaged", cache.damaged), ("foreign", cache.foreign), ("evicted", cache.evicted)];
            for (reason, count) in reasons {
                series.labelled(&[reason], count);
            }
        },
    },
];
