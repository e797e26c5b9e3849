//! One plugin's side of the informer: its registrations, its queue, and the loop that hands events over.
//!
//! A listener joins one or more informers, keeps one [queue](crate::queue) for all of them, and calls one
//! [`EventHandler`], one delivery at a time. It decides when events may flow at all (the gate), reads initial
//! adds from the cache as it gets to them (the cursor), repeats what failed, and replaces its handler between
//! two deliveries.
//!
//! Invariants: no event is delivered before the first list of every healthy registration is in the cache
//! (delivery contract 3); an object reaches the handler either by the cursor or as an event, never by both
//! (contract 4); a slow, failing or stuck handler holds nobody else back, since offering never blocks.

mod config;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

pub use self::config::{
    DeadLetterFn, Ended, ListenerConfig, ListenerStats, OnSwap, Subscription, SwapReport,
};
use crate::cache::{CacheProblem, CacheReader};
use crate::handler::{Delivery, Event, EventHandler, Outcome};
use crate::object::{Object, ObjectKey};
use crate::processor::Sink;
use crate::queue::{Cleared, EntryKey, Queue, Taken};
use crate::replay::{Phase, Replay};
use crate::shared_informer::SharedInformer;

/// Objects that the cursor takes from the cache at a time.
const CURSOR_BATCH: usize = 64;

/// See the file's head. A handle; cheap to clone.
#[derive(Clone)]
pub struct Listener {
    shared: Arc<Shared>,
}

struct Shared {
    dead_letter: DeadLetterFn,
    state: Mutex<State>,
    /// Wakes the one loop of `run`.
    wake: Notify,
}

struct State {
    config: ListenerConfig,
    queue: Queue,
    registrations: BTreeMap<u64, Registered>,
    next_registration: u64,
    open: bool,
    ending: Ending,
    swap: Option<Swap>,
    dead: u64,
    /// Deliveries since the cursor last read on: live events must not starve it.
    since_cursor: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Running,
    Draining,
    Closed,
}

struct Registered {
    name: String,
    number: u32,
    informer: Arc<SharedInformer>,
    phase: Phase,
    excused: bool,
}

struct Swap {
    handler: Box<dyn EventHandler>,
    subscriptions: Vec<Subscription>,
    on_swap: OnSwap,
    report: oneshot::Sender<SwapReport>,
}

/// What the loop does next.
enum Step {
    Swap(Swap),
    Read(u64),
    Deliver(Box<Taken>, u32),
    Wait(Option<Instant>),
    End(Ended),
}

impl Listener {
    /// A listener that has joined nothing yet. `dead_letter` is told of every event that is given up.
    pub fn new(config: ListenerConfig, dead_letter: DeadLetterFn) -> Self {
        let state = State {
            queue: Queue::new(config.bound, config.merge),
            config,
            registrations: BTreeMap::new(),
            next_registration: 0,
            open: false,
            ending: Ending::Running,
            swap: None,
            dead: 0,
            since_cursor: 0,
        };
        Self { shared: Arc::new(Shared { dead_letter, state: Mutex::new(state), wake: Notify::new() }) }
    }

    /// Joins the informers and hands events to `handler` until [`Listener::close`] or [`Listener::drain`].
    /// Call it once. The handler is called, replaced and dropped inside this future, nowhere else.
    pub async fn run(&self, mut handler: Box<dyn EventHandler>, subscriptions: Vec<Subscription>) -> Ended {
        let _over = Over(&self.shared);
        self.resubscribe(subscriptions, OnSwap::Continue);
        let ended = loop {
            let wake = self.shared.wake.notified();
            match self.shared.step(Instant::now()) {
                Step::Swap(swap) => {
                    handler = swap.handler;
                    let report = self.resubscribe(swap.subscriptions, swap.on_swap);
                    // The one who asked may have stopped waiting; the swap stands all the same.
                    let _ = swap.report.send(report);
                }
                Step::Read(registration) => self.shared.read_on(registration),
                Step::Deliver(taken, number) => {
                    let delivery = taken.delivery(number);
                    let outcome = handler.handle(&delivery).await;
                    self.shared.complete(&taken, &delivery, &outcome);
                }
                Step::Wait(Some(due)) => {
                    tokio::select! { () = wake => {}, () = tokio::time::sleep_until(due) => {} }
                }
                Step::Wait(None) => wake.await,
                Step::End(ended) => break ended,
            }
        };
        self.resubscribe(Vec::new(), OnSwap::Continue);
        ended
    }

    /// Replaces the handler between two deliveries, and the subscriptions with it: those with the same name
    /// and informer are kept. None if the listener ended, or another swap overtook this one.
    pub async fn swap(
        &self,
        handler: Box<dyn EventHandler>,
        subscriptions: Vec<Subscription>,
        on_swap: OnSwap,
    ) -> Option<SwapReport> {
        let (report, answer) = oneshot::channel();
        {
            let mut state = self.shared.lock();
            if state.ending != Ending::Running {
                return None;
            }
            state.swap = Some(Swap { handler, subscriptions, on_swap, report });
        }
        self.shared.wake.notify_one();
        answer.await.ok()
    }

    /// Changes how events are treated, from the next one on.
    pub fn configure(&self, config: ListenerConfig) {
        let mut state = self.shared.lock();
        state.queue.configure(config.bound, config.merge);
        state.config = config;
    }

    /// Ends [`Listener::run`] once everything queued has been handled; nothing new is read from the cache,
    /// and events that wait for a retry are abandoned.
    pub fn drain(&self) {
        self.end(Ending::Draining);
    }

    /// Ends [`Listener::run`] after the delivery under way.
    pub fn close(&self) {
        self.end(Ending::Closed);
    }

    fn end(&self, ending: Ending) {
        let mut state = self.shared.lock();
        if state.ending != Ending::Closed {
            state.ending = ending;
        }
        drop(state);
        self.shared.wake.notify_one();
    }

    /// The cache as this listener's handler may read it.
    pub fn cache(&self) -> Arc<dyn CacheReader> {
        self.shared.clone()
    }

    /// Numbers of this moment.
    pub fn stats(&self) -> ListenerStats {
        let state = self.shared.lock();
        ListenerStats {
            pending: state.queue.len(),
            retrying: state.queue.retrying(),
            merged: state.queue.merged(),
            dead: state.dead,
            open: state.open,
        }
    }

    /// Makes the registrations those of `subscriptions`. Runs between two deliveries.
    fn resubscribe(&self, subscriptions: Vec<Subscription>, on_swap: OnSwap) -> SwapReport {
        let sink: Arc<dyn Sink> = self.shared.clone();
        let mut report = SwapReport::default();
        let mut old = self.shared.registered();
        for subscription in subscriptions {
            let same = |(_, name, informer): &(u64, String, Arc<SharedInformer>)| {
                *name == subscription.name && Arc::ptr_eq(informer, &subscription.informer)
            };
            let informer = subscription.informer.clone();
            let resync = subscription.resync;
            if let Some(place) = old.iter().position(same) {
                let (id, ..) = old.swap_remove(place);
                report.kept += 1;
                informer.core().with(|processor, _| {
                    processor.set_resync(&sink, id, resync);
                    self.shared.keep(id, subscription.number, on_swap, processor.synced());
                });
            } else {
                report.added += 1;
                let id = self.shared.insert(subscription);
                informer.core().with(|processor, _| processor.register(&sink, id, resync));
            }
            informer.wake_resync();
        }
        for (id, _, informer) in old {
            report.removed += 1;
            informer.core().with(|processor, _| processor.unregister(&sink, id));
            // The informer may stop here, when its last user is gone: outside every lock.
            let (dropped, registered) = self.shared.remove(id);
            report.dropped += dropped;
            drop(registered);
        }
        self.shared.lock().reconsider_gate(true);
        report
    }
}

/// The loop of `run` is over, in whatever way: nobody is left to answer a swap.
struct Over<'a>(&'a Shared);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.ending = Ending::Closed;
        let swap = state.swap.take();
        drop(state);
        // It holds informers, whose end must not come under a lock.
        drop(swap);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // See Indexer: going on after a panic elsewhere beats stopping for good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn registered(&self) -> Vec<(u64, String, Arc<SharedInformer>)> {
        let state = self.lock();
        let registered = state.registrations.iter();
        registered.map(|(id, one)| (*id, one.name.clone(), one.informer.clone())).collect()
    }

    fn insert(&self, subscription: Subscription) -> u64 {
        let mut state = self.lock();
        let id = state.next_registration;
        state.next_registration += 1;
        let Subscription { name, number, informer, .. } = subscription;
        let registered = Registered { name, number, informer, phase: Phase::Waiting, excused: false };
        state.registrations.insert(id, registered);
        id
    }

    /// A registration goes on under a new handler. Called under its informer's lock.
    fn keep(&self, id: u64, number: u32, on_swap: OnSwap, synced: bool) {
        let mut state = self.lock();
        let State { queue, registrations, .. } = &mut *state;
        let Some(registered) = registrations.get_mut(&id) else { return };
        registered.number = number;
        if on_swap == OnSwap::Continue || !synced {
            return;
        }
        let Cleared { unseen, .. } = queue.clear(id, true);
        registered.phase = Phase::Replaying(registered.phase.restart(unseen));
    }

    fn remove(&self, id: u64) -> (usize, Option<Registered>) {
        let mut state = self.lock();
        let registered = state.registrations.remove(&id);
        (state.queue.clear(id, false).dropped, registered)
    }

    /// What to do now.
    fn step(&self, now: Instant) -> Step {
        let mut state = self.lock();
        if state.ending == Ending::Closed {
            return Step::End(Ended::Closed { abandoned: state.queue.len() });
        }
        if let Some(swap) = state.swap.take() {
            return Step::Swap(swap);
        }
        if state.open {
            if state.ending == Ending::Running
                && (state.queue.ready() < CURSOR_BATCH / 2 || state.since_cursor >= CURSOR_BATCH)
                && let Some(id) = state.reading()
            {
                state.since_cursor = 0;
                return Step::Read(id);
            }
            if let Some(taken) = state.queue.take(now) {
                state.since_cursor += 1;
                let number = state.registrations.get(&taken.id.registration).map(|one| one.number);
                // Entries of a removed registration are removed with it, so there is always a number.
                return Step::Deliver(Box::new(taken), number.unwrap_or_default());
            }
        }
        if state.ending == Ending::Draining {
            return Step::End(Ended::Drained { abandoned: state.queue.len() });
        }
        Step::Wait(state.queue.next_due())
    }

    /// Reads the next objects of the cache into the queue, as initial adds.
    fn read_on(&self, id: u64) {
        let Some(informer) = self.lock().registrations.get(&id).map(|one| one.informer.clone()) else {
            return;
        };
        informer.core().with(|_, indexer| {
            let mut state = self.lock();
            let State { queue, registrations, .. } = &mut *state;
            let Some(registered) = registrations.get_mut(&id) else { return };
            let Phase::Replaying(replay) = &mut registered.phase else { return };
            let objects = indexer.range("", replay.after(), CURSOR_BATCH);
            let last = objects.len() < CURSOR_BATCH;
            for object in objects {
                if let Some(shown) = replay.pass(object.key()) {
                    let entry = EntryKey { registration: id, object: object.key().clone() };
                    queue.push_initial(entry, object, SystemTime::now(), shown);
                }
            }
            if last {
                registered.phase = Phase::Live;
            }
        });
    }

    /// Settles what became of an attempt (delivery contract 9).
    fn complete(&self, taken: &Taken, delivery: &Delivery, outcome: &Outcome) {
        let broke = matches!(outcome, Outcome::Trap(_) | Outcome::Timeout(_));
        let mut state = self.lock();
        let dead = broke && taken.breaks + 1 >= state.config.max_attempts;
        match outcome {
            Outcome::Ok | Outcome::Permanent(_) => state.queue.finish(&taken.id),
            _ if dead => {
                state.dead += 1;
                state.queue.finish(&taken.id);
            }
            Outcome::Retry { after, .. } => {
                let wait = after.unwrap_or_else(|| state.config.backoff(taken.failures));
                state.queue.retry(&taken.id, Instant::now() + wait, false);
            }
            Outcome::Trap(_) | Outcome::Timeout(_) => {
                let wait = state.config.backoff(taken.failures);
                state.queue.retry(&taken.id, Instant::now() + wait, true);
            }
        }
        drop(state);
        if dead {
            (self.dead_letter)(delivery, outcome);
        }
    }
}

impl State {
    /// A registration whose cursor is under way.
    fn reading(&self) -> Option<u64> {
        let mut registrations = self.registrations.iter();
        registrations.find(|(_, one)| matches!(one.phase, Phase::Replaying(_))).map(|(id, _)| *id)
    }

    /// Opens the gate if no healthy registration waits for its first list. An open one closes only for new
    /// registrations (`fresh`).
    fn reconsider_gate(&mut self, fresh: bool) {
        let ready = |one: &Registered| one.excused || !matches!(one.phase, Phase::Waiting);
        if fresh || !self.open {
            self.open = self.registrations.values().all(ready);
        }
    }
}

impl Sink for Shared {
    fn offer(&self, registration: u64, event: Event) {
        let mut state = self.lock();
        let State { queue, registrations, .. } = &mut *state;
        let Some(registered) = registrations.get_mut(&registration) else { return };
        let takes = match &mut registered.phase {
            Phase::Waiting => false,
            Phase::Replaying(replay) => replay.takes(&event),
            Phase::Live => true,
        };
        if takes {
            let entry = EntryKey { registration, object: event.key().clone() };
            queue.push(entry, event, SystemTime::now());
            drop(state);
            self.wake.notify_one();
        }
    }

    fn synced(&self, registration: u64) {
        let mut state = self.lock();
        if let Some(registered) = state.registrations.get_mut(&registration)
            && matches!(registered.phase, Phase::Waiting)
        {
            registered.phase = Phase::Replaying(Replay::default());
        }
        state.reconsider_gate(false);
        drop(state);
        self.wake.notify_one();
    }

    fn excused(&self, registration: u64, excused: bool) {
        let mut state = self.lock();
        if let Some(registered) = state.registrations.get_mut(&registration) {
            registered.excused = excused;
        }
        state.reconsider_gate(false);
        drop(state);
        self.wake.notify_one();
    }
}

impl CacheReader for Shared {
    fn get(&self, subscription: u32, key: &ObjectKey) -> Result<Option<Arc<Object>>, CacheProblem> {
        let informers = self.informers(subscription)?;
        Ok(informers.iter().find_map(|informer| informer.core().indexer.get(key)))
    }

    fn list(
        &self,
        subscription: u32,
        namespace: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Object>>, CacheProblem> {
        let informers = self.informers(subscription)?;
        let ranges = informers.iter().map(|informer| informer.core().indexer.range(namespace, after, limit));
        let mut objects: Vec<Arc<Object>> = ranges.flatten().collect();
        objects.sort_by(|a, b| a.key().cmp(b.key()));
        objects.truncate(limit);
        Ok(objects)
    }
}

impl Shared {
    /// The informers of one subscription, all of them synced.
    fn informers(&self, number: u32) -> Result<Vec<Arc<SharedInformer>>, CacheProblem> {
        let state = self.lock();
        let mut informers = Vec::new();
        for registered in state.registrations.values().filter(|one| one.number == number) {
            if matches!(registered.phase, Phase::Waiting) {
                return Err(CacheProblem::NotSynced);
            }
            informers.push(registered.informer.clone());
        }
        if informers.is_empty() {
            return Err(CacheProblem::UnknownSubscription);
        }
        Ok(informers)
    }
}

#[cfg(test)]
mod tests;
