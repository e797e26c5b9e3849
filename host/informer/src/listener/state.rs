//! What a listener's lock guards, and what its loop does next.
//!
//! Used by the loop, by informers that offer events, and by whoever asks for numbers. Invariant: the lock is the
//! inner one (an informer's may be held outside it), is held for moments, and never across an await; what holds
//! an informer is dropped outside of it, since the informer may end there.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::breaker::{Breaker, Gate, HealthChange};
use super::config::{Ended, ListenerConfig};
use super::cursor::CURSOR_BATCH;
use super::lanes::Handler;
use super::metrics::{Aside, Metrics};
use super::observer::{Observer, Oversized};
use super::registrations::Registered;
use super::swap::{Swap, SwapReport};
use super::trial::{Trial, TrialState, TrialVerdict};
use crate::queue::{Queue, Taken};
use crate::view::View;

/// What a listener's handles share.
pub(super) struct Shared {
    pub(super) observer: Arc<dyn Observer>,
    state: Mutex<State>,
    /// Wakes the one loop of `run`.
    pub(super) wake: Notify,
    /// Wakes whoever waits for the sync, a removal or the end.
    changed: Notify,
}

pub(super) struct State {
    pub(super) config: ListenerConfig,
    pub(super) queue: Queue,
    pub(super) registrations: BTreeMap<u64, Registered>,
    pub(super) next_registration: u64,
    /// The gate: every healthy registration has its first list.
    pub(super) open: bool,
    pub(super) life: Life,
    /// A swap that waits for the lanes; the one before it is under way or done.
    pub(super) swap: Option<AskedSwap>,
    /// Handlers of swaps that never came about: they stop with the next one that does, or at the end.
    passed_over: Vec<Handler>,
    /// What the handlers are asked at the moment, apart from events.
    pub(super) aside: Option<Aside>,
    /// A subscription may have synced that the handlers have not been told of.
    pub(super) sync_changed: bool,
    /// The registrations whose sync the handlers are told of at the moment.
    pub(super) telling: Vec<u64>,
    /// A handler broke and is to be told of everything again (see `OnRestart::Replay`).
    pub(super) restart: bool,
    pub(super) breaker: Breaker,
    pub(super) trial: Trial,
    /// What the observer is to be told next.
    reports: Vec<Report>,
    pub(super) metrics: Metrics,
    /// Deliveries since the cursor last read on: live events must not starve it.
    pub(super) since_cursor: usize,
}

/// What the observer is told.
pub(super) enum Report {
    Health(HealthChange),
    Oversized(Oversized),
    Trial(TrialVerdict),
}

/// Where a listener is; it only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Life {
    /// `run` has not been called.
    New,
    /// Events flow.
    Running,
    /// What is queued is handed over, then it ends.
    Draining,
    /// It ends when no delivery is under way.
    Closing,
    /// `run` is over, or will not start any more.
    Ended,
}

/// A swap, with at least one handler, and who waits for it.
pub(super) struct AskedSwap {
    pub(super) swap: Swap,
    pub(super) report: oneshot::Sender<SwapReport>,
}

/// The handlers are asked something, for as long as this is there.
pub(super) struct Busy<'a>(&'a Shared);

/// What the loop does next.
pub(super) enum Step {
    Swap(AskedSwap),
    /// Tell the handlers that the subscription with this number has synced.
    Synced(u32),
    /// Read the cache on for this registration.
    Read(u64),
    /// Hand this over, as an event of the handler's subscription with this number, as the view shows it.
    Deliver(Box<Taken>, u32, Arc<View>),
    /// Until a delivery is done, something comes in, or the moment has come.
    Wait(Option<Instant>),
    End(Ended),
}

impl Shared {
    pub(super) fn new(config: ListenerConfig, observer: Arc<dyn Observer>) -> Self {
        let state = State {
            queue: Queue::new(config.bound, config.merge),
            config,
            registrations: BTreeMap::new(),
            next_registration: 0,
            open: false,
            life: Life::New,
            swap: None,
            passed_over: Vec::new(),
            aside: None,
            sync_changed: false,
            telling: Vec::new(),
            restart: false,
            breaker: Breaker::new(Instant::now()),
            trial: Trial::default(),
            reports: Vec::new(),
            metrics: Metrics::default(),
            since_cursor: 0,
        };
        Self { observer, state: Mutex::new(state), wake: Notify::new(), changed: Notify::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // See Indexer: going on after a panic elsewhere beats stopping for good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop begins, with so many lanes: false if it must not.
    pub(super) fn begin(&self, lanes: usize) -> bool {
        let mut state = self.lock();
        if state.life != Life::New {
            if state.life != Life::Ended {
                tracing::warn!("this listener runs already");
            }
            return false;
        }
        if lanes == 0 {
            drop(state);
            tracing::error!("a listener without handlers ends at once");
            self.over();
            return false;
        }
        state.life = Life::Running;
        state.queue.set_lanes(lanes);
        true
    }

    /// Asks for an end. One that is asked for already can only be hastened.
    pub(super) fn end(&self, life: Life) {
        let mut state = self.lock();
        if state.life == Life::New {
            drop(state);
            return self.over();
        }
        state.life = state.life.max(life);
        drop(state);
        self.wake.notify_one();
    }

    /// Nobody is left to do anything.
    pub(super) fn over(&self) {
        let mut state = self.lock();
        state.life = Life::Ended;
        let left = (state.swap.take(), std::mem::take(&mut state.passed_over));
        drop(state);
        self.changed.notify_waiters();
        // It holds informers, whose end must not come under a lock.
        drop(left);
    }

    /// Asks for a swap; none if it cannot come about. One that waits already is overtaken.
    pub(super) fn ask_for(&self, swap: Swap) -> Option<oneshot::Receiver<SwapReport>> {
        let (report, answer) = oneshot::channel();
        let mut state = self.lock();
        let asked = match state.life {
            Life::Ended => return None,
            _ if swap.handlers.is_empty() => return None,
            Life::New | Life::Running => state.swap.replace(AskedSwap { swap, report }),
            // Its handlers end with the others.
            Life::Draining | Life::Closing => Some(AskedSwap { swap, report }),
        };
        let overtaken = asked.map(|asked| {
            state.passed_over.extend(asked.swap.handlers);
            (asked.swap.subscriptions, asked.report)
        });
        drop(state);
        // As above; and whoever asked for it is told by its end.
        drop(overtaken);
        self.wake.notify_one();
        Some(answer)
    }

    /// These handlers do not take over.
    pub(super) fn pass_over(&self, handlers: Vec<Handler>) {
        self.lock().passed_over.extend(handlers);
    }

    /// All handlers that did not take over, those of a swap that waits included: none will any more.
    pub(super) fn passed_over(&self) -> Vec<Handler> {
        let mut state = self.lock();
        let mut handlers = std::mem::take(&mut state.passed_over);
        let asked = state.swap.take();
        drop(state);
        if let Some(AskedSwap { swap, .. }) = asked {
            handlers.extend(swap.handlers);
        }
        handlers
    }

    /// Whether the loop is to end as soon as it can.
    pub(super) fn is_closing(&self) -> bool {
        self.lock().life >= Life::Closing
    }

    /// Shows that the handlers are asked something.
    pub(super) fn aside(&self, what: Aside) -> Busy<'_> {
        self.lock().aside = Some(what);
        Busy(self)
    }

    /// Whoever waits looks again.
    pub(super) fn tell_waiters(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until `question` has an answer.
    pub(super) async fn wait_until<R>(&self, question: impl Fn(&State) -> Option<R>) -> R {
        loop {
            // Made before the look, so that no change after it is missed.
            let changed = self.changed.notified();
            let answer = question(&self.lock());
            match answer {
                Some(answer) => return answer,
                None => changed.await,
            }
        }
    }

    /// What to do now. Tells the observer what happened before.
    pub(super) fn step(&self, now: Instant) -> Step {
        let mut state = self.lock();
        let step = state.step(now);
        let reports = std::mem::take(&mut state.reports);
        drop(state);
        for report in reports {
            match report {
                Report::Health(change) => self.observer.health(&change),
                Report::Oversized(oversized) => self.observer.oversized(&oversized),
                Report::Trial(verdict) => self.observer.trial(&verdict),
            }
        }
        step
    }

    /// So many other handlers begin, on trial or not; no delivery is under way. Gives those that were overtaken.
    pub(super) fn take_over(
        &self,
        handlers: usize,
        config: Option<ListenerConfig>,
        trial: Option<NonZeroU32>,
    ) -> Vec<Handler> {
        let mut state = self.lock();
        if let Some(config) = config {
            state.configure(config);
        }
        state.queue.set_lanes(handlers);
        let passed_over = std::mem::take(&mut state.passed_over);
        let change = state.breaker.replaced(Instant::now());
        state.note(change);
        state.begin_trial(trial);
        drop(state);
        self.observer.swapped();
        passed_over
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.aside = None;
        state.telling.clear();
        drop(state);
        self.0.tell_waiters();
    }
}

impl State {
    /// Changes how events are treated, from the next one on.
    pub(super) fn configure(&mut self, config: ListenerConfig) {
        self.queue.configure(config.bound, config.merge);
        self.config = config;
    }

    fn step(&mut self, now: Instant) -> Step {
        let idle = self.queue.handing_over() == 0;
        if self.life >= Life::Closing {
            return if idle {
                Step::End(Ended::Closed { abandoned: self.queue.len() })
            } else {
                Step::Wait(None)
            };
        }
        if self.swap.is_some() {
            // The lanes finish what they have, and begin nothing new.
            if !idle {
                return Step::Wait(None);
            }
            // The handlers that a restart was for go.
            self.restart = false;
            return self.swap.take().map_or(Step::Wait(None), Step::Swap);
        }
        if self.trial.holds() {
            let ends = self.life == Life::Draining && idle;
            return if ends { self.drained() } else { Step::Wait(None) };
        }
        if self.restart && self.life == Life::Running {
            if !idle {
                return Step::Wait(None);
            }
            self.replay_all();
        }
        if let Some(number) = self.synced_untold() {
            if !idle {
                return Step::Wait(None);
            }
            self.tell_synced(number);
            return Step::Synced(number);
        }
        if let Some(step) = self.next_event(now) {
            return step;
        }
        if self.life == Life::Draining && idle {
            return self.drained();
        }
        Step::Wait(self.next_moment(now))
    }

    fn drained(&self) -> Step {
        Step::End(Ended::Drained { abandoned: self.queue.len() })
    }

    /// The handlers that begin are on trial for so many attempts, or not at all.
    pub(super) fn begin_trial(&mut self, attempts: Option<NonZeroU32>) {
        let forgiven = self.trial.begin(attempts);
        for id in &forgiven {
            self.queue.forgive(id);
        }
    }

    /// Keeps in mind that the breaker's state changed.
    pub(super) fn note(&mut self, change: Option<HealthChange>) {
        self.queue.hold(self.breaker.holds());
        self.reports.extend(change.map(Report::Health));
    }

    /// The observer is told by the loop, outside of locks. There is at most one report an object that is withheld,
    /// and one a transition or verdict, of which the loop makes each.
    pub(super) fn report(&mut self, report: Report) {
        self.reports.push(report);
    }

    /// When there may be something to do by itself: an answer, an event or a wish wakes the loop anyway.
    fn next_moment(&self, now: Instant) -> Option<Instant> {
        match self.breaker.gate(now) {
            _ if !self.open => None,
            Gate::Open if self.is_tried() => None,
            Gate::Open => self.queue.next_due(),
            // Nothing but what waits for a retry is there.
            Gate::Probe if self.queue.handing_over() == 0 => self.queue.next_due(),
            Gate::Probe => None,
            Gate::Shut => self.breaker.until(),
        }
    }

    /// Reading on, or handing over, if there is anything.
    fn next_event(&mut self, now: Instant) -> Option<Step> {
        match self.breaker.gate(now) {
            _ if !self.open => None,
            Gate::Open => self.read_or_deliver(now),
            Gate::Probe => self.probe(now),
            Gate::Shut => None,
        }
    }

    fn read_or_deliver(&mut self, now: Instant) -> Option<Step> {
        if self.life == Life::Running
            && self.wants_more()
            && let Some(id) = self.reading()
        {
            self.since_cursor = 0;
            return Some(Step::Read(id));
        }
        if self.is_tried() {
            return None;
        }
        let taken = self.queue.take(now)?;
        self.since_cursor += 1;
        self.deliver(taken)
    }

    /// On trial one event is handed over at a time, over all lanes: so nothing is under way when the trial has failed.
    fn is_tried(&self) -> bool {
        matches!(self.trial.state(), TrialState::OnTrial { .. }) && self.queue.handing_over() > 0
    }

    /// One event while no other is under way, the one that has broken handlers least often, wherever it stands: else a
    /// few poison objects would hold all others back.
    fn probe(&mut self, now: Instant) -> Option<Step> {
        if self.queue.handing_over() > 0 {
            return None;
        }
        if self.life == Life::Running
            && !self.queue.has_unbroken(now)
            && let Some(id) = self.reading()
        {
            return Some(Step::Read(id));
        }
        let taken = self.queue.take_least_broken(now)?;
        let event = format!("{} {}", taken.event.op(), taken.event.key());
        let step = self.deliver(taken)?;
        let change = self.breaker.probe(event);
        self.note(change);
        Some(step)
    }

    fn deliver(&self, taken: Taken) -> Option<Step> {
        // Entries of a removed registration are removed with it, so it is always there.
        let registered = self.registrations.get(&taken.id.registration)?;
        Some(Step::Deliver(Box::new(taken), registered.number, registered.view.clone()))
    }

    /// Whether the cursor should read on: little is ready, live events have had their share, or a lane has nothing
    /// to do because what is ready belongs to a slow one.
    fn wants_more(&self) -> bool {
        self.queue.ready() < CURSOR_BATCH / 2
            || self.since_cursor >= CURSOR_BATCH
            || (self.queue.hungry() && !self.queue.full())
    }
}

/// The informers' side of the listener, for registering at them.
pub(super) fn sink(shared: &Arc<Shared>) -> Arc<dyn crate::processor::Sink> {
    shared.clone()
}
