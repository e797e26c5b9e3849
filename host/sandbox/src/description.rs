//! What a plugin says it is and wants, checked.
//!
//! Made by `Plugin::describe` from the guest's answer; used by the host to subscribe. Invariant: a
//! [`Description`] has 1 to 64 subscriptions with unique names, whose pointers, conditions and label selectors
//! compile; every text is bounded and safe to show; and whatever the guest got wrong is reported at once.

#[cfg(test)]
mod fuzz;
mod narrowing;
mod plain;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::time::Duration;

use hark_informer::filter::FilterSpec;
use hark_informer::listener::{OnRestart, OnSwap};
use hark_informer::queue::Merge;

use crate::bindings::hark::plugin::plugin_types as wit;
use crate::text;

/// What a plugin is and wants to be told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// The plugin's own name for itself, for people. May be empty.
    pub name: String,
    /// The author's version, for people. May be empty.
    pub version: String,
    /// What it wants to be told, in the order that subscription numbers count.
    pub subscriptions: Vec<Subscription>,
    /// How the author thinks it is best run.
    pub proposal: Proposal,
    /// Pairs of a later contract; this host knows none.
    pub extra: Vec<(String, String)>,
}

/// How a plugin is best run, by its author's lights: after the operator's file, before the host's defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Proposal {
    /// What a new version does with the events that wait.
    pub on_reload: Option<OnSwap>,
    /// What a fresh instance does with them after a trap or an overrun.
    pub on_restart: Option<OnRestart>,
    /// When waiting events of one object are merged.
    pub delivery: Option<Merge>,
    /// How many instances share the events: 1 to 64.
    pub concurrency: Option<usize>,
}

/// One kind of object that a plugin wants to be told of, and what of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Unique within the plugin.
    pub name: String,
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// The kind, or the plural resource name.
    pub kind: String,
    /// Namespaces, each once; none: all.
    pub namespaces: Vec<String>,
    /// A label selector of namespaces, followed live; empty: as `namespaces` says.
    pub namespace_selector: String,
    /// A label selector as the API server takes it; empty: every object.
    pub label_selector: String,
    /// A field selector as the API server takes it; empty: every object.
    pub field_selector: String,
    /// Conditions, `changed` and `fields`, for the host to evaluate; it compiles. Its selectors and namespaces are
    /// empty: those above are the API server's to evaluate.
    pub filter: FilterSpec,
    /// What the cache can be asked by: names, each once, and pointers, which compile.
    pub indexes: Vec<(String, String)>,
    /// How often each object is handed over again; at least 10 s.
    pub resync: Option<Duration>,
    /// Pairs of a later contract; this host knows none.
    pub extra: Vec<(String, String)>,
}

const SUBSCRIPTIONS: usize = 64;
const NAMESPACES: usize = 1000;
/// Bytes of a name or version for people.
const LABEL_BYTES: usize = 256;
/// Bytes of a subscription's name, and of an index's: they go into traces and metrics.
const NAME_BYTES: usize = 128;
/// Bytes of a selector: it goes into a URL.
const SELECTOR_BYTES: usize = 4096;
const INDEXES: usize = 16;
const CONCURRENCY: u32 = 64;
const EXTRAS: usize = 64;
const EXTRA_BYTES: usize = 4096;
/// Problems that are told of one description.
const PROBLEMS: usize = 100;
const MIN_RESYNC: Duration = Duration::from_secs(10);

/// Checks a guest's answer.
///
/// # Errors
/// Everything that is wrong with it, one sentence each.
pub(crate) fn check(from: wit::Description) -> Result<Description, Vec<String>> {
    let mut problems = Vec::new();
    let count = from.subscriptions.len();
    if count == 0 {
        problems.push("it subscribes to nothing: `subscriptions` must have at least one entry".into());
    }
    if count > SUBSCRIPTIONS {
        problems.push(format!("it has {count} subscriptions, more than {SUBSCRIPTIONS}"));
    }
    problems.extend(concurrency_problem(&from.proposal));
    problems.extend(plain::extra_problem(&from.extra));
    let mut names = HashSet::new();
    for (index, subscription) in from.subscriptions.iter().enumerate().take(SUBSCRIPTIONS) {
        let label = format!("subscription {index} ({})", text::quoted(&subscription.name));
        let mut found = subscription_problems(subscription);
        if !subscription.name.is_empty() && !names.insert(subscription.name.as_str()) {
            found.push("another subscription has this name".into());
        }
        problems.extend(found.into_iter().map(|problem| format!("{label}: {problem}")));
    }
    if !problems.is_empty() {
        return Err(cut(problems));
    }
    Ok(Description {
        name: text::clean(&from.name, LABEL_BYTES),
        version: text::clean(&from.version, LABEL_BYTES),
        subscriptions: from.subscriptions.into_iter().map(subscription).collect(),
        proposal: proposal(&from.proposal),
        extra: from.extra,
    })
}

/// At most [`PROBLEMS`], and how many there are beyond them.
fn cut(mut problems: Vec<String>) -> Vec<String> {
    let more = problems.len().saturating_sub(PROBLEMS);
    problems.truncate(PROBLEMS);
    problems.extend((more > 0).then(|| format!("and {more} more")));
    problems
}

fn concurrency_problem(from: &wit::Proposal) -> Option<String> {
    let wrong = from.concurrency.filter(|count| !(1..=CONCURRENCY).contains(count))?;
    Some(format!("it proposes a concurrency of {wrong}, which is not from 1 to {CONCURRENCY}"))
}

fn proposal(from: &wit::Proposal) -> Proposal {
    let on_swap = |policy| match policy {
        wit::QueuePolicy::Replay => OnSwap::Replay,
        wit::QueuePolicy::Keep => OnSwap::Continue,
    };
    let on_restart = |policy| match policy {
        wit::QueuePolicy::Replay => OnRestart::Replay,
        wit::QueuePolicy::Keep => OnRestart::Continue,
    };
    let merge = |mode| match mode {
        wit::DeliveryMode::All => Merge::All,
        wit::DeliveryMode::Latest => Merge::Latest,
    };
    Proposal {
        on_reload: from.on_reload.map(on_swap),
        on_restart: from.on_restart.map(on_restart),
        delivery: from.delivery.map(merge),
        concurrency: from.concurrency.and_then(|count| usize::try_from(count).ok()),
    }
}

fn subscription(from: wit::Subscription) -> Subscription {
    let filter = narrowing::filter(&from);
    let mut seen = HashSet::new();
    let resync = Duration::from_secs(from.resync_seconds.into());
    Subscription {
        name: from.name,
        api_version: from.api_version,
        kind: from.kind,
        namespaces: from.namespaces.into_iter().filter(|name| seen.insert(name.clone())).collect(),
        namespace_selector: from.namespace_selector,
        label_selector: from.label_selector,
        field_selector: from.field_selector,
        filter,
        indexes: from.indexes.into_iter().map(|index| (index.name, index.pointer)).collect(),
        resync: Some(resync).filter(|resync| !resync.is_zero()).map(|resync| resync.max(MIN_RESYNC)),
        extra: from.extra,
    }
}

fn subscription_problems(from: &wit::Subscription) -> Vec<String> {
    let plain = [
        plain::name_problem(&from.name),
        plain::api_version_problem(&from.api_version),
        plain::kind_problem(&from.kind),
        plain::namespaces_problem(&from.namespaces),
        plain::extra_problem(&from.extra),
    ];
    plain.into_iter().flatten().chain(narrowing::problems(from)).collect()
}
