//! What a filter costs an event: Pod-like objects of 3 KB and 30 KB, with 1, 4 and 16 pointers.
//!
//! `cargo bench -p hark-informer --bench filter`. `parse` is what building a tree of the same text would cost.

use std::hint::black_box;
use std::sync::Arc;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hark_informer::filter::{Condition, Fields, Filter, FilterSpec, Operator};
use hark_informer::object::{Ingest, Object};

/// The first 1, the first 4, all 16. Half of them are under lists; the last one is at the end of the text.
const POINTERS: [&str; 16] = [
    "/status/phase",
    "/metadata/labels/app",
    "/spec/containers/*/image",
    "/spec/nodeName",
    "/metadata/name",
    "/metadata/ownerReferences/*/uid",
    "/spec/containers/*/name",
    "/spec/containers/*/resources/limits/memory",
    "/spec/restartPolicy",
    "/spec/serviceAccountName",
    "/spec/tolerations/*/key",
    "/status/conditions/*/type",
    "/status/conditions/*/status",
    "/status/containerStatuses/*/ready",
    "/status/podIP",
    "/status/qosClass",
];

fn container(number: usize) -> String {
    let variable = |name: &&str| format!(r#"{{"name":"{name}","value":"value-of-{name}-{number}"}}"#);
    let variables: Vec<_> =
        ["LOG_LEVEL", "LISTEN_ADDRESS", "UPSTREAM", "REGION"].iter().map(variable).collect();
    let env = variables.join(",");
    format!(
        r#"{{"name":"c{number}","image":"registry.example.com/team/app-{number}:v1.2.3","env":[{env}],"resources":{{"limits":{{"cpu":"500m","memory":"256Mi"}},"requests":{{"cpu":"100m","memory":"64Mi"}}}},"volumeMounts":[{{"name":"token","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"imagePullPolicy":"IfNotPresent"}}"#
    )
}

fn container_status(number: usize) -> String {
    format!(
        r#"{{"name":"c{number}","state":{{"running":{{"startedAt":"2026-11-29T14:11:44Z"}}}},"ready":true,"restartCount":0,"imageID":"registry.example.com/team/app-{number}@sha256:0123456789abcdef0123456789abcdef"}}"#
    )
}

/// A Pod with its members in the API server's order.
fn pod(containers: usize, resource_version: u32) -> Arc<Object> {
    let specs: Vec<_> = (0..containers).map(container).collect();
    let statuses: Vec<_> = (0..containers).map(container_status).collect();
    let text = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"web-7d4b9c6f5-x2x8q","namespace":"shop","uid":"ff35f5ac-6c5d-49c2-9644-fdf4d7c347f6","resourceVersion":"{resource_version}","creationTimestamp":"2026-11-29T14:11:44Z","labels":{{"app":"web","tier":"front"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7d4b9c6f5","uid":"11111111-6c5d-49c2-9644-fdf4d7c347f6"}}]}},"spec":{{"containers":[{}],"restartPolicy":"Always","serviceAccountName":"web","nodeName":"node-17","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}]}},"status":{{"phase":"Running","conditions":[{{"type":"Ready","status":"True","lastTransitionTime":"2026-11-29T14:11:50Z"}}],"hostIP":"10.0.0.17","podIP":"10.1.4.23","startTime":"2026-11-29T14:11:44Z","containerStatuses":[{}],"qosClass":"Burstable"}}}}"#,
        specs.join(","),
        statuses.join(","),
    );
    Object::parse(&text, None, Ingest::default()).expect("a Pod")
}

fn filter(spec: FilterSpec) -> Filter {
    Filter::compile(spec).expect("a filter")
}

fn pointers(count: usize) -> Vec<String> {
    POINTERS[..count].iter().map(|text| (*text).to_owned()).collect()
}

/// Conditions that hold, so that all of them have to be looked at.
fn conditions(count: usize) -> Vec<Condition> {
    let values = || vec!["something-else".to_owned()];
    let condition = |pointer| Condition { pointer, operator: Operator::NotIn, values: values() };
    pointers(count).into_iter().map(condition).collect()
}

fn bench(c: &mut Criterion) {
    for (name, containers) in [("3KB", 3), ("30KB", 41)] {
        let (old, new) = (pod(containers, 100), pod(containers, 101));
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes(u64::try_from(new.json().len()).expect("a length")));
        group.bench_function("parse", |b| {
            b.iter(|| serde_json::from_str::<serde_json::Value>(black_box(new.json())));
        });
        for count in [1, 4, 16] {
            bench_pointers(&mut group, count, &old, &new);
        }
        group.finish();
    }
}

fn bench_pointers(
    group: &mut BenchmarkGroup<'_, WallTime>,
    count: usize,
    old: &Arc<Object>,
    new: &Arc<Object>,
) {
    let by_where = filter(FilterSpec { conditions: conditions(count), ..FilterSpec::default() });
    group.bench_function(BenchmarkId::new("where", count), |b| {
        b.iter(|| by_where.satisfies(black_box(new)));
    });
    let changed = filter(FilterSpec { changed: pointers(count), ..FilterSpec::default() });
    assert!(!changed.is_change(old, new), "only the resourceVersion differs");
    group.bench_function(BenchmarkId::new("changed", count), |b| {
        b.iter(|| changed.is_change(black_box(old), black_box(new)));
    });
    let fields = Fields::compile(&pointers(count)).expect("pointers");
    group.bench_function(BenchmarkId::new("project", count), |b| {
        b.iter(|| fields.project(black_box(new)));
    });
    let known = filter(FilterSpec { fields: pointers(count), ..FilterSpec::default() });
    group.bench_function(BenchmarkId::new("project-again", count), |b| {
        b.iter(|| known.project(black_box(new)));
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
