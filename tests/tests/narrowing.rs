//! What a plugin asks the host to leave out, hand over and look up, with the built binary, on the real API server and
//! on the embedded one.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use hark_tests::cluster::Cluster;
use hark_tests::guests::fixture;
use hark_tests::hark::{Hark, Setup};
use hark_tests::http::get;
use hark_tests::on_both_servers;
use hark_tests::trace::Line;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

on_both_servers! {
    a_plugin_is_told_what_satisfies_its_conditions_and_changed_and_is_shown_its_fields
    a_plugin_asks_the_cache_by_its_indexes
    four_instances_share_the_objects_and_each_object_stays_with_one
    namespaces_are_followed_by_their_labels
    a_narrower_subscription_is_served_by_the_wider_informer_that_runs
}

/// ConfigMaps of one namespace, written with labels and data.
struct Maps(Api<ConfigMap>);

impl Maps {
    fn new(cluster: &Cluster, namespace: &str) -> Self {
        Self(Api::namespaced(cluster.client(), namespace))
    }

    async fn create(&self, name: &str, labels: Value, data: Value) -> Result<String> {
        let object = json!({"metadata": {"name": name, "labels": labels}, "data": data});
        let object = self.0.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        object.metadata.resource_version.context("a version")
    }

    async fn patch(&self, name: &str, patch: Value) -> Result<String> {
        let object = self.0.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        object.metadata.resource_version.context("a version")
    }

    async fn delete(&self, name: &str) -> Result<()> {
        self.0.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }
}

/// `add n/a 5`, `update n/a 5->7`, `delete n/a 5 filtered`: what a plugin was told of our namespaces, in order. The
/// version of a deletion by the watch is the deletion's own, which nobody else is told.
fn told(trace: &[Line], plugin: &str) -> Vec<String> {
    let ours = trace.iter().filter(|line| line.plugin == plugin && !line.key.starts_with("kube-"));
    ours.map(|line| {
        let Line { op, key, rv, .. } = line;
        match (line.old_rv.as_deref(), line.reason.as_deref()) {
            (Some(old), _) => format!("{op} {key} {old}->{rv}"),
            (None, Some("deleted")) => format!("{op} {key} deleted"),
            (None, Some(reason)) => format!("{op} {key} {rv} {reason}"),
            (None, None) => format!("{op} {key} {rv}"),
        }
    })
    .collect()
}

/// By object, in order: across objects no order is promised.
fn by_key(told: &[String]) -> BTreeMap<&str, Vec<&str>> {
    let mut keys: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in told {
        keys.entry(line.split(' ').nth(1).expect("a key")).or_default().push(line);
    }
    keys
}

/// Waits until a plugin was told as many events, and compares them object by object.
async fn is_told(hark: &Hark, plugin: &str, want: &[String]) {
    let what = format!("{} events", want.len());
    let trace = hark.traces(&what, |trace| told(trace, plugin).len() >= want.len()).await;
    assert_eq!(by_key(&told(&trace, plugin)), by_key(want));
}

async fn a_plugin_is_told_what_satisfies_its_conditions_and_changed_and_is_shown_its_fields(
    cluster: &mut Cluster,
) -> Result<()> {
    let maps = Maps::new(cluster, "default");
    let yes = || json!({"watch": "yes"});
    let a1 = maps.create("a", yes(), json!({"phase": "on", "text": "1"})).await?;
    maps.create("off", yes(), json!({"phase": "off"})).await?;
    let hark = Setup::new()?.plugin("filtered", &fixture("filtered"))?.run(cluster.kubeconfig())?;
    is_told(&hark, "filtered", &[format!("add default/a {a1}")]).await;

    maps.create("b", json!({"watch": "no"}), json!({"text": "x"})).await?;
    let a2 = maps.patch("a", json!({"data": {"text": "2"}})).await?;
    let a3 = maps.patch("a", json!({"metadata": {"annotations": {"not": "named"}}})).await?;
    maps.patch("a", json!({"data": {"phase": "off"}})).await?;
    maps.patch("a", json!({"data": {"text": "3"}})).await?;
    let a4 = maps.patch("a", json!({"data": {"phase": "on again"}})).await?;
    let b = maps.patch("b", json!({"metadata": {"labels": {"watch": "yes"}}})).await?;
    let a5 = maps.patch("a", json!({"data": {"text": "4"}})).await?;
    maps.delete("a").await?;
    maps.patch("b", json!({"metadata": {"labels": {"watch": null}}})).await?;
    let want = [
        format!("add default/a {a1}"),
        format!("update default/a {a1}->{a2}"),
        format!("delete default/a {a3} filtered"),
        format!("add default/a {a4}"),
        format!("add default/b {b}"),
        format!("update default/a {a4}->{a5}"),
        "delete default/a deleted".to_owned(),
        format!("delete default/b {b} filtered"),
    ];
    is_told(&hark, "filtered", &want).await;
    let shown = [
        r#"add default/a - {"metadata":{"name":"a"},"data":{"phase":"on","text":"1"}}"#,
        r#"update default/a - {"metadata":{"name":"a"},"data":{"phase":"on","text":"1"}} -> {"metadata":{"name":"a"},"data":{"phase":"on","text":"2"}}"#,
        r#"delete default/b filtered {"metadata":{"name":"b"},"data":{"text":"x"}}"#,
    ];
    let stderr = hark.stderr();
    for line in shown {
        assert!(stderr.contains(line) || stderr.contains(&data_first(line)), "{line} is not in\n{stderr}");
    }
    Ok(())
}

/// The same line with `data` before `metadata`: which comes first is the server's to decide.
fn data_first(line: &str) -> String {
    let mut swapped = String::new();
    let mut rest = line;
    while let Some((before, object)) = rest.split_once(r#"{"metadata":"#) {
        let (metadata, data) = object.split_once(r#","data":"#).expect("both members");
        let (data, after) = data.split_once("}}").expect("the end");
        swapped += &format!(r#"{before}{{"data":{data}}},"metadata":{metadata}}}"#);
        rest = after;
    }
    swapped + rest
}

async fn a_plugin_asks_the_cache_by_its_indexes(cluster: &mut Cluster) -> Result<()> {
    let maps = Maps::new(cluster, "default");
    for (name, team) in [("one", "a"), ("two", "b"), ("three", "a"), ("four", "a")] {
        maps.create(name, json!({"team": team}), json!({})).await?;
    }
    let hark = Setup::new()?.plugin("indexed", &fixture("indexed"))?.run(cluster.kubeconfig())?;
    hark.says(&["add default/one a=four,one,three, teams=a,b,"]).await;
    maps.patch("two", json!({"metadata": {"labels": {"team": "c"}}})).await?;
    hark.says(&["update default/two a=four,one,three, teams=a,c,"]).await;
    maps.delete("one").await?;
    hark.says(&["delete default/one a=four,three, teams=a,c,"]).await;
    Ok(())
}

async fn four_instances_share_the_objects_and_each_object_stays_with_one(
    cluster: &mut Cluster,
) -> Result<()> {
    for number in 0..40 {
        cluster.create(&format!("map-{number:02}"), "0").await?;
    }
    let hark = Setup::new()?.plugin("concurrent", &fixture("concurrent"))?.run(cluster.kubeconfig())?;
    let ours = |trace: &[Line]| trace.iter().filter(|line| line.key.starts_with("default/map-")).count();
    hark.traces("40 initial adds", |trace| ours(trace) == 40).await;
    for number in 0..40 {
        cluster.update(&format!("map-{number:02}"), "1").await?;
    }
    let trace = hark.traces("40 updates", |trace| ours(trace) == 80).await;
    for number in 0..40 {
        let key = format!("default/map-{number:02}");
        let ops: Vec<&str> =
            trace.iter().filter(|line| line.key == key).map(|line| line.op.as_str()).collect();
        assert_eq!(ops, ["add", "update"], "{key}");
    }
    let firsts = hark.stderr().matches(" 1 plugin=\"concurrent\"").count();
    assert_eq!(firsts, 4, "each instance has a first event, and there are four\n{}", hark.stderr());
    hark.save("concurrent", &fixture("counter-v1"))?;
    hark.says(&["concurrent reloaded: "]).await;
    cluster.update("map-00", "2").await?;
    let trace = hark.traces("the update, by one instance again", |trace| ours(trace) > 80).await;
    // The new version proposes nothing, so the usual holds: it starts with a replay.
    assert!(trace.iter().any(|line| line.generation == 2 && line.initial));
    Ok(())
}

async fn namespaces_are_followed_by_their_labels(cluster: &mut Cluster) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    for (name, team) in [("web-1", "web"), ("web-2", "web"), ("db-1", "db")] {
        let object = json!({"metadata": {"name": name, "labels": {"team": team}}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    }
    let mut versions = Vec::new();
    for name in ["web-1", "web-2", "db-1"] {
        versions.push(Maps::new(cluster, name).create("map", json!({}), json!({})).await?);
    }
    let hark = Setup::new()?.plugin("followed", &fixture("followed"))?.run(cluster.kubeconfig())?;
    let mut want = vec![format!("add web-1/map {}", versions[0]), format!("add web-2/map {}", versions[1])];
    is_told(&hark, "followed", &want).await;

    let relabel = async |name: &str, team: &str| {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"team": team}}}));
        namespaces.patch(name, &PatchParams::default(), &patch).await
    };
    relabel("db-1", "web").await?;
    want.push(format!("add db-1/map {}", versions[2]));
    is_told(&hark, "followed", &want).await;
    relabel("web-1", "db").await?;
    want.push(format!("delete web-1/map {} namespace-left", versions[0]));
    is_told(&hark, "followed", &want).await;
    Maps::new(cluster, "web-1").patch("map", json!({"data": {"not": "ours"}})).await?;
    let changed = Maps::new(cluster, "db-1").patch("map", json!({"data": {"is": "ours"}})).await?;
    want.push(format!("update db-1/map {}->{changed}", versions[2]));
    is_told(&hark, "followed", &want).await;
    Ok(())
}

async fn a_narrower_subscription_is_served_by_the_wider_informer_that_runs(
    cluster: &mut Cluster,
) -> Result<()> {
    let maps = Maps::new(cluster, "default");
    let first = maps.create("first", json!({"watch": "yes"}), json!({})).await?;
    maps.create("second", json!({}), json!({})).await?;
    let hark = Setup::new()?
        .plugin("wide", &fixture("counter-v1"))?
        .admin(Some("127.0.0.1:0"))
        .run(cluster.kubeconfig())?;
    hark.traces("the wide plugin's adds", |trace| told(trace, "wide").len() >= 2).await;
    hark.save("narrow", &fixture("narrow"))?;
    is_told(&hark, "narrow", &[format!("add default/first {first}")]).await;
    let answer = get(hark.admin().await, "/api/informers").await?;
    let informers: Value = serde_json::from_str(&answer.body)?;
    let informers = informers["informers"].as_array().context("a list of informers")?;
    assert_eq!(informers.len(), 1, "one watch serves both: {}", answer.body);

    // Leaving the selector is what it would be with a watch of its own.
    maps.patch("first", json!({"metadata": {"labels": {"watch": "no"}}})).await?;
    let again = maps.patch("first", json!({"metadata": {"labels": {"watch": "yes"}}})).await?;
    let want = [
        format!("add default/first {first}"),
        "delete default/first deleted".to_owned(),
        format!("add default/first {again}"),
    ];
    is_told(&hark, "narrow", &want).await;
    Ok(())
}
