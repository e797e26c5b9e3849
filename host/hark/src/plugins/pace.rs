//! How often a new version of a plugin is begun whose file changes all the time.
//!
//! Pure bookkeeping, used by the slot. The first [`BURST`] in a row are begun at once, then one in each [`STEP`]; after a
//! rest it is as at the beginning. (The generic cell rate algorithm, as traffic is shaped with.) Invariant: over any time,
//! at most [`BURST`] versions are begun beyond one for each [`STEP`].

use std::time::Duration;

use tokio::time::Instant;

/// Versions that may follow each other at once.
const BURST: u32 = 5;

/// Then one in so much time.
const STEP: Duration = Duration::from_secs(1);

/// After how many versions that had to wait it is said that they do. A file that was written in a few pieces, or touched
/// now and then, does not change all the time.
const PATIENCE: u32 = 2;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When everything begun so far would have been begun at one a step.
    full_until: Option<Instant>,
    /// Versions in a row that had to wait, and whether one does.
    waited: u32,
    waits: bool,
    said: bool,
}

/// Whether a version may be begun.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Now.
    Now,
    /// Not before then; `news`: it is to be said, since it was not before.
    Later { at: Instant, news: bool },
}

impl Pace {
    /// Asks to begin a version.
    pub(super) fn take(&mut self, now: Instant) -> Turn {
        let full_until = self.full_until.filter(|at| *at > now);
        if full_until.is_none() {
            (self.waited, self.waits, self.said) = (0, false, false);
        }
        let full_until = full_until.unwrap_or(now);
        let at = full_until.checked_sub(STEP * (BURST - 1)).unwrap_or(now);
        if at > now {
            self.waits = true;
            let news = self.waited >= PATIENCE && !self.said;
            self.said |= news;
            return Turn::Later { at, news };
        }
        self.waited += u32::from(std::mem::take(&mut self.waits));
        self.full_until = Some(full_until + STEP);
        Turn::Now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_are_begun_at_once_and_then_one_a_second_which_is_said_once_it_lasts() {
        let begin = Instant::now() + Duration::from_secs(60);
        let at = |ms| begin + Duration::from_millis(ms);
        let later = |ms, news| Turn::Later { at: at(ms), news };
        let mut pace = Pace::default();
        for (ms, want) in [
            (0, Turn::Now),
            (0, Turn::Now),
            (10, Turn::Now),
            (20, Turn::Now),
            (30, Turn::Now),
            (40, later(1000, false)),
            (999, later(1000, false)),
            (1000, Turn::Now),
            (1001, later(2000, false)),
            (2500, Turn::Now),
            (2600, later(3000, true)),
            (2700, later(3000, false)),
            (6500, Turn::Now),
            (7000, Turn::Now),
            (7000, Turn::Now),
            (7000, Turn::Now),
            (7000, Turn::Now),
            (7100, later(8000, false)),
            (20_000, Turn::Now),
        ] {
            assert_eq!(pace.take(at(ms)), want, "{ms} ms");
        }
        for _ in 1..BURST {
            assert_eq!(pace.take(at(20_000)), Turn::Now);
        }
        for (ms, news) in [(20_001, false), (21_001, false), (22_001, true)] {
            let next = (ms / 1000 + 1) * 1000;
            assert_eq!(pace.take(at(ms)), later(next, news), "{ms} ms: after a rest it is said again");
            assert_eq!(pace.take(at(next)), Turn::Now);
        }
    }
}
