//! What a plugin's thread does when an event is given up, and when one that was given up is handled after all.
//!
//! Owned by a running plugin, used by its handlers and its listener, on its threads. Invariant: a letter names the
//! version that made the last attempt. That is the one whose handlers were called last: versions change only while no
//! delivery is under way.

use std::sync::{Arc, Mutex, PoisonError};

use hark_informer::handler::{Delivery, Outcome};
use hark_informer::listener::DeadLetterFn;
use hark_sandbox::LogLevel;

use crate::dead_letters::{DeadLetters, Letter, Worker};
use crate::output::Output;

/// See the file's head.
pub(crate) struct Letters {
    plugin: String,
    kept: DeadLetters,
    output: Arc<Output>,
    /// The version that is at work; none before the first event.
    at_work: Mutex<Option<Arc<Worker>>>,
}

impl Letters {
    pub(crate) fn new(plugin: &str, kept: DeadLetters, output: Arc<Output>) -> Arc<Self> {
        Arc::new(Self { plugin: plugin.to_owned(), kept, output, at_work: Mutex::default() })
    }

    /// What the listener tells of events that are given up.
    pub(crate) fn dead_letter(self: &Arc<Self>) -> DeadLetterFn {
        let letters = self.clone();
        Arc::new(move |delivery, outcome| letters.give_up(delivery, outcome))
    }

    /// A version begins its first attempt.
    pub(crate) fn begin(&self, worker: &Arc<Worker>) {
        *self.at_work.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker.clone());
    }

    /// An attempt is over.
    pub(crate) fn attempted(&self, worker: &Worker, delivery: &Delivery, outcome: &Outcome) {
        if !matches!(outcome, Outcome::Ok | Outcome::Permanent(_)) {
            return;
        }
        let number = usize::try_from(delivery.subscription).unwrap_or(usize::MAX);
        if let Some(subscription) = worker.description.subscriptions.get(number) {
            self.kept.handled(&self.plugin, &subscription.name, delivery);
        }
    }

    fn give_up(&self, delivery: &Delivery, outcome: &Outcome) {
        let (op, key, attempts) = (delivery.event.op(), delivery.event.key(), delivery.attempt);
        let why = outcome.message().unwrap_or_default();
        let message = format!("{op} {key} is given up (attempt {attempts} at this state): {why}");
        self.output.news(&self.plugin, LogLevel::Error, &message);
        let at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // An event is given up after an attempt, so there is one.
        if let Some(worker) = at_work {
            self.kept.keep(Letter::new(&worker, delivery, outcome), delivery);
        }
    }
}
