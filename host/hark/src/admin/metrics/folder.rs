//! Metrics of the looks at the plugins folder.

use std::time::Duration;

use super::Metric;
use crate::admin::exposition::Family;
use crate::folder::Cause;
use crate::plugins::view::{FolderState, View};

/// One series each, but for the looks: one for each cause.
pub(super) static METRICS: &[Metric<View>] = &[
    Metric {
        family: Family::gauge(
            "hark_plugins_folder_readable",
            &[],
            "Whether the plugins folder could be read when it was last looked at.",
        ),
        read: |view, series| series.value(view.folder_state == FolderState::Readable),
    },
    Metric {
        family: Family::gauge(
            "hark_plugins_folder_watch",
            &["by", "reason"],
            "Always 1; by `events` of the file system or by `polling` alone, and the reason for the latter.",
        ),
        read: |view, series| series.labelled(&[view.folder_way.by(), view.folder_way.reason()], true),
    },
    Metric {
        family: Family::gauge(
            "hark_plugins_folder_watched_directories",
            &[],
            "Directories that the file system tells of: the folder, its sub-folders, and those on the way to linked files and to hark.toml.",
        ),
        read: |view, series| series.value(view.looks.directories()),
    },
    Metric {
        family: Family::counter(
            "hark_plugins_folder_looks_total",
            &["cause"],
            "Looks at the plugins folder and hark.toml, by what they were had for: `event`, `clock`, `due` or `asked`.",
        ),
        read: |view, series| {
            for cause in Cause::ALL {
                series.labelled(&[cause.as_str()], view.looks.looks(cause));
            }
        },
    },
    Metric {
        family: Family::gauge(
            "hark_plugins_folder_look_seconds",
            &[],
            "How long the look under way has taken so far; 0 if there is none. It grows if the file system hangs.",
        ),
        read: |view, series| {
            let under_way = view.looks.under_way().unwrap_or(Duration::ZERO);
            series.value(under_way.as_secs_f64());
        },
    },
];
