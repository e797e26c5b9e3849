//! What a swap is asked for, and what came of it.
//!
//! Used by whoever runs a listener; re-exported by [`crate::listener`]. How it is done is in `hand_over`.

use std::fmt;
use std::num::NonZeroU32;

use super::config::{ListenerConfig, Subscription};
use crate::handler::{EventHandler, Legacy, NothingNeeded};

/// What a new handler does with the old one's queue (delivery contract 10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnSwap {
    /// It starts afresh: every object is an initial add again, waiting deletes are delivered, other waiting
    /// events are part of the replay.
    Replay,
    /// It takes the queue over as it is.
    Continue,
}

/// Whose legacies new handlers are given.
#[derive(Debug, Clone, Default)]
pub enum Inherit {
    /// Those of the handlers whose place they take, which are asked to save.
    #[default]
    Predecessor,
    /// These, one for each handler that left something or nothing; those whose place they take are not asked.
    Given(Vec<Option<Legacy>>),
    /// None: they have no use for any. Those whose place they take are asked to save all the same, for whoever keeps
    /// that, and it does not matter whether they can.
    Nothing,
}

/// Other handlers for a listener, and what they are to begin with.
pub struct Swap {
    /// One for each lane.
    pub handlers: Vec<Box<dyn EventHandler>>,
    /// As their subscriptions; those with the same name, reach and informer as one of before are kept.
    pub subscriptions: Vec<Subscription>,
    /// What becomes of the queue, if all that was left could be taken.
    pub on_swap: OnSwap,
    /// What they are given.
    pub inherit: Inherit,
    /// How events are treated once they have taken over; none: as before.
    pub config: Option<ListenerConfig>,
    /// For how many attempts they are on trial (see [`TrialState`](super::TrialState)); none: they are not.
    pub trial: Option<NonZeroU32>,
}

impl Swap {
    /// Handlers that are given what those before them leave, under the same configuration.
    pub fn new(
        handlers: Vec<Box<dyn EventHandler>>,
        subscriptions: Vec<Subscription>,
        on_swap: OnSwap,
    ) -> Self {
        Self { handlers, subscriptions, on_swap, inherit: Inherit::Predecessor, config: None, trial: None }
    }
}

/// What a swap did.
#[derive(Debug, Clone, Default)]
pub struct SwapReport {
    /// Subscriptions that the new handlers have in common with the old ones.
    pub kept: usize,
    /// Subscriptions that are new, or ask for other objects than the one of that name before.
    pub added: usize,
    /// Subscriptions that are gone, or were for other objects.
    pub removed: usize,
    /// Waiting events of those that were dropped.
    pub dropped: usize,
    /// Whether the new handlers go on from where others left off.
    pub hand_over: HandOver,
    /// What the old handlers saved, by lane: none where one left nothing or could not say. Empty if they were not asked.
    pub saved: Vec<Option<Legacy>>,
}

/// Whether new handlers go on from where others left off.
#[derive(Debug, Clone, Default)]
pub enum HandOver {
    /// There was nothing to go on from, and they need nothing.
    #[default]
    Nothing,
    /// They have restored this, by lane.
    Kept(Vec<Option<Legacy>>),
    /// They begin afresh, and are told of every object again ([`OnSwap::Replay`]) whatever was asked for.
    FellBack(FellBack),
}

/// Why new handlers begin afresh.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FellBack {
    /// An old one could not save.
    #[error("{0}")]
    Save(Failure),
    /// A new one could not restore.
    #[error("{0}")]
    Restore(Failure),
    /// What each handler saves is for one handler.
    #[error("what {left} instances have saved cannot be given to {heirs}")]
    Lanes {
        /// So many have saved.
        left: usize,
        /// So many were to restore.
        heirs: usize,
    },
}

/// What the first handler said that could not save, or restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its lane, from 0.
    pub lane: usize,
    /// Of so many.
    pub lanes: usize,
    /// What it said, or what its panic said.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lanes > 1 {
            write!(f, "instance {} of {}: ", self.lane + 1, self.lanes)?;
        }
        f.write_str(&self.message)
    }
}

/// Gives each of so many heirs what it is to restore.
///
/// # Errors
/// If there is something for another number of heirs.
pub(super) fn divide(left: &[Option<Legacy>], heirs: usize) -> Result<Vec<Option<Legacy>>, FellBack> {
    if left.len() == heirs {
        return Ok(left.to_vec());
    }
    if left.iter().any(is_something) {
        return Err(FellBack::Lanes { left: left.len(), heirs });
    }
    // Each left the same: nothing, or that nothing is needed.
    let share = if left.iter().all(Option::is_some) { left.first().cloned().flatten() } else { None };
    Ok(vec![share; heirs])
}

/// Whether there is something to go on from.
pub(super) fn is_something(legacy: &Option<Legacy>) -> bool {
    legacy.as_ref().is_some_and(|legacy| !legacy.is::<NothingNeeded>())
}
