//! What [`Outputs`] makes of single runs, one after the other.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::*;

fn paths(names: &[&str]) -> BTreeSet<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

fn changes(added: &[&str], modified: &[&str]) -> Changes {
    Changes { added: paths(added), modified: paths(modified), removed: BTreeSet::new() }
}

fn written(names: &[&str]) -> Changes {
    changes(&[], names)
}

/// Some run that ends well.
fn run(outputs: &mut Outputs, changes: &Changes, repeat: bool) -> Verdict {
    let kind = if repeat { Kind::Repeat } else { Kind::Change };
    outputs.done(changes, Ran { kind, well: true })
}

fn confirm(outputs: &mut Outputs, changes: &Changes, well: bool) -> Verdict {
    outputs.done(changes, Ran { kind: Kind::Confirmation, well })
}

fn nothing(taken_back: BTreeSet<Habit>) -> Verdict {
    Verdict { learned: BTreeSet::new(), taken_back, next: Next::Nothing }
}

/// One that something else than its outputs has started.
fn first(outputs: &mut Outputs, changes: &Changes) -> Next {
    run(outputs, changes, false).next
}

fn repeat(outputs: &mut Outputs, changes: &Changes) -> Next {
    run(outputs, changes, true).next
}

/// A whole proof and its confirmation, with what each run changes: what is learned by it.
fn sure(outputs: &mut Outputs, changes: impl Fn(u32) -> Changes) -> BTreeSet<Habit> {
    let learned = proof(outputs, &changes);
    assert_eq!(confirm(outputs, &changes(PROOF + 1), true), nothing(BTreeSet::new()));
    learned
}

/// A whole proof, with what each run changes: what is learned by it.
fn proof(outputs: &mut Outputs, changes: impl Fn(u32) -> Changes) -> BTreeSet<Habit> {
    assert_eq!(first(outputs, &changes(0)), Next::Repeat(changes(0)));
    assert_eq!(repeat(outputs, &changes(1)), Next::RepeatAfterRest(changes(1)));
    for number in 2..PROOF {
        assert_eq!(repeat(outputs, &changes(number)), Next::RepeatAfterRest(changes(number)));
    }
    let verdict = run(outputs, &changes(PROOF), true);
    assert_eq!(verdict.next, Next::Confirm);
    verdict.learned
}

fn writes(names: &[&str]) -> BTreeSet<Habit> {
    paths(names).into_iter().map(Habit::Writes).collect()
}

#[test]
fn outputs_that_are_the_same_each_time_start_one_more_build() {
    let mut outputs = Outputs::default();
    let made = changes(&["gen.rs", "a.o"], &[]);
    assert_eq!(first(&mut outputs, &made), Next::Repeat(made));
    assert_eq!(repeat(&mut outputs, &Changes::default()), Next::Nothing);
    // After an edit, the outputs change while it runs, and do not outdate it; the source itself does.
    outputs.changed_at_rest(&written(&["a.c"]));
    assert_eq!(outputs.meanwhile(&written(&["a.o", "a.c"])).outdating, written(&["a.c"]));
}

#[test]
fn a_file_that_was_there_outdates_two_runs_or_all_if_it_has_ever_changed_at_rest() {
    let mut outputs = Outputs::default();
    let generated = written(&["gen.rs"]);
    for _ in 0..2 {
        assert_eq!(outputs.meanwhile(&generated).outdating, generated);
        outputs.ended_early(&generated);
    }
    assert!(outputs.meanwhile(&generated).outdating.is_empty());
    outputs.changed_at_rest(&generated);
    for _ in 0..10 {
        assert_eq!(outputs.meanwhile(&generated).outdating, generated, "somebody else writes it");
        outputs.ended_early(&generated);
    }
}

#[test]
fn what_each_repeat_of_a_proof_writes_starts_nothing_any_more() {
    let mut outputs = Outputs::default();
    let stamp = written(&["stamp"]);
    assert_eq!(sure(&mut outputs, |_| stamp.clone()), writes(&["stamp"]));
    assert!(outputs.meanwhile(&stamp).outdating.is_empty());
    assert_eq!(run(&mut outputs, &stamp, false).learned, BTreeSet::new(), "it is known");
    let more = written(&["stamp", "a.c"]);
    assert_eq!(first(&mut outputs, &more), Next::Repeat(written(&["a.c"])));
    assert_eq!(repeat(&mut outputs, &stamp), Next::Nothing);
    outputs.changed_at_rest(&stamp);
    assert_eq!(first(&mut outputs, &stamp), Next::Repeat(stamp), "somebody has written it: forgotten");
}

#[test]
fn a_file_that_one_repeat_leaves_alone_is_no_output_however_often_it_changed() {
    let mut outputs = Outputs::default();
    let both = written(&["a.c", "stamp"]);
    assert_eq!(first(&mut outputs, &both), Next::Repeat(both.clone()));
    for number in 1..PROOF {
        assert_eq!(repeat(&mut outputs, &both), Next::RepeatAfterRest(both.clone()), "{number}");
    }
    // The last one: nobody saves any more.
    let verdict = run(&mut outputs, &written(&["stamp"]), true);
    assert_eq!((verdict.learned, verdict.next), (writes(&["stamp"]), Next::Confirm));
    assert_eq!(first(&mut outputs, &both), Next::Repeat(written(&["a.c"])));
}

#[test]
fn a_run_that_does_well_without_it_takes_a_habit_back() {
    let mut outputs = Outputs::default();
    let two = written(&["a.c", "stamp"]);
    assert_eq!(sure(&mut outputs, |_| two.clone()), writes(&["a.c", "stamp"]));
    let fails = Ran { kind: Kind::Change, well: false };
    assert_eq!(outputs.done(&Changes::default(), fails).taken_back, BTreeSet::new(), "it came to nothing");
    let verdict = run(&mut outputs, &written(&["stamp"]), false);
    assert_eq!((verdict.taken_back, verdict.next), (writes(&["a.c"]), Next::Nothing));
    assert_eq!(first(&mut outputs, &two), Next::Repeat(written(&["a.c"])));
}

#[test]
fn a_confirmation_that_does_without_takes_the_habit_back_and_has_built_what_was_saved() {
    let mut outputs = Outputs::default();
    let both = written(&["a.c", "stamp"]);
    assert_eq!(proof(&mut outputs, |_| both.clone()), writes(&["a.c", "stamp"]));
    assert_eq!(confirm(&mut outputs, &written(&["stamp"]), true), nothing(writes(&["a.c"])));
    assert_eq!(first(&mut outputs, &both), Next::Repeat(written(&["a.c"])), "the other one stands");
    assert_eq!(repeat(&mut outputs, &written(&["stamp"])), Next::Nothing);
}

#[test]
fn a_confirmation_is_due_after_each_run_in_which_the_habit_was_in_use_until_one_has_done_it() {
    let mut outputs = Outputs::default();
    let stamp = written(&["stamp"]);
    proof(&mut outputs, |_| stamp.clone());
    // Somebody has changed something in the rest.
    outputs.changed_at_rest(&written(&["a.c"]));
    assert_eq!(first(&mut outputs, &stamp), Next::Confirm);
    // It fails before it comes to that: nothing was taken for its own.
    assert_eq!(confirm(&mut outputs, &Changes::default(), false), nothing(BTreeSet::new()));
    assert_eq!(first(&mut outputs, &stamp), Next::Confirm);
    // Somebody saves in it.
    let more = written(&["a.c", "stamp"]);
    assert_eq!(confirm(&mut outputs, &more, true).next, Next::RepeatAfterRest(written(&["a.c"])));
    assert_eq!(repeat(&mut outputs, &stamp), Next::Nothing, "it is sure");
    // Written at rest: forgotten, and to be confirmed again.
    outputs.changed_at_rest(&stamp);
    assert_eq!(proof(&mut outputs, |_| stamp.clone()), writes(&["stamp"]));
}

#[test]
fn a_change_of_somebody_else_in_between_begins_the_proof_again() {
    let mut outputs = Outputs::default();
    let stamp = written(&["stamp"]);
    for _ in 0..10 {
        assert_eq!(first(&mut outputs, &stamp), Next::Repeat(stamp.clone()));
        for _ in 1..PROOF {
            assert_eq!(repeat(&mut outputs, &stamp), Next::RepeatAfterRest(stamp.clone()));
        }
        outputs.changed_at_rest(&written(&["a.c"]));
    }
}

#[test]
fn outputs_with_a_new_name_each_time_are_known_by_their_folder_and_their_number() {
    let mut outputs = Outputs::default();
    let named = |run: u32| changes(&[&format!("out/app-{run}.js"), &format!("out/{run}/map")], &[]);
    let learned = sure(&mut outputs, named);
    assert_eq!(learned, BTreeSet::from([Habit::Adds("out".into())]));
    assert_eq!(first(&mut outputs, &named(9)), Next::Nothing);
    // One more than usual may be somebody else's; so may a change of what was there.
    let more = changes(&["out/app-10.js", "out/10/map", "out/own.js"], &[]);
    assert_eq!(first(&mut outputs, &more), Next::Repeat(more));
    assert_eq!(repeat(&mut outputs, &named(11)), Next::Nothing);
    let index = changes(&["out/app-12.js", "out/12/map"], &["out/index.html"]);
    assert_eq!(first(&mut outputs, &index), Next::Repeat(written(&["out/index.html"])));
    // When it fails, it makes none: the two new files are somebody else's.
    let fails = Ran { kind: Kind::Change, well: false };
    assert_eq!(outputs.done(&named(13), fails).next, Next::Repeat(named(13)));
}

#[test]
fn what_comes_and_goes_under_new_names_is_known_by_both() {
    let mut outputs = Outputs::default();
    let renamed = |run: u32| {
        let removed = paths(&[&format!("out/{run}")]);
        Changes { removed, ..changes(&[&format!("out/{}", run + 1)], &[]) }
    };
    let both = BTreeSet::from([Habit::Adds("out".into()), Habit::Removes("out".into())]);
    assert_eq!(sure(&mut outputs, renamed), both);
    assert_eq!(first(&mut outputs, &renamed(9)), Next::Nothing);
}

#[test]
fn repeats_that_do_now_this_and_now_that_come_to_an_end() {
    let mut outputs = Outputs::default();
    let odd = |run: u32| written(&[if run.is_multiple_of(2) { "a" } else { "b" }]);
    assert_eq!(first(&mut outputs, &odd(0)), Next::Repeat(odd(0)));
    for number in 1..MANY_REPEATS {
        assert_eq!(repeat(&mut outputs, &odd(number)), Next::RepeatAfterRest(odd(number)));
    }
    // What somebody saves just then is not frequent.
    let more = written(&["a", "a.c"]);
    assert_eq!(repeat(&mut outputs, &more), Next::RepeatAfterRest(more));
    let last = run(&mut outputs, &odd(8), true);
    assert_eq!((last.learned, last.next), (BTreeSet::new(), Next::GiveUp(odd(8))));
}

#[test]
fn not_even_repeats_that_never_do_the_same_go_on_for_ever() {
    let mut outputs = Outputs::default();
    let other = |run: u32| written(&[&run.to_string()]);
    assert_eq!(first(&mut outputs, &other(0)), Next::Repeat(other(0)));
    for number in 1..MOST_REPEATS {
        assert_eq!(repeat(&mut outputs, &other(number)), Next::RepeatAfterRest(other(number)));
    }
    assert_eq!(repeat(&mut outputs, &other(MOST_REPEATS)), Next::GiveUp(other(MOST_REPEATS)));
}
