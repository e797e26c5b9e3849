//! The example plugins do what their READMEs say, in the built host, on an API server. Their parts have tests of
//! their own beside them; here it is the `.wasm` file that is told of real events.

use anyhow::{Context, Result};
use hark_tests::cluster::{Cluster, Kind};
use hark_tests::guests::plugin;
use hark_tests::hark::{Hark, Setup};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

async fn cluster() -> Result<Cluster> {
    Cluster::start(Kind::Embedded).await?.context("the embedded server is always there")
}

/// What a plugin said, without the host's own words around it.
fn said(hark: &Hark, text: &str) -> Vec<String> {
    let line = |line: &str| {
        let start = line.find(text)?;
        Some(line[start..].split(" plugin=").next()?.trim().to_owned())
    };
    hark.stderr().lines().filter_map(line).collect()
}

/// Waits until the plugin has been told of an object: from then on it hears of each change.
async fn told(hark: &Hark, key: &str) {
    hark.traces(key, |trace| trace.iter().any(|line| line.key == key)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn required_labels_warns_once_for_each_set_of_missing_labels() -> Result<()> {
    let cluster = cluster().await?;
    let config =
        "[plugins.required-labels.settings]\nkinds = [\"v1/ConfigMap\"]\nlabels = [\"team\", \"tier\"]\n";
    let hark = Setup::new()?
        .config(config)?
        .plugin("required-labels", &plugin("required-labels"))?
        .run(cluster.kubeconfig())?;
    let maps = cluster.config_maps();
    cluster.create("first", "1").await?;
    told(&hark, "default/first").await;
    let labelled = json!({"metadata": {"name": "good", "labels": {"team": "a", "tier": "web"}}});
    maps.create(&PostParams::default(), &serde_json::from_value::<ConfigMap>(labelled)?).await?;
    cluster.create("bad", "1").await?;
    let patch = |patch: Value| {
        let maps = &maps;
        async move { maps.patch("bad", &PatchParams::default(), &Patch::Merge(patch)).await }
    };
    patch(json!({"data": {"text": "still without labels"}})).await?;
    patch(json!({"metadata": {"labels": {"team": "b"}}})).await?;
    patch(json!({"metadata": {"labels": {"tier": "db"}}})).await?;
    // The change of its data is none: the plugin asks for labels only.
    hark.traces("three events of the object", |trace| {
        trace.iter().filter(|line| line.key == "default/bad" && line.outcome == "ok").count() == 3
    })
    .await;
    assert_eq!(said(&hark, "default/bad lacks"), ["default/bad lacks team, tier", "default/bad lacks tier"]);
    assert_eq!(said(&hark, "default/good lacks"), [""; 0]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_watch_warns_of_restarts_and_their_cause() -> Result<()> {
    let cluster = cluster().await?;
    let hark = Setup::new()?.plugin("crash-watch", &plugin("crash-watch"))?.run(cluster.kubeconfig())?;
    let pods: Api<Pod> = cluster.pods();
    let pod =
        json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "nginx"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    told(&hark, "default/web").await;
    let status = |restarts: u32, last: Value| {
        let container = json!({
            "name": "app", "image": "nginx", "imageID": "", "ready": false, "restartCount": restarts,
            "state": {"running": {}}, "lastState": last,
        });
        json!({"status": {"containerStatuses": [container]}})
    };
    let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    for status in [status(0, json!({})), status(2, killed)] {
        pods.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await?;
    }
    hark.traces("three events of the pod", |trace| {
        trace.iter().filter(|line| line.outcome == "ok").count() == 3
    })
    .await;
    let lines = said(&hark, "default/web container app");
    let restarted = "default/web container app restarted (was 0, now 2), last exit: OOMKilled, code 137";
    assert!(lines.iter().any(|line| line == restarted), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("CrashLoopBackOff")), "{lines:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_report_counts_on_over_a_change_of_its_settings() -> Result<()> {
    let cluster = cluster().await?;
    let config = |every: u64| format!("[plugins.restart-report.settings]\nevery = {every}\n");
    let mut hark = Setup::new()?
        .config(&config(3))?
        .plugin("restart-report", &plugin("restart-report"))?
        .run(cluster.kubeconfig())?;
    let pods: Api<Pod> = cluster.pods();
    let pod =
        json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "nginx"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    told(&hark, "default/web").await;
    let restarted = async |times: u32, cause: &str| {
        let container = json!({
            "name": "app", "image": "nginx", "imageID": "", "ready": false, "restartCount": times,
            "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1, "reason": cause}},
        });
        let status = json!({"status": {"containerStatuses": [container]}});
        pods.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await
    };
    restarted(1, "Error").await?;
    hark.traces("the first restart", |trace| trace.iter().any(|line| line.op == "update")).await;
    std::fs::write(hark.folder().join("hark.toml"), config(2))?;
    hark.says(&["restart-report reloaded: "]).await;
    restarted(2, "OOMKilled").await?;
    hark.says(&["default: 2 restarts so far: 1 Error, 1 OOMKilled"]).await;
    restarted(3, "OOMKilled").await?;
    hark.traces("the last restart", |trace| trace.iter().filter(|line| line.op == "update").count() == 3)
        .await;
    hark.signal("TERM")?;
    assert!(hark.ends().await?.success());
    let said = said(&hark, "default: ");
    let want = [
        "default: 2 restarts so far: 1 Error, 1 OOMKilled",
        "default: 3 restarts so far: 2 OOMKilled, 1 Error",
    ];
    assert_eq!(said, want, "the second as its last word");
    Ok(())
}
