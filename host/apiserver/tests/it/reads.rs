//! Gets and lists: versions, pages, selectors, forms.

use std::time::Instant;

use serde_json::json;

use crate::client::{Test, start};

const LIST: &str = "/api/v1/namespaces/t/configmaps";

/// Three maps labelled a, two labelled b.
async fn five() -> Test {
    let t = start().await;
    for i in 0..5 {
        let app = if i < 3 { "a" } else { "b" };
        t.config_map(&format!("cm-{i}"), json!({"app": app}), json!({"n": i.to_string()}));
    }
    t
}

#[tokio::test]
async fn lists_of_built_in_kinds_have_the_type_in_front_and_not_in_the_items() {
    let t = five().await;
    let revision = t.server.revision();
    let empty = t.get("/api/v1/namespaces/default/configmaps").await;
    assert_eq!(
        empty.text,
        format!(
            "{{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{revision}\"}},\"items\":[]}}\n"
        )
    );
    assert_eq!(t.get("/api/v1/namespaces/nonexistent/configmaps").await.names(), Vec::<String>::new());
    let all = t.get(LIST).await;
    assert!(all.json()["items"][0].get("kind").is_none());
    assert!(all.text.contains(r#""items":[{"metadata":{"name":"cm-0","namespace":"t","uid":""#));
    let one = t.get(&format!("{LIST}/cm-0")).await;
    assert!(one.text.starts_with(r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cm-0""#));
    t.server.shutdown().await;
}

#[tokio::test]
async fn pages_are_of_one_revision_whatever_happens_between_them() {
    let t = five().await;
    let revision = t.server.revision();
    let first = t.get(&format!("{LIST}?limit=2")).await;
    assert_eq!(first.names(), ["cm-0", "cm-1"]);
    assert_eq!(first.json()["metadata"]["remainingItemCount"], 3);
    t.delete_config_map("cm-2");
    t.config_map("cm-2a", json!({}), json!({}));
    let token = first.meta("continue");
    let second = t.get(&format!("{LIST}?limit=2&continue={token}")).await;
    assert_eq!(second.names(), ["cm-2", "cm-3"]);
    let third = t.get(&format!("{LIST}?limit=2&continue={}", second.meta("continue"))).await;
    assert_eq!(third.names(), ["cm-4"]);
    for page in [&first, &second, &third] {
        assert_eq!(page.meta("resourceVersion"), revision.to_string());
    }
    assert_eq!(third.json()["metadata"], json!({"resourceVersion": revision.to_string()}));
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_compacted_page_is_gone_but_can_be_continued_inconsistently() {
    let t = five().await;
    let token = t.get(&format!("{LIST}?limit=2")).await.meta("continue");
    let old = t.server.revision();
    t.config_map("cm-1a", json!({}), json!({}));
    t.server.faults().compact();
    let gone = t.get(&format!("{LIST}?limit=2&continue={token}")).await;
    assert_eq!((gone.code, gone.json()["reason"].clone()), (410, json!("Expired")));
    assert!(
        gone.json()["message"]
            .as_str()
            .expect("text")
            .starts_with("The provided continue parameter is too old to display a consistent list result.")
    );
    let rest = t.get(&format!("{LIST}?limit=9&continue={}", gone.meta("continue"))).await;
    assert_eq!(rest.names(), ["cm-1a", "cm-2", "cm-3", "cm-4"]);
    let exact = t.get(&format!("{LIST}?resourceVersion={old}&resourceVersionMatch=Exact")).await;
    assert_eq!(
        (exact.code, exact.text.trim_end()),
        (
            410,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"The resourceVersion for the provided list is too old.","reason":"Expired","code":410}"#
        )
    );
    let newer = t.get(&format!("{LIST}?resourceVersion={old}&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!(newer.code, 200);
    t.server.shutdown().await;
}

#[tokio::test]
async fn versions_ask_for_any_for_at_least_or_for_exactly() {
    let t = five().await;
    let then = t.server.revision();
    t.config_map("later", json!({}), json!({}));
    let names = async |query: &str| t.get(&format!("{LIST}?{query}")).await.names().len();
    assert_eq!(names("").await, 6);
    assert_eq!(names("resourceVersion=0&limit=2").await, 6, "version 0 ignores the limit");
    assert_eq!(names(&format!("resourceVersion={then}")).await, 6);
    assert_eq!(names(&format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan")).await, 6);
    assert_eq!(names(&format!("resourceVersion={then}&resourceVersionMatch=Exact")).await, 5);
    let legacy = t.get(&format!("{LIST}?resourceVersion={then}&limit=9")).await;
    assert_eq!((legacy.names().len(), legacy.meta("resourceVersion")), (5, then.to_string()));
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_version_that_is_not_reached_in_time_is_told_so() {
    let t = five().await;
    let began = Instant::now();
    let current = t.server.revision();
    let answer = t.get(&format!("{LIST}?resourceVersion=999999999")).await;
    assert!(began.elapsed().as_millis() >= 2900);
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(
        (answer.code, answer.text.trim_end()),
        (504, format!(r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"Timeout: Too large resource version: 999999999, current: {current}","reason":"Timeout","details":{{"causes":[{{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}}],"retryAfterSeconds":1}},"code":504}}"#).as_str())
    );
    let path = format!("{LIST}?resourceVersion={}", current + 1);
    let (waited, ()) = tokio::join!(t.get(&path), async {
        t.config_map("new", json!({}), json!({}));
    });
    assert_eq!(waited.code, 200, "a version that is reached is answered");
    t.server.shutdown().await;
}

#[tokio::test]
async fn selectors_choose_and_are_checked() {
    let t = five().await;
    for (query, expected) in [
        ("labelSelector=app%3Da", vec!["cm-0", "cm-1", "cm-2"]),
        ("labelSelector=app+notin+(a)", vec!["cm-3", "cm-4"]),
        ("fieldSelector=metadata.name%3Dcm-1", vec!["cm-1"]),
        ("labelSelector=app%3Db&limit=1", vec!["cm-3"]),
    ] {
        assert_eq!(t.get(&format!("{LIST}?{query}")).await.names(), expected, "{query}");
    }
    let page = t.get(&format!("{LIST}?labelSelector=app%3Da&limit=1")).await.json();
    assert!(page["metadata"].get("remainingItemCount").is_none(), "not counted under a selector");
    assert_eq!(
        t.get("/api/v1/configmaps?fieldSelector=metadata.namespace%3Dt,metadata.name%3Dcm-2").await.names(),
        ["cm-2"]
    );
    for (query, message) in [
        (
            "fieldSelector=data.k%3Dv",
            r#"\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""#,
        ),
        (
            "fieldSelector=metadata.name",
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
        ),
        (
            "limit=2&resourceVersion=228&continue=abc",
            "specifying resource version is not allowed when using continue",
        ),
    ] {
        let answer = t.get(&format!("{LIST}?{query}")).await;
        let expected = format!(
            r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}","reason":"BadRequest","code":400}}"#
        );
        assert_eq!((answer.code, answer.text.trim_end()), (400, expected.as_str()), "{query}");
    }
    assert_eq!(t.get(&format!("{LIST}?limit=2&continue=garbage")).await.code, 400);
    assert_eq!(t.get(&format!("{LIST}?labelSelector=a%3D%3D%3Db")).await.code, 400);
    t.server.shutdown().await;
}

#[tokio::test]
async fn objects_are_shown_as_rows_or_as_metadata_on_request() {
    let t = five().await;
    let table = t
        .get_as(&format!("{LIST}?limit=2"), "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
        .await;
    assert!(
        table
            .text
            .starts_with(r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":""#)
    );
    let json = table.json();
    let columns: Vec<&str> = json["columnDefinitions"]
        .as_array()
        .expect("columns")
        .iter()
        .filter_map(|c| c["name"].as_str())
        .collect();
    assert_eq!(columns, ["Name", "Data", "Age"]);
    assert_eq!(json["rows"][0]["cells"][0], "cm-0");
    assert_eq!(json["rows"][0]["cells"][1], 1);
    assert_eq!(json["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(json["metadata"]["remainingItemCount"], 3);
    let bare = t
        .get_as(&format!("{LIST}?includeObject=None"), "application/json;as=Table;v=v1;g=meta.k8s.io")
        .await
        .json();
    assert_eq!(bare["rows"][0]["object"], json!(null));
    let partial =
        t.get_as(LIST, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").await.json();
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert_eq!(partial["items"][0]["kind"], "PartialObjectMetadata");
    assert!(partial["items"][0].get("data").is_none());
    let one = t
        .get_as(&format!("{LIST}/cm-0"), "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
        .await;
    assert!(one.text.starts_with(
        r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"cm-0""#
    ));
    t.server.shutdown().await;
}
