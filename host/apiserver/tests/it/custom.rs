//! Custom resources and their definitions.

use serde_json::{Value, json};

use crate::client::{Next, Test, start};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/t/widgets";

/// Widgets in two versions, the older one deprecated.
pub(crate) fn definition() -> Value {
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "deprecated": !storage,
            "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
                "spec": {"type": "object", "required": ["size"], "properties": {
                    "size": {"type": "integer", "minimum": 1, "maximum": 10},
                    "color": {"type": "string", "enum": ["red", "green", "blue"], "default": "red"},
                }},
                "status": {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}},
            }}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"}},
            "selectableFields": [{"jsonPath": ".spec.color"}],
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wg"]},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

fn widget(name: &str, size: i64, color: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "t"}, "spec": {"size": size, "color": color}})
}

async fn with_widgets() -> Test {
    let t = start().await;
    t.server.create(definition()).expect("created");
    t.server.create(widget("w-0", 1, "red")).expect("created");
    t.server.create(widget("w-1", 2, "green")).expect("created");
    t
}

#[tokio::test]
async fn a_definition_is_served_at_once() {
    let t = start().await;
    assert_eq!(t.get(WIDGETS).await.text, "404 page not found\n");
    let created = t.post(CRDS, &definition()).await;
    assert_eq!((created.code, created.json()["status"]["conditions"].clone()), (201, json!(null)));
    let revision = t.server.revision();
    assert_eq!(
        t.get(WIDGETS).await.text,
        format!(
            "{{\"apiVersion\":\"example.com/v1\",\"items\":[],\"kind\":\"WidgetList\",\"metadata\":{{\"continue\":\"\",\"resourceVersion\":\"{revision}\"}}}}\n"
        )
    );
    let status = t.get(&format!("{CRDS}/widgets.example.com")).await.json()["status"].clone();
    let conditions: Vec<Value> =
        status["conditions"].as_array().expect("list").iter().map(|c| c["type"].clone()).collect();
    assert_eq!(conditions, ["NamesAccepted", "Established"]);
    assert_eq!(status["storedVersions"], json!(["v1"]));
    assert_eq!(t.get("/apis/example.com").await.json()["preferredVersion"]["version"], "v1");
    assert_eq!(t.get("/apis/example.com/v1/namespaces/t/gadgets").await.text, "404 page not found\n");
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_definition_must_make_sense() {
    let t = start().await;
    for (pointer, value, field) in [
        ("/metadata/name", json!("wrong.example.com"), "metadata.name"),
        ("/spec/scope", json!("Galaxy"), "spec.scope"),
        ("/spec/versions/1/storage", json!(true), "spec.versions"),
        ("/spec/names/kind", json!(""), "spec.names.kind"),
    ] {
        let mut bad = definition();
        *bad.pointer_mut(pointer).expect("there") = value;
        let answer = t.post(CRDS, &bad).await;
        assert_eq!(answer.code, 422, "{pointer}");
        assert!(
            answer.json()["details"]["causes"]
                .as_array()
                .expect("causes")
                .iter()
                .any(|c| c["field"] == field),
            "{pointer}"
        );
    }
    t.server.shutdown().await;
}

#[tokio::test]
async fn custom_objects_are_written_by_key_and_keep_their_type_in_lists() {
    let t = with_widgets().await;
    let list = t.get(&format!("{WIDGETS}?limit=1")).await;
    assert!(list.text.starts_with(r#"{"apiVersion":"example.com/v1","items":[{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"creationTimestamp":""#), "{}", list.text);
    assert!(list.text.contains(r#"],"kind":"WidgetList","metadata":{"continue":"eyJ"#));
    assert_eq!(list.json()["metadata"]["remainingItemCount"], 1);
    let old = t.get("/apis/example.com/v1beta1/namespaces/t/widgets/w-0").await;
    assert_eq!(old.json()["apiVersion"], "example.com/v1beta1");
    assert_eq!(
        old.header("warning"),
        r#"299 - "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget""#
    );
    assert_eq!(t.get(&format!("{WIDGETS}?fieldSelector=spec.color%3Dgreen")).await.names(), ["w-1"]);
    let unsupported = t.get(&format!("{WIDGETS}?fieldSelector=spec.size%3D1")).await;
    assert_eq!(
        (unsupported.code, unsupported.json()["message"].clone()),
        (400, json!("field label not supported: spec.size"))
    );
    let table = t.get_as(WIDGETS, "application/json;as=Table;v=v1;g=meta.k8s.io").await.json();
    assert_eq!(table["rows"][1]["cells"], json!(["w-1", 2]));
    t.server.shutdown().await;
}

#[tokio::test]
async fn the_schema_prunes_defaults_and_validates() {
    let t = with_widgets().await;
    let bad = t.post(WIDGETS, &widget("bad", 99, "pink")).await;
    assert_eq!(bad.code, 422);
    assert_eq!(
        bad.json()["message"],
        "Widget.example.com \"bad\" is invalid: [spec.size: Invalid value: 99: spec.size in body should be less than or equal to 10, spec.color: Unsupported value: \"pink\": supported values: \"red\", \"green\", \"blue\"]"
    );
    let extra = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "pruned"}, "spec": {"size": 1, "bogus": 1}});
    let pruned = t.post(WIDGETS, &extra).await;
    assert_eq!((pruned.code, pruned.json()["spec"].clone()), (201, json!({"size": 1, "color": "red"})));
    assert_eq!(pruned.header("warning"), r#"299 - "unknown field \"spec.bogus\"""#);
    let strict = t.post(&format!("{WIDGETS}?fieldValidation=Strict"), &extra).await;
    assert_eq!(
        (strict.code, strict.json()["message"].clone()),
        (
            400,
            json!(
                "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.bogus\""
            )
        )
    );
    t.server.shutdown().await;
}

#[tokio::test]
async fn updates_of_custom_objects_need_a_version_and_count_generations() {
    let t = with_widgets().await;
    let path = format!("{WIDGETS}/w-1");
    let blind = t.put(&path, &widget("w-1", 4, "red")).await;
    assert_eq!(
        (blind.code, blind.json()["message"].clone()),
        (
            422,
            json!(
                "widgets.example.com \"w-1\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
            )
        )
    );
    let mut object = t.get(&path).await.json();
    object["spec"]["size"] = json!(4);
    object["status"] = json!({"phase": "Ready"});
    let updated = t.put(&path, &object).await.json();
    assert_eq!(
        (&updated["metadata"]["generation"], updated.get("status")),
        (&json!(2), None),
        "status is not for everyone"
    );
    object["metadata"]["resourceVersion"] = updated["metadata"]["resourceVersion"].clone();
    let status = t.put(&format!("{path}/status"), &object).await.json();
    assert_eq!((&status["metadata"]["generation"], &status["status"]["phase"]), (&json!(2), &json!("Ready")));
    let strategic = t.patch(&path, "strategic-merge-patch+json", &json!({"spec": {"size": 2}})).await;
    assert_eq!(strategic.code, 415);
    let scaled =
        t.patch(&format!("{path}/scale"), "merge-patch+json", &json!({"spec": {"replicas": 7}})).await;
    assert_eq!(scaled.json()["spec"]["replicas"], 7);
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_definition_takes_its_objects_and_watches_with_it() {
    let t = with_widgets().await;
    let begin = t.server.revision();
    let mut widgets = t.watch(&format!("{WIDGETS}?watch=true&resourceVersion={begin}")).await;
    let mut definitions = t.watch(&format!("{CRDS}?watch=true&resourceVersion={begin}")).await;
    assert_eq!(t.delete(&format!("{CRDS}/widgets.example.com")).await.code, 200);
    let told = widgets.briefs(3).await;
    assert!(
        told[0].starts_with("DELETED w-0") && told[1].starts_with("DELETED w-1") && told[2] == "End",
        "{told:?}"
    );
    let kinds: Vec<String> =
        definitions.briefs(3).await.iter().map(|b| b.split(' ').next().expect("kind").to_owned()).collect();
    assert_eq!(kinds, ["MODIFIED", "MODIFIED", "DELETED"]);
    for path in [
        WIDGETS.to_owned(),
        format!("{WIDGETS}?watch=true&resourceVersion={begin}"),
        "/apis/example.com/v1".into(),
    ] {
        let answer = t.get(&path).await;
        assert_eq!(
            (answer.code, answer.text.as_str(), answer.header("content-type")),
            (404, "404 page not found\n", "text/plain; charset=utf-8"),
            "{path}"
        );
    }
    t.server.create(definition()).expect("created again");
    assert_eq!(t.get(WIDGETS).await.names(), Vec::<String>::new());
    let mut old = t.watch(&format!("{WIDGETS}?watch=true&resourceVersion={begin}")).await;
    assert!(old.brief().await.starts_with("ERROR 410"), "its past died with it");
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_change_of_the_definition_ends_watches_cleanly() {
    let t = with_widgets().await;
    let mut watch = t.watch(&format!("{WIDGETS}?watch=true&resourceVersion={}", t.server.revision())).await;
    let path = format!("{CRDS}/widgets.example.com");
    let mut status = t.get(&path).await.json();
    status["metadata"]["labels"] = json!({"a": "b"});
    t.put(&path, &status).await;
    t.server.create(widget("w-2", 3, "blue")).expect("created");
    assert!(watch.brief().await.starts_with("ADDED w-2"), "a label is no change of what is served");
    let mut object = t.get(&path).await.json();
    object["spec"]["versions"][1]["served"] = json!(false);
    assert_eq!(t.put(&path, &object).await.code, 200);
    assert_eq!(watch.next().await, Next::End);
    assert_eq!(t.get("/apis/example.com/v1beta1/namespaces/t/widgets").await.text, "404 page not found\n");
    assert_eq!(t.get(WIDGETS).await.names().len(), 3);
    t.server.shutdown().await;
}
