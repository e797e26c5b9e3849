//! Metrics of each plugin: what runs, what waits for it, and what became of what it was handed.
//!
//! Named by the file's stem, which is at most 64 bytes of plain characters. What only a running plugin has (its queue)
//! is left out for the others.

use hark_informer::listener::{HealthState, ListenerStats, Outcomes};
use hark_sandbox::{Cap, Restart};

use super::Metric;
use crate::admin::exposition::Family;
use crate::admin::snapshot::PluginFacts;
use crate::plugins::carried::CarriedOver;
use crate::plugins::view::RollbackState;

/// The names of [`labels`].
const LABELS: &[&str] = &["plugin"];

/// The value that names a plugin.
pub(super) fn labels(plugin: &PluginFacts) -> Vec<String> {
    vec![plugin.view.name.clone()]
}

/// The words of the trace, with how often each was said.
fn by_outcome(outcomes: &Outcomes) -> [(&'static str, u64); 5] {
    let Outcomes { ok, retry, permanent, trap, timeout } = *outcomes;
    [("ok", ok), ("retry", retry), ("permanent", permanent), ("trap", trap), ("timeout", timeout)]
}

/// A series for each plugin.
pub(super) static METRICS: &[Metric<PluginFacts>] = &[
    Metric {
        family: Family::gauge("hark_plugin_running", LABELS, "Whether a version of the plugin runs."),
        read: |facts, series| series.value(facts.view.running.is_some()),
    },
    Metric {
        family: Family::gauge(
            "hark_plugin_refused",
            LABELS,
            "Whether the plugin's file as it is now does not run, because something is wrong with it.",
        ),
        read: |facts, series| series.value(facts.view.refusal.is_some()),
    },
    Metric {
        family: Family::gauge(
            "hark_plugin_trial",
            LABELS,
            "Whether the version that runs is on trial; only with `rollback`.",
        ),
        read: |facts, series| {
            let rollback = facts.view.rollback.as_ref();
            series.maybe(rollback.map(|rollback| rollback.state == RollbackState::OnTrial));
        },
    },
    Metric {
        family: Family::counter(
            "hark_plugin_rollbacks_total",
            LABELS,
            "How often the version before was brought back; only with `rollback`.",
        ),
        read: |facts, series| {
            series.maybe(facts.view.rollback.as_ref().map(|rollback| rollback.rollbacks));
        },
    },
    Metric {
        family: Family::gauge(
            "hark_plugin_info",
            &["plugin", "name", "version", "sha256"],
            "Always 1; the labels say which version of the plugin runs.",
        ),
        read: |facts, series| {
            if let Some(running) = &facts.view.running {
                let description = &running.description;
                series.labelled(&[&description.name, &description.version, &running.hash.to_string()], true);
            }
        },
    },
    Metric {
        family: Family::counter(
            "hark_plugin_versions_total",
            LABELS,
            "Versions of the plugin that have run since it was put into the folder.",
        ),
        read: |facts, series| series.maybe(facts.view.running.as_ref().map(|running| running.generation)),
    },
    Metric {
        family: Family::counter(
            "hark_plugin_state_handovers_total",
            &["plugin", "result"],
            "Reloads from or to a version with `lifecycle`, by what became of the state: `kept`, `none` to keep, or `failed`.",
        ),
        read: |facts, series| {
            for result in CarriedOver::ALL {
                series.labelled(&[result.as_str()], facts.view.hand_overs.count(result));
            }
        },
    },
    Metric {
        family: Family::counter(
            "hark_plugin_cpu_seconds_total",
            LABELS,
            "CPU time of the plugin's threads: its code, the host functions it calls, and handing over its events.",
        ),
        read: |facts, series| series.value(facts.cpu.as_secs_f64()),
    },
    Metric {
        family: Family::gauge(
            "hark_plugin_memory_bytes",
            LABELS,
            "Linear memory of the plugin's instances that are alive.",
        ),
        read: |facts, series| series.value(facts.view.usage.memory()),
    },
    Metric {
        family: Family::gauge(
            "hark_plugin_memory_peak_bytes",
            LABELS,
            "The most linear memory that one instance of the plugin has had.",
        ),
        read: |facts, series| series.value(facts.view.usage.memory_peak()),
    },
    Metric {
        family: Family::gauge(
            "hark_plugin_memory_limit_bytes",
            LABELS,
            "Linear memory that each instance of the plugin may have.",
        ),
        read: |facts, series| series.maybe(facts.view.running.as_ref().map(|running| running.limits.memory)),
    },
    Metric {
        family: Family::gauge("hark_plugin_instances", LABELS, "Instances of the plugin that are alive."),
        read: |facts, series| series.value(facts.view.usage.instances()),
    },
    Metric {
        family: Family::counter(
            "hark_plugin_host_calls_total",
            LABELS,
            "How often the plugin's code has called into the host, to grow its memory included.",
        ),
        read: |facts, series| series.value(facts.view.usage.host_calls()),
    },
    Metric {
        family: Family::counter(
            "hark_plugin_restarts_total",
            &["plugin", "reason"],
            "Instances thrown away although the plugin goes on; what they held in memory is lost.",
        ),
        read: |facts, series| {
            for reason in Restart::ALL {
                series.labelled(&[reason.as_str()], facts.view.usage.restarts(reason));
            }
        },
    },
    Metric {
        family: Family::counter(
            "hark_plugin_starved_total",
            LABELS,
            "How often the host had no memory or address space to start an instance; tried again, and not counted as an attempt.",
        ),
        read: |facts, series| series.value(facts.view.usage.starved()),
    },
    Metric {
        family: Family::counter(
            "hark_plugin_cap_hits_total",
            &["plugin", "cap"],
            "How often the plugin has hit a limit, by the last word of its setting.",
        ),
        read: |facts, series| {
            for cap in Cap::ALL {
                series.labelled(&[cap.as_str()], facts.view.usage.cap_hits(cap));
            }
        },
    },
    Metric {
        family: Family::gauge(
            "hark_plugin_state",
            &["plugin", "state"],
            "1 for the state that the plugin is in: `healthy`, `failing`, `quarantined`, or `probing`; else 0.",
        ),
        read: |facts, series| {
            let Some(queue) = facts.queue else { return };
            for state in HealthState::ALL {
                series.labelled(&[state.as_str()], queue.health == state);
            }
        },
    },
    Metric {
        family: Family::counter(
            "hark_plugin_quarantines_total",
            LABELS,
            "How often the plugin was put into quarantine; a probe that fails is no new one.",
        ),
        read: |facts, series| series.maybe(facts.queue.map(|queue| queue.quarantines)),
    },
    Metric {
        family: Family::gauge(
            "hark_listener_open",
            LABELS,
            "Whether events may flow: every healthy subscription has its first list.",
        ),
        read: |facts, series| series.maybe(facts.queue.map(|queue| queue.open)),
    },
    Metric {
        family: Family::gauge(
            "hark_listener_synced",
            LABELS,
            "Whether the plugin has handled, or given up, every object that was there when it began.",
        ),
        read: |facts, series| series.maybe(facts.queue.map(|queue| queue.synced)),
    },
    Metric {
        family: Family::gauge("hark_listener_pending", LABELS, "Events that wait or are being handled."),
        read: |facts, series| series.maybe(facts.queue.map(|queue| queue.pending)),
    },
    Metric {
        family: Family::gauge("hark_listener_in_flight", LABELS, "Events being handled."),
        read: |facts, series| series.maybe(facts.queue.map(|queue| queue.in_flight)),
    },
    Metric {
        family: Family::gauge(
            "hark_listener_retrying",
            LABELS,
            "Objects whose next event waits to be tried again.",
        ),
        read: |facts, series| series.maybe(facts.queue.map(|queue| queue.retrying)),
    },
    Metric {
        family: Family::gauge(
            "hark_listener_oldest_waiting_seconds",
            LABELS,
            "How long the oldest event has waited that is not being handled; 0 if none waits.",
        ),
        read: |facts, series| {
            let oldest = |queue: ListenerStats| queue.oldest_waiting.unwrap_or_default().as_secs_f64();
            series.maybe(facts.queue.map(oldest));
        },
    },
    Metric {
        family: Family::counter(
            "hark_listener_merged_total",
            LABELS,
            "Waiting events that later ones of the same object absorbed.",
        ),
        read: |facts, series| series.maybe(facts.queue.map(|queue| queue.merged)),
    },
    Metric {
        family: Family::counter(
            "hark_listener_retried_total",
            LABELS,
            "Deliveries that were not an event's first.",
        ),
        read: |facts, series| series.maybe(facts.queue.map(|queue| queue.retried)),
    },
    Metric {
        family: Family::counter(
            "hark_listener_dead_letters_total",
            LABELS,
            "Events given up after too many traps or time-outs.",
        ),
        read: |facts, series| series.maybe(facts.queue.map(|queue| queue.dead)),
    },
    Metric {
        family: Family::counter(
            "hark_listener_oversized_total",
            LABELS,
            "States of objects that were not handed over because they were larger than `limits.object`.",
        ),
        read: |facts, series| series.maybe(facts.queue.map(|queue| queue.oversized)),
    },
    Metric {
        family: Family::gauge(
            "hark_listener_oversized_objects",
            LABELS,
            "Objects whose present state is larger than `limits.object`.",
        ),
        read: |facts, series| series.maybe(facts.queue.map(|queue| queue.withheld)),
    },
    Metric {
        family: Family::counter(
            "hark_listener_dropped_total",
            LABELS,
            "Waiting events dropped because their subscription was removed, or the plugin ended.",
        ),
        read: |facts, series| series.maybe(facts.queue.map(|queue| queue.dropped)),
    },
    Metric {
        family: Family::counter(
            "hark_listener_deliveries_total",
            &["plugin", "outcome"],
            "Deliveries that have ended, by what the plugin made of them.",
        ),
        read: |facts, series| {
            let Some(ListenerStats { outcomes, .. }) = facts.queue else { return };
            for (outcome, count) in by_outcome(&outcomes) {
                series.labelled(&[outcome], count);
            }
        },
    },
    Metric {
        family: Family::histogram(
            "hark_listener_handling_seconds",
            LABELS,
            "How long deliveries took, from the call to its end.",
        ),
        read: |facts, series| {
            if let Some(queue) = &facts.queue {
                series.histogram(&queue.handling);
            }
        },
    },
    Metric {
        family: Family::histogram(
            "hark_listener_delivery_lag_seconds",
            LABELS,
            "How long events waited, from their arrival in the queue to their first delivery.",
        ),
        read: |facts, series| {
            if let Some(queue) = &facts.queue {
                series.histogram(&queue.lag);
            }
        },
    },
    Metric {
        family: Family::counter(
            "hark_subscription_filter_failures_total",
            &["plugin", "subscription"],
            "How often a filter could not judge an object and let it pass; subscriptions that ask the same share a filter.",
        ),
        read: |facts, series| {
            for one in &facts.joined {
                series.labelled(&[&one.subscription], one.filter_failures);
            }
        },
    },
];
