//! A whole informer for one handler: reflector, DeltaFIFO, controller and cache (client-go's non-shared informer).
//!
//! For programs that want one callback and no listener; the [shared informer](crate::shared_informer) is for many,
//! with queues and retries of their own. Invariants: the cache has an object before the handler hears of it; the
//! handler hears of each object in order, as add, updates, delete, whatever it answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::handling::{DEFAULT_MAX_ATTEMPTS, Handling, ResourceEventHandler};
use super::{Controller, ControllerMetrics};
use crate::delta_fifo::{DEFAULT_CAPACITY, DeltaFifo};
use crate::indexer::Indexer;
use crate::list_watch::ListerWatcher;
use crate::reflector::{Reflector, ReflectorMetrics, ReflectorOptions, ReflectorStatus};

/// What can be set about an informer.
#[derive(Debug, Clone, PartialEq)]
pub struct InformerOptions {
    /// How often the handler is told of every object again; none, or zero: never (R-RS-1). Counted from the end
    /// of the first list, then from one resync to the next.
    pub resync_period: Option<Duration>,
    /// Attempts at one event that the handler wants to hear again; at least 1.
    pub max_attempts: u32,
    /// Deltas that may wait before the reflector is held back.
    pub capacity: usize,
    /// The reflector's own.
    pub reflector: ReflectorOptions,
}

impl Default for InformerOptions {
    fn default() -> Self {
        Self {
            resync_period: None,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            capacity: DEFAULT_CAPACITY,
            reflector: ReflectorOptions::default(),
        }
    }
}

/// An informer that has not been run. See the file's head.
///
/// ```no_run
/// # async fn example(source: std::sync::Arc<dyn hark_informer::list_watch::ListerWatcher>) {
/// use hark_informer::controller::{Informer, InformerOptions};
/// use hark_informer::handler::Event;
/// use tokio_util::sync::CancellationToken;
///
/// let print = |event: &Event| {
///     println!("{} {}", event.op(), event.key());
///     Ok(())
/// };
/// let informer = Informer::new(source, print, InformerOptions::default());
/// let handle = informer.handle();
/// let cancel = CancellationToken::new();
/// let running = tokio::spawn(informer.run(cancel.clone()));
/// if handle.synced().await {
///     println!("{} objects at {}", handle.indexer().len(), handle.last_resource_version());
/// }
/// cancel.cancel();
/// running.await.expect("the informer's task");
/// # }
/// ```
pub struct Informer<H> {
    reflector: Reflector<DeltaFifo>,
    controller: Controller<Handling<H>>,
    handle: InformerHandle,
}

/// What others see of an informer, running or not.
#[derive(Clone)]
pub struct InformerHandle {
    indexer: Arc<Indexer>,
    fifo: Arc<DeltaFifo>,
    status: watch::Receiver<ReflectorStatus>,
    synced: watch::Receiver<bool>,
    metrics: Arc<ControllerMetrics>,
    reflector_metrics: Arc<ReflectorMetrics>,
}

impl<H: ResourceEventHandler> Informer<H> {
    /// An informer of what `source` lists and watches, for `handler`.
    pub fn new(source: Arc<dyn ListerWatcher>, handler: H, options: InformerOptions) -> Self {
        let indexer = Arc::new(Indexer::new());
        let fifo = Arc::new(DeltaFifo::new(options.capacity, indexer.clone()));
        let (synced_sender, synced) = watch::channel(false);
        let handling = Handling::new(
            indexer.clone(),
            handler,
            options.resync_period,
            options.max_attempts,
            synced_sender,
        );
        let controller = Controller::new(fifo.clone(), Arc::new(handling));
        let reflector = Reflector::new(source, fifo.clone(), options.reflector);
        let handle = InformerHandle {
            indexer,
            fifo,
            status: reflector.status(),
            synced,
            metrics: controller.metrics(),
            reflector_metrics: reflector.metrics(),
        };
        Self { reflector, controller, handle }
    }

    /// A view of it that outlives [`Informer::run`].
    pub fn handle(&self) -> InformerHandle {
        self.handle.clone()
    }

    /// Lists, watches and calls the handler until cancelled; then all of it has ended (R-SI-3). What waits in the
    /// queue is left (R-CT-2). Runs in the caller's task.
    pub async fn run(self, cancel: CancellationToken) {
        tokio::join!(self.reflector.run(cancel.clone()), self.controller.run(cancel));
    }
}

impl InformerHandle {
    /// The cache.
    pub fn indexer(&self) -> &Arc<Indexer> {
        &self.indexer
    }

    /// Whether the handler was called for the whole first list. Never waits.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until [`InformerHandle::has_synced`]; false if the informer ended before.
    pub async fn synced(&self) -> bool {
        self.synced.clone().wait_for(|synced| *synced).await.is_ok()
    }

    /// The version up to which the reflector has come; empty before the first list (R-SI-5).
    pub fn last_resource_version(&self) -> String {
        self.status.borrow().resource_version.clone()
    }

    /// Where the reflector stands, and its trouble, if any.
    pub fn status(&self) -> watch::Receiver<ReflectorStatus> {
        self.status.clone()
    }

    /// What the process loop has done.
    pub fn metrics(&self) -> &ControllerMetrics {
        &self.metrics
    }

    /// What the reflector has counted.
    pub fn reflector_metrics(&self) -> &ReflectorMetrics {
        &self.reflector_metrics
    }

    /// How many deltas wait. Waits for a handler that is running.
    pub fn depth(&self) -> usize {
        self.fifo.depth()
    }
}
