//! The real API server does what its module promises: it starts, keeps its state over a crash, forgets
//! on demand and ends without leaving anything. Run by cargo; skipped loudly where it cannot be built.
//!
//! Invariant: no case waits by sleeping; every wait is for a condition, with a deadline.

use std::net::TcpStream;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use hark_tests::realserver::RealServer;

#[test]
fn a_crash_of_the_api_server_loses_no_object() -> Result<()> {
    let Some(mut server) = RealServer::start()? else { return Ok(()) };
    server.run_kubectl(&["create", "configmap", "kept", "--from-literal=greeting=hark"])?;

    server.kill();
    let refused = server.run_kubectl(&["get", "configmap", "kept"]);
    ensure!(refused.is_err(), "a killed API server answered: {refused:?}");

    server.restart()?;
    let kept = server.run_kubectl(&["get", "configmap", "kept", "-o", "jsonpath={.data.greeting}"])?;
    ensure!(kept == "hark", "after the restart the ConfigMap says {kept:?}");
    Ok(())
}

#[test]
fn rbac_holds_and_continue_tokens_expire_by_compaction() -> Result<()> {
    // Else the server serves older pages from its caches for a while.
    let flags = ["--feature-gates=ListFromCacheSnapshot=false"];
    let Some(mut server) = RealServer::start_with(&flags)? else { return Ok(()) };
    let nobody = server.run_kubectl(&["auth", "can-i", "list", "pods", "--as=nobody"]);
    ensure!(nobody.is_err(), "RBAC lets a stranger list pods: {nobody:?}");

    server.apply(
        r#"{"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}]}"#,
    )?;
    let list = "/api/v1/namespaces/default/configmaps";
    let page: serde_json::Value =
        serde_json::from_str(&server.run_kubectl(&["get", "--raw", &format!("{list}?limit=1")])?)?;
    let token = page["metadata"]["continue"].as_str().context("a first page without a continue token")?;
    server.run_kubectl(&["create", "configmap", "c"])?;
    server.compact()?;

    let next = server.run_kubectl(&["get", "--raw", &format!("{list}?limit=1&continue={token}")]);
    let said = next.err().context("a continue token outlived the compaction")?.to_string();
    ensure!(said.contains("too old"), "the server did not say that the token expired: {said}");
    Ok(())
}

#[test]
fn nothing_stays_after_the_end() -> Result<()> {
    let Some(mut server) = RealServer::start()? else { return Ok(()) };
    let kubeconfig = server.kubeconfig();
    let address = server.url().trim_start_matches("https://").to_owned();
    ensure!(kubeconfig.is_file() && TcpStream::connect(&address).is_ok());
    server.terminate()?;

    drop(server);
    ensure!(!kubeconfig.parent().is_some_and(Path::exists), "the cluster's folder is still there");
    ensure!(TcpStream::connect(&address).is_err(), "the API server still listens at {address}");
    Ok(())
}
