//! One plugin's side of the informer: its registrations, its queue, and the loop that hands events over.
//!
//! A listener joins one or more informers, keeps one [queue](crate::queue) for all of them, and calls its
//! [`EventHandler`]s: one, or several for as many lanes. It decides when events may flow at all (the gate), reads
//! initial adds from the cache as it gets to them (the cursor), repeats what failed, and replaces its handlers
//! between two deliveries.
//!
//! With n handlers it has n lanes (delivery contract 3). A key always goes to the same lane, so its events never
//! overlap; the other lanes go on while one is slow. The lanes share the task that runs the listener: a handler
//! that blocks its thread belongs into a [`Threaded`](crate::handler::Threaded).
//!
//! Invariants: no event is delivered before the first list of every healthy registration is in the cache
//! (delivery contract 3); an object reaches the handler either by the cursor or as an event, never by both
//! (contract 4); a slow, failing, panicking or stuck handler holds nobody else back, since offering never blocks.
//!
//! | file | subject |
//! | --- | --- |
//! | `state` | what the lock guards, and what the loop does next |
//! | `lanes` | the handlers, and the calls under way |
//! | `registrations` | joining, keeping, leaving |
//! | `swap`, `hand_over` | other handlers take over; all stop |
//! | `sink` | what informers tell |
//! | `cursor` | initial adds from the cache |
//! | `outcome` | what becomes of an attempt |
//! | `breaker` | when nothing is handed over for a while, because too much breaks |
//! | `trial` | whether handlers that have just begun are any good |
//! | `admission` | what the queue takes in |
//! | `oversized` | objects that are too large to be handed over |
//! | `observer` | what whoever runs it is told |
//! | `redeliver` | telling again what was given up |
//! | `sync` | when all initial adds have been handled |
//! | `metrics` | numbers |
//! | `joined` | which informers serve it |
//! | `reader` | the cache as handlers see it |

mod admission;
mod breaker;
mod config;
mod cursor;
mod hand_over;
mod joined;
mod lanes;
mod metrics;
mod observer;
mod outcome;
mod oversized;
mod reach;
mod reader;
mod redeliver;
mod registrations;
mod sink;
mod state;
mod swap;
mod sync;
mod trial;

use std::num::NonZeroU32;
use std::sync::Arc;

use tokio::time::Instant;

pub use self::breaker::{Health, HealthChange, HealthState};
pub use self::config::{Ended, ListenerConfig, OnRestart, Removed, Subscription};
pub use self::joined::Joined;
use self::lanes::Lanes;
pub use self::metrics::{Aside, Histogram, ListenerStats, Outcomes};
pub use self::observer::{Observer, Oversized, on_given_up};
pub use self::reach::{Reach, Registration};
pub use self::redeliver::{Lost, LostEvent, Obsolete, Redelivered};
use self::state::{Life, Shared, Step};
pub use self::swap::{Failure, FellBack, HandOver, Inherit, OnSwap, Swap, SwapReport};
pub use self::trial::{TrialState, TrialVerdict};
use crate::cache::CacheReader;
use crate::handler::{Call, EventHandler, Stop};

/// See the file's head. A handle; cheap to clone.
#[derive(Clone)]
pub struct Listener {
    shared: Arc<Shared>,
}

/// Waiting for a call that the waiting is part of would never end. What was asked for has been done, but for the
/// waiting: client-go deadlocks here (R-EH-6, a deviation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("asked from inside a call of the handler, which cannot be waited for")]
pub struct InsideHandler;

impl Listener {
    /// A listener that has joined nothing yet.
    pub fn new(config: ListenerConfig, observer: Arc<dyn Observer>) -> Self {
        Self { shared: Arc::new(Shared::new(config, observer)) }
    }

    /// Joins the informers and hands events to `handlers`, one lane each, until [`Listener::close`] or
    /// [`Listener::drain`]. Without handlers nothing can be delivered, and it ends at once; so it does if it runs
    /// already or was closed before (R-SI-1). The handlers are called, replaced, stopped and dropped inside this future,
    /// nowhere else. It is over when all have stopped. If it is dropped, the listener is closed, and the calls under way
    /// are abandoned.
    pub async fn run(&self, handlers: Vec<Box<dyn EventHandler>>, subscriptions: Vec<Subscription>) -> Ended {
        let lanes = Lanes::new(handlers);
        if !self.shared.begin(lanes.len()) {
            self.stop(lanes, Stop::Closed).await;
            return Ended::Closed { abandoned: 0 };
        }
        let over = Over(&self.shared);
        self.shared.resubscribe(subscriptions, OnSwap::Continue);
        let ended = self.work(lanes).await;
        drop(over);
        ended
    }

    async fn work(&self, mut lanes: Lanes) -> Ended {
        let call = self.call();
        loop {
            let wake = self.shared.wake.notified();
            match self.shared.step(Instant::now()) {
                Step::Swap(asked) => lanes = self.hand_over(lanes, asked).await,
                Step::Synced(number) => self.tell_synced(&mut lanes, number).await,
                Step::Read(registration) => self.shared.read_on(registration),
                Step::Deliver(taken, number, view) => lanes.begin(*taken, number, view, call),
                Step::Wait(due) => tokio::select! {
                    biased;
                    done = lanes.next() => {
                        self.shared.complete(&done);
                        // Handlers that never wait must not keep the thread from other tasks.
                        tokio::task::consume_budget().await;
                    }
                    () = wake => {}
                    () = until(due) => {}
                },
                Step::End(ended) => {
                    self.stop_all(lanes, ended).await;
                    return ended;
                }
            }
        }
    }

    async fn tell_synced(&self, lanes: &mut Lanes, number: u32) {
        let _busy = self.shared.aside(Aside::Synced);
        lanes.tell(self.call(), "synced", |_, handler| handler.synced(number)).await;
    }

    /// Replaces the handlers between two deliveries, once no lane has one, and the subscriptions with them: those
    /// with the same name and informer are kept. The number of handlers may differ. The old handlers are asked to save,
    /// the new ones to restore, the old ones to stop; while that goes on, nothing is handed over.
    ///
    /// What is asked for stands at once, whether or not the answer is waited for. It is none if there are no handlers,
    /// or the listener ends first: the new handlers then stop with the listener, or are dropped if that has ended. A
    /// swap that still waits for the lanes is overtaken by a later one: its handlers stop with the old ones, and its
    /// answer is none. One that has begun is finished first.
    pub fn swap(&self, swap: Swap) -> impl Future<Output = Option<SwapReport>> + Send + use<> {
        let answer = self.shared.ask_for(swap);
        async move { answer?.await.ok() }
    }

    /// Puts the handlers that run, or that [`Listener::run`] is going to begin with, on trial for so many attempts. For
    /// other handlers see [`Swap::trial`].
    pub fn put_on_trial(&self, attempts: NonZeroU32) {
        self.shared.lock().begin_trial(Some(attempts));
    }

    /// After a trial that failed: hands events over again, to the same handlers, without a further trial. Otherwise it
    /// does nothing.
    pub fn go_on(&self) {
        if self.shared.lock().trial.go_on() {
            self.shared.wake.notify_one();
        }
    }

    /// Changes how events are treated, from the next one on, without a swap.
    #[cfg(test)]
    pub(crate) fn configure(&self, config: ListenerConfig) {
        self.shared.lock().configure(config);
    }

    /// Ends [`Listener::run`] once everything queued has been handled; nothing new is read from the cache,
    /// and events that wait for a retry, or in quarantine, are abandoned. Without waiting; again or after the end it does nothing.
    pub fn drain(&self) {
        self.shared.end(Life::Draining);
    }

    /// Ends [`Listener::run`] after the deliveries under way, without waiting for them: what is queued is dropped,
    /// and counted in [`Ended`] (R-EH-5, R-PL-7). Again or after the end it does nothing; before `run` it keeps
    /// that from starting.
    pub fn close(&self) {
        self.shared.end(Life::Closing);
    }

    /// As [`Listener::close`], and waits until the deliveries under way and `run` itself are over: afterwards no
    /// handler is called any more (R-EH-6), as all have stopped. Returns at once if `run` was never called.
    ///
    /// # Errors
    /// [`InsideHandler`] if a handler of this listener asks: the listener closes, but cannot be waited for. A
    /// handler that lets another task ask, and waits for that task, waits for ever.
    pub async fn close_and_wait(&self) -> Result<(), InsideHandler> {
        self.close();
        self.outside_of_handlers()?;
        self.shared.wait_until(|state| (state.life == Life::Ended).then_some(())).await;
        Ok(())
    }

    /// Leaves the informers of a subscription, without waiting for a delivery of it that is under way: what is
    /// queued of it is dropped. One that is unknown, or gone already, is no error (R-EH-5).
    pub fn remove(&self, subscription: &str) -> Removed {
        self.shared.unsubscribe(subscription).0
    }

    /// As [`Listener::remove`], and waits until no delivery of the subscription is under way (R-EH-6).
    ///
    /// # Errors
    /// [`InsideHandler`] if a handler of this listener asks: the subscription is gone, but its delivery may be the
    /// very one that asks.
    pub async fn remove_and_wait(&self, subscription: &str) -> Result<Removed, InsideHandler> {
        let (removed, registrations) = self.shared.unsubscribe(subscription);
        self.outside_of_handlers()?;
        let handled =
            |id: &u64, state: &state::State| !state.queue.handing_over_of(*id) && !state.telling.contains(id);
        self.shared.wait_until(|state| registrations.iter().all(|id| handled(id, state)).then_some(())).await;
        Ok(removed)
    }

    /// Whether every initial add of every healthy subscription has been handled: done, given up, or gone again
    /// before its turn (R-EH-7, R-PL-5). A subscription whose resource is forbidden or absent does not count
    /// until it is neither. False before `run` and after its end.
    ///
    /// A swap with [`OnSwap::Replay`] begins anew, as the new handler is to be told of everything.
    pub fn has_synced(&self) -> bool {
        self.shared.lock().synced() == Some(true)
    }

    /// Waits for [`Listener::has_synced`]: false if the listener ends before (R-EH-8: nobody waits for ever).
    pub async fn synced(&self) -> bool {
        self.shared
            .wait_until(|state| state.synced().filter(|synced| *synced || state.life == Life::Ended))
            .await
    }

    /// Whether every initial add of one subscription has been handled. Its own trouble does count: it is false for
    /// as long as its resource is forbidden or absent. False if there is no subscription of this name.
    pub fn subscription_has_synced(&self, name: &str) -> bool {
        self.shared.lock().subscription_synced(name) == Some(true)
    }

    /// Waits for [`Listener::subscription_has_synced`]: false if the listener ends or the subscription is removed
    /// before, or is none of a listener that runs.
    pub async fn subscription_synced(&self, name: &str) -> bool {
        let settled = |state: &state::State| match state.subscription_synced(name) {
            None if state.life == Life::New => None,
            Some(false) => None,
            settled => Some(settled == Some(true)),
        };
        self.shared.wait_until(settled).await
    }

    /// The cache as this listener's handler may read it.
    pub fn cache(&self) -> Arc<dyn CacheReader> {
        self.shared.clone()
    }

    /// Numbers of this moment.
    pub fn stats(&self) -> ListenerStats {
        self.shared.lock().stats()
    }

    /// How its handlers fare at this moment.
    pub fn health(&self) -> Health {
        self.shared.lock().breaker.health(Instant::now())
    }

    /// Whether its handlers are on trial, and how that goes.
    pub fn trial(&self) -> TrialState {
        self.shared.lock().trial.state()
    }

    /// How calls of this listener's handlers are marked.
    fn call(&self) -> Call {
        Call { listener: Arc::as_ptr(&self.shared).addr() }
    }

    fn outside_of_handlers(&self) -> Result<(), InsideHandler> {
        if Call::current() == Some(self.call()) { Err(InsideHandler) } else { Ok(()) }
    }
}

/// Waits for a moment, or for ever.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// The loop of `run` is over, in whatever way: it leaves its informers, and nobody waits for it any more.
struct Over<'a>(&'a Arc<Shared>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.resubscribe(Vec::new(), OnSwap::Continue);
        self.0.over();
    }
}

#[cfg(test)]
mod tests;
