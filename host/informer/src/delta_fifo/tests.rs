mod stats;

use super::*;
use crate::testing::object;

fn fifo(known: &[Arc<Object>]) -> DeltaFifo {
    let indexer = Arc::new(Indexer::new());
    for object in known {
        indexer.upsert(object.clone());
    }
    DeltaFifo::new(DEFAULT_CAPACITY, indexer)
}

/// Pops everything that is queued: `key: Kind@version …`, a tombstone marked with `?`.
fn drain(fifo: &DeltaFifo) -> Vec<String> {
    fifo.close();
    let mut seen = Vec::new();
    let popping = async {
        while let Some(line) = fifo
            .pop(|popped| match popped {
                Popped::Synced => "synced".to_owned(),
                Popped::Deltas { key, deltas, .. } => {
                    let deltas: Vec<String> = deltas
                        .iter()
                        .map(|delta| {
                            let unknown = if delta.final_state_unknown { "?" } else { "" };
                            format!("{:?}@{}{unknown}", delta.kind, delta.object.resource_version())
                        })
                        .collect();
                    format!("{key}: {}", deltas.join(" "))
                }
            })
            .await
        {
            seen.push(line);
        }
    };
    now(popping);
    seen
}

/// Runs a future that never has to wait for another task.
fn now<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

#[test]
fn deltas_of_a_key_stay_together_and_keys_keep_their_first_place() {
    let fifo = fifo(&[]);
    fifo.replace(vec![], "1");
    now(async {
        fifo.add(object("foo", "u", "10")).await;
        fifo.add(object("bar", "u", "1")).await;
        fifo.update(object("foo", "u", "12")).await;
        fifo.delete(object("foo", "u", "15")).await;
    });
    assert_eq!(drain(&fifo), ["synced", "foo: Added@10 Updated@12 Deleted@15", "bar: Added@1"]);
}

#[test]
fn deleting_what_is_neither_queued_nor_known_is_ignored() {
    let fifo = fifo(&[object("baz", "u", "7")]);
    now(async {
        fifo.delete(object("qux", "u", "20")).await;
        fifo.delete(object("baz", "u", "20")).await;
    });
    assert_eq!(drain(&fifo), ["synced", "baz: Deleted@20"]);
}

#[test]
fn replace_deletes_what_only_the_cache_or_only_the_queue_has() {
    // Cases (1) to (5) of client-go's TestDeltaFIFO_ReplaceMakesDeletions, with Replaced for Sync.
    let known = || [object("foo", "u", "5"), object("bar", "u", "6"), object("baz", "u", "7")];
    let first = fifo(&known());
    now(first.delete(object("baz", "u", "10")));
    first.replace(vec![object("foo", "u", "5")], "11");
    assert_eq!(drain(&first), ["synced", "baz: Deleted@10", "foo: Replaced@5", "bar: Deleted@6?"]);

    let second = fifo(&known());
    now(second.add(object("baz", "u", "10")));
    second.replace(vec![object("foo", "u", "5")], "11");
    assert_eq!(drain(&second), ["synced", "baz: Added@10 Deleted@10?", "foo: Replaced@5", "bar: Deleted@6?"]);

    let third = fifo(&known());
    now(async {
        third.delete(object("bar", "u", "6")).await;
        third.add(object("bar", "u", "100")).await;
    });
    third.replace(vec![object("foo", "u", "5")], "101");
    assert_eq!(
        drain(&third),
        ["synced", "bar: Deleted@6 Added@100 Deleted@100?", "foo: Replaced@5", "baz: Deleted@7?"]
    );

    let fifth = fifo(&[]);
    now(fifth.add(object("baz", "u", "10")));
    fifth.replace(vec![object("foo", "u", "5")], "11");
    assert_eq!(drain(&fifth), ["synced", "baz: Added@10 Deleted@10?", "foo: Replaced@5"]);
}

#[test]
fn a_delete_before_a_relist_that_has_the_object_again_is_kept() {
    // client-go's TestDeltaFIFO_replaceWithDeleteDeltaIn (kubernetes#83810).
    let fifo = fifo(&[object("foo", "u", "1")]);
    now(fifo.delete(object("foo", "u", "1")));
    fifo.replace(vec![object("foo", "v", "2")], "2");
    assert_eq!(drain(&fifo), ["synced", "foo: Deleted@1 Replaced@2"]);
}

#[test]
fn resync_takes_known_objects_that_are_not_queued() {
    let fifo = fifo(&[object("foo", "u", "5"), object("bar", "u", "5")]);
    now(fifo.update(object("foo", "u", "6")));
    fifo.resync();
    assert_eq!(drain(&fifo), ["synced", "foo: Updated@6", "bar: Sync@5"]);
}

#[test]
fn synced_comes_after_the_whole_first_list_and_once() {
    let fifo = fifo(&[object("bar", "u", "5")]);
    assert!(!fifo.has_synced());
    fifo.replace(vec![object("foo", "u", "5")], "5");
    assert!(!fifo.has_synced());
    fifo.replace(vec![object("foo", "u", "5")], "6");
    assert_eq!(
        drain(&fifo),
        ["foo: Replaced@5 Replaced@5", "bar: Deleted@5?", "synced"],
        "two deletions of one key by relists are one"
    );
    assert!(fifo.has_synced());
}

#[test]
fn an_empty_first_list_is_synced_at_once() {
    let fifo = fifo(&[]);
    fifo.replace(vec![], "3");
    assert!(fifo.has_synced());
    assert_eq!(drain(&fifo), ["synced"]);
}

#[tokio::test]
async fn the_producer_is_held_back_at_the_bound() {
    let fifo = DeltaFifo::new(1, Arc::new(Indexer::new()));
    fifo.add(object("a", "u", "1")).await;
    let second = fifo.add(object("b", "u", "2"));
    tokio::pin!(second);
    tokio::select! {
        biased;
        () = &mut second => panic!("went over the bound"),
        () = tokio::task::yield_now() => {}
    }
    assert_eq!(fifo.pop(|popped| popped).await, Some(Popped::Synced));
    assert!(matches!(fifo.pop(|popped| popped).await, Some(Popped::Deltas { .. })));
    second.await;
    assert_eq!(fifo.depth(), 1);
}

#[tokio::test]
async fn the_cache_version_follows_the_order_of_arrival_once_nothing_waits() {
    let known = Arc::new(Indexer::new());
    let fifo = DeltaFifo::new(9, known.clone());
    let pop = async || {
        let store = |popped| match popped {
            Popped::Deltas { deltas, .. } => {
                deltas.into_iter().for_each(|delta| drop(known.upsert(delta.object)));
            }
            Popped::Synced => {}
        };
        fifo.pop(store).await.expect("an item");
        known.resource_version()
    };
    fifo.replace(vec![object("a", "u", "1"), object("b", "u", "2")], "4");
    fifo.bookmark("8");
    assert_eq!(known.resource_version(), "");
    assert_eq!([pop().await, pop().await], ["1", "8"], "R-IX-9: an object's own, then the bookmark's");
    fifo.bookmark("9");
    assert_eq!(known.resource_version(), "9");
    assert_eq!(pop().await, "9", "the end of the first list changes nothing");

    fifo.update(object("a", "u", "10")).await;
    fifo.update(object("b", "u", "11")).await;
    fifo.bookmark("12");
    fifo.update(object("a", "u", "13")).await;
    assert_eq!([pop().await, pop().await], ["13", "13"], "neither the older bookmark nor the older object");
    fifo.delete(object("c", "u", "14")).await;
    assert_eq!(known.resource_version(), "14", "a deletion of what nobody knows is progress too");
}
