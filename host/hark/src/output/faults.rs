//! Which of a plugin's failures have a line of their own in the log of `hark run`.
//!
//! One a plugin, used by whoever reports its attempts. A plugin can fail some thousand times a second; the trace and
//! the metrics have all of it. Each kind has its own count, so that no flood of one hides another. Invariants: of each
//! kind there are in any time at most [`BURST`] lines and one for each [`EVERY`], whatever is answered in between; what
//! has none is counted, and the next line says how much it was: that of the next failure of the kind, or one that comes
//! with an answer once there was none for [`EVERY`].

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hark_informer::handler::Outcome;
use tokio::time::Instant;

/// Lines that come without waiting.
const BURST: u32 = 10;

/// How long it takes until there may be one more.
const EVERY: Duration = Duration::from_secs(30);

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A trap or a time-out.
    Break,
    /// The plugin wants the event again.
    Retry,
    /// The plugin will never handle the event.
    Permanent,
}

impl Kind {
    /// All of them.
    const ALL: [Self; 3] = [Self::Break, Self::Retry, Self::Permanent];

    /// That of an attempt; none if it went well.
    pub(super) fn of(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Ok => None,
            Outcome::Trap(_) | Outcome::Timeout(_) => Some(Self::Break),
            Outcome::Retry { .. } => Some(Self::Retry),
            Outcome::Permanent(_) => Some(Self::Permanent),
        }
    }

    /// Many of them, in words.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Break => "traps and time-outs",
            Self::Retry => "retries",
            Self::Permanent => "permanent failures",
        }
    }
}

/// See the file's head: as [`Kind::ALL`] has them.
#[derive(Default)]
pub(crate) struct FaultLines(Mutex<[State; Kind::ALL.len()]>);

#[derive(Default)]
struct State {
    /// Lines used up of the burst, and when that was last looked at; none: all are there.
    used: Option<(u32, Instant)>,
    /// Failures without a line since the last one.
    unsaid: u64,
    /// The last failure.
    last: Option<Instant>,
}

impl FaultLines {
    /// A failure: if it has a line, how many before it had none.
    pub(super) fn fault(&self, kind: Kind, now: Instant) -> Option<u64> {
        let state = &mut self.lock()[kind as usize];
        state.last = Some(now);
        if state.may_say(now) {
            return Some(std::mem::take(&mut state.unsaid));
        }
        state.unsaid += 1;
        None
    }

    /// An answer: the kinds that are over, of which some had no line, and how many.
    pub(super) fn answer(&self, now: Instant) -> impl Iterator<Item = (Kind, u64)> {
        let mut states = self.lock();
        let over = Kind::ALL.map(|kind| states[kind as usize].rest(now).map(|unsaid| (kind, unsaid)));
        over.into_iter().flatten()
    }

    fn lock(&self) -> MutexGuard<'_, [State; Kind::ALL.len()]> {
        // Plain values: a panic elsewhere cannot have left them half-written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How many had no line, if that is to be said now. A failure that comes again and again says it itself, and why it
    /// failed.
    fn rest(&mut self, now: Instant) -> Option<u64> {
        let over = self.last.is_some_and(|last| now.saturating_duration_since(last) >= EVERY);
        (self.unsaid > 0 && over && self.may_say(now)).then(|| std::mem::take(&mut self.unsaid))
    }

    /// Uses one line up if there is one.
    fn may_say(&mut self, now: Instant) -> bool {
        let (used, since) = self.used.unwrap_or((0, now));
        let regained = now.saturating_duration_since(since).as_secs() / EVERY.as_secs();
        let regained = u32::try_from(regained).unwrap_or(u32::MAX).min(used);
        // From the moment of the last one, so that no part of a wait is lost, unless all are there again.
        let since = if regained == used { now } else { since + EVERY * regained };
        let used = used - regained;
        let may = used < BURST;
        self.used = Some((used + u32::from(may), since));
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_has_its_lines_and_then_there_is_one_now_and_then_that_counts_the_others() {
        // A failure each 10 ms, for 91 s, and an answer to another event after each: that gives no line back, and takes
        // none away.
        for kind in [Kind::Break, Kind::Retry, Kind::Permanent] {
            let (lines, start) = (FaultLines::default(), Instant::now());
            let said = |millis: u64| {
                let said = lines.fault(kind, start + Duration::from_millis(millis));
                assert_eq!(lines.answer(start + Duration::from_millis(millis + 5)).next(), None);
                said
            };
            let all: Vec<(u64, u64)> =
                (0..9100).filter_map(|step| Some((step * 10, said(step * 10)?))).collect();
            let burst: Vec<(u64, u64)> = (0..10).map(|step| (step * 10, 0)).collect();
            let then = [(30_000, 2990), (60_000, 2999), (90_000, 2999)];
            assert_eq!(all, [burst, then.to_vec()].concat(), "{kind:?}");
        }
    }

    #[test]
    fn an_answer_says_what_had_no_line_once_that_is_over_and_nothing_else() {
        let (lines, start) = (FaultLines::default(), Instant::now());
        let answer = |seconds| lines.answer(start + Duration::from_secs(seconds)).collect::<Vec<_>>();
        assert_eq!(answer(0), [], "there was no fault");
        for fault in 0..13 {
            assert_eq!(lines.fault(Kind::Retry, start), (fault < 10).then_some(0));
        }
        assert_eq!(answer(29), [], "not yet");
        assert_eq!(answer(30), [(Kind::Retry, 3)]);
        assert_eq!(answer(300), [], "all is said");
        let later = start + Duration::from_secs(3000);
        let again = (0..13).filter_map(|_| lines.fault(Kind::Retry, later)).count();
        assert_eq!(again, 10, "the whole burst is there again");
    }

    #[test]
    fn no_flood_of_one_kind_takes_the_lines_of_another() {
        let (lines, start) = (FaultLines::default(), Instant::now());
        assert_eq!((0..1000).filter_map(|_| lines.fault(Kind::Retry, start)).count(), 10);
        for kind in [Kind::Break, Kind::Permanent] {
            assert_eq!(lines.fault(kind, start), Some(0), "{kind:?}");
        }
    }
}
