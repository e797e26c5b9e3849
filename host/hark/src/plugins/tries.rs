//! When a version of a plugin is begun: what of its file was tried, and when that is tried again.
//!
//! Pure bookkeeping, a part of the slot. Invariant: at most one version is on its way at a time.
//!
//! | the file, compared with the one tried last | begun |
//! | --- | --- |
//! | other stamp, or other configuration | at once; if the file changes all the time, at a [`pace`](super::pace) |
//! | same, and it changed while it was read, or the machine lacked something | again a while later |
//! | same, and read so soon after a change that another one may have the same stamp | once more when that is past, and nobody notices if its content is the same |
//! | same | not |

use std::time::Duration;

use tokio::time::Instant;

use super::pace::{Pace, Turn};
use super::view::Coming;
use crate::config::PluginConfig;
use crate::folder::{PluginFile, Stamp};

/// After how long a version is tried again that the machine lacked something for (a thread, memory). It doubles each
/// time in a row, up to [`AGAIN_MOST`].
pub(super) const AGAIN: Duration = Duration::from_secs(5);
pub(super) const AGAIN_MOST: Duration = Duration::from_secs(300);

/// The same for a file that changed while it was read, if no look finds it changed; and for a plugin whose thread ended.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// See the file's head.
#[derive(Default)]
pub(super) struct Tries {
    coming: Coming,
    /// What was last tried: no need to read the same again.
    tried: Option<(Stamp, PluginConfig)>,
    /// When that is tried again, and how often in a row the machine lacked something for it.
    again: Option<Instant>,
    hindered: u32,
    /// When its content is looked at once more, and whether it is just now.
    verify: Option<Instant>,
    verifying: bool,
    pace: Pace,
    /// When a version may be begun for which it is too soon.
    turn: Option<Instant>,
}

/// What there is to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing now.
    Nothing,
    /// A version, of a file that is another one than was tried.
    Version,
    /// A version, of the file that was tried: with other settings, or once more.
    Again,
    /// The one that was tried, to see whether it is still the same.
    OnceMore,
    /// Nothing yet, since the file changes all the time: to be said, as it was not before.
    Paced,
}

impl Tries {
    /// How far the version is that is on its way.
    pub(super) fn coming(&self) -> Coming {
        self.coming
    }

    /// What is read was read before, and is only looked at once more.
    pub(super) fn is_looking_once_more(&self) -> bool {
        self.verifying
    }

    /// The file may have changed: says whether it is another one than the one tried last.
    pub(super) fn sees(&mut self, file: &PluginFile) -> bool {
        let is_other = self.is_other(file);
        if is_other {
            self.verify = None;
        }
        is_other
    }

    fn is_other(&self, file: &PluginFile) -> bool {
        self.tried.as_ref().is_none_or(|(stamp, _)| *stamp != file.stamp)
    }

    /// Begins what there is to begin of the file with these settings.
    pub(super) fn next(&mut self, file: &PluginFile, config: &PluginConfig, now: Instant) -> Next {
        if self.is_busy() {
            return Next::Nothing;
        }
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        self.turn = None;
        let other_file = self.is_other(file);
        let same = !other_file && self.tried.as_ref().is_some_and(|(_, with)| with == config);
        if same && !due(self.again) {
            if !due(self.verify) {
                return Next::Nothing;
            }
            (self.verify, self.verifying) = (None, true);
            return Next::OnceMore;
        }
        if other_file {
            (self.again, self.verify) = (None, None);
            match self.pace.take(now) {
                Turn::Now => {}
                Turn::Later { at, news } => {
                    self.turn = Some(at);
                    return if news { Next::Paced } else { Next::Nothing };
                }
            }
            let unsure_until = file.noticed + file.stamp.resolution();
            self.verify = (now < unsure_until).then_some(unsure_until);
        }
        self.coming = Coming::Preparing;
        self.again = None;
        self.tried = Some((file.stamp, config.clone()));
        if other_file { Next::Version } else { Next::Again }
    }

    /// When there may be something to begin although nothing changes.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.is_busy() {
            return None;
        }
        [self.again, self.verify, self.turn].into_iter().flatten().min()
    }

    /// A version is on its way.
    fn is_busy(&self) -> bool {
        self.coming != Coming::Nothing || self.verifying
    }

    /// None is any more.
    fn is_done(&mut self) {
        self.coming = Coming::Nothing;
        self.verifying = false;
    }

    /// What was prepared waits for the calls under way.
    pub(super) fn takes_over(&mut self) {
        self.coming = Coming::TakingOver;
    }

    /// It is known what the version is worth.
    pub(super) fn answered(&mut self) {
        self.is_done();
        self.hindered = 0;
    }

    /// The same, whatever its content is.
    pub(super) fn answered_for_good(&mut self) {
        self.answered();
        self.verify = None;
    }

    /// The version could not be started.
    pub(super) fn failed(&mut self) {
        self.is_done();
        self.verify = None;
    }

    /// The file changed while it was read: it is tried again soon, should no look find that.
    pub(super) fn soon(&mut self, now: Instant) {
        self.is_done();
        self.again = Some(now + SOON);
    }

    /// The machine lacked something for the version: says after how long it is tried again.
    pub(super) fn hindered(&mut self, now: Instant) -> Duration {
        self.failed();
        let wait = self.hindrance();
        self.again = Some(now + wait);
        wait
    }

    /// How long to wait since the machine lacks something, which is longer each time in a row.
    pub(super) fn hindrance(&mut self) -> Duration {
        let wait = AGAIN.saturating_mul(1 << self.hindered.min(16)).min(AGAIN_MOST);
        self.hindered = self.hindered.saturating_add(1);
        wait
    }

    /// All that is left of it is what was tried, soon to be tried again, at the pace that it has.
    pub(super) fn anew(&mut self, now: Instant) -> Self {
        let (tried, pace) = (self.tried.take(), std::mem::take(&mut self.pace));
        Self { tried, pace, again: Some(now + SOON), ..Self::default() }
    }
}
