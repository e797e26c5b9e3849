//! The command line: what can be said, and the help that teaches it.
//!
//! Used by `main` alone. Invariant: exactly what was typed, nothing derived from it, no reading of files.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::admin::AdminAddress;

/// Kubernetes event handlers as sandboxed WebAssembly.
#[derive(Debug, Parser)]
#[command(
    name = "hark",
    version,
    about,
    after_help = "Drop a .wasm file into the plugins folder and it receives on-add, on-update and on-delete.\n\
                  Save a new build over it and the host swaps it between two events, losing none."
)]
pub(crate) struct Cli {
    /// Filter for Hark's own log lines, as RUST_LOG takes it (info, debug, hark_informer=trace, …)
    #[arg(long, global = true, env = "HARK_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the plugins of a folder against a cluster
    #[command(
        after_help = "The cluster is, in this order: --kubeconfig, $KUBECONFIG, ~/.kube/config, or the \
                            service account of the pod that hark runs in.\n\n\
                            Example: hark run --context staging --plugins ./plugins --trace events.jsonl"
    )]
    Run(RunArgs),
    /// Run the plugins of a folder against an embedded API server, for development
    #[command(
        after_help = "The API server lives in memory and listens on loopback only; hark prints the kubectl \
                            line to use.\n.wat files (Wasm text) are plugins too.\n\n\
                            Example: hark dev --plugins target/plugins"
    )]
    Dev(DevArgs),
}

impl Command {
    pub(crate) fn common(&self) -> &CommonArgs {
        match self {
            Self::Run(args) => &args.common,
            Self::Dev(args) => &args.common,
        }
    }
}

/// What every command that runs plugins takes.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Folder with the plugins (*.wasm); by default `host.plugins` of the configuration, else ./plugins
    #[arg(long, value_name = "DIR")]
    pub(crate) plugins: Option<PathBuf>,

    /// Configuration file; by default ./hark.toml if there is one
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Write one JSON line for each delivery attempt to FILE (appended), or to standard output (-)
    #[arg(long, value_name = "FILE|-")]
    pub(crate) trace: Option<PathBuf>,

    /// Where /livez, /readyz, /metrics and /api are served, or `off`; by default `host.admin` of the configuration,
    /// else 127.0.0.1:9464. Port 0: any free one. There is no access control
    #[arg(long, value_name = "ADDR|off")]
    pub(crate) admin: Option<AdminAddress>,
}

/// `hark run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,

    /// Kubeconfig file
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig; by default its current one
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// `hark dev`.
#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,

    /// Where the embedded API server listens; port 0: any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,

    /// Where to write the kubeconfig for the embedded API server; by default a temporary file
    #[arg(long, value_name = "FILE")]
    pub(crate) write_kubeconfig: Option<PathBuf>,
}
