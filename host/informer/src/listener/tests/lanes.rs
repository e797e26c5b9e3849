//! Several handlers, as many lanes: which key goes where, who waits for whom, swaps between all of them.

use super::*;
use crate::handler::Threaded;
use crate::queue::{EntryKey, Queue};

/// Two keys of the first registration, in different lanes of two.
pub(super) fn two_keys() -> (String, String) {
    let mut queue = Queue::new(10, Merge::All);
    queue.set_lanes(2);
    let lane = |name: &str| queue.lane_of(&EntryKey { registration: 0, object: ObjectKey::new("n", name) });
    let names: Vec<String> = (0..64).map(|number| format!("k{number}")).collect();
    let find = |wanted| names.iter().find(|name| lane(name) == wanted).expect("a key of the lane").clone();
    (format!("n/{}", find(0)), format!("n/{}", find(1)))
}

#[tokio::test(start_paused = true)]
async fn a_slow_lane_holds_only_its_own_keys() {
    let (slow, quick) = two_keys();
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    synced(&pods);
    let (handlers, gates): (Vec<_>, Vec<_>) = (0..2).map(|_| gated(&told)).unzip();
    let task = start(&listener, handlers, &pods);
    gates[1].add_permits(100);
    idle().await;
    for version in 1..=3 {
        put(&pods, &slow, "u", version);
        put(&pods, &quick, "u", version);
    }
    idle().await;
    let first = format!("add {slow} 1");
    assert_eq!(lines(&told).iter().filter(|line| line.contains(&slow)).collect::<Vec<_>>(), [&first]);
    assert_eq!(lines(&told).iter().filter(|line| line.contains(&quick)).count(), 3, "{:?}", lines(&told));
    assert_eq!((listener.stats().in_flight, listener.stats().pending), (1, 3));
    gates[0].add_permits(3);
    idle().await;
    let of_slow: Vec<String> = lines(&told).into_iter().filter(|line| line.contains(&slow)).collect();
    assert_eq!(of_slow, [first, format!("update {slow} 1->2"), format!("update {slow} 2->3")]);
    listener.drain();
    assert_eq!(task.await.expect("it ends"), Ended::Drained { abandoned: 0 });
}

#[tokio::test(start_paused = true)]
async fn the_cursor_feeds_an_idle_lane_while_another_is_stuck() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    for number in 0..500 {
        put(&pods, &format!("n/{number:03}"), "u", 1);
    }
    synced(&pods);
    let (handlers, gates): (Vec<_>, Vec<_>) = (0..2).map(|_| gated(&told)).unzip();
    start(&listener, handlers, &pods);
    gates[1].add_permits(500);
    for _ in 0..20 {
        idle().await;
    }
    let stats = listener.stats();
    assert_eq!(stats.in_flight, 1, "the stuck one");
    assert_eq!(
        lines(&told).len() + stats.pending,
        501,
        "every object has been read; the stuck one is in both"
    );
    assert!(stats.pending < 400, "{stats:?}: the other lane has its share");
    gates[0].add_permits(500);
    assert!(listener.synced().await);
    assert_eq!(lines(&told).len(), 500);
}

#[tokio::test(start_paused = true)]
async fn a_swap_waits_for_every_lane_and_may_change_their_number() {
    let (slow, quick) = two_keys();
    let (told, after, listener, pods) = (Told::default(), Told::default(), listener(), informer("Pod"));
    synced(&pods);
    let (handlers, gates): (Vec<_>, Vec<_>) = (0..2).map(|_| gated(&told)).unzip();
    start(&listener, handlers, &pods);
    gates[1].add_permits(100);
    idle().await;
    put(&pods, &slow, "u", 1);
    put(&pods, &quick, "u", 1);
    idle().await;
    put(&pods, &slow, "u", 2);
    let asks = listener.clone();
    let next = vec![subscription("pods", 0, &pods)];
    let handler = recorder(2, &after);
    let swap = tokio::spawn(async move { asks.swap(Swap::new(vec![handler], next, OnSwap::Continue)).await });
    idle().await;
    put(&pods, &quick, "u", 2);
    idle().await;
    assert!(!swap.is_finished(), "a lane has a delivery");
    assert_eq!(lines(&told).len(), 2, "and the idle one begins nothing new");
    gates[0].add_permits(1);
    let report = swap.await.expect("the task").expect("it swapped");
    assert_eq!(counts(&report), (1, 0, 0, 0));
    idle().await;
    assert_eq!(lines(&after), [format!("update {slow} 1->2"), format!("update {quick} 1->2")]);
    let none = listener.swap(Swap::new(vec![], vec![], OnSwap::Continue));
    assert!(none.await.is_none(), "no handlers, no swap");
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_every_lane() {
    let (one, other) = two_keys();
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    synced(&pods);
    let (handlers, gates): (Vec<_>, Vec<_>) = (0..2).map(|_| gated(&told)).unzip();
    let task = start(&listener, handlers, &pods);
    idle().await;
    for key in [&one, &other] {
        put(&pods, key, "u", 1);
        idle().await;
        put(&pods, key, "u", 2);
    }
    listener.close();
    gates[1].add_permits(9);
    idle().await;
    assert!(!task.is_finished());
    gates[0].add_permits(9);
    assert_eq!(
        task.await.expect("it ends"),
        Ended::Closed { abandoned: 2 },
        "R-PL-7: what is queued is dropped"
    );
    assert_eq!(lines(&told), [format!("add {one} 1"), format!("add {other} 1")]);
}

#[tokio::test]
async fn threaded_lanes_work_at_the_same_time() {
    /// Blocks its thread until the other lane's handler has been called too.
    struct Meets(Arc<std::sync::Barrier>);
    impl EventHandler for Meets {
        fn handle<'a>(&'a mut self, _: &'a Delivery) -> HandleFuture<'a> {
            Box::pin(async move {
                self.0.wait();
                Outcome::Ok
            })
        }
    }
    let (one, other) = two_keys();
    let (listener, pods) = (listener(), informer("Pod"));
    put(&pods, &one, "u", 1);
    put(&pods, &other, "u", 1);
    synced(&pods);
    let barrier = Arc::new(std::sync::Barrier::new(2));
    let meets = || -> Box<dyn EventHandler> {
        Box::new(Threaded::spawn("lane", Box::new(Meets(barrier.clone()))).expect("a thread"))
    };
    let task = start(&listener, vec![meets(), meets()], &pods);
    assert!(listener.synced().await, "neither lane waited for the other to be done");
    listener.close();
    assert_eq!(task.await.expect("it ends"), Ended::Closed { abandoned: 0 });
}

#[tokio::test]
async fn a_listener_without_handlers_ends_and_one_runs_once() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    synced(&pods);
    let task = start(&listener, vec![recorder(1, &told)], &pods);
    assert!(listener.synced().await);
    // R-SI-1: run twice.
    assert_eq!(listener.run(vec![recorder(2, &told)], vec![]).await, Ended::Closed { abandoned: 0 });
    assert!(listener.has_synced(), "the first goes on");
    listener.close();
    task.await.expect("it ends");
    let none = super::listener();
    assert_eq!(none.run(vec![], vec![]).await, Ended::Closed { abandoned: 0 });
    assert!(!none.synced().await);
}
