//! The real kubectl, where it is on the PATH.

use std::path::PathBuf;
use std::process::Stdio;

use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::client::{Test, start};

struct Kubectl {
    home: TempDir,
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// `None`, said loudly, where there is no kubectl.
    async fn of(test: &Test) -> Option<Self> {
        let home = TempDir::new().expect("a folder");
        let kubeconfig = home.path().join("kubeconfig");
        test.server.write_kubeconfig(&kubeconfig).expect("written");
        let kubectl = Kubectl { home, kubeconfig };
        let found =
            kubectl.command(&["version", "--client"]).output().await.is_ok_and(|o| o.status.success());
        if !found {
            eprintln!("SKIPPED: no kubectl on the PATH, so nothing here was tested with it");
        }
        found.then_some(kubectl)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into()));
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(args)
            .env("HOME", self.home.path())
            .env("KUBECACHEDIR", self.home.path().join("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs a command with a manifest on its standard input: whether it succeeded, and all it said.
    async fn run(&self, args: &[&str], input: &str) -> (bool, String) {
        let mut child = self.command(args).spawn().expect("runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        // It may not read what it does not need.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = child.wait_with_output().await.expect("ends");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).expect("utf-8"))
    }

    async fn ok(&self, line: &str) -> String {
        self.ok_with(line, "").await
    }

    async fn ok_with(&self, line: &str, input: &str) -> String {
        let args: Vec<&str> = line.split(' ').collect();
        let (ok, text) = self.run(&args, input).await;
        assert!(ok, "kubectl {line}: {text}");
        text
    }

    async fn fails(&self, line: &str) -> String {
        let args: Vec<&str> = line.split(' ').collect();
        let (ok, text) = self.run(&args, "").await;
        assert!(!ok, "kubectl {line} should fail: {text}");
        text
    }
}

/// Words of each line.
fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

const MANIFEST: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: nginx:1
        ports: [{containerPort: 80}]
        env: [{name: A, value: "1"}, {name: B, value: "2"}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: cm}
data: {k: v}
"#;

#[tokio::test]
async fn apply_creates_configures_and_leaves_alone_without_warnings() {
    let t = start().await;
    let Some(kubectl) = Kubectl::of(&t).await else { return };
    let apply = "apply -f -";
    assert_eq!(kubectl.ok_with(apply, MANIFEST).await, "deployment.apps/web created\nconfigmap/cm created\n");
    assert_eq!(
        kubectl.ok_with(apply, MANIFEST).await,
        "deployment.apps/web unchanged\nconfigmap/cm unchanged\n"
    );
    let changed =
        MANIFEST.replace("nginx:1", "nginx:2").replace("{name: B, value: \"2\"}", "{name: C, value: \"3\"}");
    assert_eq!(
        kubectl.ok_with(apply, &changed).await,
        "deployment.apps/web configured\nconfigmap/cm unchanged\n"
    );
    let env = kubectl.ok("get deploy web -o jsonpath={.spec.template.spec.containers[0].env[*].name}").await;
    assert_eq!(env, "A C", "lists merge by key, and what is applied no more is removed");
    assert_eq!(
        kubectl.ok_with("apply --server-side -f -", &changed).await,
        "deployment.apps/web serverside-applied\nconfigmap/cm serverside-applied\n"
    );
    t.server.shutdown().await;
}

#[tokio::test]
async fn get_prints_tables_names_and_documents() {
    let t = start().await;
    let Some(kubectl) = Kubectl::of(&t).await else { return };
    kubectl.ok_with("apply -f -", MANIFEST).await;
    let table = kubectl.ok("get deploy,cm").await;
    assert_eq!(words(&table)[0], ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    assert_eq!(words(&table)[1][..2], ["deployment.apps/web", "0/2"]);
    assert_eq!(words(&table)[3], ["NAME", "DATA", "AGE"]);
    let wide = kubectl.ok("get deploy -o wide").await;
    assert_eq!(words(&wide)[1][5..], ["c", "nginx:1", "app=web"]);
    assert_eq!(kubectl.ok("get cm -A -o name --chunk-size=1").await, "configmap/cm\n");
    assert!(kubectl.ok("get cm cm -o yaml").await.contains("\ndata:\n  k: v\n"));
    assert_eq!(kubectl.ok("get deploy -l app=web -o name").await, "deployment.apps/web\n");
    assert_eq!(kubectl.ok("get cm --field-selector metadata.name=cm -o name").await, "configmap/cm\n");
    assert_eq!(
        kubectl.fails("get cm nope").await,
        "Error from server (NotFound): configmaps \"nope\" not found\n"
    );
    assert!(kubectl.ok("describe deploy web").await.contains("nginx:1"));
    assert!(words(&kubectl.ok("api-resources").await).iter().any(|w| w.first() == Some(&"deployments")));
    assert!(kubectl.ok("api-versions").await.contains("apps/v1\n"));
    assert!(kubectl.ok("version").await.contains("+hark"));
    t.server.shutdown().await;
}

#[tokio::test]
async fn typed_commands_are_understood_though_they_speak_protobuf() {
    let t = start().await;
    let Some(kubectl) = Kubectl::of(&t).await else { return };
    assert_eq!(kubectl.ok("create configmap a --from-literal=x=y").await, "configmap/a created\n");
    assert_eq!(kubectl.ok("create ns team").await, "namespace/team created\n");
    assert_eq!(kubectl.ok("create secret generic s --from-literal=p=q").await, "secret/s created\n");
    assert_eq!(
        kubectl.ok("create deployment d --image=busybox --replicas=0").await,
        "deployment.apps/d created\n"
    );
    assert_eq!(kubectl.ok("get deploy d -o jsonpath={.spec.replicas}").await, "0");
    assert_eq!(kubectl.ok("get secret s -o jsonpath={.data.p}").await, "cQ==");
    assert_eq!(kubectl.ok("create configmap dry --dry-run=server -o name").await, "configmap/dry\n");
    kubectl.fails("get cm dry").await;
    assert_eq!(kubectl.ok("auth can-i create pods").await, "yes\n");
    assert!(kubectl.fails("create configmap x -n nope").await.contains("namespaces \"nope\" not found"));
    t.server.shutdown().await;
}

#[tokio::test]
async fn objects_are_labelled_patched_scaled_and_deleted() {
    let t = start().await;
    let Some(kubectl) = Kubectl::of(&t).await else { return };
    kubectl.ok_with("apply -f -", MANIFEST).await;
    assert_eq!(kubectl.ok("label cm cm app=x").await, "configmap/cm labeled\n");
    assert_eq!(kubectl.ok("annotate cm cm note=hello").await, "configmap/cm annotated\n");
    kubectl.ok(r#"patch cm cm --type=json -p [{"op":"add","path":"/data/z","value":"1"}]"#).await;
    kubectl.ok(r#"patch cm cm --type=merge -p {"data":{"k":null}}"#).await;
    kubectl.ok(r#"patch deploy web -p {"spec":{"replicas":4}}"#).await;
    assert_eq!(kubectl.ok("get cm cm -o jsonpath={.data}").await, r#"{"z":"1"}"#);
    assert_eq!(kubectl.ok("scale deploy web --replicas=5").await, "deployment.apps/web scaled\n");
    assert_eq!(kubectl.ok("get deploy web -o jsonpath={.spec.replicas}").await, "5");
    let document = kubectl.ok("get cm cm -o json").await.replace("\"1\"", "\"one\"");
    assert_eq!(kubectl.ok_with("replace -f -", &document).await, "configmap/cm replaced\n");
    assert!(
        !kubectl.run(&["replace", "-f", "-"], &document.replace("one", "two")).await.0,
        "the version is stale"
    );
    kubectl.ok(r#"patch cm cm -p {"metadata":{"finalizers":["x.io/hold"]}}"#).await;
    kubectl.ok("delete cm cm --wait=false").await;
    assert!(!kubectl.ok("get cm cm -o jsonpath={.metadata.deletionTimestamp}").await.is_empty());
    kubectl.ok(r#"patch cm cm --type=merge -p {"metadata":{"finalizers":null}}"#).await;
    kubectl.fails("get cm cm").await;
    kubectl.ok("delete deploy -l app=web").await;
    kubectl.ok("create configmap one").await;
    kubectl.ok("delete cm --all").await;
    assert_eq!(kubectl.ok("get cm -A -o name").await, "");
    kubectl.ok("create ns team").await;
    kubectl.ok("create configmap one -n team").await;
    kubectl.ok("delete ns team").await;
    kubectl.fails("get ns team").await;
    t.server.shutdown().await;
}

#[tokio::test]
async fn custom_resources_come_and_go() {
    let t = start().await;
    let Some(kubectl) = Kubectl::of(&t).await else { return };
    let definition = crate::custom::definition().to_string();
    kubectl.ok_with("apply -f -", &definition).await;
    kubectl.ok("wait --for=condition=Established crd/widgets.example.com --timeout=5s").await;
    let widget =
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":3}}"#;
    assert_eq!(kubectl.ok_with("apply -f -", widget).await, "widget.example.com/w created\n");
    assert_eq!(kubectl.ok_with("apply -f -", widget).await, "widget.example.com/w unchanged\n");
    let table = kubectl.ok("get wg").await;
    assert_eq!(words(&table), [vec!["NAME", "SIZE"], vec!["w", "3"]]);
    assert_eq!(kubectl.ok("scale wg w --replicas=7").await, "widget.example.com/w scaled\n");
    assert!(
        kubectl
            .fails(r#"patch wg w --type=merge -p {"spec":{"size":99}}"#)
            .await
            .contains("should be less than or equal to 10")
    );
    kubectl.ok("delete crd widgets.example.com").await;
    kubectl.fails("get wg").await;
    t.server.shutdown().await;
}

#[tokio::test]
async fn a_watch_prints_what_happens() {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    let t = start().await;
    let Some(kubectl) = Kubectl::of(&t).await else { return };
    let mut watch =
        kubectl.command(&["get", "cm", "-n", "t", "-w", "--output-watch-events"]).spawn().expect("runs");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    t.config_map("first", serde_json::json!({}), serde_json::json!({}));
    let mut next = async || {
        let line = tokio::time::timeout(crate::client::PATIENCE, lines.next_line()).await;
        line.expect("a line in time").expect("readable").expect("a line")
    };
    assert_eq!(next().await.split_whitespace().collect::<Vec<_>>(), ["EVENT", "NAME", "DATA", "AGE"]);
    assert_eq!(next().await.split_whitespace().take(2).collect::<Vec<_>>(), ["ADDED", "first"]);
    t.delete_config_map("first");
    assert_eq!(next().await.split_whitespace().take(2).collect::<Vec<_>>(), ["DELETED", "first"]);
    watch.kill().await.expect("stopped");
    t.server.shutdown().await;
}
