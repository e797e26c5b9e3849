//! Where the time goes between a change in the plugins folder and the new code's turn.
//!
//! Taken by whoever prepares a version and hands over to it, shown in the line that announces it, and summed up for the
//! metrics. Invariants: the whole is the sum of the parts, so that no time is in none of them; a part that a version did
//! not go through is left out rather than zero.

use std::fmt;
use std::time::{Duration, SystemTime};

use hark_informer::listener::Histogram;
use tokio::time::Instant;

/// The longest time between a file's change and its reading that is believed. What is longer is a clock that jumped, or
/// a file that was refused for something else than its content.
const DETECT_MOST: Duration = Duration::from_secs(60);

/// The parts, in their order.
pub(crate) const PARTS: [&str; 6] = ["detect", "read", "compile", "link", "start", "swap"];

/// The parts of one version's way. Each part goes from the end of the one before to its own, so that they are the whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timings {
    /// What was before is in one of the parts.
    counted: Instant,
    /// From the file's change to the beginning of reading it: being told, looking, waiting until it is whole, and
    /// waiting for a turn. From when the change was noticed, where the file did not change, or when is not known.
    detect: Duration,
    /// Reading and hashing.
    read: Duration,
    /// Componentizing and compiling, or looking it up. None if the code is that of the version before.
    compile: Option<Duration>,
    /// It was found in the artefact cache.
    cached: bool,
    /// Checking the world, and resolving the imports.
    link: Option<Duration>,
    /// `describe`, and whatever else the version does before it may take over; waiting for a turn with it is in here.
    start: Duration,
    /// Waiting for the event under way, and exchanging the handlers.
    swap: Duration,
}

impl Timings {
    /// Those of a version that began to be read at `reading`; the change was noticed before.
    pub(crate) fn new(noticed: Instant, reading: Instant) -> Self {
        Self {
            counted: reading,
            detect: reading.saturating_duration_since(noticed),
            read: Duration::ZERO,
            compile: None,
            cached: false,
            link: None,
            start: Duration::ZERO,
            swap: Duration::ZERO,
        }
    }

    /// Counts from the file's change, which reading began so long after.
    pub(crate) fn changed(&mut self, before: Duration) {
        self.detect = before;
    }

    /// It is read.
    pub(crate) fn read(&mut self) {
        self.read += lap(&mut self.counted);
    }

    /// It is compiled, or was found, and linked, which took so long of it.
    pub(crate) fn compiled(&mut self, linking: Duration, cached: bool) {
        let both = lap(&mut self.counted);
        let link = linking.min(both);
        (self.compile, self.link, self.cached) = (Some(both - link), Some(link), cached);
    }

    /// It has done another step of what it does before it may take over.
    pub(crate) fn started(&mut self) {
        self.start += lap(&mut self.counted);
    }

    /// The new handler is in place.
    pub(crate) fn swapped(&mut self) {
        self.swap += lap(&mut self.counted);
    }

    /// From the file's change, or from when it was noticed, to the new handler in place.
    pub(crate) fn total(&self) -> Duration {
        self.parts().into_iter().flatten().sum()
    }

    /// The parts that there were, each in the place that it has in [`PARTS`].
    fn parts(&self) -> [Option<Duration>; PARTS.len()] {
        [Some(self.detect), Some(self.read), self.compile, self.link, Some(self.start), Some(self.swap)]
    }
}

/// What is in no part yet, which from now on is.
fn lap(counted: &mut Instant) -> Duration {
    let now = Instant::now();
    now.saturating_duration_since(std::mem::replace(counted, now))
}

impl fmt::Display for Timings {
    /// The parts, in milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (name, part) in PARTS.into_iter().zip(self.parts()) {
            let Some(part) = part else { continue };
            let cached = if name == "compile" && self.cached { " (cached)" } else { "" };
            write!(f, "{comma}{name} {}{cached}", Millis(part))?;
            comma = ", ";
        }
        f.write_str(" ms")
    }
}

/// Milliseconds for people: tenths only where they tell something.
pub(crate) struct Millis(pub(crate) Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_secs_f64() * 1000.0;
        let decimals = if millis < 9.95 { 1 } else { 0 };
        write!(f, "{millis:.decimals$}")
    }
}

/// How long a file that changed at `changed` has waited to be read, if that is to be believed.
pub(crate) fn detected(changed: SystemTime, now: SystemTime) -> Option<Duration> {
    now.duration_since(changed).ok().filter(|waited| *waited <= DETECT_MOST)
}

/// What became of a change in the folder, or in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reload {
    /// A plugin's first version runs.
    Started,
    /// A version has taken over from another one.
    Reloaded,
    /// It is the content that runs, or that was refused before.
    Unchanged,
    /// It is no good.
    Refused,
    /// The machine lacked something.
    Hindered,
}

impl Reload {
    const ALL: [Self; 5] = [Self::Started, Self::Reloaded, Self::Unchanged, Self::Refused, Self::Hindered];

    /// Its name in the metrics.
    fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Reloaded => "reloaded",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
            Self::Hindered => "hindered",
        }
    }
}

/// All reloads so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReloadStats {
    results: [u64; Reload::ALL.len()],
    parts: [Histogram; PARTS.len()],
    total: Histogram,
}

impl ReloadStats {
    /// Counts what became of a change.
    pub(crate) fn count(&mut self, what: Reload) {
        self.results[what as usize] += 1;
    }

    /// Counts a version that has taken over from another one.
    pub(crate) fn reloaded(&mut self, timings: &Timings) {
        self.count(Reload::Reloaded);
        self.total.observe(timings.total());
        for (sum, part) in self.parts.iter_mut().zip(timings.parts()) {
            part.into_iter().for_each(|part| sum.observe(part));
        }
    }

    /// How often each thing became of a change, by its name.
    pub(crate) fn results(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Reload::ALL.into_iter().zip(self.results).map(|(what, count)| (what.as_str(), count))
    }

    /// The times of each part of a reload, by its name, and of the whole.
    pub(crate) fn times(&self) -> impl Iterator<Item = (&'static str, &Histogram)> {
        PARTS.into_iter().zip(&self.parts).chain([("total", &self.total)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_clock_that_jumped_tells_nothing() {
        let now = SystemTime::now();
        assert_eq!(detected(now - millis(7), now), Some(millis(7)));
        assert_eq!(detected(now, now), Some(Duration::ZERO));
        assert_eq!(detected(now + millis(1), now), None, "a change that is still to come");
        assert_eq!(detected(now - millis(60_001), now), None);
    }

    #[test]
    fn what_there_was_not_is_left_out() {
        let mut timings = Timings::new(Instant::now(), Instant::now());
        (timings.detect, timings.start) = (Duration::ZERO, Duration::from_micros(2340));
        assert_eq!(timings.to_string(), "detect 0.0, read 0.0, start 2.3, swap 0.0 ms");
        timings.changed(millis(12));
        (timings.compile, timings.link, timings.cached) = (Some(millis(1061)), Some(millis(1)), true);
        let all = "detect 12, read 0.0, compile 1061 (cached), link 1.0, start 2.3, swap 0.0 ms";
        assert_eq!(timings.to_string(), all);
        assert_eq!(timings.total(), Duration::from_micros(1_076_340));
    }

    #[tokio::test(start_paused = true)]
    async fn the_whole_is_counted_from_the_change_or_from_its_notice_and_is_the_sum_of_the_parts() {
        let pass = async |count| tokio::time::advance(millis(count)).await;
        let noticed = Instant::now();
        // Its file was left open for writing.
        pass(1000).await;
        let mut timings = Timings::new(noticed, Instant::now());
        pass(2).await;
        timings.read();
        pass(30).await;
        timings.compiled(millis(4), false);
        // Waiting for a turn, describing; waiting for another turn, starting.
        for (waiting, step) in [(5, 6), (7, 8)] {
            pass(waiting).await;
            pass(step).await;
            timings.started();
        }
        pass(9).await;
        timings.swapped();
        let parts = "read 2.0, compile 26, link 4.0, start 26, swap 9.0 ms";
        assert_eq!(timings.to_string(), format!("detect 1000, {parts}"));
        assert_eq!((timings.total(), noticed.elapsed()), (millis(1067), millis(1067)));
        timings.changed(millis(1030));
        assert_eq!(timings.to_string(), format!("detect 1030, {parts}"));
        assert_eq!(timings.total(), millis(1097));
    }

    #[test]
    fn every_result_and_every_part_is_counted_under_its_own_name() {
        let mut stats = ReloadStats::default();
        for what in Reload::ALL {
            (0..=what as usize).for_each(|_| stats.count(what));
        }
        let now = Instant::now();
        let mut timings = Timings::new(now, now);
        timings.compile = Some(millis(3));
        timings.swap = millis(1);
        stats.reloaded(&timings);
        let results: Vec<_> = stats.results().collect();
        let want = [("started", 1), ("reloaded", 3), ("unchanged", 3), ("refused", 4), ("hindered", 5)];
        assert_eq!(results, want);
        let times: Vec<_> = stats.times().map(|(name, times)| (name, times.count(), times.sum())).collect();
        let none = Duration::ZERO;
        let want = [
            ("detect", 1, none),
            ("read", 1, none),
            ("compile", 1, millis(3)),
            ("link", 0, none),
            ("start", 1, none),
            ("swap", 1, millis(1)),
            ("total", 1, millis(4)),
        ];
        assert_eq!(times, want);
    }
}
