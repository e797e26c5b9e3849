//! How changes come to be known: by what the file system tells, or by the clock alone, and why.
//!
//! Used by the looker, shown by whoever is asked about the folder. Invariant: a reason is one of a few fixed words, so
//! that it can be a metric's label; what is more to say is in the text for people.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use crate::watching::Trouble;

/// `host.watch`: what the operator wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum WatchMode {
    /// What the file system tells, where it can tell all.
    #[default]
    Auto,
    /// What the file system tells, whatever it is.
    Events,
    /// The clock alone.
    Poll,
}

/// See the file's head. In either way a look is had at least once in each `host.poll_interval`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Way {
    /// The file system tells (inotify), and a look follows at once.
    #[default]
    Events,
    /// The clock says when to look; what the file system tells all the same is heard, and not relied on.
    Polled(Why),
}

/// Why the clock must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    /// `host.watch = "poll"`.
    Setting,
    /// A directory is on a file system that does not tell of what others change in it.
    FileSystem(&'static str),
    /// Not all directories can be watched.
    Unwatched(Trouble),
    /// The clock found changes twice that it did not tell of.
    Misses,
}

impl Way {
    /// For metrics: which.
    pub(crate) fn by(&self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Polled(_) => "polling",
        }
    }

    /// For metrics: why. Empty if there is nothing to explain.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Events => "",
            Self::Polled(why) => match why {
                Why::Setting => "setting",
                Why::FileSystem(name) => name,
                Why::Unwatched(Trouble::NoWatches) => "no-watches",
                Why::Unwatched(Trouble::NoWatcher(_)) => "no-watcher",
                Why::Unwatched(Trouble::NoThread(_)) => "no-thread",
                Why::Unwatched(Trouble::Refused(_)) => "refused",
                Why::Misses => "misses-changes",
            },
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Events => write!(f, "the file system tells of changes"),
            Self::Polled(why) => write!(f, "changes are looked for by the clock, since {why}"),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting => write!(f, "host.watch says so"),
            Self::FileSystem(name) => write!(f, "{name} does not tell of all of them"),
            Self::Unwatched(trouble) => write!(f, "{trouble}"),
            Self::Misses => write!(f, "the file system does not tell of them"),
        }
    }
}

/// How much later than its change a word of the file system may come.
const LATE: Duration = Duration::from_secs(1);

/// Changes that were not told of, until the file system is no longer relied on.
const MOST_MISSES: u32 = 2;

/// Counts changes that the clock found and nobody told of. One at a time waits for a late word.
#[derive(Debug, Default)]
pub(super) struct Misses {
    untold: Option<Instant>,
    count: u32,
}

impl Misses {
    /// Takes in a look: whether anything was told since the one before, and whether there is a change that should have
    /// been told of.
    pub(super) fn look(&mut self, told: bool, should_have_been: bool, now: Instant) {
        if told {
            self.untold = None;
        }
        if self.untold.is_some_and(|at| now - at >= LATE) {
            self.untold = None;
            self.count = (self.count + 1).min(MOST_MISSES);
        }
        if should_have_been && !told {
            self.untold.get_or_insert(now);
        }
    }

    /// Whether there were too many.
    pub(super) fn too_many(&self) -> bool {
        self.count >= MOST_MISSES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_that_are_never_told_of_count_and_two_are_enough() {
        /// Milliseconds, what was told, what was found; then whether it is enough.
        type Step = (u64, bool, bool, bool);
        let cases: &[(&str, &[Step])] = &[
            ("nothing happens", &[(0, false, false, false), (5000, false, false, false)]),
            ("all is told", &[(0, true, true, false), (2000, true, true, false), (4000, true, true, false)]),
            (
                "told late",
                &[
                    (0, false, true, false),
                    (900, true, false, false),
                    (3000, false, true, false),
                    (3900, true, false, false),
                    (6000, false, false, false),
                ],
            ),
            (
                "never told",
                &[
                    (0, false, true, false),
                    (1000, false, false, false),
                    (2000, false, true, false),
                    (2999, false, false, false),
                    (3000, false, false, true),
                    (9000, true, true, true),
                ],
            ),
            (
                "one at a time",
                &[(0, false, true, false), (500, false, true, false), (1000, false, false, false)],
            ),
        ];
        for (what, steps) in cases {
            let (begin, mut misses) = (Instant::now(), Misses::default());
            for (ms, told, found, enough) in *steps {
                misses.look(*told, *found, begin + Duration::from_millis(*ms));
                assert_eq!(misses.too_many(), *enough, "{what}, {ms} ms");
            }
        }
    }

    #[test]
    fn each_reason_is_a_word_of_its_own() {
        let text = || "x".to_owned();
        let whys = [
            Why::Setting,
            Why::FileSystem("nfs"),
            Why::Unwatched(Trouble::NoWatches),
            Why::Unwatched(Trouble::NoWatcher(text())),
            Why::Unwatched(Trouble::NoThread(text())),
            Why::Unwatched(Trouble::Refused(text())),
            Why::Misses,
        ];
        let words: std::collections::BTreeSet<&str> =
            whys.iter().map(|why| Way::Polled(why.clone()).reason()).collect();
        assert_eq!(words.len(), whys.len());
        assert!(words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')));
        assert_eq!((Way::Events.by(), Way::Events.reason()), ("events", ""));
    }
}
