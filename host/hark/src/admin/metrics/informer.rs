//! Metrics of each informer: what it asked of the API server, what came, and what it holds.
//!
//! Named by what the informer was asked to be (resource, namespace, selectors), which is its identity.

use std::fmt::Write as _;

use hark_informer::reflector::{EventKind, FallBack, ListOutcome, ListReason, ListWay};
use hark_informer::resource::Selector;

use super::Metric;
use crate::admin::exposition::Family;
use crate::admin::snapshot::InformerFacts;

/// The names of [`labels`].
const LABELS: &[&str] = &["resource", "namespace", "selector"];

/// The same with one label more.
const WITH_REASON: &[&str] = &["resource", "namespace", "selector", "reason"];

/// The digits of a resourceVersion that are given as a number, as client-go does: a float holds these exactly.
const VERSION_RANGE: u64 = 1_000_000_000_000_000;

/// The values that name an informer.
pub(super) fn labels(informer: &InformerFacts) -> Vec<String> {
    let Selector { api_version, kind, namespace, .. } = &informer.selector;
    vec![format!("{api_version}/{kind}"), namespace.clone(), selectors(&informer.selector)]
}

/// `l: app=web; f: metadata.name=a`, as an informer's own name has it; empty: every object.
fn selectors(selector: &Selector) -> String {
    let mut text = String::new();
    for (letter, part) in [("l", &selector.label_selector), ("f", &selector.field_selector)] {
        if !part.is_empty() {
            let between = if text.is_empty() { "" } else { "; " };
            // Writing to a string cannot fail.
            let _ = write!(text, "{between}{letter}: {part}");
        }
    }
    text
}

/// The last digits of a resourceVersion; none if it is no number.
fn version(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().map(|version| version % VERSION_RANGE)
}

/// A moment in seconds since 1970; none if it never came.
fn timestamp(millis: u64) -> Option<f64> {
    (millis > 0).then(|| millis as f64 / 1000.0)
}

/// A series for each informer, or several where a family has labels of its own.
pub(super) static METRICS: &[Metric<InformerFacts>] = &[
    Metric {
        family: Family::gauge("hark_informer_synced", LABELS, "Whether the first list is in the cache."),
        read: |facts, series| series.value(facts.synced),
    },
    Metric {
        family: Family::gauge(
            "hark_informer_problem",
            WITH_REASON,
            "1 while the informer has trouble of this kind; absent otherwise.",
        ),
        read: |facts, series| {
            if let Some(problem) = &facts.status.problem {
                series.labelled(&[problem.kind.as_str()], true);
            }
        },
    },
    Metric {
        family: Family::gauge("hark_informer_objects", LABELS, "Objects in the cache."),
        read: |facts, series| series.value(facts.objects),
    },
    Metric {
        family: Family::gauge(
            "hark_informer_object_bytes",
            LABELS,
            "Bytes of JSON text of the objects in the cache.",
        ),
        read: |facts, series| series.value(facts.bytes),
    },
    Metric {
        family: Family::gauge(
            "hark_informer_resource_version",
            LABELS,
            "The last resourceVersion seen: its last 15 digits, which a float holds exactly.",
        ),
        read: |facts, series| series.maybe(version(&facts.status.resource_version)),
    },
    Metric {
        family: Family::counter(
            "hark_informer_lists_begun_total",
            WITH_REASON,
            "Lists asked for; those with another reason than `start` are relists.",
        ),
        read: |facts, series| {
            for reason in ListReason::ALL {
                series.labelled(&[reason.as_str()], facts.metrics.list_reasons(reason));
            }
        },
    },
    Metric {
        family: Family::counter(
            "hark_informer_lists_total",
            &["resource", "namespace", "selector", "way", "outcome"],
            "Lists that ended, by the way they were had: streamed as the beginning of a watch, or page by page.",
        ),
        read: |facts, series| {
            for (way, outcome) in
                ListWay::ALL.into_iter().flat_map(|way| ListOutcome::ALL.map(|one| (way, one)))
            {
                series.labelled(&[way.as_str(), outcome.as_str()], facts.metrics.lists(way, outcome));
            }
        },
    },
    Metric {
        family: Family::summary(
            "hark_informer_list_duration_seconds",
            &["resource", "namespace", "selector", "way"],
            "How long lists took, from the first request to the last object; failed ones count too.",
        ),
        read: |facts, series| {
            for way in ListWay::ALL {
                let count = ListOutcome::ALL.map(|outcome| facts.metrics.lists(way, outcome)).iter().sum();
                series.summary(&[way.as_str()], count, facts.metrics.list_time(way).as_secs_f64());
            }
        },
    },
    Metric {
        family: Family::counter("hark_informer_list_pages_total", LABELS, "Pages of lists received."),
        read: |facts, series| series.value(facts.metrics.pages()),
    },
    Metric {
        family: Family::gauge(
            "hark_informer_listing_objects",
            LABELS,
            "Objects received so far of the list under way; 0 if none is.",
        ),
        read: |facts, series| series.value(facts.metrics.listing()),
    },
    Metric {
        family: Family::counter(
            "hark_informer_list_fall_backs_total",
            WITH_REASON,
            "Lists that were to be streamed and were had page by page instead.",
        ),
        read: |facts, series| {
            for reason in FallBack::ALL {
                series.labelled(&[reason.as_str()], facts.metrics.fall_backs(reason));
            }
        },
    },
    Metric {
        family: Family::counter(
            "hark_informer_watches_total",
            LABELS,
            "Watches opened, those that began as a streamed list included.",
        ),
        read: |facts, series| series.value(facts.metrics.watches()),
    },
    Metric {
        family: Family::counter(
            "hark_informer_short_watches_total",
            LABELS,
            "Watches that the API server closed within a second, without an event.",
        ),
        read: |facts, series| series.value(facts.metrics.very_short_watches()),
    },
    Metric {
        family: Family::counter(
            "hark_informer_events_total",
            &["resource", "namespace", "selector", "type"],
            "Watch events applied; the objects of a list are not among them.",
        ),
        read: |facts, series| {
            for kind in [EventKind::Added, EventKind::Modified, EventKind::Deleted] {
                series.labelled(&[kind.as_str()], facts.metrics.events(kind));
            }
        },
    },
    Metric {
        family: Family::counter("hark_informer_bookmarks_total", LABELS, "Bookmarks received."),
        read: |facts, series| series.value(facts.metrics.events(EventKind::Bookmark)),
    },
    Metric {
        family: Family::counter(
            "hark_informer_undecodable_events_total",
            LABELS,
            "Watch events passed over because their object did not decode, or was of another kind.",
        ),
        read: |facts, series| series.value(facts.metrics.undecodable()),
    },
    Metric {
        family: Family::gauge(
            "hark_informer_last_event_timestamp_seconds",
            LABELS,
            "When the last watch event of an object came, in seconds since 1970; absent before the first.",
        ),
        read: |facts, series| series.maybe(timestamp(facts.metrics.last_event_millis())),
    },
    Metric {
        family: Family::gauge(
            "hark_informer_last_bookmark_timestamp_seconds",
            LABELS,
            "When the last bookmark came, in seconds since 1970; absent before the first.",
        ),
        read: |facts, series| series.maybe(timestamp(facts.metrics.last_bookmark_millis())),
    },
    Metric {
        family: Family::gauge(
            "hark_informer_queue_depth",
            LABELS,
            "Changes received that are not in the cache yet.",
        ),
        read: |facts, series| series.value(facts.queue.depth),
    },
    Metric {
        family: Family::gauge(
            "hark_informer_queue_oldest_seconds",
            LABELS,
            "How long the oldest change has waited that is not in the cache yet; 0 if there is none.",
        ),
        read: |facts, series| series.value(facts.queue.oldest.unwrap_or_default().as_secs_f64()),
    },
    Metric {
        family: Family::summary(
            "hark_informer_queue_wait_seconds",
            LABELS,
            "How long changed objects waited before they went into the cache.",
        ),
        read: |facts, series| series.summary(&[], facts.queue.taken, facts.queue.waited.as_secs_f64()),
    },
    Metric {
        family: Family::counter(
            "hark_informer_failures_total",
            LABELS,
            "Requests and streams that failed and were tried again.",
        ),
        read: |facts, series| series.value(facts.status.failures),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_informer_is_named_by_what_it_was_asked_to_be() {
        let all = Selector::new("apps/v1", "Deployment");
        let cases = [
            (all.clone(), ""),
            (all.clone().with_labels("app=web"), "l: app=web"),
            (all.clone().with_fields("metadata.name=a"), "f: metadata.name=a"),
            (all.with_labels("app").with_fields("metadata.name=a"), "l: app; f: metadata.name=a"),
        ];
        for (selector, text) in cases {
            assert_eq!(selectors(&selector), text);
        }
    }

    #[test]
    fn of_a_version_the_last_15_digits_are_given() {
        assert_eq!(version("12"), Some(12));
        assert_eq!(version("1234567890123456789"), Some(567_890_123_456_789));
        assert_eq!((version(""), version("abc")), (None, None));
    }
}
