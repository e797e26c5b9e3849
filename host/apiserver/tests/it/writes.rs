//! Creates, updates, patches, deletes.

use serde_json::{Value, json};

use crate::client::{Answer, config_map, start};

const MAPS: &str = "/api/v1/namespaces/t/configmaps";

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

#[track_caller]
fn refused(answer: &Answer, code: u16, reason: &str, message: &str) {
    let status = answer.json();
    assert_eq!(
        (
            answer.code,
            status["reason"].as_str().unwrap_or_default(),
            status["message"].as_str().unwrap_or_default()
        ),
        (code, reason, message)
    );
    assert_eq!((status["kind"].as_str(), status["status"].as_str()), (Some("Status"), Some("Failure")));
}

#[tokio::test]
async fn creation_sets_what_the_server_sets() {
    let t = start().await;
    let created = t.post(MAPS, &map("new", json!({"k": "v"}))).await;
    assert_eq!(created.code, 201);
    let meta = &created.json()["metadata"];
    assert_eq!(meta["resourceVersion"], t.server.revision().to_string());
    assert_eq!((meta["namespace"].as_str(), meta["uid"].as_str().map(str::len)), (Some("t"), Some(36)));
    assert!(meta["creationTimestamp"].as_str().expect("a time").ends_with('Z'));
    assert!(meta.get("generation").is_none(), "config maps have no generation");
    let generated = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}});
    let name = t.post(MAPS, &generated).await.meta("name");
    assert!(name.starts_with("gen-") && name.len() == 9, "{name}");
    t.server.shutdown().await;
}

#[tokio::test]
async fn creations_are_refused_in_the_real_servers_words() {
    let t = start().await;
    t.post(MAPS, &map("new", json!({}))).await;
    refused(
        &t.post(MAPS, &map("new", json!({}))).await,
        409,
        "AlreadyExists",
        "configmaps \"new\" already exists",
    );
    let invalid = t.post(MAPS, &map("Bad_Name", json!({}))).await;
    assert_eq!(
        (invalid.code, invalid.json()["details"]["causes"][0]["reason"].clone()),
        (422, json!("FieldValueInvalid"))
    );
    assert!(invalid.json()["message"].as_str().expect("text").starts_with("ConfigMap \"Bad_Name\" is invalid: metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain"));
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad"}, "spec": {"containers": []}});
    refused(
        &t.post("/api/v1/namespaces/t/pods", &pod).await,
        422,
        "Invalid",
        "Pod \"bad\" is invalid: spec.containers: Required value",
    );
    let elsewhere = t.post("/api/v1/namespaces/nonexistent/configmaps", &map("x", json!({}))).await;
    refused(&elsewhere, 404, "NotFound", "namespaces \"nonexistent\" not found");
    assert_eq!(elsewhere.json()["details"], json!({"name": "nonexistent", "kind": "namespaces"}));
    let other =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}});
    refused(
        &t.post(MAPS, &other).await,
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    );
    let versioned =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "resourceVersion": "1"}});
    refused(
        &t.post(MAPS, &versioned).await,
        500,
        "",
        "resourceVersion should not be set on objects to be created",
    );
    refused(
        &t.post(MAPS, &map("x", json!({"k": 1}))).await,
        400,
        "BadRequest",
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    );
    let broken =
        t.send("POST", MAPS, &[("content-type", "application/json")], r#"{"apiVersion":"v1","kind":"#).await;
    refused(
        &broken,
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input ({\"apiVersion\":\"v1\",\"kind\":)",
    );
    let yaml = t.send("POST", MAPS, &[("content-type", "application/yaml")], "kind: ConfigMap").await;
    assert_eq!(yaml.code, 415);
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let t = start().await;
    let huge = map("huge", json!({"k": "x".repeat(4_000_000)})).to_string();
    let answer = t.raw("POST", MAPS, &[("content-type", "application/json")], &huge).await;
    // The server closes while the client still sends: whether the answer gets through is up to the network.
    if let Ok(answer) = answer {
        assert_eq!(answer.status(), 413);
    }
    assert_eq!(t.get(&format!("{MAPS}/huge")).await.code, 404);
    t.server.shutdown().await;
}

#[tokio::test]
async fn the_first_of_two_writers_wins() {
    let t = start().await;
    let created = t.post(MAPS, &map("new", json!({"k": "v"}))).await.json();
    let mut mine = created.clone();
    mine["data"]["k"] = json!("v2");
    assert_eq!(t.put(&format!("{MAPS}/new"), &mine).await.code, 200);
    let late = t.put(&format!("{MAPS}/new"), &mine).await;
    refused(
        &late,
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"new\": the object has been modified; please apply your changes to the latest version and try again",
    );
    assert_eq!(late.json()["details"], json!({"name": "new", "kind": "configmaps"}));
    assert_eq!(
        t.put(&format!("{MAPS}/new"), &map("new", json!({"k": "v3"}))).await.code,
        200,
        "unconditional"
    );
    refused(
        &t.put(&format!("{MAPS}/absent"), &map("absent", json!({}))).await,
        404,
        "NotFound",
        "configmaps \"absent\" not found",
    );
    let mut other = map("new", json!({}));
    other["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    let mismatch = t.put(&format!("{MAPS}/new"), &other).await;
    assert_eq!(mismatch.code, 409);
    assert!(
        mismatch
            .text
            .contains("Precondition failed: UID in precondition: 00000000-0000-0000-0000-000000000000")
    );
    let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"k": "x"}});
    assert_eq!(t.patch(&format!("{MAPS}/new"), "merge-patch+json", &stale).await.code, 409);
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_write_that_changes_nothing_is_none() {
    let t = start().await;
    t.post(MAPS, &map("cm", json!({"n": "0"}))).await;
    let revision = t.server.revision();
    let object = t.get(&format!("{MAPS}/cm")).await.json();
    for answer in [
        t.put(&format!("{MAPS}/cm"), &object).await,
        t.patch(&format!("{MAPS}/cm"), "merge-patch+json", &json!({"data": {"n": "0"}})).await,
        t.patch(&format!("{MAPS}/cm"), "strategic-merge-patch+json", &json!({})).await,
    ] {
        assert_eq!((answer.code, answer.meta("resourceVersion")), (200, revision.to_string()));
    }
    assert_eq!(t.server.revision(), revision);
    t.server.shutdown().await;
}

#[tokio::test]
async fn every_kind_of_patch_patches() {
    let t = start().await;
    let path = format!("{MAPS}/cm");
    t.post(MAPS, &map("cm", json!({"a": "1", "b": "2"}))).await;
    let data = |answer: &Answer| answer.json()["data"].clone();
    let merge = t.patch(&path, "merge-patch+json", &json!({"data": {"a": null, "c": "3"}})).await;
    assert_eq!(data(&merge), json!({"b": "2", "c": "3"}));
    let ops = json!([{"op": "test", "path": "/data/b", "value": "2"}, {"op": "replace", "path": "/data/b", "value": "4"}]);
    assert_eq!(data(&t.patch(&path, "json-patch+json", &ops).await), json!({"b": "4", "c": "3"}));
    let failing = t.patch(&path, "json-patch+json", &ops).await;
    assert_eq!((failing.code, failing.json()["reason"].clone()), (422, json!("Invalid")));
    let strategic = t.patch(&path, "strategic-merge-patch+json", &json!({"data": {"d": "5"}})).await;
    assert_eq!(data(&strategic), json!({"b": "4", "c": "3", "d": "5"}));
    refused(
        &t.patch(&path, "json", &json!({})).await,
        415,
        "UnsupportedMediaType",
        "415: Unsupported Media Type",
    );
    refused(
        &t.patch(&format!("{MAPS}/absent"), "merge-patch+json", &json!({})).await,
        404,
        "NotFound",
        "configmaps \"absent\" not found",
    );
    assert_eq!(t.patch(&path, "merge-patch+json", &json!({"metadata": {"name": "other"}})).await.code, 400);
    t.server.shutdown().await;
}

#[tokio::test]
async fn server_side_apply_minds_who_owns_a_field() {
    let t = start().await;
    let apply = async |manager: &str, more: &str, data: Value| {
        let path = format!("{MAPS}/ssa?fieldManager={manager}{more}");
        t.patch(&path, "apply-patch+yaml", &map("ssa", data)).await
    };
    assert_eq!(apply("one", "", json!({"k": "1", "gone": "x"})).await.code, 201);
    let again = apply("one", "", json!({"k": "2"})).await;
    assert_eq!(
        (again.code, again.json()["data"].clone()),
        (200, json!({"k": "2"})),
        "what is applied no more is removed"
    );
    let managed = &again.json()["metadata"]["managedFields"][0];
    assert_eq!(
        (&managed["manager"], &managed["operation"], &managed["fieldsV1"]),
        (&json!("one"), &json!("Apply"), &json!({"f:data": {"f:k": {}}}))
    );
    let conflict = apply("two", "", json!({"k": "3"})).await;
    assert_eq!(
        (conflict.code, conflict.text.trim_end()),
        (
            409,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Apply failed with 1 conflict: conflict with \"one\": .data.k","reason":"Conflict","details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"one\"","field":".data.k"}]},"code":409}"#
        )
    );
    let forced = apply("two", "&force=true", json!({"k": "3"})).await;
    assert_eq!(
        (forced.code, forced.json()["metadata"]["managedFields"].as_array().map(Vec::len)),
        (200, Some(1))
    );
    let revision = t.server.revision();
    assert_eq!(apply("two", "", json!({"k": "3"})).await.meta("resourceVersion"), revision.to_string());
    let shared = apply("one", "", json!({"k": "3"})).await;
    assert_eq!(
        shared.json()["metadata"]["managedFields"].as_array().map(Vec::len),
        Some(2),
        "the same value is shared"
    );
    let update = t
        .patch(&format!("{MAPS}/ssa?fieldManager=edit"), "merge-patch+json", &json!({"data": {"k": "4"}}))
        .await;
    let fields = update.json()["metadata"]["managedFields"].clone();
    assert_eq!(fields.as_array().map(Vec::len), Some(1), "whoever changes a field owns it: {fields}");
    let nobody = t.patch(&format!("{MAPS}/ssa"), "apply-patch+yaml", &map("ssa", json!({}))).await;
    refused(
        &nobody,
        422,
        "Invalid",
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
    );
    t.server.shutdown().await;
}

#[tokio::test]
async fn server_side_apply_merges_lists_by_their_keys() {
    let t = start().await;
    let path = "/apis/apps/v1/namespaces/t/deployments/web?fieldManager=";
    let deployment = |containers: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}},
        })
    };
    let one = deployment(json!([{"name": "main", "image": "m:1", "ports": [{"containerPort": 80}]}]));
    assert_eq!(t.patch(&format!("{path}one"), "apply-patch+yaml", &one).await.code, 201);
    let two = deployment(json!([{"name": "side", "image": "s:1"}]));
    let both = t.patch(&format!("{path}two"), "apply-patch+yaml", &two).await.json();
    let names = |v: &Value| {
        v["spec"]["template"]["spec"]["containers"]
            .as_array()
            .expect("list")
            .iter()
            .map(|c| c["name"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&both), ["main", "side"]);
    assert_eq!(both["metadata"]["generation"], 2);
    let dropped = t.patch(&format!("{path}one"), "apply-patch+yaml", &deployment(json!([]))).await.json();
    assert_eq!(names(&dropped), ["side"], "a container goes with the manager that brought it");
    t.server.shutdown().await;
}

#[tokio::test]
async fn status_is_a_world_of_its_own() {
    let t = start().await;
    let pods = "/api/v1/namespaces/t/pods";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "Running"}});
    let created = t.post(pods, &pod).await.json();
    assert_eq!(created["status"]["phase"], "Pending", "a new pod has not run yet");
    let mut update = created.clone();
    update["status"]["phase"] = json!("Running");
    update["spec"]["nodeName"] = json!("n");
    let status = t.put(&format!("{pods}/p/status"), &update).await.json();
    assert_eq!((&status["status"]["phase"], status["spec"].get("nodeName")), (&json!("Running"), None));
    assert_eq!(status["metadata"]["generation"], 1);
    let mut back = status.clone();
    back["status"]["phase"] = json!("Failed");
    back["spec"]["activeDeadlineSeconds"] = json!(5);
    let main = t.put(&format!("{pods}/p"), &back).await.json();
    assert_eq!((&main["status"]["phase"], &main["metadata"]["generation"]), (&json!("Running"), &json!(2)));
    let patched = t
        .patch(
            &format!("{pods}/p/status"),
            "strategic-merge-patch+json",
            &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        )
        .await;
    assert_eq!(patched.json()["status"]["conditions"][0]["type"], "Ready");
    assert_eq!(t.get(&format!("{pods}?fieldSelector=status.phase%3DRunning")).await.names(), ["p"]);
    t.server.shutdown().await;
}

#[tokio::test]
async fn deletions_answer_with_a_status_or_with_what_lives_on() {
    let t = start().await;
    let created = t.post(MAPS, &map("new", json!({}))).await.json();
    let uid = created["metadata"]["uid"].as_str().expect("uid");
    let deleted = t.delete(&format!("{MAPS}/new")).await;
    assert_eq!(
        (deleted.code, deleted.text.trim_end()),
        (200, format!(r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Success","details":{{"name":"new","kind":"configmaps","uid":"{uid}"}}}}"#).as_str())
    );
    refused(&t.delete(&format!("{MAPS}/new")).await, 404, "NotFound", "configmaps \"new\" not found");
    let mut held = map("fin", json!({}));
    held["metadata"]["finalizers"] = json!(["x.io/hold"]);
    t.post(MAPS, &held).await;
    let marked = t.delete(&format!("{MAPS}/fin")).await;
    assert_eq!((marked.code, marked.json()["kind"].clone()), (200, json!("ConfigMap")));
    assert!(!marked.meta("deletionTimestamp").is_empty());
    let revision = t.server.revision();
    t.delete(&format!("{MAPS}/fin")).await;
    assert_eq!(t.server.revision(), revision, "once is enough");
    let more = t
        .patch(
            &format!("{MAPS}/fin"),
            "merge-patch+json",
            &json!({"metadata": {"finalizers": ["x.io/hold", "y.io/more"]}}),
        )
        .await;
    assert_eq!(more.code, 422, "no finalizers are added to what is being deleted");
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(t.patch(&format!("{MAPS}/fin"), "merge-patch+json", &free).await.code, 200);
    assert_eq!(t.get(&format!("{MAPS}/fin")).await.code, 404);
    t.server.shutdown().await;
}

#[tokio::test]
async fn deletions_have_preconditions() {
    let t = start().await;
    t.post(MAPS, &map("pre", json!({}))).await;
    let version = t.get(&format!("{MAPS}/pre")).await.meta("resourceVersion");
    let options = |preconditions: Value| {
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}).to_string()
    };
    let json_body = [("content-type", "application/json")];
    let answer =
        t.send("DELETE", &format!("{MAPS}/pre"), &json_body, &options(json!({"resourceVersion": "1"}))).await;
    refused(
        &answer,
        409,
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"pre\": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). The object might have been modified"
        ),
    );
    let answer = t.send("DELETE", &format!("{MAPS}/pre"), &json_body, &options(json!({"uid": "x"}))).await;
    assert_eq!(answer.code, 409);
    let dry = t.send("DELETE", &format!("{MAPS}/pre?dryRun=All"), &[], "").await;
    assert_eq!(dry.code, 200);
    assert_eq!(t.get(&format!("{MAPS}/pre")).await.code, 200, "a rehearsal");
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_rehearsal_leaves_no_trace() {
    let t = start().await;
    let revision = t.server.revision();
    let created = t.post(&format!("{MAPS}?dryRun=All"), &map("dry", json!({}))).await;
    assert_eq!((created.code, created.meta("resourceVersion")), (201, String::new()));
    assert_eq!(t.get(&format!("{MAPS}/dry")).await.code, 404);
    assert_eq!(t.server.revision(), revision);
    assert_eq!(t.post(&format!("{MAPS}?dryRun=Some"), &map("dry", json!({}))).await.code, 422);
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let t = start().await;
    for (name, app) in [("a", "x"), ("b", "x"), ("c", "y")] {
        t.config_map(name, json!({"app": app}), json!({}));
    }
    assert_eq!(t.delete(&format!("{MAPS}?labelSelector=app%3Dx")).await.names(), ["a", "b"]);
    assert_eq!(t.get(MAPS).await.names(), ["c"]);
    assert_eq!(t.delete("/api/v1/namespaces").await.code, 405);
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_namespace_takes_its_contents_with_it_and_waits_for_the_last() {
    let t = start().await;
    t.config_map("plain", json!({}), json!({}));
    let mut held = config_map("held", json!({}), json!({}));
    held["metadata"]["finalizers"] = json!(["x.io/hold"]);
    t.server.create(held.clone()).expect("created");
    let answer = t.delete("/api/v1/namespaces/t").await;
    assert_eq!((answer.code, answer.json()["status"]["phase"].clone()), (200, json!("Terminating")));
    assert_eq!(t.get(MAPS).await.names(), ["held"]);
    let late = t.post(MAPS, &map("x", json!({}))).await;
    refused(
        &late,
        403,
        "Forbidden",
        "configmaps \"x\" is forbidden: unable to create new content in namespace t because it is being terminated",
    );
    assert_eq!(
        late.json()["details"]["causes"],
        json!([{"reason": "NamespaceTerminating", "message": "namespace t is being terminated", "field": "metadata.namespace"}])
    );
    held["metadata"]["finalizers"] = json!([]);
    t.server.update(held).expect("released");
    assert_eq!(t.get("/api/v1/namespaces/t").await.code, 404);
    t.server.shutdown().await;
}

#[tokio::test]
async fn the_two_kinds_of_event_are_one() {
    let t = start().await;
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "eventTime": "2026-11-29T14:00:00.000000Z",
        "reportingController": "x", "reportingInstance": "y", "action": "Run", "reason": "R", "note": "m", "type": "Normal",
        "regarding": {"kind": "ConfigMap", "namespace": "t", "name": "cm-0"},
    });
    assert_eq!(t.post("/apis/events.k8s.io/v1/namespaces/t/events", &event).await.code, 201);
    let core = t.get("/api/v1/namespaces/t/events?fieldSelector=involvedObject.name%3Dcm-0").await.json();
    assert_eq!(
        (&core["items"][0]["message"], &core["items"][0]["involvedObject"]["kind"]),
        (&json!("m"), &json!("ConfigMap"))
    );
    t.server.shutdown().await;
}

#[tokio::test]
async fn whoever_asks_may_do_everything() {
    let t = start().await;
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"namespace": "t", "verb": "watch", "resource": "configmaps"}}});
    let answer = t.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await;
    assert_eq!((answer.code, answer.json()["status"]["allowed"].clone()), (201, json!(true)));
    t.server.shutdown().await;
}

#[tokio::test]
async fn replicas_have_a_subresource() {
    let t = start().await;
    t.server.create(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "t"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [{"name": "c"}]}}},
    })).expect("created");
    let path = "/apis/apps/v1/namespaces/t/deployments/d/scale";
    let scale = t.get(path).await.json();
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"], &scale["status"]["selector"]),
        (&json!("Scale"), &json!(2), &json!("a=b"))
    );
    let patched = t.patch(path, "merge-patch+json", &json!({"spec": {"replicas": 5}})).await.json();
    assert_eq!(patched["spec"]["replicas"], 5);
    assert_eq!(t.get("/apis/apps/v1/namespaces/t/deployments/d").await.json()["spec"]["replicas"], 5);
    assert_eq!(t.get("/api/v1/namespaces/t/configmaps/x/scale").await.code, 404);
    t.server.shutdown().await;
}
