//! Letters that are under way again, and what tells that they have arrived.
//!
//! Used by the host's dead letters, from the admin port's task and the plugins' threads. A replay has arrived when
//! its object is handled, by a delivery with the sequence that the listener gave it or a later one. Invariant: the
//! lock is held from before the event is queued until its sequence is noted, so a fast plugin is not missed; while
//! nothing is replayed, a delivery costs one look at a number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hark_informer::handler::Delivery;
use hark_informer::listener::Redelivered;
use hark_informer::object::ObjectKey;

use super::letter::Letter;

/// Plugin, subscription and object.
type Target = (String, String, ObjectKey);

/// See the file's head.
#[derive(Default)]
pub(crate) struct Replays {
    under_way: Mutex<HashMap<Target, Vec<UnderWay>>>,
    count: AtomicUsize,
}

struct UnderWay {
    id: String,
    sequence: u64,
}

impl Replays {
    /// Queues a letter's event by `queue`, and notes its sequence.
    pub(crate) fn begin(&self, letter: &Letter, queue: impl FnOnce() -> Redelivered) -> Redelivered {
        let mut under_way = self.lock();
        // Before the event can be handled: see the fast path of `settle`. The count changes under the lock only.
        self.count.fetch_add(1, Ordering::SeqCst);
        let redelivered = queue();
        if let Redelivered::Queued { sequence } = redelivered {
            let target = (letter.plugin.clone(), letter.subscription.clone(), letter.object_key());
            let of_target = under_way.entry(target).or_default();
            // Asked for again: the later one counts.
            of_target.retain(|one| one.id != letter.id);
            of_target.push(UnderWay { id: letter.id.clone(), sequence });
        }
        self.recount(&under_way);
        redelivered
    }

    /// An event has been done with: the letters that it was the replay of.
    pub(crate) fn settle(&self, plugin: &str, subscription: &str, delivery: &Delivery) -> Vec<String> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let target = (plugin.to_owned(), subscription.to_owned(), delivery.event.key().clone());
        let mut under_way = self.lock();
        let Some(of_target) = under_way.get_mut(&target) else { return Vec::new() };
        let arrived = of_target.extract_if(.., |one| one.sequence <= delivery.sequence);
        let arrived = arrived.map(|one| one.id).collect();
        if of_target.is_empty() {
            under_way.remove(&target);
        }
        self.recount(&under_way);
        arrived
    }

    fn recount(&self, under_way: &HashMap<Target, Vec<UnderWay>>) {
        self.count.store(under_way.values().map(Vec::len).sum(), Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Target, Vec<UnderWay>>> {
        // A panic elsewhere leaves nothing half-written here.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use hark_informer::handler::Event;
    use hark_informer::object::Object;

    use super::*;

    fn letter(id: &str) -> Letter {
        let text = format!(
            r#"{{"id":"{id}","time":"t","plugin":"p","plugin_sha256":"h","generation":1,"subscription":"s",
            "api_version":"v1","kind":"Pod","op":"add","key":"n/a","uid":"u","rv":"1","reason":null,"attempts":1,
            "outcome":"trap","message":null,"object":null}}"#
        );
        serde_json::from_str(&text).expect("a letter")
    }

    fn delivery(name: &str, sequence: u64) -> Delivery {
        let object = Object::restore(ObjectKey::new("n", name), "u", "1", "{}").expect("an object");
        let event = Event::Add { object, initial: false };
        Delivery { subscription: 0, sequence, attempt: 1, arrived: SystemTime::UNIX_EPOCH, event }
    }

    #[test]
    fn a_replay_has_arrived_when_its_object_is_handled_with_its_sequence_or_a_later_one() {
        let replays = Replays::default();
        assert_eq!(replays.settle("p", "s", &delivery("a", 9)), [""; 0]);
        for (id, sequence) in [("one", 5), ("two", 7), ("one", 6)] {
            replays.begin(&letter(id), || Redelivered::Queued { sequence });
        }
        replays.begin(&letter("three"), || Redelivered::Busy);
        assert_eq!(replays.settle("p", "s", &delivery("a", 5)), [""; 0], "an older event");
        for (plugin, subscription, name) in [("q", "s", "a"), ("p", "t", "a"), ("p", "s", "b")] {
            assert_eq!(replays.settle(plugin, subscription, &delivery(name, 9)), [""; 0], "another's");
        }
        assert_eq!(replays.settle("p", "s", &delivery("a", 6)), ["one"]);
        assert_eq!(replays.settle("p", "s", &delivery("a", 8)), ["two"]);
        assert_eq!(replays.count.load(Ordering::SeqCst), 0);
    }
}
