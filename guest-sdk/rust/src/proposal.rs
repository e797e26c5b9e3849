//! How a plugin is best run, by its author's lights. Named by plugin authors in the builders of
//! [`Description`](crate::Description). Invariant: what is not proposed stays the host's default, and the
//! operator's file comes before both.

/// What becomes of the events that wait when an instance takes over from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueuePolicy {
    /// Every object is handed over again as an initial add. For plugins that keep what they know in memory.
    Replay,
    /// The queue goes on as it is. For plugins without memory.
    Keep,
}

/// When waiting events of one object become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryMode {
    /// Only where they must: the queue is at its bound, or the object waits for a retry.
    All,
    /// Always: no state is handed over that is outdated already.
    Latest,
}

/// What the builders of [`Description`](crate::Description) collect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) on_reload: Option<QueuePolicy>,
    pub(crate) on_restart: Option<QueuePolicy>,
    pub(crate) delivery: Option<DeliveryMode>,
    pub(crate) concurrency: Option<u32>,
}
