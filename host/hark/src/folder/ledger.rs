//! What the looks say of files over time: which may be read, which are still being written, which are gone.
//!
//! Pure bookkeeping, used by the looker for plugins, and for the configuration file. For each file one of four states:
//!
//! | state | means | ends |
//! | --- | --- | --- |
//! | settled | it may be read | when a look finds another stamp, or no file |
//! | settling | its stamp is new, and it may be half-written | when it is closed, or has been still for long enough |
//! | leaving | a look did not find it | when one finds it again, or after [`GRACE`] |
//! | gone | no look has found it for [`GRACE`] | it is forgotten |
//!
//! Invariant: time that passes between looks counts only if a look at its end found what the one at its beginning did.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::stamp::Stamp;

/// How long a file may be gone before its plugin stops, so that `rm` then `cp`, or an editor's way of saving, is a change
/// (design 4.12).
const GRACE: Duration = Duration::from_secs(2);

/// How long a file that is open for writing must have been still until it is read all the same: whoever has it open may
/// never close it.
const OPEN_STILL: Duration = Duration::from_secs(1);

/// The same for a file of which nobody tells whether somebody writes to it.
const UNTOLD_STILL: Duration = Duration::from_millis(100);

/// Older than that (by the machine's clock) a file is taken for still at the first sight; not one that is the file of the
/// look before and differs, since a file that is just being emptied may show its new size with its old times.
const OLD: Duration = Duration::from_secs(2);

/// What the file system has told of a file since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// Nothing.
    None,
    /// It is open for writing.
    Writing,
    /// It was closed after a write, or moved to its place as it is.
    Whole,
}

/// A file as a look found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
    /// When it came to be like this, if the system has that.
    pub(super) changed: Option<SystemTime>,
    pub(super) word: Word,
}

/// A file that there is, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PluginFile {
    pub(crate) path: PathBuf,
    pub(crate) stamp: Stamp,
    /// When it came to be like this, by the clock of its file system: the file changed, or a link on the way to it. None
    /// if nobody knows, as for one that was mounted.
    pub(crate) changed: Option<SystemTime>,
    /// When a look first found it like this.
    pub(crate) noticed: Instant,
}

/// How a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It may be read.
    Settled(PluginFile),
    /// It may be half-written.
    Settling(PluginFile),
    /// It is not there, and was there a moment ago.
    Leaving,
}

/// When a file that was written may be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// How long it must have been still although it was closed.
    pub(super) closed_still: Duration,
}

/// What is known of one file.
#[derive(Debug)]
struct Entry {
    file: PluginFile,
    settled: bool,
    left: Option<Instant>,
    /// When a look is due that may change its state.
    due: Option<Instant>,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Ledger {
    reading: Reading,
    entries: BTreeMap<String, Entry>,
}

impl Ledger {
    pub(super) fn new(reading: Reading) -> Self {
        Self { reading, entries: BTreeMap::new() }
    }

    /// Takes in what a look at `now` found. `kept` are files that it says nothing about.
    pub(super) fn look(
        &mut self,
        sights: BTreeMap<String, Sight>,
        kept: impl Fn(&str) -> bool,
        now: Instant,
        clock: SystemTime,
    ) {
        for (name, entry) in self.entries.iter_mut().filter(|(name, _)| !sights.contains_key(*name)) {
            match kept(name) {
                true => entry.pause(now),
                false => entry.due = Some(*entry.left.get_or_insert(now) + GRACE),
            }
        }
        self.entries.retain(|_, entry| entry.left.is_none_or(|left| now - left < GRACE));
        for (name, sight) in sights {
            self.see(name, sight, now, clock);
        }
    }

    /// Takes in that a look could not be had.
    pub(super) fn could_not_look(&mut self, now: Instant) {
        self.entries.values_mut().for_each(|entry| entry.pause(now));
    }

    fn see(&mut self, name: String, sight: Sight, now: Instant, clock: SystemTime) {
        let Sight { path, stamp, changed, word } = sight;
        let fresh = || Entry {
            file: PluginFile { path: path.clone(), stamp, changed, noticed: now },
            settled: false,
            left: None,
            due: None,
        };
        let before = self.entries.get(&name).map(|entry| entry.file.stamp.identity());
        let entry = self.entries.entry(name).or_insert_with(fresh);
        if (&entry.file.path, entry.file.stamp) != (&path, stamp) {
            *entry = fresh();
        }
        entry.left = None;
        let another = before != Some(stamp.identity());
        let wait = self.reading.wait(&stamp, word, another.then_some(clock));
        entry.settled |= now - entry.file.noticed >= wait;
        entry.due = (!entry.settled).then_some(entry.file.noticed + wait);
    }

    /// When the next look is due on account of a file.
    pub(super) fn due(&self) -> Option<Instant> {
        self.entries.values().filter_map(|entry| entry.due).min()
    }

    /// How a file is; none if it is gone.
    pub(super) fn standing(&self, name: &str) -> Option<Standing> {
        self.entries.get(name).map(Entry::standing)
    }

    /// How each file is; one that is gone is not among them.
    pub(super) fn standings(&self) -> BTreeMap<String, Standing> {
        self.entries.iter().map(|(name, entry)| (name.clone(), entry.standing())).collect()
    }
}

impl Entry {
    /// A look said nothing of it: what was leaving gets its whole grace again, what is settling waits for a look.
    fn pause(&mut self, now: Instant) {
        self.left = self.left.map(|_| now);
        self.due = self.left.map(|left| left + GRACE);
    }

    fn standing(&self) -> Standing {
        match (self.left, self.settled) {
            (Some(_), _) => Standing::Leaving,
            (None, true) => Standing::Settled(self.file.clone()),
            (None, false) => Standing::Settling(self.file.clone()),
        }
    }
}

impl Reading {
    /// How long a file must have been still before it is read. `clock`: its age may tell that it is.
    fn wait(&self, stamp: &Stamp, word: Word, clock: Option<SystemTime>) -> Duration {
        match word {
            Word::Writing => OPEN_STILL,
            Word::None if clock.is_some_and(|clock| stamp.is_older_than(OLD, clock)) => Duration::ZERO,
            Word::None if stamp.may_be_of_a_write() => UNTOLD_STILL.max(self.closed_still),
            Word::None | Word::Whole => self.closed_still,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::super::stamp::tests::stamp;
    use super::*;

    /// One look, `ms` after the beginning: stamp and word of the one file, if it is there; then what is to be said of it.
    type Step = (u64, Option<(u64, Word)>, Expect);

    #[derive(Debug, PartialEq, Eq)]
    enum Expect {
        Settled,
        Settling { due: u64 },
        Leaving { due: u64 },
        Nothing,
    }

    fn state(ledger: &Ledger, begin: Instant) -> Expect {
        let due = || u64::try_from((ledger.due().expect("due") - begin).as_millis()).expect("short");
        match ledger.standing("a") {
            None => Expect::Nothing,
            Some(Standing::Settled(_)) => Expect::Settled,
            Some(Standing::Settling(_)) => Expect::Settling { due: due() },
            Some(Standing::Leaving) => Expect::Leaving { due: due() },
        }
    }

    fn play(what: &str, closed_still: u64, steps: &[Step]) {
        // The stamps of the tables are from second 1000.
        let (begin, clock) = (Instant::now(), UNIX_EPOCH + Duration::from_secs(1001));
        let mut ledger = Ledger::new(Reading { closed_still: Duration::from_millis(closed_still) });
        for (ms, found, want) in steps {
            let sight =
                |(number, word)| Sight { path: "a.wasm".into(), stamp: stamp(number), changed: None, word };
            let sights = found.map(|found| ("a".to_owned(), sight(found))).into_iter().collect();
            ledger.look(sights, |_| false, begin + Duration::from_millis(*ms), clock);
            assert_eq!(state(&ledger, begin), *want, "{what}, after {ms} ms");
        }
    }

    #[test]
    fn a_file_is_read_when_it_is_closed_or_has_been_still() {
        use Expect::{Nothing, Settled, Settling};
        use Word::{None as Untold, Whole, Writing};
        play(
            "closed",
            0,
            &[(0, None, Nothing), (5, Some((1, Whole)), Settled), (9, Some((1, Untold)), Settled)],
        );
        play(
            "written to, then closed",
            0,
            &[
                (0, Some((1, Writing)), Settling { due: 1000 }),
                (900, Some((2, Writing)), Settling { due: 1900 }),
                (950, Some((3, Whole)), Settled),
            ],
        );
        play(
            "never closed",
            0,
            &[
                (0, Some((1, Writing)), Settling { due: 1000 }),
                (999, Some((1, Writing)), Settling { due: 1000 }),
                (1000, Some((1, Writing)), Settled),
                (1100, Some((2, Writing)), Settling { due: 2100 }),
            ],
        );
        play(
            "nobody tells",
            0,
            &[
                (0, Some((1, Untold)), Settling { due: 100 }),
                (100, Some((2, Untold)), Settling { due: 200 }),
                (200, Some((2, Untold)), Settled),
            ],
        );
        play(
            "closed, and to be still all the same",
            200,
            &[
                (0, Some((1, Whole)), Settling { due: 200 }),
                (150, Some((2, Whole)), Settling { due: 350 }),
                (350, Some((2, Untold)), Settled),
            ],
        );
    }

    #[test]
    fn a_file_is_gone_only_when_looks_have_missed_it_for_the_grace() {
        use Expect::{Leaving, Nothing, Settled};
        let there = Some((1, Word::Whole));
        let again = Some((2, Word::Whole));
        play(
            "gone",
            0,
            &[
                (0, there, Settled),
                (10, None, Leaving { due: 2010 }),
                (2009, None, Leaving { due: 2010 }),
                (2010, None, Nothing),
            ],
        );
        play(
            "back in time",
            0,
            &[
                (0, there, Settled),
                (10, None, Leaving { due: 2010 }),
                (1500, again, Settled),
                (2100, None, Leaving { due: 4100 }),
                (4100, again, Settled),
            ],
        );
        play(
            "moved away and back",
            0,
            &[(0, there, Settled), (10, None, Leaving { due: 2010 }), (20, Some((1, Word::None)), Settled)],
        );
    }

    #[test]
    fn what_cannot_be_looked_at_is_not_gone() {
        let (now, clock) = (Instant::now(), SystemTime::now());
        let at = |ms| now + Duration::from_millis(ms);
        let mut ledger = Ledger::new(Reading { closed_still: Duration::ZERO });
        let sight = Sight { path: "a.wasm".into(), stamp: stamp(1), changed: None, word: Word::Whole };
        ledger.look(BTreeMap::from([("a".to_owned(), sight)]), |_| false, now, clock);
        for ms in [10, 5000] {
            ledger.look(BTreeMap::new(), |name| name == "a", at(ms), clock);
            assert_eq!(state(&ledger, now), Expect::Settled, "it is kept");
        }
        ledger.look(BTreeMap::new(), |_| false, at(6000), clock);
        ledger.could_not_look(at(7500));
        assert_eq!(state(&ledger, now), Expect::Leaving { due: 9500 });
        ledger.look(BTreeMap::new(), |_| false, at(8100), clock);
        assert_eq!(
            state(&ledger, now),
            Expect::Leaving { due: 9500 },
            "the time without a look does not count"
        );
        ledger.look(BTreeMap::new(), |_| false, at(9500), clock);
        assert_eq!(state(&ledger, now), Expect::Nothing);
    }

    #[test]
    fn an_old_file_is_still_at_first_sight_and_one_from_the_future_is_not() {
        let reading = Reading { closed_still: Duration::from_millis(200) };
        for (second, word, wait) in [
            (1001, Word::None, 200),
            (1002, Word::None, 200),
            (1003, Word::None, 0),
            (0, Word::None, 200),
            (2000, Word::Writing, 1000),
            (2000, Word::Whole, 200),
        ] {
            let clock = UNIX_EPOCH + Duration::from_secs(second);
            assert_eq!(
                reading.wait(&stamp(1), word, Some(clock)),
                Duration::from_millis(wait),
                "{second} {word:?}"
            );
        }
        let plugins = Reading { closed_still: Duration::ZERO };
        let now = UNIX_EPOCH + Duration::from_secs(1001);
        assert_eq!(plugins.wait(&stamp(1), Word::None, Some(now)), UNTOLD_STILL);
    }

    #[test]
    fn a_file_that_is_just_being_emptied_is_not_old() {
        let (now, later) = (Instant::now(), UNIX_EPOCH + Duration::from_secs(9000));
        let mut ledger = Ledger::new(Reading { closed_still: Duration::from_millis(200) });
        let mut look = |ms, stamp| {
            let sight = Sight { path: "a.wasm".into(), stamp, changed: None, word: Word::None };
            ledger.look(
                BTreeMap::from([("a".to_owned(), sight)]),
                |_| false,
                now + Duration::from_millis(ms),
                later,
            );
            state(&ledger, now)
        };
        assert_eq!(look(0, stamp(1)), Expect::Settled);
        assert_eq!(
            look(10, stamp(1).with_size(0)),
            Expect::Settling { due: 210 },
            "its times are the old ones"
        );
        assert_eq!(look(20, stamp(2)), Expect::Settled, "another file");
    }
}
