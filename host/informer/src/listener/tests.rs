//! The listener with real informers' caches and hand-made deltas. Here: what the tests share.

mod breaker;
mod breaker_model;
mod delivery;
mod hand_over;
mod joined;
mod lanes;
mod lives;
mod model;
mod oversized;
mod redelivery;
mod redelivery_model;
mod removal;
mod restarts;
mod resyncs;
mod retries;
mod swaps;
mod sync;
mod synced;
mod trial;
mod trial_model;
mod views;

use std::sync::Mutex as StdMutex;
use std::time::Duration;

use super::*;
use crate::cache::CacheProblem;
use crate::delta_fifo::{Delta, DeltaKind};
use crate::handler::{Delivery, Event, HandleFuture, Outcome};
use crate::object::{Object, ObjectKey};
use crate::queue::Merge;
use crate::resource::Selector;
use crate::shared_informer::SharedInformer;
use crate::testing::object;

/// What handlers were told, in order: generation and event.
type Told = Arc<StdMutex<Vec<(u32, Event)>>>;

/// Decides what an attempt comes to.
type Script = Box<dyn FnMut(&Delivery) -> Outcome + Send>;

struct Recorder {
    generation: u32,
    told: Told,
    script: Script,
    /// Attempts that failed.
    tried: Told,
}

impl EventHandler for Recorder {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(async move {
            let outcome = (self.script)(delivery);
            let told = if outcome == Outcome::Ok { &self.told } else { &self.tried };
            told.lock().expect("told").push((self.generation, delivery.event.clone()));
            tokio::task::yield_now().await;
            outcome
        })
    }
}

fn recorder(generation: u32, told: &Told) -> Box<dyn EventHandler> {
    Box::new(Recorder {
        generation,
        told: told.clone(),
        script: Box::new(|_| Outcome::Ok),
        tried: Told::default(),
    })
}

fn scripted(told: &Told, script: impl FnMut(&Delivery) -> Outcome + Send + 'static) -> Box<dyn EventHandler> {
    Box::new(Recorder { generation: 1, told: told.clone(), script: Box::new(script), tried: Told::default() })
}

/// Registrations kept, added and removed; events dropped.
fn counts(report: &SwapReport) -> (usize, usize, usize, usize) {
    (report.kept, report.added, report.removed, report.dropped)
}

fn retry() -> Outcome {
    Outcome::Retry { message: "not now".into(), after: None }
}

fn informer(kind: &str) -> Arc<SharedInformer> {
    Arc::new(SharedInformer::idle(Selector::new("v1", kind)))
}

fn subscription(name: &str, number: u32, informer: &Arc<SharedInformer>) -> Subscription {
    Subscription::to_everything(name, number, informer.clone())
}

/// A runtime for a script, with time that passes when nothing else is to be done.
fn paused() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| error.to_string())
}

fn listener() -> Listener {
    Listener::new(ListenerConfig::default(), Arc::new(()))
}

fn process(informer: &SharedInformer, kind: DeltaKind, object: &Arc<Object>, unknown: bool) {
    informer.process(Some(&Delta { kind, object: object.clone(), final_state_unknown: unknown }));
}

fn put(informer: &SharedInformer, key: &str, uid: &str, version: u32) {
    process(informer, DeltaKind::Updated, &object(key, uid, &version.to_string()), false);
}

fn remove(informer: &SharedInformer, key: &str, uid: &str, version: u32) {
    process(informer, DeltaKind::Deleted, &object(key, uid, &version.to_string()), false);
}

fn synced(informer: &SharedInformer) {
    informer.process(None);
}

/// Lets everything that can happen happen. Time is paused, so this waits for nothing but the tasks, and moves
/// on to the next retry when they are idle.
async fn settle(listener: &Listener) {
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let state = listener.shared.lock();
        let idle = state.queue.len() == 0
            && state.reading().is_none()
            && state.swap.is_none()
            && state.aside.is_none()
            && !state.sync_changed;
        if idle || !state.open {
            return;
        }
    }
}

fn lines(told: &Told) -> Vec<String> {
    let told = told.lock().expect("told");
    told.iter()
        .map(|(_, event)| {
            let version = event.object().resource_version();
            let (op, key) = (event.op(), event.key());
            match event {
                Event::Add { initial: true, .. } => format!("{op} {key} {version} initial"),
                Event::Add { .. } => format!("{op} {key} {version}"),
                Event::Update { old, resync, .. } => {
                    format!(
                        "{op} {key} {}->{version}{}",
                        old.resource_version(),
                        if *resync { " resync" } else { "" }
                    )
                }
                Event::Delete { reason, .. } => format!("{op} {key} {version} {}", reason.as_str()),
            }
        })
        .collect()
}

/// Runs the listener with one subscription, `pods`, in a task of its own.
fn start(
    listener: &Listener,
    handlers: Vec<Box<dyn EventHandler>>,
    pods: &Arc<SharedInformer>,
) -> tokio::task::JoinHandle<Ended> {
    let (running, joined) = (listener.clone(), vec![subscription("pods", 0, pods)]);
    tokio::spawn(async move { running.run(handlers, joined).await })
}

/// A handler that says what it was given and waits for a permit before it answers.
struct Gated {
    told: Told,
    gate: Arc<tokio::sync::Semaphore>,
}

impl EventHandler for Gated {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(async move {
            self.told.lock().expect("told").push((1, delivery.event.clone()));
            self.gate.acquire().await.expect("the gate stays").forget();
            Outcome::Ok
        })
    }
}

fn gated(told: &Told) -> (Box<dyn EventHandler>, Arc<tokio::sync::Semaphore>) {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    (Box::new(Gated { told: told.clone(), gate: gate.clone() }), gate)
}

/// Lets every task do what it can without time going on.
async fn idle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
