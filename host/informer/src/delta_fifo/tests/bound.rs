//! Back-pressure: who is held back, by how much, and who lets him go.

use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::timeout;

use super::*;

fn bounded(capacity: usize) -> DeltaFifo {
    with_options(DeltaFifoOptions { capacity, ..DeltaFifoOptions::default() }, "")
}

#[test]
fn the_producer_is_held_back_at_the_bound_and_let_go_by_a_pop() {
    let fifo = bounded(2);
    run(&fifo, "add a@1; update a@2");
    let mut third = Box::pin(fifo.add(at("b@1")));
    assert_eq!(third.as_mut().now_or_never(), None, "7.12 no. 9: at our bound, not at 2000 deltas");
    assert_eq!(pop(&fifo), Some(Popped::Synced));
    assert_eq!(third.as_mut().now_or_never(), None, "that made no room");
    assert!(pop(&fifo).is_some());
    assert_eq!(third.now_or_never(), Some(()));
    assert_eq!(fifo.depth(), 1);
}

#[test]
fn a_bound_of_nothing_is_one() {
    let fifo = bounded(0);
    assert_eq!(fifo.add(at("a@1")).now_or_never(), Some(()));
    assert_eq!(fifo.add(at("b@1")).now_or_never(), None);
}

#[tokio::test(start_paused = true)]
async fn a_list_far_above_the_bound_and_a_producer_behind_it_both_get_through() {
    let fifo = bounded(4);
    let produce = async {
        let list: Vec<String> = (0..1000).map(|at| format!("o{at}@1")).collect();
        fifo.replace(objects(&list.join(" ")), "1");
        fifo.resync();
        for at_most in 0..1000 {
            fifo.update(at(&format!("o{at_most}@2"))).await;
        }
        fifo.replace(vec![], "3");
        fifo.close();
    };
    let consume = async {
        let (mut deltas, mut deepest) = (0, 0);
        while let Some(popped) = fifo.pop(|popped| popped).await {
            if let Popped::Deltas { deltas: some, .. } = popped {
                deltas += some.len();
            }
            deepest = deepest.max(fifo.depth());
            tokio::task::yield_now().await;
        }
        (deltas, deepest)
    };
    let both = async { tokio::join!(produce, consume) };
    let ((), (deltas, deepest)) = timeout(Duration::from_secs(1), both).await.expect("no deadlock");
    assert!(
        (2000..=2000 + 4).contains(&deltas),
        "each state, and a tombstone for what still waited: {deltas}"
    );
    assert_eq!(deepest, 999, "the list itself is not held back");
}

#[test]
fn closing_lets_every_producer_and_popper_go() {
    let fifo = bounded(1);
    let mut poppers: Vec<_> = (0..10).map(|_| Box::pin(fifo.pop(|popped| popped))).collect();
    assert!(poppers.iter_mut().all(|popper| popper.as_mut().now_or_never().is_none()));
    fifo.close();
    for popper in poppers {
        assert_eq!(popper.now_or_never(), Some(None), "TestDeltaFIFO_PopShouldUnblockWhenClosed");
    }

    let fifo = bounded(1);
    run(&fifo, "add a@1");
    let mut producers: Vec<_> = (0..10).map(|_| Box::pin(fifo.add(at("b@1")))).collect();
    assert!(producers.iter_mut().all(|producer| producer.as_mut().now_or_never().is_none()));
    fifo.close();
    assert!(producers.into_iter().all(|producer| producer.now_or_never() == Some(())));
    assert_eq!(drain(&fifo), ["a: Added@1"]);
}

#[test]
fn a_process_function_that_panics_lets_the_producer_go() {
    let fifo = bounded(1);
    run(&fifo, "add a@1");
    assert_eq!(pop(&fifo), Some(Popped::Synced));
    let mut producer = Box::pin(fifo.add(at("b@1")));
    assert_eq!(producer.as_mut().now_or_never(), None);
    let panicking = std::panic::AssertUnwindSafe(fifo.pop(|_| panic!("on purpose"))).catch_unwind();
    assert!(panicking.now_or_never().is_some_and(|popped: Result<Option<()>, _>| popped.is_err()));
    assert_eq!(producer.now_or_never(), Some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_producers_states_come_in_its_order() {
    let fifo = Arc::new(bounded(3));
    let producers = ["a", "b"].map(|name| {
        let fifo = fifo.clone();
        tokio::spawn(async move {
            for version in 0..500 {
                fifo.update(at(&format!("{name}@{version}"))).await;
            }
        })
    });
    let mut seen = [Vec::new(), Vec::new()];
    while seen.iter().map(Vec::len).sum::<usize>() < 1000 {
        let Some(Popped::Deltas { key, deltas, .. }) = fifo.pop(|popped| popped).await else { continue };
        let versions =
            deltas.iter().map(|delta| delta.object.resource_version().parse::<u32>().expect("a number"));
        seen[usize::from(key.name() == "b")].extend(versions);
    }
    for producer in producers {
        producer.await.expect("a producer");
    }
    assert!(seen.iter().all(|versions| versions.iter().copied().eq(0..500)), "TestDeltaFIFO_basic");
}
