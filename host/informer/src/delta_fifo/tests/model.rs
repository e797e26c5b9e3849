//! Random scripts against the obvious model: a list of keys with what happened to each, and a cache.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Op {
    Enqueue(DeltaKind, u8),
    Replace(Vec<u8>),
    Resync,
    /// Processed, but for so many of the last deltas, which are put back.
    Pop(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![Just(DeltaKind::Added), Just(DeltaKind::Updated), Just(DeltaKind::Deleted)];
    prop_oneof![
        6 => (kind, 0..4_u8).prop_map(|(kind, key)| Op::Enqueue(kind, key)),
        1 => prop::collection::vec(0..4_u8, 0..4).prop_map(Op::Replace),
        1 => Just(Op::Resync),
        4 => prop_oneof![3 => Just(0), 1 => 1..3_usize].prop_map(Op::Pop),
    ]
}

/// What a delta says: kind, version, tombstone.
type Said = (DeltaKind, usize, bool);

#[derive(Default)]
struct Model {
    /// In the order of the queue: key, what happened, of the first list.
    queue: Vec<(u8, Vec<Said>, bool)>,
    cache: BTreeMap<u8, usize>,
    populated: bool,
}

impl Model {
    fn queued(&mut self, key: u8) -> Option<&mut Vec<Said>> {
        self.queue.iter_mut().find(|(other, ..)| *other == key).map(|(_, said, _)| said)
    }

    fn push(&mut self, key: u8, next: Said) {
        let Some(said) = self.queued(key) else { return self.queue.push((key, vec![next], false)) };
        match (said.last().copied(), next) {
            (Some((DeltaKind::Deleted, _, true)), (DeltaKind::Deleted, ..)) => {
                said.pop();
                said.push(next);
            }
            (Some((DeltaKind::Deleted, ..)), (DeltaKind::Deleted, ..)) => {}
            _ => said.push(next),
        }
    }

    fn replace(&mut self, keys: &[u8], version: usize) {
        let gone: Vec<(u8, usize)> = (0..4_u8)
            .filter(|key| !keys.contains(key))
            .filter_map(|key| {
                let queued = self.queued(key).and_then(|said| said.last().map(|(_, version, _)| *version));
                Some((key, queued.or_else(|| self.cache.get(&key).copied())?))
            })
            .collect();
        keys.iter().for_each(|key| self.push(*key, (DeltaKind::Replaced, version, false)));
        gone.into_iter().for_each(|(key, version)| self.push(key, (DeltaKind::Deleted, version, true)));
        if !std::mem::replace(&mut self.populated, true) {
            self.queue.iter_mut().for_each(|(.., initial)| *initial = true);
        }
    }

    fn apply(&mut self, op: &Op, version: usize) {
        match op {
            Op::Enqueue(kind, key) => {
                self.populated = true;
                let known = self.queued(*key).is_some() || self.cache.contains_key(key);
                if *kind != DeltaKind::Deleted || known {
                    self.push(*key, (*kind, version, false));
                }
            }
            Op::Replace(keys) => self.replace(keys, version),
            Op::Resync => {
                for (key, version) in self.cache.clone() {
                    if self.queued(key).is_none() {
                        self.push(key, (DeltaKind::Sync, version, false));
                    }
                }
            }
            Op::Pop(_) => {}
        }
    }

    fn pop(&mut self, put_back: usize) -> Option<(u8, Vec<Said>, bool)> {
        let popped = (!self.queue.is_empty()).then(|| self.queue.remove(0))?;
        let (key, mut said, initial) = popped.clone();
        let rest = said.split_off(said.len().saturating_sub(put_back));
        for (kind, version, _) in said {
            match kind {
                DeltaKind::Deleted => drop(self.cache.remove(&key)),
                _ => drop(self.cache.insert(key, version)),
            }
        }
        if !rest.is_empty() {
            self.queue.push((key, rest, initial));
        }
        Some(popped)
    }

    fn synced(&self) -> bool {
        self.populated && self.queue.iter().all(|(.., initial)| !initial)
    }
}

fn of(key: u8, version: usize) -> Arc<Object> {
    at(&format!("{key}@{version}"))
}

fn said(delta: &Delta) -> Said {
    let version = delta.object.resource_version().parse().expect("a number");
    (delta.kind, version, delta.final_state_unknown)
}

/// Pops one key, keeps the cache, puts the last `put_back` deltas back.
fn pop_key(fifo: &DeltaFifo, put_back: usize) -> Option<(u8, Vec<Said>, bool)> {
    let process = &mut |popped| {
        let Popped::Deltas { key, mut deltas, initial } = popped else { return Processed::Done(None) };
        let all = deltas.iter().map(said).collect();
        let rest = deltas.split_off(deltas.len().saturating_sub(put_back));
        for delta in deltas {
            match delta.kind {
                DeltaKind::Deleted => drop(fifo.known.remove(&key)),
                _ => drop(fifo.known.upsert(delta.object)),
            }
        }
        Processed::Requeue(Some((key.name().parse().expect("a number"), all, initial)), rest)
    };
    loop {
        match fifo.try_pop(process) {
            Poll::Ready(Some(Some(popped))) => return Some(popped),
            Poll::Ready(Some(None)) => {}
            Poll::Ready(None) | Poll::Pending => return None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_does_what_the_model_does(ops in prop::collection::vec(op(), 0..60)) {
        let (fifo, mut model) = (fifo(""), Model::default());
        for (version, op) in ops.iter().enumerate() {
            model.apply(op, version);
            match op {
                Op::Enqueue(kind, key) => prop_assert!(fifo.try_enqueue(*kind, &of(*key, version)).is_ready()),
                Op::Replace(keys) => fifo.replace(keys.iter().map(|key| of(*key, version)).collect(), ""),
                Op::Resync => fifo.resync(),
                Op::Pop(put_back) => prop_assert_eq!(pop_key(&fifo, *put_back), model.pop(*put_back)),
            }
            prop_assert_eq!(fifo.has_synced(), model.synced());
            prop_assert_eq!(fifo.depth(), model.queue.iter().map(|(_, said, _)| said.len()).sum::<usize>());
        }
        while let Some(popped) = pop_key(&fifo, 0) {
            prop_assert_eq!(Some(popped), model.pop(0));
        }
        prop_assert_eq!(fifo.known.len(), model.cache.len());
        prop_assert!(model.queue.is_empty());
    }
}
