//! What the manager lets others see of what it does.
//!
//! Published by the manager after each turn of its loop through a watch channel, read by the admin port. Invariant:
//! a view is complete and never changes; what moves on by itself (queues, informers) is asked when it is read.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use hark_informer::listener::Listener;
use hark_sandbox::{ContentHash, Description, How, Limits, Usage};

use super::carried::HandOvers;
pub(crate) use super::running::Treatment;
pub(crate) use crate::folder::FolderState;
use crate::folder::{LookStats, Way};
use crate::kept::RolledBack;
use crate::timings::ReloadStats;

/// See the file's head.
#[derive(Clone, Default)]
pub(crate) struct View {
    /// The plugins folder.
    pub(crate) folder: PathBuf,
    /// What came of the last look at it.
    pub(crate) folder_state: FolderState,
    /// How changes in it come to be known.
    pub(crate) folder_way: Way,
    /// What the looks cost; asked when it is read.
    pub(crate) looks: Arc<LookStats>,
    /// The configuration file has an error, and what it said before holds.
    pub(crate) config_error: Option<String>,
    /// A signal has come.
    pub(crate) stopping: bool,
    /// What became of changes so far.
    pub(crate) reloads: ReloadStats,
    /// In the order of their names.
    pub(crate) plugins: Vec<PluginView>,
}

/// How far a new version of a plugin is on its way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Coming {
    /// There is none.
    #[default]
    Nothing,
    /// It is read, compiled, and asked to describe itself, or waits for its turn.
    Preparing,
    /// It is prepared, and takes over once the calls under way are over.
    TakingOver,
}

/// One plugin.
#[derive(Clone, Default)]
pub(crate) struct PluginView {
    /// Its file's stem.
    pub(crate) name: String,
    pub(crate) running: Option<RunningView>,
    /// What all its versions have used; asked when it is read.
    pub(crate) usage: Arc<Usage>,
    /// What became of its memory at reloads.
    pub(crate) hand_overs: HandOvers,
    /// The version on its way.
    pub(crate) coming: Coming,
    /// Why the file as it is now does not run.
    pub(crate) refusal: Option<Refusal>,
    /// What is known of what it could be rolled back to; none with rollback switched off.
    pub(crate) rollback: Option<RollbackView>,
}

/// The version that runs.
#[derive(Clone)]
pub(crate) struct RunningView {
    pub(crate) hash: ContentHash,
    /// How its code came about.
    pub(crate) how: How,
    /// It exports `lifecycle`.
    pub(crate) has_lifecycle: bool,
    pub(crate) description: Arc<Description>,
    /// 1 for the first version that ran in this host, one more after each reload.
    pub(crate) generation: u64,
    /// When it took over.
    pub(crate) since: SystemTime,
    pub(crate) treatment: Treatment,
    pub(crate) limits: Limits,
    pub(crate) listener: Listener,
}

/// What is known of what a plugin could be rolled back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RollbackView {
    pub(crate) state: RollbackState,
    /// The last good content; none before the first.
    pub(crate) good: Option<ContentHash>,
    /// The content that is refused, since when, and why.
    pub(crate) rolled_back: Option<RolledBack>,
    /// Why what broke goes on, if so.
    pub(crate) no_way_back: Option<NoWayBack>,
    /// How often it came to that in this host.
    pub(crate) rollbacks: u64,
}

/// Nothing could take the place of a version that failed its trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoWayBack {
    pub(crate) at: SystemTime,
    /// For people.
    pub(crate) why: String,
}

/// How a plugin stands with rollback switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RollbackState {
    /// What runs is what would be gone back to.
    Good,
    /// What runs has not answered any event yet.
    OnTrial,
    /// What runs broke at all its first events: the version before is on its way back.
    RollingBack,
    /// The last good version runs in the place of what is in the file.
    RolledBack,
    /// What runs broke at all its first events, and goes on, since nothing else could take its place.
    Overruled,
}

impl RollbackState {
    /// The word used on status pages.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::OnTrial => "on-trial",
            Self::RollingBack => "rolling-back",
            Self::RolledBack => "rolled-back",
            Self::Overruled => "overruled",
        }
    }
}

/// What was rolled back, for people: when, and why.
pub(crate) struct Shown<'a>(pub(crate) &'a RolledBack);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RolledBack { hash, at, why } = self.0;
        write!(f, "{} was rolled back", hash.short())?;
        // What no calendar has is left out.
        if let Ok(at) = jiff::Timestamp::try_from(*at) {
            write!(f, " at {at:.0}")?;
        }
        write!(f, " ({why})")
    }
}

/// Why a file does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Of its content; none if it could not be read, or is not to be.
    pub(crate) hash: Option<ContentHash>,
    /// For people.
    pub(crate) message: String,
}

/// Plugins with those whose stem two files claim: they are refused, although one version may go on.
pub(super) fn with_disputes(
    mut plugins: Vec<PluginView>,
    disputed: &BTreeMap<String, String>,
) -> Vec<PluginView> {
    for (name, message) in disputed {
        let refusal = Some(Refusal { hash: None, message: message.clone() });
        match plugins.iter_mut().find(|plugin| plugin.name == *name) {
            Some(plugin) => plugin.refusal = refusal,
            None => plugins.push(PluginView { name: name.clone(), refusal, ..PluginView::default() }),
        }
    }
    plugins.sort_by(|a, b| a.name.cmp(&b.name));
    plugins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disputed_plugin_is_shown_whether_it_ran_before_or_not() {
        let before =
            vec![PluginView { name: "b".into(), coming: Coming::Preparing, ..PluginView::default() }];
        let disputed = ["a", "b"].map(|name| (name.to_owned(), format!("two of {name}")));
        let shown = with_disputes(before, &BTreeMap::from(disputed));
        let shown: Vec<_> = shown
            .into_iter()
            .map(|plugin| (plugin.name, plugin.coming, plugin.refusal.map(|refusal| refusal.message)))
            .collect();
        let want = [
            ("a".into(), Coming::Nothing, Some("two of a".into())),
            ("b".into(), Coming::Preparing, Some("two of b".into())),
        ];
        assert_eq!(shown, want);
    }
}
