//! The process step of an informer for one handler: cache first, then the handler.
//!
//! Used by [`super::Informer`]. Invariant: each event is told from what the handler was told last, so that it hears
//! of each object as add, updates, delete, in order, whatever it answers.
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

use super::{Process, ProcessError, guarded, transition};
use crate::delta_fifo::{Delta, DeltaKind};
use crate::handler::Event;
use crate::indexer::Indexer;
use crate::object::{Object, ObjectKey};

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

/// The process step of an informer.
pub(super) struct Handling<H> {
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

impl<H: ResourceEventHandler> Handling<H> {
    pub(super) fn new(
        indexer: Arc<Indexer>,
        handler: H,
        resync_period: Option<Duration>,
        max_attempts: u32,
        synced: watch::Sender<bool>,
    ) -> Self {
        Self {
            indexer,
            resync_period: resync_period.filter(|period| !period.is_zero()),
            max_attempts: max_attempts.max(1),
            synced,
            told: Mutex::new(Told { handler, behind: HashMap::new(), next_resync: None }),
        }
    }
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
