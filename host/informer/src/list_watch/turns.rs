//! Turns to list: how many lists one client asks for at a time.
//!
//! Owned by the [`Client`](crate::client::Client), taken by reflectors before they list and given back when the
//! list is in the store. Without them a hundred informers that start together, or lose their watches together,
//! would ask for a hundred lists at one instant. Invariant: whoever waits gets its turn in the order of
//! asking; nothing here bounds the wait, the one who waits does.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Lists and streaming lists of one client at a time. kube-apiserver counts a long list as up to ten of the
/// requests that it works on at once, and gives a service account some 245 of them; what is above is queued
/// or refused there.
pub const LISTS_AT_A_TIME: usize = 16;

/// A number of turns that are taken and given back. Clones share them.
#[derive(Debug, Clone)]
pub struct Turns(Arc<Semaphore>);

impl Turns {
    /// So many turns at a time, but at least one.
    pub fn new(at_a_time: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_a_time.clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// Waits for a turn.
    pub async fn next(&self) -> Turn {
        // The semaphore is never closed.
        Turn(Arc::clone(&self.0).acquire_owned().await.ok())
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self::new(LISTS_AT_A_TIME)
    }
}

/// A turn to list, given back when dropped. The default is one that costs nobody else theirs.
#[derive(Debug, Default)]
pub struct Turn(#[expect(dead_code, reason = "held for being dropped")] Option<OwnedSemaphorePermit>);

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_turn_is_had_when_one_before_is_given_back_and_in_order() {
        let turns = Turns::new(2);
        let (first, _second) = (turns.next().await, turns.clone().next().await);
        let (mut third, mut fourth) = (Box::pin(turns.next()), Box::pin(turns.next()));
        assert!((&mut third).now_or_never().is_none() && (&mut fourth).now_or_never().is_none());
        drop(first);
        assert!((&mut fourth).now_or_never().is_none(), "not before the one that asked first");
        assert!(third.now_or_never().is_some());
    }

    #[tokio::test]
    async fn there_is_always_at_least_one_turn() {
        assert!(Turns::new(0).next().now_or_never().is_some());
        assert!(Turns::new(usize::MAX).next().now_or_never().is_some());
    }
}
