//! Makes scripts from seeds.
//!
//! Used by the campaign. Invariant: a seed gives the same script wherever and whenever it is asked (the random
//! numbers are a stream of SplitMix64, written out here, so that no library's change of mind changes them).
//!
//! The weights lean towards what overlaps: changes come in bursts on few keys, cuts follow changes at once, and
//! outages have changes, compactions and late listeners in them and end in hiccups.

use super::script::{Absence, Action, Change, Ending, Hiccup, Mishap, Requests, Script, Setup, Step};

/// A stream of random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or_default()
    }

    /// True so many times in a hundred.
    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of these, by weight.
    fn of<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let mut place = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            if place < *weight {
                return *choice;
            }
            place -= weight;
        }
        choices[0].1
    }
}

/// The script of a seed: 5 to 40 steps on 2 to 6 keys, with so many failures at most that make clients wait: each
/// costs seconds, and the longer the more there are.
pub(super) fn script(seed: u64, failures: usize) -> Script {
    let mut maker = Maker { random: Random(seed), keys: 0, failures };
    maker.keys = 2 + maker.random.below(5);
    let setup = maker.setup();
    let length = 5 + maker.random.below(36);
    let mut steps = Vec::new();
    while steps.len() < length {
        maker.scene(&setup, &mut steps);
    }
    steps.truncate(length);
    Script { seed, setup, steps }
}

struct Maker {
    random: Random,
    keys: usize,
    /// Failures that are left.
    failures: usize,
}

impl Maker {
    fn setup(&mut self) -> Setup {
        let existing = (0..self.keys).filter(|_| self.random.percent(50)).collect();
        let opening = if self.random.percent(15) { self.hiccups() } else { Vec::new() };
        let held =
            self.random.percent(15).then(|| (0..2 + self.random.below(6)).map(|_| self.change()).collect());
        Setup {
            streaming: self.random.percent(75),
            selects: self.random.percent(45),
            wider: self.random.percent(50),
            resyncs: self.random.percent(12),
            lanes: self.random.of(&[(70, 1), (30, 3)]),
            existing,
            opening,
            held,
        }
    }

    /// A few steps that belong together.
    fn scene(&mut self, setup: &Setup, steps: &mut Vec<Step>) {
        match self.random.below(100) {
            0..30 => self.burst(steps),
            30..45 => {
                self.burst(steps);
                steps.push(Step::Cut(self.ending()));
                self.burst(steps);
            }
            45..75 => self.outage(setup, steps),
            75..83 => self.losses(steps),
            83..91 => steps.push(Step::Join { resyncs: self.random.percent(50) }),
            91..93 => steps.push(Step::Leave),
            93..96 => steps.push(Step::Compact),
            96..98 => steps.push(Step::Settle),
            _ if setup.resyncs => steps.push(Step::Resync),
            _ => self.burst(steps),
        }
    }

    fn burst(&mut self, steps: &mut Vec<Step>) {
        for _ in 0..1 + self.random.below(5) {
            steps.push(Step::Change(self.change()));
        }
    }

    fn change(&mut self) -> Change {
        let action = self.random.of(&[
            (55, Action::Put),
            (15, Action::Hide),
            (17, Action::Delete),
            (13, Action::Recreate),
        ]);
        Change { key: self.random.below(self.keys), action }
    }

    fn outage(&mut self, setup: &Setup, steps: &mut Vec<Step>) {
        let refused = self.random.percent(12) && self.may_fail();
        steps.push(Step::Away(if refused { Absence::Refused } else { Absence::Held(self.ending()) }));
        for _ in 0..self.random.below(3) {
            self.burst(steps);
            match self.random.below(100) {
                0..30 => steps.push(Step::Compact),
                // client-go asks ten times, a second apart, before it believes that a list's version is too large.
                30..40 if setup.streaming || self.may_fail() => {
                    steps.push(Step::Restore { versions: 1 + self.random.below(12) as u64 });
                }
                40..50 => steps.push(Step::Join { resyncs: false }),
                _ => {}
            }
        }
        let hiccups = if self.random.percent(40) { self.hiccups() } else { Vec::new() };
        steps.push(Step::Back(hiccups));
    }

    /// Changes that no watch tells, and then some that it does.
    fn losses(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::Lose(true));
        self.burst(steps);
        steps.push(Step::Lose(false));
        self.burst(steps);
        if self.random.percent(40) {
            steps.push(Step::Away(Absence::Held(Ending::Clean)));
            self.burst(steps);
            steps.push(Step::Compact);
            steps.push(Step::Back(Vec::new()));
        }
    }

    /// Whether another failure is affordable.
    fn may_fail(&mut self) -> bool {
        let may = self.failures > 0;
        self.failures = self.failures.saturating_sub(1);
        may
    }

    fn ending(&mut self) -> Ending {
        let ending = self.random.of(&[
            (30, Ending::Clean),
            (12, Ending::Broken),
            (10, Ending::Bookmark),
            (10, Ending::HalfEvent),
            (12, Ending::Expired),
            (6, Ending::Busy),
            (4, Ending::Internal),
            (4, Ending::StoreRead),
            (4, Ending::NoStatus),
            (4, Ending::Garbage),
            (4, Ending::UnknownType),
        ]);
        let waits = !ending.resumes() || ending == Ending::Busy;
        if waits && !self.may_fail() { Ending::Clean } else { ending }
    }

    fn hiccups(&mut self) -> Vec<Hiccup> {
        let count = 1 + self.random.below(2);
        (0..count).filter_map(|_| self.hiccup()).collect()
    }

    fn hiccup(&mut self) -> Option<Hiccup> {
        let mishap = self.random.of(&[
            (12, Mishap::Busy),
            (6, Mishap::BusyForASecond),
            (6, Mishap::BusyText),
            (10, Mishap::Internal),
            (6, Mishap::Unavailable),
            (6, Mishap::BadGateway),
            (6, Mishap::Forbidden),
            (4, Mishap::NotFound),
            (12, Mishap::Gone),
            (14, Mishap::Expired),
            (8, Mishap::Empty),
            (6, Mishap::HalfEvent),
            (6, Mishap::Garbage),
            (8, Mishap::Disconnect),
        ]);
        let on = self.random.of(&[(50, Requests::Watch), (35, Requests::List), (15, Requests::Streaming)]);
        let times = 1 + self.random.below(2);
        self.may_fail().then_some(Hiccup { on, times, mishap })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_script_every_time() {
        assert_eq!(script(7, 4), script(7, 4));
        assert_ne!(script(7, 4).steps, script(8, 4).steps);
        let numbers: Vec<u64> = std::iter::repeat_with({
            let mut random = Random(1_234_567);
            move || random.next()
        })
        .take(3)
        .collect();
        // The reference values of SplitMix64.
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn scripts_are_of_the_size_that_was_asked_for_and_survive_their_json() {
        for seed in 0..500 {
            let script = script(seed, 4);
            assert!((5..=40).contains(&script.steps.len()), "seed {seed}");
            let keys = script.steps.iter().filter_map(|step| match step {
                Step::Change(change) => Some(change.key),
                _ => None,
            });
            assert!(keys.max().is_none_or(|key| key < 6), "seed {seed}");
            let text = serde_json::to_string(&script).expect("JSON");
            assert_eq!(serde_json::from_str::<Script>(&text).expect("a script"), script);
        }
    }

    #[test]
    fn a_thousand_scripts_have_everything_in_them() {
        let text: String =
            (0..1000).map(|seed| serde_json::to_string(&script(seed, 4)).expect("JSON")).collect();
        for word in [
            "settle",
            "join",
            "leave",
            "cut",
            "away",
            "back",
            "lose",
            "compact",
            "restore",
            "resync",
            "put",
            "hide",
            "delete",
            "recreate",
            "clean",
            "broken",
            "bookmark",
            "half-event",
            "expired",
            "busy",
            "internal",
            "store-read",
            "no-status",
            "garbage",
            "unknown-type",
            "held",
            "refused",
            "watch",
            "list",
            "streaming",
            "busy-for-a-second",
            "busy-text",
            "unavailable",
            "bad-gateway",
            "forbidden",
            "not-found",
            "gone",
            "empty",
            "disconnect",
        ] {
            assert!(text.contains(&format!("\"{word}\"")), "no {word}");
        }
    }
}
