//! What a plugin's versions are worth: which was good last, whether the one that runs is on trial, what was rolled back.
//!
//! Pure bookkeeping, a part of the slot. A *content* is a file's bytes; the same content with other settings is no other
//! one here, and never on trial for that alone.
//!
//! | state | the trial is passed | it fails | the last good content takes over | another takes over | nothing to go back to |
//! | --- | --- | --- | --- | --- | --- |
//! | fresh: nothing has run in this host | | | good | good, or on trial if the host before left another good one | |
//! | good | | | good | on trial | |
//! | on trial | good | going back | good | on trial | |
//! | going back: the last good content is being prepared, the listener holds | | | good | on trial | overruled |
//! | overruled: it runs although it failed | | | good | on trial | |
//!
//! With rollback switched off, whatever takes over is good. A version that was on trial is never gone back to: it either
//! passed, or what was good before it still is what is good. What was rolled back is refused, with whatever settings, until
//! other content takes over, or the last good one, which runs, is in the file. A file that is no good itself ends nothing:
//! it may be half-written. While what was rolled back is in the file, the last good content stands in for it.
//!
//! Where the last good content can be had is in `elsewhere`, what is written down of all this in `record`.
//!
//! Invariant: what is refused is never what is good.

mod elsewhere;
mod record;

use std::num::NonZeroU32;
use std::time::SystemTime;

use hark_informer::handler::Legacy;
use hark_sandbox::{ContentHash, Plugin};

use self::elsewhere::Before;
use super::view::{NoWayBack, RollbackState, RollbackView};
use crate::kept::{Fresh, Good, Record, RolledBack};

pub(super) use self::elsewhere::{Elsewhere, PathOf, StandIn};

/// See the file's head.
pub(super) struct Trial {
    standing: Standing,
    /// Rollback is on for what runs.
    on: bool,
    rolled_back: Option<RolledBack>,
    /// How often it came to that in this host.
    rollbacks: u64,
    /// What was last written down; none: it is not known.
    written: Option<Record>,
}

/// A state of the table.
enum Standing {
    /// With what the host before left.
    Fresh(Option<Good>),
    Good(Good),
    OnTrial {
        before: Before,
        content: ContentHash,
    },
    GoingBack {
        before: Before,
    },
    Overruled {
        before: Before,
        failed: NoWayBack,
    },
}

impl Default for Trial {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Default for Standing {
    fn default() -> Self {
        Self::Fresh(None)
    }
}

/// A version that is replaced.
pub(super) struct Old {
    pub(super) plugin: Plugin,
    /// What it saved.
    pub(super) legacies: Vec<Option<Legacy>>,
}

/// How a version that takes over came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// It is what is in the file.
    File,
    /// What is in the file was rolled back; this stands in for it.
    StandIn,
    /// It takes the place of one that failed its trial.
    Back,
}

/// How a version came about, and the bytes of its content, if they are to be kept.
pub(super) struct Provenance {
    pub(super) origin: Origin,
    pub(super) fresh: Option<Box<Fresh>>,
}

impl Provenance {
    /// Of what is in the file.
    pub(super) fn of_file() -> Self {
        Self { origin: Origin::File, fresh: None }
    }
}

impl Trial {
    /// Of a plugin of which the host before left this.
    pub(super) fn new(left: Option<Record>) -> Self {
        let written = left.unwrap_or_default();
        let (good, rolled_back) = (written.good, written.rolled_back.clone());
        let written = Some(written);
        Self { standing: Standing::Fresh(good), on: false, rolled_back, rollbacks: 0, written }
    }

    fn good(&self) -> Option<Good> {
        match &self.standing {
            Standing::Fresh(good) => *good,
            Standing::Good(good) => Some(*good),
            Standing::OnTrial { before, .. }
            | Standing::GoingBack { before }
            | Standing::Overruled { before, .. } => Some(before.good),
        }
    }

    /// So many attempts a version is on trial for that is about to take over; none: it is not.
    pub(super) fn attempts(&self, content: &ContentHash, rollback: Option<NonZeroU32>) -> Option<NonZeroU32> {
        rollback.filter(|_| self.good().is_some_and(|good| good.hash != *content))
    }

    /// A version has taken over, `on_trial` as [`Trial::attempts`] said, from an `old` one if one ran.
    pub(super) fn took_over(
        &mut self,
        content: ContentHash,
        origin: Origin,
        rollback: Option<NonZeroU32>,
        on_trial: bool,
        old: Option<Old>,
    ) {
        self.on = rollback.is_some();
        if self.on && matches!(self.standing, Standing::Fresh(_)) {
            // What the host before left may be damaged: it is written again.
            self.written = None;
        }
        if origin == Origin::File {
            self.rolled_back = None;
        }
        if origin == Origin::Back {
            self.rollbacks += 1;
        }
        let before = match std::mem::take(&mut self.standing) {
            Standing::Fresh(good) => good.map(|good| Before { good, plugin: None, legacies: Vec::new() }),
            Standing::Good(good) => {
                let (plugin, legacies) =
                    old.map_or((None, Vec::new()), |old| (Some(old.plugin), old.legacies));
                Some(Before { good, plugin, legacies })
            }
            Standing::OnTrial { before, .. }
            | Standing::GoingBack { before }
            | Standing::Overruled { before, .. } => Some(before),
        };
        self.standing = match before {
            Some(before) if on_trial => Standing::OnTrial { before, content },
            Some(Before { good, .. }) if good.hash == content => Standing::Good(good),
            _ => Standing::Good(Good { hash: content, since: SystemTime::now() }),
        };
    }

    /// The trial was passed.
    pub(super) fn passed(&mut self) {
        if let Standing::OnTrial { content, .. } = &self.standing {
            self.standing = Standing::Good(Good { hash: *content, since: SystemTime::now() });
        }
    }

    /// The trial failed: what failed, and what was good before it. None if there is no trial.
    pub(super) fn failed(&mut self, why: &str) -> Option<(ContentHash, ContentHash)> {
        match std::mem::take(&mut self.standing) {
            Standing::OnTrial { before, content } => {
                let good = before.good.hash;
                self.rolled_back =
                    Some(RolledBack { hash: content, at: SystemTime::now(), why: why.to_owned() });
                self.standing = Standing::GoingBack { before };
                Some((content, good))
            }
            other => {
                self.standing = other;
                None
            }
        }
    }

    /// What to go back to, and what it saved, while that is under way.
    ///
    /// # Errors
    /// For people: why it is not to be had.
    pub(super) fn way_back(&self, path_of: PathOf<'_>) -> Option<Result<Elsewhere, String>> {
        let Standing::GoingBack { before } = &self.standing else { return None };
        Some(before.content(path_of))
    }

    /// What the version saved that is gone back to.
    pub(super) fn legacies(&self) -> Vec<Option<Legacy>> {
        match &self.standing {
            Standing::GoingBack { before } => before.legacies.clone(),
            _ => Vec::new(),
        }
    }

    /// There is no way back, for this reason: what runs goes on, and is not refused.
    pub(super) fn overrule(&mut self, why: &str) {
        self.standing = match std::mem::take(&mut self.standing) {
            Standing::GoingBack { before } => {
                self.rolled_back = None;
                // What goes on handles events that it knows nothing of.
                let failed = NoWayBack { at: SystemTime::now(), why: why.to_owned() };
                Standing::Overruled { before: Before { legacies: Vec::new(), ..before }, failed }
            }
            other => other,
        };
    }

    /// Whether the way back is under way.
    pub(super) fn is_going_back(&self) -> bool {
        matches!(self.standing, Standing::GoingBack { .. })
    }

    /// This content was found in the file, and does not take over. Whether that ends that something was rolled back: it is
    /// the last good one, which runs.
    pub(super) fn found(&mut self, content: &ContentHash) -> bool {
        let runs = matches!(&self.standing, Standing::Good(good) if good.hash == *content);
        self.rolled_back.take_if(|_| runs).is_some()
    }

    /// What was rolled back, and is refused.
    pub(super) fn rolled_back(&self) -> Option<&RolledBack> {
        self.rolled_back.as_ref()
    }

    /// What others may see of it; none with rollback switched off.
    pub(super) fn view(&self) -> Option<RollbackView> {
        if !self.on && self.rolled_back.is_none() {
            return None;
        }
        let state = match (&self.standing, &self.rolled_back) {
            (Standing::OnTrial { .. }, _) => RollbackState::OnTrial,
            (Standing::GoingBack { .. }, _) => RollbackState::RollingBack,
            (Standing::Overruled { .. }, _) => RollbackState::Overruled,
            (Standing::Fresh(_) | Standing::Good(_), Some(_)) => RollbackState::RolledBack,
            (Standing::Fresh(_) | Standing::Good(_), None) => RollbackState::Good,
        };
        let good = self.good().map(|good| good.hash);
        let no_way_back = match &self.standing {
            Standing::Overruled { failed, .. } => Some(failed.clone()),
            _ => None,
        };
        let (rolled_back, rollbacks) = (self.rolled_back.clone(), self.rollbacks);
        Some(RollbackView { state, good, rolled_back, no_way_back, rollbacks })
    }
}

#[cfg(test)]
mod tests;
