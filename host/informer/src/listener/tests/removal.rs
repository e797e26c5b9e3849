//! Leaving: one subscription or all of them, with waiting and without (R-EH-5, R-EH-6, R-PL-7).

use super::*;

#[tokio::test(start_paused = true)]
async fn removing_a_subscription_drops_what_waits_and_lets_the_running_call_end() {
    // TestRemoveWhileActive, TestRemoveEventHandler_AsynchronousPanic, TestRemoveEventHandler_SynchronousShutdown,
    // TestRemovingRemovedSharedInformer; 7.12 no. 14.
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    synced(&pods);
    let (handler, gate) = gated(&told);
    start(&listener, vec![handler], &pods);
    idle().await;
    put(&pods, "n/a", "u", 1);
    idle().await;
    put(&pods, "n/a", "u", 2);
    put(&pods, "n/b", "u", 3);
    assert_eq!(listener.remove("pods"), Removed { registrations: 1, dropped: 2 }, "at once");
    let waits = listener.clone();
    assert_eq!(listener.stats().in_flight, 1);
    put(&pods, "n/c", "u", 4);
    let waiter = tokio::spawn(async move { waits.remove_and_wait("pods").await });
    idle().await;
    gate.add_permits(9);
    assert_eq!(waiter.await.expect("the waiter"), Ok(Removed::default()), "removed again: no error");
    idle().await;
    assert_eq!(lines(&told), ["add n/a 1"]);
    let stats = listener.stats();
    assert_eq!((stats.pending, stats.dropped, stats.in_flight), (0, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn removal_that_waits_returns_when_the_running_call_has_ended() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    put(&pods, "n/a", "u", 1);
    synced(&pods);
    let (handler, gate) = gated(&told);
    start(&listener, vec![handler], &pods);
    idle().await;
    let waits = listener.clone();
    let waiter = tokio::spawn(async move { waits.remove_and_wait("pods").await });
    idle().await;
    assert!(!waiter.is_finished(), "the call is under way");
    assert!(!listener.subscription_has_synced("pods"), "it is gone all the same");
    gate.add_permits(1);
    assert_eq!(waiter.await.expect("the waiter"), Ok(Removed { registrations: 1, dropped: 0 }));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_after_its_removal_is_not_repeated() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    put(&pods, "n/a", "u", 1);
    synced(&pods);
    let removes = listener.clone();
    let handler = scripted(&told, move |delivery| {
        assert_eq!(delivery.attempt, 1);
        assert_eq!(removes.remove("pods"), Removed { registrations: 1, dropped: 0 });
        retry()
    });
    start(&listener, vec![handler], &pods);
    settle(&listener).await;
    idle().await;
    let stats = listener.stats();
    assert_eq!((stats.pending, stats.outcomes.retry, stats.outcomes.trap), (0, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_would_wait_for_itself_is_told_so() {
    // R-EH-6: client-go deadlocks.
    struct Leaves(Listener, Arc<StdMutex<Vec<bool>>>);
    impl EventHandler for Leaves {
        fn handle<'a>(&'a mut self, _: &'a Delivery) -> HandleFuture<'a> {
            Box::pin(async move {
                let removed = self.0.remove_and_wait("pods").await == Err(InsideHandler);
                let closed = self.0.close_and_wait().await == Err(InsideHandler);
                self.1.lock().expect("seen").extend([removed, closed]);
                Outcome::Ok
            })
        }
    }
    for threaded in [false, true] {
        let (listener, pods, seen) = (listener(), informer("Pod"), Arc::default());
        put(&pods, "n/a", "u", 1);
        put(&pods, "n/b", "u", 1);
        synced(&pods);
        let mut handler: Box<dyn EventHandler> = Box::new(Leaves(listener.clone(), Arc::clone(&seen)));
        if threaded {
            handler = Box::new(crate::handler::Threaded::spawn("leaves", handler).expect("a thread"));
        }
        let task = start(&listener, vec![handler], &pods);
        assert_eq!(task.await.expect("it ends"), Ended::Closed { abandoned: 0 });
        assert_eq!(*seen.lock().expect("seen"), [true, true], "threaded: {threaded}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_wait_for_another_listener() {
    struct Ends(Listener, Arc<StdMutex<Option<Result<(), InsideHandler>>>>);
    impl EventHandler for Ends {
        fn handle<'a>(&'a mut self, _: &'a Delivery) -> HandleFuture<'a> {
            Box::pin(async move {
                *self.1.lock().expect("seen") = Some(self.0.close_and_wait().await);
                Outcome::Ok
            })
        }
    }
    let (told, pods, seen) = (Told::default(), informer("Pod"), Arc::default());
    let (one, other) = (listener(), listener());
    put(&pods, "n/a", "u", 1);
    synced(&pods);
    let task = start(&other, vec![recorder(1, &told)], &pods);
    start(&one, vec![Box::new(Ends(other.clone(), Arc::clone(&seen)))], &pods);
    assert!(one.synced().await);
    assert_eq!(*seen.lock().expect("seen"), Some(Ok(())));
    assert!(task.is_finished());
}

#[tokio::test(start_paused = true)]
async fn closing_works_at_every_time_of_life() {
    // TestShutDownEventHandler_Lifecycles, TestShutdown, TestRemoveOnStoppedSharedInformer,
    // TestAddOnStoppedSharedInformer.
    let (told, pods) = (Told::default(), informer("Pod"));
    synced(&pods);
    let never = listener();
    assert_eq!(never.close_and_wait().await, Ok(()), "never run");
    assert_eq!(
        never.run(vec![recorder(1, &told)], vec![subscription("pods", 0, &pods)]).await,
        Ended::Closed { abandoned: 0 }
    );
    let late = never.swap(Swap::new(vec![recorder(1, &told)], vec![], OnSwap::Replay));
    assert!(late.await.is_none(), "added after the end");
    let listener = listener();
    let task = start(&listener, vec![recorder(1, &told)], &pods);
    assert!(listener.synced().await);
    assert_eq!(listener.close_and_wait().await, Ok(()));
    idle().await;
    assert!(task.is_finished());
    assert_eq!(listener.close_and_wait().await, Ok(()), "again");
    assert_eq!(listener.remove_and_wait("pods").await, Ok(Removed::default()), "after the end");
    listener.drain();
    put(&pods, "n/a", "u", 1);
    idle().await;
    assert_eq!(lines(&told), [""; 0]);
    assert_eq!(Arc::strong_count(&pods), 1, "nobody holds the informer any more");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_leaves_its_informers_and_its_waiters() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    put(&pods, "n/a", "u", 1);
    synced(&pods);
    let (handler, _gate) = gated(&told);
    let task = start(&listener, vec![handler], &pods);
    idle().await;
    assert_eq!(listener.stats().in_flight, 1);
    let waits = listener.clone();
    let waiter = tokio::spawn(async move { waits.close_and_wait().await });
    idle().await;
    assert!(!waiter.is_finished());
    task.abort();
    assert_eq!(waiter.await.expect("the waiter"), Ok(()));
    assert_eq!(Arc::strong_count(&pods), 1);
}

#[tokio::test(start_paused = true)]
async fn registrations_are_independent_of_each_other() {
    // TestSharedInformerRemoveHandler, TestSharedInformerRemoveForeignHandler,
    // TestSharedInformerMultipleRegistration (R-EH-4): one listener, the same informer twice, and another.
    let (told, listener) = (Told::default(), listener());
    let (pods, nodes) = (informer("Pod"), informer("Node"));
    synced(&pods);
    synced(&nodes);
    let names = [("first", &pods), ("second", &pods), ("nodes", &nodes)];
    let joined: Vec<_> =
        (0..).zip(names).map(|(number, (name, of))| subscription(name, number, of)).collect();
    let (running, handler) = (listener.clone(), recorder(1, &told));
    tokio::spawn(async move { running.run(vec![handler], joined).await });
    let mut counts = Vec::new();
    for (version, name) in (1..).zip(["none", "second", "second", "first", "nodes"]) {
        listener.remove_and_wait(name).await.expect("not inside a handler");
        told.lock().expect("told").clear();
        put(&pods, "n/a", "u", version);
        put(&nodes, "x", "u", version);
        settle(&listener).await;
        counts.push(lines(&told).len());
    }
    assert_eq!(counts, [3, 2, 2, 1, 0]);
}
