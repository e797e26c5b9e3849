//! Discovery, and what is not there.

use crate::client::start;
use serde_json::{Value, json};

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

#[tokio::test]
async fn unknown_paths_are_refused_in_the_form_of_the_real_server() {
    let t = start().await;
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#;
    let plain = "404 page not found";
    for (path, expected) in [
        ("/apis/nope.example.com/v1", plain),
        ("/apis/nope.example.com/v1/things", plain),
        ("/apis/apps/v9/deployments", status),
        ("/api/v1/widgetz", status),
        ("/api/v1/namespaces/t/widgetz", status),
        ("/api/v1/namespaces/t/nodes", status),
        ("/api/v1/configmaps/x", status),
        ("/nope", plain),
        ("/openapi/v2", plain),
    ] {
        let answer = t.get(path).await;
        assert_eq!((answer.code, answer.text.trim_end()), (404, expected), "{path}");
        let json = expected == status;
        assert_eq!(answer.header("content-type") == "application/json", json, "{path}");
    }
    assert_eq!(t.send("HEAD", "/api/v1/namespaces/t/configmaps", &[], "").await.code, 405);
    assert_eq!(t.send("POST", "/api/v1/configmaps", &[], "{}").await.code, 405);
    t.server.shutdown().await;
}

#[tokio::test]
async fn every_group_and_resource_can_be_discovered() {
    let t = start().await;
    let versions = t.get("/api").await.json();
    assert_eq!(versions["versions"], json!(["v1"]));
    let groups = t.get("/apis").await.json();
    for group in groups["groups"].as_array().expect("groups") {
        let version = group["preferredVersion"]["groupVersion"].as_str().expect("a version");
        let resources = t.get(&format!("/apis/{version}")).await;
        assert_eq!(resources.code, 200, "{version}");
        assert!(!resources.json()["resources"].as_array().expect("resources").is_empty());
    }
    let core = t.get("/api/v1").await.json();
    let find =
        |name: &str| core["resources"].as_array().expect("list").iter().find(|r| r["name"] == name).cloned();
    assert_eq!(
        find("configmaps"),
        Some(json!({
            "name": "configmaps", "singularName": "configmap", "namespaced": true, "kind": "ConfigMap",
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "shortNames": ["cm"], "storageVersionHash": "qFsyl6wFWjQ=",
        }))
    );
    assert_eq!(find("pods/status").map(|r| r["verbs"].clone()), Some(json!(["get", "patch", "update"])));
    assert_eq!(t.get("/apis/apps").await.json()["name"], "apps");
    t.server.shutdown().await;
}

#[tokio::test]
async fn aggregated_discovery_is_one_answer_that_can_be_kept() {
    let t = start().await;
    let first = t.get_as("/apis", AGGREGATED).await;
    assert!(first.header("content-type").ends_with("as=APIGroupDiscoveryList"));
    let has = |body: &Value, group: &str| {
        body["items"].as_array().expect("items").iter().any(|i| i["metadata"]["name"] == group)
    };
    assert!(has(&first.json(), "apps"));
    let etag = first.header("etag").to_owned();
    let again = t.send("GET", "/apis", &[("accept", AGGREGATED), ("if-none-match", &etag)], "").await;
    assert_eq!((again.code, again.text.as_str(), again.header("content-type")), (304, "", ""));
    t.server.create(crate::custom::definition()).expect("created");
    let changed = t.send("GET", "/apis", &[("accept", AGGREGATED), ("if-none-match", &etag)], "").await;
    assert_eq!(changed.code, 200);
    assert!(has(&changed.json(), "example.com"));
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_form_that_cannot_be_had_is_not_acceptable() {
    let t = start().await;
    for path in ["/api/v1/namespaces/t/configmaps", "/api"] {
        let answer = t.get_as(path, "application/xml").await;
        assert_eq!((answer.code, answer.json()["reason"].clone()), (406, json!("NotAcceptable")), "{path}");
    }
    t.server.shutdown().await;
}

#[tokio::test]
async fn the_version_is_marked_and_the_server_is_ready() {
    let t = start().await;
    assert!(t.get("/version").await.json()["gitVersion"].as_str().expect("text").ends_with("+hark"));
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(t.get(path).await.text, "ok");
    }
    assert!(t.get("/openapi/v3").await.json()["paths"]["apis/apps/v1"]["serverRelativeURL"].is_string());
    let document = t.get("/openapi/v3/apis/apps/v1").await.json();
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    t.server.shutdown().await;
}
