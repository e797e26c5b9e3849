//! A plugin as the informer's event handler.
//!
//! One [`PluginHandler`] stands behind one listener. Its instance is in one of two states: none (at first,
//! and after a fault), or one that answered its last call. Invariant: an instance that trapped, overran or
//! was abandoned is never called again; the next event gets a fresh one, at once (when to try again is the
//! listener's business).

use std::sync::Arc;
use std::time::Instant;

use hark_informer::cache::CacheReader;
use hark_informer::handler::{Delivery, Event, EventHandler, HandleFuture, Outcome};
use tokio::time::timeout;

use crate::bindings::hark::plugin::plugin_types::Failure;
use crate::context::Context;
use crate::guest_log::LogLevel;
use crate::instance::Instance;
use crate::outcome::{self, Fault};
use crate::output::Output;
use crate::plugin::Plugin;
use crate::text;

/// Hands events to a plugin.
pub struct PluginHandler {
    setup: Setup,
    /// Taken out for the length of a call, so that a call which is dropped takes it along.
    instance: Option<Instance>,
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
    /// A handler without an instance yet: the first event makes one.
    pub fn new(plugin: Plugin, context: Context, cache: Arc<dyn CacheReader>) -> Self {
        let output = Output::new(&context);
        Self { setup: Setup { plugin, context, cache, output }, instance: None }
    }

    async fn attempt(&mut self, delivery: &Delivery) -> Outcome {
        let Setup { context: Context { limits, .. }, output, .. } = &self.setup;
        if let Some(refusal) = too_large(&delivery.event, limits.object) {
            return refusal;
        }
        let running = self.instance.take();
        output.begin(delivery);
        let call = self.setup.call(running, delivery, limits.ends());
        let answer = timeout(limits.budget, call).await.unwrap_or_else(|_| Err(Fault::budget(limits)));
        let outcome = match answer {
            Ok((instance, answer)) => {
                self.instance = Some(instance);
                outcome::of_answer(answer)
            }
            Err(fault) => {
                output.host_line(
                    LogLevel::Warn,
                    "its instance is thrown away, with what it held in memory; the next event gets a fresh one",
                );
                fault.into()
            }
        };
        output.end();
        outcome
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
        ends: Instant,
    ) -> Result<(Instance, Result<(), Failure>), Fault> {
        let limits = &self.context.limits;
        let mut instance = match running {
            Some(instance) => instance,
            None => self
                .start(ends)
                .await
                .map_err(|error| Fault::of(&error, limits).during("while starting an instance"))?,
        };
        let answer = instance.handle(delivery, ends).await.map_err(|error| Fault::of(&error, limits))?;
        Ok((instance, answer))
    }

    async fn start(&self, ends: Instant) -> wasmtime::Result<Instance> {
        let cache = Some(Arc::clone(&self.cache));
        Instance::start(&self.plugin, &self.context, &self.output, cache, ends).await
    }
}

impl EventHandler for PluginHandler {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(self.attempt(delivery))
    }
}
