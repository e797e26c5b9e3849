//! A plugin as the informer's event handler.
//!
//! One [`PluginHandler`] stands behind one listener. What the next call finds is its [`Seat`]. Invariants: an instance
//! that trapped, overran or was abandoned is never called again; the next event gets a fresh one, at once (when to try
//! again is the listener's business). What is asked of it between two events is in [`between`], how instances are made in
//! [`setup`].

mod between;
mod setup;

use std::sync::Arc;
use std::time::Instant;

use hark_informer::cache::CacheReader;
use hark_informer::handler::{
    AsideFuture, Delivery, Event, EventHandler, HandleFuture, Legacy, Outcome, Stop,
};

use self::setup::{Setup, Unready};
use crate::cap::Cap;
use crate::context::Context;
use crate::guest_log::LogLevel;
use crate::instance::Instance;
use crate::outcome;
use crate::output::Output;
use crate::plugin::Plugin;
use crate::recycle::{self, Notices};
use crate::saved::Saved;
use crate::starting::{StartReason, Started};
use crate::text;
use crate::thread_clock::ThreadClock;
use crate::usage::Restart;

/// Hands events to a plugin.
pub struct PluginHandler {
    setup: Setup,
    /// Empty for the length of a call, so that a call which is dropped takes the instance along.
    seat: Seat,
    /// Why the first instance begins.
    reason: StartReason,
    /// The instance has handled its last event.
    is_due: bool,
    recycled: Notices,
    /// Counts the time of the thread that handles the events, from the first call on.
    clock: Option<ThreadClock>,
}

/// What the next call finds. It is taken and put back with each event.
enum Seat {
    /// No instance: one is made for the next event.
    Empty(Next),
    /// One that answered its last call.
    Taken(Instance),
}

/// The instance to come.
struct Next {
    reason: StartReason,
    /// What the one before left to it; none: that is lost, or there was none.
    left: Option<Saved>,
}

// === impl PluginHandler ===

impl PluginHandler {
    /// A handler for one version of a plugin, `started` with the same `context` for this `reason`. Without a started
    /// instance the first event makes one. Its thread's CPU time counts as the plugin's from the first call on, until it
    /// is dropped, on that thread.
    pub fn new(
        plugin: Plugin,
        context: Context,
        cache: Arc<dyn CacheReader>,
        started: Option<Started>,
        reason: StartReason,
    ) -> Self {
        let (seat, output) = match started.and_then(Started::into_inner) {
            Some(ahead) => (Seat::Taken(ahead.instance), ahead.output),
            None => (Seat::Empty(Next { reason, left: None }), Output::new(&context)),
        };
        let setup = Setup { plugin, context, cache, output };
        Self { setup, seat, reason, is_due: false, recycled: Notices::default(), clock: None }
    }

    async fn attempt(&mut self, delivery: &Delivery) -> Outcome {
        if let Some(refusal) = too_large(&delivery.event, self.setup.context.limits.object) {
            self.setup.context.usage.hit(Cap::Object);
            return refusal;
        }
        let seat = self.begin(Some(delivery));
        let outcome = self.deliver(seat, delivery).await;
        self.setup.output.end();
        if self.is_due {
            self.retire().await;
        }
        outcome
    }

    async fn deliver(&mut self, seat: Seat, delivery: &Delivery) -> Outcome {
        let mut instance = match seat {
            Seat::Taken(instance) => instance,
            Seat::Empty(next) => match self.setup.make(next).await {
                Ok(instance) => instance,
                Err(Unready { outcome, next }) => {
                    self.seat = Seat::Empty(next);
                    return outcome;
                }
            },
        };
        instance.sees(&self.setup.cache);
        match instance.handle(delivery).await {
            Ok((instance, answer)) => {
                self.keep(instance);
                outcome::of_answer(answer)
            }
            Err(broken) => self.setup.thrown_away(self.setup.examine(broken)),
        }
    }

    /// A call begins: takes what it finds, and lets lines belong to its event.
    fn begin(&mut self, delivery: Option<&Delivery>) -> Seat {
        self.clock.get_or_insert_with(|| ThreadClock::start(&self.setup.context.usage));
        self.setup.output.begin(delivery);
        std::mem::replace(&mut self.seat, Seat::Empty(Next::after_a_fault()))
    }

    /// Keeps an instance that answered for the next event, unless it is due to be replaced.
    fn keep(&mut self, instance: Instance) {
        let Setup { plugin, context, output, .. } = &self.setup;
        if let Some(why) = recycle::due(&context.limits, instance.events(), instance.memory()) {
            context.usage.restart(Restart::Recycle);
            if let Some(line) = self.recycled.about(&why, plugin.has_lifecycle(), Instant::now()) {
                output.host_line(LogLevel::Info, &line);
            }
            self.is_due = true;
        }
        self.seat = Seat::taken(instance);
    }
}

/// An event that the guest cannot be given.
fn too_large(event: &Event, limit: usize) -> Option<Outcome> {
    let size = match event {
        Event::Update { old, new, .. } => old.json().len().max(new.json().len()),
        event => event.object().json().len(),
    };
    (size > limit).then(|| {
        Outcome::Permanent(format!(
            "the object has {}, more than the {} that the plugin may be handed (limits.object)",
            text::bytes(size),
            text::bytes(limit)
        ))
    })
}

// === impl Seat ===

impl Seat {
    fn taken(instance: Instance) -> Self {
        Self::Taken(instance.rests())
    }
}

impl Next {
    /// After an instance that broke, or was abandoned.
    fn after_a_fault() -> Self {
        Self { reason: StartReason::Restart, left: None }
    }
}

impl EventHandler for PluginHandler {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(self.attempt(delivery))
    }

    fn save<'a>(&'a mut self) -> AsideFuture<'a, Result<Option<Legacy>, String>> {
        Box::pin(self.leave())
    }

    fn restore<'a>(&'a mut self, legacy: Option<Legacy>) -> AsideFuture<'a, Result<(), String>> {
        Box::pin(self.inherit(legacy))
    }

    fn synced<'a>(&'a mut self, subscription: u32) -> AsideFuture<'a, ()> {
        Box::pin(self.tell_synced(subscription))
    }

    fn stop<'a>(&'a mut self, why: Stop) -> AsideFuture<'a, ()> {
        Box::pin(self.end(why))
    }
}
