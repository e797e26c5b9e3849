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

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hark_sandbox::{ContentHash, Plugin, Usage};
use tokio::time::Instant;

use super::carried::HandOvers;
use super::running::Running;
use super::view::{Coming, PluginView, Refusal, RunningView};
use crate::config::PluginConfig;
use crate::folder::{PluginFile, Stamp};

/// After how long a version is tried again that the machine lacked something for (a thread, memory). It doubles each
/// time in a row, up to [`AGAIN_MOST`].
const AGAIN: Duration = Duration::from_secs(5);
const AGAIN_MOST: Duration = Duration::from_secs(300);

/// See the file's head.
pub(crate) struct Slot {
    file: Option<PluginFile>,
    gone_since: Option<Instant>,
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
    coming: Coming,
    /// What was last tried: no need to read the same again.
    tried: Option<(Stamp, PluginConfig)>,
    refused: Option<(ContentHash, PluginConfig)>,
    /// When what the machine lacked something for is tried again, and how often in a row it did.
    again: Option<Instant>,
    hindered: u32,
    /// Why the file as it is now does not run, for whoever asks.
    refusal: Option<Refusal>,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            file: None,
            gone_since: None,
            noticed: Instant::now(),
            running: None,
            usage: Arc::default(),
            hand_overs: HandOvers::default(),
            generation: 0,
            took_over: (0, SystemTime::UNIX_EPOCH),
            coming: Coming::Nothing,
            tried: None,
            refused: None,
            again: None,
            hindered: 0,
            refusal: None,
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

    /// The version to prepare now, if there is one that was not tried, or that is to be tried again.
    pub(crate) fn begin(&mut self, config: &PluginConfig, now: Instant) -> Option<(PluginFile, Instant)> {
        let file = self.file.clone()?;
        let tried = self.tried.as_ref();
        let due = self.again.is_some_and(|again| again <= now);
        let same = tried.is_some_and(|(stamp, with)| *stamp == file.stamp && with == config);
        if self.coming != Coming::Nothing || (same && !due) {
            return None;
        }
        self.coming = Coming::Preparing;
        self.again = None;
        self.tried = Some((file.stamp, config.clone()));
        Some((file, self.noticed))
    }

    /// What was prepared waits for the calls under way.
    pub(crate) fn takes_over(&mut self) {
        self.coming = Coming::TakingOver;
    }

    /// What was prepared is in place.
    pub(crate) fn settled(&mut self) {
        self.coming = Coming::Nothing;
        self.hindered = 0;
        self.refusal = None;
        self.took_over = (self.generation, SystemTime::now());
    }

    /// What was read is what runs, or what was refused before.
    pub(crate) fn same(&mut self, hash: ContentHash) {
        self.coming = Coming::Nothing;
        self.hindered = 0;
        self.refusal = self.refusal.take().filter(|refusal| refusal.hash == Some(hash));
    }

    /// What was read had changed meanwhile.
    pub(crate) fn try_again(&mut self) {
        self.coming = Coming::Nothing;
        self.tried = None;
    }

    /// What was prepared is no good.
    pub(crate) fn refuse(&mut self, hash: Option<ContentHash>, config: PluginConfig, message: String) {
        self.coming = Coming::Nothing;
        self.hindered = 0;
        self.refused = hash.map(|hash| (hash, config));
        self.refusal = Some(Refusal { hash, message });
    }

    /// What was prepared could not be started.
    pub(crate) fn not_started(&mut self, message: String) {
        self.coming = Coming::Nothing;
        self.refusal = Some(Refusal { hash: None, message });
    }

    /// The machine lacked what preparing or starting it takes: says after how long it is tried again.
    pub(crate) fn hindered(&mut self, message: String, now: Instant) -> Duration {
        let wait = AGAIN.saturating_mul(1 << self.hindered.min(16)).min(AGAIN_MOST);
        self.hindered = self.hindered.saturating_add(1);
        self.again = Some(now + wait);
        self.not_started(message);
        wait
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
            coming: self.coming,
            refusal: self.refusal.clone(),
        }
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
        assert!(slot.begin(&config, now).is_none(), "there is no file yet");
        slot.file_is(file(&folder, "1"), now);
        assert!(slot.begin(&config, now).is_some());
        assert!(slot.begin(&config, now).is_none(), "it is being prepared");
        slot.settled();
        assert!(slot.begin(&config, now).is_none(), "nothing changed");
        slot.file_is(file(&folder, "two"), now);
        assert!(slot.begin(&config, now).is_some());
        slot.settled();
        let other = PluginConfig { queue: 5, ..config.clone() };
        assert!(slot.begin(&other, now).is_some());
        slot.try_again();
        assert!(slot.begin(&other, now).is_some(), "what was read had changed meanwhile");
    }

    #[test]
    fn what_the_machine_lacked_something_for_is_tried_again_ever_more_seldom() {
        let folder = tempfile::tempdir().expect("a folder");
        let (config, mut now) = (Config::default().plugin("a"), Instant::now());
        let mut slot = Slot::default();
        slot.file_is(file(&folder, "1"), now);
        assert!(slot.begin(&config, now).is_some());
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            let wait = slot.hindered("no thread".into(), now);
            assert_eq!(wait, Duration::from_secs(seconds));
            let before = now + wait - Duration::from_millis(1);
            assert!(slot.begin(&config, before).is_none());
            now += wait;
            assert!(slot.begin(&config, now).is_some());
        }
        assert!(slot.begin(&config, now + AGAIN_MOST).is_none(), "it is being prepared");
        slot.settled();
        assert!(slot.begin(&config, now + AGAIN_MOST).is_none(), "it runs");
        assert_eq!(slot.hindered("no thread".into(), now), AGAIN, "counted anew");
        slot.file_is(file(&folder, "two"), now);
        assert!(slot.begin(&config, now).is_some(), "another file is tried at once");
    }

    #[test]
    fn how_far_a_new_version_is_shows_until_it_is_in_place_or_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (config, now) = (Config::default().plugin("a"), Instant::now());
        let mut slot = Slot::default();
        assert_eq!(slot.view("a").coming, Coming::Nothing);
        slot.file_is(file(&folder, "1"), now);
        slot.begin(&config, now).expect("a version");
        assert_eq!(slot.view("a").coming, Coming::Preparing);
        slot.takes_over();
        assert_eq!(slot.view("a").coming, Coming::TakingOver);
        slot.file_is(file(&folder, "two"), now);
        assert!(slot.begin(&config, now).is_none(), "one after the other");
        slot.settled();
        assert_eq!(slot.view("a").coming, Coming::Nothing);
        slot.begin(&config, now).expect("the next one");
        slot.refuse(None, config, "no good".into());
        assert_eq!(slot.view("a").coming, Coming::Nothing);
    }

    #[test]
    fn a_refusal_is_shown_until_the_file_is_another_one() {
        let config = Config::default().plugin("a");
        let (bad, good) = (ContentHash::of(b"bad"), ContentHash::of(b"good"));
        let mut slot = Slot::default();
        let message = |slot: &Slot| slot.view("a").refusal.map(|refusal| refusal.message);
        slot.refuse(Some(bad), config.clone(), "no good".into());
        slot.same(bad);
        assert_eq!(message(&slot).as_deref(), Some("no good"), "it was only touched");
        slot.same(good);
        assert_eq!(message(&slot), None, "what runs was put back");
        slot.refuse(Some(bad), config, "no good".into());
        slot.settled();
        assert_eq!(message(&slot), None, "another version has taken over");
        slot.not_started("no thread".into());
        assert_eq!(message(&slot).as_deref(), Some("no thread"));
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
