//! What follows a trap with `on_restart = "replay"` (delivery contract 11).

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

type Letters = Arc<StdMutex<Vec<String>>>;

fn replaying(max_attempts: u32) -> (Listener, Letters) {
    let letters = Letters::default();
    let reported = letters.clone();
    let dead_letter = move |delivery: &Delivery, _: &Outcome| {
        reported.lock().expect("letters").push(delivery.event.key().to_string());
    };
    let config = ListenerConfig { on_restart: OnRestart::Replay, max_attempts, ..Default::default() };
    (Listener::new(config, on_given_up(dead_letter)), letters)
}

/// Each attempt as `key attempt`.
fn tries(seen: &Arc<StdMutex<Vec<String>>>, delivery: &Delivery) {
    let version = delivery.event.object().resource_version();
    let line =
        format!("{} {} {version} #{}", delivery.event.op(), delivery.event.key().name(), delivery.attempt);
    seen.lock().expect("seen").push(line);
}

#[tokio::test(start_paused = true)]
async fn a_trap_replays_everything_but_what_failed_which_keeps_its_attempts() {
    let (told, pods, seen) = (Told::default(), informer("Pod"), Letters::default());
    let (listener, letters) = replaying(3);
    for key in ["n/a", "n/b", "n/c"] {
        put(&pods, key, "u", 1);
    }
    synced(&pods);
    let tried = seen.clone();
    let handler = scripted(&told, move |delivery| {
        tries(&tried, delivery);
        let poison = delivery.event.key().name() == "b" && delivery.event.object().resource_version() == "2";
        if poison { Outcome::Trap("boom".into()) } else { Outcome::Ok }
    });
    start(&listener, vec![handler], &pods);
    assert!(listener.synced().await);
    seen.lock().expect("seen").clear();
    put(&pods, "n/b", "u", 2);
    settle(&listener).await;
    let round = |attempt: u32| vec![format!("add b 2 #{attempt}"), "add a 1 #1".into(), "add c 1 #1".into()];
    let mut want = vec!["update b 2 #1".to_owned(), "add a 1 #1".into(), "add c 1 #1".into()];
    want.extend(round(2));
    want.extend(round(3));
    assert_eq!(*seen.lock().expect("seen"), want, "b itself is not read again, not even once it is given up");
    assert_eq!(*letters.lock().expect("letters"), ["n/b"]);
    assert_eq!(listener.stats().restarts, 3);
    assert!(listener.has_synced());
    seen.lock().expect("seen").clear();
    put(&pods, "n/b", "u", 3);
    settle(&listener).await;
    assert_eq!(*seen.lock().expect("seen"), ["update b 3 #1"], "until it changes");
}

#[tokio::test(start_paused = true)]
async fn several_poison_objects_end_in_the_dead_letters_and_not_in_a_circle() {
    let (told, pods) = (Told::default(), informer("Pod"));
    let (listener, letters) = replaying(4);
    for key in ["n/a", "n/b", "n/c", "n/d"] {
        put(&pods, key, "u", 1);
    }
    synced(&pods);
    let handler = scripted(&told, |delivery| match delivery.event.key().name() {
        "a" | "c" => Outcome::Timeout("slow".into()),
        _ => Outcome::Ok,
    });
    start(&listener, vec![handler], &pods);
    let all = tokio::time::timeout(Duration::from_secs(3600), listener.synced());
    assert_eq!(all.await, Ok(true), "it comes to an end");
    settle(&listener).await;
    let mut dead = letters.lock().expect("letters").clone();
    dead.sort();
    assert_eq!(dead, ["n/a", "n/c"]);
    let stats = listener.stats();
    assert_eq!((stats.outcomes.timeout, stats.restarts, stats.pending), (8, 8, 0));
}

#[tokio::test(start_paused = true)]
async fn a_state_that_came_while_the_last_attempt_ran_is_not_lost() {
    let (told, pods) = (Told::default(), informer("Pod"));
    let (listener, letters) = replaying(1);
    put(&pods, "n/a", "u", 1);
    synced(&pods);
    let source = pods.clone();
    let handler = scripted(&told, move |delivery| {
        if delivery.event.object().resource_version() == "1" {
            put(&source, "n/a", "u", 2);
            return Outcome::Trap("boom".into());
        }
        Outcome::Ok
    });
    start(&listener, vec![handler], &pods);
    settle(&listener).await;
    assert_eq!(*letters.lock().expect("letters"), ["n/a"]);
    assert_eq!(lines(&told), ["add n/a 2 initial"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_delete_is_delivered_and_its_successor_found_once() {
    let (told, pods, seen) = (Told::default(), informer("Pod"), Letters::default());
    let (listener, _) = replaying(5);
    put(&pods, "n/a", "u", 1);
    put(&pods, "n/b", "u", 1);
    synced(&pods);
    let (tried, source) = (seen.clone(), pods.clone());
    let handler = scripted(&told, move |delivery| {
        tries(&tried, delivery);
        if delivery.event.op() == "delete" && delivery.attempt == 1 {
            put(&source, "n/a", "v", 3);
            return Outcome::Trap("boom".into());
        }
        Outcome::Ok
    });
    start(&listener, vec![handler], &pods);
    assert!(listener.synced().await);
    seen.lock().expect("seen").clear();
    remove(&pods, "n/a", "u", 2);
    settle(&listener).await;
    assert_eq!(*seen.lock().expect("seen"), ["delete a 2 #1", "add b 1 #1", "delete a 2 #2", "add a 3 #1"]);
    assert!(listener.has_synced());
}

#[tokio::test(start_paused = true)]
async fn a_restart_waits_for_the_other_lanes() {
    let (told, pods) = (Told::default(), informer("Pod"));
    let (listener, _) = replaying(5);
    synced(&pods);
    let (stuck, gate) = gated(&told);
    let broken = scripted(&told, |delivery| {
        if delivery.attempt == 1 && delivery.event.op() == "update" {
            return Outcome::Trap("boom".into());
        }
        Outcome::Ok
    });
    let (first, second) = lanes::two_keys();
    start(&listener, vec![stuck, broken], &pods);
    idle().await;
    put(&pods, &second, "u", 1);
    idle().await;
    put(&pods, &first, "u", 1);
    put(&pods, &second, "u", 2);
    idle().await;
    assert_eq!((listener.stats().outcomes.trap, listener.stats().restarts), (1, 0));
    told.lock().expect("told").clear();
    gate.add_permits(9);
    settle(&listener).await;
    assert_eq!(listener.stats().restarts, 1);
    assert_eq!(lines(&told), [format!("add {first} 1 initial"), format!("add {second} 2 initial")]);
}

/// So many that the cursor takes several readings.
const OBJECTS: usize = 400;

/// What a random script does next.
#[derive(Debug, Clone)]
enum Act {
    Put(usize),
    Remove(usize),
    /// Lets the handler have so many turns.
    Run(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..OBJECTS).prop_map(Act::Put),
        5 => (0..OBJECTS).prop_map(Act::Remove),
        // Seldom, so that the cursor has a backlog to wait for.
        1 => (0..90_usize).prop_map(Act::Run),
    ]
}

/// What is wrong with what a handler was told of one object, which the server has as `uid` or not at all.
fn missing_delete(events: &[Event], uid: Option<u32>) -> Option<String> {
    let mut known: Option<String> = None;
    for event in events {
        let told = event.object().uid().to_owned();
        match event {
            Event::Delete { .. } => known = None,
            _ if known.as_ref().is_some_and(|known| *known != told) => {
                return Some(format!("{told} after {known:?}, without its delete"));
            }
            _ => known = Some(told),
        }
    }
    (known != uid.map(|uid| uid.to_string())).then(|| format!("{known:?} is known, and {uid:?} is there"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    /// However often a trap has everything replayed, and wherever the replay before had got to: every object that a
    /// handler was told of is there, or was told to be gone.
    #[test]
    fn no_delete_is_lost_however_often_everything_is_replayed(acts in prop::collection::vec(act(), 300..1500)) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let (told, pods) = (Told::default(), informer("Pod"));
            let (listener, _) = replaying(2);
            synced(&pods);
            // Every seventh object is poison; what becomes of those is not looked at.
            let is_poison = |name: &str| name.parse::<usize>().is_ok_and(|number| number % 7 == 3);
            let handler = scripted(&told, move |delivery| {
                if is_poison(delivery.event.key().name()) { Outcome::Trap("boom".into()) } else { Outcome::Ok }
            });
            start(&listener, vec![handler], &pods);
            let mut server: BTreeMap<usize, u32> = BTreeMap::new();
            let all = (0..OBJECTS).map(Act::Put);
            for (version, act) in (1_u32..).zip(all.chain(acts)) {
                match act {
                    Act::Put(key) => {
                        let uid = *server.entry(key).or_insert(version);
                        put(&pods, &format!("n/{key:03}"), &uid.to_string(), version);
                    }
                    Act::Remove(key) => {
                        if let Some(uid) = server.remove(&key) {
                            remove(&pods, &format!("n/{key:03}"), &uid.to_string(), version);
                        }
                    }
                    Act::Run(turns) => {
                        for _ in 0..turns {
                            tokio::task::yield_now().await;
                        }
                    }
                }
            }
            settle(&listener).await;
            let mut by_key: BTreeMap<usize, Vec<Event>> = BTreeMap::new();
            for (_, event) in told.lock().expect("told").iter() {
                let key = event.key().name().parse().expect("a number");
                by_key.entry(key).or_default().push(event.clone());
            }
            for key in (0..OBJECTS).filter(|key| key % 7 != 3) {
                let events = by_key.get(&key).map(Vec::as_slice).unwrap_or_default();
                prop_assert_eq!(missing_delete(events, server.get(&key).copied()), None, "{}: {:?}", key, events);
            }
            Ok(())
        })?;
    }
}
