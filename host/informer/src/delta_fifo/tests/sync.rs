//! When the first list counts as processed, and what belongs to it (R-SYN).

use super::*;

/// Pops `count` times, the end of the first list not counted.
fn pop_some(fifo: &DeltaFifo, count: usize) {
    for _ in 0..count {
        while pop(fifo) == Some(Popped::Synced) {}
    }
}

#[test]
fn it_is_synced_once_the_first_list_is_popped() {
    let cases = [
        ("", 0, false),
        ("add a@1", 0, true),
        ("delete a@1", 0, true),
        ("replace", 0, true),
        ("replace a@1 b@1", 0, false),
        ("replace a@1 b@1", 1, false),
        ("replace a@1 b@1", 2, true),
        ("replace a@1 a@1", 1, true),
        ("add a@1; replace a@1 b@1", 0, true),
        ("replace a@1; replace a@1 b@1 c@1", 1, true),
    ];
    for (script, pops, synced) in cases {
        let fifo = fifo("");
        run(&fifo, script);
        pop_some(&fifo, pops);
        assert_eq!(fifo.has_synced(), synced, "TestDeltaFIFO_HasSynced, R-SYN-2: {script}, {pops} pops");
    }
}

#[test]
fn deletions_of_the_first_list_belong_to_it() {
    let fifo = fifo("foo@1 bar@2 baz@3");
    run(&fifo, "replace foo@5");
    let mut seen = Vec::new();
    for _ in 0..3 {
        assert!(!fifo.has_synced(), "TestDeltaFIFO_HasSyncedCorrectOnDeletion");
        let popped = pop(&fifo).expect("a key");
        let Popped::Deltas { initial, .. } = popped else { panic!("{popped:?}") };
        seen.push((line(&popped), initial));
    }
    let want = ["foo: Replaced@5", "bar: Deleted@2?", "baz: Deleted@3?"].map(|line| (line.to_owned(), true));
    assert_eq!(seen, want, "R-SYN-3");
    assert!(fifo.has_synced());
}

#[test]
fn the_end_of_the_first_list_is_told_in_its_turn_and_once() {
    let fifo = fifo("bar@5");
    run(&fifo, "replace foo@5; replace foo@5; add new@6");
    let mut lines = Vec::new();
    while let Some(popped) = pop(&fifo) {
        lines.push(line(&popped));
    }
    assert_eq!(lines, ["foo: Replaced@5 Replaced@5", "bar: Deleted@5?", "synced", "new: Added@6"]);
    run(&fifo, "replace");
    assert!(fifo.has_synced(), "R-SYN-2: it stays true");
    assert!(pop(&fifo).is_some_and(|popped| popped != Popped::Synced));
}

#[test]
fn an_empty_first_list_is_synced_at_once() {
    let fifo = fifo("");
    run(&fifo, "replace");
    assert!(fifo.has_synced());
    assert_eq!([pop(&fifo), pop(&fifo)], [Some(Popped::Synced), None]);
}

#[test]
fn what_was_put_back_still_belongs_to_the_first_list() {
    let fifo = fifo("");
    run(&fifo, "replace a@1 b@1; add c@2");
    let put_back = &mut |popped| match popped {
        Popped::Deltas { deltas, .. } => Processed::Requeue((), deltas),
        Popped::Synced => panic!("nothing is processed yet"),
    };
    assert!(fifo.try_pop(put_back).is_ready());
    let mut seen = Vec::new();
    while let Some(popped) = pop(&fifo) {
        let initial = matches!(popped, Popped::Deltas { initial: true, .. });
        seen.push((line(&popped), initial, fifo.has_synced()));
    }
    let want = [
        ("b: Replaced@1", true, false),
        ("c: Added@2", false, false),
        ("a: Replaced@1", true, true),
        ("synced", false, true),
    ];
    assert_eq!(seen, want.map(|(line, initial, synced)| (line.to_owned(), initial, synced)));
}
