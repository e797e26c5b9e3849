//! Initial adds: read from the cache a few at a time, as the handlers get to them (delivery contract 4).
//!
//! Used by the loop of `run`. Invariant: the cache is read and the cursor moved under the informer's lock, so an
//! object is either read here or offered as an event.

use super::state::{Shared, State};
use crate::replay::Phase;

/// Objects that the cursor takes from the cache at a time.
pub(super) const CURSOR_BATCH: usize = 64;

/// Objects that it looks at in one go, where a view has few of them.
const CURSOR_SCAN: usize = 1024;

impl Shared {
    /// Reads the next objects of the cache into the queue, as initial adds.
    pub(super) fn read_on(&self, id: u64) {
        let Some(informer) = self.lock().registrations.get(&id).map(|one| one.informer.clone()) else {
            return;
        };
        let synced = informer.core().with(|_, indexer| {
            let mut state = self.lock();
            let Some(registered) = state.registrations.get_mut(&id) else { return false };
            let Phase::Replaying(replay) = &mut registered.phase else { return false };
            let view = &registered.view;
            let ahead = if view.has_all() { CURSOR_BATCH } else { CURSOR_SCAN };
            let scan =
                indexer.range_where("", replay.after(), CURSOR_BATCH, ahead, |object| view.has(object));
            let mut read = Vec::new();
            for object in scan.objects {
                read.extend(replay.pass(object.key()).map(|shown| (object, shown)));
            }
            match scan.reached {
                Some(key) => replay.reach(key),
                None => registered.phase = Phase::Live,
            }
            for (object, shown) in read {
                state.admit_initial(id, object, shown);
            }
            state.settle_sync(id)
        });
        if synced {
            self.tell_waiters();
        }
    }
}

impl State {
    /// A registration whose cursor is under way.
    pub(super) fn reading(&self) -> Option<u64> {
        let mut registrations = self.registrations.iter();
        registrations.find(|(_, one)| matches!(one.phase, Phase::Replaying(_))).map(|(id, _)| *id)
    }
}
