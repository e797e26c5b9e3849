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
//! other content is in the file. While that is so, the last good content stands in for what is in the file.
//!
//! Invariant: what is refused is never what is good.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::SystemTime;

use hark_informer::handler::Legacy;
use hark_sandbox::{ContentHash, Plugin};

use super::prepare::Preparation;
use super::view::{RollbackState, RollbackView, Shown};
use crate::kept::{Fresh, Good, Record, RolledBack};

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

/// The last good content, while another one runs.
struct Before {
    good: Good,
    /// Its code; none: of a host before, so its bytes are on the disk at most.
    plugin: Option<Plugin>,
    /// What it saved when it was replaced.
    legacies: Vec<Option<Legacy>>,
}

/// A version that is replaced.
pub(super) struct Old {
    pub(super) plugin: Plugin,
    /// What it saved.
    pub(super) legacies: Vec<Option<Legacy>>,
}

/// Where a content comes from that is not in the plugin's file.
#[derive(Clone)]
pub(super) enum Elsewhere {
    /// It runs, or has run.
    Loaded(Plugin),
    /// Its bytes were kept, here.
    Kept { hash: ContentHash, path: PathBuf },
}

/// What a file's content is refused for, and what stands in for it.
#[derive(Clone)]
pub(super) struct StandIn {
    pub(super) refused: RolledBack,
    /// None, with the reason, if there is nothing to be had.
    pub(super) good: Result<Elsewhere, String>,
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

impl Elsewhere {
    /// The content's.
    pub(super) fn hash(&self) -> &ContentHash {
        match self {
            Self::Loaded(plugin) => plugin.hash(),
            Self::Kept { hash, .. } => hash,
        }
    }
}

impl StandIn {
    /// Nothing stands in: what is in the file stays refused all the same.
    pub(super) fn fails(&self, message: &str) -> Preparation {
        let message =
            format!("{}, and the last good version cannot take its place: {message}", Shown(&self.refused));
        Preparation::Failed { hash: Some(self.refused.hash), message }
    }
}

/// Where the bytes of a content are, if they are kept; see [`KeptVersions::path_of`](crate::kept::KeptVersions::path_of).
pub(super) type PathOf<'a> = &'a dyn Fn(&ContentHash) -> Result<PathBuf, String>;

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
            | Standing::Overruled { before } => Some(before.good),
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
            | Standing::Overruled { before } => Some(before),
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

    /// There is no way back: what runs goes on, and is not refused.
    pub(super) fn overrule(&mut self) {
        self.standing = match std::mem::take(&mut self.standing) {
            Standing::GoingBack { before } => {
                self.rolled_back = None;
                Standing::Overruled { before }
            }
            other => other,
        };
    }

    /// Whether the way back is under way.
    pub(super) fn is_going_back(&self) -> bool {
        matches!(self.standing, Standing::GoingBack { .. })
    }

    /// Other content than what was rolled back was found in the file.
    pub(super) fn found(&mut self, content: &ContentHash) {
        if !self.is_going_back() {
            self.rolled_back.take_if(|rolled_back| rolled_back.hash != *content);
        }
    }

    /// What was rolled back, and is refused.
    pub(super) fn rolled_back(&self) -> Option<&RolledBack> {
        self.rolled_back.as_ref()
    }

    /// What stands in for the file's content, should that be what was rolled back. `running` is what runs.
    pub(super) fn stand_in(&self, running: Option<&Plugin>, path_of: PathOf<'_>) -> Option<StandIn> {
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
                | Standing::Overruled { before },
                _,
            ) => before.content(path_of),
        };
        Some(StandIn { refused, good })
    }

    /// What the next one is to know who takes care of the plugin, should this one be lost.
    pub(super) fn left(&mut self) -> Record {
        self.news();
        self.written.take().unwrap_or_default()
    }

    /// What is to be written down, if that has changed.
    pub(super) fn news(&mut self) -> Option<Record> {
        let record = match (&self.standing, self.on) {
            // What the host before left stays until something else is known.
            (Standing::Fresh(_), _) => return None,
            (_, false) => Record::default(),
            (standing, true) => Record {
                good: self.good(),
                candidate: match standing {
                    Standing::OnTrial { content, .. } => Some(*content),
                    _ => None,
                },
                rolled_back: self.rolled_back.clone(),
            },
        };
        if self.written.as_ref() == Some(&record) {
            return None;
        }
        self.written = Some(record.clone());
        Some(record)
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
        Some(RollbackView { state, good, rolled_back: self.rolled_back.clone(), rollbacks: self.rollbacks })
    }
}

impl Before {
    fn content(&self, path_of: PathOf<'_>) -> Result<Elsewhere, String> {
        match &self.plugin {
            Some(plugin) => Ok(Elsewhere::Loaded(plugin.clone())),
            None => kept(&self.good, path_of),
        }
    }
}

fn kept(good: &Good, path_of: PathOf<'_>) -> Result<Elsewhere, String> {
    path_of(&good.hash).map(|path| Elsewhere::Kept { hash: good.hash, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens to a plugin's versions; contents are named by a letter.
    #[derive(Debug, Clone, Copy)]
    enum Act {
        /// The content of the file takes over.
        Takes(&'static str),
        /// The good one takes over in the place of what is in the file.
        StandsIn(&'static str),
        /// The last good one is back.
        Back(&'static str),
        Pass,
        Fail,
        Overrule,
        /// The file has this content, which does not take over.
        Finds(&'static str),
    }

    fn hash(content: &str) -> ContentHash {
        ContentHash::of(content.as_bytes())
    }

    fn name(hash: &ContentHash) -> &'static str {
        ["a", "b", "c"].into_iter().find(|content| self::hash(content) == *hash).expect("one of them")
    }

    fn after(attempts: u32) -> Option<NonZeroU32> {
        NonZeroU32::new(attempts)
    }

    /// `state good refused`.
    fn shown(trial: &Trial) -> String {
        let Some(view) = trial.view() else { return "off".into() };
        let good = view.good.as_ref().map_or("-", name);
        let refused = view.rolled_back.as_ref().map_or("-", |one| name(&one.hash));
        format!("{} {good} {refused}", view.state.as_str())
    }

    fn act(trial: &mut Trial, act: Act, rollback: Option<NonZeroU32>) {
        let mut takes = |content: &str, origin| {
            let on_trial = trial.attempts(&hash(content), rollback).is_some();
            trial.took_over(hash(content), origin, rollback, on_trial, None);
        };
        match act {
            Act::Takes(content) => takes(content, Origin::File),
            Act::StandsIn(content) => takes(content, Origin::StandIn),
            Act::Back(content) => takes(content, Origin::Back),
            Act::Pass => trial.passed(),
            Act::Fail => drop(trial.failed("boom")),
            Act::Overrule => trial.overrule(),
            Act::Finds(content) => trial.found(&hash(content)),
        }
        let refused = trial.rolled_back().map(|one| one.hash);
        assert!(refused.is_none() || refused != trial.good().map(|good| good.hash), "{act:?}");
    }

    fn left(good: Option<&str>, refused: Option<&str>) -> Record {
        let at = SystemTime::UNIX_EPOCH;
        Record {
            good: good.map(|content| Good { hash: hash(content), since: at }),
            candidate: None,
            rolled_back: refused.map(|content| RolledBack { hash: hash(content), at, why: "boom".into() }),
        }
    }

    #[test]
    fn the_states_follow_the_table() {
        use Act::{Back, Fail, Finds, Overrule, Pass, StandsIn, Takes};
        let none = || left(None, None);
        for (before, steps, want) in [
            // The first one has nothing before it, and passes and fails no trial.
            (none(), vec![Takes("a"), Pass, Fail], vec!["good a -"; 3]),
            (none(), vec![Takes("a"), Takes("a")], vec!["good a -"; 2]),
            (
                none(),
                vec![Takes("a"), Takes("b"), Pass, Fail],
                vec!["good a -", "on-trial a -", "good b -", "good b -"],
            ),
            (
                none(),
                vec![Takes("a"), Takes("b"), Fail, Back("a")],
                vec!["good a -", "on-trial a -", "rolling-back a b", "rolled-back a b"],
            ),
            // What was on trial is never gone back to.
            (
                none(),
                vec![Takes("a"), Takes("b"), Takes("c"), Fail, Back("a")],
                vec!["good a -", "on-trial a -", "on-trial a -", "rolling-back a c", "rolled-back a c"],
            ),
            // Other settings are on trial only for as long as the content is.
            (
                none(),
                vec![Takes("a"), Takes("b"), Takes("b"), Pass],
                vec!["good a -", "on-trial a -", "on-trial a -", "good b -"],
            ),
            // The author puts the good one back himself.
            (none(), vec![Takes("a"), Takes("b"), Takes("a")], vec!["good a -", "on-trial a -", "good a -"]),
            (
                none(),
                vec![Takes("a"), Takes("b"), Fail, Takes("a")],
                vec!["good a -", "on-trial a -", "rolling-back a b", "good a -"],
            ),
            // A build that was ready before.
            (
                none(),
                vec![Takes("a"), Takes("b"), Fail, Takes("c")],
                vec!["good a -", "on-trial a -", "rolling-back a b", "on-trial a -"],
            ),
            (
                none(),
                vec![Takes("a"), Takes("b"), Fail, Overrule, Takes("c"), Fail],
                vec![
                    "good a -",
                    "on-trial a -",
                    "rolling-back a b",
                    "overruled a -",
                    "on-trial a -",
                    "rolling-back a c",
                ],
            ),
            // Only other content is not refused.
            (
                left(Some("a"), Some("b")),
                vec![StandsIn("a"), Finds("b"), StandsIn("a"), Finds("a")],
                vec!["rolled-back a b", "rolled-back a b", "rolled-back a b", "good a -"],
            ),
            (
                left(Some("a"), Some("b")),
                vec![StandsIn("a"), Finds("c")],
                vec!["rolled-back a b", "good a -"],
            ),
            (
                left(Some("a"), Some("b")),
                vec![StandsIn("a"), Takes("c")],
                vec!["rolled-back a b", "on-trial a -"],
            ),
            // The host before left a good one.
            (left(Some("a"), None), vec![Takes("a")], vec!["good a -"]),
            (
                left(Some("a"), None),
                vec![Takes("b"), Fail, Back("a")],
                vec!["on-trial a -", "rolling-back a b", "rolled-back a b"],
            ),
            (left(Some("a"), Some("b")), vec![Takes("c"), Pass], vec!["on-trial a -", "good c -"]),
            (left(None, Some("b")), vec![Finds("b"), Takes("c")], vec!["rolled-back - b", "good c -"]),
        ] {
            let mut trial = Trial::new(Some(before));
            let seen: Vec<String> = steps
                .iter()
                .map(|step| {
                    act(&mut trial, *step, after(3));
                    shown(&trial)
                })
                .collect();
            assert_eq!(seen, want, "{steps:?}");
        }
    }

    #[test]
    fn switched_off_whatever_takes_over_is_good_and_nothing_is_kept() {
        let mut trial = Trial::new(Some(left(Some("a"), Some("b"))));
        act(&mut trial, Act::Takes("b"), None);
        assert_eq!((shown(&trial), trial.news()), ("off".into(), Some(Record::default())));
        act(&mut trial, Act::Takes("c"), None);
        assert_eq!((trial.failed("boom"), trial.news()), (None, None));
        act(&mut trial, Act::Takes("a"), after(1));
        assert_eq!(shown(&trial), "on-trial c -", "switched on, what ran until then is good");
        assert_eq!(Trial::new(None).news(), None, "nothing is written of a plugin that never had it");
    }

    #[test]
    fn each_change_is_written_down_once() {
        let mut trial = Trial::new(Some(left(Some("a"), None)));
        assert_eq!(trial.news(), None, "until something runs");
        let written = |trial: &mut Trial| {
            let record = trial.news()?;
            let good = record.good.as_ref().map_or("-", |good| name(&good.hash));
            let candidate = record.candidate.as_ref().map_or("-", name);
            Some(format!(
                "{good} {candidate} {}",
                record.rolled_back.as_ref().map_or("-", |one| name(&one.hash))
            ))
        };
        for (step, want) in [
            (Act::Takes("a"), Some("a - -")),
            (Act::Takes("a"), None),
            (Act::Takes("b"), Some("a b -")),
            (Act::Fail, Some("a - b")),
            (Act::Back("a"), None),
            (Act::Finds("b"), None),
            (Act::Takes("c"), Some("a c -")),
            (Act::Pass, Some("c - -")),
        ] {
            act(&mut trial, step, after(3));
            assert_eq!(written(&mut trial).as_deref(), want, "{step:?}");
        }
        assert_eq!(trial.left().good.map(|good| good.hash), Some(hash("c")));
    }

    #[test]
    fn what_stands_in_is_where_it_can_be_had() {
        let path_of = |hash: &ContentHash| Ok(PathBuf::from(name(hash)));
        let nowhere = |_: &ContentHash| Err("nothing is kept".to_owned());
        let place = |stand_in: Option<StandIn>| match stand_in.map(|stand_in| stand_in.good) {
            None => "none".to_owned(),
            Some(Ok(Elsewhere::Loaded(_))) => "loaded".to_owned(),
            Some(Ok(Elsewhere::Kept { path, .. })) => path.display().to_string(),
            Some(Err(why)) => why,
        };
        let trial = Trial::new(Some(left(Some("a"), Some("b"))));
        assert_eq!(place(trial.stand_in(None, &path_of)), "a");
        assert_eq!(place(trial.stand_in(None, &nowhere)), "nothing is kept");
        let lost = Trial::new(Some(left(None, Some("b"))));
        let stand_in = lost.stand_in(None, &path_of);
        let Some(Preparation::Failed { hash: refused, message }) =
            stand_in.as_ref().map(|one| one.fails("gone"))
        else {
            panic!("it fails")
        };
        assert_eq!(refused, Some(hash("b")));
        let said = " was rolled back at 1970-01-01T00:00:00Z (boom), and the last good version cannot take its place: gone";
        assert!(message.ends_with(said), "{message}");
        assert_eq!(place(stand_in), "the last good version is not kept");
        assert_eq!(place(Trial::new(Some(left(Some("a"), None))).stand_in(None, &path_of)), "none");
        let mut trial = Trial::new(Some(left(Some("a"), None)));
        assert!(trial.way_back(&path_of).is_none());
        act(&mut trial, Act::Takes("b"), after(1));
        assert!(trial.way_back(&path_of).is_none());
        act(&mut trial, Act::Fail, after(1));
        assert!(matches!(trial.way_back(&path_of), Some(Ok(Elsewhere::Kept { .. }))));
        assert!(matches!(trial.way_back(&nowhere), Some(Err(_))));
    }
}
