//! `cargo xtask demo`: everything a newcomer needs to see Hark work, in one command. Builds the host and the
//! example plugins, starts `hark dev`, applies a few objects, and leaves it running in the terminal.
//!
//! Invariant: what it starts it also stops, by waiting for it; the terminal's Ctrl-C goes to Hark itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{host, output, plugins};

/// What the demo's plugins are told by their settings.
const CONFIG: &str = r#"# Made by `cargo xtask demo`; edit it while Hark runs.
[plugins.event-log.settings]
kinds = ["v1/ConfigMap", "apps/v1/Deployment"]

[plugins.required-labels.settings]
kinds = ["v1/ConfigMap", "apps/v1/Deployment"]
labels = ["team"]
"#;

/// Applied one after the other: method, path, body.
const SAMPLES: [(&str, &str, &str); 5] = [
    (
        "POST",
        "/api/v1/namespaces/default/configmaps",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"greeting"},"data":{"text":"hello"}}"#,
    ),
    (
        "POST",
        "/apis/apps/v1/namespaces/default/deployments",
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"team":"shop"}},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"nginx"}]}}}}"#,
    ),
    (
        "PATCH",
        "/api/v1/namespaces/default/configmaps/greeting",
        r#"{"metadata":{"labels":{"team":"shop"}},"data":{"text":"hello again"}}"#,
    ),
    (
        "POST",
        "/api/v1/namespaces/default/configmaps",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"short-lived"},"data":{}}"#,
    ),
    ("DELETE", "/api/v1/namespaces/default/configmaps/short-lived", "{}"),
];

/// Runs until Hark ends. `--once` ends it after the samples, for trying the demo itself.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let once = match arguments {
        [] => false,
        [argument] if argument == "--once" => true,
        [argument, ..] => bail!("unexpected argument `{argument}`; usage: cargo xtask demo [--once]"),
    };
    plugins::run(&[])?;
    let binary = host::build()?;
    let folder = output::target().join("demo");
    std::fs::create_dir_all(&folder)?;
    let config = folder.join("hark.toml");
    if !config.exists() {
        std::fs::write(&config, CONFIG).with_context(|| format!("cannot write {}", config.display()))?;
    }
    let mut hark = Command::new(&binary)
        .arg("dev")
        .arg("--plugins")
        .arg(output::target().join("plugins"))
        .arg("--config")
        .arg(&config)
        .arg("--write-kubeconfig")
        .arg(folder.join("kubeconfig"))
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", binary.display()))?;
    let shown = show(&mut hark, once);
    let ended = hark.wait()?;
    shown?;
    if !ended.success() {
        bail!("hark ended with {ended}");
    }
    Ok(())
}

/// Passes on what Hark prints; applies the samples once the plugins are there.
fn show(hark: &mut Child, once: bool) -> Result<()> {
    let stdout = hark.stdout.take().context("hark's output")?;
    let mut out = std::io::stdout();
    let mut address = None;
    let (mut waiting, mut ending) = (3, !once);
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        writeln!(out, "{line}")?;
        if let Some((_, rest)) = line.split_once("API server ready at http://") {
            address = Some(rest.trim().to_owned());
        }
        waiting -= i32::from(line.contains(" started: "));
        if waiting == 0 {
            waiting = -1;
            apply_samples(address.as_deref().context("hark did not say where its API server is")?)?;
            writeln!(
                out,
                "samples applied; try the kubectl line above with create, label, delete. Ctrl-C ends."
            )?;
        }
        if !ending && line.contains("on-delete v1/ConfigMap default/short-lived") {
            ending = true;
            // Hark itself ends in order; its last lines are passed on.
            let pid = hark.id().to_string();
            Command::new("kill").args(["-TERM", &pid]).status().context("cannot run kill")?;
        }
    }
    Ok(())
}

fn apply_samples(address: &str) -> Result<()> {
    for (method, path, body) in SAMPLES {
        let status = request(address, method, path, body)?;
        if !status.contains(" 20") {
            bail!("{method} {path}: {status}");
        }
    }
    Ok(())
}

/// One plain HTTP request to the embedded server; gives the status line.
fn request(address: &str, method: &str, path: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("cannot reach {address}"))?;
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}
