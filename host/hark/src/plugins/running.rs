//! A plugin that runs: its listener and its thread.
//!
//! Made and owned by the manager. A plugin has one OS thread for all its life, with a small runtime of its own,
//! so that a guest that spins holds nobody else back; versions come and go on it (design section 5). A version with
//! several instances has a further thread for each. Invariant: guest code runs on those threads only.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread::Builder;

use hark_informer::factory::{Factory, SubscriptionSpec};
use hark_informer::handler::{EventHandler, Threaded, start_thread};
use hark_informer::listener::{
    Ended, Inherit, Listener, ListenerConfig, OnRestart, OnSwap, Registration, Subscription, Swap,
    SwapReport, TrialVerdict,
};
use hark_informer::resource::Selector;
use hark_sandbox::{Context, Description, Plugin, PluginHandler};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::Event;
use super::observer::{AtWork, PluginObserver};
use super::reporting::Reporting;
use super::starting::Ahead;
use crate::config::PluginConfig;
use crate::dead_letters::{DeadLetters, Worker};
use crate::output::Output;

/// One version of a plugin: compiled and described, ready to run.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) plugin: Plugin,
    pub(crate) context: Context,
    pub(crate) description: Arc<Description>,
    pub(crate) config: PluginConfig,
}

/// A version on its way into a listener: its handlers can be made once the listener, whose cache they read, is known.
pub(crate) struct Start {
    pub(crate) version: Version,
    /// Its instances, if it is one that is started ahead.
    pub(crate) ahead: Ahead,
    pub(crate) plugin: String,
    pub(crate) generation: u64,
    pub(crate) output: Arc<Output>,
    /// Its own, each with its informers.
    pub(crate) subscriptions: Vec<Subscription>,
    /// If it begins on trial.
    pub(crate) trial: Option<OnTrial>,
}

/// For how many attempts a version is on trial, and who waits for the verdict.
pub(crate) struct OnTrial {
    pub(crate) attempts: NonZeroU32,
    pub(crate) verdict: oneshot::Sender<TrialVerdict>,
}

/// See the file's head.
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) version: Version,
    listener: Listener,
    observer: Arc<PluginObserver>,
    ended: oneshot::Receiver<Ended>,
}

impl Version {
    /// Finds the informers of its subscriptions, for a plugin that has these registrations.
    ///
    /// # Errors
    /// What is wrong with a subscription: nothing that its description was not checked for; or that the informers
    /// have been shut down.
    pub(crate) fn subscribe(
        &self,
        factory: &Factory,
        before: &[Registration],
    ) -> Result<Vec<Subscription>, String> {
        let mut subscriptions = Vec::new();
        for (number, subscription) in (0..).zip(&self.description.subscriptions) {
            let joined = factory.subscribe_again(&spec(number, subscription), before);
            let joined = joined.map_err(|error| format!("subscription {}: {error}", subscription.name))?;
            subscriptions.extend(joined);
        }
        Ok(subscriptions)
    }

    /// How it is treated: as the operator says, else as the plugin proposes, else as is usual.
    pub(crate) fn treatment(&self) -> Treatment {
        let (operator, plugin) = (&self.config.treatment, &self.description.proposal);
        Treatment {
            on_reload: operator.on_reload.or(plugin.on_reload).unwrap_or(OnSwap::Replay),
            concurrency: operator.concurrency.or(plugin.concurrency).unwrap_or(1).max(1),
            listener: ListenerConfig {
                bound: self.config.queue,
                max_object: Some(self.config.limits.object),
                max_attempts: self.config.max_attempts,
                quarantine_after: self.config.quarantine_after,
                merge: operator.delivery.or(plugin.delivery).unwrap_or_default(),
                on_restart: operator.on_restart.or(plugin.on_restart).unwrap_or(OnRestart::Continue),
                ..ListenerConfig::default()
            },
        }
    }

    /// Its subscriptions, for people.
    pub(crate) fn summary(&self) -> String {
        let all = self.description.subscriptions.iter();
        all.map(|one| format!("{} ({} {})", one.name, one.api_version, one.kind))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// How a version is run.
#[derive(Clone)]
pub(crate) struct Treatment {
    pub(crate) on_reload: OnSwap,
    pub(crate) concurrency: usize,
    pub(crate) listener: ListenerConfig,
}

fn spec(number: u32, subscription: &hark_sandbox::Subscription) -> SubscriptionSpec {
    SubscriptionSpec {
        name: subscription.name.clone(),
        number,
        selector: Selector::new(&subscription.api_version, &subscription.kind)
            .with_labels(&subscription.label_selector)
            .with_fields(&subscription.field_selector),
        namespaces: subscription.namespaces.clone(),
        namespace_selector: subscription.namespace_selector.clone(),
        filter: subscription.filter.clone(),
        indexes: subscription.indexes.clone(),
        resync: subscription.resync,
    }
}

impl Start {
    /// Takes the trial out: so many attempts, and who waits.
    fn trial(&mut self) -> (Option<NonZeroU32>, Option<oneshot::Sender<TrialVerdict>>) {
        self.trial.take().map(|trial| (trial.attempts, trial.verdict)).unzip()
    }

    /// One handler for each instance. A single one works on the plugin's own thread; several have one each, since
    /// guest code blocks the thread that it runs on.
    ///
    /// # Errors
    /// If the system gives no thread.
    fn handlers(
        &mut self,
        listener: &Listener,
        observer: &Arc<PluginObserver>,
        worker: &Arc<Worker>,
    ) -> std::io::Result<Vec<Box<dyn EventHandler>>> {
        let count = self.version.treatment().concurrency;
        if count == 1 {
            return Ok(vec![self.handler(listener, observer, worker)]);
        }
        let mut threaded = |lane: usize| -> std::io::Result<Box<dyn EventHandler>> {
            let name = format!("plugin:{}/{lane}", self.plugin);
            let handler = self.handler(listener, observer, worker);
            Ok(Box::new(Threaded::spawn_on(Builder::new().name(name), handler, guest_runtime()?)?))
        };
        (0..count).map(&mut threaded).collect()
    }

    /// Who is at work once it has taken over.
    fn worker(&self) -> Arc<Worker> {
        Arc::new(Worker {
            plugin: self.plugin.clone(),
            hash: *self.version.plugin.hash(),
            generation: self.generation,
            description: self.version.description.clone(),
        })
    }

    fn handler(
        &mut self,
        listener: &Listener,
        observer: &Arc<PluginObserver>,
        worker: &Arc<Worker>,
    ) -> Box<dyn EventHandler> {
        let version = self.version.clone();
        Box::new(Reporting {
            inner: PluginHandler::new(
                version.plugin,
                version.context,
                listener.cache(),
                self.ahead.take(),
                self.ahead.reason(),
            ),
            worker: worker.clone(),
            observer: observer.clone(),
            output: self.output.clone(),
        })
    }
}

/// What drives the calls of one thread into guests: timers, and no sockets, which a guest may not have. They would cost
/// each thread four descriptors, and 4 KiB.
///
/// # Errors
/// If the system refuses.
pub(super) fn guest_runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_time().build()
}

impl Running {
    /// Starts the plugin's thread with its first version.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn spawn(
        mut start: Start,
        events: mpsc::Sender<Event>,
        dead_letters: DeadLetters,
    ) -> std::io::Result<Self> {
        let (name, version) = (start.plugin.clone(), start.version.clone());
        let worker = start.worker();
        let (attempts, verdict) = start.trial();
        let first = AtWork { worker: worker.clone(), verdict };
        let observer = PluginObserver::new(first, dead_letters, start.output.clone());
        let listener = Listener::new(version.treatment().listener, observer.clone());
        if let Some(attempts) = attempts {
            listener.put_on_trial(attempts);
        }
        let handlers = start.handlers(&listener, &observer, &worker)?;
        let thread = Builder::new().name(format!("plugin:{name}"));
        let runs = listener.clone();
        let work = async move { runs.run(handlers, start.subscriptions).await };
        let ended = launch(thread, Died { plugin: name.clone(), events }, work)?;
        Ok(Self { name, version, listener, observer, ended })
    }

    /// Its queue and registrations.
    pub(crate) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Replaces the version that runs, between two events; the new one is given what is to be inherited.
    ///
    /// # Errors
    /// If the system gives no thread: the old version goes on.
    pub(crate) fn swap(
        &self,
        mut start: Start,
        inherit: Inherit,
    ) -> std::io::Result<impl Future<Output = Option<SwapReport>> + Send + use<>> {
        let Treatment { on_reload, listener: config, .. } = start.version.treatment();
        let worker = start.worker();
        let handlers = start.handlers(&self.listener, &self.observer, &worker)?;
        // A version without `lifecycle` goes on whatever the one before saved, or could not.
        let inherit = if start.version.plugin.has_lifecycle() { inherit } else { Inherit::Nothing };
        let (trial, verdict) = start.trial();
        self.observer.expect(AtWork { worker, verdict });
        let swap = Swap::new(handlers, start.subscriptions, on_reload);
        Ok(self.listener.swap(Swap { config: Some(config), inherit, trial, ..swap }))
    }

    /// Whether a generation has passed its trial, unless a later one has.
    pub(crate) fn has_passed(&self, generation: u64) -> bool {
        self.observer.has_passed(generation)
    }

    /// Ends the plugin after the event under way; its instances stop then.
    pub(crate) fn close(&self) {
        self.listener.close();
    }

    /// Whether it has ended, or its thread is lost.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.ended.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }

    /// Ends the plugin after what is queued; its instances stop then.
    pub(crate) fn drain(&self) {
        self.listener.drain();
    }

    /// Waits for the end: how many events were left that were to be handled, or none if the thread was lost.
    pub(crate) async fn ended(self) -> Option<usize> {
        match self.ended.await.ok()? {
            Ended::Drained { abandoned } => Some(abandoned),
            // Its file is gone: what waited then was for nobody.
            Ended::Closed { .. } => Some(0),
        }
    }
}

/// Starts a plugin's thread, which ends with `work`.
///
/// # Errors
/// If the system gives no thread: nothing was done, and nobody has died.
fn launch<T: Send + 'static>(
    thread: Builder,
    died: Died,
    work: impl Future<Output = T> + Send + 'static,
) -> std::io::Result<oneshot::Receiver<T>> {
    let (sender, ended) = oneshot::channel();
    let run = move |(runtime, died): (Runtime, Died)| {
        let end = runtime.block_on(work);
        died.disarm();
        // Nobody waits for the end of a plugin that was removed.
        let _ = sender.send(end);
    };
    start_thread(thread, (guest_runtime()?, died), run).map_err(|(error, (runtime, died))| {
        // Neither may be dropped on this thread, which is an async one.
        runtime.shutdown_background();
        died.disarm();
        error
    })?;
    Ok(ended)
}

/// Says so when the thread ends in any other way than by returning.
struct Died {
    plugin: String,
    events: mpsc::Sender<Event>,
}

impl Died {
    fn disarm(mut self) {
        self.plugin.clear();
    }
}

impl Drop for Died {
    fn drop(&mut self) {
        if !self.plugin.is_empty() {
            let event = Event::Died { plugin: std::mem::take(&mut self.plugin) };
            // A plain thread: it may wait for room. The manager is gone only when the host stops.
            let _ = self.events.blocking_send(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_a_thread_a_plugin_is_not_started_and_nobody_has_died() {
        let (events, mut inbox) = mpsc::channel(1);
        let died = || Died { plugin: "a".into(), events: events.clone() };
        // A stack beyond all address space: the system refuses.
        let refused = launch(Builder::new().stack_size(1 << 50), died(), async { 1 });
        assert!(refused.is_err());
        assert!(inbox.try_recv().is_err(), "nothing was said");
        assert_eq!(launch(Builder::new(), died(), async { 2 }).expect("a thread").await, Ok(2));
        assert!(inbox.try_recv().is_err(), "it ended well");
        let lost = launch(Builder::new(), died(), async { panic!("on purpose") }).expect("a thread");
        assert!(lost.await.is_err());
        assert!(matches!(inbox.recv().await, Some(Event::Died { plugin }) if plugin == "a"));
    }
}
