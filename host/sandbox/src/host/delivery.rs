//! `delivery`: what else is known of the event being handled. Invariant: all zero outside of an event.

use std::time::UNIX_EPOCH;

use crate::bindings::hark::plugin::delivery::Host;
use crate::state::GuestState;

impl Host for GuestState {
    fn sequence(&mut self) -> u64 {
        self.delivery.as_ref().map_or(0, |delivery| delivery.sequence)
    }

    fn attempt(&mut self) -> u32 {
        self.delivery.as_ref().map_or(0, |delivery| delivery.attempt)
    }

    fn arrived_ms(&mut self) -> u64 {
        let since =
            self.delivery.as_ref().and_then(|delivery| delivery.arrived.duration_since(UNIX_EPOCH).ok());
        since.and_then(|since| u64::try_from(since.as_millis()).ok()).unwrap_or_default()
    }
}
