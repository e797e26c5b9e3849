//! Where a content can be had that is not in the plugin's file: the last good one, when it is wanted again.
//!
//! Used by the trial for what it goes back to, and for what stands in for what is refused; given to `prepare`, which loads
//! it. Invariant: what runs, or has run in this host, is not read again.

use std::path::PathBuf;

use hark_informer::handler::Legacy;
use hark_sandbox::{ContentHash, Plugin};

use super::super::prepare::Preparation;
use super::super::view::Shown;
use super::{Standing, Trial};
use crate::kept::{Good, RolledBack};

/// Where the bytes of a content are, if they are kept; see [`KeptVersions::path_of`](crate::kept::KeptVersions::path_of).
pub(in crate::plugins) type PathOf<'a> = &'a dyn Fn(&ContentHash) -> Result<PathBuf, String>;

/// Where a content comes from that is not in the plugin's file.
#[derive(Clone)]
pub(in crate::plugins) enum Elsewhere {
    /// It runs, or has run.
    Loaded(Plugin),
    /// Its bytes were kept, here.
    Kept { hash: ContentHash, path: PathBuf },
}

/// What a file's content is refused for, and what stands in for it.
#[derive(Clone)]
pub(in crate::plugins) struct StandIn {
    pub(in crate::plugins) refused: RolledBack,
    /// None, with the reason, if there is nothing to be had.
    pub(in crate::plugins) good: Result<Elsewhere, String>,
}

/// The last good content, while another one runs.
pub(super) struct Before {
    pub(super) good: Good,
    /// Its code; none: of a host before, so its bytes are on the disk at most.
    pub(super) plugin: Option<Plugin>,
    /// What it saved when it was replaced.
    pub(super) legacies: Vec<Option<Legacy>>,
}

impl Elsewhere {
    /// The content's.
    pub(in crate::plugins) fn hash(&self) -> &ContentHash {
        match self {
            Self::Loaded(plugin) => plugin.hash(),
            Self::Kept { hash, .. } => hash,
        }
    }
}

impl StandIn {
    /// Nothing stands in: what is in the file stays refused all the same.
    pub(in crate::plugins) fn fails(&self, message: &str) -> Preparation {
        let message =
            format!("{}, and the last good version cannot take its place: {message}", Shown(&self.refused));
        Preparation::Failed { hash: Some(self.refused.hash), message }
    }
}

impl Before {
    /// The content itself.
    ///
    /// # Errors
    /// For people: why it is not to be had.
    pub(super) fn content(&self, path_of: PathOf<'_>) -> Result<Elsewhere, String> {
        match &self.plugin {
            Some(plugin) => Ok(Elsewhere::Loaded(plugin.clone())),
            None => kept(&self.good, path_of),
        }
    }
}

impl Trial {
    /// What stands in for the file's content, should that be what was rolled back. `running` is what runs.
    pub(in crate::plugins) fn stand_in(
        &self,
        running: Option<&Plugin>,
        path_of: PathOf<'_>,
    ) -> Option<StandIn> {
        let refused = self.rolled_back.clone()?;
        let good = match (&self.standing, running) {
            (Standing::Good(good), Some(running)) if running.hash() == &good.hash => {
                Ok(Elsewhere::Loaded(running.clone()))
            }
            (Standing::Fresh(Some(good)) | Standing::Good(good), _) => kept(good, path_of),
            (Standing::Fresh(None), _) => Err("the last good version is not kept".to_owned()),
            (
                Standing::OnTrial { before, .. }
                | Standing::GoingBack { before }
                | Standing::Overruled { before, .. },
                _,
            ) => before.content(path_of),
        };
        Some(StandIn { refused, good })
    }
}

fn kept(good: &Good, path_of: PathOf<'_>) -> Result<Elsewhere, String> {
    path_of(&good.hash).map(|path| Elsewhere::Kept { hash: good.hash, path })
}
