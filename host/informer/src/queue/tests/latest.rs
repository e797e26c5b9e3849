//! `delivery = "latest"` beside the plain FIFO, which is its meaning.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::fifo::Latest;

/// What happens next to one of a few keys.
#[derive(Debug, Clone)]
enum Act {
    Put(u8),
    Remove(u8),
    Take,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..5_u8).prop_map(Act::Put),
        2 => (0..5_u8).prop_map(Act::Remove),
        3 => Just(Act::Take),
    ]
}

/// A key and the version of its state.
type State = (u8, u32);

/// The queue and the FIFO, fed alike.
struct Both {
    queue: Queue,
    fifo: Latest<u8, u32>,
    /// Keys that have an object at present.
    present: BTreeSet<u8>,
    /// Keys that the handler was told of, and not told to be gone.
    known: BTreeSet<u8>,
    version: u32,
}

impl Both {
    fn put(&mut self, key: u8) {
        self.version += 1;
        let name = key.to_string();
        let event = if self.present.insert(key) {
            add(&name, self.version)
        } else {
            update(&name, self.version - 1, self.version)
        };
        push(&mut self.queue, vec![event]);
        self.fifo.insert(key, self.version);
    }

    fn remove(&mut self, key: u8) {
        if self.present.remove(&key) {
            self.version += 1;
            push(&mut self.queue, vec![delete(&key.to_string(), self.version)]);
            self.fifo.remove(&key);
        }
    }

    /// The next state from each; deletes, which the FIFO does not have, are checked on the way.
    fn take(&mut self) -> (Option<State>, Option<State>) {
        let mut state = None;
        while state.is_none()
            && let Some(taken) = self.queue.take(Instant::now())
        {
            self.queue.finish(&taken.id);
            let key: u8 = taken.event.key().name().parse().expect("a number");
            match taken.event {
                Event::Delete { .. } => {
                    assert!(self.known.remove(&key), "only what the handler knows is deleted");
                }
                event => {
                    let added = matches!(event, Event::Add { .. });
                    assert_eq!(
                        self.known.insert(key),
                        added,
                        "an add of what it does not know, else an update"
                    );
                    state = Some((key, event.object().resource_version().parse().expect("a number")));
                }
            }
        }
        (state, self.fifo.pop())
    }
}

proptest! {
    #[test]
    fn latest_gives_what_the_plain_fifo_gives_in_the_same_order(acts in proptest::collection::vec(act(), 0..80)) {
        let (present, known) = (BTreeSet::new(), BTreeSet::new());
        let mut both =
            Both { queue: Queue::new(10_000, Merge::Latest), fifo: Latest::new(), present, known, version: 0 };
        for act in acts {
            match act {
                Act::Put(key) => both.put(key),
                Act::Remove(key) => both.remove(key),
                Act::Take => {
                    let (ours, plain) = both.take();
                    prop_assert_eq!(ours, plain);
                }
            }
        }
        loop {
            let (ours, plain) = both.take();
            prop_assert_eq!(ours, plain);
            if ours.is_none() {
                break;
            }
        }
        prop_assert_eq!(&both.known, &both.present, "in the end the handler knows what there is");
        prop_assert_eq!(both.queue.len(), 0);
    }
}
