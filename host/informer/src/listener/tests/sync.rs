//! When a listener, or one of its subscriptions, has synced: initial adds handled, not merely queued (R-EH-7).

use super::*;

#[tokio::test(start_paused = true)]
async fn synced_means_that_every_initial_add_was_handled() {
    // TestAddWhileActive, the first half: false before run, true later; while the handler is blocked, false.
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    put(&pods, "n/a", "u", 1);
    put(&pods, "n/b", "u", 1);
    assert!(!listener.has_synced(), "before run");
    let (handler, gate) = gated(&told);
    start(&listener, vec![handler], &pods);
    idle().await;
    assert!(!listener.has_synced(), "before the first list");
    synced(&pods);
    assert!(pods.has_synced(), "the informer has, its handler has not: kubernetes#136942");
    let waits = listener.clone();
    let waiter = tokio::spawn(async move { waits.synced().await });
    gate.add_permits(1);
    idle().await;
    assert_eq!(lines(&told).len(), 2);
    assert!(!listener.has_synced() && !waiter.is_finished(), "one is still being handled");
    assert!(!listener.subscription_has_synced("pods"));
    gate.add_permits(1);
    assert!(waiter.await.expect("the waiter"));
    assert!(listener.has_synced() && listener.subscription_has_synced("pods") && listener.stats().synced);
    put(&pods, "n/c", "u", 2);
    idle().await;
    assert!(listener.has_synced(), "once it has, it has");
}

#[tokio::test(start_paused = true)]
async fn an_empty_first_list_syncs_at_once() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    start(&listener, vec![recorder(1, &told)], &pods);
    synced(&pods);
    assert!(listener.synced().await);
    assert_eq!(lines(&told), [""; 0]);
}

/// What becomes of the one initial add, attempt by attempt.
#[tokio::test(start_paused = true)]
async fn an_initial_add_counts_until_it_is_done_given_up_or_gone() {
    let trap = || Outcome::Trap("boom".into());
    let cases: [(&str, Vec<Outcome>, usize); 4] = [
        ("done at once", vec![Outcome::Ok], 1),
        ("refused for good", vec![Outcome::Permanent("no".into())], 1),
        ("done at the third attempt", vec![retry(), retry(), Outcome::Ok], 3),
        ("given up", vec![trap(), trap(), trap()], 3),
    ];
    for (case, outcomes, attempts) in cases {
        let (told, pods) = (Told::default(), informer("Pod"));
        let config = ListenerConfig { max_attempts: 3, ..Default::default() };
        let listener = Listener::new(config, Arc::new(()));
        put(&pods, "n/a", "u", 1);
        synced(&pods);
        let (seen, mut outcomes) = (Arc::new(StdMutex::new(Vec::new())), outcomes.into_iter());
        let (asked, asks) = (seen.clone(), listener.clone());
        let handler = scripted(&told, move |_| {
            asked.lock().expect("seen").push(asks.has_synced());
            outcomes.next().expect("no more attempts than outcomes")
        });
        start(&listener, vec![handler], &pods);
        assert!(listener.synced().await, "{case}");
        assert_eq!(*seen.lock().expect("seen"), vec![false; attempts], "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_initial_add_that_is_cancelled_before_its_turn_holds_nobody_up() {
    let (told, pods) = (Told::default(), informer("Pod"));
    let config = ListenerConfig { merge: Merge::Latest, ..Default::default() };
    let listener = Listener::new(config, Arc::new(()));
    put(&pods, "n/a", "u", 1);
    put(&pods, "n/b", "u", 1);
    synced(&pods);
    let (handler, gate) = gated(&told);
    start(&listener, vec![handler], &pods);
    idle().await;
    remove(&pods, "n/b", "u", 2);
    gate.add_permits(1);
    assert!(listener.synced().await);
    assert_eq!(lines(&told), ["add n/a 1 initial"]);
    assert_eq!(listener.stats().merged, 1);
}

#[tokio::test(start_paused = true)]
async fn what_an_initial_add_was_merged_into_counts_in_its_place() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    put(&pods, "n/a", "u", 1);
    synced(&pods);
    let (source, asks, seen) = (pods.clone(), listener.clone(), Arc::new(StdMutex::new(Vec::new())));
    let asked = seen.clone();
    let handler = scripted(&told, move |delivery| {
        asked.lock().expect("seen").push((delivery.event.op(), asks.has_synced()));
        if delivery.event.op() == "add" {
            remove(&source, "n/a", "u", 2);
            return retry();
        }
        Outcome::Ok
    });
    start(&listener, vec![handler], &pods);
    assert!(listener.synced().await);
    assert_eq!(*seen.lock().expect("seen"), [("add", false), ("delete", false)]);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_subscription_holds_back_its_own_sync_only() {
    let (told, listener) = (Told::default(), listener());
    let (pods, nodes) = (informer("Pod"), informer("Node"));
    nodes.core().with(|processor, _| processor.set_excused(true));
    synced(&pods);
    let joined = vec![subscription("pods", 0, &pods), subscription("nodes", 1, &nodes)];
    let (running, handler) = (listener.clone(), recorder(1, &told));
    tokio::spawn(async move { running.run(vec![handler], joined).await });
    assert!(listener.synced().await);
    assert!(!listener.subscription_has_synced("nodes"));
    let waits = listener.clone();
    let waiter = tokio::spawn(async move { waits.subscription_synced("nodes").await });
    idle().await;
    assert!(!waiter.is_finished());
    nodes.core().with(|processor, _| processor.set_excused(false));
    idle().await;
    assert!(!listener.has_synced(), "it is to be waited for again");
    synced(&nodes);
    assert!(waiter.await.expect("the waiter"));
    assert!(listener.has_synced());
}

#[tokio::test(start_paused = true)]
async fn a_replay_begins_the_sync_anew_and_continue_does_not() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    put(&pods, "n/a", "u", 1);
    synced(&pods);
    start(&listener, vec![recorder(1, &told)], &pods);
    assert!(listener.synced().await);
    for (on_swap, synced_at_once) in [(OnSwap::Continue, true), (OnSwap::Replay, false)] {
        let (handler, gate) = gated(&told);
        let swapped = listener.swap(Swap::new(vec![handler], vec![subscription("pods", 0, &pods)], on_swap));
        swapped.await.expect("it swapped");
        assert_eq!(listener.has_synced(), synced_at_once, "{on_swap:?}");
        gate.add_permits(1);
        assert!(listener.synced().await);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever_for_what_was_removed_or_has_ended() {
    // R-EH-8, istio#61827.
    let (told, listener, pods, nodes) = (Told::default(), listener(), informer("Pod"), informer("Node"));
    let joined = vec![subscription("pods", 0, &pods), subscription("nodes", 1, &nodes)];
    let (running, handler) = (listener.clone(), recorder(1, &told));
    let task = tokio::spawn(async move { running.run(vec![handler], joined).await });
    let waiters: Vec<_> = ["pods", "nodes"]
        .into_iter()
        .map(|name| {
            let waits = listener.clone();
            tokio::spawn(async move { waits.subscription_synced(name).await })
        })
        .collect();
    let waits = listener.clone();
    let whole = tokio::spawn(async move { waits.synced().await });
    idle().await;
    assert_eq!(listener.remove("nodes"), Removed { registrations: 1, dropped: 0 });
    idle().await;
    assert_eq!(waiters.iter().map(tokio::task::JoinHandle::is_finished).collect::<Vec<_>>(), [false, true]);
    assert!(!listener.subscription_synced("nodes").await, "there is none of this name");
    listener.close();
    for waiter in waiters {
        assert!(!waiter.await.expect("the waiter"));
    }
    assert!(!whole.await.expect("the waiter"));
    task.await.expect("it ends");
    assert!(!listener.synced().await && !listener.has_synced(), "after the end");
}
