//! The ways into a guest.
//!
//! Used by `instance`, through which every one of them goes, and by `outcome` for messages. Invariant: what bounds a
//! call (caps, deadline, budget, the limit on host calls) is the same for each of them.

/// A way into a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Making an instance: its start functions run, and `_initialize`.
    Instance,
    /// `describe`.
    Describe,
    /// A handler: `on-add`, `on-update`, `on-delete`.
    Event,
    /// `lifecycle.start`.
    Start,
    /// `lifecycle.stop`.
    Stop,
    /// `lifecycle.save`.
    Save,
    /// `lifecycle.restore`.
    Restore,
    /// `lifecycle.synced`.
    Synced,
}

impl Entry {
    /// What comes before a message about a fault, so that it can be told from one in the handler.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Instance => "while starting an instance: ",
            Self::Describe | Self::Event => "",
            Self::Start => "in start: ",
            Self::Stop => "in stop: ",
            Self::Save => "in save: ",
            Self::Restore => "in restore: ",
            Self::Synced => "in synced: ",
        }
    }
}
