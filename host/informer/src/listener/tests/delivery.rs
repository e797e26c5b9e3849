//! What is delivered, and when: the gate, the cursor, and what is an event at all.

use super::*;

#[tokio::test(start_paused = true)]
async fn nothing_is_delivered_before_every_healthy_first_list() {
    let (told, listener) = (Told::default(), listener());
    let (pods, nodes) = (informer("Pod"), informer("Node"));
    let joined = vec![subscription("pods", 0, &pods), subscription("nodes", 1, &nodes)];
    let running = listener.clone();
    let handler = recorder(1, &told);
    let task = tokio::spawn(async move { running.run(vec![handler], joined).await });
    put(&pods, "n/a", "u", 1);
    synced(&pods);
    put(&pods, "n/a", "u", 2);
    settle(&listener).await;
    assert_eq!(lines(&told), [""; 0]);
    assert!(!listener.stats().open);
    nodes.core().with(|processor, _| processor.set_excused(true));
    settle(&listener).await;
    assert_eq!(lines(&told), ["add n/a 2 initial"], "a forbidden resource holds nobody back");
    put(&nodes, "x", "u", 1);
    nodes.core().with(|processor, _| processor.set_excused(false));
    synced(&nodes);
    put(&pods, "n/a", "u", 3);
    settle(&listener).await;
    let mut seen = lines(&told);
    seen.sort();
    assert_eq!(seen, ["add n/a 2 initial", "add x 1 initial", "update n/a 2->3"]);
    listener.drain();
    assert_eq!(task.await.expect("it ends"), Ended::Drained { abandoned: 0 });
}

#[tokio::test(start_paused = true)]
async fn the_cursor_and_live_events_tell_each_object_once() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    for number in 0..200 {
        put(&pods, &format!("n/{number:03}"), "u", 1);
    }
    synced(&pods);
    let joined = vec![subscription("pods", 0, &pods)];
    let (running, source) = (listener.clone(), pods.clone());
    let handler = scripted(&told, move |delivery| {
        // Everything below happens before the cursor gets beyond its first batch.
        if delivery.sequence == 1 {
            put(&source, "n/150", "u", 2);
            remove(&source, "n/160", "u", 3);
            remove(&source, "n/170", "u", 4);
            put(&source, "n/170", "v", 5);
            put(&source, "n/199x", "u", 6);
            remove(&source, "n/199x", "u", 7);
            put(&source, "n/199y", "u", 8);
            put(&source, "n/199y", "u", 9);
        }
        Outcome::Ok
    });
    tokio::spawn(async move { running.run(vec![handler], joined).await });
    settle(&listener).await;
    let seen = lines(&told);
    let of = |key: &str| -> Vec<&str> {
        let of_key = seen.iter().map(String::as_str).filter(|line| line.split(' ').nth(1) == Some(key));
        of_key.collect()
    };
    assert_eq!(of("n/150"), ["add n/150 2 initial"]);
    assert_eq!(of("n/160"), [""; 0], "it was never handed over");
    assert_eq!(
        of("n/170"),
        ["add n/170 5"],
        "the one that existed at the start is gone, the new one came later"
    );
    assert_eq!(of("n/199x"), ["add n/199x 6", "delete n/199x 7 deleted"]);
    assert_eq!(of("n/199y"), ["add n/199y 8", "update n/199y 8->9"]);
    assert_eq!(seen.iter().filter(|line| line.ends_with("initial")).count(), 198);
    listener.close();
}

#[tokio::test(start_paused = true)]
async fn recreation_relist_and_unchanged_objects_are_told_as_promised() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    synced(&pods);
    let (running, handler, joined) =
        (listener.clone(), recorder(1, &told), vec![subscription("pods", 0, &pods)]);
    tokio::spawn(async move { running.run(vec![handler], joined).await });
    settle(&listener).await;
    put(&pods, "n/a", "u", 1);
    process(&pods, DeltaKind::Replaced, &object("n/a", "u", "1"), false);
    process(&pods, DeltaKind::Replaced, &object("n/a", "v", "5"), false);
    process(&pods, DeltaKind::Deleted, &object("n/a", "v", "5"), true);
    remove(&pods, "n/a", "v", 6);
    settle(&listener).await;
    assert_eq!(
        lines(&told),
        ["add n/a 1", "delete n/a 1 unknown", "add n/a 5", "delete n/a 5 unknown"],
        "unchanged is no event; another uid is delete and add; what is gone is not deleted again"
    );
}
