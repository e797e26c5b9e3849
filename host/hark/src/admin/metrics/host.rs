//! Metrics of the host as a whole: what it is, and what it reads.

use super::Metric;
use crate::admin::exposition::Family;
use crate::plugins::view::View;

/// One series each.
pub(super) static METRICS: &[Metric<View>] = &[
    Metric {
        family: Family::gauge(
            "hark_build_info",
            &["version", "os", "arch"],
            "Always 1; the labels say what was built.",
        ),
        read: |_, series| {
            let version = env!("CARGO_PKG_VERSION");
            series.labelled(&[version, std::env::consts::OS, std::env::consts::ARCH], true);
        },
    },
    Metric {
        family: Family::gauge(
            "hark_config_valid",
            &[],
            "Whether hark.toml as it is now holds; 0 while an older one does, because of an error in it.",
        ),
        read: |view, series| series.value(view.config_error.is_none()),
    },
];
