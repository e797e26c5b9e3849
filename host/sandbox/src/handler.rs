//! A plugin as the informer's event handler.
//!
//! One [`PluginHandler`] stands behind one listener. Its instance is in one of two states: none (at first,
//! after a fault, and when it was due to be recycled), or one that answered its last call. Invariant: an instance that trapped, overran or
//! was abandoned is never called again; the next event gets a fresh one, at once (when to try again is the
//! listener's business).

use std::sync::Arc;
use std::time::Instant;

use crate::bindings::hark::plugin::plugin_types::Failure;
use crate::cap::Cap;
use crate::context::Context;
use crate::guest_log::LogLevel;
use crate::instance::{Broken, Instance, Purpose};
use crate::outcome::{self, Fault};
use crate::output::Output;
use crate::plugin::Plugin;
use crate::recycle::{self, Notices};
use crate::text;
use crate::thread_clock::ThreadClock;
use crate::usage::Restart;
use hark_informer::cache::CacheReader;
use hark_informer::handler::{Delivery, Event, EventHandler, HandleFuture, Outcome};

/// Hands events to a plugin.
pub struct PluginHandler {
    setup: Setup,
    /// Taken out for the length of a call, so that a call which is dropped takes it along.
    instance: Option<Instance>,
    recycled: Notices,
    /// Counts the time of the thread that handles the events, from the first one on.
    clock: Option<ThreadClock>,
}

/// What instances are made of.
struct Setup {
    plugin: Plugin,
    context: Context,
    cache: Arc<dyn CacheReader>,
    output: Arc<Output>,
}

// === impl PluginHandler ===

impl PluginHandler {
    /// A handler without an instance yet: the first event makes one. Its thread's CPU time counts as the plugin's
    /// from then on, until it is dropped, on that thread.
    pub fn new(plugin: Plugin, context: Context, cache: Arc<dyn CacheReader>) -> Self {
        let output = Output::new(&context);
        let setup = Setup { plugin, context, cache, output };
        Self { setup, instance: None, recycled: Notices::default(), clock: None }
    }

    async fn attempt(&mut self, delivery: &Delivery) -> Outcome {
        let Setup { context: Context { limits, usage, .. }, output, .. } = &self.setup;
        self.clock.get_or_insert_with(|| ThreadClock::start(usage));
        if let Some(refusal) = too_large(&delivery.event, limits.object) {
            usage.hit(Cap::Object);
            return refusal;
        }
        let running = self.instance.take();
        output.begin(delivery);
        let outcome = match self.setup.call(running, delivery).await {
            Ok((instance, answer)) => {
                self.keep(instance);
                outcome::of_answer(answer)
            }
            Err(fault) => self.setup.thrown_away(fault),
        };
        self.setup.output.end();
        outcome
    }

    /// Keeps an instance that answered for the next event, unless it is due to be replaced.
    fn keep(&mut self, instance: Instance) {
        let Setup { context, output, .. } = &self.setup;
        let Some(why) = recycle::due(&context.limits, instance.events(), instance.memory()) else {
            self.instance = Some(instance);
            return;
        };
        context.usage.restart(Restart::Recycle);
        if let Some(line) = self.recycled.about(&why, Instant::now()) {
            output.host_line(LogLevel::Info, &line);
        }
    }
}

/// An event that the guest cannot be given.
fn too_large(event: &Event, limit: usize) -> Option<Outcome> {
    let size = match event {
        Event::Update { old, new, .. } => old.json().len().max(new.json().len()),
        Event::Add { object, .. } | Event::Delete { object, .. } => object.json().len(),
    };
    (size > limit).then(|| {
        Outcome::Permanent(format!(
            "the object has {}, more than the {} that the plugin may be handed (limits.object)",
            text::bytes(size),
            text::bytes(limit)
        ))
    })
}

// === impl Setup ===

impl Setup {
    /// The guest's answer, and the instance again if it gave one.
    async fn call(
        &self,
        running: Option<Instance>,
        delivery: &Delivery,
    ) -> Result<(Instance, Result<(), Failure>), Fault> {
        let instance = match running {
            Some(instance) => instance,
            None => self.start().await.map_err(|broken| self.examine(broken))?,
        };
        instance.handle(delivery).await.map_err(|broken| self.examine(broken))
    }

    async fn start(&self) -> Result<Instance, Broken> {
        let purpose = Purpose::Events(Arc::clone(&self.cache));
        Instance::start(&self.plugin, &self.context, &self.output, purpose).await
    }

    /// What happened to an instance; hands on its core dump, if there is one.
    fn examine(&self, broken: Broken) -> Fault {
        let fault = broken.fault(&self.context.limits);
        let Some(core_dumps) = &self.context.core_dumps else { return fault };
        let Some(dump) = broken.into_core_dump() else { return fault };
        match core_dumps.take(dump) {
            Ok(Some(path)) => fault.with(&format!(" (core dump, to be written to {})", path.display())),
            Ok(None) => fault,
            Err(why) => fault.with(&format!(" (no core dump: {why})")),
        }
    }

    /// Counts that an instance is lost; whoever is given the outcome says so.
    fn thrown_away(&self, fault: Fault) -> Outcome {
        let usage = &self.context.usage;
        match fault.restart() {
            Some(reason) => usage.restart(reason),
            None => usage.starve(),
        }
        fault.cap.into_iter().for_each(|cap| usage.hit(cap));
        fault.into()
    }
}

impl EventHandler for PluginHandler {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(self.attempt(delivery))
    }
}
