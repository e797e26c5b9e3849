//! Hark's side: a factory, one informer a resource, and listeners that write down what they are told.
//!
//! Used by the player. Invariant: the library is used as any program would use it; no shorter back-off, no
//! hook for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hark_informer::client::{Client, ClientLimits};
use hark_informer::factory::{Factory, SubscriptionSpec};
use hark_informer::handler::DeleteReason;
use hark_informer::handler::{Delivery, Event as Happened, EventHandler, HandleFuture, Outcome};
use hark_informer::listener::{Listener, ListenerConfig, Subscription, on_given_up};
use hark_informer::object::{Ingest, Object};
use hark_informer::resource::Selector;
use hark_informer::shared_informer::SharedInformer;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::event::{Event, State, Told};
use super::recorder::Recorder;
use super::stage::{Held, LABEL, Resource, held};

/// See the file's head.
pub(super) struct Hark {
    recorder: Arc<Recorder>,
    resources: &'static [Resource],
    /// One for each resource: what every listener joins.
    subscriptions: Vec<Subscription>,
    listeners: BTreeMap<String, (Listener, JoinHandle<()>)>,
}

impl Hark {
    /// Makes the informers, which start at once; if `wider`, first those of all objects, from which the selected
    /// ones are served when they have their lists.
    pub(super) async fn start(
        url: &str,
        resources: &'static [Resource],
        selects: bool,
        wider: bool,
        recorder: Arc<Recorder>,
    ) -> Result<Self> {
        let client = Client::from_url(url, ClientLimits::default()).context("a client for Hark")?;
        let factory = Factory::new(client, Ingest::default(), Handle::current());
        let wide = if wider { Self::wide(&factory, resources).await? } else { Vec::new() };
        let mut subscriptions = Vec::new();
        for (number, resource) in (0..).zip(resources) {
            let all = Selector::new("v1", resource.kind());
            let selector = if selects { all.with_labels(LABEL) } else { all };
            let name = resource.plural().to_owned();
            let spec = SubscriptionSpec { name, number, selector, ..SubscriptionSpec::default() };
            subscriptions.extend(factory.subscribe(&spec)?);
        }
        let served = |subscription: &Subscription| {
            wide.iter().any(|informer| Arc::ptr_eq(informer, &subscription.informer))
        };
        ensure!(!wider || subscriptions.iter().all(served), "Hark served no selector from a wider informer");
        Ok(Self { recorder, resources, subscriptions, listeners: BTreeMap::new() })
    }

    /// Informers of everything, with their lists, and without a problem that would make the factory prefer others.
    async fn wide(factory: &Factory, resources: &[Resource]) -> Result<Vec<Arc<SharedInformer>>> {
        let mut informers = Vec::new();
        for resource in resources {
            let informer = factory.informer(&Selector::new("v1", resource.kind()))?;
            informer.status().wait_for(|status| status.synced && status.problem.is_none()).await?;
            informer.synced().await;
            informers.push(informer);
        }
        Ok(informers)
    }

    /// Adds a listener of all the informers, with as many lanes.
    pub(super) fn listen(&mut self, name: &str, resync: Option<Duration>, lanes: usize) {
        let subscriptions = self.subscriptions.iter().cloned();
        let subscriptions = subscriptions.map(|one| Subscription { resync, ..one }).collect();
        let handler = || -> Box<dyn EventHandler> {
            Box::new(Scribe {
                name: name.to_owned(),
                resources: self.resources,
                recorder: Arc::clone(&self.recorder),
            })
        };
        let handlers = (0..lanes).map(|_| handler()).collect();
        let book = Arc::clone(&self.recorder);
        let given_up = move |delivery: &Delivery, outcome: &Outcome| {
            let line = format!("{} was given up: {outcome:?}", delivery.event.key());
            book.write(|book| book.errors.push(line));
        };
        let listener = Listener::new(ListenerConfig::default(), on_given_up(given_up));
        let running = listener.clone();
        let task = tokio::spawn(async move {
            running.run(handlers, subscriptions).await;
        });
        self.listeners.insert(name.to_owned(), (listener, task));
    }

    /// Ends a listener and waits for its end.
    pub(super) async fn leave(&mut self, name: &str) {
        if let Some((listener, task)) = self.listeners.remove(name) {
            listener.close();
            // A task that panicked has told so on standard error, and its listener tells nothing any more.
            let _ = task.await;
        }
    }

    /// Whether an informer's cache has an object at a version.
    pub(super) fn caches(&self, key: &str, version: &str) -> bool {
        let indexers = self.resources.iter().zip(&self.subscriptions);
        indexers.map(|(resource, subscription)| (resource, subscription.informer.indexer())).any(
            |(resource, indexer)| {
                let objects = indexer.list();
                objects.iter().any(|object| {
                    key == resource.key(&object.key().to_string()) && object.resource_version() == version
                })
            },
        )
    }

    /// What a listener's handler can read of the cache, in small pages.
    pub(super) fn cache(&self, listener: &str) -> Result<BTreeMap<String, Held>> {
        let (listener, _) = self.listeners.get(listener).context("a listener")?;
        let (reader, mut cache) = (listener.cache(), BTreeMap::new());
        for (number, resource) in (0..).zip(self.resources) {
            let mut after = None;
            loop {
                let page = reader.list(number, "", after.as_ref(), 2)?;
                cache.extend(page.objects.iter().map(|object| (key(*resource, object), content(object))));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(cache)
    }

    /// Ends everything.
    pub(super) async fn stop(mut self) {
        while let Some(name) = self.listeners.keys().next().cloned() {
            self.leave(&name).await;
        }
    }
}

fn key(resource: Resource, object: &Object) -> String {
    resource.key(&object.key().to_string())
}

fn content(object: &Object) -> Held {
    held(&serde_json::from_str(object.json()).unwrap_or_default())
}

fn state(object: &Object) -> State {
    State { uid: object.uid().to_owned(), version: object.resource_version().to_owned() }
}

/// The handler: writes down and is done.
struct Scribe {
    name: String,
    resources: &'static [Resource],
    recorder: Arc<Recorder>,
}

impl EventHandler for Scribe {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        let told = match &delivery.event {
            Happened::Add { object, initial } => Told::Add { state: state(object), initial: *initial },
            Happened::Update { old, new, resync } => {
                Told::Update { old: state(old), new: state(new), resync: *resync }
            }
            Happened::Delete { object, reason } => {
                Told::Delete { state: state(object), unknown: *reason == DeleteReason::Unknown }
            }
        };
        let number = usize::try_from(delivery.subscription).unwrap_or_default();
        let event = Event { key: key(self.resources[number], delivery.event.object()), told };
        self.recorder.write(|book| book.told.entry(self.name.clone()).or_default().push(event));
        Box::pin(async { Outcome::Ok })
    }
}
