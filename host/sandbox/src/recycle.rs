//! When an instance that works is replaced by a fresh one, and how often that is said.
//!
//! Used by `handler` after each answer. Invariant: at most one line a minute, which says how many there were.

use std::time::{Duration, Instant};

use crate::limits::Limits;
use crate::text;

/// Time between two lines.
const QUIET: Duration = Duration::from_secs(60);

/// Why an instance is due, for people; none if it is not.
pub(crate) fn due(limits: &Limits, events: u64, memory: usize) -> Option<String> {
    if let Some(most) = limits.recycle_events.filter(|most| events >= *most) {
        return Some(format!("it has handled {events} events, its share of {most} (limits.recycle_events)"));
    }
    let most = limits.recycle_memory.filter(|most| memory > *most)?;
    let (memory, most) = (text::bytes(memory), text::bytes(most));
    Some(format!("it has {memory} of memory, more than {most} (limits.recycle_memory)"))
}

/// Says it now and then.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    last: Option<Instant>,
    unsaid: u64,
}

impl Notices {
    /// The line about an instance that is replaced, if it is time for one.
    /// `saves`: it is asked what the next one is to be given.
    pub(crate) fn about(&mut self, why: &str, saves: bool, now: Instant) -> Option<String> {
        if self.last.is_some_and(|last| now.duration_since(last) < QUIET) {
            self.unsaid += 1;
            return None;
        }
        self.last = Some(now);
        let more = match std::mem::take(&mut self.unsaid) {
            0 => String::new(),
            count => format!("; {count} more were since the last such line"),
        };
        let memory = if saves { "and saves what it holds in memory" } else { "with what it held in memory" };
        Some(format!("its instance is recycled, {memory}: {why}{more}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_due_by_events_or_by_memory() {
        let limits = Limits { recycle_events: Some(3), recycle_memory: Some(1 << 20), ..Limits::default() };
        let cases = [
            (2, 1 << 20, None),
            (3, 0, Some("it has handled 3 events, its share of 3 (limits.recycle_events)")),
            (1, 3 << 19, Some("it has 1.5 MiB of memory, more than 1 MiB (limits.recycle_memory)")),
        ];
        for (events, memory, want) in cases {
            assert_eq!(due(&limits, events, memory).as_deref(), want);
        }
        assert_eq!(due(&Limits::default(), u64::MAX, usize::MAX), None);
    }

    #[test]
    fn one_line_a_minute_says_how_many_there_were() {
        let (mut notices, start) = (Notices::default(), Instant::now());
        let said = "its instance is recycled, with what it held in memory: old";
        assert_eq!(notices.about("old", false, start).as_deref(), Some(said));
        for seconds in [1, 59] {
            assert_eq!(notices.about("old", false, start + Duration::from_secs(seconds)), None);
        }
        let more = format!("{said}; 2 more were since the last such line");
        assert_eq!(notices.about("old", false, start + QUIET), Some(more));
        assert_eq!(notices.about("old", false, start + 2 * QUIET).as_deref(), Some(said));
        let saves = "its instance is recycled, and saves what it holds in memory: old";
        assert_eq!(notices.about("old", true, start + 3 * QUIET).as_deref(), Some(saves));
    }
}
