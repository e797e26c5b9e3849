//! What a listener tells whoever runs it, apart from its numbers.
//!
//! Called by the loop of `run`, on its task, between two deliveries. Invariant: never under a lock, so an observer may
//! wait for a while, or ask the listener; what is reported is reported once.

use std::sync::Arc;

use super::breaker::HealthChange;
use super::trial::TrialVerdict;
use crate::handler::{Delivery, Outcome};

/// An object that is not handed over, since its present state is too large.
#[derive(Debug, Clone)]
pub struct Oversized {
    /// Whose object it is.
    pub subscription: String,
    /// What would have been handed over; attempt 0.
    pub delivery: Delivery,
    /// How much of it would have been shown.
    pub bytes: usize,
    /// [`ListenerConfig::max_object`](super::ListenerConfig::max_object).
    pub limit: usize,
}

/// See the file's head. What is not implemented is passed over.
pub trait Observer: Send + Sync {
    /// An event was given up, after this attempt (delivery contract 9).
    fn given_up(&self, _delivery: &Delivery, _outcome: &Outcome) {}

    /// The handlers' health changed.
    fn health(&self, _change: &HealthChange) {}

    /// An object is not handed over. Reported again only after it was.
    fn oversized(&self, _oversized: &Oversized) {}

    /// The trial of the handlers that are at work is over. One that failed is followed by no delivery until others take
    /// over, or [`Listener::go_on`](super::Listener::go_on) is called.
    fn trial(&self, _verdict: &TrialVerdict) {}

    /// The handlers of the last swap have taken over: what follows is about them.
    fn swapped(&self) {}
}

/// Looks at nothing.
impl Observer for () {}

struct OnGivenUp<F>(F);

impl<F: Fn(&Delivery, &Outcome) + Send + Sync> Observer for OnGivenUp<F> {
    fn given_up(&self, delivery: &Delivery, outcome: &Outcome) {
        (self.0)(delivery, outcome);
    }
}

/// An observer that looks at nothing but events that are given up.
pub fn on_given_up(told: impl Fn(&Delivery, &Outcome) + Send + Sync + 'static) -> Arc<dyn Observer> {
    Arc::new(OnGivenUp(told))
}
