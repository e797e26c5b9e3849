//! The thread that looks: at the plugins folder and at the configuration file, when something was told of them, when it is
//! time, and when a file has to be looked at again.
//!
//! Made by the composition root, owned by the manager, which is told only what differs. Invariants: nothing about these
//! files is done on another thread, so a file system that hangs holds nobody up; looking takes at most a fifth of a core,
//! however much is told.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;

use super::configuration::{ConfigurationWatch, Read};
use super::ledger::{Ledger, Reading, Sight, Standing, Word};
use super::scan::{Place, Plugin, Scan, interests_of_unreadable, note, scan};
use super::stats::{Cause, LookStats};
use super::told::{Mailbox, News, Wake};
use super::watcher::Watcher;
use super::way::{Misses, WatchMode, Way, Why};

/// After a look the next one is not sooner than this, nor than [`REST`] times what the look took.
const PAUSE: Duration = Duration::from_millis(3);
const REST: u32 = 4;

/// How long two files may claim one stem before that is an error: cargo puts a new build into one folder, then links it
/// into another.
const DISPUTE: Duration = Duration::from_secs(1);

/// `host.poll_interval` if the operator does not say.
const POLL: Duration = Duration::from_secs(1);

/// What to look at, and how.
#[derive(Debug, Clone)]
pub(crate) struct LookOptions {
    /// The plugins folder.
    pub(crate) place: Place,
    /// The configuration file, which need not be there.
    pub(crate) configuration: PathBuf,
    /// `host.watch`.
    pub(crate) watch: WatchMode,
    /// `host.poll_interval`: a look is had at least as often.
    pub(crate) poll: Option<Duration>,
}

/// What came of a look at the plugins folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum FolderState {
    /// There was none yet.
    #[default]
    Unseen,
    /// It was read.
    Readable,
    /// It could not be read: what runs goes on.
    Unreadable(String),
}

/// What the last look found. If the folder could not be read, what the one before did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) state: FolderState,
    /// How each file is, by stem. Those that are gone are not among them.
    pub(crate) files: BTreeMap<String, Standing>,
    /// Stems that different files claim, with their paths; what runs goes on.
    pub(crate) disputed: BTreeMap<String, Vec<PathBuf>>,
    /// Files that look like plugins but cannot be: path and reason.
    pub(crate) refused: BTreeMap<PathBuf, String>,
    /// Further names of files that are plugins, with the name that counts.
    pub(crate) twins: BTreeMap<PathBuf, PathBuf>,
    /// Sub-folders and files that cannot be looked at: path and reason; what runs goes on.
    pub(crate) unreadable: BTreeMap<PathBuf, String>,
    /// How changes come to be known.
    pub(crate) way: Way,
}

/// The looker's thread, which ends with this.
pub(crate) struct Looker {
    mailbox: Arc<Mailbox>,
    /// What the last look found, if that differs from what the one before did.
    pub(crate) seen: watch::Receiver<Arc<Seen>>,
    /// The configuration file, each time it was read.
    pub(crate) configuration: watch::Receiver<Option<Read>>,
    /// What the looks cost.
    pub(crate) stats: Arc<LookStats>,
}

impl Looker {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system gives none.
    pub(crate) fn start(options: LookOptions) -> io::Result<Self> {
        let (mailbox, stats) = (Arc::new(Mailbox::default()), Arc::new(LookStats::default()));
        let (looking, seen, configuration) = Looking::new(options, mailbox.clone(), stats.clone());
        Builder::new().name("folder".to_owned()).spawn(move || looking.run())?;
        Ok(Self { mailbox, seen, configuration, stats })
    }

    /// Asks for a look.
    pub(crate) fn look(&self) {
        self.mailbox.ask();
    }
}

impl Drop for Looker {
    /// The thread may hang in the file system: nobody waits for it.
    fn drop(&mut self) {
        self.mailbox.stop();
    }
}

/// What the thread owns.
struct Looking {
    place: Place,
    poll: Duration,
    mode: WatchMode,
    mailbox: Arc<Mailbox>,
    stats: Arc<LookStats>,
    watcher: Watcher,
    configuration: ConfigurationWatch,
    plugins: Ledger,
    /// The last look that could be had.
    scan: Option<Scan>,
    state: FolderState,
    disputes: BTreeMap<String, Instant>,
    misses: Misses,
    way: Way,
    seen: watch::Sender<Arc<Seen>>,
    /// Directories have come to be watched, which may have changed before: to be looked at again.
    once_more: bool,
    /// When the last look was over, and how long it took.
    last: Option<(Instant, Duration)>,
    /// When it was begun, by the machine's clock.
    last_begun: Option<SystemTime>,
}

impl Looking {
    fn new(
        options: LookOptions,
        mailbox: Arc<Mailbox>,
        stats: Arc<LookStats>,
    ) -> (Self, watch::Receiver<Arc<Seen>>, watch::Receiver<Option<Read>>) {
        let LookOptions { place, configuration, watch: mode, poll } = options;
        let (seen, receiver) = watch::channel(Arc::default());
        let (configuration, reads) = ConfigurationWatch::new(configuration);
        let looking = Self {
            place,
            poll: poll.unwrap_or(POLL),
            mode,
            watcher: Watcher::new(mode, mailbox.clone()),
            mailbox,
            stats,
            configuration,
            plugins: Ledger::new(Reading { closed_still: Duration::ZERO }),
            scan: None,
            state: FolderState::Unseen,
            disputes: BTreeMap::new(),
            misses: Misses::default(),
            way: Way::default(),
            seen,
            once_more: false,
            last: None,
            last_begun: None,
        };
        (looking, receiver, reads)
    }

    fn run(mut self) {
        while let Some(cause) = self.wait() {
            self.stats.begin(cause);
            let begun = Instant::now();
            self.look(cause, begun, SystemTime::now());
            let over = Instant::now();
            self.last = Some((over, over - begun));
            self.stats.end(self.watcher.count());
        }
    }

    /// Waits until a look is due; none when it is time to end.
    fn wait(&self) -> Option<Cause> {
        let Some((over, took)) = self.last else { return Some(Cause::Clock) };
        let due = self.due();
        let not_before = over + PAUSE.max(took.saturating_mul(REST));
        let clock = over + self.poll;
        let until = due.map_or(clock, |due| due.min(clock));
        Some(match self.mailbox.wait(not_before, until) {
            Wake::Stop => return None,
            Wake::Told => Cause::Told,
            Wake::Asked => Cause::Asked,
            Wake::Time if until == clock => Cause::Clock,
            Wake::Time => Cause::Due,
        })
    }

    /// When a look is due on account of a file.
    fn due(&self) -> Option<Instant> {
        let disputes = self.disputes.values().map(|since| *since + DISPUTE);
        let last = self.last.map(|(over, _)| over);
        // Disputes that are older are in what was seen.
        let disputes = disputes.filter(|due| last.is_none_or(|last| *due > last));
        let again = last.filter(|_| self.once_more);
        let files = self.plugins.due().into_iter().chain(self.configuration.due());
        files.chain(disputes).chain(again).min()
    }

    /// One look.
    fn look(&mut self, cause: Cause, now: Instant, clock: SystemTime) {
        let news = self.mailbox.take();
        let mut found = scan(&self.place, self.scan.as_ref());
        let mut interests = match &mut found {
            Ok(scan) => std::mem::take(&mut scan.interests),
            Err(_) => interests_of_unreadable(&self.place.folder),
        };
        if cause == Cause::Clock || news.told {
            self.judge(found.as_ref().ok(), &news, now);
        }
        let way = self.configuration.way();
        note(&mut interests, &way);
        let writing = self.writing(found.as_ref().ok(), way.end.as_deref());
        let words = Words { whole: &news.whole, writing };
        self.configuration.look(way.end.as_deref().map_or(Word::None, |real| words.of(real)), now, clock);
        let nothing_new = !news.told && self.is_as_before(&found);
        if nothing_new {
            self.scan = found.ok();
        } else {
            self.take(found, &words, now, clock);
        }
        let followed = self.watcher.follow(interests, now);
        self.once_more = followed.more;
        self.way = self.way_with(followed.trouble);
        if !nothing_new || self.seen.borrow().way != self.way {
            self.tell(now);
        }
        self.last_begun = Some(clock);
    }

    /// Whether the look found what the one before did, and time alone changes nothing. So are nearly all looks at an idle
    /// folder, which may have a thousand files.
    fn is_as_before(&self, found: &io::Result<Scan>) -> bool {
        let waits = self.plugins.due().is_some() || !self.disputes.is_empty();
        let (Ok(found), Some(before), false) = (found, &self.scan, waits) else { return false };
        self.state == FolderState::Readable && found.found_the_same(before)
    }

    /// Whether the file system told of what the look found.
    fn judge(&mut self, found: Option<&Scan>, news: &News, now: Instant) {
        let untold = match (found, &self.scan) {
            (Some(found), Some(before)) if !news.told && found.plugins != before.plugins => {
                found.should_have_been_told(before, |directory| self.watcher.watches(directory))
            }
            _ => false,
        };
        self.misses.look(news.told, untold, now);
    }

    /// Files that are open for writing. Asked after the look: a write that began meanwhile counts.
    fn writing(&self, found: Option<&Scan>, configuration: Option<&Path>) -> BTreeSet<PathBuf> {
        if !self.mailbox.lock().is_any_written_to() {
            return BTreeSet::new();
        }
        let plugins = found.into_iter().flat_map(|scan| scan.plugins.values());
        let used: BTreeSet<&Path> =
            plugins.map(|plugin| plugin.real.as_path()).chain(configuration).collect();
        self.mailbox.writing(&used)
    }

    /// Takes in what the look found.
    fn take(&mut self, found: io::Result<Scan>, words: &Words<'_>, now: Instant, clock: SystemTime) {
        let scan = match found {
            Ok(scan) => scan,
            Err(error) => {
                self.state = FolderState::Unreadable(error.to_string());
                return self.plugins.could_not_look(now);
            }
        };
        self.state = FolderState::Readable;
        self.disputes.retain(|stem, _| scan.disputed.contains_key(stem));
        for stem in scan.disputed.keys() {
            self.disputes.entry(stem.clone()).or_insert(now);
        }
        let sight = |(stem, plugin): (&String, &Plugin)| {
            let word = words.of(&plugin.real);
            let changed = believed(plugin, self.last_begun);
            (stem.clone(), Sight { path: plugin.path.clone(), stamp: plugin.stamp, changed, word })
        };
        let sights = scan.plugins.iter().map(sight).collect();
        self.plugins.look(sights, |stem| scan.disputed.contains_key(stem), now, clock);
        self.scan = Some(scan);
    }

    fn way_with(&self, trouble: Option<Why>) -> Way {
        match trouble {
            Some(why) => Way::Polled(why),
            None if self.mode == WatchMode::Auto && self.misses.too_many() => Way::Polled(Why::Misses),
            None => Way::Events,
        }
    }

    /// Tells the manager, if there is news.
    fn tell(&self, now: Instant) {
        let scan = self.scan.as_ref();
        let disputed = scan.into_iter().flat_map(|scan| &scan.disputed);
        let lasting = |stem: &String| self.disputes.get(stem).is_some_and(|since| now - *since >= DISPUTE);
        let seen = Seen {
            state: self.state.clone(),
            files: self.plugins.standings(),
            disputed: disputed
                .filter(|(stem, _)| lasting(stem))
                .map(|(stem, paths)| (stem.clone(), paths.clone()))
                .collect(),
            refused: scan.map(|scan| scan.refused.clone()).unwrap_or_default(),
            twins: scan.map(|scan| scan.twins.clone()).unwrap_or_default(),
            unreadable: scan.map(|scan| scan.unreadable.clone()).unwrap_or_default(),
            way: self.way.clone(),
        };
        self.seen.send_if_modified(|before| {
            let differs = **before != seen;
            if differs {
                *before = Arc::new(seen);
            }
            differs
        });
    }
}

/// When a file changed that a look finds changed. None if that was before the last look, which would have found it: what
/// changed has no time of its own, as a mount or a folder that was moved, or the clocks differ.
fn believed(plugin: &Plugin, last_begun: Option<SystemTime>) -> Option<SystemTime> {
    let changed = plugin.changed?;
    let at_most = changed.checked_add(plugin.stamp.resolution())?;
    last_begun.is_none_or(|begun| begun <= at_most).then_some(changed)
}

/// What was told of files.
struct Words<'a> {
    whole: &'a BTreeSet<PathBuf>,
    writing: BTreeSet<PathBuf>,
}

impl Words<'_> {
    fn of(&self, real: &Path) -> Word {
        if self.writing.contains(real) {
            Word::Writing
        } else if self.whole.contains(real) {
            Word::Whole
        } else {
            Word::None
        }
    }
}

#[cfg(test)]
mod tests;
