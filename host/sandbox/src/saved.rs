//! What an instance saves, on its way to the one that takes its place.
//!
//! Made by `handler` of what a guest's `save` gives, handed on by the host as the informer's `Legacy`, which it need not
//! look into. Invariants: never more than `limits.state` of the plugin that saved it; shared, never copied, until it goes
//! into the memory of the next instance.

use std::sync::Arc;

use hark_informer::handler::{Legacy, NothingNeeded};

use crate::bindings::stateful::exports::hark::plugin::lifecycle::SavedState;

/// What a plugin with `lifecycle` leaves to its next version. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Saved {
    /// There was nothing to save, and the next instance needs nothing.
    Nothing,
    /// What it held in memory.
    State(State),
}

/// What an instance held in memory, as its author laid it out. Cheap to clone.
#[derive(Debug, Clone)]
pub struct State(Arc<SavedState>);

impl Saved {
    /// What an informer's legacy says; none if it is no plugin's.
    pub fn of(legacy: &Legacy) -> Option<&Self> {
        static NOTHING: Saved = Saved::Nothing;
        if legacy.is::<NothingNeeded>() { Some(&NOTHING) } else { legacy.downcast_ref() }
    }

    /// For the informer, which knows what it is to need nothing.
    pub(crate) fn into_legacy(self) -> Legacy {
        match self {
            Self::Nothing => Arc::new(NothingNeeded),
            state => Arc::new(state),
        }
    }

    /// Its size in bytes: 0 if there is nothing.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::State(state) => state.bytes(),
        }
    }

    pub(crate) fn new(saved: Option<SavedState>) -> Self {
        saved.map_or(Self::Nothing, |state| Self::State(State(Arc::new(state))))
    }
}

impl State {
    /// The author's name for the layout: a guest's word, as it came.
    pub fn format(&self) -> &str {
        &self.0.format
    }

    /// The content.
    pub fn data(&self) -> &[u8] {
        &self.0.data
    }

    /// Bytes of content and format, as `limits.state` counts them.
    pub fn bytes(&self) -> usize {
        size(&self.0)
    }

    pub(crate) fn saved(&self) -> &SavedState {
        &self.0
    }
}

/// Bytes of what was saved, as `limits.state` counts them.
pub(crate) fn size(state: &SavedState) -> usize {
    state.format.len() + state.data.len()
}
