//! For each rule a recorded trace that needs it, and nothing else; then every small change of Hark's side, of
//! client-go's and of what is known, each of which must be found.

use super::*;

const KEY: &str = "configmaps default/k0";

/// A pair of traces that agree by one rule, or by none.
struct Case {
    rule: Option<Rule>,
    times: u64,
    /// Segments: what was told, and how often a list was asked for.
    hark: &'static [(&'static str, usize)],
    go: &'static [(&'static str, usize)],
    facts: Facts,
    /// What no longer holds if a fact is another: changes of the facts that must be found.
    spoil: &'static [fn(&mut Facts, &mut Trace, &mut Trace)],
}

fn facts() -> Facts {
    Facts::default()
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            rule: None,
            times: 0,
            hark: &[
                ("initial add #1@5; update #1@5 -> #1@6; delete #1@7; add #2@8", 1),
                ("update #2@8 -> #2@3; delete #2@3 unknown", 1),
            ],
            go: &[
                ("initial add #1@5; update #1@5 -> #1@6; delete #1@7; add #2@8", 1),
                ("update #2@8 -> #2@3; delete #2@3 unknown", 1),
            ],
            facts: facts(),
            spoil: &[],
        },
        Case {
            rule: Some(Rule::UnchangedRelist),
            times: 2,
            hark: &[("initial add #1@5", 1), ("update #1@5 -> #1@9", 0), ("", 0)],
            go: &[
                ("initial add #1@5", 1),
                ("update #1@5 -> #1@5; update #1@5 -> #1@9; update #1@9 -> #1@9", 1),
                ("", 0),
            ],
            facts: facts(),
            spoil: &[|_, _, go| go.segments[1].lists = 0],
        },
        Case {
            rule: Some(Rule::ResyncTiming),
            times: 3,
            hark: &[("initial add #1@5", 1), ("update #1@5 -> #1@6; resync #1@6 -> #1@6", 0)],
            go: &[
                ("initial add #1@5; update #1@5 -> #1@5", 1),
                ("update #1@5 -> #1@6; update #1@6 -> #1@6", 0),
            ],
            facts: Facts { resyncing: BTreeSet::from(["first".into()]), ..facts() },
            spoil: &[|facts, _, _| facts.resyncing.clear()],
        },
        Case {
            rule: Some(Rule::NeverShown),
            times: 1,
            hark: &[("", 1), ("add #2@9", 0)],
            go: &[("delete #1@7", 1), ("add #2@9", 0)],
            facts: facts(),
            spoil: &[|facts, _, _| facts.classic = true],
        },
        Case {
            rule: Some(Rule::Recreated),
            times: 1,
            hark: &[("initial add #1@5", 1), ("delete #1@5 unknown; add #2@9; update #2@9 -> #2@10", 1)],
            go: &[("initial add #1@5", 1), ("update #1@5 -> #2@9; update #2@9 -> #2@10", 1)],
            facts: facts(),
            spoil: &[],
        },
        Case {
            rule: Some(Rule::OtherIncarnation),
            times: 1,
            hark: &[("initial add #1@5", 1), ("delete #1@5 unknown; add #3@9", 0)],
            go: &[("initial add #1@5", 1), ("delete #2@8; add #3@9", 0)],
            facts: Facts { classic: true, ..facts() },
            spoil: &[],
        },
        Case {
            rule: Some(Rule::HeldBack),
            times: 1,
            hark: &[("", 1), ("initial add #1@6; update #1@6 -> #1@9", 0)],
            go: &[("initial add #1@5; update #1@5 -> #1@6", 1), ("update #1@6 -> #1@9", 0)],
            facts: Facts { held: true, ..facts() },
            spoil: &[|facts, _, _| facts.held = false],
        },
        Case {
            rule: Some(Rule::HeldBack),
            times: 1,
            hark: &[("", 1), ("add #2@8; update #2@8 -> #2@9; update #2@9 -> #2@10", 0)],
            go: &[
                ("initial add #1@5; delete #1@7; add #2@8; update #2@8 -> #2@9", 1),
                ("update #2@9 -> #2@10", 0),
            ],
            facts: Facts { held: true, ..facts() },
            spoil: &[|facts, _, _| facts.held = false],
        },
        Case {
            rule: Some(Rule::LeftSelector),
            times: 2,
            hark: &[
                ("initial add #1@5; update #1@5 -> #1@6; delete #1@6; add #1@9; delete #1@11", 1),
                ("add #1@12", 1),
                ("delete #1@12", 1),
            ],
            go: &[
                ("initial add #1@5; update #1@5 -> #1@6; delete #1@7; add #1@9; delete #1@11", 1),
                ("add #1@12", 1),
                ("delete #1@12 unknown", 1),
            ],
            facts: Facts { wider: true, ..facts() },
            spoil: &[|facts, _, _| facts.wider = false],
        },
    ]
}

/// The opposite of the events' `Display`.
fn told(text: &str) -> Told {
    let state = |text: &str| {
        let (uid, version) = text.split_once('@').expect("uid@version");
        State { uid: uid.into(), version: version.into() }
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["initial", "add", one] => Told::Add { state: state(one), initial: true },
        ["add", one] => Told::Add { state: state(one), initial: false },
        ["update", old, "->", new] => Told::Update { old: state(old), new: state(new), resync: false },
        ["resync", old, "->", new] => Told::Update { old: state(old), new: state(new), resync: true },
        ["delete", one, "unknown"] => Told::Delete { state: state(one), unknown: true },
        ["delete", one] => Told::Delete { state: state(one), unknown: false },
        _ => panic!("{text}"),
    }
}

fn trace(segments: &[(&str, usize)]) -> Trace {
    let segment = |(text, lists): &(&str, usize)| {
        let texts = text.split(';').map(str::trim).filter(|text| !text.is_empty());
        let events = texts.map(|text| Event { key: KEY.into(), told: told(text) }).collect();
        Segment { told: BTreeMap::from([("first".into(), events)]), lists: *lists }
    };
    Trace { segments: segments.iter().map(segment).collect() }
}

fn events(trace: &mut Trace, segment: usize) -> &mut Vec<Event> {
    trace.segments[segment].told.get_mut("first").expect("a listener")
}

/// Every trace that differs from this one in one small thing, with what that is.
fn mutations(whole: &Trace, is_spared: impl Fn(usize, &Told, &str) -> bool) -> Vec<(String, Trace)> {
    let mut mutated = Vec::new();
    for segment in 0..whole.segments.len() {
        let all = whole.segments[segment].told["first"].clone();
        for (place, event) in all.iter().enumerate() {
            let mut add = |name: &str, change: &dyn Fn(&mut Vec<Event>)| {
                let mut trace = whole.clone();
                change(events(&mut trace, segment));
                if trace.segments[segment].told["first"] != all && !is_spared(segment, &event.told, name) {
                    mutated.push((format!("{name} {event} in segment {segment}"), trace));
                }
            };
            add("drop", &|events| drop(events.remove(place)));
            add("duplicate", &|events| events.insert(place, event.clone()));
            if place + 1 < all.len() {
                add("swap", &|events| events.swap(place, place + 1));
            }
            add("version of", &|events| change_state(&mut events[place], |state| state.version.push('0')));
            add("uid of", &|events| change_state(&mut events[place], |state| state.uid.push('0')));
            add("flag of", &|events| flip(&mut events[place]));
            add("key of", &|events| events[place].key.push('0'));
        }
    }
    mutated
}

fn change_state(event: &mut Event, change: impl Fn(&mut State)) {
    let (Told::Add { state, .. } | Told::Update { new: state, .. } | Told::Delete { state, .. }) =
        &mut event.told;
    change(state);
}

fn flip(event: &mut Event) {
    match &mut event.told {
        Told::Add { initial: flag, .. }
        | Told::Update { resync: flag, .. }
        | Told::Delete { unknown: flag, .. } => *flag = !*flag,
    }
}

#[test]
fn each_rule_is_applied_where_it_is_due_and_counted() {
    for case in cases() {
        let tally = compare(&trace(case.hark), &trace(case.go), &case.facts)
            .unwrap_or_else(|difference| panic!("{:?}: {difference}", case.rule));
        let mut wanted = Tally::default();
        for _ in 0..case.times {
            wanted.count(case.rule.expect("a rule"));
        }
        assert_eq!(tally, wanted, "{:?}", case.rule);
    }
}

#[test]
fn a_rule_is_not_applied_where_its_condition_does_not_hold() {
    for case in cases() {
        for (number, spoil) in case.spoil.iter().enumerate() {
            let (mut hark, mut go, mut facts) = (trace(case.hark), trace(case.go), case.facts.clone());
            spoil(&mut facts, &mut hark, &mut go);
            assert!(compare(&hark, &go, &facts).is_err(), "{:?} without its condition {number}", case.rule);
        }
    }
}

#[test]
fn any_change_of_what_hark_told_is_found_beside_each_rule() {
    let mut tried = 0;
    for case in cases() {
        // When a resync comes, and how often, is not compared.
        let spared = |_: usize, told: &Told, change: &str| {
            match told {
                Told::Update { resync: true, .. } => matches!(change, "drop" | "duplicate"),
                // A list cannot tell leaving the selector from a deletion.
                Told::Delete { state, .. } => {
                    case.rule == Some(Rule::LeftSelector) && state.version == "12" && change == "flag of"
                }
                _ => false,
            }
        };
        for (what, hark) in mutations(&trace(case.hark), spared) {
            tried += 1;
            let found = compare(&hark, &trace(case.go), &case.facts).is_err();
            assert!(found, "{:?}: {what} went unnoticed", case.rule);
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn any_change_of_what_client_go_told_is_found_beside_each_rule() {
    let mut tried = 0;
    for case in cases() {
        let rule = case.rule;
        let spared = |segment: usize, told: &Told, change: &str| match told {
            // client-go has no flag for a resync.
            Told::Update { .. } if change == "flag of" => true,
            // What the rule leaves out may as well be more or less often there.
            Told::Update { old, new, .. } if old == new => matches!(change, "drop" | "duplicate"),
            Told::Delete { .. } if rule == Some(Rule::NeverShown) => true,
            // Only the last of the states of a listed object that were held back shows.
            Told::Add { initial: true, .. } | Told::Delete { .. }
                if rule == Some(Rule::HeldBack) && segment == 0 =>
            {
                true
            }
            Told::Update { old, .. } if rule == Some(Rule::HeldBack) && segment == 0 && old.uid == "#1" => {
                change == "duplicate"
            }
            // The version of the change, and how it was noticed.
            Told::Delete { state, .. } if rule == Some(Rule::LeftSelector) && state.version != "11" => {
                matches!(change, "version of" | "flag of")
            }
            // The state of an incarnation that nobody was shown.
            Told::Delete { .. } if rule == Some(Rule::OtherIncarnation) => {
                matches!(change, "version of" | "uid of")
            }
            _ => false,
        };
        for (what, go) in mutations(&trace(case.go), spared) {
            tried += 1;
            let found = compare(&trace(case.hark), &go, &case.facts).is_err();
            assert!(found, "{rule:?}: {what} went unnoticed");
        }
    }
    assert!(tried > 80, "{tried}");
}

#[test]
fn a_listener_that_heard_nothing_is_found() {
    let (hark, mut go) = (trace(&[("initial add #1@5", 1)]), trace(&[("initial add #1@5", 1)]));
    let heard = go.segments[0].told["first"].clone();
    go.segments[0].told.insert("late 1".into(), heard);
    let difference = compare(&hark, &go, &facts()).expect_err("a difference");
    assert_eq!((difference.listener.as_str(), difference.hark.len()), ("late 1", 0));
}

#[test]
fn an_event_in_another_segment_is_found() {
    let whole = trace(&[("initial add #1@5", 1), ("update #1@5 -> #1@6", 0)]);
    let late = trace(&[("initial add #1@5", 1), ("", 0), ("update #1@5 -> #1@6", 0)]);
    assert!(compare(&whole, &late, &facts()).is_err());
    assert!(compare(&late, &whole, &facts()).is_err());
}

#[test]
fn states_of_a_marker_may_be_missed_while_settling_is_repeated_and_nothing_else() {
    let hark = trace(&[("initial add #1@5; update #1@5 -> #1@6; update #1@6 -> #1@7", 1)]);
    let go = trace(&[("initial add #1@5; update #1@5 -> #1@7", 1)]);
    let restless = Facts { restless: BTreeSet::from([0]), markers: BTreeSet::from([KEY.into()]), ..facts() };
    assert!(compare(&hark, &go, &Facts { restless: BTreeSet::new(), ..restless.clone() }).is_err());
    assert!(compare(&hark, &go, &Facts { markers: BTreeSet::new(), ..restless.clone() }).is_err());
    let last = trace(&[("initial add #1@5; update #1@5 -> #1@8", 1)]);
    assert!(compare(&hark, &last, &restless).is_err());
}
