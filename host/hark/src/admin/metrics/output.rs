//! Metrics of what the host says: of log, screen and trace.

use super::Metric;
use crate::admin::exposition::Family;

/// One series for each of them that there is.
pub(super) static METRICS: &[Metric<Vec<(&'static str, u64)>>] = &[Metric {
    family: Family::counter(
        "hark_output_lines_lost_total",
        &["sink"],
        "Lines that were not written, since `log`, `screen` or `trace` failed, or log or screen were too slow.",
    ),
    read: |lost, series| {
        for (sink, lines) in lost {
            series.labelled(&[sink], *lines);
        }
    },
}];
