//! The composition root: configuration, engine, informers, plugins and signals, put together for a command.
//!
//! Used by `run` and `dev`, which differ only in the API server they speak to and in what they show.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use hark_informer::client::Client;
use hark_informer::factory::Factory;
use hark_informer::object::Ingest;
use hark_sandbox::{Compile, Engine, Priority};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::admin::{self, Admin, AdminAddress, Sources};
use crate::artefacts;
use crate::cli::CommonArgs;
use crate::config::{Config, ConfigError, DevConfig, HostConfig};
use crate::core_dumps::DumpWriter;
use crate::dead_letters::DeadLetters;
use crate::dev::{BuildOptions, Building, Builds, Own, make_plugins_folder_if_built};
use crate::folder::{LookOptions, Looker, Place};
use crate::kept::KeptVersions;
use crate::output::Output;
use crate::plugins::view::View;
use crate::plugins::{Manager, ManagerOptions};
use crate::shutdown::Signals;
use crate::state_folder::{self, Cluster, StatePlace};

/// The configuration file, and what it said last.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    /// It was there, or was asked for: its absence is an error.
    expected: bool,
    current: Config,
    /// What the host was started with, and goes by until it ends.
    started: HostConfig,
}

impl ConfigFile {
    /// Reads the file named, or `./hark.toml` if there is one: it may also come later. An empty one stands for the defaults.
    ///
    /// # Errors
    /// [`ConfigError`] if the file named is not there, or any file says something that it may not.
    pub(crate) fn find(named: Option<PathBuf>) -> Result<Self, ConfigError> {
        let expected = named.is_some();
        let path = named.unwrap_or_else(|| PathBuf::from("hark.toml"));
        match Config::load(&path) {
            Ok(current) => Ok(Self::started(path, true, current)),
            Err(error) if error.is_emptiness() => Ok(Self::started(path, true, Config::default())),
            Err(error) if error.is_absence() && !expected => {
                Ok(Self::started(path, expected, Config::default()))
            }
            Err(error) => Err(error),
        }
    }

    fn started(path: PathBuf, expected: bool, current: Config) -> Self {
        let started = current.host.clone();
        Self { path, expected, current, started }
    }

    /// Where it is, or would be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What the paths in it are relative to.
    pub(crate) fn base(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// What it said when it was last valid.
    pub(crate) fn current(&self) -> &Config {
        &self.current
    }

    /// Keys of `[host]` that say something else than what the host was started with: they act at the next start.
    pub(crate) fn waiting(&self) -> Vec<&'static str> {
        self.current.host.differing(&self.started)
    }

    /// Takes what the file says now; none if that is the same as before. An empty one is taken only where that changes
    /// nothing: who wants the defaults back can say so with a comment.
    ///
    /// # Errors
    /// Why it says nothing: what was valid before stays.
    pub(crate) fn take<'a>(
        &mut self,
        read: &'a Result<Config, ConfigError>,
    ) -> Result<Option<&Config>, &'a ConfigError> {
        match read {
            Err(error) if error.is_absence() && !self.expected => Ok(None),
            Err(error) if error.is_emptiness() && self.current == Config::default() => {
                self.expected = true;
                Ok(None)
            }
            Err(error) => Err(error),
            Ok(config) => {
                self.expected = true;
                let differs = *config != self.current;
                self.current = config.clone();
                Ok(differs.then_some(&self.current))
            }
        }
    }
}

/// What the two commands do differently.
pub(crate) enum Mode {
    /// `hark run`.
    Run,
    /// `hark dev`: `.wat` files are plugins too, they are built when their sources change, and an admin port that another
    /// host has is no reason not to start, unless it was asked for on the command line.
    Dev(Building),
}

impl Mode {
    /// How plugins are compiled unless the configuration says otherwise: whoever edits a plugin waits for the compiler,
    /// a cluster for the code.
    fn compile(&self) -> Compile {
        match self {
            Self::Run => Compile::Optimized,
            Self::Dev(_) => Compile::Fast,
        }
    }

    fn is_dev(&self) -> bool {
        matches!(self, Self::Dev(_))
    }

    /// What compiling takes of a busy machine: whoever edits a plugin has other things running beside it, an editor or a
    /// build, and waits for this one.
    fn priority(&self) -> Priority {
        match self {
            Self::Run => Priority::Low,
            Self::Dev(_) => Priority::Usual,
        }
    }
}

/// Runs the plugins of a folder against the API server behind `client` until a signal comes.
pub(crate) async fn run_plugins(
    client: Client,
    args: &CommonArgs,
    config: ConfigFile,
    output: Arc<Output>,
    mode: Mode,
) -> anyhow::Result<()> {
    let started = SystemTime::now();
    let admin = open_admin(args, &config, &output, mode.is_dev()).await?;
    let signals = Signals::start(output.clone()).await.context("cannot listen for signals")?;
    let server = client.server().to_owned();
    let ingest = Ingest { strip_managed_fields: config.current().host.strip_managed_fields.unwrap_or(true) };
    let factory = Arc::new(Factory::new(client, ingest, Handle::current()));
    let engine = Engine::with(artefacts::engine_options(&config, mode.priority()));
    let engine = engine.context("cannot start the Wasm engine")?;
    let core_dumps = open_core_dumps(&config);
    let folder = plugins_folder(args, &config);
    if let Mode::Dev(building) = &mode {
        // Before anybody looks for it.
        let command = building.command.as_deref();
        make_plugins_folder_if_built(&config.current().dev, command, &folder);
    }
    let looker = Looker::start(look_options(folder.clone(), &config, mode.is_dev()));
    let looker = looker.context("cannot start the thread that looks at the plugins folder")?;
    let (view, views) = watch::channel(Arc::new(View::default()));
    let (pulse, heart) = admin::pulse();
    let place = state_place(&server, &config, admin.as_ref(), mode.is_dev());
    let dead_letters = DeadLetters::open(place.as_ref());
    let kept = KeptVersions::open(place);
    let sources = Sources {
        views,
        factory: factory.clone(),
        engine: engine.clone(),
        pulse,
        started,
        dead_letters: dead_letters.clone(),
        output: output.clone(),
    };
    let _serving = admin.map(|admin| admin.serve(sources));
    let (dev, dev_config) = watch::channel(config.current().dev.clone());
    let options = ManagerOptions {
        folder: folder.clone(),
        allow_wat: mode.is_dev(),
        compile: mode.compile(),
        dev,
        heart,
        view,
        dead_letters: dead_letters.clone(),
        kept: kept.clone(),
        core_dumps: core_dumps.clone(),
    };
    let mut builds = match mode {
        Mode::Run => None,
        Mode::Dev(building) => {
            Some(start_builds(building, args, &config, folder, output.clone(), dev_config))
        }
    };
    let manager = Manager::new(options, config, looker, engine, factory, output);
    let stop = async {
        signals.first().await;
        if let Some(builds) = &mut builds {
            builds.stop();
        }
    };
    manager.run(stop).await;
    if let Some(builds) = builds {
        builds.ended().await;
    }
    tokio::join!(dead_letters.close(), kept.close());
    if let Some(core_dumps) = core_dumps {
        core_dumps.settle().await;
    }
    Ok(())
}

/// Starts what builds plugins. What the host itself reads and writes is no source of any build.
fn start_builds(
    building: Building,
    args: &CommonArgs,
    config: &ConfigFile,
    plugins: PathBuf,
    output: Arc<Output>,
    dev: watch::Receiver<DevConfig>,
) -> Builds {
    let base = config.base().to_owned();
    let trace = args.trace.clone().filter(|trace| trace != Path::new("-"));
    let Building { command, kubeconfig, files } = building;
    let written = [Some(config.path().to_owned()), Some(kubeconfig), trace];
    let own = Own { plugins, folders: own_folders(config), files: written.into_iter().flatten().collect() };
    Builds::start(BuildOptions { command, files, base, own, output, config: dev })
}

/// Opens the admin port, unless there is to be none, and says where it is.
async fn open_admin(
    args: &CommonArgs,
    config: &ConfigFile,
    output: &Output,
    dev: bool,
) -> anyhow::Result<Option<Admin>> {
    let AdminAddress::At(address) = args.admin.or(config.current().host.admin).unwrap_or_default() else {
        return Ok(None);
    };
    match Admin::bind(address).await {
        Ok(admin) => {
            output.say(&format!("admin port ready at http://{}", admin.address()));
            if !address.ip().to_canonical().is_loopback() {
                tracing::warn!(
                    "the admin port can be reached from other machines, and has no access control"
                );
            }
            Ok(Some(admin))
        }
        Err(error) if dev && args.admin.is_none() && error.is_in_use() => {
            tracing::warn!("there is no admin port: {error}");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// The command line's folder, else the file's (relative to the file), else `plugins`.
fn plugins_folder(args: &CommonArgs, config: &ConfigFile) -> PathBuf {
    if let Some(folder) = &args.plugins {
        return folder.clone();
    }
    let base = config.base();
    match &config.current().host.plugins {
        Some(folder) => base.join(folder),
        None => PathBuf::from("plugins"),
    }
}

/// Folders of the host's own, which may lie in what it looks at.
fn own_folders(config: &ConfigFile) -> Vec<PathBuf> {
    let folders = [artefacts::cache_folder(config), state_folder(config), core_dumps_folder(config)];
    folders.into_iter().flatten().collect()
}

/// What is looked at, and how.
fn look_options(folder: PathBuf, config: &ConfigFile, dev: bool) -> LookOptions {
    let own = own_folders(config);
    let host = &config.current().host;
    LookOptions {
        place: Place { folder, text: dev, own },
        configuration: config.path().to_owned(),
        watch: host.watch.unwrap_or_default(),
        poll: host.poll_interval,
    }
}

/// Where the host keeps what outlives it: the file's (relative to the file), else the user's; none without a home.
pub(crate) fn state_folder(config: &ConfigFile) -> Option<PathBuf> {
    let base = config.base();
    match &config.current().host.state_dir {
        Some(folder) => Some(base.join(folder)),
        None => state_folder::default_state(),
    }
}

/// The cluster's part of it.
fn state_place(server: &str, config: &ConfigFile, admin: Option<&Admin>, dev: bool) -> Option<StatePlace> {
    // In dev its port is another one each time.
    let cluster = if dev { Cluster::dev() } else { Cluster::of_server(server) };
    Some(StatePlace::new(&state_folder(config)?, &cluster, admin.map(Admin::address)))
}

/// Where core dumps go (relative to the file), if they are to be kept.
fn core_dumps_folder(config: &ConfigFile) -> Option<PathBuf> {
    let base = config.base();
    Some(base.join(config.current().host.core_dumps.as_ref()?))
}

/// Plugins run without core dumps too.
fn open_core_dumps(config: &ConfigFile) -> Option<Arc<DumpWriter>> {
    let opened = DumpWriter::open(&core_dumps_folder(config)?);
    opened.inspect_err(|error| tracing::warn!("no core dumps are kept: {error}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_host_wait_while_they_differ_from_what_it_was_started_with() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hark.toml");
        let save = |text: &str| std::fs::write(&path, text).expect("written");
        save("[host]\nstate_dir = \"a\"\n");
        let mut file = ConfigFile::find(Some(path.clone())).expect("valid");
        assert_eq!(file.waiting(), [""; 0]);
        for (text, waiting) in [
            ("[host]\nstate_dir = \"b\"\n", &["host.state_dir"][..]),
            ("[host]\nstate_dir = \"b\"\nlog = \"warn\"\n", &["host.state_dir", "host.log"]),
            ("[host]\nstate_dir = \"a\"\nlog = \"warn\"\n", &["host.log"]),
            ("# defaults", &["host.state_dir"]),
            ("[host]\nstate_dir = \"a\"\n", &[]),
        ] {
            save(text);
            assert!(file.take(&Config::load(&path)).expect("valid").is_some(), "{text}");
            assert_eq!(file.waiting(), waiting, "{text}");
        }
    }
    #[test]
    fn an_empty_file_is_taken_at_the_start_and_later_only_where_nothing_is_lost() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hark.toml");
        let save = |text: &str| std::fs::write(&path, text).expect("written");
        save("");
        let mut file = ConfigFile::find(Some(path.clone())).expect("valid");
        assert_eq!(file.current(), &Config::default());
        assert!(file.take(&Config::load(&path)).expect("nothing is lost").is_none());
        save("[plugins.a.limits]\nqueue = 7\n");
        assert!(file.take(&Config::load(&path)).expect("valid").is_some());
        save("\n");
        let read = Config::load(&path);
        assert!(file.take(&read).expect_err("all would be lost").is_emptiness());
        assert_eq!(file.current().plugin("a").queue, 7);
        save("# defaults\n");
        assert!(file.take(&Config::load(&path)).expect("it is meant").is_some());
        assert_eq!(file.current(), &Config::default());
    }
}
