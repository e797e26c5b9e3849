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

/// The configuration file, and what it said last.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    /// It was there, or was asked for: its absence is an error.
    expected: bool,
    current: Config,
}

impl ConfigFile {
    /// Reads the file named, or `./hark.toml` if there is one: it may also come later.
    ///
    /// # Errors
    /// [`ConfigError`] if the file named is not there, or any file says something that it may not.
    pub(crate) fn find(named: Option<PathBuf>) -> Result<Self, ConfigError> {
        let expected = named.is_some();
        let mut file = Self {
            path: named.unwrap_or_else(|| PathBuf::from("hark.toml")),
            expected,
            current: Config::default(),
        };
        file.reload()?;
        Ok(file)
    }

    /// Where it is, or would be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
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
        if !self.expected && !self.path.exists() {
            return Ok(None);
        }
        self.expected = true;
        let config = Config::load(&self.path)?;
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
    let base = config.path().parent().unwrap_or(Path::new(""));
    match &config.current().host.plugins {
        Some(folder) => base.join(folder),
        None => PathBuf::from("plugins"),
    }
}
