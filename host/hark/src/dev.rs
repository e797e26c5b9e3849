//! `hark dev`: plugins against an embedded API server, with a readable line for each event, and built when their sources
//! change.
//!
//! | file | subject |
//! | --- | --- |
//! | `builds` | which builds there are |
//! | `builder` | one of them |
//! | `course`, `state` | where it stands, and what follows |
//! | `sources`, `folders`, `snapshot`, `look` | what starts it |
//! | `outputs`, `plugin_files` | what it writes |
//! | `runner`, `guard`, `kept` | its command, the process that guards it, its output |
//! | `words` | what is said of it |

mod builder;
mod builds;
mod course;
mod folders;
pub(crate) mod guard;
mod kept;
mod look;
mod outputs;
mod plugin_files;
mod runner;
mod snapshot;
mod sources;
mod state;
mod words;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use hark_apiserver::{Config as ServerConfig, Server};
use hark_informer::client::{Client, ClientOptions};

use crate::cli::DevArgs;
use crate::host::{self, ConfigFile, Mode};
use crate::output::Output;

pub(crate) use self::builds::{Builds, Options as BuildOptions, make_plugins_folder_if_built};
pub(crate) use self::sources::{Own, Pattern};

/// What the host needs to know to build.
pub(crate) struct Building {
    /// `--build`.
    pub(crate) command: Option<String>,
    /// Written at the start: no source.
    pub(crate) kubeconfig: PathBuf,
    /// How many files a build may have open: as whoever started Hark; none: no bound.
    pub(crate) files: Option<u64>,
}

/// Runs until a signal comes. `files` is how many could be open when Hark was started.
pub(crate) async fn dev(
    args: DevArgs,
    files: Option<u64>,
    config: ConfigFile,
    output: Arc<Output>,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        args.listen.ip().is_loopback(),
        "--listen {}: the embedded API server has no access control, so it listens on loopback only",
        args.listen
    );
    let server =
        ServerConfig { address: args.listen, start_revision: start_revision(), ..ServerConfig::default() };
    let server = Server::start(server)
        .await
        .with_context(|| format!("cannot start the embedded API server on {}", args.listen))?;
    // Dropped, and with it deleted, when the command ends.
    let temporary =
        tempfile::Builder::new().prefix("hark-dev-").tempdir().context("cannot make a temporary folder")?;
    let kubeconfig: PathBuf =
        args.write_kubeconfig.clone().unwrap_or_else(|| temporary.path().join("kubeconfig"));
    server
        .write_kubeconfig(&kubeconfig)
        .with_context(|| format!("cannot write the kubeconfig to {}", kubeconfig.display()))?;
    output.say(&format!("API server ready at {}", server.url()));
    output.say(&format!("  kubectl --kubeconfig {} get configmaps -A", kubeconfig.display()));
    let options = ClientOptions { kubeconfig: Some(kubeconfig.clone()), context: None };
    let client = Client::from_options(options).await?;
    let building = Building { command: args.build.clone(), kubeconfig, files };
    let done = host::run_plugins(client, &args.common, config, output, Mode::Dev(building)).await;
    server.shutdown().await;
    done
}

/// Where the embedded server's versions begin: beyond those of any run before, so that a client of that run
/// (`hark run`, `kubectl get -w`) is told that its version has expired, rather than waiting for it to come. Counts
/// tenths of seconds since 2026, more than the changes that anybody makes by hand.
fn start_revision() -> u64 {
    const YEAR_2026: i64 = 1_767_225_600_000;
    let tenths = (jiff::Timestamp::now().as_millisecond() - YEAR_2026) / 100;
    u64::try_from(tenths).unwrap_or_default().max(ServerConfig::default().start_revision)
}
