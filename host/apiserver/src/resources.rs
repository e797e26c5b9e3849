//! The kinds that are served: the built-in ones as a table, and the form which custom ones take too.
//!
//! Used by everything that needs to know what a resource is. A kind has no code of its own: what makes it
//! special (a status, a scale, fields to select by, values to default) is a column of this table or a row of
//! `defaults.rs` and `columns.rs`.

use std::sync::Arc;

use serde_json::Value;

use crate::columns::Column;
use crate::status::GroupResource;

/// A resource with all its versions, built in or defined by a CustomResourceDefinition.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) namespaced: bool,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    /// In order of preference.
    pub(crate) versions: Vec<Version>,
    /// Name of the collection that holds the objects; two resources may share one.
    pub(crate) collection: String,
    pub(crate) form: Form,
    pub(crate) verbs: Verbs,
    /// Whether changes outside metadata and status count in `metadata.generation`.
    pub(crate) generation: bool,
    /// Custom resources write differently in details: alphabetical keys, apiVersion and kind in list items.
    pub(crate) custom: bool,
}

/// One version of a resource.
#[derive(Debug, Clone, Default)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) served: bool,
    pub(crate) storage: bool,
    pub(crate) status: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) columns: Vec<Column>,
    /// Text of the `Warning` header.
    pub(crate) deprecation: Option<String>,
    pub(crate) schema: Option<Arc<Value>>,
    /// Fields that can be selected by, besides name and namespace: label and path.
    pub(crate) selectable: Vec<(String, Vec<String>)>,
}

/// Where a scale subresource finds its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec: Vec<String>,
    pub(crate) status: Vec<String>,
    pub(crate) selector: Option<Vec<String>>,
}

/// How the stored form of an object becomes that of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Only apiVersion and kind differ.
    AsStored,
    /// `events.k8s.io/v1` over stored core events.
    EventsV1,
}

/// What can be done with a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbs {
    All,
    /// Namespaces cannot be deleted as a collection.
    NoDeleteCollection,
    /// Reviews: nothing is kept.
    CreateOnly,
}

impl Resource {
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.plural.clone() }
    }

    /// The kind in the place of the resource, as validation errors say it.
    pub(crate) fn group_kind(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.kind.clone() }
    }

    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|v| v.name == name && v.served)
    }

    pub(crate) fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// The key of an object within its collection, ordered as etcd orders them.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
    }

    pub(crate) fn is(&self, collection: &str) -> bool {
        self.collection == collection
    }

    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        match (self.verbs, self.custom) {
            (Verbs::CreateOnly, _) => &["create"],
            (Verbs::NoDeleteCollection, _) => {
                &["create", "delete", "get", "list", "patch", "update", "watch"]
            }
            (Verbs::All, false) => {
                &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
            }
            (Verbs::All, true) => {
                &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
            }
        }
    }
}

/// A row of the table of built-in kinds.
struct Row {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    short: &'static [&'static str],
    traits: &'static [Trait],
    /// Selectable fields besides name and namespace; the pointer where the label is not the path.
    fields: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trait {
    /// Has a status subresource.
    Status,
    /// Has a scale subresource.
    Scale,
    /// Counts generations.
    Generation,
    /// Is part of `all`.
    All,
    NoDeleteCollection,
    CreateOnly,
}

use Trait::{All, CreateOnly, Generation, NoDeleteCollection, Scale, Status};

const CLUSTER: bool = false;
const NAMESPACED: bool = true;

#[expect(clippy::too_many_arguments, reason = "a row of a table, read as one")]
const fn row(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    short: &'static [&'static str],
    traits: &'static [Trait],
    fields: &'static [&'static str],
) -> Row {
    Row { group, version, plural, kind, namespaced, short, traits, fields }
}

#[rustfmt::skip]
const BUILT_IN: &[Row] = &[
    row("", "v1", "configmaps", "ConfigMap", NAMESPACED, &["cm"], &[], &[]),
    row("", "v1", "endpoints", "Endpoints", NAMESPACED, &["ep"], &[], &[]),
    row("", "v1", "events", "Event", NAMESPACED, &["ev"], &[], &["involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"]),
    row("", "v1", "limitranges", "LimitRange", NAMESPACED, &["limits"], &[], &[]),
    row("", "v1", "namespaces", "Namespace", CLUSTER, &["ns"], &[Status, NoDeleteCollection], &["status.phase"]),
    row("", "v1", "nodes", "Node", CLUSTER, &["no"], &[Status], &["spec.unschedulable"]),
    row("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", NAMESPACED, &["pvc"], &[Status], &[]),
    row("", "v1", "persistentvolumes", "PersistentVolume", CLUSTER, &["pv"], &[Status], &[]),
    row("", "v1", "pods", "Pod", NAMESPACED, &["po"], &[Status, Generation, All], &["spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName"]),
    row("", "v1", "podtemplates", "PodTemplate", NAMESPACED, &[], &[], &[]),
    row("", "v1", "replicationcontrollers", "ReplicationController", NAMESPACED, &["rc"], &[Status, Scale, Generation, All], &["status.replicas"]),
    row("", "v1", "resourcequotas", "ResourceQuota", NAMESPACED, &["quota"], &[Status], &[]),
    row("", "v1", "secrets", "Secret", NAMESPACED, &[], &[], &["type"]),
    row("", "v1", "serviceaccounts", "ServiceAccount", NAMESPACED, &["sa"], &[], &[]),
    row("", "v1", "services", "Service", NAMESPACED, &["svc"], &[Status, All], &["spec.clusterIP", "spec.type"]),
    row("apps", "v1", "controllerrevisions", "ControllerRevision", NAMESPACED, &[], &[], &[]),
    row("apps", "v1", "daemonsets", "DaemonSet", NAMESPACED, &["ds"], &[Status, Generation, All], &[]),
    row("apps", "v1", "deployments", "Deployment", NAMESPACED, &["deploy"], &[Status, Scale, Generation, All], &[]),
    row("apps", "v1", "replicasets", "ReplicaSet", NAMESPACED, &["rs"], &[Status, Scale, Generation, All], &["status.replicas"]),
    row("apps", "v1", "statefulsets", "StatefulSet", NAMESPACED, &["sts"], &[Status, Scale, Generation, All], &[]),
    row("events.k8s.io", "v1", "events", "Event", NAMESPACED, &["ev"], &[], &["regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath", "reason", "reportingController", "type"]),
    row("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", CLUSTER, &[], &[CreateOnly], &[]),
    row("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", NAMESPACED, &[], &[CreateOnly], &[]),
    row("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", CLUSTER, &[], &[CreateOnly], &[]),
    row("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", CLUSTER, &[], &[CreateOnly], &[]),
    row("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", CLUSTER, &[], &[CreateOnly], &[]),
    row("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", NAMESPACED, &["hpa"], &[Status, All], &[]),
    row("batch", "v1", "cronjobs", "CronJob", NAMESPACED, &["cj"], &[Status, Generation, All], &[]),
    row("batch", "v1", "jobs", "Job", NAMESPACED, &[], &[Status, Generation, All], &["status.successful"]),
    row("networking.k8s.io", "v1", "ingressclasses", "IngressClass", CLUSTER, &[], &[Generation], &[]),
    row("networking.k8s.io", "v1", "ingresses", "Ingress", NAMESPACED, &["ing"], &[Status, Generation], &[]),
    row("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", NAMESPACED, &["netpol"], &[Generation], &[]),
    row("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", NAMESPACED, &["pdb"], &[Status, Generation], &[]),
    row("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", CLUSTER, &[], &[], &[]),
    row("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", CLUSTER, &[], &[], &[]),
    row("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", NAMESPACED, &[], &[], &[]),
    row("rbac.authorization.k8s.io", "v1", "roles", "Role", NAMESPACED, &[], &[], &[]),
    row("storage.k8s.io", "v1", "storageclasses", "StorageClass", CLUSTER, &["sc"], &[], &[]),
    row("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", CLUSTER, &["crd", "crds"], &[Status, Generation], &[]),
    row("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", CLUSTER, &["pc"], &[Generation], &[]),
    row("coordination.k8s.io", "v1", "leases", "Lease", NAMESPACED, &[], &[], &[]),
    row("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", NAMESPACED, &[], &[Generation], &[]),
];

/// Collection of the namespaces themselves.
pub(crate) const NAMESPACES: &str = "namespaces";
/// Collection of core events, which `events.k8s.io` shares.
pub(crate) const EVENTS: &str = "events";
/// Collection of the CustomResourceDefinitions.
pub(crate) const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The built-in resources, in the order of discovery.
pub(crate) fn built_in() -> Vec<Resource> {
    BUILT_IN.iter().map(Row::resource).collect()
}

impl Row {
    fn has(&self, t: Trait) -> bool {
        self.traits.contains(&t)
    }

    fn resource(&self) -> Resource {
        let singular = self.kind.to_lowercase();
        let events = self.plural == EVENTS && !self.group.is_empty();
        let name = GroupResource { group: self.group.into(), resource: self.plural.into() };
        Resource {
            group: self.group.into(),
            plural: self.plural.into(),
            singular,
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind),
            namespaced: self.namespaced,
            short_names: self.short.iter().map(ToString::to_string).collect(),
            categories: if self.has(All) { vec!["all".into()] } else { Vec::new() },
            versions: vec![self.version()],
            collection: if events { EVENTS.into() } else { name.to_string() },
            form: if events { Form::EventsV1 } else { Form::AsStored },
            verbs: match () {
                () if self.has(CreateOnly) => Verbs::CreateOnly,
                () if self.has(NoDeleteCollection) => Verbs::NoDeleteCollection,
                () => Verbs::All,
            },
            generation: self.has(Generation),
            custom: false,
        }
    }

    fn version(&self) -> Version {
        let scale = ScalePaths {
            spec: vec!["spec".into(), "replicas".into()],
            status: vec!["status".into(), "replicas".into()],
            selector: None,
        };
        Version {
            name: self.version.into(),
            served: true,
            storage: true,
            status: self.has(Status),
            scale: self.has(Scale).then_some(scale),
            columns: crate::columns::of(self.group, self.plural),
            selectable: self.fields.iter().map(|f| (f.to_string(), selectable_path(f))).collect(),
            ..Version::default()
        }
    }
}

/// Selectable fields are named by their path, but for a few.
fn selectable_path(label: &str) -> Vec<String> {
    let path = match label {
        "reportingComponent" | "source" | "reportingController" => "reportingComponent",
        "status.successful" => "status.succeeded",
        other => other,
    };
    path.replacen("regarding.", "involvedObject.", 1).split('.').map(str::to_owned).collect()
}
