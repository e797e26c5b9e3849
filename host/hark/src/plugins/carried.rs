//! What became of a plugin's memory at its reloads, for the line that announces one, for metrics, and for `/api/plugins`.
//!
//! Made of the listener's report, kept in the plugin's slot. Invariant: only reloads from or to a version with `lifecycle`
//! count.

use std::fmt;
use std::time::SystemTime;

use hark_informer::handler::Legacy;
use hark_informer::listener::{HandOver, SwapReport};
use hark_sandbox::Saved;

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CarriedOver {
    /// The new version has restored what the one before saved.
    Kept,
    /// There was nothing to carry, or the new version has no use for it.
    None,
    /// It could not be carried, and the new version began afresh, with a replay.
    Failed,
}

/// What became of the memory at one reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) result: CarriedOver,
    /// What was saved, by all instances together.
    pub(crate) bytes: usize,
    /// Why it failed; empty otherwise.
    pub(crate) why: String,
}

/// What became of it at all reloads of a plugin.
#[derive(Debug, Clone, Default)]
pub(crate) struct HandOvers {
    /// How often, as [`CarriedOver::ALL`] has them.
    counts: [u64; 3],
    /// The last one, and when it was.
    pub(crate) last: Option<(Carried, SystemTime)>,
}

impl CarriedOver {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Kept, Self::None, Self::Failed];

    /// The word used in metrics and documents.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::None => "none",
            Self::Failed => "failed",
        }
    }
}

impl Carried {
    /// Of a reload from a version to another one, which export `lifecycle` or do not; none if neither does.
    pub(crate) fn of(report: &SwapReport, from: bool, to: bool) -> Option<Self> {
        if !from && !to {
            return None;
        }
        let (result, legacies, why) = match &report.hand_over {
            // Whoever does not export it ignores what is left.
            HandOver::Kept(_) if !to => (CarriedOver::None, &report.saved, String::new()),
            HandOver::Kept(kept) => (CarriedOver::Kept, kept, String::new()),
            HandOver::Nothing => (CarriedOver::None, &report.saved, String::new()),
            HandOver::FellBack(why) => (CarriedOver::Failed, &report.saved, why.to_string()),
        };
        Some(Self { result, bytes: legacies.iter().map(bytes).sum(), why })
    }
}

fn bytes(legacy: &Option<Legacy>) -> usize {
    legacy.as_ref().and_then(Saved::of).map_or(0, Saved::bytes)
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.result {
            CarriedOver::Kept => write!(f, "state {} kept", Bytes(self.bytes)),
            CarriedOver::None if self.bytes > 0 => {
                write!(
                    f,
                    "state {} dropped, since the new version does not export lifecycle",
                    Bytes(self.bytes)
                )
            }
            CarriedOver::None => f.write_str("no state to keep"),
            CarriedOver::Failed => write!(f, "starts afresh with a replay: {}", self.why),
        }
    }
}

impl HandOvers {
    /// One more.
    pub(crate) fn note(&mut self, carried: Carried) {
        self.counts[carried.result as usize] += 1;
        self.last = Some((carried, SystemTime::now()));
    }

    /// How often it came to this.
    pub(crate) fn count(&self, result: CarriedOver) -> u64 {
        self.counts[result as usize]
    }
}

/// A size for people: tenths where they tell something.
struct Bytes(usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Far below what a double holds exactly.
        let bytes = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{} B", self.0),
            1024..0x10_0000 => write!(f, "{:.1} KiB", bytes / 1024.0),
            _ => write!(f, "{:.1} MiB", bytes / f64::from(1 << 20)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hark_informer::handler::NothingNeeded;
    use hark_informer::listener::{Failure, FellBack};

    use super::*;

    fn report(hand_over: HandOver, saved: Vec<Option<Legacy>>) -> SwapReport {
        SwapReport { hand_over, saved, ..SwapReport::default() }
    }

    #[test]
    fn only_reloads_from_or_to_a_version_with_lifecycle_count() {
        let nothing = || report(HandOver::Nothing, vec![Some(Arc::new(NothingNeeded))]);
        for (from, to, want) in [(false, false, None), (true, false, Some(0)), (false, true, Some(0))] {
            assert_eq!(Carried::of(&nothing(), from, to).map(|carried| carried.bytes), want);
        }
        assert_eq!(Carried::of(&nothing(), true, true).expect("it counts").to_string(), "no state to keep");
    }

    #[test]
    fn a_failure_says_why_and_each_result_is_counted() {
        let failure = Failure { lane: 1, lanes: 3, message: "it refuses to restore: format v7".into() };
        let fell_back = HandOver::FellBack(FellBack::Restore(failure));
        let carried = Carried::of(&report(fell_back, vec![]), true, true).expect("it counts");
        assert_eq!(
            carried.to_string(),
            "starts afresh with a replay: instance 2 of 3: it refuses to restore: format v7"
        );
        let mut all = HandOvers::default();
        all.note(carried);
        assert_eq!(CarriedOver::ALL.map(|result| all.count(result)), [0, 0, 1]);
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [(0, "0 B"), (1023, "1023 B"), (1229, "1.2 KiB"), (8 << 20, "8.0 MiB")];
        for (size, want) in sizes {
            assert_eq!(Bytes(size).to_string(), want);
        }
        let kept = Carried { result: CarriedOver::Kept, bytes: 1229, why: String::new() };
        assert_eq!(kept.to_string(), "state 1.2 KiB kept");
    }
}
