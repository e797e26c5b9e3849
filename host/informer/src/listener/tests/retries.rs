//! Attempts that fail: back-off, dead letters, merges into what fails, panics.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_retry_comes_as_often_as_it_takes_and_holds_only_its_own_key() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    synced(&pods);
    let handler = scripted(&told, |delivery| {
        if delivery.event.key().name() == "a" && delivery.attempt < 20 { retry() } else { Outcome::Ok }
    });
    let (running, joined) = (listener.clone(), vec![subscription("pods", 0, &pods)]);
    tokio::spawn(async move { running.run(vec![handler], joined).await });
    settle(&listener).await;
    put(&pods, "n/a", "u", 1);
    put(&pods, "n/b", "u", 1);
    let begun = Instant::now();
    settle(&listener).await;
    assert_eq!(lines(&told), ["add n/b 1", "add n/a 1"]);
    // 0.5 s doubled nine times reaches the 5 minutes; the other ten attempts wait those.
    let waited = begun.elapsed();
    assert!(waited > Duration::from_secs(10 * 300 + 255), "{waited:?}");
    assert!(waited < Duration::from_secs((10 * 300 + 256) * 11 / 10), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_kills_its_handler_each_time_is_given_up_and_reported() {
    let letters = Arc::new(StdMutex::new(Vec::new()));
    let (told, pods) = (Told::default(), informer("Pod"));
    let reported = letters.clone();
    let dead_letter = move |delivery: &Delivery, outcome: &Outcome| {
        let line = format!("{} {} {}", delivery.event.key(), delivery.attempt, outcome.as_str());
        reported.lock().expect("letters").push(line);
    };
    let listener = Listener::new(ListenerConfig::default(), on_given_up(dead_letter));
    synced(&pods);
    let handler = scripted(&told, |delivery| match delivery.event.key().name() {
        "a" => Outcome::Trap("boom".into()),
        _ => Outcome::Ok,
    });
    let (running, joined) = (listener.clone(), vec![subscription("pods", 0, &pods)]);
    tokio::spawn(async move { running.run(vec![handler], joined).await });
    settle(&listener).await;
    put(&pods, "n/a", "u", 1);
    put(&pods, "n/b", "u", 2);
    settle(&listener).await;
    assert_eq!(*letters.lock().expect("letters"), ["n/a 10 trap"]);
    assert_eq!(listener.stats().dead, 1);
    put(&pods, "n/a", "u", 3);
    settle(&listener).await;
    assert_eq!(letters.lock().expect("letters").len(), 2, "the next event of the key is tried afresh");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_merged_into_a_failing_one_has_all_its_attempts() {
    let letters = Arc::new(StdMutex::new(Vec::new()));
    let (told, pods, reported) = (Told::default(), informer("Pod"), letters.clone());
    let dead_letter = move |delivery: &Delivery, _: &Outcome| {
        reported.lock().expect("letters").push((delivery.event.op(), delivery.attempt));
    };
    let config = ListenerConfig { max_attempts: 3, ..ListenerConfig::default() };
    let listener = Listener::new(config, on_given_up(dead_letter));
    synced(&pods);
    let source = pods.clone();
    let handler = scripted(&told, move |delivery| {
        // The object goes while its add is at its second attempt of three.
        if delivery.event.op() == "add" && delivery.attempt == 2 {
            remove(&source, "n/a", "u", 2);
        }
        if delivery.attempt < 3 { Outcome::Trap("boom".into()) } else { Outcome::Ok }
    });
    let (running, joined) = (listener.clone(), vec![subscription("pods", 0, &pods)]);
    tokio::spawn(async move { running.run(vec![handler], joined).await });
    settle(&listener).await;
    put(&pods, "n/a", "u", 1);
    settle(&listener).await;
    assert_eq!(lines(&told), ["delete n/a 2 deleted"], "at its own third attempt");
    assert_eq!(*letters.lock().expect("letters"), []);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_trap_and_harms_neither_the_listener_nor_its_neighbours() {
    // TestEventPanics; R-PL-6, and kubernetes#129024: an initial add that is given up counts as handled.
    let letters = Arc::new(StdMutex::new(Vec::new()));
    let (told, other, pods, reported) = (Told::default(), Told::default(), informer("Pod"), letters.clone());
    let dead_letter = move |delivery: &Delivery, outcome: &Outcome| {
        reported.lock().expect("letters").push((delivery.event.key().to_string(), outcome.clone()));
    };
    let listener =
        Listener::new(ListenerConfig { max_attempts: 3, ..Default::default() }, on_given_up(dead_letter));
    let neighbour = super::listener();
    for key in ["n/a", "n/b", "n/c"] {
        put(&pods, key, "u", 1);
    }
    synced(&pods);
    let panics = scripted(&told, |delivery| match delivery.event.key().name() {
        "a" => panic!("attempt {}", delivery.attempt),
        _ => Outcome::Ok,
    });
    start(&listener, vec![panics], &pods);
    start(&neighbour, vec![recorder(1, &other)], &pods);
    assert!(listener.synced().await, "a registration whose initial add panics is synced once it is given up");
    settle(&neighbour).await;
    let given_up = ("n/a".to_owned(), Outcome::Trap("panicked: attempt 3".into()));
    assert_eq!(*letters.lock().expect("letters"), [given_up]);
    assert_eq!(lines(&told), ["add n/b 1 initial", "add n/c 1 initial"]);
    assert_eq!(lines(&other), ["add n/a 1 initial", "add n/b 1 initial", "add n/c 1 initial"]);
    let stats = listener.stats();
    assert_eq!((stats.outcomes.trap, stats.outcomes.ok, stats.retried, stats.dead), (3, 2, 2, 1));
}

/// How often a poison object is tried that changes while it waits for each of its retries.
#[tokio::test(start_paused = true)]
async fn a_poison_object_that_changes_all_the_time_is_given_up_all_the_same() {
    let letters = Arc::new(StdMutex::new(Vec::new()));
    let tried = Arc::new(StdMutex::new(Vec::new()));
    let (told, pods, reported, seen) = (Told::default(), informer("Pod"), letters.clone(), tried.clone());
    let dead_letter = move |delivery: &Delivery, _: &Outcome| {
        let version = delivery.event.object().resource_version().to_owned();
        reported.lock().expect("letters").push(version);
    };
    let listener =
        Listener::new(ListenerConfig { max_attempts: 4, ..Default::default() }, on_given_up(dead_letter));
    synced(&pods);
    let source = pods.clone();
    let handler = scripted(&told, move |delivery| {
        seen.lock().expect("tried").push(delivery.event.object().resource_version().to_owned());
        let source = source.clone();
        let next: u32 = delivery.event.object().resource_version().parse::<u32>().expect("a number") + 1;
        if next <= 6 {
            // It changes as soon as it waits for the retry.
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                put(&source, "n/a", "u", next);
            });
        }
        Outcome::Trap("boom".into())
    });
    start(&listener, vec![handler], &pods);
    settle(&listener).await;
    put(&pods, "n/a", "u", 1);
    settle(&listener).await;
    // Each attempt sees a newer state; the fourth trap ends it, whatever state it was.
    assert_eq!(*tried.lock().expect("tried"), ["1", "2", "3", "4"]);
    assert_eq!(*letters.lock().expect("letters"), ["4"], "given up at its newest state, which was tried");
    tokio::time::sleep(Duration::from_millis(150)).await;
    settle(&listener).await;
    assert_eq!(*letters.lock().expect("letters"), ["4", "6"], "the change after that begins anew");
    assert_eq!(tried.lock().expect("tried").len(), 8, "at most four traps for each letter");
}
