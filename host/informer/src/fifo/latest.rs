//! The order of a plain queue: newest value a key, in the place of its first.
//!
//! Used by [`super::Fifo`], and by whoever has a lock of their own. Pure bookkeeping. Invariants: each key with a
//! value has one valid place; places that are not valid are at most as many as valid ones, and a few more.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Places left by removed keys that are borne before the order is tidied.
const FEW: usize = 32;

/// A queue that holds the newest value of each key. All is done in constant time, on the whole.
#[derive(Debug, Clone)]
pub struct Latest<K, V> {
    items: HashMap<K, Placed<V>>,
    /// A place is valid if the key has a value with its number; the others are passed over.
    order: VecDeque<(u64, K)>,
    next: u64,
}

#[derive(Debug, Clone)]
struct Placed<V> {
    place: u64,
    value: V,
}

impl<K, V> Default for Latest<K, V> {
    fn default() -> Self {
        Self { items: HashMap::new(), order: VecDeque::new(), next: 0 }
    }
}

impl<K: Hash + Eq + Clone, V> Latest<K, V> {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many keys wait.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What waits of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.items.get(key).map(|placed| &placed.value)
    }

    /// The same, to be changed in its place.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.items.get_mut(key).map(|placed| &mut placed.value)
    }

    /// Puts a value in the place of the one that waits, and gives that one; at the tail if none does.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(waiting) = self.get_mut(&key) {
            return Some(std::mem::replace(waiting, value));
        }
        self.append(key, value);
        None
    }

    /// Puts a value at the tail if none of the key waits; gives whether it did.
    pub fn insert_if_absent(&mut self, key: K, value: V) -> bool {
        let absent = !self.items.contains_key(&key);
        if absent {
            self.append(key, value);
        }
        absent
    }

    /// Takes a key out of the queue, place and all.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let placed = self.items.remove(key)?;
        self.tidy();
        Some(placed.value)
    }

    /// Takes the key out whose turn it is.
    pub fn pop(&mut self) -> Option<(K, V)> {
        loop {
            let (place, key) = self.order.pop_front()?;
            if is_valid(&self.items, place, &key) {
                let placed = self.items.remove(&key)?;
                self.tidy();
                return Some((key, placed.value));
            }
        }
    }

    /// Everything that waits, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let valid = self.order.iter().filter(|(place, key)| is_valid(&self.items, *place, key));
        valid.filter_map(|(_, key)| Some((key, self.get(key)?)))
    }

    fn append(&mut self, key: K, value: V) {
        let place = self.next;
        self.next += 1;
        self.order.push_back((place, key.clone()));
        self.items.insert(key, Placed { place, value });
    }

    fn tidy(&mut self) {
        if self.order.len() > 2 * self.items.len() + FEW {
            let items = &self.items;
            self.order.retain(|(place, key)| is_valid(items, *place, key));
        }
    }

    /// Places kept, valid or not.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.order.len()
    }
}

fn is_valid<K: Hash + Eq, V>(items: &HashMap<K, Placed<V>>, place: u64, key: &K) -> bool {
    items.get(key).is_some_and(|placed| placed.place == place)
}
