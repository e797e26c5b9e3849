//! The values a kube-apiserver fills in where a manifest leaves them out: those that people and plugins look at.
//!
//! Used by writes. A table of (collection, where, what); `*` stands for every element of a list. This is a
//! part of the real server's defaults, not all of them.

use std::sync::LazyLock;

use base64::Engine as _;
use serde_json::{Map, Value, json};

/// Parent path and the defaults of its fields, as JSON.
type Row = (&'static [&'static str], &'static str, &'static str);

const POD_SPEC: &str = r#"{"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","securityContext":{},"schedulerName":"default-scheduler"}"#;
const CONTAINER: &str =
    r#"{"resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}"#;
const TOLERATIONS: &str = r#"{"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]}"#;
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
    (&["pods"], "spec", TOLERATIONS),
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
    (
        &["services"],
        "spec",
        r#"{"type":"ClusterIP","sessionAffinity":"None","internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack"}"#,
    ),
    (&["services"], "spec.ports.*", r#"{"protocol":"TCP"}"#),
    (&["services"], "", r#"{"status":{"loadBalancer":{}}}"#),
    (&["secrets"], "", r#"{"type":"Opaque"}"#),
    (&["namespaces"], "", r#"{"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#),
    (&["persistentvolumeclaims", "persistentvolumes"], "", r#"{"status":{"phase":"Pending"}}"#),
    (&["persistentvolumeclaims", "persistentvolumes"], "spec", r#"{"volumeMode":"Filesystem"}"#),
    (&["storageclasses.storage.k8s.io"], "", r#"{"reclaimPolicy":"Delete","volumeBindingMode":"Immediate"}"#),
    (&["customresourcedefinitions.apiextensions.k8s.io"], "spec", r#"{"conversion":{"strategy":"None"}}"#),
];

/// A row with its texts parsed.
struct Parsed {
    collections: &'static [&'static str],
    path: Vec<&'static str>,
    fields: Map<String, Value>,
}

static PARSED: LazyLock<Vec<Parsed>> = LazyLock::new(|| {
    let parse = |(collections, path, fields): &Row| Parsed {
        collections,
        path: path.split('.').filter(|p| !p.is_empty()).collect(),
        fields: serde_json::from_str(fields).unwrap_or_default(),
    };
    ROWS.iter().map(parse).collect()
});

/// Fills in what is left out.
pub(crate) fn apply(collection: &str, object: &mut Value) {
    for row in PARSED.iter().filter(|row| row.collections.contains(&collection)) {
        each(object, &row.path, &mut |place| {
            for (key, value) in &row.fields {
                place.entry(key.clone()).or_insert_with(|| value.clone());
            }
        });
    }
    match collection {
        "secrets" => string_data(object),
        "services" => {
            cluster_ip(object);
            each(object, &["spec", "ports", "*"], &mut |port| {
                if let Some(number) = port.get("port").cloned() {
                    port.entry("targetPort").or_insert(number);
                }
            });
        }
        "pods" => each(object, &["spec", "containers", "*"], &mut pull_policy),
        kind if WITH_TEMPLATE.contains(&kind) => {
            each(object, &["spec", "template", "spec", "containers", "*"], &mut pull_policy);
        }
        crate::resources::EVENTS => crate::events::fill_zero_values(object),
        _ => {}
    }
}

fn each(value: &mut Value, path: &[&str], apply: &mut impl FnMut(&mut Map<String, Value>)) {
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

/// Images that can change under their name are pulled always.
fn pull_policy(container: &mut Map<String, Value>) {
    let Some(image) = container.get("image").and_then(Value::as_str) else { return };
    let name = image.rsplit('/').next().unwrap_or_default();
    let moving = !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    let policy = if moving { "Always" } else { "IfNotPresent" };
    container.entry("imagePullPolicy").or_insert_with(|| json!(policy));
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
    fn every_row_of_the_table_parses() {
        assert!(PARSED.iter().all(|row| !row.fields.is_empty()));
    }

    #[test]
    fn string_data_becomes_data() {
        let mut secret = json!({"stringData": {"k": "v"}, "data": {"a": "Yg=="}});
        apply("secrets", &mut secret);
        assert_eq!(secret, json!({"data": {"a": "Yg==", "k": "dg=="}, "type": "Opaque"}));
    }
}
