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
//! When a version is begun:
//!
//! | the file, compared with the one tried last | begun |
//! | --- | --- |
//! | other stamp, or other configuration | at once; if the file changes all the time, at a [`pace`](super::pace) |
//! | same, and it changed while it was read, or the machine lacked something | again a while later |
//! | same, and read so soon after a change that another one may have the same stamp | once more when that is past, and nobody notices if its content is the same |
//! | same | not |

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hark_sandbox::{ContentHash, Plugin, Usage};
use tokio::time::Instant;

use super::carried::HandOvers;
use super::pace::{Pace, Turn};
use super::prepare::Prepared;
use super::running::Running;
use super::trial::{PathOf, StandIn, Trial};
use super::view::{Coming, PluginView, Refusal, RunningView, Shown};
use crate::config::PluginConfig;
use crate::folder::{PluginFile, Stamp};

/// After how long a version is tried again that the machine lacked something for (a thread, memory). It doubles each
/// time in a row, up to [`AGAIN_MOST`].
const AGAIN: Duration = Duration::from_secs(5);
const AGAIN_MOST: Duration = Duration::from_secs(300);

/// The same for a file that changed while it was read, if no look finds it changed; and for a plugin whose thread ended.
const SOON: Duration = Duration::from_secs(1);

/// See the file's head.
pub(crate) struct Slot {
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
    coming: Coming,
    /// What was last tried: no need to read the same again.
    tried: Option<(Stamp, PluginConfig)>,
    refused: Option<(ContentHash, PluginConfig)>,
    /// When what was tried is tried again, and how often in a row the machine lacked something for it.
    again: Option<Instant>,
    hindered: u32,
    /// When the content of what was tried is looked at once more, and whether it is just now.
    verify: Option<Instant>,
    verifying: bool,
    pace: Pace,
    /// When a version may be begun that is begun too soon.
    turn: Option<Instant>,
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
            file: None,
            last_file: None,
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
            verify: None,
            verifying: false,
            pace: Pace::default(),
            turn: None,
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
}

/// Contents that need not be compiled again: the one that runs, and the one that was refused.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) running: Option<(Plugin, PluginConfig)>,
    pub(crate) refused: Option<(ContentHash, PluginConfig)>,
    /// What was rolled back, and what runs in its place.
    pub(super) stand_in: Option<StandIn>,
}

impl Slot {
    /// Of a plugin of whose versions this is known.
    pub(super) fn new(trial: Trial) -> Self {
        Self { trial, ..Self::default() }
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
        self.coming == Coming::TakingOver
    }

    /// The file as the folder has it now; none while it may not be read.
    pub(crate) fn file_is(&mut self, file: Option<&PluginFile>) {
        if self.file.as_ref() == file {
            return;
        }
        self.file = file.cloned();
        self.last_file = self.file.clone().or(self.last_file.take());
        if let Some(file) =
            file.filter(|file| self.tried.as_ref().is_none_or(|(stamp, _)| *stamp != file.stamp))
        {
            self.noticed = file.noticed;
            self.verify = None;
        }
    }

    /// The version to prepare now, if there is one that was not tried, or that is to be tried again.
    pub(crate) fn begin(&mut self, config: &PluginConfig, now: Instant) -> Begin {
        let Some(file) = self.file.clone().filter(|_| !self.is_busy()) else { return Begin::Nothing };
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        self.turn = None;
        let tried = self.tried.as_ref();
        let other_file = tried.is_none_or(|(stamp, _)| *stamp != file.stamp);
        let same = !other_file && tried.is_some_and(|(_, with)| with == config);
        if same && !due(self.again) {
            return if due(self.verify) { self.look_once_more(file, now) } else { Begin::Nothing };
        }
        if other_file {
            (self.again, self.verify) = (None, None);
            match self.pace.take(now) {
                Turn::Now => {}
                Turn::Later { at, news } => {
                    self.turn = Some(at);
                    return if news { Begin::Paced } else { Begin::Nothing };
                }
            }
            let unsure_until = file.noticed + file.stamp.resolution();
            self.verify = (now < unsure_until).then_some(unsure_until);
        }
        self.coming = Coming::Preparing;
        self.again = None;
        self.tried = Some((file.stamp, config.clone()));
        Begin::Version(file, self.noticed)
    }

    /// Another change may have had the same stamp. If so, it is noticed now.
    fn look_once_more(&mut self, file: PluginFile, now: Instant) -> Begin {
        self.verify = None;
        self.verifying = true;
        self.noticed = now;
        Begin::Version(file, now)
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

    /// When there may be a version to prepare although nothing changes.
    pub(crate) fn due(&self) -> Option<Instant> {
        if self.is_busy() || self.file.is_none() {
            return None;
        }
        [self.again, self.verify, self.turn].into_iter().flatten().min()
    }

    /// The plugin's thread has ended by itself: what is left is its file, which is tried again soon, and what is known of
    /// its versions.
    pub(crate) fn died(&mut self, now: Instant) {
        let (file, last_file, tried) = (self.file.take(), self.last_file.take(), self.tried.take());
        let (pace, trial) = (std::mem::take(&mut self.pace), Trial::new(Some(self.trial.left())));
        *self = Self { file, last_file, tried, pace, trial, again: Some(now + SOON), ..Self::default() };
    }

    /// What was prepared waits for the calls under way.
    pub(crate) fn takes_over(&mut self) {
        self.coming = Coming::TakingOver;
    }

    /// What was prepared is in place.
    pub(crate) fn settled(&mut self) {
        self.is_done();
        self.hindered = 0;
        self.refusal = None;
        self.took_over = (self.generation, SystemTime::now());
    }

    /// The version that was gone back to is in place; another one may be on its way.
    pub(super) fn went_back(&mut self) {
        self.took_over = (self.generation, SystemTime::now());
    }

    /// What was read is what runs, or what was refused before with the same part of the operator's.
    pub(crate) fn same(&mut self, hash: ContentHash, config: &PluginConfig) -> Same {
        let once_more = self.verifying;
        self.is_done();
        self.hindered = 0;
        let refused = self.refused.as_ref().is_some_and(|(content, with)| *content == hash && with == config);
        let is_over = |refusal: &mut Refusal| !refused || refusal.hash != Some(hash);
        let was_refused = self.refusal.take_if(is_over).is_some();
        // What was rolled back is known too, and no good.
        let rolled_back = self.trial.rolled_back().is_some_and(|it| it.hash == hash);
        let good_again = was_refused && !rolled_back;
        Same { once_more, good_again }
    }

    /// What was read had changed meanwhile: the next look will say so. If it does not, it is tried again soon.
    pub(crate) fn try_again(&mut self, now: Instant) {
        self.is_done();
        self.again = Some(now + SOON);
    }

    /// What was prepared is no good.
    pub(crate) fn refuse(&mut self, hash: Option<ContentHash>, config: PluginConfig, message: String) {
        self.is_done();
        self.hindered = 0;
        // What could not be read, or may be good another time, is not looked at again for its content's sake.
        self.verify = self.verify.filter(|_| hash.is_some());
        self.refused = hash.map(|hash| (hash, config));
        self.refusal = Some(Refusal { hash, message });
    }

    /// What was prepared could not be started.
    pub(crate) fn not_started(&mut self, message: String) {
        self.is_done();
        self.verify = None;
        self.refusal = Some(Refusal { hash: None, message });
    }

    /// The machine lacked what preparing or starting it takes: says after how long it is tried again.
    pub(crate) fn hindered(&mut self, message: String, now: Instant) -> Duration {
        let wait = self.hindered_on_the_way_back();
        self.again = Some(now + wait);
        self.not_started(message);
        wait
    }

    /// The same for the version that is to be gone back to, which does not wait for the next look.
    pub(super) fn hindered_on_the_way_back(&mut self) -> Duration {
        let wait = AGAIN.saturating_mul(1 << self.hindered.min(16)).min(AGAIN_MOST);
        self.hindered = self.hindered.saturating_add(1);
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
mod tests {
    use super::*;
    use crate::config::Config;

    /// A file that was noticed long before `now`: nothing is racy.
    fn file(folder: &tempfile::TempDir, content: &str, now: Instant) -> PluginFile {
        let path = folder.path().join("a.wasm");
        std::fs::write(&path, content).expect("written");
        let noticed = now.checked_sub(Duration::from_secs(60)).expect("the machine has been up for longer");
        PluginFile { stamp: Stamp::read(&path).expect("there"), changed: None, path, noticed }
    }

    fn is_begun(slot: &mut Slot, config: &PluginConfig, now: Instant) -> bool {
        matches!(slot.begin(config, now), Begin::Version(..))
    }

    #[test]
    fn a_version_is_tried_once_and_again_when_file_or_settings_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let (config, now) = (Config::default().plugin("a"), Instant::now());
        let mut slot = Slot::default();
        assert!(!is_begun(&mut slot, &config, now), "there is no file yet");
        slot.file_is(Some(&file(&folder, "1", now)));
        assert!(is_begun(&mut slot, &config, now));
        assert!(!is_begun(&mut slot, &config, now), "it is being prepared");
        slot.settled();
        assert!(!is_begun(&mut slot, &config, now), "nothing changed");
        slot.file_is(Some(&file(&folder, "two", now)));
        assert!(is_begun(&mut slot, &config, now));
        slot.settled();
        let other = PluginConfig { queue: 5, ..config.clone() };
        assert!(is_begun(&mut slot, &other, now));
        slot.try_again(now);
        assert!(!is_begun(&mut slot, &other, now), "a look will say so");
        assert_eq!(slot.due(), Some(now + SOON));
        assert!(is_begun(&mut slot, &other, now + SOON), "unless none does");
    }

    #[test]
    fn what_the_machine_lacked_something_for_is_tried_again_ever_more_seldom() {
        let folder = tempfile::tempdir().expect("a folder");
        let (config, mut now) = (Config::default().plugin("a"), Instant::now());
        let mut slot = Slot::default();
        slot.file_is(Some(&file(&folder, "1", now)));
        assert!(is_begun(&mut slot, &config, now));
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            let wait = slot.hindered("no thread".into(), now);
            assert_eq!(wait, Duration::from_secs(seconds));
            let before = now + wait - Duration::from_millis(1);
            assert!(!is_begun(&mut slot, &config, before));
            now += wait;
            assert!(is_begun(&mut slot, &config, now));
        }
        assert!(!is_begun(&mut slot, &config, now + AGAIN_MOST), "it is being prepared");
        slot.settled();
        assert!(!is_begun(&mut slot, &config, now + AGAIN_MOST), "it runs");
        assert_eq!(slot.hindered("no thread".into(), now), AGAIN, "counted anew");
        slot.file_is(Some(&file(&folder, "two", now)));
        assert!(is_begun(&mut slot, &config, now), "another file is tried at once");
    }

    #[test]
    fn how_far_a_new_version_is_shows_until_it_is_in_place_or_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (config, now) = (Config::default().plugin("a"), Instant::now());
        let mut slot = Slot::default();
        assert_eq!(slot.view("a").coming, Coming::Nothing);
        slot.file_is(Some(&file(&folder, "1", now)));
        assert!(is_begun(&mut slot, &config, now));
        assert_eq!(slot.view("a").coming, Coming::Preparing);
        slot.takes_over();
        assert_eq!(slot.view("a").coming, Coming::TakingOver);
        slot.file_is(Some(&file(&folder, "two", now)));
        assert!(!is_begun(&mut slot, &config, now), "one after the other");
        slot.settled();
        assert_eq!(slot.view("a").coming, Coming::Nothing);
        assert!(is_begun(&mut slot, &config, now));
        slot.refuse(None, config, "no good".into());
        assert_eq!(slot.view("a").coming, Coming::Nothing);
    }

    #[test]
    fn a_refusal_is_shown_until_the_file_is_another_one() {
        let config = Config::default().plugin("a");
        let (bad, good) = (ContentHash::of(b"bad"), ContentHash::of(b"good"));
        let mut slot = Slot::default();
        let message = |slot: &Slot| slot.view("a").refusal.map(|refusal| refusal.message);
        let said = |good_again| Same { once_more: false, good_again };
        slot.refuse(Some(bad), config.clone(), "no good".into());
        assert_eq!(slot.same(bad, &config), said(false));
        assert_eq!(message(&slot).as_deref(), Some("no good"), "it was only touched");
        assert_eq!(slot.same(good, &config), said(true));
        assert_eq!(message(&slot), None, "what runs was put back");
        assert_eq!(slot.same(good, &config), said(false), "once");
        let other = PluginConfig { queue: 5, ..config.clone() };
        slot.refuse(Some(good), other.clone(), "wrong settings".into());
        assert_eq!(slot.same(good, &other), said(false));
        assert_eq!(slot.same(good, &config), said(true), "its settings were put back");
        assert_eq!(message(&slot), None);
        slot.refuse(Some(bad), config, "no good".into());
        slot.settled();
        assert_eq!(message(&slot), None, "another version has taken over");
        slot.not_started("no thread".into());
        assert_eq!(message(&slot).as_deref(), Some("no thread"));
    }

    #[test]
    fn what_was_refused_is_known_until_the_file_has_been_good() {
        let config = Config::default().plugin("a");
        let (bad, good) = (ContentHash::of(b"bad"), ContentHash::of(b"good"));
        let mut slot = Slot::default();
        let knows = |slot: &Slot| slot.known(&|_| Err(String::new())).refused.is_some();
        slot.refuse(Some(bad), config.clone(), "no good".into());
        slot.same(bad, &config);
        assert!(knows(&slot), "it was only touched");
        slot.same(good, &config);
        assert!(!knows(&slot), "what runs was put back");
        slot.refuse(Some(bad), config.clone(), "no good".into());
        slot.settled();
        assert!(!knows(&slot), "another version has taken over");
        slot.refuse(None, config, "it cannot be read".into());
        assert!(!knows(&slot), "its content is not to blame");
    }

    #[test]
    fn what_was_read_soon_after_its_change_is_read_once_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let (config, now) = (Config::default().plugin("a"), Instant::now());
        let fresh = |content| PluginFile { noticed: now, ..file(&folder, content, now) };
        let mut slot = Slot::default();
        let first = fresh("1");
        slot.file_is(Some(&first));
        assert!(is_begun(&mut slot, &config, now));
        let sure = now + first.stamp.resolution();
        assert_eq!(slot.due(), None, "not while it is being prepared");
        slot.settled();
        assert_eq!(slot.due(), Some(sure));
        assert!(!is_begun(&mut slot, &config, now));
        assert!(is_begun(&mut slot, &config, sure));
        assert_eq!(slot.view("a").coming, Coming::Nothing, "nobody need know");
        assert!(!is_begun(&mut slot, &config, sure), "one after the other");
        assert!(slot.same(ContentHash::of(b"1"), &config).once_more, "nor that it was");
        assert!(!is_begun(&mut slot, &config, sure + SOON), "once");
        assert_eq!(slot.due(), None);

        slot.file_is(Some(&fresh("two")));
        assert!(is_begun(&mut slot, &config, now));
        slot.refuse(None, config.clone(), "it cannot be read".into());
        assert_eq!(slot.due(), None, "its content is not known");
        slot.file_is(Some(&fresh("three")));
        assert!(is_begun(&mut slot, &config, sure), "read late enough");
        slot.settled();
        assert_eq!(slot.due(), None);
    }

    #[test]
    fn a_file_that_changes_all_the_time_has_its_turn_once_a_second() {
        let folder = tempfile::tempdir().expect("a folder");
        let (config, now) = (Config::default().plugin("a"), Instant::now());
        let mut slot = Slot::default();
        let mut content = String::new();
        let mut change = |slot: &mut Slot| {
            content.push('x');
            slot.file_is(Some(&file(&folder, &content, now)));
        };
        for _ in 0..5 {
            change(&mut slot);
            assert!(is_begun(&mut slot, &config, now));
            slot.settled();
        }
        change(&mut slot);
        assert!(matches!(slot.begin(&config, now), Begin::Nothing), "it is not said at once");
        let turn = slot.due().expect("its turn comes");
        assert_eq!(turn, now + Duration::from_secs(1));
        change(&mut slot);
        let other = PluginConfig { queue: 5, ..config.clone() };
        assert!(!is_begun(&mut slot, &other, now), "nor with another configuration");
        assert!(is_begun(&mut slot, &config, turn), "the last one");
        slot.settled();
        assert_eq!(slot.due(), None);
        assert!(is_begun(&mut slot, &other, turn), "a configuration alone has no pace");
        slot.settled();
        let mut said = 0;
        let mut now = turn;
        for _ in 0..5 {
            change(&mut slot);
            said += usize::from(matches!(slot.begin(&other, now), Begin::Paced));
            now = slot.due().expect("its turn comes");
            assert!(is_begun(&mut slot, &other, now));
            slot.settled();
        }
        assert_eq!(said, 1, "it is said when it lasts, and once");
    }

    #[test]
    fn a_file_that_is_not_there_or_half_written_is_not_begun() {
        let folder = tempfile::tempdir().expect("a folder");
        let (config, now) = (Config::default().plugin("a"), Instant::now());
        let mut slot = Slot::default();
        let whole = file(&folder, "1", now);
        slot.file_is(Some(&whole));
        assert!(is_begun(&mut slot, &config, now));
        slot.try_again(now);
        slot.file_is(None);
        assert!(!is_begun(&mut slot, &config, now + SOON));
        assert_eq!(slot.due(), None);
        slot.file_is(Some(&whole));
        assert!(is_begun(&mut slot, &config, now + SOON));
        slot.died(now);
        assert!(!is_begun(&mut slot, &config, now), "not at once: it may die again");
        let soon = slot.due().expect("soon");
        assert!(is_begun(&mut slot, &config, soon));
    }
}
