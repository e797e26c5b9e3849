//! Replace: what it adds, what it deletes, and with which state.

use super::*;

#[test]
fn a_list_deletes_what_only_the_queue_has_with_its_newest_state() {
    // With an empty cache; client-go runs each also without one, which our queue cannot be.
    let cases: [(&str, &str); 6] = [
        ("add a@1; replace", "a: Added@1 Deleted@1?"),
        ("add a@1; replace a@1; replace", "a: Added@1 Replaced@1 Deleted@1?"),
        ("add a@1; delete a@1; replace", "a: Added@1 Deleted@1"),
        ("add a@1; replace a@1; replace a@1; replace", "a: Added@1 Replaced@1 Replaced@1 Deleted@1?"),
        ("add a@1; replace; replace", "a: Added@1 Deleted@1?"),
        ("add a@1; delete a@1; add a@2; replace", "a: Added@1 Deleted@1 Added@2 Deleted@2?"),
    ];
    for (script, want) in cases {
        let name = "TestDeltaFIFOW_ReplaceMakesDeletionsForObjectsOnlyInQueue";
        assert_eq!(after("", script), [want], "{name}: {script}");
    }
}

#[test]
fn a_list_deletes_what_only_the_cache_has_after_all_that_it_adds() {
    let known = "foo@5 bar@6 baz@7";
    let cases: [(&str, &str, &[&str]); 6] = [
        (known, "delete baz@10; replace foo@5", &["baz: Deleted@10", "foo: Replaced@5", "bar: Deleted@6?"]),
        (
            known,
            "add baz@10; replace foo@5",
            &["baz: Added@10 Deleted@10?", "foo: Replaced@5", "bar: Deleted@6?"],
        ),
        (
            known,
            "delete bar@6; add bar@100; replace foo@5",
            &["bar: Deleted@6 Added@100 Deleted@100?", "foo: Replaced@5", "baz: Deleted@7?"],
        ),
        (
            known,
            "replace bar@100 foo@5; replace foo@5",
            &["bar: Replaced@100 Deleted@100?", "foo: Replaced@5 Replaced@5", "baz: Deleted@7?"],
        ),
        ("", "add baz@10; replace foo@5", &["baz: Added@10 Deleted@10?", "foo: Replaced@5"]),
        // TestDeltaFIFO_ReplaceMakesDeletionsReplaced
        (known, "delete baz@10; replace foo@6", &["baz: Deleted@10", "foo: Replaced@6", "bar: Deleted@6?"]),
    ];
    for (known, script, want) in cases {
        assert_eq!(after(known, script), want, "TestDeltaFIFO_ReplaceMakesDeletions: {script}");
    }
}

#[test]
fn a_delete_before_a_relist_that_has_the_object_again_is_kept() {
    let fifo = DeltaFifo::new(9, Arc::default());
    fifo.known.upsert(object("foo", "u", "1"));
    run(&fifo, "delete foo@1");
    fifo.replace(vec![object("foo", "v", "2")], "2");
    assert_eq!(
        drain(&fifo),
        ["foo: Deleted@1 Replaced@2"],
        "TestDeltaFIFO_replaceWithDeleteDeltaIn (kubernetes#83810)"
    );
}

#[test]
fn what_a_list_has_is_replaced_or_where_that_is_not_told_apart_a_sync() {
    for (emits_replaced, want) in [(true, "foo: Replaced@5"), (false, "foo: Sync@5")] {
        let options = DeltaFifoOptions { emits_replaced, ..DeltaFifoOptions::default() };
        let fifo = with_options(options, "foo@5");
        run(&fifo, "replace foo@5");
        assert_eq!(drain(&fifo), [want], "R-DF-4, TestDeltaFIFO_ReplaceDeltaType");
        run(&fifo, "resync");
        assert_eq!(drain(&fifo), ["foo: Sync@5"]);
    }
}

#[test]
fn the_newest_state_of_a_listed_key_is_the_lists() {
    assert_eq!(
        after("", "add foo@10; replace foo@15"),
        ["foo: Added@10 Replaced@15"],
        "TestDeltaFIFO_addReplace"
    );
}

#[test]
fn a_closed_queue_takes_nothing_in_and_gives_what_it_has() {
    let fifo = fifo("known@1");
    run(&fifo, "add a@1");
    fifo.close();
    run(&fifo, "add b@1; delete a@1; replace c@1; resync");
    let delta = Delta { kind: DeltaKind::Updated, object: at("d@1"), final_state_unknown: false };
    assert!(!fifo.add_if_not_present(vec![delta]));
    let put_back = &mut |popped| match popped {
        Popped::Deltas { deltas, .. } => Processed::Requeue(deltas.len(), deltas),
        Popped::Synced => Processed::Done(0),
    };
    let popped = [(); 3].map(|()| fifo.try_pop(put_back));
    let want = [Some(0), Some(1), None].map(Poll::Ready);
    assert_eq!(popped, want, "R-DF-7; R-DF-8 (D): nothing is put back either, so that draining it ends");
}
