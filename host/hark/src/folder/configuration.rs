//! The looks at the configuration file: when it is read again.
//!
//! Used by the looker. It may be reached by links, come later, be replaced, or go. Invariants: it is read when it is whole
//! and has been still, since many ways of writing a file empty it first, and half a file may be a valid one; what was read
//! counts only if the file was not changed meanwhile; that it is gone is said only when it stays so; that it changes all the
//! time is said once, until it has been still.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;

use super::hops::Hops;
use super::ledger::{Ledger, Reading, Sight, Standing, Word};
use super::scan::way_to;
use super::stamp::Stamp;
use crate::config::{Config, ConfigError};

/// How long the configuration file must have been still before it is read.
const STILL: Duration = Duration::from_millis(200);

/// How long the file may change before it is said that it is not read meanwhile.
const RESTLESS: Duration = Duration::from_secs(5);

/// What the file says, or why it says nothing.
pub(crate) type Read = Arc<Result<Config, ConfigError>>;

/// The file's name in its ledger, where it is alone.
const NAME: &str = "";

/// For how long it could not be read since it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unrest {
    /// It is still, or not there.
    None,
    /// It changes since then.
    Since(Instant),
    /// That was said.
    Said,
}

/// See the file's head.
pub(super) struct ConfigurationWatch {
    path: PathBuf,
    ledger: Ledger,
    /// The state of the file that was read last.
    acted_on: Option<Stamp>,
    /// When it is read once more, since it was read so soon that another change may have the same stamp.
    again: Option<Instant>,
    unrest: Unrest,
    /// What was read.
    reads: watch::Sender<Option<Read>>,
}

impl ConfigurationWatch {
    pub(super) fn new(path: PathBuf) -> (Self, watch::Receiver<Option<Read>>) {
        let (reads, receiver) = watch::channel(None);
        let ledger = Ledger::new(Reading { closed_still: STILL });
        (Self { path, ledger, acted_on: None, again: None, unrest: Unrest::None, reads }, receiver)
    }

    /// The names that a change of the file goes by.
    pub(super) fn way(&self) -> Hops {
        way_to(&self.path)
    }

    /// Looks at the file, and reads it if there is something to read. `word` is what was told of it.
    pub(super) fn look(&mut self, word: Word, now: Instant, clock: SystemTime) {
        let stamp = Stamp::read(&self.path);
        let sight = |stamp| (NAME.to_owned(), Sight { path: self.path.clone(), stamp, changed: None, word });
        let sights: BTreeMap<String, Sight> = stamp.map(sight).into_iter().collect();
        self.ledger.look(sights, |_| false, now, clock);
        self.act(now);
        if self.is_restless(now) {
            tracing::warn!(
                "{} changes all the time: it is read once it has been still for {} s",
                self.path.display(),
                STILL.as_secs_f64()
            );
        }
    }

    /// Whether it has changed for so long that it is to be said now. One that is replaced may be missing in between.
    fn is_restless(&mut self, now: Instant) -> bool {
        match (self.ledger.standing(NAME), self.unrest) {
            (None | Some(Standing::Settled(_)), _) => self.unrest = Unrest::None,
            (Some(Standing::Settling(_)), Unrest::None) => self.unrest = Unrest::Since(now),
            (Some(Standing::Settling(_)), Unrest::Since(since)) if now - since >= RESTLESS => {
                self.unrest = Unrest::Said;
                return true;
            }
            (Some(Standing::Settling(_) | Standing::Leaving), _) => {}
        }
        false
    }

    fn act(&mut self, now: Instant) {
        match self.ledger.standing(NAME) {
            Some(Standing::Settled(file)) => {
                let again = self.again.is_some_and(|at| at <= now);
                if self.acted_on != Some(file.stamp) || again {
                    let read = Config::load(&self.path);
                    if Stamp::read(&self.path) != Some(file.stamp) {
                        // The next look finds another one, too.
                        return;
                    }
                    let racy = file.noticed + file.stamp.resolution();
                    self.again = (now < racy).then_some(racy);
                    self.acted_on = Some(file.stamp);
                    self.tell(read);
                }
            }
            Some(Standing::Settling(_) | Standing::Leaving) => self.again = None,
            None => {
                self.again = None;
                if self.acted_on.take().is_some() {
                    self.tell(Config::load(&self.path));
                }
            }
        }
    }

    fn tell(&self, read: Result<Config, ConfigError>) {
        self.reads.send_replace(Some(Arc::new(read)));
    }

    /// When the next look is due on account of the file.
    pub(super) fn due(&self) -> Option<Instant> {
        self.ledger.due().into_iter().chain(self.again).min()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_is_read_when_it_is_still_and_gone_when_it_stays_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hark.toml");
        let (mut watch, mut reads) = ConfigurationWatch::new(path.clone());
        // The clock is behind all files, so that none of them is old.
        let begin = Instant::now();
        let mut look = |ms: u64, word: Word| {
            watch.look(word, begin + Duration::from_millis(ms), SystemTime::UNIX_EPOCH);
            let due = watch.due().map(|due| u64::try_from((due - begin).as_millis()).expect("short"));
            let news = reads.has_changed().expect("open").then(|| {
                let read = reads.borrow_and_update().clone().expect("something");
                read.as_ref().as_ref().map(|_| ()).map_err(ToString::to_string)
            });
            (due, news)
        };
        assert_eq!(look(0, Word::None), (None, None), "there is none, and nobody misses it");
        fs::write(&path, "").expect("written");
        assert_eq!(look(10, Word::Whole), (Some(210), None), "it may have been emptied only to be written");
        fs::write(&path, "[host]\n").expect("written");
        assert_eq!(look(100, Word::Writing), (Some(1100), None));
        assert_eq!(look(150, Word::Whole), (Some(300), None));
        assert_eq!(look(300, Word::None), (None, Some(Ok(()))));
        assert_eq!(look(400, Word::None), (None, None), "once");
        fs::write(&path, "[typo]\n").expect("written");
        assert_eq!(look(500, Word::Whole).0, Some(700));
        let error = look(700, Word::None).1.expect("read").expect_err("wrong");
        assert!(error.contains("typo: unknown key"), "{error}");
        fs::remove_file(&path).expect("removed");
        assert_eq!(look(800, Word::None), (Some(2800), None));
        let error = look(2800, Word::None).1.expect("tried").expect_err("gone");
        assert!(error.starts_with("cannot read "), "{error}");
        assert_eq!(look(9000, Word::None), (None, None), "once");
        fs::write(&path, "# nothing").expect("written");
        assert_eq!(look(9100, Word::Whole).0, Some(9300));
        assert_eq!(look(9300, Word::None), (None, Some(Ok(()))));
    }

    #[test]
    fn one_that_changes_all_the_time_is_said_to_once_until_it_has_been_still() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hark.toml");
        let (mut watch, reads) = ConfigurationWatch::new(path.clone());
        let begin = Instant::now();
        let mut size = 0;
        let mut change = |watch: &mut ConfigurationWatch, ms| {
            size += 1;
            fs::write(&path, "\n".repeat(size)).expect("written");
            let now = begin + Duration::from_millis(ms);
            watch.look(Word::Whole, now, SystemTime::UNIX_EPOCH);
            watch.unrest
        };
        for ms in (0..5000).step_by(100) {
            assert_eq!(change(&mut watch, ms), Unrest::Since(begin), "{ms}");
        }
        assert_eq!(change(&mut watch, 5000), Unrest::Said);
        assert!(!watch.is_restless(begin + Duration::from_secs(20)), "once");
        assert!(!reads.has_changed().expect("open"), "it is not read");
        watch.look(Word::None, begin + Duration::from_millis(5200), SystemTime::UNIX_EPOCH);
        assert_eq!(watch.unrest, Unrest::None);
        assert!(reads.has_changed().expect("open"), "it was still");
        let later = begin + Duration::from_millis(6000);
        assert_eq!(change(&mut watch, 6000), Unrest::Since(later), "anew");
    }
}
