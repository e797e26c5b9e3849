//! `settings`: the operator's table for this plugin. Invariant: read-only, and the same for an instance's life.

use crate::bindings::hark::plugin::settings::Host;
use crate::state::GuestState;

impl Host for GuestState {
    fn get(&mut self, key: String) -> Option<String> {
        self.settings.get(&key)
    }

    fn all(&mut self) -> String {
        self.settings.json().to_owned()
    }
}
