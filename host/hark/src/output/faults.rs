//! Which of a plugin's faults (traps and time-outs) have a line of their own in the log of `hark run`.
//!
//! One a plugin, used by whoever reports its attempts. A plugin can trap some thousand times a second; the trace and
//! the metrics have all of it. Invariants: in any time there are at most [`BURST`] lines and one for each [`EVERY`];
//! what has none is counted, and the next line, at the latest when the plugin answers again, says how much it was.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Lines that come without waiting.
const BURST: u32 = 10;

/// How long it takes until there may be one more.
const EVERY: Duration = Duration::from_secs(30);

/// See the file's head.
#[derive(Default)]
pub(crate) struct FaultLines {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Lines used up of the burst, and when that was last looked at; none: all are there.
    used: Option<(u32, Instant)>,
    /// Faults without a line since the last one.
    unsaid: u64,
}

impl FaultLines {
    /// A fault: if it has a line, how many before it had none.
    pub(super) fn fault(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.may_say(now) {
            return Some(std::mem::take(&mut state.unsaid));
        }
        state.unsaid += 1;
        None
    }

    /// An answer: how many faults before it had no line, if that is to be said now.
    pub(super) fn answer(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.unsaid > 0 && state.may_say(now) { Some(std::mem::take(&mut state.unsaid)) } else { None }
    }
}

impl State {
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
        let (lines, start) = (FaultLines::default(), Instant::now());
        let said = |millis: u64| lines.fault(start + Duration::from_millis(millis));
        // A fault each 10 ms, for 91 s.
        let all: Vec<(u64, u64)> = (0..9100).filter_map(|step| Some((step * 10, said(step * 10)?))).collect();
        let burst: Vec<(u64, u64)> = (0..10).map(|step| (step * 10, 0)).collect();
        let then = [(30_000, 2990), (60_000, 2999), (90_000, 2999)];
        assert_eq!(all, [burst, then.to_vec()].concat());
    }

    #[test]
    fn an_answer_says_what_had_no_line_and_nothing_else() {
        let (lines, start) = (FaultLines::default(), Instant::now());
        assert_eq!(lines.answer(start), None, "there was no fault");
        for fault in 0..13 {
            assert_eq!(lines.fault(start), (fault < 10).then_some(0));
        }
        assert_eq!(lines.answer(start + Duration::from_secs(29)), None, "not yet");
        assert_eq!(lines.answer(start + Duration::from_secs(30)), Some(3));
        assert_eq!(lines.answer(start + Duration::from_secs(300)), None, "all is said");
        let later = start + Duration::from_secs(3000);
        assert_eq!((0..13).filter_map(|_| lines.fault(later)).count(), 10, "the whole burst is there again");
    }
}
