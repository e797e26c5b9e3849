//! What the manager knows of one plugin: its file, what runs, what was tried.
//!
//! Pure bookkeeping, used by the manager alone. A version is the file's content together with the operator's
//! part; the slot decides whether there is one to try. States, by the fields:
//!
//! | `preparing` | `running` | |
//! | --- | --- | --- |
//! | no | none | nothing was good yet |
//! | yes | none | the first version is being prepared |
//! | no | some | it runs |
//! | yes | some | it runs, and its successor is being prepared |

use std::time::Duration;

use hark_sandbox::{ContentHash, Plugin};
use tokio::time::Instant;

use super::running::Running;
use crate::config::PluginConfig;
use crate::folder::{PluginFile, Stamp};

/// See the file's head.
pub(crate) struct Slot {
    file: Option<PluginFile>,
    gone_since: Option<Instant>,
    /// When the change that is being acted on was first seen.
    pub(crate) noticed: Instant,
    pub(crate) running: Option<Running>,
    /// Versions that have run so far.
    pub(crate) generation: u64,
    preparing: bool,
    /// What was last tried: no need to read the same again.
    tried: Option<(Stamp, PluginConfig)>,
    refused: Option<(ContentHash, PluginConfig)>,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            file: None,
            gone_since: None,
            noticed: Instant::now(),
            running: None,
            generation: 0,
            preparing: false,
            tried: None,
            refused: None,
        }
    }
}

/// Contents that need not be compiled again: the one that runs, and the one that was refused.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) running: Option<(Plugin, PluginConfig)>,
    pub(crate) refused: Option<(ContentHash, PluginConfig)>,
}

impl Slot {
    /// The file as the folder has it now.
    pub(crate) fn file_is(&mut self, file: PluginFile, now: Instant) {
        self.gone_since = None;
        if self.file.as_ref() != Some(&file) {
            self.noticed = now;
            self.file = Some(file);
        }
    }

    /// The folder has no file: says whether that is so for `grace`.
    pub(crate) fn file_is_gone_for(&mut self, grace: Duration, now: Instant) -> bool {
        self.file = None;
        now - *self.gone_since.get_or_insert(now) >= grace
    }

    /// The version to prepare now, if there is one that was not tried.
    pub(crate) fn begin(&mut self, config: &PluginConfig) -> Option<(PluginFile, Instant)> {
        let file = self.file.clone()?;
        let tried = self.tried.as_ref();
        if self.preparing || tried.is_some_and(|(stamp, with)| *stamp == file.stamp && with == config) {
            return None;
        }
        self.preparing = true;
        self.tried = Some((file.stamp, config.clone()));
        Some((file, self.noticed))
    }

    /// What was prepared is in place, or was nothing new.
    pub(crate) fn settled(&mut self) {
        self.preparing = false;
    }

    /// What was read had changed meanwhile.
    pub(crate) fn try_again(&mut self) {
        self.preparing = false;
        self.tried = None;
    }

    /// What was prepared is no good.
    pub(crate) fn refuse(&mut self, hash: Option<ContentHash>, config: PluginConfig) {
        self.preparing = false;
        self.refused = hash.map(|hash| (hash, config));
    }

    /// See [`Known`].
    pub(crate) fn known(&self) -> Known {
        let running = self.running.as_ref().map(|running| {
            let version = &running.version;
            (version.plugin.clone(), version.config.clone())
        });
        Known { running, refused: self.refused.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn file(folder: &tempfile::TempDir, content: &str) -> PluginFile {
        let path = folder.path().join("a.wasm");
        std::fs::write(&path, content).expect("written");
        PluginFile { stamp: Stamp::read(&path).expect("there"), path }
    }

    #[test]
    fn a_version_is_tried_once_and_again_when_file_or_settings_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let (config, now) = (Config::default().plugin("a"), Instant::now());
        let mut slot = Slot::default();
        assert!(slot.begin(&config).is_none(), "there is no file yet");
        slot.file_is(file(&folder, "1"), now);
        assert!(slot.begin(&config).is_some());
        assert!(slot.begin(&config).is_none(), "it is being prepared");
        slot.settled();
        assert!(slot.begin(&config).is_none(), "nothing changed");
        slot.file_is(file(&folder, "two"), now);
        assert!(slot.begin(&config).is_some());
        slot.settled();
        let other = PluginConfig { queue: 5, ..config.clone() };
        assert!(slot.begin(&other).is_some());
        slot.try_again();
        assert!(slot.begin(&other).is_some(), "what was read had changed meanwhile");
    }

    #[test]
    fn a_file_is_gone_only_after_the_grace() {
        let folder = tempfile::tempdir().expect("a folder");
        let (start, grace) = (Instant::now(), Duration::from_secs(2));
        let mut slot = Slot::default();
        slot.file_is(file(&folder, "1"), start);
        assert!(!slot.file_is_gone_for(grace, start));
        assert!(!slot.file_is_gone_for(grace, start + Duration::from_secs(1)));
        slot.file_is(file(&folder, "1"), start + Duration::from_secs(1));
        assert!(!slot.file_is_gone_for(grace, start + Duration::from_secs(3)), "it came back in between");
        assert!(slot.file_is_gone_for(grace, start + Duration::from_secs(5)));
    }
}
