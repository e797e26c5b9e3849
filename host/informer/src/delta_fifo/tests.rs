//! The DeltaFIFO: client-go's own cases, written as scripts, then the bound, wake-ups and a model.

mod bound;
mod model;
mod relists;
mod stats;
mod sync;
mod wakeups;

use super::*;
use crate::testing::object;

/// `name@version`; the uid is always the same.
fn at(text: &str) -> Arc<Object> {
    let (key, version) = text.split_once('@').expect("name@version");
    object(key, "u", version)
}

fn objects(text: &str) -> Vec<Arc<Object>> {
    text.split_whitespace().map(at).collect()
}

/// A queue in front of a cache with these objects.
fn fifo(known: &str) -> DeltaFifo {
    with_options(DeltaFifoOptions::default(), known)
}

fn with_options(options: DeltaFifoOptions, known: &str) -> DeltaFifo {
    let indexer = Arc::new(Indexer::new());
    indexer.replace(objects(known), "");
    DeltaFifo::with_options(options, indexer)
}

/// Does to the queue what a line says: `add a@1`, `update a@2`, `delete a@3`, `replace a@1 b@1`, `resync`.
fn apply(fifo: &DeltaFifo, line: &str) {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let kind = match verb {
        "add" => DeltaKind::Added,
        "update" => DeltaKind::Updated,
        "delete" => DeltaKind::Deleted,
        "replace" => return fifo.replace(objects(rest), ""),
        "resync" => return fifo.resync(),
        _ => panic!("{line}"),
    };
    assert!(fifo.try_enqueue(kind, &at(rest)).is_ready(), "there is room");
}

/// Does what lines separated by `;` say.
fn run(fifo: &DeltaFifo, script: &str) {
    script.split(';').map(str::trim).filter(|line| !line.is_empty()).for_each(|line| apply(fifo, line));
}

/// `key: Kind@version …`, a tombstone marked with `?`; or `synced`.
fn line(popped: &Popped) -> String {
    let Popped::Deltas { key, deltas, .. } = popped else { return "synced".into() };
    format!("{key}: {}", deltas.iter().map(word).collect::<Vec<_>>().join(" "))
}

fn word(delta: &Delta) -> String {
    let unknown = if delta.final_state_unknown { "?" } else { "" };
    format!("{:?}@{}{unknown}", delta.kind, delta.object.resource_version())
}

/// Pops what is there.
fn pop(fifo: &DeltaFifo) -> Option<Popped> {
    match fifo.try_pop(&mut Processed::Done) {
        Poll::Ready(popped) => popped,
        Poll::Pending => None,
    }
}

/// Pops everything but the end of the first list.
fn drain(fifo: &DeltaFifo) -> Vec<String> {
    let popped = std::iter::from_fn(|| pop(fifo));
    popped.map(|popped| line(&popped)).filter(|line| line != "synced").collect()
}

/// What a script leaves in the queue.
fn after(known: &str, script: &str) -> Vec<String> {
    let fifo = fifo(known);
    run(&fifo, script);
    drain(&fifo)
}

#[test]
fn deltas_of_a_key_stay_together_and_keys_keep_their_first_place() {
    let cases: [(&str, &str, &[&str]); 5] = [
        (
            "TestDeltaFIFO_addUpdate",
            "add foo@10; update foo@12; delete foo@15",
            &["foo: Added@10 Updated@12 Deleted@15"],
        ),
        (
            "TestDeltaFIFO_enqueueingNoLister",
            "add foo@10; update bar@15; add qux@17; delete qux@18; delete baz@20",
            &["foo: Added@10", "bar: Updated@15", "qux: Added@17 Deleted@18"],
        ),
        ("R-DF-1", "add foo@10; add bar@1; update foo@12", &["foo: Added@10 Updated@12", "bar: Added@1"]),
        (
            "R-DF-2: only two deletions are one",
            "add foo@1; add foo@1; update foo@1; update foo@1",
            &["foo: Added@1 Added@1 Updated@1 Updated@1"],
        ),
        ("TestDeltaFIFO_DeleteExistingNonPropagated", "add foo@5; delete foo@6", &["foo: Added@5 Deleted@6"]),
    ];
    for (name, script, want) in cases {
        assert_eq!(after("", script), want, "{name}");
    }
}

#[test]
fn deleting_is_for_what_is_queued_or_known() {
    assert_eq!(
        after("foo@1 bar@2 baz@3", "add foo@10; update bar@15; delete baz@20"),
        ["foo: Added@10", "bar: Updated@15", "baz: Deleted@20"],
        "TestDeltaFIFO_enqueueingWithLister"
    );
    assert_eq!(after("baz@7", "delete qux@20; delete baz@20"), ["baz: Deleted@20"], "R-DF-3, 7.12 no. 10");
}

#[test]
fn of_two_deletions_the_one_that_the_watch_told_stays() {
    assert_eq!(after("a@1", "delete a@2; replace"), ["a: Deleted@2"], "R-DF-2");
    assert_eq!(after("a@1", "replace; delete a@2"), ["a: Deleted@2"], "a tombstone gives way");
    assert_eq!(after("a@1", "delete a@2; delete a@3"), ["a: Deleted@2"], "the older one stays");
}

#[test]
fn nobody_jumps_the_line() {
    let fifo = fifo("");
    run(&fifo, "add foo@10; add bar@1; add foo@11; add foo@13; add zab@30");
    assert_eq!(pop(&fifo), Some(Popped::Synced));
    assert_eq!(pop(&fifo).as_ref().map(line).as_deref(), Some("foo: Added@10 Added@11 Added@13"));
    run(&fifo, "add foo@14");
    let want = ["bar: Added@1", "zab: Added@30", "foo: Added@14"];
    assert_eq!(drain(&fifo), want, "TestDeltaFIFO_detectLineJumpers");
}

#[test]
fn resync_takes_known_objects_that_are_not_queued() {
    let cases: [(&str, &str, &str, &[&str]); 4] = [
        ("TestDeltaFIFO_Resync", "foo@5", "resync", &["foo: Sync@5"]),
        ("TestDeltaFIFO_ResyncNonExisting", "foo@5", "delete foo@6; resync", &["foo: Deleted@6"]),
        ("TestDeltaFIFO_UpdateResyncRace", "foo@5", "update foo@6; resync", &["foo: Updated@6"]),
        (
            "7.12 no. 8: twice, and in between",
            "a@1 b@1",
            "resync; update a@2; resync",
            &["a: Sync@1 Updated@2", "b: Sync@1"],
        ),
    ];
    for (name, known, script, want) in cases {
        assert_eq!(after(known, script), want, "{name}");
    }
}

#[test]
fn what_failed_goes_to_the_tail_unless_something_newer_waits() {
    let fifo = fifo("");
    run(&fifo, "add a@1; update a@2; add b@1");
    assert_eq!(pop(&fifo), Some(Popped::Synced));
    let mut failed = Vec::new();
    let answer = fifo.try_pop(&mut |popped| {
        let Popped::Deltas { mut deltas, .. } = popped else { panic!("{popped:?}") };
        failed = deltas.split_off(1);
        Processed::Requeue("failed", failed.clone())
    });
    assert_eq!(answer, Poll::Ready(Some("failed")));
    assert_eq!(fifo.depth(), 2);
    run(&fifo, "update a@3");
    assert!(!fifo.add_if_not_present(failed), "R-DF-7 (D): what waits is newer");
    assert!(!fifo.add_if_not_present(vec![]));
    assert_eq!(drain(&fifo), ["b: Added@1", "a: Updated@2 Updated@3"], "in order, done things not repeated");
    let delta = Delta { kind: DeltaKind::Updated, object: at("c@1"), final_state_unknown: false };
    assert!(fifo.add_if_not_present(vec![delta]));
    assert_eq!(drain(&fifo), ["c: Updated@1"]);
    assert_eq!(fifo.depth(), 0);
}

#[test]
fn a_process_function_that_panics_leaves_the_accounts_right() {
    let fifo = fifo("");
    run(&fifo, "replace a@1 b@1");
    let panicking = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        fifo.try_pop(&mut |_| -> Processed<()> { panic!("on purpose") })
    }));
    assert!(panicking.is_err());
    assert_eq!((fifo.depth(), fifo.has_synced()), (1, false));
    assert_eq!(drain(&fifo), ["b: Replaced@1"]);
    assert!(fifo.has_synced());
}

#[test]
fn the_cache_version_follows_the_order_of_arrival_once_nothing_waits() {
    let fifo = fifo("");
    let pop = || {
        let store = &mut |popped| {
            if let Popped::Deltas { deltas, .. } = popped {
                deltas.into_iter().for_each(|delta| drop(fifo.known.upsert(delta.object)));
            }
            Processed::Done(())
        };
        assert!(fifo.try_pop(store).is_ready());
        fifo.known.resource_version()
    };
    fifo.replace(objects("a@1 b@2"), "4");
    fifo.bookmark("8");
    assert_eq!(fifo.known.resource_version(), "");
    assert_eq!([pop(), pop()], ["1", "8"], "R-IX-9: an object's own, then the bookmark's");
    fifo.bookmark("9");
    assert_eq!(fifo.known.resource_version(), "9");
    assert_eq!(pop(), "9", "the end of the first list changes nothing");

    run(&fifo, "update a@10; update b@11");
    fifo.bookmark("12");
    run(&fifo, "update a@13");
    assert_eq!([pop(), pop()], ["13", "13"], "neither the older bookmark nor the older object");
    run(&fifo, "delete c@14");
    assert_eq!(fifo.known.resource_version(), "14", "a deletion of what nobody knows is progress too");
    fifo.close();
    fifo.bookmark("15");
    assert_eq!(fifo.known.resource_version(), "14", "what came before it was not taken in");
}
