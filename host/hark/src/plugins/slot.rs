//! What the manager knows of one plugin: its file, what runs, what was tried.
//!
//! Pure bookkeeping, used by the manager alone. A version is the file's content together with the operator's
//! part; the slot decides whether there is one to try. States, by the fields:
//!
//! | `coming` | `running` | |
//! | --- | --- | --- |
//! | nothing | none | nothing was good yet |
//! | preparing | none | the first version is being prepared |
//! | nothing | some | it runs |
//! | preparing | some | it runs, and its successor is being prepared |
//! | taking over | some | it runs, and its successor waits for the calls under way |
//!
//! When a version is begun is in [`tries`](super::tries).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hark_sandbox::{ContentHash, Plugin, Usage};
use tokio::time::Instant;

use super::carried::HandOvers;
use super::prepare::Prepared;
use super::running::Running;
use super::trial::{PathOf, StandIn, Trial};
use super::tries::{Next, Tries};
use super::view::{Coming, PluginView, Refusal, RunningView, Shown};
use crate::config::PluginConfig;
use crate::folder::PluginFile;

/// From a file's coming to its going, or to the end of the plugin's thread. What was begun in one life is nothing to the next,
/// even of the same name.
#[derive(Clone, Default)]
pub(super) struct Life(Arc<()>);

/// See the file's head.
pub(crate) struct Slot {
    life: Life,
    /// None while it is being written, or is not there.
    file: Option<PluginFile>,
    /// The last one that it had.
    last_file: Option<PluginFile>,
    /// When the change that is being acted on was first seen.
    pub(crate) noticed: Instant,
    pub(crate) running: Option<Running>,
    /// What all its versions have used.
    pub(crate) usage: Arc<Usage>,
    /// What became of its memory at reloads.
    pub(crate) hand_overs: HandOvers,
    /// Versions that have run so far, the one that is taking over included.
    pub(crate) generation: u64,
    /// The generation that runs, and since when.
    took_over: (u64, SystemTime),
    tries: Tries,
    /// The content that was refused last, with the settings that it was refused with.
    refused: Option<(ContentHash, PluginConfig)>,
    /// Why the file as it is now does not run, for whoever asks.
    refusal: Option<Refusal>,
    /// What its versions are worth.
    pub(super) trial: Trial,
    /// What became ready while the way back was under way: its turn comes then.
    pub(super) waiting: Option<Box<Prepared>>,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            life: Life::default(),
            file: None,
            last_file: None,
            noticed: Instant::now(),
            running: None,
            usage: Arc::default(),
            hand_overs: HandOvers::default(),
            generation: 0,
            took_over: (0, SystemTime::UNIX_EPOCH),
            tries: Tries::default(),
            refused: None,
            refusal: None,
            trial: Trial::default(),
            waiting: None,
        }
    }
}

/// What there is to prepare.
pub(crate) enum Begin {
    /// Nothing now.
    Nothing,
    /// A version, and when its change was first seen.
    Version(PluginFile, Instant),
    /// Nothing yet, since the file changes all the time: to be said, as it was not before.
    Paced,
}

/// What became of a file whose content was known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Same {
    /// It was only looked at once more.
    pub(crate) once_more: bool,
    /// It was refused, and is what runs.
    pub(crate) good_again: bool,
    /// It was no good at all, and is what was rolled back.
    pub(crate) refused_again: bool,
}

/// Contents that need not be compiled again: the one that runs, and the one that was refused.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) running: Option<(Plugin, PluginConfig)>,
    pub(crate) refused: Option<(ContentHash, PluginConfig)>,
    /// What was rolled back, and what runs in its place.
    pub(super) stand_in: Option<StandIn>,
}

impl PartialEq for Life {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Slot {
    /// Of a plugin of whose versions this is known.
    pub(super) fn new(trial: Trial) -> Self {
        Self { trial, ..Self::default() }
    }

    /// Whose life it is; another one each time.
    pub(super) fn life(&self) -> Life {
        self.life.clone()
    }

    /// The file, or the last one that there was.
    pub(super) fn last_file(&self) -> Option<&PluginFile> {
        self.last_file.as_ref()
    }

    /// The generation that runs.
    pub(super) fn at_work(&self) -> u64 {
        self.took_over.0
    }

    /// A version of it is about to take over.
    pub(super) fn is_taking_over(&self) -> bool {
        self.tries.coming() == Coming::TakingOver
    }

    /// The file as the folder has it now; none while it may not be read.
    pub(crate) fn file_is(&mut self, file: Option<&PluginFile>) {
        if self.file.as_ref() == file {
            return;
        }
        self.file = file.cloned();
        self.last_file = self.file.clone().or(self.last_file.take());
        if let Some(file) = file.filter(|file| self.tries.sees(file)) {
            self.noticed = file.noticed;
        }
    }

    /// The version to prepare now, if there is one that was not tried, or that is to be tried again.
    pub(crate) fn begin(&mut self, config: &PluginConfig, now: Instant) -> Begin {
        let Some(file) = &self.file else { return Begin::Nothing };
        match self.tries.next(file, config, now) {
            Next::Nothing => return Begin::Nothing,
            Next::Paced => return Begin::Paced,
            Next::Version => {}
            // It is not for its file's change that this one is read.
            Next::Again => {
                return Begin::Version(PluginFile { changed: None, ..file.clone() }, self.noticed);
            }
            // Should its content be another one, that is noticed now.
            Next::OnceMore => self.noticed = now,
        }
        Begin::Version(file.clone(), self.noticed)
    }

    /// When there may be a version to prepare although nothing changes.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.file.as_ref().and_then(|_| self.tries.due())
    }

    /// The plugin's thread has ended by itself: what is left is its file, which is tried again soon, and what is known of
    /// its versions.
    pub(crate) fn died(&mut self, now: Instant) {
        let (file, last_file) = (self.file.take(), self.last_file.take());
        let (tries, trial) = (self.tries.anew(now), Trial::new(Some(self.trial.left())));
        *self = Self { file, last_file, tries, trial, ..Self::default() };
    }

    /// What was prepared waits for the calls under way.
    pub(crate) fn takes_over(&mut self) {
        self.tries.takes_over();
    }

    /// What was prepared is in place.
    pub(crate) fn settled(&mut self) {
        self.tries.answered();
        self.refusal = None;
        self.took_over = (self.generation, SystemTime::now());
    }

    /// The version that was gone back to is in place; another one may be on its way.
    pub(super) fn went_back(&mut self) {
        self.took_over = (self.generation, SystemTime::now());
    }

    /// What was read is what runs, or what was refused before with the same part of the operator's.
    pub(crate) fn same(&mut self, hash: ContentHash, config: &PluginConfig) -> Same {
        let once_more = self.tries.is_looking_once_more();
        self.tries.answered();
        let rolled_back_no_more = self.trial.found(&hash);
        let refused = self.refused.as_ref().is_some_and(|(content, with)| *content == hash && with == config);
        let is_over = |refusal: &mut Refusal| !refused || refusal.hash != Some(hash);
        let was_refused = self.refusal.take_if(is_over).is_some();
        // What was rolled back is known too, and no good.
        let rolled_back = self.trial.rolled_back().is_some_and(|it| it.hash == hash);
        let good_again = rolled_back_no_more || (was_refused && !rolled_back);
        Same { once_more, good_again, refused_again: was_refused && rolled_back }
    }

    /// What was read had changed meanwhile: the next look will say so. If it does not, it is tried again soon.
    pub(crate) fn try_again(&mut self, now: Instant) {
        self.tries.soon(now);
    }

    /// What was prepared is no good.
    pub(crate) fn refuse(&mut self, hash: Option<ContentHash>, config: PluginConfig, message: String) {
        match hash {
            Some(_) => self.tries.answered(),
            // What could not be read, or may be good another time, is not looked at again for its content's sake.
            None => self.tries.answered_for_good(),
        }
        self.refused = hash.map(|hash| (hash, config));
        self.refusal = Some(Refusal { hash, message });
    }

    /// What was prepared could not be started.
    pub(crate) fn not_started(&mut self, message: String) {
        self.tries.failed();
        self.refusal = Some(Refusal { hash: None, message });
    }

    /// The machine lacked what preparing or starting it takes: says after how long it is tried again.
    pub(crate) fn hindered(&mut self, message: String, now: Instant) -> Duration {
        let wait = self.tries.hindered(now);
        self.refusal = Some(Refusal { hash: None, message });
        wait
    }

    /// The same for the version that is to be gone back to, which does not wait for the next look.
    pub(super) fn hindered_on_the_way_back(&mut self) -> Duration {
        self.tries.hindrance()
    }

    /// What others may see of it.
    pub(crate) fn view(&self, name: &str) -> PluginView {
        let (generation, since) = self.took_over;
        let running = self.running.as_ref().map(|running| RunningView {
            hash: *running.version.plugin.hash(),
            how: running.version.plugin.how().clone(),
            has_lifecycle: running.version.plugin.has_lifecycle(),
            description: running.version.description.clone(),
            generation,
            since,
            treatment: running.version.treatment(),
            limits: running.version.config.limits.clone(),
            listener: running.listener().clone(),
        });
        PluginView {
            name: name.to_owned(),
            running,
            usage: self.usage.clone(),
            hand_overs: self.hand_overs.clone(),
            coming: self.tries.coming(),
            refusal: self.refusal.clone().or_else(|| self.rolled_back()),
            rollback: self.trial.view(),
        }
    }

    /// The file's content is refused since it was rolled back.
    fn rolled_back(&self) -> Option<Refusal> {
        let rolled_back = self.trial.rolled_back()?;
        Some(Refusal { hash: Some(rolled_back.hash), message: Shown(rolled_back).to_string() })
    }

    /// See [`Known`]; `path_of` says where a good version is kept.
    pub(super) fn known(&self, path_of: PathOf<'_>) -> Known {
        let running = self.running.as_ref().map(|running| {
            let version = &running.version;
            (version.plugin.clone(), version.config.clone())
        });
        // Once the file has been good, the same fault is a new one, and said again.
        let stands = |hash| self.refusal.as_ref().is_some_and(|refusal| refusal.hash == Some(hash));
        let refused = self.refused.clone().filter(|(hash, _)| stands(*hash));
        let stand_in = self.trial.stand_in(running.as_ref().map(|(plugin, _)| plugin), path_of);
        Known { running, refused, stand_in }
    }
}

#[cfg(test)]
mod tests;
