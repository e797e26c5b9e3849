//! The values a kube-apiserver fills in where a manifest leaves them out: those that people and plugins look at.
//!
//! Used by writes. A table of (collection, where, what); `*` stands for every element of a list. This is a
//! part of the real server's defaults, not all of them.

use base64::Engine as _;
use serde_json::{Value, json};

/// Parent path and the defaults of its fields, as JSON.
type Row = (&'static [&'static str], &'static str, &'static str);

const POD_SPEC: &str = r#"{"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","securityContext":{},"schedulerName":"default-scheduler"}"#;
const CONTAINER: &str =
    r#"{"resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}"#;
const WITH_TEMPLATE: &[&str] = &[
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "replicationcontrollers",
    "jobs.batch",
];
const REPLICATED: &[&str] =
    &["deployments.apps", "replicasets.apps", "statefulsets.apps", "replicationcontrollers"];

const ROWS: &[Row] = &[
    (&["pods"], "spec", POD_SPEC),
    (
        &["pods"],
        "spec",
        r#"{"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}"#,
    ),
    (&["pods"], "spec.containers.*", CONTAINER),
    (&["pods"], "spec.containers.*.ports.*", r#"{"protocol":"TCP"}"#),
    (&["pods"], "", r#"{"status":{"phase":"Pending","qosClass":"BestEffort"}}"#),
    (REPLICATED, "spec", r#"{"replicas":1}"#),
    (WITH_TEMPLATE, "spec.template.spec", POD_SPEC),
    (WITH_TEMPLATE, "spec.template.spec.containers.*", CONTAINER),
    (WITH_TEMPLATE, "spec.template.spec.containers.*.ports.*", r#"{"protocol":"TCP"}"#),
    (
        &["deployments.apps"],
        "spec",
        r#"{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%","maxSurge":"25%"}},"revisionHistoryLimit":10,"progressDeadlineSeconds":600}"#,
    ),
    (WITH_TEMPLATE, "", r#"{"status":{}}"#),
    (&["statefulsets.apps"], "spec", r#"{"podManagementPolicy":"OrderedReady","revisionHistoryLimit":10}"#),
    (&["jobs.batch"], "spec", r#"{"parallelism":1,"completions":1,"backoffLimit":6,"suspend":false}"#),
    (
        &["cronjobs.batch"],
        "spec",
        r#"{"concurrencyPolicy":"Allow","suspend":false,"successfulJobsHistoryLimit":3,"failedJobsHistoryLimit":1}"#,
    ),
    (&["services"], "spec", r#"{"type":"ClusterIP","sessionAffinity":"None"}"#),
    (&["services"], "spec.ports.*", r#"{"protocol":"TCP"}"#),
    (&["services"], "", r#"{"status":{"loadBalancer":{}}}"#),
    (&["secrets"], "", r#"{"type":"Opaque"}"#),
    (&["namespaces"], "", r#"{"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#),
    (&["persistentvolumeclaims", "persistentvolumes"], "", r#"{"status":{"phase":"Pending"}}"#),
    (&["persistentvolumeclaims", "persistentvolumes"], "spec", r#"{"volumeMode":"Filesystem"}"#),
    (&["storageclasses.storage.k8s.io"], "", r#"{"reclaimPolicy":"Delete","volumeBindingMode":"Immediate"}"#),
    (&["customresourcedefinitions.apiextensions.k8s.io"], "spec", r#"{"conversion":{"strategy":"None"}}"#),
];

/// Fills in what is left out.
pub(crate) fn apply(collection: &str, object: &mut Value) {
    for (_, path, fields) in ROWS.iter().filter(|(collections, ..)| collections.contains(&collection)) {
        let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(fields) else { continue };
        let path: Vec<&str> = path.split('.').filter(|p| !p.is_empty()).collect();
        each(object, &path, &mut |place| {
            for (key, value) in &fields {
                place.entry(key.clone()).or_insert_with(|| value.clone());
            }
        });
    }
    match collection {
        "secrets" => string_data(object),
        "services" => cluster_ip(object),
        crate::resources::EVENTS => crate::events::fill_zero_values(object),
        _ => {}
    }
}

fn each(value: &mut Value, path: &[&str], apply: &mut impl FnMut(&mut serde_json::Map<String, Value>)) {
    match (path, value) {
        ([], Value::Object(map)) => apply(map),
        (["*", rest @ ..], Value::Array(items)) => {
            for item in items {
                each(item, rest, apply);
            }
        }
        ([key, rest @ ..], Value::Object(map)) => {
            if let Some(next) = map.get_mut(*key) {
                each(next, rest, apply);
            }
        }
        _ => {}
    }
}

/// `stringData` is written only: it ends up encoded in `data`.
fn string_data(secret: &mut Value) {
    let Some(object) = secret.as_object_mut() else { return };
    let Some(Value::Object(plain)) = object.remove("stringData") else { return };
    let data = object.entry("data").or_insert_with(|| json!({}));
    if data.is_null() {
        *data = json!({});
    }
    let Some(data) = data.as_object_mut() else { return };
    for (key, value) in plain {
        let encoded = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
        data.insert(key, json!(encoded));
    }
}

/// An address for a service that wants one; drawn, since nothing routes to it.
fn cluster_ip(service: &mut Value) {
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("type") == Some(&json!("ExternalName")) || spec.contains_key("clusterIP") {
        return;
    }
    let (a, b): (u8, u8) = rand::random();
    let ip = format!("10.96.{a}.{}", b.max(1));
    spec.insert("clusterIPs".into(), json!([ip]));
    spec.insert("clusterIP".into(), json!(ip));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_fill_gaps_and_never_overwrite() {
        let mut pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "a"}, {"name": "b", "resources": {"x": 1}}]}});
        apply("pods", &mut pod);
        assert_eq!(pod["spec"]["restartPolicy"], "Never");
        assert_eq!(pod["spec"]["dnsPolicy"], "ClusterFirst");
        assert_eq!(pod["spec"]["containers"][0]["terminationMessagePolicy"], "File");
        assert_eq!(pod["spec"]["containers"][1]["resources"], json!({"x": 1}));
        assert_eq!(pod["status"]["phase"], "Pending");
    }

    #[test]
    fn string_data_becomes_data() {
        let mut secret = json!({"stringData": {"k": "v"}, "data": {"a": "Yg=="}});
        apply("secrets", &mut secret);
        assert_eq!(secret, json!({"data": {"a": "Yg==", "k": "dg=="}, "type": "Opaque"}));
    }
}
