//! What a queue says of itself.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_key_waits_from_its_first_delta_until_it_is_popped() {
    let fifo = fifo("");
    fifo.replace(Vec::new(), "0");
    assert_eq!(fifo.pop(|popped| popped).await, Some(Popped::Synced));
    assert_eq!(fifo.stats(), DeltaFifoStats::default(), "what is not a key is not counted");
    let second = Duration::from_secs(1);
    fifo.add(object("n/a", "u", "1")).await;
    tokio::time::advance(second).await;
    fifo.add(object("n/b", "u", "2")).await;
    fifo.update(object("n/a", "u", "3")).await;
    tokio::time::advance(second).await;
    let waiting = DeltaFifoStats { depth: 3, oldest: Some(2 * second), taken: 0, waited: Duration::ZERO };
    assert_eq!(fifo.stats(), waiting);
    // It goes to the tail, and waits anew.
    let again = |popped| match popped {
        Popped::Deltas { deltas, .. } => Processed::Requeue((), deltas),
        Popped::Synced => Processed::Done(()),
    };
    fifo.pop_or_requeue(again).await;
    let put_back = fifo.stats();
    assert_eq!((put_back.oldest, put_back.taken), (Some(second), 1), "b is the oldest now");
    assert_eq!(put_back.waited, 2 * second);
    while fifo.stats().depth > 0 {
        fifo.pop(|_| ()).await;
    }
    assert_eq!(fifo.stats(), DeltaFifoStats { depth: 0, oldest: None, taken: 3, waited: 3 * second });
}
