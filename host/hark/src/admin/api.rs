//! The JSON documents of the admin port: what each informer and each plugin is and does.
//!
//! Used by the paths of the admin port. Field names are Hark's own, in snake case as in the trace; later versions add
//! fields. Invariant: a document has what [`Snapshot`] has and nothing that is measured for it alone.

mod health;
mod memory;
mod resources;
mod rollback;
mod subscription;

use std::time::{Duration, UNIX_EPOCH};

use hark_informer::listener::{Joined, ListenerStats};
use hark_informer::reflector::{ListOutcome, ListWay, Phase, Problem};
use serde::Serialize;

use self::health::HealthDocument;
use self::memory::HandOverDocument;
use self::resources::{LimitsDocument, ResourcesDocument, TreatmentDocument, limits, resources, treatment};
use self::rollback::RollbackDocument;
use self::subscription::{SubscriptionDocument, subscription};
use super::snapshot::{InformerFacts, PluginFacts, Snapshot};
use crate::plugins::view::{Coming, Refusal, RunningView};
use crate::timestamp::timestamp;

/// `/api/informers`.
#[derive(Serialize)]
pub(super) struct Informers<'a> {
    informers: Vec<InformerDocument<'a>>,
}

#[derive(Serialize)]
struct InformerDocument<'a> {
    api_version: &'a str,
    kind: &'a str,
    /// Empty: all of them.
    namespace: &'a str,
    label_selector: &'a str,
    field_selector: &'a str,
    phase: &'static str,
    synced: bool,
    problem: Option<ProblemDocument<'a>>,
    resource_version: &'a str,
    objects: usize,
    bytes: usize,
    lists: u64,
    watches: u64,
    /// When the last change came; null before the first.
    last_event: Option<String>,
    last_bookmark: Option<String>,
}

#[derive(Serialize)]
struct ProblemDocument<'a> {
    kind: &'static str,
    message: &'a str,
    since: String,
    /// Whether plugins wait for this informer's first list all the same.
    holds_others_back: bool,
}

/// `/api/plugins`.
#[derive(Serialize)]
pub(super) struct Plugins<'a> {
    plugins: Vec<PluginDocument<'a>>,
}

#[derive(Serialize)]
struct PluginDocument<'a> {
    /// The file's stem.
    plugin: &'a str,
    /// A version is on its way: it is being prepared, or
    preparing: bool,
    /// it is prepared, and takes over once the calls under way are over.
    taking_over: bool,
    running: Option<RunningDocument<'a>>,
    refused: Option<RefusalDocument<'a>>,
    /// Null with rollback switched off.
    rollback: Option<RollbackDocument<'a>>,
    /// Null while nothing runs.
    health: Option<HealthDocument<'a>>,
    queue: Option<QueueDocument>,
    /// What became of its memory at the last reload; null before there was one from or to a version with `lifecycle`.
    hand_over: Option<HandOverDocument<'a>>,
    /// What all its versions have used.
    resources: ResourcesDocument,
}

#[derive(Serialize)]
struct RunningDocument<'a> {
    name: &'a str,
    version: &'a str,
    sha256: String,
    generation: u64,
    since: String,
    /// The way its code was compiled, which is `optimized` also where `fast` was asked for and not possible.
    compiled: &'static str,
    /// It was in the artefact cache.
    cached: bool,
    /// It exports `lifecycle`.
    lifecycle: bool,
    treatment: TreatmentDocument,
    limits: LimitsDocument,
    subscriptions: Vec<SubscriptionDocument<'a>>,
}

#[derive(Serialize)]
struct RefusalDocument<'a> {
    /// None if the file could not be read, or is not to be.
    sha256: Option<String>,
    message: &'a str,
}

#[derive(Serialize)]
struct QueueDocument {
    /// Events may flow: every healthy subscription has its first list.
    open: bool,
    /// Every object that was there when the plugin began has been handled, or given up.
    synced: bool,
    pending: usize,
    in_flight: usize,
    retrying: usize,
    /// Null if no event waits.
    oldest_waiting_seconds: Option<f64>,
    merged: u64,
    retried: u64,
    dropped: u64,
    dead_letters: u64,
    /// States left out because they were larger than `limits.object`, and objects whose present state is.
    oversized: u64,
    oversized_objects: usize,
}

/// The document of `/api/informers`.
pub(super) fn informers(snapshot: &Snapshot) -> Informers<'_> {
    Informers { informers: snapshot.informers.iter().map(informer).collect() }
}

/// The document of `/api/plugins`.
pub(super) fn plugins(snapshot: &Snapshot) -> Plugins<'_> {
    Plugins { plugins: snapshot.plugins.iter().map(plugin).collect() }
}

fn informer(facts: &InformerFacts) -> InformerDocument<'_> {
    let (selector, status) = (&facts.selector, &facts.status);
    InformerDocument {
        api_version: &selector.api_version,
        kind: &selector.kind,
        namespace: &selector.namespace,
        label_selector: &selector.label_selector,
        field_selector: &selector.field_selector,
        phase: phase(status.phase),
        synced: facts.synced,
        problem: status.problem.as_ref().map(problem),
        resource_version: &status.resource_version,
        objects: facts.objects,
        bytes: facts.bytes,
        lists: ListWay::ALL.map(|way| facts.metrics.lists(way, ListOutcome::Ok)).iter().sum(),
        watches: facts.metrics.watches(),
        last_event: moment(facts.metrics.last_event_millis()),
        last_bookmark: moment(facts.metrics.last_bookmark_millis()),
    }
}

/// Milliseconds since 1970 as a time; 0 is never.
fn moment(millis: u64) -> Option<String> {
    (millis > 0).then(|| timestamp(UNIX_EPOCH + Duration::from_millis(millis)))
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Idle => "idle",
        Phase::Resolving => "resolving",
        Phase::Listing => "listing",
        Phase::Watching => "watching",
        Phase::Waiting { .. } => "waiting",
        Phase::Stopped => "stopped",
    }
}

fn problem(problem: &Problem) -> ProblemDocument<'_> {
    ProblemDocument {
        kind: problem.kind.as_str(),
        message: &problem.message,
        since: timestamp(problem.since),
        holds_others_back: problem.kind.holds_others_back(),
    }
}

fn plugin(facts: &PluginFacts) -> PluginDocument<'_> {
    let view = &facts.view;
    PluginDocument {
        plugin: &view.name,
        preparing: view.coming == Coming::Preparing,
        taking_over: view.coming == Coming::TakingOver,
        running: view.running.as_ref().map(|version| running(version, &facts.joined)),
        refused: view.refusal.as_ref().map(refusal),
        rollback: view.rollback.as_ref().map(RollbackDocument::of),
        health: facts.health.as_ref().map(HealthDocument::of),
        queue: facts.queue.as_ref().map(queue),
        hand_over: view.hand_overs.last.as_ref().map(HandOverDocument::of),
        resources: resources(&view.usage, facts.cpu),
    }
}

fn queue(stats: &ListenerStats) -> QueueDocument {
    QueueDocument {
        open: stats.open,
        synced: stats.synced,
        pending: stats.pending,
        in_flight: stats.in_flight,
        retrying: stats.retrying,
        oldest_waiting_seconds: stats.oldest_waiting.map(|waited| waited.as_secs_f64()),
        merged: stats.merged,
        retried: stats.retried,
        dropped: stats.dropped,
        dead_letters: stats.dead,
        oversized: stats.oversized,
        oversized_objects: stats.withheld,
    }
}

fn running<'a>(version: &'a RunningView, joined: &'a [Joined]) -> RunningDocument<'a> {
    let description = &version.description;
    RunningDocument {
        name: &description.name,
        version: &description.version,
        sha256: version.hash.to_string(),
        generation: version.generation,
        since: timestamp(version.since),
        compiled: version.how.mode.as_str(),
        cached: version.how.cached,
        lifecycle: version.has_lifecycle,
        treatment: treatment(&version.treatment),
        limits: limits(&version.limits, &version.treatment),
        subscriptions: description.subscriptions.iter().map(|one| subscription(one, joined)).collect(),
    }
}

fn refusal(refusal: &Refusal) -> RefusalDocument<'_> {
    RefusalDocument { sha256: refusal.hash.map(|hash| hash.to_string()), message: &refusal.message }
}
