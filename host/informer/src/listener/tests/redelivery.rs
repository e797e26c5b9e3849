//! Telling again what was given up, case by case (delivery contract 9).

use super::*;
use crate::handler::DeleteReason;

/// Breaks at every event while `broken` says so.
fn breaking(told: &Told, broken: &Arc<StdMutex<bool>>) -> Box<dyn EventHandler> {
    let broken = broken.clone();
    scripted(
        told,
        move |_| {
            if *broken.lock().expect("broken") { Outcome::Trap("boom".into()) } else { Outcome::Ok }
        },
    )
}

/// A listener with one attempt an event, its informer, and what it was told; the handler is broken at first.
struct Case {
    listener: Listener,
    pods: Arc<SharedInformer>,
    told: Told,
    broken: Arc<StdMutex<bool>>,
}

impl Case {
    async fn start(on_restart: OnRestart) -> Self {
        let (told, pods, broken) = (Told::default(), informer("Pod"), Arc::new(StdMutex::new(true)));
        let config = ListenerConfig { max_attempts: 1, on_restart, ..ListenerConfig::default() };
        let listener = Listener::new(config, Arc::new(()));
        synced(&pods);
        start(&listener, vec![breaking(&told, &broken)], &pods);
        settle(&listener).await;
        Self { listener, pods, told, broken }
    }

    fn mend(&self) {
        *self.broken.lock().expect("broken") = false;
    }

    fn replay(&self, uid: &str, event: LostEvent) -> Redelivered {
        let lost = Lost { key: ObjectKey::new("n", "a"), uid: uid.into(), event };
        self.listener.redeliver("pods", &lost)
    }

    /// What it is told by what is queued.
    async fn hears(&self) -> Vec<String> {
        settle(&self.listener).await;
        let lines = lines(&self.told);
        self.told.lock().expect("told").clear();
        lines
    }
}

fn deleted(uid: &str, version: u32) -> LostEvent {
    LostEvent::Delete { object: object("n/a", uid, &version.to_string()), reason: DeleteReason::Deleted }
}

fn queued(redelivered: Redelivered) -> u64 {
    match redelivered {
        Redelivered::Queued { sequence } => sequence,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_add_is_told_as_one_until_something_came_of_the_object_since() {
    for on_restart in [OnRestart::Continue, OnRestart::Replay] {
        let case = Case::start(on_restart).await;
        put(&case.pods, "n/a", "u", 1);
        assert_eq!(case.hears().await, [""; 0], "it is given up");
        case.mend();
        let sequence = queued(case.replay("u", LostEvent::Add));
        assert_eq!(sequence, 2, "the number that the next event gets");
        assert_eq!(case.hears().await, ["add n/a 1"], "not initial");
        queued(case.replay("u", LostEvent::Add));
        assert_eq!(case.hears().await, ["update n/a 1->1 resync"], "it was told of it by then");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_told_again_is_the_present_state() {
    let case = Case::start(OnRestart::Continue).await;
    put(&case.pods, "n/a", "u", 1);
    case.hears().await;
    case.mend();
    put(&case.pods, "n/a", "u", 2);
    assert_eq!(case.hears().await, ["update n/a 1->2"]);
    for lost in [LostEvent::Add, LostEvent::Update] {
        queued(case.replay("u", lost));
        assert_eq!(case.hears().await, ["update n/a 2->2 resync"], "told again, nothing changed");
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_already_is_not_doubled() {
    let case = Case::start(OnRestart::Continue).await;
    case.mend();
    put(&case.pods, "n/a", "u", 1);
    case.hears().await;
    put(&case.pods, "n/a", "u", 2);
    let sequence = queued(case.replay("u", LostEvent::Update));
    assert_eq!(sequence, 2, "the number of the event that waits");
    assert_eq!(case.hears().await, ["update n/a 1->2"]);
    remove(&case.pods, "n/a", "u", 3);
    assert_eq!(queued(case.replay("u", deleted("u", 3))), 3);
    assert_eq!(case.hears().await, ["delete n/a 3 deleted"]);
    queued(case.replay("u", deleted("u", 3)));
    queued(case.replay("u", deleted("u", 3)));
    assert_eq!(case.hears().await, ["delete n/a 3 deleted"], "asked for twice, told once");
}

#[tokio::test(start_paused = true)]
async fn a_state_of_an_object_that_is_gone_or_replaced_is_obsolete() {
    let case = Case::start(OnRestart::Continue).await;
    case.mend();
    for lost in [LostEvent::Add, LostEvent::Update] {
        assert_eq!(case.replay("u", lost), Redelivered::Obsolete(Obsolete::Gone));
    }
    put(&case.pods, "n/a", "v", 5);
    case.hears().await;
    for lost in [LostEvent::Add, LostEvent::Update, deleted("u", 3)] {
        assert_eq!(case.replay("u", lost), Redelivered::Obsolete(Obsolete::Replaced));
    }
    assert_eq!(case.replay("v", deleted("v", 6)), Redelivered::Obsolete(Obsolete::Back));
    assert_eq!(case.hears().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_delete_is_told_as_it_was_kept_and_not_behind_later_events() {
    let case = Case::start(OnRestart::Continue).await;
    put(&case.pods, "n/a", "u", 1);
    remove(&case.pods, "n/a", "u", 2);
    assert_eq!(case.hears().await, [""; 0]);
    case.mend();
    queued(case.replay("u", deleted("u", 2)));
    assert_eq!(case.hears().await, ["delete n/a 2 deleted"]);
    put(&case.pods, "n/a", "v", 3);
    case.hears().await;
    remove(&case.pods, "n/a", "v", 4);
    assert_eq!(case.replay("u", deleted("u", 2)), Redelivered::Busy);
    assert_eq!(case.hears().await, ["delete n/a 4 deleted"]);
}

#[tokio::test(start_paused = true)]
async fn an_add_told_again_is_followed_by_its_delete_even_if_it_was_not_tried_again() {
    // The first attempts may have had effects, so the handler is told of the end (delivery contract 8).
    let case = Case::start(OnRestart::Continue).await;
    put(&case.pods, "n/a", "u", 1);
    case.hears().await;
    case.mend();
    let config = ListenerConfig { merge: Merge::Latest, ..ListenerConfig::default() };
    case.listener.configure(config);
    queued(case.replay("u", LostEvent::Add));
    remove(&case.pods, "n/a", "u", 2);
    assert_eq!(case.hears().await, ["delete n/a 2 deleted"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_cursor_will_find_is_left_to_it() {
    let (told, listener, pods) = (Told::default(), listener(), informer("Pod"));
    for number in 0..200 {
        put(&pods, &format!("n/{number:03}"), "u", 1);
    }
    synced(&pods);
    let (handler, gate) = gated(&told);
    start(&listener, vec![handler], &pods);
    idle().await;
    assert!(listener.stats().pending < 199, "the cursor has not read everything");
    let lost = Lost { key: ObjectKey::new("n", "199"), uid: "u".into(), event: LostEvent::Update };
    queued(listener.redeliver("pods", &lost));
    let delete = LostEvent::Delete { object: object("n/199", "t", "0"), reason: DeleteReason::Deleted };
    let delete = Lost { uid: "t".into(), event: delete, ..lost };
    assert_eq!(listener.redeliver("pods", &delete), Redelivered::Busy, "the add is not told yet");
    gate.add_permits(1000);
    settle(&listener).await;
    let lines = lines(&told);
    assert_eq!((lines.len(), lines[199].as_str()), (200, "add n/199 1 initial"));
    assert_eq!(listener.redeliver("pods", &delete), Redelivered::Obsolete(Obsolete::Replaced));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_known_before_the_first_list_and_of_subscriptions_that_are_not_there() {
    let (listener, pods) = (listener(), informer("Pod"));
    let lost = Lost { key: ObjectKey::new("n", "a"), uid: "u".into(), event: LostEvent::Update };
    assert_eq!(listener.redeliver("pods", &lost), Redelivered::UnknownSubscription, "it does not run yet");
    start(&listener, vec![recorder(1, &Told::default())], &pods);
    idle().await;
    assert_eq!(listener.redeliver("pods", &lost), Redelivered::NotSynced);
    synced(&pods);
    assert_eq!(listener.redeliver("pods", &lost), Redelivered::Obsolete(Obsolete::Gone));
    assert_eq!(listener.redeliver("others", &lost), Redelivered::UnknownSubscription);
    listener.close_and_wait().await.expect("from outside");
    assert_eq!(listener.redeliver("pods", &lost), Redelivered::UnknownSubscription);
}
