//! The handler between a plugin's listener and its sandbox: times each attempt, and reports it to people, and to whoever
//! keeps dead letters.
//!
//! Made by `running`, one for each instance of a version. Invariant: what it is asked besides events reaches the plugin as
//! it is.

use std::sync::Arc;
use std::time::Duration;

use hark_informer::handler::{AsideFuture, Delivery, EventHandler, HandleFuture, Legacy, Stop};
use hark_sandbox::PluginHandler;
use tokio::time::Instant;

use super::observer::PluginObserver;
use crate::dead_letters::Worker;
use crate::output::{Attempt, Output};

/// See the file's head.
pub(super) struct Reporting {
    pub(super) inner: PluginHandler,
    pub(super) worker: Arc<Worker>,
    pub(super) observer: Arc<PluginObserver>,
    pub(super) output: Arc<Output>,
}

impl EventHandler for Reporting {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(async move {
            let begun = Instant::now();
            let outcome = self.inner.handle(delivery).await;
            let took: Duration = begun.elapsed();
            let number = usize::try_from(delivery.subscription).unwrap_or(usize::MAX);
            let worker = &self.worker;
            let subscription = worker.description.subscriptions.get(number).map_or("", |one| &one.name);
            self.output.attempt(&Attempt {
                plugin: &worker.plugin,
                generation: worker.generation,
                subscription,
                delivery,
                outcome: &outcome,
                took,
                faults: &self.observer.faults,
            });
            self.observer.attempted(worker, delivery, &outcome);
            outcome
        })
    }

    fn save<'a>(&'a mut self) -> AsideFuture<'a, Result<Option<Legacy>, String>> {
        self.inner.save()
    }

    fn restore<'a>(&'a mut self, legacy: Option<Legacy>) -> AsideFuture<'a, Result<(), String>> {
        self.inner.restore(legacy)
    }

    fn synced<'a>(&'a mut self, subscription: u32) -> AsideFuture<'a, ()> {
        self.inner.synced(subscription)
    }

    fn stop<'a>(&'a mut self, why: Stop) -> AsideFuture<'a, ()> {
        self.inner.stop(why)
    }
}
