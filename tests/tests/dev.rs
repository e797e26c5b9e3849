//! `hark dev` as a plugin author uses it, with the real kubectl.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hark_tests::guests::plugin;
use hark_tests::hark::{Hark, Setup};
use hark_tests::realserver;

/// The kubectl that came with the real API server, else the machine's.
fn kubectl() -> Result<Command> {
    if let Some(binary) = realserver::ensure_built()? {
        let mut command = Command::new(binary);
        command.arg("kubectl");
        return Ok(command);
    }
    Ok(Command::new("kubectl"))
}

fn run(kubeconfig: &Path, folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = kubectl()?
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(arguments)
        .env("HOME", folder)
        .env("KUBECACHEDIR", folder.join("kubectl-cache"))
        .output()
        .context("cannot run kubectl")?;
    let (stdout, stderr) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    ensure!(output.status.success(), "kubectl {arguments:?}: {stderr}");
    Ok(stdout)
}

/// The kubeconfig of the line that Hark prints for people.
fn kubeconfig(hark: &Hark) -> Result<PathBuf> {
    let stdout = hark.stdout();
    let line = stdout.lines().find(|line| line.trim_start().starts_with("kubectl --kubeconfig "));
    let path = line.and_then(|line| line.split_whitespace().nth(2)).context("the kubectl line")?;
    Ok(path.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_in_one_terminal_shows_events_in_the_other() -> Result<()> {
    let mut hark = Setup::new()?.plugin("event-log", &plugin("event-log"))?.start(&["dev"])?;
    hark.shows(&["API server ready at http://127.0.0.1:", "kubectl --kubeconfig ", "event-log started: "])
        .await;
    let kubeconfig = kubeconfig(&hark)?;
    let kubectl = |arguments: &[&str]| run(&kubeconfig, hark.folder(), arguments);
    kubectl(&["create", "configmap", "demo", "--from-literal=a=1"])?;
    kubectl(&["label", "configmap", "demo", "team=web"])?;
    assert!(kubectl(&["get", "configmaps", "-l", "team=web"])?.contains("demo"));
    kubectl(&["delete", "configmap", "demo"])?;
    hark.shows(&[
        "on-add    v1/ConfigMap default/demo",
        "on-update v1/ConfigMap default/demo",
        "on-delete v1/ConfigMap default/demo deleted",
        "add v1/ConfigMap default/demo rv=",
    ])
    .await;
    let trace = hark.trace();
    let told: Vec<&str> =
        trace.iter().filter(|line| line.key == "default/demo").map(|line| line.op.as_str()).collect();
    assert_eq!(told, ["add", "update", "delete"]);
    hark.signal("TERM")?;
    assert!(hark.ends().await?.success());
    assert!(!kubeconfig.exists(), "the temporary kubeconfig went with Hark");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_form_of_wasm_is_a_plugin_in_dev() -> Result<()> {
    let mut hark = Setup::new()?.start(&["dev"])?;
    hark.shows(&["kubectl --kubeconfig "]).await;
    std::fs::write(hark.folder().join("plugins/tiny.wat"), "(module)")?;
    hark.shows(&["tiny.wat is refused: "]).await;
    std::fs::write(hark.folder().join("plugins/tiny.wat"), "(module")?;
    hark.shows(&["tiny.wat is refused: ", "expected `)`"]).await;
    // The terminal is closed: an orderly end, as for the other signals.
    hark.signal("HUP")?;
    assert!(hark.ends().await?.success(), "{}", hark.state());
    Ok(())
}
