//! The composition root: configuration, engine, informers, plugins and signals, put together for a command.
//!
//! Used by `run` and `dev`, which differ only in the API server they speak to and in what they show.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use hark_informer::client::Client;
use hark_informer::factory::Factory;
use hark_informer::object::Ingest;
use hark_sandbox::Engine;
use tokio::runtime::Handle;

use crate::cli::CommonArgs;
use crate::config::{Config, ConfigError};
use crate::output::Output;
use crate::plugins::{Manager, ManagerOptions};
use crate::shutdown::Signals;

/// The configuration file, where it was found, and what it said last.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: Option<PathBuf>,
    current: Config,
}

impl ConfigFile {
    /// Reads the file named, or `./hark.toml` if there is one.
    ///
    /// # Errors
    /// [`ConfigError`] if the file named is not there, or any file says something that it may not.
    pub(crate) fn find(named: Option<PathBuf>) -> Result<Self, ConfigError> {
        let default = Path::new("hark.toml");
        let path = named.or_else(|| default.exists().then(|| default.to_owned()));
        let current = path.as_deref().map(Config::load).transpose()?.unwrap_or_default();
        Ok(Self { path, current })
    }

    /// Where it is, if there is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// What it said when it was last valid.
    pub(crate) fn current(&self) -> &Config {
        &self.current
    }

    /// Reads the file again; none if it says the same as before.
    ///
    /// # Errors
    /// [`ConfigError`]: what was valid before stays.
    pub(crate) fn reload(&mut self) -> Result<Option<&Config>, ConfigError> {
        let Some(path) = &self.path else { return Ok(None) };
        let config = Config::load(path)?;
        if config == self.current {
            return Ok(None);
        }
        self.current = config;
        Ok(Some(&self.current))
    }
}

/// Runs the plugins of a folder against the API server behind `client` until a signal comes.
pub(crate) async fn run_plugins(
    client: Client,
    args: &CommonArgs,
    config: ConfigFile,
    output: Arc<Output>,
    allow_wat: bool,
) -> anyhow::Result<()> {
    let signals = Signals::new().context("cannot listen for signals")?;
    let ingest = Ingest { strip_managed_fields: config.current().host.strip_managed_fields.unwrap_or(true) };
    let factory = Arc::new(Factory::new(client, ingest, Handle::current()));
    let engine = Engine::new().context("cannot start the Wasm engine")?;
    let folder = plugins_folder(args, &config);
    let options = ManagerOptions { folder, allow_wat };
    let manager = Manager::new(options, config, engine, factory, output);
    let stop = async {
        let name = signals.first().await;
        tracing::info!("{name}: stopping; once more aborts");
    };
    manager.run(stop).await;
    Ok(())
}

/// The command line's folder, else the file's (relative to the file), else `plugins`.
fn plugins_folder(args: &CommonArgs, config: &ConfigFile) -> PathBuf {
    if let Some(folder) = &args.plugins {
        return folder.clone();
    }
    match (&config.current().host.plugins, config.path().and_then(Path::parent)) {
        (Some(folder), Some(base)) => base.join(folder),
        (Some(folder), None) => folder.clone(),
        (None, _) => PathBuf::from("plugins"),
    }
}
