//! What `kubectl get` shows of each kind: the columns, and how a cell is made from an object.
//!
//! Used by `table.rs`; custom resources bring their columns with their definition. The built-in kinds are a
//! table, and the few cells that are no plain field are functions at the end of the file.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::jsonpath::JsonPath;
use crate::object::{at_path, meta_str};

/// A column of a Table.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) format: &'static str,
    pub(crate) description: String,
    /// Columns above 0 are shown by `-o wide` only.
    pub(crate) priority: i64,
    pub(crate) source: Source,
}

/// Where a cell comes from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A field by its path, absent as the empty string.
    Field(Vec<String>),
    /// A number by its path, absent as zero.
    Number(Vec<String>),
    /// How many entries a map or list has.
    Count(Vec<String>),
    /// Time passed since a field.
    Age(Vec<String>),
    /// Anything else.
    Computed(fn(&Value, Timestamp) -> Value),
    /// A custom resource's column.
    Path { path: JsonPath, kind: ColumnKind },
}

/// Types of custom columns, which decide how a value is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    String,
    Number,
    Boolean,
    Date,
}

/// The cell of a column.
pub(crate) fn cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    match &column.source {
        Source::Field(path) => at_path(object, path).filter(|v| !v.is_null()).cloned().unwrap_or(json!("")),
        Source::Number(path) => at_path(object, path).filter(|v| !v.is_null()).cloned().unwrap_or(json!(0)),
        Source::Count(path) => json!(at_path(object, path).map_or(0, size)),
        Source::Age(path) => json!(age(at_path(object, path), now)),
        Source::Computed(make) => make(object, now),
        Source::Path { path, kind } => custom_cell(path.first(object), *kind, now),
    }
}

fn custom_cell(value: Option<&Value>, kind: ColumnKind, now: Timestamp) -> Value {
    match (value, kind) {
        (None | Some(Value::Null), _) => Value::Null,
        (Some(value), ColumnKind::Date) => json!(age(Some(value), now)),
        (Some(value), ColumnKind::Number) if value.is_number() => value.clone(),
        (Some(value), ColumnKind::Boolean) if value.is_boolean() => value.clone(),
        (Some(Value::String(text)), ColumnKind::String) => json!(text),
        (Some(value), ColumnKind::String) => json!(value.to_string()),
        _ => Value::Null,
    }
}

fn size(value: &Value) -> usize {
    value.as_array().map(Vec::len).or_else(|| value.as_object().map(serde_json::Map::len)).unwrap_or(0)
}

/// Time since a timestamp in the short form of kubectl.
fn age(value: Option<&Value>, now: Timestamp) -> String {
    let Some(time) = value.and_then(Value::as_str).and_then(|t| t.parse::<Timestamp>().ok()) else {
        return "<unknown>".into();
    };
    let seconds = now.as_second() - time.as_second();
    short_duration(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// `5m30s`, `3h`, `47d`: two units while the larger one is small.
pub(crate) fn short_duration(duration: Duration) -> String {
    let total = duration.as_secs();
    let (minutes, hours, days) = (total / 60, total / 3600, total / 86_400);
    let two = |big: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{small_unit}"),
    };
    match total {
        0..120 => format!("{total}s"),
        120..600 => two(minutes, "m", total % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

fn path(text: &str) -> Vec<String> {
    text.split('.').map(str::to_owned).collect()
}

fn column(name: &str, kind: &'static str, priority: i64, source: Source) -> Column {
    Column { name: name.into(), kind, format: "", description: String::new(), priority, source }
}

fn field(name: &str, at: &str) -> Column {
    column(name, "string", 0, Source::Field(path(at)))
}

fn number(name: &str, at: &str) -> Column {
    column(name, "integer", 0, Source::Number(path(at)))
}

/// A number in a column that says it is text, as two of the real server's do.
fn text_number(name: &str, at: &str) -> Column {
    Column { kind: "string", ..number(name, at) }
}

fn count(name: &str, at: &str) -> Column {
    column(name, "integer", 0, Source::Count(path(at)))
}

fn computed(name: &str, make: fn(&Value, Timestamp) -> Value) -> Column {
    column(name, "string", 0, Source::Computed(make))
}

fn wide(mut column: Column) -> Column {
    column.priority = 1;
    column
}

pub(crate) fn name_column() -> Column {
    let mut name = field("Name", "metadata.name");
    name.format = "name";
    name.description = "Name must be unique within a namespace.".into();
    name
}

pub(crate) fn age_column() -> Column {
    let mut age = column("Age", "string", 0, Source::Age(path("metadata.creationTimestamp")));
    age.description = "CreationTimestamp is the time at which this object was created.".into();
    age
}

fn created() -> Column {
    field("Created At", "metadata.creationTimestamp")
}

/// The columns of a built-in kind; name and age where nothing else is known.
pub(crate) fn of(group: &str, plural: &str) -> Vec<Column> {
    let own = match (group, plural) {
        ("", _) => core(plural),
        ("apps", _) => apps(plural),
        _ => other(group, plural),
    };
    if plural == "events" {
        return own;
    }
    let closed = own.last().is_some_and(|c| c.name == "Created At");
    let (shown, more): (Vec<Column>, Vec<Column>) = own.into_iter().partition(|c| c.priority == 0);
    let age = (!closed).then(age_column);
    std::iter::once(name_column()).chain(shown).chain(age).chain(more).collect()
}

fn core(plural: &str) -> Vec<Column> {
    match plural {
        "configmaps" => vec![computed("Data", data_count)],
        "secrets" => vec![field("Type", "type"), computed("Data", data_count)],
        "namespaces" => vec![field("Status", "status.phase")],
        "serviceaccounts" => vec![count("Secrets", "secrets")],
        "endpoints" => vec![computed("Endpoints", endpoints)],
        "limitranges" => vec![created()],
        "pods" => vec![
            computed("Ready", pod_ready),
            computed("Status", pod_status),
            computed("Restarts", pod_restarts),
            wide(computed("IP", |o, _| or_none(o, "/status/podIP"))),
            wide(computed("Node", |o, _| or_none(o, "/spec/nodeName"))),
            wide(computed("Nominated Node", |o, _| or_none(o, "/status/nominatedNodeName"))),
            wide(computed("Readiness Gates", |_, _| json!("<none>"))),
        ],
        "services" => vec![
            field("Type", "spec.type"),
            computed("Cluster-IP", |o, _| or_none(o, "/spec/clusterIP")),
            computed("External-IP", external_ip),
            computed("Port(s)", service_ports),
            wide(computed("Selector", |o, _| json!(labels_text(o.pointer("/spec/selector"))))),
        ],
        "nodes" => vec![
            computed("Status", node_status),
            computed("Roles", node_roles),
            field("Version", "status.nodeInfo.kubeletVersion"),
            wide(computed("Internal-IP", |o, _| node_address(o, "InternalIP"))),
            wide(computed("External-IP", |o, _| node_address(o, "ExternalIP"))),
            wide(field("OS-Image", "status.nodeInfo.osImage")),
            wide(field("Kernel-Version", "status.nodeInfo.kernelVersion")),
            wide(field("Container-Runtime", "status.nodeInfo.containerRuntimeVersion")),
        ],
        "events" => vec![
            computed("Last Seen", event_last_seen),
            field("Type", "type"),
            field("Reason", "reason"),
            computed("Object", event_object),
            wide(field("Subobject", "involvedObject.fieldPath")),
            wide(field("Source", "source.component")),
            field("Message", "message"),
            wide(column("First Seen", "string", 1, Source::Age(path("firstTimestamp")))),
            wide(number("Count", "count")),
            wide(name_column()),
        ],
        "persistentvolumes" => vec![
            field("Capacity", "spec.capacity.storage"),
            computed("Access Modes", |o, _| access_modes(o.pointer("/spec/accessModes"))),
            field("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
            field("Status", "status.phase"),
            computed("Claim", claim),
            field("StorageClass", "spec.storageClassName"),
            field("Reason", "status.reason"),
            wide(field("VolumeMode", "spec.volumeMode")),
        ],
        "persistentvolumeclaims" => vec![
            field("Status", "status.phase"),
            field("Volume", "spec.volumeName"),
            field("Capacity", "status.capacity.storage"),
            computed("Access Modes", |o, _| access_modes(o.pointer("/status/accessModes"))),
            field("StorageClass", "spec.storageClassName"),
            wide(field("VolumeMode", "spec.volumeMode")),
        ],
        "replicationcontrollers" => replica_counts("spec.selector"),
        _ => Vec::new(),
    }
}

fn apps(plural: &str) -> Vec<Column> {
    match plural {
        "deployments" => {
            let mut columns = vec![
                computed("Ready", ready_of_desired),
                text_number("Up-to-date", "status.updatedReplicas"),
                text_number("Available", "status.availableReplicas"),
            ];
            columns.extend(template_columns());
            columns
        }
        "replicasets" => replica_counts("spec.selector.matchLabels"),
        "statefulsets" => {
            let mut columns = vec![computed("Ready", ready_of_desired)];
            columns.extend(template_columns().into_iter().take(2));
            columns
        }
        "daemonsets" => {
            let mut columns = vec![
                number("Desired", "status.desiredNumberScheduled"),
                number("Current", "status.currentNumberScheduled"),
                number("Ready", "status.numberReady"),
                number("Up-to-date", "status.updatedNumberScheduled"),
                number("Available", "status.numberAvailable"),
                computed("Node Selector", |o, _| {
                    json!(labels_text(o.pointer("/spec/template/spec/nodeSelector")))
                }),
            ];
            columns.extend(template_columns());
            columns
        }
        "controllerrevisions" => vec![computed("Controller", owner), number("Revision", "revision")],
        _ => Vec::new(),
    }
}

fn replica_counts(_selector: &str) -> Vec<Column> {
    let mut columns = vec![
        number("Desired", "spec.replicas"),
        number("Current", "status.replicas"),
        number("Ready", "status.readyReplicas"),
    ];
    columns.extend(template_columns());
    columns
}

fn template_columns() -> Vec<Column> {
    vec![
        wide(computed("Containers", |o, _| joined(o.pointer("/spec/template/spec/containers"), "name"))),
        wide(computed("Images", |o, _| joined(o.pointer("/spec/template/spec/containers"), "image"))),
        wide(computed("Selector", |o, _| {
            let labels = o.pointer("/spec/selector/matchLabels").or_else(|| o.pointer("/spec/selector"));
            json!(labels_text(labels))
        })),
    ]
}

fn other(group: &str, plural: &str) -> Vec<Column> {
    match (group, plural) {
        ("events.k8s.io", "events") => core("events"),
        ("batch", "jobs") => vec![
            computed("Status", job_status),
            computed("Completions", job_completions),
            computed("Duration", job_duration),
        ],
        ("batch", "cronjobs") => vec![
            field("Schedule", "spec.schedule"),
            computed("Timezone", |o, _| or_none(o, "/spec/timeZone")),
            computed("Suspend", |o, _| json!(if truth(o, "/spec/suspend") { "True" } else { "False" })),
            count("Active", "status.active"),
            computed("Last Schedule", |o, now| match o.pointer("/status/lastScheduleTime") {
                Some(time) => json!(age(Some(time), now)),
                None => json!("<none>"),
            }),
        ],
        ("networking.k8s.io", "ingresses") => vec![
            computed("Class", |o, _| or_none(o, "/spec/ingressClassName")),
            computed("Hosts", ingress_hosts),
            computed("Address", |o, _| json!(addresses(o).join(","))),
            computed("Ports", |o, _| json!(if o.pointer("/spec/tls").is_some() { "80, 443" } else { "80" })),
        ],
        ("networking.k8s.io", "ingressclasses") => {
            vec![
                field("Controller", "spec.controller"),
                computed("Parameters", |o, _| or_none(o, "/spec/parameters/name")),
            ]
        }
        ("networking.k8s.io", "networkpolicies") => {
            vec![computed("Pod-Selector", |o, _| {
                json!(labels_text(o.pointer("/spec/podSelector/matchLabels")))
            })]
        }
        ("policy", "poddisruptionbudgets") => vec![
            computed("Min Available", |o, _| or_na(o, "/spec/minAvailable")),
            computed("Max Unavailable", |o, _| or_na(o, "/spec/maxUnavailable")),
            number("Allowed Disruptions", "status.disruptionsAllowed"),
        ],
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => vec![created()],
        ("rbac.authorization.k8s.io", _) => vec![computed("Role", role_reference)],
        ("storage.k8s.io", "storageclasses") => vec![
            field("Provisioner", "provisioner"),
            field("ReclaimPolicy", "reclaimPolicy"),
            field("VolumeBindingMode", "volumeBindingMode"),
            computed("AllowVolumeExpansion", |o, _| json!(truth(o, "/allowVolumeExpansion"))),
        ],
        ("autoscaling", "horizontalpodautoscalers") => vec![
            computed("Reference", |o, _| {
                json!(format!(
                    "{}/{}",
                    text(o, "/spec/scaleTargetRef/kind"),
                    text(o, "/spec/scaleTargetRef/name")
                ))
            }),
            computed("Targets", |_, _| json!("<unknown>")),
            number("MinPods", "spec.minReplicas"),
            number("MaxPods", "spec.maxReplicas"),
            number("Replicas", "status.currentReplicas"),
        ],
        ("scheduling.k8s.io", "priorityclasses") => vec![
            number("Value", "value"),
            computed("Global-Default", |o, _| json!(truth(o, "/globalDefault"))),
            field("PreemptionPolicy", "preemptionPolicy"),
        ],
        ("coordination.k8s.io", "leases") => vec![field("Holder", "spec.holderIdentity")],
        ("discovery.k8s.io", "endpointslices") => vec![
            field("AddressType", "addressType"),
            computed("Ports", |o, _| or_unset(joined(o.get("ports"), "port"))),
            computed("Endpoints", slice_endpoints),
        ],
        ("apiextensions.k8s.io", _) => vec![created()],
        _ => Vec::new(),
    }
}

// Cells that are no plain field.

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn truth(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
}

fn integer(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn or_none(object: &Value, pointer: &str) -> Value {
    json!(object.pointer(pointer).map(shown).filter(|s| !s.is_empty()).unwrap_or_else(|| "<none>".into()))
}

fn or_na(object: &Value, pointer: &str) -> Value {
    json!(object.pointer(pointer).map_or_else(|| "N/A".into(), shown))
}

fn or_unset(value: Value) -> Value {
    if value.as_str().is_some_and(str::is_empty) { json!("<unset>") } else { value }
}

fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn joined(list: Option<&Value>, key: &str) -> Value {
    let all = list.and_then(Value::as_array).into_iter().flatten();
    json!(all.filter_map(|item| item.get(key)).map(shown).collect::<Vec<_>>().join(","))
}

fn labels_text(labels: Option<&Value>) -> String {
    let pairs: Vec<String> = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", shown(v)))
        .collect();
    if pairs.is_empty() { "<none>".into() } else { pairs.join(",") }
}

fn data_count(object: &Value, _: Timestamp) -> Value {
    json!(["data", "binaryData"].iter().filter_map(|k| object.get(*k)).map(size).sum::<usize>())
}

fn endpoints(object: &Value, _: Timestamp) -> Value {
    let mut all = Vec::new();
    for subset in items(object, "/subsets") {
        for address in items(subset, "/addresses") {
            for port in items(subset, "/ports") {
                all.push(format!("{}:{}", text(address, "/ip"), integer(port, "/port")));
            }
        }
    }
    json!(if all.is_empty() { "<none>".into() } else { all.join(",") })
}

fn slice_endpoints(object: &Value, _: Timestamp) -> Value {
    let all: Vec<String> =
        items(object, "/endpoints").iter().flat_map(|e| items(e, "/addresses")).map(shown).collect();
    json!(if all.is_empty() { "<unset>".into() } else { all.join(",") })
}

fn pod_ready(pod: &Value, _: Timestamp) -> Value {
    let ready = items(pod, "/status/containerStatuses").iter().filter(|s| truth(s, "/ready")).count();
    json!(format!("{ready}/{}", items(pod, "/spec/containers").len()))
}

fn pod_status(pod: &Value, _: Timestamp) -> Value {
    if !meta_str(pod, "deletionTimestamp").is_empty() {
        return json!("Terminating");
    }
    let container = items(pod, "/status/containerStatuses").iter().rev().find_map(|status| {
        ["/state/waiting/reason", "/state/terminated/reason"]
            .iter()
            .map(|at| text(status, at))
            .find(|reason| !reason.is_empty())
    });
    let reason = text(pod, "/status/reason");
    json!(container.unwrap_or(if reason.is_empty() { text(pod, "/status/phase") } else { reason }))
}

fn pod_restarts(pod: &Value, _: Timestamp) -> Value {
    let statuses = items(pod, "/status/containerStatuses");
    json!(statuses.iter().map(|s| integer(s, "/restartCount")).sum::<i64>().to_string())
}

fn ready_of_desired(object: &Value, _: Timestamp) -> Value {
    json!(format!("{}/{}", integer(object, "/status/readyReplicas"), integer(object, "/spec/replicas")))
}

fn addresses(object: &Value) -> Vec<String> {
    items(object, "/status/loadBalancer/ingress")
        .iter()
        .map(|i| if text(i, "/ip").is_empty() { text(i, "/hostname") } else { text(i, "/ip") }.to_owned())
        .collect()
}

fn external_ip(service: &Value, _: Timestamp) -> Value {
    let mut all: Vec<String> = items(service, "/spec/externalIPs").iter().map(shown).collect();
    match text(service, "/spec/type") {
        "ExternalName" => return or_none(service, "/spec/externalName"),
        "LoadBalancer" => all.extend(addresses(service)),
        _ => {}
    }
    let none = if text(service, "/spec/type") == "LoadBalancer" { "<pending>" } else { "<none>" };
    json!(if all.is_empty() { none.to_owned() } else { all.join(",") })
}

fn service_ports(service: &Value, _: Timestamp) -> Value {
    let port = |p: &Value| {
        let protocol = if text(p, "/protocol").is_empty() { "TCP" } else { text(p, "/protocol") };
        match integer(p, "/nodePort") {
            0 => format!("{}/{protocol}", integer(p, "/port")),
            node => format!("{}:{node}/{protocol}", integer(p, "/port")),
        }
    };
    let all: Vec<String> = items(service, "/spec/ports").iter().map(port).collect();
    json!(if all.is_empty() { "<none>".into() } else { all.join(",") })
}

fn node_status(node: &Value, _: Timestamp) -> Value {
    let ready = items(node, "/status/conditions").iter().find(|c| text(c, "/type") == "Ready");
    let mut words = vec![match ready.map(|c| text(c, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }];
    if truth(node, "/spec/unschedulable") {
        words.push("SchedulingDisabled");
    }
    json!(words.join(","))
}

fn node_roles(node: &Value, _: Timestamp) -> Value {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(k, _)| k.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    json!(if roles.is_empty() { "<none>".into() } else { roles.join(",") })
}

fn node_address(node: &Value, kind: &str) -> Value {
    let found = items(node, "/status/addresses").iter().find(|a| text(a, "/type") == kind);
    json!(found.map_or("<none>", |a| text(a, "/address")))
}

fn event_last_seen(event: &Value, now: Timestamp) -> Value {
    let series = event.pointer("/series/lastObservedTime");
    let times = [series, event.get("lastTimestamp"), event.get("firstTimestamp"), event.get("eventTime")];
    json!(age(times.into_iter().flatten().find(|t| !t.is_null()), now))
}

fn event_object(event: &Value, _: Timestamp) -> Value {
    let kind = text(event, "/involvedObject/kind").to_lowercase();
    json!(format!("{kind}/{}", text(event, "/involvedObject/name")))
}

fn access_modes(modes: Option<&Value>) -> Value {
    let short = |mode: &str| match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    };
    let all = modes.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    json!(all.map(short).collect::<Vec<_>>().join(","))
}

fn claim(volume: &Value, _: Timestamp) -> Value {
    let (namespace, name) = (text(volume, "/spec/claimRef/namespace"), text(volume, "/spec/claimRef/name"));
    json!(if name.is_empty() { String::new() } else { format!("{namespace}/{name}") })
}

fn owner(object: &Value, _: Timestamp) -> Value {
    let owner = items(object, "/metadata/ownerReferences").first();
    json!(owner.map_or_else(
        || "<none>".to_owned(),
        |o| format!("{}/{}", text(o, "/kind").to_lowercase(), text(o, "/name"))
    ))
}

fn job_status(job: &Value, _: Timestamp) -> Value {
    let is = |kind: &str| {
        items(job, "/status/conditions")
            .iter()
            .any(|c| text(c, "/type") == kind && text(c, "/status") == "True")
    };
    json!(["Complete", "Failed", "Suspended"].into_iter().find(|kind| is(kind)).unwrap_or("Running"))
}

fn job_completions(job: &Value, _: Timestamp) -> Value {
    let wanted = job.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1);
    json!(format!("{}/{wanted}", integer(job, "/status/succeeded")))
}

fn job_duration(job: &Value, now: Timestamp) -> Value {
    let end = text(job, "/status/completionTime").parse::<Timestamp>().unwrap_or(now);
    match job.pointer("/status/startTime") {
        Some(start) => json!(age(Some(start), end)),
        None => json!(""),
    }
}

fn ingress_hosts(ingress: &Value, _: Timestamp) -> Value {
    let hosts: Vec<&str> =
        items(ingress, "/spec/rules").iter().map(|r| text(r, "/host")).filter(|h| !h.is_empty()).collect();
    json!(if hosts.is_empty() { "*".into() } else { hosts.join(",") })
}

fn role_reference(binding: &Value, _: Timestamp) -> Value {
    json!(format!("{}/{}", text(binding, "/roleRef/kind"), text(binding, "/roleRef/name")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_as_kubectl_tells_them() {
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (12_000, "3h20m"),
            (90_000, "25h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (864_000, "10d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
        ] {
            assert_eq!(short_duration(Duration::from_secs(seconds)), expected, "{seconds}");
        }
    }

    #[test]
    fn a_pod_is_shown_by_what_its_containers_do() {
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{}, {}]},
            "status": {"phase": "Running", "containerStatuses": [
                {"ready": true, "restartCount": 2},
                {"ready": false, "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            ]},
        });
        let now = Timestamp::now();
        let cells: Vec<Value> = of("", "pods").iter().take(4).map(|c| cell(c, &pod, now)).collect();
        assert_eq!(cells, [json!("p"), json!("1/2"), json!("CrashLoopBackOff"), json!("3")]);
    }
}
