//! Small stories that keep the delivery contract, and ones with a planted fault each, which the model must find.

use super::super::history::{Commit, Kind, Looks, Namespace, Place};
use super::super::plan::{Mood, Watch};
use super::*;

/// A second.
const S: Moment = 1_000_000;

fn watch(name: &str) -> Watch {
    Watch::of(name, Kind::ConfigMap)
}

fn plan(number: u32, replays: bool, watches: Vec<Watch>) -> Plan {
    Plan {
        number,
        watches,
        mood: Mood::Good,
        lingers: 0,
        replays: Some(replays),
        concurrency: None,
        memory: None,
    }
}

/// What one plugin, `p`, went through.
#[derive(Clone, Default)]
struct Case {
    history: History,
    records: Records,
    news: Vec<News>,
    trace: Vec<Line>,
}

impl Case {
    /// A change of object `name`, at this second: its uid, and its version if it is there.
    fn commit(mut self, second: Moment, name: &str, uid: &str, version: Option<u64>) -> Self {
        let place = Place { kind: Kind::ConfigMap, namespace: Namespace::A, name: format!("object-{name}") };
        let looks = Looks { labelled: true, off: false, text: 1, more: 1 };
        let state =
            version.map(|version| (version, Looks { text: u32::try_from(version).unwrap_or(0), ..looks }));
        self.history.add(&place, Commit { at: second * S, uid: uid.into(), state });
        self
    }

    /// The file of a build comes, and the build begins to run, at this second.
    fn arrives(mut self, second: Moment, plan: &Plan, is_first: bool) -> Self {
        let hash = format!("{:064}", plan.number);
        let subscriptions = (!is_first).then(|| self.change(plan));
        if is_first {
            self.record().added.push(second * S - 1);
        }
        self.record().present = true;
        self.records.plans.insert(hash.clone(), plan.clone());
        let at = second * S;
        let carried = Carried::Nothing;
        let (restored, begun_by_rollback, back) = (0, 0, None);
        let arrival = Arrival { at, hash, subscriptions, carried, restored, begun_by_rollback, back };
        let what = What::Arrived(arrival);
        self.news.push(News { at, plugin: "p".into(), what });
        self
    }

    /// Kept, added, removed.
    fn change(&self, plan: &Plan) -> [u64; 3] {
        let last = self.news.iter().rev().find_map(|news| match &news.what {
            What::Arrived(arrival) => self.records.plans.get(&arrival.hash),
            What::Stopped => None,
        });
        let before = last.map(|plan| plan.watches.clone()).unwrap_or_default();
        let both = |watch: &&Watch| before.iter().any(|other| other.is_kept_as(watch));
        let kept = plan.watches.iter().filter(both).count() as u64;
        [kept, plan.watches.len() as u64 - kept, before.len() as u64 - kept]
    }

    fn stops(mut self, second: Moment) -> Self {
        self.record().present = false;
        self.news.push(News { at: second * S, plugin: "p".into(), what: What::Stopped });
        self
    }

    fn settles(mut self, second: Moment, generation: u64) -> Self {
        self.record().settled.push((second * S, generation));
        self
    }

    fn record(&mut self) -> &mut Record {
        self.records.plugins.entry("p".into()).or_default()
    }

    /// `2 first add a u 5`, `2 first initial a u 5`, `2 first update a u 5 6`, `2 first delete a u`, each with the
    /// generation, at this second.
    fn told(mut self, second: Moment, text: &str) -> Self {
        let line = self.line(second, text);
        self.trace.push(line);
        self
    }

    fn line(&self, second: Moment, text: &str) -> Line {
        let words: Vec<&str> = text.split(' ').collect();
        let op = if words[2] == "initial" { "add" } else { words[2] };
        let (old_rv, rv) = match words[5..] {
            [old, new] => (Some(old.to_owned()), new),
            [rv] => (None, rv),
            _ => (None, "0"),
        };
        Line {
            ts: Timestamp::from_microsecond(second * S).expect("a time").to_string(),
            plugin: "p".into(),
            generation: words[0].parse().expect("a generation"),
            subscription: words[1].into(),
            op: op.into(),
            key: format!("reloads-a/object-{}", words[3]),
            uid: words[4].into(),
            rv: rv.into(),
            old_rv,
            initial: words[2] == "initial",
            resync: false,
            reason: None,
            attempt: 1,
            outcome: "ok".into(),
            micros: 10,
            seq: u64::try_from(second).expect("a number"),
        }
    }

    fn faults(&self) -> Vec<String> {
        judge(&self.history, &self.records, &self.news, self.trace.clone()).expect("a judgement").1
    }
}

/// An object that is there, one that is made again, and one that ends, told by a version and the next one.
fn two_versions(replays: bool) -> Case {
    let case = Case::default()
        .commit(1, "a", "u", Some(1))
        .arrives(20, &plan(1, replays, vec![watch("first")]), true)
        .told(21, "1 first initial a u 1")
        .settles(22, 1)
        .commit(30, "b", "v", Some(2))
        .told(31, "1 first add b v 2")
        .commit(40, "a", "u", Some(3))
        .told(41, "1 first update a u 1 3")
        .arrives(50, &plan(2, replays, vec![watch("first")]), false);
    let case = if replays {
        case.told(51, "2 first initial a u 3").commit(52, "b", "v", None).told(53, "2 first delete b v")
    } else {
        case.commit(52, "b", "v", None).told(53, "2 first delete b v")
    };
    case.settles(60, 2)
        .commit(70, "b", "w", Some(4))
        .told(71, "2 first add b w 4")
        .commit(80, "a", "u", Some(5))
        .told(81, "2 first update a u 3 5")
        .commit(90, "a", "u", None)
        .told(91, "2 first delete a u")
}

/// The plugin goes, and comes again.
fn two_lives() -> Case {
    Case::default()
        .commit(1, "a", "u", Some(1))
        .arrives(20, &plan(1, false, vec![watch("first")]), true)
        .told(21, "1 first initial a u 1")
        .settles(22, 1)
        .stops(30)
        .commit(31, "a", "u", Some(2))
        .arrives(40, &plan(1, false, vec![watch("first")]), true)
        .told(41, "1 first initial a u 2")
        .settles(42, 1)
        .commit(50, "a", "u", Some(3))
        .told(51, "1 first update a u 2 3")
}

/// The second version has another subscription of the same name, and one more.
fn changed_subscription() -> Case {
    let other = Watch { unless_off: true, ..watch("first") };
    Case::default()
        .commit(1, "a", "u", Some(1))
        .arrives(20, &plan(1, false, vec![watch("first")]), true)
        .told(21, "1 first initial a u 1")
        .settles(22, 1)
        .arrives(30, &plan(2, false, vec![watch("second"), other]), false)
        .told(31, "2 second initial a u 1")
        .told(32, "2 first initial a u 1")
        .settles(33, 2)
        .commit(40, "a", "u", Some(2))
        .told(41, "2 first update a u 1 2")
        .told(42, "2 second update a u 1 2")
}

const NONE: [&str; 0] = [];

#[test]
fn what_is_promised_has_no_fault() {
    for case in [two_versions(false), two_versions(true), two_lives(), changed_subscription()] {
        assert_eq!(case.faults(), NONE);
    }
}

#[test]
fn a_line_that_is_missing_or_doubled_or_swapped_with_the_next_of_its_object_is_found() {
    for case in [two_versions(false), two_versions(true), two_lives(), changed_subscription()] {
        for at in 0..case.trace.len() {
            let mut lost = case.clone();
            let line = lost.trace.remove(at);
            // A change that waits at a replay is part of that.
            let is_in_replay = |line: &Line| line.op == "update" && line.generation == 1;
            let replays = case.records.plans.values().any(|plan| plan.replays == Some(true));
            assert_eq!(lost.faults().is_empty(), replays && is_in_replay(&line), "without {line:?}");
            let mut doubled = case.clone();
            doubled.trace.insert(at, line.clone());
            assert!(!doubled.faults().is_empty(), "twice {line:?}");
            let same = |other: &Line| (&other.subscription, &other.key) == (&line.subscription, &line.key);
            let next = (at + 1..case.trace.len()).find(|next| same(&case.trace[*next]));
            // Two lives, or two versions of a subscription, do not know of each other.
            let one_life = |next: &usize| {
                let between =
                    |news: &News| (line.seq..case.trace[*next].seq).contains(&(news.at / S).unsigned_abs());
                case.trace[*next].generation == line.generation
                    && !case.news.iter().any(|news| news.what == What::Stopped && between(news))
            };
            if let Some(next) = next.filter(one_life) {
                let mut swapped = case.clone();
                swapped.trace.swap(at, next);
                assert!(!swapped.faults().is_empty(), "after its next one: {line:?}");
            }
        }
    }
}

#[test]
fn faults_that_are_planted_are_named() {
    for (case, fault) in [
        (two_versions(true).told(92, "2 first initial a u 3"), "no such thing"),
        (two_versions(false).told(92, "1 first add b w 4"), "version 2 is the plugin's"),
        (two_versions(false).told(92, "3 first add b w 4"), "there is no such version"),
        (two_versions(false).told(92, "2 other add b w 4"), "has no subscription other"),
        (
            two_lives().stops(60).told(61, "1 first update a u 3 4").told(62, "1 first delete a u"),
            "after its file was gone",
        ),
        (
            changed_subscription()
                .arrives(50, &plan(3, false, vec![watch("second")]), false)
                .told(51, "3 first update a u 2 3"),
            "has no subscription first",
        ),
        (two_versions(false).commit(95, "c", "x", Some(6)), "never told"),
        (two_versions(false).commit(95, "c", "x", Some(6)).commit(96, "c", "x", None), "was not told"),
    ] {
        let faults = case.faults();
        assert!(faults.iter().any(|found| found.contains(fault)), "{fault}: {faults:?}");
    }
}

#[test]
fn events_of_an_object_do_not_overlap_nor_do_versions() {
    let mut case = two_versions(false);
    let micros = u64::try_from(20 * S).expect("a number");
    if let Some(line) = case.trace.iter_mut().find(|line| line.op == "update") {
        line.micros = micros + 10;
    }
    assert!(case.faults().iter().any(|fault| fault.contains("object's event before")), "{:?}", case.faults());
    let mut case = two_versions(false);
    if let Some(line) = case.trace.iter_mut().find(|line| line.generation == 2) {
        line.micros = micros;
    }
    assert!(case.faults().iter().any(|fault| fault.contains("version before")), "{:?}", case.faults());
}

#[test]
fn what_the_log_tells_of_subscriptions_must_fit() {
    let mut case = changed_subscription();
    for news in &mut case.news {
        if let What::Arrived(Arrival { subscriptions: Some(counts), .. }) = &mut news.what {
            *counts = [1, 1, 0];
        }
    }
    assert!(case.faults().iter().any(|fault| fault.contains("but the log says")), "{:?}", case.faults());
}
