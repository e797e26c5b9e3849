//! One informer for everybody who wants the same objects: reflector, queue and cache of one selector.
//!
//! Made by the [factory](crate::factory); joined by [listeners](crate::listener). It owns two tasks, named in
//! their spans: `reflector` (list and watch into the DeltaFIFO) and `informer` (DeltaFIFO into the cache, then
//! to the listeners; resyncs; telling listeners whether the resource is refused or absent). Both end when the
//! last [`SharedInformer`] handle is dropped.
//!
//! What its users are promised, each kept by the part named: order per object (queue), the cache before the
//! event (processor), states may be skipped but not reordered (queue), deletions that only a relist noticed
//! (DeltaFIFO), re-creations as delete and add (processor), no event for what did not change (processor).

mod views;

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument;

use crate::delta_fifo::{DEFAULT_CAPACITY, DeltaFifo, DeltaFifoStats};
use crate::indexer::Indexer;
use crate::list_watch::ListerWatcher;
use crate::processor::Core;
use crate::reflector::{Reflector, ReflectorMetrics, ReflectorOptions, ReflectorStatus};
use crate::resource::Selector;
use crate::view::View;

pub use self::views::Index;
use self::views::Views;

/// How long a first list may take before the operator is told that it is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the file's head.
pub struct SharedInformer {
    selector: Selector,
    shared: Arc<Parts>,
    status: watch::Receiver<ReflectorStatus>,
    metrics: Arc<ReflectorMetrics>,
    runtime: Handle,
    _stop: DropGuard,
}

/// What the tasks share with the handle; they must not keep the handle alive.
struct Parts {
    core: Arc<Core>,
    views: Views,
    everything: Arc<View>,
    fifo: Arc<DeltaFifo>,
    /// A resync period was added or changed.
    resync_changed: Notify,
}

impl SharedInformer {
    /// Starts the informer's tasks on `runtime`.
    pub fn start(selector: Selector, source: Arc<dyn ListerWatcher>, runtime: &Handle) -> Self {
        let shared = Arc::new(Parts::new());
        let fifo = shared.fifo.clone();
        let stop = CancellationToken::new();
        let options = ReflectorOptions { name: selector.to_string(), ..ReflectorOptions::default() };
        let reflector = Reflector::new(source, fifo, options);
        let (status, metrics) = (reflector.status(), reflector.metrics());
        // The reflector names the informer in each of its lines itself.
        let span = tracing::info_span!("reflector");
        let cancel = stop.clone();
        runtime.spawn(async move { reflector.run(cancel).await }.instrument(span));
        let span = tracing::info_span!("informer", informer = %selector);
        runtime.spawn(run(shared.clone(), status.clone(), stop.clone()).instrument(span));
        Self { selector, shared, status, metrics, runtime: runtime.clone(), _stop: stop.drop_guard() }
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
        self.has_synced() && self.status.borrow().problem.is_none()
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
        let shared = Arc::new(Parts::new());
        let (_, status) = watch::channel(ReflectorStatus::default());
        Self {
            selector,
            shared,
            status,
            metrics: Arc::default(),
            runtime: Handle::current(),
            _stop: CancellationToken::new().drop_guard(),
        }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.shared.core
    }

    fn weak_core(&self) -> Weak<Core> {
        Arc::downgrade(&self.shared.core)
    }

    /// A registration's resync period may have changed.
    pub(crate) fn wake_resync(&self) {
        self.shared.resync_changed.notify_one();
    }
}

impl Parts {
    fn new() -> Self {
        let core = Arc::new(Core::new());
        let fifo = Arc::new(DeltaFifo::new(DEFAULT_CAPACITY, core.indexer.clone()));
        let (views, everything) = (Views::default(), Arc::new(View::of_everything()));
        Self { core, views, everything, fifo, resync_changed: Notify::new() }
    }
}

/// The informer task.
async fn run(parts: Arc<Parts>, status: watch::Receiver<ReflectorStatus>, stop: CancellationToken) {
    let pop = async {
        while parts.fifo.pop(|popped| parts.core.process(popped)).await.is_some() {
            // A long list must not keep its thread from the other tasks.
            tokio::task::consume_budget().await;
        }
    };
    let mut news = status.clone();
    let excuse = async {
        loop {
            let excused = excuses(&news.borrow_and_update());
            parts.core.with(|processor, _| processor.set_excused(excused));
            if news.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = pop => {}
        () = async { tokio::join!(excuse, resync(&parts), patience(&parts, status.clone())); } => {}
    }
    parts.fifo.close();
}

/// Whether the informer's trouble must not hold other subscriptions of a plugin back (delivery contract 3).
fn excuses(status: &ReflectorStatus) -> bool {
    status.problem.as_ref().is_some_and(|problem| !problem.kind.holds_others_back())
}

/// Says once that a first list takes long, if there is no trouble to report that would explain it.
async fn patience(parts: &Parts, status: watch::Receiver<ReflectorStatus>) {
    tokio::time::sleep(PATIENCE).await;
    let waiting = !parts.core.with(|processor, _| processor.synced());
    if waiting && status.borrow().problem.is_none() {
        tracing::info!("still waiting for the API server to answer the first list");
    }
}

/// Queues a round of `Sync` deltas whenever a registration's period is over (R-RS-2, R-RP-5). Never ends.
async fn resync(parts: &Parts) {
    loop {
        let changed = parts.resync_changed.notified();
        match parts.core.with(|processor, _| processor.next_resync()) {
            None => changed.await,
            Some(next) => tokio::select! { () = changed => {}, () = tokio::time::sleep_until(next) => {} },
        }
        if parts.core.with(|processor, _| processor.mark_due(Instant::now())) {
            parts.fifo.resync();
        }
    }
}
