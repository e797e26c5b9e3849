//! The state machine, step by step.

use super::*;

fn changes(name: &str) -> Changes {
    let mut changes = Changes::default();
    changes.modified.insert(name.into());
    changes
}

fn changed(name: &str) -> Input {
    Input::Changed(changes(name))
}

/// The state's name and what it runs or is to run for.
fn shown(machine: &Machine) -> String {
    let (name, cause) = match machine.state() {
        State::Idle => ("idle", None),
        State::Due(cause) => ("due", Some(cause)),
        State::Resting(cause) => ("resting", Some(cause)),
        State::Running(cause) => ("running", Some(cause)),
        State::Ending { cause, stop: false } => ("ending", Some(cause)),
        State::Ending { cause, stop: true } => ("stopping", Some(cause)),
        State::Over { cause, early: false } => ("over", Some(cause)),
        State::Over { cause, early: true } => ("over early", Some(cause)),
        State::Stopped => ("stopped", None),
    };
    let names: Vec<String> =
        cause.iter().flat_map(|cause| cause.changes.paths()).map(|path| path.display().to_string()).collect();
    let own = match cause.map(|cause| cause.kind) {
        Some(Kind::Repeat) => " own",
        Some(Kind::Confirmation) => " to confirm",
        Some(Kind::Change) | None => "",
    };
    format!("{}{own}", format!("{name} {}", names.join("+")).trim_end())
}

/// Each step with the action and the state that must follow.
fn check(steps: Vec<(Input, Action, &str)>) {
    let mut machine = Machine::new();
    for (place, (input, action, state)) in steps.into_iter().enumerate() {
        assert_eq!(machine.step(input.clone()), action, "step {place}, {input:?}");
        assert_eq!(shown(&machine), state, "step {place}, {input:?}");
    }
}

use Action::{Doubt, End, EndOutdated, EndOverdue, LetFinish, Look, Nothing, Start};
use Input::{Begin, Doubtful, Ended, Looked, Overdue, Rested, Stop, Turn};
use Next::{Confirm, GiveUp, Repeat, RepeatAfterRest};

#[test]
fn a_build_runs_at_the_start_and_when_its_sources_change() {
    check(vec![
        (Begin, Nothing, "due"),
        (Turn, Start, "running"),
        (Ended, Look, "over"),
        (Looked(Next::Nothing), Nothing, "idle"),
        (Turn, Nothing, "idle"),
        (changed("a"), Nothing, "due a"),
        (changed("b"), Nothing, "due a+b"),
        (Turn, Start, "running a+b"),
        (Turn, Nothing, "running a+b"),
        (Ended, Look, "over a+b"),
        (changed("c"), Nothing, "over a+b"),
        (Looked(Repeat(changes("c"))), Nothing, "due c own"),
        (Turn, Start, "running c own"),
        (Ended, Look, "over c own"),
        (Looked(Next::Nothing), Nothing, "idle"),
    ]);
}

#[test]
fn what_is_outdated_is_ended_and_run_again_for_all_that_changed() {
    check(vec![
        (changed("a"), Nothing, "due a"),
        (Turn, Start, "running a"),
        (changed("b"), EndOutdated(changes("b")), "ending a+b"),
        (changed("c"), Nothing, "ending a+b"),
        (Turn, Nothing, "ending a+b"),
        (Ended, Look, "over early a+b"),
        (Looked(Next::Nothing), Nothing, "due a+b"),
        (Turn, Start, "running a+b"),
        (Ended, Look, "over a+b"),
    ]);
}

#[test]
fn a_build_that_waits_for_its_turn_for_its_own_outputs_is_somebody_elses_if_more_changes() {
    check(vec![
        (Begin, Nothing, "due"),
        (Turn, Start, "running"),
        (Ended, Look, "over"),
        (Looked(Repeat(changes("out"))), Nothing, "due out own"),
        (changed("a"), Nothing, "due a+out"),
    ]);
}

/// A run that is outdated and ended.
fn ended(
    running: &'static str,
    ending: &'static str,
    due: &'static str,
) -> Vec<(Input, Action, &'static str)> {
    let over = match ending {
        "ending a own" => "over early a own",
        _ => "over early a",
    };
    vec![
        (Turn, Start, running),
        (changed("a"), EndOutdated(changes("a")), ending),
        (Ended, Look, over),
        (Looked(Next::Nothing), Nothing, due),
    ]
}

#[test]
fn one_that_is_outdated_three_times_in_a_row_is_left_to_finish_and_it_is_counted_anew_after_that() {
    let mut steps = vec![(changed("a"), Nothing, "due a")];
    for _ in 0..MOST_ENDED {
        steps.extend(ended("running a", "ending a", "due a"));
    }
    steps.extend([
        (Turn, Start, "running a"),
        (changed("a"), LetFinish(changes("a")), "running a"),
        (changed("a"), Nothing, "running a"),
        (Ended, Look, "over a"),
        (Looked(Repeat(changes("a"))), Nothing, "due a own"),
    ]);
    for _ in 0..MOST_ENDED {
        steps.extend(ended("running a own", "ending a own", "due a own"));
    }
    steps.extend([
        (Turn, Start, "running a own"),
        (changed("a"), LetFinish(changes("a")), "running a own"),
        (Ended, Look, "over a own"),
        (Looked(RepeatAfterRest(changes("a"))), Nothing, "resting a own"),
        (Rested, Nothing, "due a own"),
    ]);
    steps.extend(ended("running a own", "ending a own", "due a own"));
    steps.extend([
        (Turn, Start, "running a own"),
        (Ended, Look, "over a own"),
        (Looked(RepeatAfterRest(changes("a"))), Nothing, "resting a own"),
        // Somebody else's: all of it begins anew.
        (changed("a"), Nothing, "due a"),
    ]);
    steps.extend(ended("running a", "ending a", "due a"));
    check(steps);
}

#[test]
fn a_repeat_waits_for_a_rest_and_what_changes_in_it_is_somebody_elses() {
    let resting = [
        (Begin, Nothing, "due"),
        (Turn, Start, "running"),
        (Ended, Look, "over"),
        (Looked(RepeatAfterRest(changes("out"))), Nothing, "resting out own"),
        (Turn, Nothing, "resting out own"),
    ];
    let then = |steps: Vec<(Input, Action, &'static str)>| check([resting.to_vec(), steps].concat());
    then(vec![
        (Rested, Nothing, "due out own"),
        (Rested, Nothing, "due out own"),
        (Turn, Start, "running out own"),
        (Ended, Look, "over out own"),
        (Looked(GiveUp(changes("out"))), Nothing, "idle"),
        (Rested, Nothing, "idle"),
    ]);
    then(vec![(changed("a"), Nothing, "due a+out"), (Turn, Start, "running a+out")]);
    then(vec![(Stop, Nothing, "stopped"), (Rested, Nothing, "stopped")]);
}

#[test]
fn a_confirmation_waits_for_a_rest_and_stays_one_when_it_is_outdated() {
    check(vec![
        (Begin, Nothing, "due"),
        (Turn, Start, "running"),
        (Ended, Look, "over"),
        (Looked(Confirm), Nothing, "resting to confirm"),
        (changed("a"), Nothing, "due a"),
        (Turn, Start, "running a"),
        (Ended, Look, "over a"),
        (Looked(Confirm), Nothing, "resting to confirm"),
        (Rested, Nothing, "due to confirm"),
        (Turn, Start, "running to confirm"),
        (changed("a"), EndOutdated(changes("a")), "ending a to confirm"),
        (Ended, Look, "over early a to confirm"),
        (Looked(Next::Nothing), Nothing, "due a to confirm"),
        (Turn, Start, "running a to confirm"),
        (Ended, Look, "over a to confirm"),
        (Looked(Next::Nothing), Nothing, "idle"),
    ]);
}

#[test]
fn it_stops_from_every_state_and_never_while_a_command_runs() {
    check(vec![(Stop, Nothing, "stopped"), (Begin, Nothing, "stopped")]);
    check(vec![(Begin, Nothing, "due"), (Stop, Nothing, "stopped"), (Turn, Nothing, "stopped")]);
    check(vec![
        (Begin, Nothing, "due"),
        (Turn, Start, "running"),
        (Stop, End, "stopping"),
        (Stop, Nothing, "stopping"),
        (changed("a"), Nothing, "stopping"),
        (Ended, Nothing, "stopped"),
    ]);
    check(vec![
        (Begin, Nothing, "due"),
        (Turn, Start, "running"),
        (changed("a"), EndOutdated(changes("a")), "ending a"),
        (Stop, Nothing, "stopping a"),
        (Ended, Nothing, "stopped"),
    ]);
    check(vec![
        (Begin, Nothing, "due"),
        (Turn, Start, "running"),
        (Ended, Look, "over"),
        (Stop, Nothing, "stopped"),
    ]);
}

#[test]
fn what_may_be_its_own_or_outdates_it_for_the_fourth_time_ends_it_when_it_has_had_its_time() {
    let mut steps = vec![(changed("a"), Nothing, "due a")];
    for _ in 0..MOST_ENDED {
        steps.extend(ended("running a", "ending a", "due a"));
    }
    for _ in 0..2 {
        steps.extend([
            (Turn, Start, "running a"),
            (Doubtful(changes("a")), Doubt(changes("a")), "running a"),
            (Doubtful(changes("a")), Nothing, "running a"),
            (changed("a"), LetFinish(changes("a")), "running a"),
            (changed("a"), Nothing, "running a"),
            (Overdue(changes("a")), EndOverdue(changes("a")), "ending a"),
            (Overdue(changes("a")), Nothing, "ending a"),
            (Ended, Look, "over early a"),
            (Looked(Next::Nothing), Nothing, "due a"),
        ]);
    }
    check(steps);
}
