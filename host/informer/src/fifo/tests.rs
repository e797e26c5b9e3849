//! The plain queue: client-go's own cases, the account of the first list, and both parts against models.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt as _;
use proptest::prelude::*;

use super::*;

type Queue = Fifo<&'static str, u32>;

/// Pops one key, if one waits.
fn pop(fifo: &Queue) -> Option<(&'static str, u32)> {
    match fifo.try_pop(&mut |key, value| Processed::Done((key, value))) {
        Poll::Ready(popped) => popped,
        Poll::Pending => None,
    }
}

fn pop_and_requeue(fifo: &Queue) -> Poll<Option<u32>> {
    fifo.try_pop(&mut |_, value| Processed::Requeue(value, value))
}

fn drain(fifo: &Queue) -> Vec<(&'static str, u32)> {
    std::iter::from_fn(|| pop(fifo)).collect()
}

#[test]
fn a_newer_state_takes_the_place_of_the_one_that_waits() {
    let fifo = Queue::new();
    fifo.add("foo", 10);
    fifo.add("foo", 15);
    assert_eq!((fifo.len(), fifo.get(&"foo")), (1, Some(15)), "TestFIFO_addUpdate");
    assert_eq!(drain(&fifo), [("foo", 15)]);
    assert_eq!(fifo.get(&"foo"), None);
}

#[test]
fn a_list_takes_the_place_of_everything_that_waits() {
    let fifo = Queue::new();
    fifo.add("foo", 10);
    fifo.add("bar", 1);
    fifo.replace([("baz", 2), ("foo", 15), ("baz", 3)]);
    assert_eq!(drain(&fifo), [("baz", 3), ("foo", 15)], "TestFIFO_addReplace, and bar is dropped untold");
}

#[test]
fn nobody_jumps_the_line() {
    let fifo = Queue::new();
    for (key, value) in [("foo", 10), ("bar", 1), ("foo", 11), ("foo", 13), ("zab", 30)] {
        fifo.add(key, value);
    }
    assert_eq!(pop(&fifo), Some(("foo", 13)), "TestFIFO_detectLineJumpers");
    fifo.add("foo", 14);
    assert_eq!(fifo.keys(), ["bar", "zab", "foo"]);
    assert_eq!(drain(&fifo), [("bar", 1), ("zab", 30), ("foo", 14)]);
}

#[test]
fn a_deleted_key_is_passed_over_and_joins_at_the_tail_when_it_comes_again() {
    let fifo = Queue::new();
    fifo.add("foo", 1);
    fifo.add("bar", 2);
    assert_eq!(fifo.delete(&"foo"), Some(1));
    assert_eq!(fifo.delete(&"foo"), None);
    fifo.add("foo", 3);
    assert_eq!(drain(&fifo), [("bar", 2), ("foo", 3)]);
}

#[test]
fn what_failed_goes_to_the_tail_unless_something_newer_waits() {
    let fifo = Queue::new();
    fifo.add("foo", 1);
    fifo.add("bar", 2);
    assert_eq!(pop_and_requeue(&fifo), Poll::Ready(Some(1)));
    assert_eq!(fifo.keys(), ["bar", "foo"]);
    assert_eq!(pop(&fifo), Some(("bar", 2)));
    fifo.add("bar", 7);
    assert!(!fifo.add_if_not_present("bar", 2), "an older state never takes the place of a newer one");
    assert!(fifo.add_if_not_present("zab", 3));
    assert_eq!(drain(&fifo), [("foo", 1), ("bar", 7), ("zab", 3)]);
}

#[test]
fn it_is_synced_once_the_first_list_is_processed() {
    type Script = fn(&Queue);
    let cases: [(Script, bool); 10] = [
        (|_| {}, false),
        (|fifo| fifo.add("a", 1), true),
        (|fifo| fifo.replace([]), true),
        (|fifo| fifo.replace([("a", 1), ("b", 2)]), false),
        (
            |fifo| {
                fifo.replace([("a", 1), ("b", 2)]);
                pop(fifo);
            },
            false,
        ),
        (
            |fifo| {
                fifo.replace([("a", 1), ("b", 2)]);
                drain(fifo);
            },
            true,
        ),
        (
            |fifo| {
                fifo.replace([("a", 1)]);
                fifo.add("b", 2);
                let _ = pop_and_requeue(fifo);
                pop(fifo);
            },
            false,
        ),
        (
            |fifo| {
                fifo.replace([("a", 1)]);
                fifo.delete(&"a");
            },
            true,
        ),
        (
            |fifo| {
                fifo.replace([("a", 1), ("b", 2)]);
                fifo.replace([("b", 3), ("c", 4)]);
                pop(fifo);
            },
            true,
        ),
        (
            |fifo| {
                fifo.replace([("a", 1), ("b", 2)]);
                fifo.replace([("b", 3), ("c", 4)]);
            },
            false,
        ),
    ];
    for (at, (script, synced)) in cases.into_iter().enumerate() {
        let fifo = Queue::new();
        script(&fifo);
        assert_eq!(fifo.has_synced(), synced, "TestFIFO_HasSynced and ours, case {at}");
    }
}

#[tokio::test]
async fn each_producers_values_come_in_its_order() {
    let fifo = Arc::new(Fifo::new());
    let producers = [("a", 0..500_u32), ("b", 500..1000)].map(|(name, values)| {
        let fifo = fifo.clone();
        tokio::spawn(async move {
            for value in values {
                fifo.add((name, value), value);
                tokio::task::yield_now().await;
            }
        })
    });
    let mut seen = [Vec::new(), Vec::new()];
    for _ in 0..1000 {
        let popped = fifo.pop(|_, value| Processed::Done(value)).await.expect("a value");
        seen[usize::from(popped >= 500)].push(popped);
    }
    assert!(seen.iter().all(|values| values.len() == 500 && values.is_sorted()), "TestFIFO_basic");
    for producer in producers {
        producer.await.expect("a producer");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_lets_every_popper_go_and_turns_producers_away() {
    let fifo = Arc::new(Queue::new());
    let poppers: Vec<_> = (0..10)
        .map(|_| {
            let fifo = fifo.clone();
            tokio::spawn(async move { fifo.pop(|key, _| Processed::Done(key)).await })
        })
        .collect();
    tokio::task::yield_now().await;
    fifo.close();
    for popper in poppers {
        assert_eq!(popper.await.expect("a popper"), None, "TestFIFO_PopShouldUnblockWhenClosed");
    }
    fifo.add("a", 1);
    assert!(!fifo.add_if_not_present("a", 1));
    fifo.replace([("a", 1)]);
    assert!(fifo.is_empty());
}

#[test]
fn a_closed_queue_is_drained_and_takes_nothing_back() {
    let fifo = Queue::new();
    fifo.add("a", 1);
    fifo.close();
    assert_eq!(pop_and_requeue(&fifo), Poll::Ready(Some(1)));
    assert_eq!(pop_and_requeue(&fifo), Poll::Ready(None));
}

#[test]
fn one_word_reaches_every_popper_whom_it_concerns() {
    let fifo = Queue::new();
    let mut poppers = [0; 3].map(|_| Box::pin(fifo.pop(|key, _| Processed::Done(key))));
    assert!(poppers.iter_mut().all(|popper| popper.as_mut().now_or_never().is_none()));
    fifo.replace([("a", 1), ("b", 2), ("c", 3)]);
    let popped = poppers.map(|popper| popper.now_or_never().flatten());
    assert_eq!(popped, [Some("a"), Some("b"), Some("c")]);
}

#[test]
fn places_of_removed_keys_go_also_when_only_pops_follow() {
    let mut latest = Latest::new();
    for key in 0..100 {
        latest.insert(key, ());
    }
    for key in 100..232 {
        latest.insert(key, ());
        latest.remove(&key);
    }
    assert_eq!((latest.len(), latest.places()), (100, 232), "borne so far");
    while latest.len() > 1 {
        latest.pop();
    }
    assert!(latest.places() <= 34, "{}", latest.places());
}

#[derive(Debug, Clone)]
enum Op {
    Insert(u8),
    InsertIfAbsent(u8),
    Remove(u8),
    Pop,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..60_u8).prop_map(Op::Insert),
        1 => (0..60_u8).prop_map(Op::InsertIfAbsent),
        2 => (0..60_u8).prop_map(Op::Remove),
        1 => Just(Op::Pop),
    ]
}

proptest! {
    #[test]
    fn latest_is_a_list_without_repeated_keys(ops in prop::collection::vec(op(), 0..600)) {
        let mut latest = Latest::new();
        let mut model: Vec<(u8, usize)> = Vec::new();
        for (value, op) in ops.into_iter().enumerate() {
            match op {
                Op::Insert(key) => {
                    let waiting = model.iter_mut().find(|(other, _)| *other == key);
                    let want = waiting.map(|(_, old)| std::mem::replace(old, value));
                    if want.is_none() {
                        model.push((key, value));
                    }
                    prop_assert_eq!(latest.insert(key, value), want);
                }
                Op::InsertIfAbsent(key) => {
                    let absent = model.iter().all(|(other, _)| *other != key);
                    if absent {
                        model.push((key, value));
                    }
                    prop_assert_eq!(latest.insert_if_absent(key, value), absent);
                }
                Op::Remove(key) => {
                    let at = model.iter().position(|(other, _)| *other == key);
                    prop_assert_eq!(latest.remove(&key), at.map(|at| model.remove(at).1));
                }
                Op::Pop => {
                    let want = (!model.is_empty()).then(|| model.remove(0));
                    prop_assert_eq!(latest.pop(), want);
                }
            }
            prop_assert_eq!(latest.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>(), model.clone());
            prop_assert_eq!(latest.len(), model.len());
            prop_assert!(latest.places() <= 2 * model.len() + 32, "places of removed keys pile up");
        }
    }

    #[test]
    fn every_key_is_popped_once_with_its_newest_state_and_then_it_is_synced(
        first in prop::collection::vec((0..6_u8, any::<u32>()), 0..6),
        ops in prop::collection::vec((0..6_u8, prop::option::of(any::<u32>())), 0..30),
    ) {
        let fifo = Fifo::new();
        let mut newest = std::collections::BTreeMap::new();
        let mut initial: BTreeSet<u8> = first.iter().map(|(key, _)| *key).collect();
        newest.extend(first.iter().copied());
        fifo.replace(first);
        for (key, value) in ops {
            match value {
                Some(value) => {
                    newest.insert(key, value);
                    fifo.add(key, value);
                }
                None => {
                    initial.remove(&key);
                    prop_assert_eq!(fifo.delete(&key), newest.remove(&key));
                }
            }
            prop_assert_eq!(fifo.has_synced(), initial.is_empty());
        }
        while let Poll::Ready(Some((key, value))) = fifo.try_pop(&mut |k, v| Processed::Done((k, v))) {
            prop_assert_eq!(newest.remove(&key), Some(value));
            initial.remove(&key);
            prop_assert_eq!(fifo.has_synced(), initial.is_empty());
        }
        prop_assert!(newest.is_empty());
    }
}
