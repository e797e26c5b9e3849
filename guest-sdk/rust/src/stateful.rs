//! The trait of a plugin that is told when its instances begin and end, and keeps its memory over a reload. Beside
//! [`Plugin`](crate::Plugin), for those that hand their type to [`export_stateful!`](crate::export_stateful). Called by
//! the adapter inside Wasm and by [`testing`](crate::testing) natively. Invariant: a plugin that does not use it has
//! no such export.

use crate::{Failure, Plugin};

/// Why [`Stateful::save`] or [`Stateful::restore`] does not do it. Any error will do: `?` on anything, or
/// `Err("why".into())`.
pub type Refusal = Box<dyn std::error::Error>;

/// Why an instance begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StartReason {
    /// The plugin's first version since the host started.
    First,
    /// A new build takes over from another version.
    Reload,
    /// The same build takes over from itself, with other settings.
    Settings,
    /// The instance before trapped or overran: what it held in memory is lost.
    Restart,
    /// The instance before was due to be replaced: what it saved is restored.
    Recycle,
    /// The version that had taken over broke, and this one is back.
    Rollback,
    /// A reason newer than this SDK.
    Other,
}

/// Why an instance ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// Another version takes over.
    Reload,
    /// A fresh instance takes over.
    Recycle,
    /// The plugin's file is gone.
    Removed,
    /// The host ends.
    Shutdown,
    /// It was started for a version that never took over.
    Unused,
    /// A reason newer than this SDK.
    Other,
}

/// What an instance leaves to the next one: bytes, and the author's name for their layout. At most `limits.state` of
/// them (8 MiB by default), the name included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedState {
    /// The name of the layout, such as `v1`.
    pub format: String,
    /// The content.
    pub data: Vec<u8>,
}

impl SavedState {
    /// A state of this layout.
    pub fn new(format: impl Into<String>, data: impl Into<Vec<u8>>) -> Self {
        Self { format: format.into(), data: data.into() }
    }

    /// The content, if it is of this layout.
    ///
    /// # Errors
    /// If it is of another, which a plugin refuses, unless it knows that one too.
    pub fn of(&self, format: &str) -> Result<&[u8], UnknownFormat> {
        if self.format == format { Ok(&self.data) } else { Err(UnknownFormat(self.format.clone())) }
    }
}

/// A state is of a layout that the plugin does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl std::fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the saved state has format `{}`, which this version does not know", self.0)
    }
}

impl std::error::Error for UnknownFormat {}

/// A plugin that keeps its memory over a reload. Hand the type to [`export_stateful!`](crate::export_stateful) in
/// place of [`export!`](crate::export).
///
/// The life of a value is: [`begin`](Stateful::begin), perhaps [`restore`](Stateful::restore), events, perhaps
/// [`save`](Stateful::save), [`stop`](Stateful::stop). After a trap or a missed deadline there is no further call, and what
/// the value held is lost. Each call may take as long as an event.
///
/// ```
/// use hark_guest::{Added, Described, Failure, Outcome, Plugin, Refusal, SavedState, Stateful, Subscription};
///
/// /// Numbers the pods that it has seen.
/// struct Seen(u64);
///
/// impl Plugin for Seen {
///     fn describe() -> Described {
///         let pods = Subscription::new("pods", "v1", "Pod");
///         // What it remembers goes on, so there is no need to be told of every pod again.
///         Ok(hark_guest::description!().watch(pods).on_reload(hark_guest::QueuePolicy::Keep))
///     }
///     fn start() -> Result<Self, Failure> {
///         Ok(Self(0))
///     }
///     fn on_add(&mut self, event: Added) -> Outcome {
///         self.0 += 1;
///         hark_guest::log::info!("{} is number {}", event.target(), self.0);
///         Ok(())
///     }
/// }
///
/// impl Stateful for Seen {
///     fn save(&mut self) -> Result<Option<SavedState>, Refusal> {
///         Ok(Some(SavedState::new("v1", self.0.to_le_bytes())))
///     }
///     fn restore(&mut self, saved: SavedState) -> Result<(), Refusal> {
///         self.0 = u64::from_le_bytes(saved.of("v1")?.try_into()?);
///         Ok(())
///     }
/// }
///
/// hark_guest::export_stateful!(Seen);
///
/// use hark_guest::testing::Host;
/// let mut host = Host::<Seen>::stateful(serde_json::json!({}));
/// host.add(0, &serde_json::json!({"metadata": {"name": "a"}})).unwrap();
/// host.reload().unwrap();
/// host.add(0, &serde_json::json!({"metadata": {"name": "b"}})).unwrap();
/// assert_eq!(host.take_lines(), ["a is number 1", "b is number 2"]);
/// ```
pub trait Stateful: Plugin {
    /// Makes the value, in place of [`Plugin::start`], which it calls unless it is written. The cache is not filled yet,
    /// except after a restart or when an instance was recycled. An error in a new version refuses it: the one before
    /// stays. After a restart it fails the event that the value is for, which is tried again.
    fn begin(reason: StartReason) -> Result<Self, Failure> {
        let _ = reason;
        Self::start()
    }

    /// What the next instance is to be given; none: there is nothing to carry over, and none is needed. After an error
    /// the next one begins afresh, and is told of every object again.
    fn save(&mut self) -> Result<Option<SavedState>, Refusal>;

    /// What the instance before saved, before the first event. After an error another value begins afresh, and is told
    /// of every object again: so refuse a format that you do not know.
    fn restore(&mut self, saved: SavedState) -> Result<(), Refusal>;

    /// Every object that was there when the subscription began has been handled, or given up.
    fn synced(&mut self, subscription: u32) {
        let _ = subscription;
    }

    /// The value gets no more events.
    fn stop(&mut self, reason: StopReason) {
        let _ = reason;
    }
}
