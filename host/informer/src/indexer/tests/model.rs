//! Random writes against the obvious model: a map, searched from end to end.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Op {
    Upsert(u8, Vec<u8>),
    Remove(u8),
    RemoveObject(u8),
    Replace(Vec<(u8, Vec<u8>)>),
    AddIndex,
    RemoveIndex,
}

fn op() -> impl Strategy<Value = Op> {
    let values = prop::collection::vec(0..3_u8, 0..4);
    let state = (0..9_u8, values);
    prop_oneof![
        6 => state.clone().prop_map(|(key, values)| Op::Upsert(key, values)),
        2 => (0..9_u8).prop_map(Op::Remove),
        1 => (0..9_u8).prop_map(Op::RemoveObject),
        1 => prop::collection::vec(state, 0..6).prop_map(Op::Replace),
        1 => Just(Op::AddIndex),
        1 => Just(Op::RemoveIndex),
    ]
}

/// Three namespaces of three objects each; the last is that of cluster-scoped ones.
fn key(key: u8) -> String {
    let name = key % 3;
    ["a/", "b/", ""].map(|namespace| format!("{namespace}{name}"))[usize::from(key / 3)].clone()
}

fn state(of: u8, values: &[u8], version: usize) -> Arc<Object> {
    let uid = values.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
    object(&key(of), &uid, &version.to_string())
}

#[derive(Default)]
struct Model {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    version: String,
    indexed: bool,
}

impl Model {
    fn apply(&mut self, op: &Op, version: usize) {
        let insert = |objects: &mut BTreeMap<_, _>, object: Arc<Object>| {
            objects.insert(object.key().clone(), object);
        };
        match op {
            Op::Upsert(key, values) => {
                insert(&mut self.objects, state(*key, values, version));
                self.version = version.to_string();
            }
            Op::Remove(key) => drop(self.objects.remove(state(*key, &[], 0).key())),
            Op::RemoveObject(key) => {
                self.objects.remove(state(*key, &[], 0).key());
                self.version = version.to_string();
            }
            Op::Replace(states) => {
                self.objects.clear();
                states
                    .iter()
                    .for_each(|(key, values)| insert(&mut self.objects, state(*key, values, version)));
                self.version = version.to_string();
            }
            Op::AddIndex => self.indexed = true,
            Op::RemoveIndex => self.indexed = false,
        }
    }

    fn under(&self, value: &str) -> Vec<Arc<Object>> {
        let has = |object: &&Arc<Object>| object.uid().split(',').any(|part| part == value);
        self.objects.values().filter(has).cloned().collect()
    }
}

fn apply(indexer: &Indexer, op: &Op, version: usize) {
    match op {
        Op::Upsert(key, values) => drop(indexer.upsert(state(*key, values, version))),
        Op::Remove(key) => drop(indexer.remove(state(*key, &[], 0).key())),
        Op::RemoveObject(key) => drop(indexer.remove_object(&state(*key, &[], version))),
        Op::Replace(states) => {
            let states = states.iter().map(|(key, values)| state(*key, values, version));
            indexer.replace(states.collect(), &version.to_string());
        }
        Op::AddIndex => drop(indexer.add_indexers(vec![("uid".into(), by_uid())])),
        Op::RemoveIndex => drop(indexer.remove_indexer("uid")),
    }
}

proptest! {
    #[test]
    fn the_indexer_answers_as_a_searched_map_does(ops in prop::collection::vec(op(), 0..40)) {
        let (indexer, mut model) = (Indexer::new(), Model::default());
        for (version, op) in ops.iter().enumerate() {
            model.apply(op, version);
            apply(&indexer, op, version);
            let all: Vec<_> = model.objects.values().cloned().collect();
            prop_assert_eq!(indexer.list(), all.clone());
            prop_assert_eq!(indexer.bytes(), all.iter().map(|object| object.json().len()).sum::<usize>());
            prop_assert_eq!(indexer.resource_version(), model.version.clone());
            for namespace in ["", "a", "b"] {
                let of: Vec<_> = all.iter().filter(|o| o.key().namespace() == namespace).cloned().collect();
                prop_assert_eq!(indexer.by_index(NAMESPACE_INDEX, namespace), Ok(of));
            }
            if !model.indexed {
                prop_assert!(indexer.by_index("uid", "0").is_err());
                continue;
            }
            let values: Vec<_> = ["0", "1", "2"].into_iter().filter(|v| !model.under(v).is_empty()).collect();
            prop_assert_eq!(indexer.index_values("uid"), values);
            for value in ["0", "1", "2"] {
                prop_assert_eq!(indexer.by_index("uid", value), Ok(model.under(value)));
            }
        }
    }
}
