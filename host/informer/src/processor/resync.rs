//! Resyncs: whom a round of `Sync` deltas is for, and when the next one is due.
//!
//! Used by the informer task. Each registration has its own schedule, and the informer has none: there is no check
//! period that a handler's period is rounded up to, or that keeps it from resyncing at all (R-RP-2 to R-RP-4,
//! deviations). Only a round of `Sync` deltas is a resync: a relist shows unchanged objects to nobody (R-RP-6, a
//! deviation). Invariant: a registration that is due is told of each object that is in the cache from then until its
//! round is over, whatever becomes due meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Processor, Registration};
use crate::handler::Event;
use crate::object::Object;

/// The shortest resync period; a shorter one is raised to it (R-RP-1).
const MINIMUM: Duration = Duration::from_secs(1);

/// A registration's own schedule.
pub(super) struct Resync {
    period: Duration,
    next: Instant,
    /// The present round of `Sync` deltas is for this registration (R-RP-5).
    due: bool,
}

impl Resync {
    /// None, and zero: never.
    pub(super) fn every(period: Option<Duration>) -> Option<Self> {
        let period = period.filter(|period| !period.is_zero())?.max(MINIMUM);
        Some(Self { period, next: Instant::now() + period, due: false })
    }

    pub(super) fn period(&self) -> Duration {
        self.period
    }
}

impl Registration {
    fn is_due(&self) -> bool {
        self.resync.as_ref().is_some_and(|resync| resync.due)
    }
}

impl Processor {
    /// When the next resync of any registration is due.
    pub(crate) fn next_resync(&self) -> Option<Instant> {
        let registrations = self.groups.iter().flat_map(|group| &group.registrations);
        registrations.filter_map(|registration| Some(registration.resync.as_ref()?.next)).min()
    }

    /// Marks the registrations whose period is over, and whether there was any (R-RP-5). If there was none, the
    /// round under way stays theirs for whom it is; so it does for those who are not due now, unless the queue is
    /// `idle` and that round therefore over. Who shares a part of two rounds is told of some objects twice.
    pub(crate) fn mark_due(&mut self, now: Instant, idle: bool) -> bool {
        if self.next_resync().is_none_or(|next| next > now) {
            return false;
        }
        let registrations = self.groups.iter_mut().flat_map(|group| &mut group.registrations);
        for resync in registrations.filter_map(|registration| registration.resync.as_mut()) {
            if now >= resync.next {
                resync.due = true;
                resync.next = now + resync.period;
            } else if idle {
                resync.due = false;
            }
        }
        true
    }

    /// Tells those who are due of an object, if their view has it.
    pub(super) fn distribute_resync(&mut self, object: &Arc<Object>) {
        let event = Event::Update { old: object.clone(), new: object.clone(), resync: true };
        for group in &self.groups {
            let mut due = group.registrations.iter().filter(|one| one.is_due()).peekable();
            if due.peek().is_some() && group.view.has(object) {
                due.for_each(|registration| registration.offer(&event));
            }
        }
    }

    /// Registrations that the present round is for.
    #[cfg(test)]
    pub(crate) fn due(&self) -> Vec<u64> {
        let registrations = self.groups.iter().flat_map(|group| &group.registrations);
        registrations.filter(|one| one.is_due()).map(|one| one.id).collect()
    }
}
