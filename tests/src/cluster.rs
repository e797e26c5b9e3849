//! One API server, real or embedded, as the end-to-end cases use it: the same cases run against both, so that
//! the embedded one cannot lie.
//!
//! Invariant: Hark reaches the server only through a proxy of ours that can be cut; the test itself always
//! reaches it directly.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hark_apiserver::{Config as ServerConfig, Handle, Server};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tempfile::TempDir;

use crate::proxy::Proxy;
use crate::realserver::RealServer;

/// Which API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// kube-apiserver with etcd.
    Real,
    /// `hark-apiserver`, in this process.
    Embedded,
}

enum Backend {
    Real(Box<RealServer>),
    Embedded(Box<Handle>),
}

/// See the file's head.
pub struct Cluster {
    backend: Option<Backend>,
    proxy: Proxy,
    client: kube::Client,
    /// For Hark: through the proxy.
    kubeconfig: PathBuf,
    _folder: TempDir,
}

impl Cluster {
    /// Starts one; none where the real one cannot be built (said loudly by [`crate::realserver`]).
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn start(kind: Kind) -> Result<Option<Self>> {
        let folder = tempfile::Builder::new().prefix("hark-cluster-").tempdir()?;
        let (backend, direct, address) = match kind {
            Kind::Real => {
                let Some(server) = tokio::task::spawn_blocking(RealServer::start).await?? else {
                    return Ok(None);
                };
                let address = address_of(&server.url())?;
                let kubeconfig = std::fs::read_to_string(server.kubeconfig())?;
                (Backend::Real(Box::new(server)), kubeconfig, address)
            }
            Kind::Embedded => {
                let server = Server::start(ServerConfig::default()).await?;
                let (address, kubeconfig) = (server.address(), server.kubeconfig());
                (Backend::Embedded(Box::new(server)), kubeconfig, address)
            }
        };
        let proxy = Proxy::start(address).await?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, direct.replace(&address.to_string(), &proxy.address().to_string()))?;
        let config = Kubeconfig::from_yaml(&direct)?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let client = kube::Client::try_from(config)?;
        Ok(Some(Self { backend: Some(backend), proxy, client, kubeconfig, _folder: folder }))
    }

    /// The kubeconfig for Hark.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Puts the server out of Hark's reach.
    pub async fn cut(&mut self) {
        self.proxy.cut().await;
    }

    /// Puts it back.
    ///
    /// # Errors
    /// If the proxy's port is gone.
    pub async fn mend(&mut self) -> Result<()> {
        self.proxy.mend().await
    }

    /// Kills the server without warning and starts it again with what it had stored; it has no memory of what
    /// happened before, so older watches are expired.
    ///
    /// # Errors
    /// If it does not come back.
    pub async fn kill_and_restart(&mut self) -> Result<()> {
        match self.backend.take().context("a backend")? {
            Backend::Real(mut server) => {
                let restarted = tokio::task::spawn_blocking(move || {
                    server.kill();
                    server.restart().map(|()| server)
                });
                self.backend = Some(Backend::Real(restarted.await??));
            }
            Backend::Embedded(server) => {
                let faults = server.faults();
                faults.refuse_connections().await;
                faults.break_watches();
                faults.kill_connections();
                faults.compact();
                let back = faults.accept_connections().await;
                self.backend = Some(Backend::Embedded(server));
                anyhow::ensure!(back, "the embedded server's port is gone");
            }
        }
        Ok(())
    }

    /// A client that does not go through the proxy.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// ConfigMaps of the namespace `default`.
    pub fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Pods of the namespace `default`.
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates a ConfigMap; gives its uid and version.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn create(&self, name: &str, text: &str) -> Result<(String, String)> {
        let object = serde_json::from_value(json!({"metadata": {"name": name}, "data": {"text": text}}))?;
        identity(&self.config_maps().create(&PostParams::default(), &object).await?)
    }

    /// Replaces a ConfigMap's data; gives its uid and version.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn update(&self, name: &str, text: &str) -> Result<(String, String)> {
        let object = serde_json::from_value(json!({"metadata": {"name": name}, "data": {"text": text}}))?;
        identity(&self.config_maps().replace(name, &PostParams::default(), &object).await?)
    }

    /// Deletes a ConfigMap.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.config_maps().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// What the server has: keys and versions of the ConfigMaps of `default`.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn view(&self) -> Result<std::collections::BTreeMap<String, String>> {
        let list = self.config_maps().list(&ListParams::default()).await?;
        list.items
            .iter()
            .map(|object| {
                let name = object.metadata.name.clone().context("a name")?;
                Ok((format!("default/{name}"), identity(object)?.1))
            })
            .collect()
    }
}

/// Runs a case against a server of this kind; not at all where the real one cannot be built.
///
/// # Errors
/// The case's.
pub async fn run(kind: Kind, case: impl AsyncFnOnce(&mut Cluster) -> Result<()>) -> Result<()> {
    match Cluster::start(kind).await? {
        Some(mut cluster) => case(&mut cluster).await,
        // Where the real server must run, `Cluster::start` fails instead.
        None => Ok(()),
    }
}

/// Makes two tests of each case, one for each kind of server.
#[macro_export]
macro_rules! on_both_servers {
    ($($case:ident)*) => { $(
        mod $case {
            use $crate::cluster::{Kind, run};

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_the_real_api_server() -> anyhow::Result<()> {
                run(Kind::Real, super::$case).await
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_the_embedded_api_server() -> anyhow::Result<()> {
                run(Kind::Embedded, super::$case).await
            }
        }
    )* };
}

fn identity(object: &ConfigMap) -> Result<(String, String)> {
    let uid = object.metadata.uid.clone().context("a uid")?;
    Ok((uid, object.metadata.resource_version.clone().context("a version")?))
}

fn address_of(url: &str) -> Result<SocketAddr> {
    let (_, authority) = url.split_once("://").context("a URL")?;
    authority.trim_end_matches('/').parse().with_context(|| format!("an address in {url}"))
}
