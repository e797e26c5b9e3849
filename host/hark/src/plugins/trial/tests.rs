//! The table of the head, played; and what is written down and stands in on the way.

use std::path::PathBuf;

use super::super::prepare::Preparation;
use super::*;

/// What happens to a plugin's versions; contents are named by a letter.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// The content of the file takes over.
    Takes(&'static str),
    /// The good one takes over in the place of what is in the file.
    StandsIn(&'static str),
    /// The last good one is back.
    Back(&'static str),
    Pass,
    Fail,
    Overrule,
    /// The file has this content, which does not take over.
    Finds(&'static str),
}

fn hash(content: &str) -> ContentHash {
    ContentHash::of(content.as_bytes())
}

fn name(hash: &ContentHash) -> &'static str {
    ["a", "b", "c"].into_iter().find(|content| self::hash(content) == *hash).expect("one of them")
}

fn after(attempts: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(attempts)
}

/// `state good refused`.
fn shown(trial: &Trial) -> String {
    let Some(view) = trial.view() else { return "off".into() };
    let good = view.good.as_ref().map_or("-", name);
    let refused = view.rolled_back.as_ref().map_or("-", |one| name(&one.hash));
    format!("{} {good} {refused}", view.state.as_str())
}

fn act(trial: &mut Trial, act: Act, rollback: Option<NonZeroU32>) {
    let mut takes = |content: &str, origin| {
        let on_trial = trial.attempts(&hash(content), rollback).is_some();
        trial.took_over(hash(content), origin, rollback, on_trial, None);
    };
    match act {
        Act::Takes(content) => takes(content, Origin::File),
        Act::StandsIn(content) => takes(content, Origin::StandIn),
        Act::Back(content) => takes(content, Origin::Back),
        Act::Pass => trial.passed(),
        Act::Fail => drop(trial.failed("boom")),
        Act::Overrule => trial.overrule("damaged"),
        Act::Finds(content) => {
            trial.found(&hash(content));
        }
    }
    let view = trial.view();
    let says_why = view.as_ref().is_some_and(|view| view.no_way_back.is_some());
    let is_overruled = view.is_some_and(|view| view.state == RollbackState::Overruled);
    assert_eq!(says_why, is_overruled, "{act:?}");
    let refused = trial.rolled_back().map(|one| one.hash);
    assert!(refused.is_none() || refused != trial.good().map(|good| good.hash), "{act:?}");
}

fn left(good: Option<&str>, refused: Option<&str>) -> Record {
    let at = SystemTime::UNIX_EPOCH;
    Record {
        good: good.map(|content| Good { hash: hash(content), since: at }),
        candidate: None,
        rolled_back: refused.map(|content| RolledBack { hash: hash(content), at, why: "boom".into() }),
    }
}

#[test]
fn the_states_follow_the_table() {
    use Act::{Back, Fail, Finds, Overrule, Pass, StandsIn, Takes};
    let none = || left(None, None);
    for (before, steps, want) in [
        // The first one has nothing before it, and passes and fails no trial.
        (none(), vec![Takes("a"), Pass, Fail], vec!["good a -"; 3]),
        (none(), vec![Takes("a"), Takes("a")], vec!["good a -"; 2]),
        (
            none(),
            vec![Takes("a"), Takes("b"), Pass, Fail],
            vec!["good a -", "on-trial a -", "good b -", "good b -"],
        ),
        (
            none(),
            vec![Takes("a"), Takes("b"), Fail, Back("a")],
            vec!["good a -", "on-trial a -", "rolling-back a b", "rolled-back a b"],
        ),
        // What was on trial is never gone back to.
        (
            none(),
            vec![Takes("a"), Takes("b"), Takes("c"), Fail, Back("a")],
            vec!["good a -", "on-trial a -", "on-trial a -", "rolling-back a c", "rolled-back a c"],
        ),
        // Other settings are on trial only for as long as the content is.
        (
            none(),
            vec![Takes("a"), Takes("b"), Takes("b"), Pass],
            vec!["good a -", "on-trial a -", "on-trial a -", "good b -"],
        ),
        // The author puts the good one back himself.
        (none(), vec![Takes("a"), Takes("b"), Takes("a")], vec!["good a -", "on-trial a -", "good a -"]),
        (
            none(),
            vec![Takes("a"), Takes("b"), Fail, Takes("a")],
            vec!["good a -", "on-trial a -", "rolling-back a b", "good a -"],
        ),
        // A build that was ready before.
        (
            none(),
            vec![Takes("a"), Takes("b"), Fail, Takes("c")],
            vec!["good a -", "on-trial a -", "rolling-back a b", "on-trial a -"],
        ),
        (
            none(),
            vec![Takes("a"), Takes("b"), Fail, Overrule, Takes("c"), Fail],
            vec![
                "good a -",
                "on-trial a -",
                "rolling-back a b",
                "overruled a -",
                "on-trial a -",
                "rolling-back a c",
            ],
        ),
        // Other settings alone are a trial for what goes on although it failed.
        (
            none(),
            vec![Takes("a"), Takes("b"), Fail, Overrule, Takes("b"), Pass],
            vec!["good a -", "on-trial a -", "rolling-back a b", "overruled a -", "on-trial a -", "good b -"],
        ),
        // Only other content is not refused: one that takes over, or runs. What is found and does neither is no good itself.
        (
            left(Some("a"), Some("b")),
            vec![StandsIn("a"), Finds("b"), StandsIn("a"), Finds("a")],
            vec!["rolled-back a b", "rolled-back a b", "rolled-back a b", "good a -"],
        ),
        (
            left(Some("a"), Some("b")),
            vec![StandsIn("a"), Finds("c"), Finds("b"), Finds("c"), Finds("a")],
            vec!["rolled-back a b", "rolled-back a b", "rolled-back a b", "rolled-back a b", "good a -"],
        ),
        (left(Some("a"), Some("b")), vec![Finds("c"), StandsIn("a")], vec!["rolled-back a b"; 2]),
        (
            none(),
            vec![Takes("a"), Takes("b"), Fail, Finds("c"), Finds("a"), Back("a"), Finds("c"), Takes("c")],
            vec![
                "good a -",
                "on-trial a -",
                "rolling-back a b",
                "rolling-back a b",
                "rolling-back a b",
                "rolled-back a b",
                "rolled-back a b",
                "on-trial a -",
            ],
        ),
        (
            left(Some("a"), Some("b")),
            vec![StandsIn("a"), Takes("c")],
            vec!["rolled-back a b", "on-trial a -"],
        ),
        // The host before left a good one.
        (left(Some("a"), None), vec![Takes("a")], vec!["good a -"]),
        (
            left(Some("a"), None),
            vec![Takes("b"), Fail, Back("a")],
            vec!["on-trial a -", "rolling-back a b", "rolled-back a b"],
        ),
        (left(Some("a"), Some("b")), vec![Takes("c"), Pass], vec!["on-trial a -", "good c -"]),
        (left(None, Some("b")), vec![Finds("b"), Takes("c")], vec!["rolled-back - b", "good c -"]),
    ] {
        let mut trial = Trial::new(Some(before));
        let seen: Vec<String> = steps
            .iter()
            .map(|step| {
                act(&mut trial, *step, after(3));
                shown(&trial)
            })
            .collect();
        assert_eq!(seen, want, "{steps:?}");
    }
}

#[test]
fn switched_off_whatever_takes_over_is_good_and_nothing_is_kept() {
    let mut trial = Trial::new(Some(left(Some("a"), Some("b"))));
    act(&mut trial, Act::Takes("b"), None);
    assert_eq!((shown(&trial), trial.news()), ("off".into(), Some(Record::default())));
    act(&mut trial, Act::Takes("c"), None);
    assert_eq!((trial.failed("boom"), trial.news()), (None, None));
    act(&mut trial, Act::Takes("a"), after(1));
    assert_eq!(shown(&trial), "on-trial c -", "switched on, what ran until then is good");
    assert_eq!(Trial::new(None).news(), None, "nothing is written of a plugin that never had it");
}

#[test]
fn each_change_is_written_down_once() {
    let mut trial = Trial::new(Some(left(Some("a"), None)));
    assert_eq!(trial.news(), None, "until something runs");
    let written = |trial: &mut Trial| {
        let record = trial.news()?;
        let good = record.good.as_ref().map_or("-", |good| name(&good.hash));
        let candidate = record.candidate.as_ref().map_or("-", name);
        Some(format!("{good} {candidate} {}", record.rolled_back.as_ref().map_or("-", |one| name(&one.hash))))
    };
    for (step, want) in [
        (Act::Takes("a"), Some("a - -")),
        (Act::Takes("a"), None),
        (Act::Takes("b"), Some("a b -")),
        (Act::Fail, Some("a - b")),
        (Act::Back("a"), None),
        (Act::Finds("b"), None),
        (Act::Finds("c"), None),
        (Act::Takes("c"), Some("a c -")),
        (Act::Pass, Some("c - -")),
    ] {
        act(&mut trial, step, after(3));
        assert_eq!(written(&mut trial).as_deref(), want, "{step:?}");
    }
    assert_eq!(trial.left().good.map(|good| good.hash), Some(hash("c")));
}

#[test]
fn what_stands_in_is_where_it_can_be_had() {
    let path_of = |hash: &ContentHash| Ok(PathBuf::from(name(hash)));
    let nowhere = |_: &ContentHash| Err("nothing is kept".to_owned());
    let place = |stand_in: Option<StandIn>| match stand_in.map(|stand_in| stand_in.good) {
        None => "none".to_owned(),
        Some(Ok(Elsewhere::Loaded(_))) => "loaded".to_owned(),
        Some(Ok(Elsewhere::Kept { path, .. })) => path.display().to_string(),
        Some(Err(why)) => why,
    };
    let trial = Trial::new(Some(left(Some("a"), Some("b"))));
    assert_eq!(place(trial.stand_in(None, &path_of)), "a");
    assert_eq!(place(trial.stand_in(None, &nowhere)), "nothing is kept");
    let lost = Trial::new(Some(left(None, Some("b"))));
    let stand_in = lost.stand_in(None, &path_of);
    let Some(Preparation::Failed { hash: refused, message }) = stand_in.as_ref().map(|one| one.fails("gone"))
    else {
        panic!("it fails")
    };
    assert_eq!(refused, Some(hash("b")));
    let said = " was rolled back at 1970-01-01T00:00:00Z (boom), and the last good version cannot take its place: gone";
    assert!(message.ends_with(said), "{message}");
    assert_eq!(place(stand_in), "the last good version is not kept");
    assert_eq!(place(Trial::new(Some(left(Some("a"), None))).stand_in(None, &path_of)), "none");
    let mut trial = Trial::new(Some(left(Some("a"), None)));
    assert!(trial.way_back(&path_of).is_none());
    act(&mut trial, Act::Takes("b"), after(1));
    assert!(trial.way_back(&path_of).is_none());
    act(&mut trial, Act::Fail, after(1));
    assert!(matches!(trial.way_back(&path_of), Some(Ok(Elsewhere::Kept { .. }))));
    assert!(matches!(trial.way_back(&nowhere), Some(Err(_))));
}

#[test]
fn what_was_saved_is_of_no_use_once_another_one_has_gone_on() {
    let good = Good { hash: hash("a"), since: SystemTime::UNIX_EPOCH };
    for (overruled, want) in [(false, 1), (true, 0)] {
        let legacies: Vec<Option<Legacy>> = vec![Some(std::sync::Arc::new("saved"))];
        let before = Before { good, plugin: None, legacies };
        let mut trial =
            Trial { standing: Standing::OnTrial { before, content: hash("b") }, ..Trial::default() };
        if overruled {
            act(&mut trial, Act::Fail, after(1));
            act(&mut trial, Act::Overrule, after(1));
        }
        act(&mut trial, Act::Takes("c"), after(1));
        act(&mut trial, Act::Fail, after(1));
        assert_eq!(trial.legacies().len(), want);
    }
}
