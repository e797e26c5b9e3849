//! Replacing handlers and subscriptions between two deliveries.

use super::*;

#[tokio::test(start_paused = true)]
async fn continue_takes_the_queue_over_and_replay_starts_afresh() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    for key in ["n/a", "n/b", "n/c"] {
        put(&pods, key, "u", 1);
    }
    synced(&pods);
    let handler = scripted(&told, |delivery| match delivery.event {
        Event::Add { .. } => Outcome::Ok,
        _ => retry(),
    });
    let (running, joined) = (listener.clone(), vec![subscription("pods", 0, &pods)]);
    tokio::spawn(async move { running.run(vec![handler], joined).await });
    settle(&listener).await;
    told.lock().expect("told").clear();
    put(&pods, "n/a", "u", 2);
    remove(&pods, "n/b", "u", 3);
    let swapped = listener.swap(Swap::new(
        vec![scripted(&told, |delivery| match delivery.event {
            Event::Delete { .. } => retry(),
            _ => Outcome::Ok,
        })],
        vec![subscription("pods", 0, &pods)],
        OnSwap::Continue,
    ));
    let report = swapped.await.expect("it swapped");
    assert_eq!(counts(&report), (1, 0, 0, 0));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(lines(&told), ["update n/a 1->2"], "the waiting events, no replay");
    told.lock().expect("told").clear();
    let swapped = listener.swap(Swap::new(
        vec![recorder(2, &told)],
        vec![subscription("pods", 0, &pods)],
        OnSwap::Replay,
    ));
    swapped.await.expect("it swapped");
    settle(&listener).await;
    assert_eq!(lines(&told), ["delete n/b 3 deleted", "add n/a 2 initial", "add n/c 1 initial"]);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_are_matched_by_name_and_informer() {
    let (told, listener) = (Told::default(), listener());
    let (pods, nodes, secrets) = (informer("Pod"), informer("Node"), informer("Secret"));
    for source in [&pods, &nodes, &secrets] {
        synced(source);
    }
    put(&pods, "n/a", "u", 1);
    put(&nodes, "x", "u", 1);
    put(&secrets, "n/s", "u", 1);
    let (running, handler) = (listener.clone(), scripted(&told, |_| retry()));
    let joined = vec![subscription("pods", 0, &pods), subscription("nodes", 1, &nodes)];
    tokio::spawn(async move { running.run(vec![handler], joined).await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let next = vec![subscription("secrets", 0, &secrets), subscription("pods", 1, &pods)];
    let report =
        listener.swap(Swap::new(vec![recorder(2, &told)], next, OnSwap::Continue)).await.expect("it swapped");
    assert_eq!(counts(&report), (1, 1, 1, 1));
    settle(&listener).await;
    let mut seen = lines(&told);
    seen.sort();
    assert_eq!(seen, ["add n/a 1 initial", "add n/s 1 initial"]);
    put(&nodes, "x", "u", 2);
    settle(&listener).await;
    assert_eq!(lines(&told).len(), 2, "nobody listens to nodes any more");
    let cache = listener.cache();
    let key = ObjectKey::new("n", "s");
    assert_eq!(cache.get(0, &key).expect("synced").map(|object| object.key().clone()), Some(key));
    assert_eq!(cache.get(2, &ObjectKey::new("", "x")), Err(CacheProblem::UnknownSubscription));
}

#[tokio::test(start_paused = true)]
async fn a_swap_is_answered_although_the_listener_ends() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    synced(&pods);
    let (running, handler, joined) =
        (listener.clone(), recorder(1, &told), vec![subscription("pods", 0, &pods)]);
    let task = tokio::spawn(async move { running.run(vec![handler], joined).await });
    settle(&listener).await;
    // Both are there when the loop looks next: the end goes first.
    let swap = listener.swap(Swap::new(vec![recorder(2, &told)], vec![], OnSwap::Continue));
    let (answer, ()) = tokio::join!(swap, async { listener.close() });
    assert!(answer.is_none());
    assert_eq!(task.await.expect("it ends"), Ended::Closed { abandoned: 0 });
    let late = listener.swap(Swap::new(vec![recorder(3, &told)], vec![], OnSwap::Continue));
    assert!(late.await.is_none());
}
