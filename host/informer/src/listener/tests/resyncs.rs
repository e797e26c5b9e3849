//! Resync periods of each registration.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_resync_goes_to_those_that_asked_and_are_due() {
    let (told, silent) = (Told::default(), Told::default());
    let pods = informer("Pod");
    put(&pods, "n/a", "u", 1);
    synced(&pods);
    let (asks, other) = (listener(), listener());
    let with_resync =
        Subscription { resync: Some(Duration::from_secs(60)), ..subscription("pods", 0, &pods) };
    let (running, handler) = (asks.clone(), recorder(1, &told));
    tokio::spawn(async move { running.run(vec![handler], vec![with_resync]).await });
    let (running, handler, joined) =
        (other.clone(), recorder(1, &silent), vec![subscription("pods", 0, &pods)]);
    tokio::spawn(async move { running.run(vec![handler], joined).await });
    settle(&asks).await;
    let due = |after| Instant::now() + Duration::from_secs(after);
    assert!(!pods.core().with(|processor, _| processor.mark_due(due(30), true)));
    process(&pods, DeltaKind::Sync, &object("n/a", "u", "1"), false);
    assert!(pods.core().with(|processor, _| processor.mark_due(due(61), true)));
    process(&pods, DeltaKind::Sync, &object("n/a", "u", "1"), false);
    settle(&asks).await;
    settle(&other).await;
    assert_eq!(lines(&told), ["add n/a 1 initial", "update n/a 1->1 resync"]);
    assert_eq!(lines(&silent), ["add n/a 1 initial"]);
}
