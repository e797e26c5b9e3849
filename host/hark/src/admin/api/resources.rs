//! What a plugin may use and has used, in `/api/plugins`, and how its running version is treated.
//!
//! Invariant: limits and treatment are those in force, whoever said them (the operator, the plugin, nobody), under the
//! names of `hark.toml`; times are in seconds, sizes in bytes, and what is off is null.

use std::collections::BTreeMap;
use std::time::Duration;

use hark_informer::listener::{OnRestart, OnSwap};
use hark_informer::queue::Merge;
use hark_sandbox::{Cap, Limits, Restart, Usage};
use serde::Serialize;

use crate::plugins::view::Treatment;

/// Use of a plugin's versions since it was put into the folder.
#[derive(Serialize)]
pub(super) struct ResourcesDocument {
    cpu_seconds: f64,
    /// Linear memory of the instances that are alive.
    memory_bytes: usize,
    /// The most that one instance has had.
    memory_peak_bytes: usize,
    instances: usize,
    host_calls: u64,
    /// Instances thrown away, by reason.
    restarts: BTreeMap<&'static str, u64>,
    /// How often each cap was hit; those that never were are left out.
    cap_hits: BTreeMap<&'static str, u64>,
}

/// How a version is run.
#[derive(Serialize)]
pub(super) struct TreatmentDocument {
    on_reload: &'static str,
    on_restart: &'static str,
    delivery: &'static str,
    concurrency: usize,
}

/// `limits`.
#[derive(Serialize)]
pub(super) struct LimitsDocument {
    memory: usize,
    tables: usize,
    instances: usize,
    handles: usize,
    call_bytes: usize,
    describe: usize,
    state: usize,
    page: usize,
    deadline: Option<f64>,
    host_call: f64,
    budget: f64,
    object: usize,
    queue: usize,
    max_attempts: u32,
    /// Null: off.
    quarantine_after: Option<usize>,
    log_lines: u32,
    log_line: usize,
    recycle_events: Option<u64>,
    recycle_memory: Option<usize>,
}

pub(super) fn resources(usage: &Usage, cpu: Duration) -> ResourcesDocument {
    let hits = Cap::ALL.iter().map(|cap| (cap.as_str(), usage.cap_hits(*cap)));
    let restarts = Restart::ALL.iter().map(|reason| (reason.as_str(), usage.restarts(*reason)));
    ResourcesDocument {
        cpu_seconds: cpu.as_secs_f64(),
        memory_bytes: usage.memory(),
        memory_peak_bytes: usage.memory_peak(),
        instances: usage.instances(),
        host_calls: usage.host_calls(),
        restarts: restarts.collect(),
        cap_hits: hits.filter(|(_, hits)| *hits > 0).collect(),
    }
}

pub(super) fn treatment(treatment: &Treatment) -> TreatmentDocument {
    TreatmentDocument {
        on_reload: match treatment.on_reload {
            OnSwap::Replay => "replay",
            OnSwap::Continue => "continue",
        },
        on_restart: match treatment.listener.on_restart {
            OnRestart::Replay => "replay",
            OnRestart::Continue => "continue",
        },
        delivery: match treatment.listener.merge {
            Merge::All => "all",
            Merge::Latest => "latest",
        },
        concurrency: treatment.concurrency,
    }
}

pub(super) fn limits(limits: &Limits, treatment: &Treatment) -> LimitsDocument {
    LimitsDocument {
        memory: limits.memory,
        tables: limits.tables,
        instances: limits.instances,
        handles: limits.handles,
        call_bytes: limits.call_bytes,
        describe: limits.describe,
        state: limits.state,
        page: limits.page,
        deadline: limits.deadline.map(|deadline| deadline.as_secs_f64()),
        host_call: limits.host_call.as_secs_f64(),
        budget: limits.budget.as_secs_f64(),
        object: limits.object,
        queue: treatment.listener.bound,
        max_attempts: treatment.listener.max_attempts,
        quarantine_after: treatment.listener.quarantine_after,
        log_lines: limits.log_lines,
        log_line: limits.log_line,
        recycle_events: limits.recycle_events,
        recycle_memory: limits.recycle_memory,
    }
}
