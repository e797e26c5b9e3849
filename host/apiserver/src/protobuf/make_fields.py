#!/usr/bin/env python3
"""Writes fields.txt from the struct tags of k8s.io/api and k8s.io/apimachinery.

    make_fields.py "$(go list -m -f '{{.Dir}}' k8s.io/api)" "$(go list -m -f '{{.Dir}}' k8s.io/apimachinery)" > fields.txt

Only needed when a kind is added or the API version moves. See mod.rs for the form of the table.
"""

import os
import re
import sys

API, MACHINERY = sys.argv[1:3]
PACKAGES = {
    "core": f"{API}/core/v1", "apps": f"{API}/apps/v1", "batch": f"{API}/batch/v1",
    "networking": f"{API}/networking/v1", "policy": f"{API}/policy/v1", "rbac": f"{API}/rbac/v1",
    "coordination": f"{API}/coordination/v1", "discovery": f"{API}/discovery/v1", "storage": f"{API}/storage/v1",
    "autoscaling": f"{API}/autoscaling/v2", "autoscaling1": f"{API}/autoscaling/v1", "events": f"{API}/events/v1",
    "scheduling": f"{API}/scheduling/v1", "authorization": f"{API}/authorization/v1",
    "authentication": f"{API}/authentication/v1", "meta": f"{MACHINERY}/pkg/apis/meta/v1",
}
IMPORTS = {"metav1": "meta", "v1": "core", "corev1": "core", "apiv1": "core", "autoscalingv1": "autoscaling1"}
SPECIAL = {
    "meta.Time": "time", "meta.MicroTime": "microtime", "meta.Duration": "duration", "meta.FieldsV1": "raw",
    "resource.Quantity": "quantity", "intstr.IntOrString": "intorstring", "runtime.RawExtension": "raw",
}
SCALAR = {
    "string": "s", "bool": "b", "int32": "i", "int64": "i", "int": "i", "uint8": "i", "uint32": "i", "uint64": "i",
    "float64": "d", "float32": "f", "types.UID": "s", "byte": "i",
}
ROOTS = """core.ConfigMap core.Secret core.Pod core.Service core.Endpoints core.Namespace core.Node core.Event
core.ServiceAccount core.PersistentVolume core.PersistentVolumeClaim core.ReplicationController core.ResourceQuota
core.LimitRange core.PodTemplate core.Binding apps.Deployment apps.ReplicaSet apps.StatefulSet apps.DaemonSet
apps.ControllerRevision batch.Job batch.CronJob networking.Ingress networking.NetworkPolicy networking.IngressClass
policy.PodDisruptionBudget policy.Eviction rbac.Role rbac.ClusterRole rbac.RoleBinding rbac.ClusterRoleBinding
coordination.Lease discovery.EndpointSlice storage.StorageClass autoscaling.HorizontalPodAutoscaler autoscaling1.Scale
events.Event scheduling.PriorityClass authorization.SelfSubjectAccessReview authorization.SelfSubjectRulesReview
authorization.SubjectAccessReview authorization.LocalSubjectAccessReview authentication.SelfSubjectReview
meta.DeleteOptions""".split()

structs, aliases = {}, {}
for package, folder in PACKAGES.items():
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".go") or name.endswith("_test.go") or name.startswith("zz_") or "generated" in name:
            continue
        text = re.sub(r"//.*", "", open(f"{folder}/{name}").read())
        for found in re.finditer(r"^type (\w+) struct \{\n(.*?)^\}", text, re.S | re.M):
            structs[f"{package}.{found[1]}"] = (package, found[2])
        for found in re.finditer(r"^type (\w+) (?!struct|interface|func)(\S+)$", text, re.M):
            aliases[f"{package}.{found[1]}"] = (package, found[2])


def resolve(package, go):
    """Wire type of a Go type, and the structs it needs."""
    if go in SCALAR:
        return SCALAR[go], []
    if go == "[]byte":
        return "y", []
    if found := re.fullmatch(r"map\[[\w.]+\](.+)", go):
        inner, needs = resolve(package, found[1])
        return "{}" + inner, needs
    if go.startswith("[]"):
        inner, needs = resolve(package, go[2:].lstrip("*"))
        return "[]" + inner, needs
    if "." in go:
        prefix, name = go.split(".")
        full = f"{IMPORTS.get(prefix, prefix)}.{name}"
        if prefix == "v1" and full not in structs and full not in aliases:
            full = f"meta.{name}"
    else:
        full = f"{package}.{go}"
    if full in SPECIAL:
        return SPECIAL[full], []
    if full in structs:
        return full, [full]
    if full in aliases:
        home, target = aliases[full]
        inner, needs = resolve(home, target)
        if inner.startswith("[]"):
            return "items:" + inner[2:], needs
        return inner, needs
    raise SystemExit(f"unknown type {go} in {package}")


def fields(full):
    package, body = structs[full]
    for line in body.splitlines():
        found = re.match(r"\s*(?:(\w+)\s+)?([*\[\]\w.]+)\s+`(.*)`", line)
        if not found or "protobuf:" not in found[3]:
            continue
        number = re.search(r'protobuf:"\w+,(\d+),', found[3])[1]
        json = re.search(r'json:"([^"]*)"', found[3])[1].split(",")
        go = found[2]
        if "casttype" in found[3] and go not in SCALAR:
            pass
        wire, needs = resolve(package, go.lstrip("*"))
        # A named slice that is a field of its own is plainly repeated; only in maps is it a message.
        if wire.startswith("items:"):
            wire = "[]" + wire[6:]
        flags = ("*" if go.startswith("*") else "") + ("<" if "inline" in json else "")
        yield f"{number} {json[0] or '-'} {wire} {flags}".rstrip(), needs


todo, done = list(ROOTS), set()
while todo:
    full = todo.pop()
    if full not in done:
        done.add(full)
        todo += [need for _, needs in fields(full) for need in needs]
for full in sorted(done):
    print(f"{full} | " + " | ".join(text for text, _ in fields(full)))
