//! Where the API server is and who we are there: kubeconfig files and the pod's service account.
//!
//! Used by [`Client`](super::Client). Invariant: an error names the file and the context that it is about.

use std::error::Error as StdError;
use std::net::IpAddr;
use std::path::PathBuf;

use http::Uri;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use super::ClientLimits;
use super::dial::BoxError;
use super::transport;

/// Which cluster, as which user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// This file. None: the files in `$KUBECONFIG`, else `~/.kube/config`, else the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// This context of it. None: its current one.
    pub context: Option<String>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file cannot be read, or is not a kubeconfig.
    #[error("kubeconfig {file}: {source}")]
    Kubeconfig {
        /// The file, or the files.
        file: String,
        /// What is wrong.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The file has no such context.
    #[error("kubeconfig {file} has no context `{context}`; it has: {known}")]
    NoContext {
        /// The file, or the files.
        file: String,
        /// The one asked for.
        context: String,
        /// The ones there are.
        known: String,
    },
    /// An empty file, or one of another kind.
    #[error("kubeconfig {file} has no contexts: is it a kubeconfig?")]
    NoContexts {
        /// The file, or the files.
        file: String,
    },
    /// No context was asked for, and the file prefers none.
    #[error("kubeconfig {file} sets no current context; choose one of: {known}")]
    NoCurrentContext {
        /// The file, or the files.
        file: String,
        /// The ones there are.
        known: String,
    },
    /// The context is there, but what it says cannot be used.
    #[error("kubeconfig {file}, context `{context}`: {source}")]
    Context {
        /// The file, or the files.
        file: String,
        /// The context.
        context: String,
        /// What is wrong.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A context was asked for, but there is no kubeconfig at all.
    #[error(
        "context `{context}`: there is no kubeconfig ($KUBECONFIG is not set, and {file} does not exist)"
    )]
    NoKubeconfig {
        /// The context.
        context: String,
        /// Where one would be.
        file: String,
    },
    /// Neither a kubeconfig nor a service account.
    #[error("no kubeconfig ($KUBECONFIG is not set, and {file} does not exist), and not in a pod: {source}")]
    Nowhere {
        /// Where a kubeconfig would be.
        file: String,
        /// Why the service account does not serve.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The address is not one.
    #[error("API server `{url}`: {source}")]
    Url {
        /// The address.
        url: String,
        /// What is wrong.
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// How to get to a server.
pub(super) struct Reach {
    /// What sends.
    pub(super) transport: kube::Client,
    /// Its address, for people.
    pub(super) server: String,
    /// Whether it pays to have large answers packed.
    pub(super) gzip: bool,
}

impl ClientOptions {
    /// The way there. Sends nothing.
    pub(super) async fn connect(&self, limits: ClientLimits) -> Result<Reach, ClientError> {
        match self.kubeconfig()? {
            Some((file, kubeconfig)) => self.of_kubeconfig(file, kubeconfig, limits).await,
            None => self.of_service_account(limits),
        }
    }

    /// The kubeconfig and what to call it. None: there is none, and none was asked for.
    fn kubeconfig(&self) -> Result<Option<(String, Kubeconfig)>, ClientError> {
        let unreadable = |file: &str, source| ClientError::Kubeconfig { file: file.to_owned(), source };
        if let Some(path) = &self.kubeconfig {
            let file = path.display().to_string();
            let read = Kubeconfig::read_from(path).map_err(|error| unreadable(&file, error.into()))?;
            return Ok(Some((file, read)));
        }
        if let Some(files) = std::env::var("KUBECONFIG").ok().filter(|files| !files.is_empty()) {
            let read = Kubeconfig::from_env().map_err(|error| unreadable(&files, error.into()))?;
            if let Some(read) = read {
                return Ok(Some((files, read)));
            }
        }
        let Some(path) = home_kubeconfig().filter(|path| path.exists()) else { return Ok(None) };
        let file = path.display().to_string();
        let read = Kubeconfig::read_from(&path).map_err(|error| unreadable(&file, error.into()))?;
        Ok(Some((file, read)))
    }

    async fn of_kubeconfig(
        &self,
        file: String,
        kubeconfig: Kubeconfig,
        limits: ClientLimits,
    ) -> Result<Reach, ClientError> {
        let known = || kubeconfig.contexts.iter().map(|named| named.name.clone()).collect::<Vec<_>>();
        let chosen =
            self.context.as_ref().or(kubeconfig.current_context.as_ref()).filter(|name| !name.is_empty());
        if kubeconfig.contexts.is_empty() {
            return Err(ClientError::NoContexts { file });
        }
        let Some(context) = chosen.cloned() else {
            return Err(ClientError::NoCurrentContext { file, known: or_nothing(&known()) });
        };
        if !known().contains(&context) {
            return Err(ClientError::NoContext { file, context, known: or_nothing(&known()) });
        }
        let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
        let unusable = |source| ClientError::Context { file: file.clone(), context: context.clone(), source };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| unusable(error.into()))?;
        build(&config, limits).map_err(unusable)
    }

    fn of_service_account(&self, limits: ClientLimits) -> Result<Reach, ClientError> {
        let file =
            home_kubeconfig().map_or_else(|| "~/.kube/config".into(), |path| path.display().to_string());
        if let Some(context) = self.context.clone() {
            return Err(ClientError::NoKubeconfig { context, file });
        }
        let nowhere = |source| ClientError::Nowhere { file: file.clone(), source };
        let config = Config::incluster().map_err(|error| nowhere(error.into()))?;
        build(&config, limits).map_err(nowhere)
    }
}

/// The way to an address, with no credentials.
pub(super) fn plain(url: &str, limits: ClientLimits) -> Result<Reach, ClientError> {
    let bad = |source| ClientError::Url { url: url.to_owned(), source };
    let address: Uri = url.parse().map_err(|error: http::uri::InvalidUri| bad(error.into()))?;
    if address.scheme().is_none() || address.authority().is_none() {
        return Err(bad("an address begins with http:// or https://".into()));
    }
    build(&Config::new(address), limits).map_err(bad)
}

/// gzip saves the network at the cost of both ends' time. Measured on pods of 2 KB, a gigabyte of list: Go packs it as
/// the API server does (level 1) at 420 MB/s to a twelfth, and we unpack at 1,300 MB/s, so that both take 3.1 s of
/// processor and save 7.3 s of a network of 1 Gb/s. From about 2.5 Gb/s on it no longer pays, and on loopback it only
/// costs: `disable-compression` is for the former.
fn build(config: &Config, limits: ClientLimits) -> Result<Reach, BoxError> {
    let server = config.cluster_url.to_string();
    Ok(Reach {
        transport: transport::build(config, limits)?,
        server: server.trim_end_matches('/').to_owned(),
        gzip: !config.disable_compression && !is_loopback(&config.cluster_url),
    })
}

/// Whether an address is this machine by its name or number.
fn is_loopback(address: &Uri) -> bool {
    let host = address.host().unwrap_or_default();
    let number = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || number.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}

fn home_kubeconfig() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".kube").join("config"))
}

fn or_nothing(names: &[String]) -> String {
    if names.is_empty() { String::from("none") } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_name_and_number() {
        for (address, want) in [
            ("https://127.0.0.1:6443", true),
            ("https://127.8.9.1", true),
            ("https://[::1]:6443", true),
            ("https://[::ffff:127.0.0.1]:6443", true),
            ("http://LocalHost:8001/prefix", true),
            ("https://10.0.0.1:6443", false),
            ("https://localhost.example.com", false),
            ("https://[fd00::1]:6443", false),
        ] {
            assert_eq!(is_loopback(&address.parse().expect("an address")), want, "{address}");
        }
    }
}
