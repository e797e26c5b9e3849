//! When handlers are told that a subscription has synced, and what may come before and after.

use super::*;
use crate::handler::AsideFuture;

type Log = Arc<StdMutex<Vec<String>>>;

/// Says what it is told, each line with its lane; waits for a permit before it is done with an event, or with a sync.
struct Told {
    lane: usize,
    log: Log,
    gate: Arc<tokio::sync::Semaphore>,
    asks: Listener,
}

impl Told {
    async fn tell(&self, what: String) {
        let lane = self.lane;
        self.log.lock().expect("log").push(format!("{lane} {what}"));
        self.gate.acquire().await.expect("the gate stays").forget();
    }
}

impl EventHandler for Told {
    fn handle<'a>(&'a mut self, delivery: &'a Delivery) -> HandleFuture<'a> {
        Box::pin(async move {
            self.tell(format!("{} {}", delivery.event.op(), delivery.event.key())).await;
            if delivery.event.key().name() == "bad" { Outcome::Trap("bad".into()) } else { Outcome::Ok }
        })
    }

    fn synced<'a>(&'a mut self, subscription: u32) -> AsideFuture<'a, ()> {
        Box::pin(async move {
            assert_eq!(self.asks.stats().in_flight, 0, "nothing else is under way");
            self.tell(format!("synced {subscription}")).await;
        })
    }
}

#[derive(Clone)]
struct Case {
    log: Log,
    listener: Listener,
    gate: Arc<tokio::sync::Semaphore>,
}

impl Case {
    fn new(config: ListenerConfig, permits: usize) -> Self {
        let gate = no_permits();
        gate.add_permits(permits);
        Self { log: Log::default(), listener: Listener::new(config, Arc::new(())), gate }
    }

    fn handlers(&self, lanes: usize) -> Vec<Box<dyn EventHandler>> {
        let handler = |lane| -> Box<dyn EventHandler> {
            let (log, gate) = (self.log.clone(), self.gate.clone());
            Box::new(Told { lane, log, gate, asks: self.listener.clone() })
        };
        (0..lanes).map(handler).collect()
    }

    fn run(&self, lanes: usize, joined: Vec<Subscription>) -> tokio::task::JoinHandle<Ended> {
        let (running, handlers) = (self.listener.clone(), self.handlers(lanes));
        tokio::spawn(async move { running.run(handlers, joined).await })
    }

    async fn said(&self) -> Vec<String> {
        idle().await;
        std::mem::take(&mut *self.log.lock().expect("log"))
    }
}

fn no_permits() -> Arc<tokio::sync::Semaphore> {
    Arc::new(tokio::sync::Semaphore::new(0))
}

const MANY: usize = 1000;

#[tokio::test(start_paused = true)]
async fn it_comes_after_the_last_initial_add_of_every_lane_and_before_what_that_held_up() {
    let (slow, quick) = super::lanes::two_keys();
    let (case, pods) = (Case::new(ListenerConfig::default(), 0), informer("Pod"));
    put(&pods, &slow, "u", 1);
    put(&pods, &quick, "u", 1);
    synced(&pods);
    let (mut handlers, other) = (case.handlers(2), Case { gate: no_permits(), ..case.clone() });
    handlers[0] = other.handlers(1).remove(0);
    let (running, joined) = (case.listener.clone(), vec![subscription("pods", 7, &pods)]);
    tokio::spawn(async move { running.run(handlers, joined).await });
    idle().await;
    put(&pods, &slow, "u", 2);
    put(&pods, &quick, "u", 2);
    case.gate.add_permits(2);
    let add = |lane, key| format!("{lane} add {key}");
    assert_eq!(case.said().await, [add(0, &slow), add(1, &quick), format!("1 update {quick}")], "it goes on");
    other.gate.add_permits(1);
    assert_eq!(case.said().await, ["0 synced 7", "1 synced 7"]);
    put(&pods, &quick, "u", 3);
    case.gate.add_permits(MANY);
    assert_eq!(case.said().await, [""; 0], "nothing is begun before all have been told");
    other.gate.add_permits(MANY);
    assert_eq!(case.said().await, [format!("0 update {slow}"), format!("1 update {quick}")]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_subscription_is_told_of_too_and_each_by_its_number() {
    let case = Case::new(ListenerConfig::default(), MANY);
    let (pods, nodes, maps) = (informer("Pod"), informer("Node"), informer("ConfigMap"));
    put(&nodes, "x", "u", 1);
    synced(&pods);
    synced(&nodes);
    let joined = vec![
        subscription("pods", 0, &pods),
        subscription("nodes", 1, &nodes),
        // Two informers of one subscription.
        subscription("all", 2, &nodes),
        subscription("all", 2, &maps),
    ];
    maps.core().with(|processor, _| processor.set_excused(true));
    case.run(1, joined);
    assert_eq!(
        case.said().await,
        ["0 synced 0", "0 add x", "0 synced 1", "0 add x"],
        "one part is forbidden"
    );
    synced(&maps);
    assert_eq!(case.said().await, ["0 synced 2"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_while_the_first_list_of_another_is_awaited() {
    let case = Case::new(ListenerConfig::default(), MANY);
    let (pods, nodes) = (informer("Pod"), informer("Node"));
    synced(&pods);
    case.run(1, vec![subscription("pods", 0, &pods), subscription("nodes", 1, &nodes)]);
    assert_eq!(case.said().await, [""; 0]);
    synced(&nodes);
    assert_eq!(case.said().await, ["0 synced 0", "0 synced 1"]);
}

#[tokio::test(start_paused = true)]
async fn what_has_synced_by_a_swap_is_told_once_the_first_list_of_what_that_adds_is_there() {
    let (case, pods, nodes) = (Case::new(ListenerConfig::default(), 0), informer("Pod"), informer("Node"));
    put(&pods, "n/a", "u", 1);
    synced(&pods);
    case.run(1, vec![subscription("pods", 0, &pods)]);
    assert_eq!(case.said().await, ["0 add n/a"]);
    let joined = vec![subscription("pods", 0, &pods), subscription("nodes", 1, &nodes)];
    let swap = case.listener.swap(Swap::new(case.handlers(1), joined, OnSwap::Continue));
    case.gate.add_permits(MANY);
    swap.await.expect("it swapped");
    assert!(case.listener.subscription_has_synced("pods"));
    assert_eq!(case.said().await, [""; 0], "the cache would not answer for nodes");
    synced(&nodes);
    assert_eq!(case.said().await, ["0 synced 0", "0 synced 1"]);
}

#[tokio::test(start_paused = true)]
async fn it_is_told_again_after_a_replay_and_by_continue_only_if_it_was_not() {
    let (case, pods) = (Case::new(ListenerConfig::default(), MANY), informer("Pod"));
    put(&pods, "n/a", "u", 1);
    synced(&pods);
    case.run(1, vec![subscription("pods", 0, &pods)]);
    assert_eq!(case.said().await, ["0 add n/a", "0 synced 0"]);
    for (on_swap, want) in [(OnSwap::Continue, vec![]), (OnSwap::Replay, vec!["0 add n/a", "0 synced 3"])] {
        let swap = Swap::new(case.handlers(1), vec![subscription("pods", 3, &pods)], on_swap);
        case.listener.swap(swap).await.expect("it swapped");
        assert_eq!(case.said().await, want, "{on_swap:?}");
    }
    // The add of the new subscription is under way when handlers come that continue.
    let nodes = informer("Node");
    put(&nodes, "x", "u", 1);
    synced(&nodes);
    let joined = |number| vec![subscription("pods", 3, &pods), subscription("nodes", number, &nodes)];
    case.gate.forget_permits(MANY);
    case.listener.swap(Swap::new(case.handlers(1), joined(4), OnSwap::Continue)).await.expect("it swapped");
    assert_eq!(case.said().await, ["0 add x"]);
    let swap = case.listener.swap(Swap::new(case.handlers(1), joined(5), OnSwap::Continue));
    case.gate.add_permits(MANY);
    swap.await.expect("it swapped");
    assert_eq!(case.said().await, ["0 synced 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_replay_tells_it_again_and_one_without_does_not() {
    for (on_restart, want) in [(OnRestart::Replay, 2), (OnRestart::Continue, 1)] {
        let config = ListenerConfig { on_restart, max_attempts: 1, ..ListenerConfig::default() };
        let (case, pods) = (Case::new(config, MANY), informer("Pod"));
        put(&pods, "n/a", "u", 1);
        synced(&pods);
        case.run(1, vec![subscription("pods", 0, &pods)]);
        idle().await;
        put(&pods, "n/bad", "u", 2);
        let said = case.said().await;
        assert_eq!(
            said.iter().filter(|line| *line == "0 synced 0").count(),
            want,
            "{on_restart:?}: {said:?}"
        );
        assert_eq!(said.last().is_some_and(|line| line == "0 synced 0"), want == 2, "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_removed_before_is_not_told_of_and_a_removal_waits_while_it_is() {
    let (case, pods, nodes) = (Case::new(ListenerConfig::default(), 0), informer("Pod"), informer("Node"));
    put(&nodes, "x", "u", 1);
    synced(&pods);
    synced(&nodes);
    case.run(1, vec![subscription("pods", 0, &pods), subscription("nodes", 1, &nodes)]);
    assert_eq!(case.said().await, ["0 synced 0"]);
    assert_eq!(case.listener.stats().aside, Some(Aside::Synced));
    let waits = case.listener.clone();
    let removal = tokio::spawn(async move { waits.remove_and_wait("pods").await });
    idle().await;
    assert!(!removal.is_finished(), "its handler is told of it");
    case.gate.add_permits(1);
    removal.await.expect("the task").expect("not inside a handler");
    assert_eq!(case.said().await, ["0 add x"]);
    case.listener.remove("nodes");
    case.gate.add_permits(MANY);
    assert_eq!(case.said().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn it_comes_before_the_end_when_what_is_queued_is_finished_and_closing_waits_for_it() {
    let (case, pods) = (Case::new(ListenerConfig::default(), 0), informer("Pod"));
    put(&pods, "n/a", "u", 1);
    synced(&pods);
    let task = case.run(1, vec![subscription("pods", 0, &pods)]);
    assert_eq!(case.said().await, ["0 add n/a"]);
    case.listener.drain();
    case.gate.add_permits(1);
    assert_eq!(case.said().await, ["0 synced 0"]);
    case.listener.close();
    idle().await;
    assert!(!task.is_finished());
    case.gate.add_permits(1);
    assert_eq!(task.await.expect("it ends"), Ended::Closed { abandoned: 0 });
}
