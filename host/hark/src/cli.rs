//! The command line: what can be said, and the help that teaches it.
//!
//! Used by `main` alone. Invariant: exactly what was typed, nothing derived from it, no reading of files.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use hark_sandbox::Compile;

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
                            Examples: hark dev --plugins target/plugins\n\
                            hark dev --build 'make && cp *.wasm \"$HARK_PLUGINS\"'"
    )]
    Dev(DevArgs),
    /// Look at events that were given up, and have them delivered again
    #[command(
        after_help = "An event whose handling traps or times out again and again (limits.max_attempts) is given up, \
                            and kept as a dead letter: one line of JSON in the state folder (host.state_dir of the \
                            configuration, else $XDG_STATE_HOME/hark, else ~/.local/state/hark), a file for each \
                            cluster that only its owner can read. A delete is kept with its object, as the plugin \
                            was shown it; Secrets never are.\n\n\
                            After the plugin is mended: hark dead-letters replay --all"
    )]
    DeadLetters(DeadLettersArgs),
    /// Compile the plugin on standard input; started by a host, never by people
    #[command(name = crate::artefacts::SUBCOMMAND, hide = true)]
    CompileArtefact(CompileArgs),
    /// Run a build and leave nothing of it behind; started by a host, never by people
    #[command(name = crate::dev::guard::SUBCOMMAND, hide = true)]
    RunBuild(RunBuildArgs),
}

/// What every command that runs plugins takes.
#[derive(Debug, Clone, Args)]
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

    /// Command line (for sh) that builds the plugins: run now, and whenever something in this folder changes that
    /// .gitignore does not name. $HARK_PLUGINS is the plugins folder. By default `dev.build` of the configuration
    #[arg(long, value_name = "CMD", value_parser = command_line)]
    pub(crate) build: Option<String>,
}

fn command_line(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("expected a command line".to_owned()) } else { Ok(text.to_owned()) }
}

/// The arguments of the process that a build runs under.
#[derive(Debug, Args)]
pub(crate) struct RunBuildArgs {
    /// How many files it may have open
    #[arg(long, value_name = "COUNT")]
    pub(crate) files: Option<u64>,

    /// Where the command runs
    pub(crate) folder: PathBuf,

    /// For sh
    pub(crate) command: String,
}

/// The arguments that a host gives the process it compiles in.
#[derive(Debug, Args)]
pub(crate) struct CompileArgs {
    /// Which compiler
    #[arg(value_parser = crate::artefacts::mode)]
    pub(crate) mode: Compile,

    /// The host's process number
    pub(crate) parent: u32,
}

/// `hark dead-letters`.
#[derive(Debug, Args)]
pub(crate) struct DeadLettersArgs {
    /// Configuration file, for its `host.state_dir`; by default ./hark.toml if there is one
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: DeadLettersCommand,
}

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadLettersCommand {
    /// List them, the oldest first
    List {
        /// Those of one plugin
        #[arg(long, value_name = "NAME")]
        plugin: Option<String>,

        /// As a table for people, or as a JSON array
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Show one as JSON
    Show {
        /// Its id, or the beginning of it
        id: String,
    },
    /// Have the running host deliver them again
    #[command(
        after_help = "The plugin is told the object's present state: as an add if it was never told of it, else as \
                            an update that is marked as a resync. A delete is delivered as it was kept. A letter \
                            goes away once the plugin has handled it, or at once if there is nothing left to tell; \
                            if it fails again, it becomes a letter again.\n\n\
                            Example: hark dead-letters replay --plugin pod-audit"
    )]
    Replay {
        #[command(flatten)]
        selection: Selection,

        /// The running host's admin port; by default the one that it has noted in the state folder
        #[arg(long, value_name = "ADDR")]
        admin: Option<SocketAddr>,
    },
    /// Throw them away
    Drop {
        #[command(flatten)]
        selection: Selection,
    },
}

/// Which dead letters.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Selection {
    /// Ids, or the beginnings of them
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,

    /// All of one plugin
    #[arg(long, value_name = "NAME")]
    pub(crate) plugin: Option<String>,

    /// All of them
    #[arg(long)]
    pub(crate) all: bool,
}

/// How a list is written.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}
