//! A plugin that runs: its listener, its thread, and the handler that reports each attempt.
//!
//! Made and owned by the manager. A plugin has one OS thread for all its life, with a small runtime of its own,
//! so that a guest that spins holds nobody else back; versions come and go on it (design section 5). Invariant:
//! guest code runs on that thread only.

use std::sync::Arc;
use std::time::Duration;

use hark_informer::factory::Factory;
use hark_informer::handler::{Delivery, EventHandler, HandleFuture};
use hark_informer::listener::{Ended, Listener, ListenerConfig, Subscription, SwapReport};
use hark_informer::resource::Selector;
use hark_sandbox::{Context, Description, LogLevel, Plugin, PluginHandler};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Event;
use crate::config::PluginConfig;
use crate::output::{Attempt, Output};

/// How long plugins may go on handling what is queued after a signal (design 4.14).
const DRAIN_BUDGET: Duration = Duration::from_secs(10);

/// One version of a plugin: compiled and described, ready to run.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) plugin: Plugin,
    pub(crate) context: Context,
    pub(crate) description: Arc<Description>,
    pub(crate) config: PluginConfig,
}

type MakeHandler = Box<dyn FnOnce(&Listener) -> Box<dyn EventHandler> + Send>;

/// What a listener needs to run a version. The handler is made once the listener, whose cache it reads, is known.
pub(crate) struct Start {
    make_handler: MakeHandler,
    subscriptions: Vec<Subscription>,
}

/// See the file's head.
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) version: Version,
    listener: Listener,
    ended: oneshot::Receiver<Ended>,
}

impl Version {
    /// Joins the informers of its subscriptions.
    pub(crate) fn start(
        &self,
        plugin: &str,
        generation: u64,
        factory: &Factory,
        output: &Arc<Output>,
    ) -> Start {
        let mut subscriptions = Vec::new();
        for (number, subscription) in (0..).zip(&self.description.subscriptions) {
            for selector in selectors(subscription) {
                let (name, informer) = (&subscription.name, factory.informer(&selector));
                subscriptions.push(Subscription {
                    resync: subscription.resync,
                    ..Subscription::to_everything(name, number, informer)
                });
            }
        }
        let (version, output, plugin) = (self.clone(), output.clone(), plugin.to_owned());
        let make_handler = move |listener: &Listener| -> Box<dyn EventHandler> {
            let inner = PluginHandler::new(version.plugin, version.context, listener.cache());
            Box::new(Reporting { inner, plugin, generation, description: version.description, output })
        };
        Start { make_handler: Box::new(make_handler), subscriptions }
    }

    /// Its subscriptions, for people.
    pub(crate) fn summary(&self) -> String {
        let all = self.description.subscriptions.iter();
        all.map(|one| format!("{} ({} {})", one.name, one.api_version, one.kind))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// One selector for each namespace.
fn selectors(subscription: &hark_sandbox::Subscription) -> Vec<Selector> {
    let base = Selector::new(&subscription.api_version, &subscription.kind)
        .with_labels(&subscription.label_selector)
        .with_fields(&subscription.field_selector);
    if subscription.namespaces.is_empty() {
        return vec![base];
    }
    subscription.namespaces.iter().map(|namespace| base.clone().in_namespace(namespace)).collect()
}

impl Running {
    /// Starts the plugin's thread with its first version.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn spawn(
        name: &str,
        start: Start,
        version: Version,
        output: Arc<Output>,
        events: mpsc::Sender<Event>,
    ) -> std::io::Result<Self> {
        let listener = Listener::new(listener_config(&version.config), dead_letter(name, output));
        let handler = (start.make_handler)(&listener);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (sender, ended) = oneshot::channel();
        let (runs, died) = (listener.clone(), Died { plugin: name.to_owned(), events });
        std::thread::Builder::new().name(format!("plugin:{name}")).spawn(move || {
            let end = runtime.block_on(runs.run(vec![handler], start.subscriptions));
            died.disarm();
            // Nobody waits for the end of a plugin that was removed.
            let _ = sender.send(end);
        })?;
        Ok(Self { name: name.to_owned(), version, listener, ended })
    }

    /// Its queue and registrations.
    pub(crate) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Replaces the version that runs, between two events.
    pub(crate) fn swap(
        &self,
        start: Start,
        config: &PluginConfig,
    ) -> impl Future<Output = Option<SwapReport>> + Send + use<> {
        self.listener.configure(listener_config(config));
        let (listener, on_swap) = (self.listener.clone(), config.on_reload);
        let handler = (start.make_handler)(&listener);
        async move { listener.swap(vec![handler], start.subscriptions, on_swap).await }
    }

    /// Ends the plugin after the event under way.
    pub(crate) fn close(&self) {
        self.listener.close();
    }

    /// Ends the plugin after what is queued.
    pub(crate) fn drain(&self) {
        self.listener.drain();
    }

    /// Waits for the end: how many events were left, or none if the thread was lost.
    pub(crate) async fn ended(self) -> Option<usize> {
        match self.ended.await.ok()? {
            Ended::Drained { abandoned } | Ended::Closed { abandoned } => Some(abandoned),
        }
    }
}

/// Lets every plugin finish what is queued, within [`DRAIN_BUDGET`].
pub(crate) async fn stop_all(plugins: Vec<Running>, output: &Output) {
    for plugin in &plugins {
        plugin.drain();
    }
    let deadline = Instant::now() + DRAIN_BUDGET;
    for plugin in plugins {
        let name = plugin.name.clone();
        match tokio::time::timeout_at(deadline, plugin.ended()).await {
            Ok(Some(abandoned)) if abandoned > 0 => {
                let message = format!("stopped with {abandoned} events not handled: they waited for a retry");
                output.news(&name, LogLevel::Warn, &message);
            }
            Ok(_) => {}
            Err(_) => {
                output.news(&name, LogLevel::Warn, "did not finish in time: events are left unhandled");
            }
        }
    }
}

fn listener_config(config: &PluginConfig) -> ListenerConfig {
    ListenerConfig { bound: config.queue, max_attempts: config.max_attempts, ..ListenerConfig::default() }
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

fn dead_letter(name: &str, output: Arc<Output>) -> hark_informer::listener::DeadLetterFn {
    let name = name.to_owned();
    Arc::new(move |delivery: &Delivery, outcome| {
        let (op, key, attempts) = (delivery.event.op(), delivery.event.key(), delivery.attempt);
        let why = outcome.message().unwrap_or_default();
        let message = format!("{op} {key} is given up (attempt {attempts} at this state): {why}");
        output.news(&name, LogLevel::Error, &message);
    })
}

/// Times each attempt and reports it.
struct Reporting {
    inner: PluginHandler,
    plugin: String,
    generation: u64,
    description: Arc<Description>,
    output: Arc<Output>,
}

impl EventHandler for Reporting {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(async move {
            let begun = Instant::now();
            let outcome = self.inner.handle(delivery).await;
            let took: Duration = begun.elapsed();
            let number = usize::try_from(delivery.subscription).unwrap_or(usize::MAX);
            let subscription = self.description.subscriptions.get(number).map_or("", |one| &one.name);
            self.output.attempt(&Attempt {
                plugin: &self.plugin,
                generation: self.generation,
                subscription,
                delivery,
                outcome: &outcome,
                took,
            });
            outcome
        })
    }
}
