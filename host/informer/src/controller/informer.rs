//! A whole informer for one handler: reflector, DeltaFIFO, controller and cache (client-go's non-shared informer).
//!
//! For programs that want one callback and no listener; the [shared informer](crate::shared_informer) is for many,
//! with queues and retries of their own. Invariants: the cache has an object before the handler hears of it; the
//! handler hears of each object in order, as add, updates, delete, whatever it answers.
//!
//! # A handler that fails
//!
//! The handler is called in the process step (R-PD-9), so that what it blocks is this informer and nothing else.
//! After [`ProcessError::Retry`] the delta is processed again, at most `max_attempts` times in a row; a panic and
//! [`ProcessError::GiveUp`] are not repeated. The cache is ahead of the handler meanwhile: what the handler was
//! told last is remembered for such a key, and the key's next event is told from there. An add that was given
//! up comes again as an add with the next change or resync, and no update or delete of it comes before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Controller, ControllerMetrics, Process, ProcessError, guarded, transition};
use crate::delta_fifo::{DEFAULT_CAPACITY, Delta, DeltaFifo, DeltaKind};
use crate::handler::Event;
use crate::indexer::Indexer;
use crate::list_watch::ListerWatcher;
use crate::object::{Object, ObjectKey};
use crate::reflector::{Reflector, ReflectorOptions, ReflectorStatus};

/// Attempts at one event (delivery contract 9).
pub const DEFAULT_MAX_ATTEMPTS: u32 = 10;

/// What hears of changes. Any `FnMut(&Event) -> Result<(), ProcessError>` is one.
///
/// It is called again after a panic, so what it keeps has to bear that.
pub trait ResourceEventHandler: Send {
    /// Hears of one change, which is in the cache already. Not async: the informer waits for it.
    ///
    /// # Errors
    /// [`ProcessError::Retry`] to hear of it again, [`ProcessError::GiveUp`] to have it counted as lost.
    fn handle(&mut self, event: &Event) -> Result<(), ProcessError>;
}

impl<F: FnMut(&Event) -> Result<(), ProcessError> + Send> ResourceEventHandler for F {
    fn handle(&mut self, event: &Event) -> Result<(), ProcessError> {
        self(event)
    }
}

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
}

impl<H: ResourceEventHandler> Informer<H> {
    /// An informer of what `source` lists and watches, for `handler`.
    pub fn new(source: Arc<dyn ListerWatcher>, handler: H, options: InformerOptions) -> Self {
        let indexer = Arc::new(Indexer::new());
        let fifo = Arc::new(DeltaFifo::new(options.capacity, indexer.clone()));
        let (synced_sender, synced) = watch::channel(false);
        let handling = Handling {
            indexer: indexer.clone(),
            resync_period: options.resync_period.filter(|period| !period.is_zero()),
            max_attempts: options.max_attempts.max(1),
            synced: synced_sender,
            told: Mutex::new(Told { handler, behind: HashMap::new(), next_resync: None }),
        };
        let controller = Controller::new(fifo.clone(), Arc::new(handling));
        let reflector = Reflector::new(source, fifo.clone(), options.reflector);
        let (status, metrics) = (reflector.status(), controller.metrics());
        let handle = InformerHandle { indexer, fifo, status, synced, metrics };
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

    /// How many deltas wait. Waits for a handler that is running.
    pub fn depth(&self) -> usize {
        self.fifo.depth()
    }
}

/// The process step of an informer.
struct Handling<H> {
    indexer: Arc<Indexer>,
    resync_period: Option<Duration>,
    max_attempts: u32,
    synced: watch::Sender<bool>,
    told: Mutex<Told<H>>,
}

struct Told<H> {
    handler: H,
    /// Keys whose last event the handler was not told. For all others, it knows what the cache has. Not more
    /// than the objects in the cache and the deletes waiting for another attempt.
    behind: HashMap<ObjectKey, Behind>,
    next_resync: Option<Instant>,
}

struct Behind {
    /// What the handler was told last; none: nothing, or that it is gone.
    known: Option<Arc<Object>>,
    /// Attempts at the present event.
    attempts: u32,
}

impl<H: ResourceEventHandler> Process for Handling<H> {
    fn process(&self, delta: &Delta, initial: bool) -> Result<(), ProcessError> {
        let cached = transition::store(&self.indexer, delta);
        let mut told = self.lock();
        let key = delta.object.key();
        let mut behind = told.behind.remove(key).unwrap_or(Behind { known: cached, attempts: 0 });
        let mut verdict = Ok(());
        for event in transition::events(behind.known.as_ref(), delta, initial) {
            match guarded(|| told.handler.handle(&event)) {
                Ok(()) => behind = Behind::after(&event),
                Err(error) => match self.judge(error, &mut behind) {
                    retry @ ProcessError::Retry(_) => {
                        told.behind.insert(key.clone(), behind);
                        return Err(retry);
                    }
                    given_up => {
                        verdict = Err(given_up);
                        if matches!(event, Event::Delete { .. }) {
                            // Nothing later will tell the handler of what is gone.
                            behind = Behind::after(&event);
                        }
                    }
                },
            }
        }
        if verdict.is_err() && !behind.knows(delta) {
            told.behind.insert(key.clone(), behind);
        }
        verdict
    }

    fn synced(&self) {
        self.lock().next_resync = self.resync_period.map(|period| Instant::now() + period);
        self.synced.send_replace(true);
    }

    fn next_resync(&self) -> Option<Instant> {
        self.lock().next_resync
    }

    fn should_resync(&self, now: Instant) -> bool {
        let mut told = self.lock();
        let due = told.next_resync.is_some_and(|next| next <= now);
        if due {
            told.next_resync = self.resync_period.map(|period| now + period);
        }
        due
    }
}

impl<H> Handling<H> {
    /// What a failure comes to, the attempts counted.
    fn judge(&self, error: ProcessError, behind: &mut Behind) -> ProcessError {
        behind.attempts += 1;
        let error = match error {
            ProcessError::Retry(message) if behind.attempts >= self.max_attempts => {
                ProcessError::GiveUp(format!("{message} (attempt {})", behind.attempts))
            }
            error => error,
        };
        if !matches!(error, ProcessError::Retry(_)) {
            behind.attempts = 0;
        }
        error
    }

    fn lock(&self) -> MutexGuard<'_, Told<H>> {
        // Handlers' panics are caught before they could poison it.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Behind {
    /// What a handler knows that was told `event`.
    fn after(event: &Event) -> Self {
        let known = match event {
            Event::Add { object: new, .. } | Event::Update { new, .. } => Some(new.clone()),
            Event::Delete { .. } => None,
        };
        Self { known, attempts: 0 }
    }

    /// Whether that is all that the cache has after `delta`.
    fn knows(&self, delta: &Delta) -> bool {
        match &self.known {
            Some(known) => Arc::ptr_eq(known, &delta.object),
            None => delta.kind == DeltaKind::Deleted,
        }
    }
}
