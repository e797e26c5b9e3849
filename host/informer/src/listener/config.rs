//! What a listener is told, and what it reports: configuration, subscriptions, removals.
//!
//! Used by whoever runs a listener; re-exported by [`crate::listener`]. No behaviour but the back-off's formula.

use std::sync::Arc;
use std::time::Duration;

use super::reach::Reach;
use crate::queue::Merge;
use crate::shared_informer::{Index, SharedInformer};
use crate::view::View;

/// How a listener treats its events.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// Events that wait before they are merged (delivery contract 8).
    pub bound: usize,
    /// When waiting events of one object are merged.
    pub merge: Merge,
    /// Bytes of an object's text, as it is shown, that handlers are handed at most; none: any number. Larger states
    /// are left out, counted, and reported once an object.
    pub max_object: Option<usize>,
    /// Traps and time-outs of the handler at an object's event before it is given up, counted since the object was
    /// last handled well: a state that is merged in has at least one attempt of its own, a delete all of them.
    pub max_attempts: u32,
    /// Wait after the first failed attempt at an event; doubled by each further one.
    pub first_backoff: Duration,
    /// Longest wait between two attempts.
    pub max_backoff: Duration,
    /// What follows a trap or time-out.
    pub on_restart: OnRestart,
    /// Different events that trap or time out, without any other being answered between them, before nothing is
    /// handed over for a while; none: that never happens.
    pub quarantine_after: Option<usize>,
    /// How long the first probe is waited for in quarantine; doubled by each one that fails.
    pub first_quarantine: Duration,
    /// Longest wait for a probe.
    pub max_quarantine: Duration,
}

impl Default for ListenerConfig {
    fn default() -> Self {
        Self {
            bound: 10_000,
            merge: Merge::All,
            max_object: None,
            max_attempts: 10,
            first_backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(300),
            on_restart: OnRestart::Continue,
            quarantine_after: Some(5),
            first_quarantine: Duration::from_secs(1),
            max_quarantine: Duration::from_secs(300),
        }
    }
}

impl ListenerConfig {
    /// The wait after an attempt that failed, as `failures` before it did.
    pub(super) fn backoff(&self, failures: u32) -> Duration {
        doubled(self.first_backoff, failures, self.max_backoff)
    }

    /// The wait for a probe, as `probes` before it failed.
    pub(super) fn quarantine(&self, probes: u32) -> Duration {
        doubled(self.first_quarantine, probes, self.max_quarantine)
    }
}

/// The first wait, doubled so many times, up to the longest, plus up to a tenth so that what failed together does not
/// come back together.
fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    let doubled = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
    first.saturating_mul(doubled).min(longest).mul_f64(1.0 + rand::random::<f64>() / 10.0)
}

/// One informer that a listener joins, as one of its handler's subscriptions. Several may have the same number:
/// a subscription of several namespaces joins an informer for each.
#[derive(Clone)]
pub struct Subscription {
    /// The name by which a reload finds it again.
    pub name: String,
    /// Index in the handler's own list.
    pub number: u32,
    /// Which objects it asks for, as a whole.
    pub reach: Arc<Reach>,
    /// Where its events come from.
    pub informer: Arc<SharedInformer>,
    /// Which of the informer's objects are the subscription's, and what of them is shown.
    pub view: Arc<View>,
    /// What its cache can be asked by.
    pub indexes: Vec<Index>,
    /// Hand every object over again after each such period.
    pub resync: Option<Duration>,
}

impl Subscription {
    /// To everything that an informer has; see [`Factory::subscribe`](crate::factory::Factory::subscribe) for less.
    pub fn to_everything(name: impl Into<String>, number: u32, informer: Arc<SharedInformer>) -> Self {
        let reach = Arc::new(Reach::of_everything(informer.selector()));
        let view = informer.view_of_everything();
        Self { name: name.into(), number, reach, informer, view, indexes: Vec::new(), resync: None }
    }
}

/// What a handler gets after it trapped or timed out, since what it held in memory may be gone (delivery
/// contract 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnRestart {
    /// The queue goes on.
    #[default]
    Continue,
    /// Every object is an initial add again, once no lane has a delivery, as at a swap with [`OnSwap::Replay`](super::OnSwap::Replay),
    /// and for all lanes; the sync begins anew as well. But objects whose event is failing keep it, with its
    /// attempts and its back-off, and are not read a second time; and an object whose event was given up is left
    /// out until it changes. So a poison object ends in the dead letters here too.
    Replay,
}

/// What a removal did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Informers that were left.
    pub registrations: usize,
    /// Waiting events that were dropped (R-PL-7).
    pub dropped: usize,
}

/// How the loop of [`run`](super::Listener::run) ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything that was queued has been handled, but for events that wait for a retry, or for the end of a
    /// quarantine.
    Drained {
        /// Events that waited for that, and are abandoned.
        abandoned: usize,
    },
    /// It was closed with this many events waiting.
    Closed {
        /// Events that were waiting.
        abandoned: usize,
    },
}
