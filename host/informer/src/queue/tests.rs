//! The merge table, the bound, retries and clearing of a listener's queue, as tables.

mod latest;

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::*;
use crate::handler::DeleteReason;
use crate::testing::object;

const KEY: &str = "n/a";

fn id(key: &str) -> EntryKey {
    EntryKey { registration: 0, object: object(key, "u", "0").key().clone() }
}

fn add(key: &str, version: u32) -> Event {
    Event::Add { object: object(key, "u", &version.to_string()), initial: false }
}

fn update(key: &str, old: u32, new: u32) -> Event {
    let [old, new] = [old, new].map(|version| object(key, "u", &version.to_string()));
    Event::Update { old, new, resync: false }
}

fn delete(key: &str, version: u32) -> Event {
    Event::Delete { object: object(key, "u", &version.to_string()), reason: DeleteReason::Deleted }
}

fn resync(key: &str, version: u32) -> Event {
    let object = object(key, "u", &version.to_string());
    Event::Update { old: object.clone(), new: object, resync: true }
}

fn arrival() -> Arrival {
    Arrival { wall: SystemTime::UNIX_EPOCH, clock: Instant::now() }
}

fn queue(events: Vec<Event>, merge: Merge) -> Queue {
    let mut queue = Queue::new(100, merge);
    push(&mut queue, events);
    queue
}

fn push(queue: &mut Queue, events: Vec<Event>) {
    for event in events {
        let id = EntryKey { registration: 0, object: event.key().clone() };
        queue.push(id, event, arrival(), &View::of_everything());
    }
}

fn told(event: &Event) -> String {
    let version = event.object().resource_version();
    match event {
        Event::Update { old, .. } => format!("update {} {}->{version}", event.key(), old.resource_version()),
        _ => format!("{} {} {version}", event.op(), event.key()),
    }
}

/// Takes and finishes everything that is ready.
fn drain(queue: &mut Queue) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(taken) = queue.take(Instant::now()) {
        seen.push(told(&taken.event));
        queue.finish(&taken.id);
    }
    seen
}

#[test]
fn below_the_bound_every_event_is_delivered_in_order_of_arrival() {
    let events = vec![add(KEY, 1), add("n/b", 2), update(KEY, 1, 3), delete(KEY, 4), add(KEY, 5)];
    let mut queue = queue(events, Merge::All);
    assert_eq!(queue.len(), 5);
    assert_eq!(drain(&mut queue), ["add n/a 1", "add n/b 2", "update n/a 1->3", "delete n/a 4", "add n/a 5"]);
    assert_eq!((queue.len(), queue.merged()), (0, 0));
}

#[test]
fn waiting_events_merge_as_the_table_says() {
    let cases = [
        (vec![add(KEY, 1), update(KEY, 1, 2)], vec!["add n/a 2"]),
        (vec![update(KEY, 1, 2), update(KEY, 2, 3), update(KEY, 3, 4)], vec!["update n/a 1->4"]),
        (vec![update(KEY, 1, 2), delete(KEY, 3)], vec!["delete n/a 3"]),
        (vec![add(KEY, 1), delete(KEY, 2)], vec![]),
        (vec![add(KEY, 1), update(KEY, 1, 2), delete(KEY, 3), add(KEY, 4)], vec!["add n/a 4"]),
        (vec![delete(KEY, 1), add(KEY, 2)], vec!["delete n/a 1", "add n/a 2"]),
        (vec![delete(KEY, 1), add(KEY, 2), update(KEY, 2, 3)], vec!["delete n/a 1", "add n/a 3"]),
        (vec![delete(KEY, 1), add(KEY, 2), delete(KEY, 3)], vec!["delete n/a 1"]),
    ];
    for (events, want) in cases {
        let mut queue = queue(events.clone(), Merge::Latest);
        assert!(queue.len() <= 2, "{events:?}");
        assert_eq!(drain(&mut queue), want, "{events:?}");
        assert_eq!(queue.len(), 0);
    }
}

#[test]
fn at_the_bound_a_key_has_at_most_two_entries_more() {
    let mut queue = Queue::new(2, Merge::All);
    push(&mut queue, vec![update(KEY, 1, 2), update(KEY, 2, 3)]);
    for version in 3..100 {
        push(&mut queue, vec![update(KEY, version, version + 1)]);
    }
    push(&mut queue, vec![add("n/b", 1), update("n/b", 1, 2), delete("n/c", 1)]);
    assert_eq!(queue.len(), 4);
    assert_eq!(drain(&mut queue), ["update n/a 1->2", "update n/a 2->100", "add n/b 2", "delete n/c 1"]);
}

#[test]
fn what_is_being_handled_is_never_merged_with() {
    let mut queue = queue(vec![add(KEY, 1)], Merge::Latest);
    let taken = queue.take(Instant::now()).expect("an event");
    push(&mut queue, vec![update(KEY, 1, 2), update(KEY, 2, 3)]);
    assert!(queue.take(Instant::now()).is_none(), "one event of a key at a time");
    queue.finish(&taken.id);
    assert_eq!(drain(&mut queue), ["update n/a 1->3"]);
}

#[test]
fn a_key_that_waits_for_a_retry_merges_and_others_go_on() {
    let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(9));
    let mut queue = queue(vec![add(KEY, 1), update(KEY, 1, 2), add("n/b", 1)], Merge::All);
    let taken = queue.take(now).expect("an event");
    queue.retry(&taken.id, later, false);
    push(&mut queue, vec![update(KEY, 2, 3)]);
    assert_eq!(drain(&mut queue), ["add n/b 1"]);
    assert_eq!((queue.next_due(), queue.retrying(), queue.len()), (Some(later), 1, 1));
    let again = queue.take(later).expect("the retry");
    assert_eq!((told(&again.event).as_str(), again.attempt, again.failures), ("add n/a 3", 1, 1));
    assert_eq!(again.sequence, 4, "after a merge the sequence is the later event's");
}

#[test]
fn a_retry_that_is_due_merges_like_one_that_is_not() {
    let (now, due) = (Instant::now(), Instant::now() + Duration::from_secs(1));
    let mut queue = queue(vec![add("n/b", 1), add(KEY, 1)], Merge::All);
    let first = queue.take(now).expect("b");
    queue.retry(&first.id, due, true);
    let other = queue.take_least_broken(due).expect("what has not failed comes first");
    assert_eq!(told(&other.event), "add n/a 1");
    push(&mut queue, vec![update("n/b", 1, 2)]);
    assert_eq!(queue.len(), 2, "b waits for its turn, and merges");
    queue.finish(&other.id);
    // Cleared for a restart, it still is the newest state.
    assert_eq!(queue.clear(0, Keep::DeletesAndFailing).failing.len(), 1);
    assert_eq!(told(&queue.take(due).expect("b").event), "add n/b 2");
}

#[test]
fn an_add_that_was_attempted_is_followed_by_its_delete() {
    let now = Instant::now();
    let mut queue = queue(vec![add(KEY, 1)], Merge::All);
    let taken = queue.take(now).expect("an event");
    queue.retry(&taken.id, now, true);
    push(&mut queue, vec![delete(KEY, 2), add(KEY, 3)]);
    let again = queue.take(now).expect("the retry");
    assert_eq!((told(&again.event).as_str(), again.attempt, again.breaks), ("delete n/a 2", 1, 0));
    assert_eq!(again.failures, 1, "another event with attempts of its own; the back-off goes on");
    queue.finish(&again.id);
    assert_eq!(drain(&mut queue), ["add n/a 3"]);
}

#[test]
fn a_resync_has_nothing_to_say_while_something_waits() {
    let mut queue = queue(vec![add(KEY, 1), resync(KEY, 1)], Merge::All);
    assert_eq!(drain(&mut queue), ["add n/a 1"]);
    push(&mut queue, vec![resync(KEY, 1), resync(KEY, 1), update(KEY, 1, 2)]);
    assert_eq!(drain(&mut queue), ["update n/a 1->1", "update n/a 1->2"]);
}

#[test]
fn clearing_keeps_deletes_of_what_was_shown_and_names_what_was_not() {
    let now = Instant::now();
    let mut queue = Queue::new(100, Merge::All);
    push(&mut queue, vec![add("n/tried", 1)]);
    let taken = queue.take(now).expect("an event");
    queue.retry(&taken.id, now + Duration::from_secs(9), true);
    push(
        &mut queue,
        vec![
            delete("n/tried", 2),
            add("n/new", 3),
            add("n/brief", 4),
            delete("n/brief", 5),
            update("n/old", 1, 6),
            delete("n/old", 7),
            add("n/old", 8),
        ],
    );
    let cleared = queue.clear(0, Keep::Deletes);
    let unseen: Vec<String> = cleared.unseen.iter().map(ToString::to_string).collect();
    let unseen: std::collections::BTreeSet<&str> = unseen.iter().map(String::as_str).collect();
    assert_eq!(unseen, ["n/new", "n/old"].into(), "the present n/old is not the one that was shown");
    assert_eq!(cleared.dropped, 5);
    assert_eq!(queue.retrying(), 0, "attempts and back-off start afresh");
    let first = queue.take(now).expect("a delete");
    assert_eq!((told(&first.event).as_str(), first.attempt), ("delete n/tried 2", 1));
    queue.finish(&first.id);
    assert_eq!(drain(&mut queue), ["delete n/old 7"]);
    assert_eq!(queue.len(), 0);
}

#[test]
fn clearing_one_registration_leaves_the_others() {
    let mut queue = queue(vec![add(KEY, 1), delete("n/b", 2)], Merge::All);
    let other = EntryKey { registration: 7, object: id(KEY).object };
    queue.push(other, add(KEY, 9), arrival(), &View::of_everything());
    assert_eq!(queue.clear(0, Keep::Nothing).dropped, 2);
    assert_eq!(drain(&mut queue), ["add n/a 9"]);
}
