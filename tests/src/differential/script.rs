//! What a script is: a setup and the steps that follow, all of it data, so that it can be made from a seed,
//! printed, shrunk and played again.
//!
//! Used by all of the suite. Invariant: every step means something in every situation, be it nothing at all, so
//! that a script from which steps were taken is a script.

use serde::{Deserialize, Serialize};

/// A script. Its JSON form is what a failure prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// What it was made from; kept when it is shrunk.
    pub seed: u64,
    /// What there is before the informers start.
    pub setup: Setup,
    /// What happens then.
    pub steps: Vec<Step>,
}

/// The server and the first listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Setup {
    /// The server knows streaming lists (`sendInitialEvents`); else it refuses them with 422.
    pub streaming: bool,
    /// The informers select by a label, which [`Action::Put`] sets and [`Action::Hide`] takes away.
    pub selects: bool,
    /// Where they select, Hark has an informer of all objects already, and serves its listeners from that one.
    pub wider: bool,
    /// The first listener asks for resyncs.
    pub resyncs: bool,
    /// Lanes of Hark's listeners; 0 is 1.
    pub lanes: usize,
    /// Keys that exist at the start.
    pub existing: Vec<usize>,
    /// What goes wrong when the informers start.
    pub opening: Vec<Hiccup>,
    /// The listener has a second resource (odd keys are of it), whose first list is held back until these
    /// changes have happened to the first.
    pub held: Option<Vec<Change>>,
}

impl Setup {
    /// Whether Hark serves from a wider informer. Not where a list is held back, which a wider informer would wait
    /// for before there is a listener.
    pub(super) fn is_wider(&self) -> bool {
        self.wider && self.selects && self.held.is_none()
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// An object changes.
    Change(Change),
    /// Everybody has seen everything. Without effect while the clients are cut off.
    Settle,
    /// A further listener joins the informers.
    Join {
        /// It asks for resyncs.
        resyncs: bool,
    },
    /// The listener that joined last leaves.
    Leave,
    /// Every open watch ends, and the clients may come back at once.
    Cut(Ending),
    /// The clients are cut off until [`Step::Back`].
    Away(Absence),
    /// The clients can come back, through these hiccups. Settles.
    Back(Vec<Hiccup>),
    /// From now on, changes are lost for the watches, or are no longer.
    Lose(bool),
    /// The server forgets its history.
    Compact,
    /// While the clients are cut off: the server goes back by as many versions and forgets its history.
    Restore {
        /// How many.
        versions: u64,
    },
    /// Waits until every listener that asked for resyncs has had one of every object.
    Resync,
}

/// A change of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Which.
    pub key: usize,
    /// How.
    pub action: Action,
}

/// What happens to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// It is created or updated, with the label.
    Put,
    /// It is created or updated, without the label.
    Hide,
    /// It is deleted, if it exists.
    Delete,
    /// It is deleted, if it exists, and created anew.
    Recreate,
}

/// How the watches end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// As after their `timeoutSeconds`.
    Clean,
    /// The connection is reset.
    Broken,
    /// A bookmark first.
    Bookmark,
    /// In the middle of an event's line.
    HalfEvent,
    /// An ERROR event: 410 Expired.
    Expired,
    /// An ERROR event: 429.
    Busy,
    /// An ERROR event: 500 InternalError.
    Internal,
    /// An ERROR event: 500 StoreReadError, for an object that could not be decoded.
    StoreRead,
    /// An ERROR event without a Status.
    NoStatus,
    /// A line that is no JSON.
    Garbage,
    /// An event of an unknown type.
    UnknownType,
}

impl Ending {
    /// Whether both clients go on from where they were, without a list.
    pub fn resumes(self) -> bool {
        matches!(self, Self::Clean | Self::Broken | Self::Bookmark | Self::HalfEvent | Self::Busy)
    }
}

/// How the clients are cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Absence {
    /// The watches end so, and later requests wait for their answers.
    Held(Ending),
    /// Connections are reset, and new ones refused.
    Refused,
}

/// Something that goes wrong with some requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hiccup {
    /// With which.
    pub on: Requests,
    /// With how many of them.
    pub times: usize,
    /// How.
    pub mishap: Mishap,
}

impl Hiccup {
    /// Whether a watch ends so without an event. client-go asks how long such a watch has lived, from the request
    /// on; one that waited for its answer may have lived for long.
    pub(super) fn may_look_long_lived(self) -> bool {
        matches!(self.mishap, Mishap::Empty | Mishap::HalfEvent)
    }
}

/// Some requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requests {
    /// Watches from a version.
    Watch,
    /// Lists, streaming ones included.
    List,
    /// Streaming lists.
    Streaming,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mishap {
    /// 429 Status without `Retry-After`.
    Busy,
    /// 429 Status with `Retry-After: 1`.
    BusyForASecond,
    /// 429 as plain text, from the limit on requests in flight.
    BusyText,
    /// 500 Status.
    Internal,
    /// 503 Status with `Retry-After: 1`.
    Unavailable,
    /// 502 with a page of HTML, from a proxy.
    BadGateway,
    /// 403 Status.
    Forbidden,
    /// 404 Status.
    NotFound,
    /// 410 as HTTP status.
    Gone,
    /// 200 and an ERROR event: 410.
    Expired,
    /// 200 and nothing.
    Empty,
    /// 200 and half an event.
    HalfEvent,
    /// 200 and no JSON.
    Garbage,
    /// The connection is closed without an answer.
    Disconnect,
}
