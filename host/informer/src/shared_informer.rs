//! One informer for everybody who wants the same objects: reflector, queue and cache of one selector.
//!
//! Made by the [factory](crate::factory); joined by [listeners](crate::listener). It owns two tasks, named in
//! their spans: `reflector` (list and watch into the DeltaFIFO) and `informer` (a [controller](crate::controller):
//! DeltaFIFO into the cache, then to the listeners; resyncs; telling listeners whether the resource is refused or
//! absent). Both end when the last [`SharedInformer`] handle is dropped or it is stopped; it never starts again
//! (R-SI-1).
//!
//! What its users are promised, each kept by the part named: order per object (queue), the cache before the
//! event (processor), states may be skipped but not reordered (queue), deletions that only a relist noticed
//! (DeltaFIFO), re-creations as delete and add (processor), no event for what did not change (processor).

mod task;
mod views;

use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::controller::Controller;
use crate::delta_fifo::{DEFAULT_CAPACITY, DeltaFifo, DeltaFifoStats};
use crate::indexer::Indexer;
use crate::list_watch::ListerWatcher;
use crate::processor::Core;
use crate::reflector::{Reflector, ReflectorMetrics, ReflectorOptions, ReflectorStatus};
use crate::resource::Selector;
use crate::view::View;

pub use self::views::Index;
use self::views::Views;

/// See the file's head.
pub struct SharedInformer {
    selector: Selector,
    shared: Arc<Parts>,
    status: watch::Receiver<ReflectorStatus>,
    metrics: Arc<ReflectorMetrics>,
    runtime: Handle,
    /// Tells the controller that a resync period was added or changed.
    rescheduled: Arc<Notify>,
    /// Ends the tasks; the guard does when the last handle is dropped.
    stop: CancellationToken,
    _stop: DropGuard,
    tasks: TaskTracker,
}

/// What the tasks share with the handle; they must not keep the handle alive.
struct Parts {
    core: Arc<Core>,
    views: Views,
    everything: Arc<View>,
    fifo: Arc<DeltaFifo>,
    /// Whether the first list is in the cache.
    synced: watch::Sender<bool>,
}

impl SharedInformer {
    /// Starts the informer's tasks on `runtime`, with client-go's defaults.
    pub fn start(selector: Selector, source: Arc<dyn ListerWatcher>, runtime: &Handle) -> Self {
        Self::start_with(selector, source, runtime, ReflectorOptions::default())
    }

    /// As [`SharedInformer::start`], with options for the reflector; it is named by the selector.
    pub fn start_with(
        selector: Selector,
        source: Arc<dyn ListerWatcher>,
        runtime: &Handle,
        options: ReflectorOptions,
    ) -> Self {
        let shared = Arc::new(Parts::new());
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let options = ReflectorOptions { name: selector.to_string(), ..options };
        let reflector = Reflector::new(source, shared.fifo.clone(), options);
        let (status, metrics) = (reflector.status(), reflector.metrics());
        let controller = Controller::new(shared.fifo.clone(), shared.clone());
        let rescheduled = controller.rescheduler();
        // The reflector names the informer in each of its lines itself.
        let span = tracing::info_span!("reflector");
        let cancel = stop.clone();
        tasks.spawn_on(async move { reflector.run(cancel).await }.instrument(span), runtime);
        let span = tracing::info_span!("informer", informer = %selector);
        let run = task::run(controller, shared.clone(), status.clone(), metrics.clone(), stop.clone());
        tasks.spawn_on(run.instrument(span), runtime);
        tasks.close();
        let _stop = stop.clone().drop_guard();
        let runtime = runtime.clone();
        Self { selector, shared, status, metrics, runtime, rescheduled, stop, _stop, tasks }
    }

    /// What this informer lists and watches.
    pub fn selector(&self) -> &Selector {
        &self.selector
    }

    /// The cache.
    pub fn indexer(&self) -> &Arc<Indexer> {
        &self.shared.core.indexer
    }

    /// Whether the first list is in the cache (client-go's HasSynced).
    pub fn has_synced(&self) -> bool {
        self.shared.core.with(|processor, _| processor.synced())
    }

    /// Whether the first list is in the cache, and nothing keeps it from being current.
    pub fn is_healthy(&self) -> bool {
        self.has_synced() && !self.is_excused() && self.status.borrow().problem.is_none()
    }

    /// Whether its resource is refused or absent, or it has stopped.
    pub(crate) fn is_excused(&self) -> bool {
        self.core().with(|processor, _| processor.excused())
    }

    /// Waits until the first list is in the cache: false if the informer is stopped before (R-SI-6).
    pub async fn synced(&self) -> bool {
        let mut synced = self.shared.synced.subscribe();
        tokio::select! {
            biased;
            // The sender is ours, so it cannot be gone.
            known = synced.wait_for(|synced| *synced) => known.is_ok(),
            () = self.stop.cancelled() => false,
        }
    }

    /// Stops list, watch and delivery of events, without waiting; what waits in the queue is dropped (R-CT-2). The
    /// cache stays as it is. If the first list was not in it, this informer holds no listener back any more.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// As [`SharedInformer::stop`], and waits until both tasks have ended (R-SI-3). Listeners go on with what they
    /// have queued. Any number may wait, at any time.
    pub async fn shutdown(&self) {
        self.stop();
        self.tasks.wait().await;
    }

    /// Whether both tasks have ended.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled() && self.tasks.is_empty()
    }

    /// Where the reflector stands, and its trouble, if any.
    pub fn status(&self) -> watch::Receiver<ReflectorStatus> {
        self.status.clone()
    }

    /// What the reflector has counted.
    pub fn metrics(&self) -> &Arc<ReflectorMetrics> {
        &self.metrics
    }

    /// The queue between the reflector and the cache, in numbers.
    pub fn queue(&self) -> DeltaFifoStats {
        self.shared.fifo.stats()
    }

    /// An informer without tasks, for tests that process deltas by hand.
    #[cfg(test)]
    pub(crate) fn idle(selector: Selector) -> Self {
        let (_, status) = watch::channel(ReflectorStatus::default());
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.close();
        Self {
            selector,
            shared: Arc::new(Parts::new()),
            status,
            metrics: Arc::default(),
            runtime: Handle::current(),
            rescheduled: Arc::default(),
            _stop: stop.clone().drop_guard(),
            stop,
            tasks,
        }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.shared.core
    }

    /// Does what the informer's task does with a popped delta, or with the end of the first list.
    #[cfg(test)]
    pub(crate) fn process(&self, delta: Option<&crate::delta_fifo::Delta>) {
        match delta {
            Some(delta) => self.shared.core.apply(delta),
            None => task::tell_synced(&self.shared),
        }
    }

    fn weak_core(&self) -> Weak<Core> {
        Arc::downgrade(&self.shared.core)
    }

    /// A registration's resync period may have changed.
    pub(crate) fn wake_resync(&self) {
        self.rescheduled.notify_one();
    }
}

impl Parts {
    fn new() -> Self {
        let core = Arc::new(Core::new());
        let fifo = Arc::new(DeltaFifo::new(DEFAULT_CAPACITY, core.indexer.clone()));
        let (views, everything) = (Views::default(), Arc::new(View::of_everything()));
        Self { core, views, everything, fifo, synced: watch::Sender::new(false) }
    }
}

#[cfg(test)]
pub(crate) mod tests;
