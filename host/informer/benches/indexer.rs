//! What the cache costs at 1,000 and 100,000 objects: a write, a read, a page, a filtered page, a whole list.
//!
//! `cargo bench -p hark-informer --bench indexer`. Writes keep one index with as many values as there are groups
//! of a hundred objects.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use hark_informer::indexer::{IndexFn, Indexer};
use hark_informer::object::{Ingest, Object, ObjectKey};

const SIZES: [usize; 2] = [1_000, 100_000];

/// One of `number`, in ten namespaces.
fn object(number: usize, version: u32) -> Arc<Object> {
    let (namespace, group) = (number % 10, number / 100);
    let text = format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"map-{number}","namespace":"team-{namespace}","uid":"{group}","resourceVersion":"{version}"}}}}"#
    );
    Object::parse(&text, None, Ingest::default()).expect("an object")
}

fn filled(size: usize) -> Indexer {
    let by_group: IndexFn = Arc::new(|object| vec![object.uid().to_owned()]);
    let indexer = Indexer::new();
    indexer.add_indexers(vec![("group".into(), by_group)]).expect("no conflict");
    indexer.replace((0..size).map(|number| object(number, 1)).collect(), "1");
    indexer
}

fn cost(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("indexer");
    for size in SIZES {
        let indexer = filled(size);
        let id = |what| BenchmarkId::new(what, size);
        let states: Vec<_> = (0..1000).map(|at| object(at * (size / 1000), 2)).collect();
        let mut next = states.iter().cycle();
        let mut state = || next.next().expect("a cycle").clone();
        group.bench_function(id("upsert"), |bench| bench.iter(|| indexer.upsert(state())));
        group.bench_function(id("get"), |bench| bench.iter(|| indexer.get(black_box(state().key()))));
        let after = ObjectKey::new("team-5", "map-5");
        group.bench_function(id("range of 500"), |bench| bench.iter(|| indexer.range("", Some(&after), 500)));
        let none = |_: &Object| false;
        group.bench_function(id("range_where looking at 500"), |bench| {
            bench.iter(|| indexer.range_where("", Some(&after), 500, 500, none));
        });
        group.bench_function(id("by_index of 100"), |bench| bench.iter(|| indexer.by_index("group", "5")));
        group.bench_function(id("list"), |bench| bench.iter(|| indexer.list()));
        let all = indexer.list();
        group.bench_function(id("replace"), |bench| bench.iter(|| indexer.replace(all.clone(), "2")));
    }
    group.finish();
}

criterion_group!(benches, cost);
criterion_main!(benches);
