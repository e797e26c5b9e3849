//! What one shared informer does with a popped key: cache first, then every registration.
//!
//! Used by the shared informer's process loop and by listeners that join, leave or read on. Invariant: the
//! cache changes and its events are offered under one lock ([`Core::with`]), so a listener that reads the cache
//! under it sees exactly the events before that moment in the cache, and exactly those after as events.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::delta_fifo::{Delta, DeltaKind, Popped};
use crate::handler::{DeleteReason, Event};
use crate::indexer::Indexer;

/// Where events of one informer go: a listener, by the number that it gave its registration.
///
/// Called under the informer's lock; must not block and must not call the informer.
pub(crate) trait Sink: Send + Sync {
    /// Something happened to an object that is in the cache already.
    fn offer(&self, registration: u64, event: Event);
    /// The first list is in the cache: everything in it is the registration's to read.
    fn synced(&self, registration: u64);
    /// The informer cannot list its resource for a reason that must not hold other subscriptions back
    /// (forbidden, absent), or can again.
    fn excused(&self, registration: u64, excused: bool);
}

/// The cache of one informer and the registrations that hear of its changes.
pub(crate) struct Core {
    pub(crate) indexer: Arc<Indexer>,
    processor: Mutex<Processor>,
}

/// Fan-out to the registrations (client-go's sharedProcessor).
#[derive(Default)]
pub(crate) struct Processor {
    synced: bool,
    excused: bool,
    registrations: Vec<Registration>,
}

struct Registration {
    sink: Weak<dyn Sink>,
    id: u64,
    resync: Option<Resync>,
}

struct Resync {
    period: Duration,
    next: Instant,
    /// The present round of `Sync` deltas is for this registration (R-RP-5).
    due: bool,
}

impl Core {
    pub(crate) fn new() -> Self {
        Self { indexer: Arc::default(), processor: Mutex::default() }
    }

    /// Runs `work` while nothing changes the cache and no event is offered. Must not be called while a
    /// listener's lock is held: the informer's lock is the outer one.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Processor, &Indexer) -> R) -> R {
        work(&mut self.lock(), &self.indexer)
    }

    /// The process function of the DeltaFIFO.
    pub(crate) fn process(&self, popped: Popped) {
        let mut processor = self.lock();
        match popped {
            Popped::Synced => processor.become_synced(),
            Popped::Deltas { deltas, .. } => {
                for delta in deltas {
                    apply(&self.indexer, &mut processor, delta);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Processor> {
        // See Indexer: going on after a panic elsewhere beats stopping for good.
        self.processor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Brings one delta into the cache and tells of it. Presence in the cache decides between add and update
/// (R-PD-1); a state that the cache has already is no event (delivery contract 5); another uid under the same
/// name is a delete and an add (contract 7); what the cache never had is not deleted (contract 6).
fn apply(indexer: &Indexer, processor: &mut Processor, delta: Delta) {
    let Delta { kind, object, final_state_unknown } = delta;
    match kind {
        DeltaKind::Deleted => {
            let Some(known) = indexer.remove(object.key()) else { return };
            let same = known.uid() == object.uid();
            let reason =
                if final_state_unknown || !same { DeleteReason::Unknown } else { DeleteReason::Deleted };
            let object = if same { object } else { known };
            processor.distribute(&Event::Delete { object, reason });
        }
        DeltaKind::Sync => {
            if let Some(object) = indexer.get(object.key()) {
                processor.distribute_resync(&Event::Update {
                    old: object.clone(),
                    new: object,
                    resync: true,
                });
            }
        }
        DeltaKind::Added | DeltaKind::Updated | DeltaKind::Replaced => {
            let old = indexer.get(object.key());
            let unchanged = |old: &crate::object::Object| {
                old.uid() == object.uid() && old.resource_version() == object.resource_version()
            };
            match old {
                Some(old) if unchanged(&old) => {}
                Some(old) if old.uid() == object.uid() => {
                    indexer.upsert(object.clone());
                    processor.distribute(&Event::Update { old, new: object, resync: false });
                }
                Some(old) => {
                    indexer.upsert(object.clone());
                    processor.distribute(&Event::Delete { object: old, reason: DeleteReason::Unknown });
                    processor.distribute(&Event::Add { object, initial: false });
                }
                None => {
                    indexer.upsert(object.clone());
                    processor.distribute(&Event::Add { object, initial: false });
                }
            }
        }
    }
}

impl Processor {
    /// Whether the first list is in the cache.
    pub(crate) fn synced(&self) -> bool {
        self.synced
    }

    /// Adds a registration and tells it at once where the informer stands.
    pub(crate) fn register(&mut self, sink: &Arc<dyn Sink>, id: u64, resync: Option<Duration>) {
        if self.synced {
            sink.synced(id);
        } else if self.excused {
            sink.excused(id, true);
        }
        let resync = resync.map(|period| Resync { period, next: Instant::now() + period, due: false });
        self.registrations.push(Registration { sink: Arc::downgrade(sink), id, resync });
    }

    /// Removes a registration; an unknown one is no error (R-EH-5).
    pub(crate) fn unregister(&mut self, sink: &Arc<dyn Sink>, id: u64) {
        let sink = Arc::downgrade(sink);
        self.registrations.retain(|registration| registration.id != id || !registration.sink.ptr_eq(&sink));
    }

    /// Changes a registration's resync period.
    pub(crate) fn set_resync(&mut self, sink: &Arc<dyn Sink>, id: u64, period: Option<Duration>) {
        let sink = Arc::downgrade(sink);
        for registration in &mut self.registrations {
            if registration.id == id && registration.sink.ptr_eq(&sink) {
                let unchanged = registration.resync.as_ref().map(|resync| resync.period) == period;
                if !unchanged {
                    registration.resync =
                        period.map(|period| Resync { period, next: Instant::now() + period, due: false });
                }
            }
        }
    }

    /// When the next resync of any registration is due.
    pub(crate) fn next_resync(&self) -> Option<Instant> {
        self.registrations.iter().filter_map(|registration| Some(registration.resync.as_ref()?.next)).min()
    }

    /// Marks the registrations whose period is over (R-RP-5), and whether there was any.
    pub(crate) fn mark_due(&mut self, now: Instant) -> bool {
        let mut any = false;
        for resync in self.registrations.iter_mut().filter_map(|registration| registration.resync.as_mut()) {
            resync.due = now >= resync.next;
            if resync.due {
                resync.next = now + resync.period;
                any = true;
            }
        }
        any
    }

    /// Says whether the informer's resource is refused or absent.
    pub(crate) fn set_excused(&mut self, excused: bool) {
        if self.excused != excused {
            self.excused = excused;
            self.each(|sink, id| sink.excused(id, excused));
        }
    }

    fn become_synced(&mut self) {
        self.synced = true;
        self.each(|sink, id| sink.synced(id));
    }

    fn distribute(&mut self, event: &Event) {
        self.each(|sink, id| sink.offer(id, event.clone()));
    }

    fn distribute_resync(&mut self, event: &Event) {
        for registration in &self.registrations {
            if registration.resync.as_ref().is_some_and(|resync| resync.due)
                && let Some(sink) = registration.sink.upgrade()
            {
                sink.offer(registration.id, event.clone());
            }
        }
    }

    fn each(&self, mut tell: impl FnMut(&dyn Sink, u64)) {
        for registration in &self.registrations {
            if let Some(sink) = registration.sink.upgrade() {
                tell(&*sink, registration.id);
            }
        }
    }
}
