//! One look at the sources: walk, watch, take the snapshot; and when the next one is due.
//!
//! Used by [`super::builder`]; looking blocks, so it is done on a thread of its own. Invariant: what a look does not see,
//! a later event or the clock brings to the next one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant as SystemInstant};

use tokio::time::Instant;

use super::folders::{Folders, Watching};
use super::plugin_files::PluginFiles;
use super::snapshot::Snapshot;
use super::sources::{Sources, Walked};
use crate::aside::{self, Lost};

/// How long sources must be still before they are looked at: who saves all files saves them within that.
const QUIET: Duration = Duration::from_millis(100);

/// The longest that a look waits for that.
const LONGEST: Duration = Duration::from_secs(1);

/// How often the clock asks for a look, at most, where events tell of changes, and where they do not.
const SELDOM: Duration = Duration::from_secs(5);
const OFTEN: Duration = Duration::from_secs(1);

/// Between two looks of the clock's there is so many times what a look takes: it may be one of a hundred thousand files.
const REST: u32 = 50;

/// A look that takes longer than this is complained of: whoever saves waits for it.
const LONG: Duration = Duration::from_secs(3);

/// New folders that appear while their folders are walked, as when a whole tree is unpacked: walked again so often at
/// most, then the clock has the rest.
const ROUNDS: u32 = 5;

/// What looks, and is handed from look to look.
pub(super) struct Eyes {
    sources: Sources,
    folders: Folders,
}

/// What was seen.
pub(super) struct Look {
    pub(super) eyes: Eyes,
    pub(super) snapshot: Snapshot,
    pub(super) plugins: PluginFiles,
    pub(super) watching: Watching,
    pub(super) complaints: BTreeSet<String>,
    pub(super) took: Duration,
}

impl Eyes {
    pub(super) fn new(sources: Sources, folders: Folders) -> Self {
        Self { sources, folders }
    }

    /// Looks, away from the async threads.
    ///
    /// # Errors
    /// [`Lost`]: no thread is to be had, or it panicked; the eyes are gone with it.
    pub(super) async fn look(self, before: Arc<Snapshot>, plugins: PluginFiles) -> Result<Look, Lost> {
        aside::run("sources", move || self.look_now(&before, plugins)).await
    }

    fn look_now(mut self, before: &Snapshot, plugins: PluginFiles) -> Look {
        let begun = SystemInstant::now();
        let mut walked = Walked::default();
        let mut watching = Watching::Events;
        for _ in 0..ROUNDS {
            walked = self.sources.walk();
            let (new, by) = self.folders.follow(&walked.folders, Instant::now());
            watching = by;
            if !new {
                break;
            }
        }
        let snapshot = Snapshot::take(&walked.files, before);
        let (plugins, mut complaints) = (plugins.looked_at(), walked.complaints);
        let took = begun.elapsed();
        if took > LONG {
            let seconds = LONG.as_secs();
            complaints
                .insert(format!("a look at the sources takes more than {seconds} s: name fewer `sources`"));
        }
        Look { eyes: self, snapshot, plugins, watching, complaints, took }
    }
}

/// When the next look is due.
#[derive(Debug)]
pub(super) struct Pace {
    /// The first and the last time that something stirred since the last look.
    stirred: Option<(Instant, Instant)>,
    /// When the clock asks for one.
    by_clock: Instant,
}

impl Pace {
    /// The first look is due at once.
    pub(super) fn new(now: Instant) -> Self {
        Self { stirred: None, by_clock: now }
    }

    /// Something stirs.
    pub(super) fn stir(&mut self, now: Instant) {
        let (first, _) = self.stirred.unwrap_or((now, now));
        self.stirred = Some((first, now));
    }

    /// A look begins: what stirs from now on is for the next one.
    pub(super) fn looking(&mut self) {
        self.stirred = None;
    }

    /// A look has ended.
    pub(super) fn looked(&mut self, now: Instant, took: Duration, watching: &Watching) {
        let interval = if *watching == Watching::Events { SELDOM } else { OFTEN };
        self.by_clock = now + interval.max(took * REST);
    }

    /// When the next look is due.
    pub(super) fn due(&self) -> Instant {
        let still = self.stirred.map(|(first, last)| (last + QUIET).min(first + LONGEST));
        still.map_or(self.by_clock, |still| still.min(self.by_clock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_waits_for_quiet_but_not_for_ever() {
        let now = Instant::now();
        let after = |millis| now + Duration::from_millis(millis);
        let mut pace = Pace::new(now);
        assert_eq!(pace.due(), now, "the first one");
        pace.looking();
        pace.looked(now, Duration::from_millis(1), &Watching::Events);
        assert_eq!(pace.due(), after(5000));
        for (stirs, due) in [(10, 110), (60, 160), (900, 1000), (1000, 1010), (1005, 1010)] {
            pace.stir(after(stirs));
            assert_eq!(pace.due(), after(due), "stirred at {stirs}");
        }
        pace.looking();
        assert_eq!(pace.due(), after(5000), "only what stirs from now on");
    }

    #[test]
    fn the_clock_looks_more_often_where_nobody_tells_and_less_where_it_is_dear() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        let clock = Watching::Clock("no".to_owned());
        for (took, watching, due) in [
            (1, &clock, 1000),
            (100, &clock, 5000),
            (100, &Watching::Events, 5000),
            (200, &Watching::Events, 10_000),
        ] {
            pace.looked(now, Duration::from_millis(took), watching);
            assert_eq!(pace.due(), now + Duration::from_millis(due));
        }
    }
}
