//! The built `hark` binary, run as a user runs it: a folder of plugins, a configuration, a trace file.
//!
//! Invariant: the process ends with its [`Hark`]; its folder too.

use std::ffi::OsString;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::process::{Child, ChildStderr, ChildStdout};

use crate::eventually;
use crate::trace::{self, Line};

/// A folder to run Hark in, before it runs.
pub struct Setup {
    folder: TempDir,
    arguments: Vec<String>,
    /// `--admin`: any free port, since many run at a time.
    admin: Option<String>,
    program: Option<PathBuf>,
    /// Words of a command that runs the program with its arguments behind them.
    through: Vec<String>,
    trace: TraceTo,
    stdout: Option<Stdio>,
    stderr: Option<Stdio>,
}

/// Where Hark writes its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceTo {
    /// A file, for [`Hark::trace`].
    File,
    /// A pipe, for [`Hark::take_pipe`]: whoever takes it must read it, or the plugins wait.
    Pipe,
    /// There is none.
    Nowhere,
}

/// A running Hark.
pub struct Hark {
    folder: TempDir,
    child: Child,
}

/// The binary that cargo built beside the tests.
///
/// # Panics
/// If it is not there.
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    // target/debug/deps/NAME-HASH: the binary is two up.
    let path = test.ancestors().nth(2).expect("a target folder").join("hark");
    assert!(path.is_file(), "{} is not there: run `cargo build --workspace` first", path.display());
    path
}

impl Setup {
    /// A fresh folder with an empty plugins folder and no configuration.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("hark-test-").tempdir()?;
        std::fs::create_dir(folder.path().join("plugins"))?;
        let admin = Some("127.0.0.1:0".into());
        Ok(Self {
            folder,
            arguments: Vec::new(),
            admin,
            program: None,
            through: Vec::new(),
            trace: TraceTo::File,
            stdout: None,
            stderr: None,
        })
    }

    /// Runs another binary than the one beside the tests.
    #[must_use]
    pub fn program(self, program: &Path) -> Self {
        Self { program: Some(program.to_owned()), ..self }
    }

    /// Runs it through a command that becomes it (`unshare --mount`), so that its process is still Hark's.
    #[must_use]
    pub fn through(self, command: &[&str]) -> Self {
        Self { through: command.iter().map(ToString::to_string).collect(), ..self }
    }

    /// Says where the trace goes.
    #[must_use]
    pub fn trace_to(self, trace: TraceTo) -> Self {
        Self { trace, ..self }
    }

    /// Says where standard output goes, unless the trace does; by default to a file, for [`Hark::stdout`].
    #[must_use]
    pub fn stdout_to(self, stdout: impl Into<Stdio>) -> Self {
        Self { stdout: Some(stdout.into()), ..self }
    }

    /// Says where standard error goes; by default to a file, for [`Hark::stderr`].
    #[must_use]
    pub fn stderr_to(self, stderr: impl Into<Stdio>) -> Self {
        Self { stderr: Some(stderr.into()), ..self }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes `hark.toml`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn config(self, text: &str) -> Result<Self> {
        std::fs::write(self.folder.path().join("hark.toml"), text)?;
        Ok(self)
    }

    /// Puts a plugin into the folder under a name.
    ///
    /// # Errors
    /// If it cannot be copied.
    pub fn plugin(self, name: &str, file: &Path) -> Result<Self> {
        self.content(name, &std::fs::read(file)?)
    }

    /// Puts a plugin with this content into the folder under a name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn content(self, name: &str, content: &[u8]) -> Result<Self> {
        std::fs::write(self.folder.path().join("plugins").join(format!("{name}.wasm")), content)?;
        Ok(self)
    }

    /// Adds arguments of the command.
    #[must_use]
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// Says where the admin port is, or nothing of it.
    #[must_use]
    pub fn admin(self, address: Option<&str>) -> Self {
        Self { admin: address.map(str::to_owned), ..self }
    }

    /// Starts `hark run` against a cluster.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(self, kubeconfig: &Path) -> Result<Hark> {
        let kubeconfig = kubeconfig.to_string_lossy().into_owned();
        self.start(&["run", "--kubeconfig", &kubeconfig])
    }

    /// Starts a command in the folder, with its trace.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(self, command: &[&str]) -> Result<Hark> {
        let at = self.folder.path();
        let into = |chosen: Option<Stdio>, name: &str| match chosen {
            Some(chosen) => Ok(chosen),
            None => File::create(at.join(name)).map(Stdio::from),
        };
        let (trace, stdout): (&[&str], Stdio) = match self.trace {
            TraceTo::File => (&["--trace", "trace.jsonl"], into(self.stdout, "stdout")?),
            TraceTo::Pipe => (&["--trace", "-"], Stdio::piped()),
            TraceTo::Nowhere => (&[], into(self.stdout, "stdout")?),
        };
        let program = self.program.unwrap_or_else(binary);
        let mut words = self.through.iter().map(OsString::from).chain([program.into_os_string()]);
        let first = words.next().context("a program")?;
        let mut hark = tokio::process::Command::from(clean(Command::new(first)));
        hark.args(words)
            .args(command)
            .args(trace)
            .args(self.admin.iter().flat_map(|address| ["--admin", address]))
            .args(&self.arguments)
            .current_dir(at)
            .env("XDG_STATE_HOME", at.join("state"))
            .env("XDG_CACHE_HOME", at.join("cache"))
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(into(self.stderr, "stderr")?)
            .kill_on_drop(true);
        let child = hark.spawn().context("cannot start hark")?;
        Ok(Hark { folder: self.folder, child })
    }
}

/// Nothing of the user's own cluster or settings leaks into a test.
pub fn clean(mut command: Command) -> Command {
    const NAMES: [&str; 7] = [
        "KUBECONFIG",
        "HARK_LOG",
        "RUST_LOG",
        "KUBERNETES_SERVICE_HOST",
        "KUBERNETES_SERVICE_PORT",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
    ];
    for name in NAMES {
        command.env_remove(name);
    }
    command.env("HOME", "/nonexistent").env("NO_COLOR", "1");
    command
}

impl Hark {
    /// The folder it runs in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A plugin's file in its folder.
    pub fn plugin_path(&self, name: &str) -> PathBuf {
        self.folder().join("plugins").join(format!("{name}.wasm"))
    }

    /// Saves another build over a plugin, as a compiler does: written beside it, then renamed.
    ///
    /// # Errors
    /// If it cannot be copied.
    pub fn save(&self, name: &str, file: &Path) -> Result<()> {
        let beside = self.folder().join(format!("{name}.new"));
        std::fs::copy(file, &beside)?;
        Ok(std::fs::rename(beside, self.plugin_path(name))?)
    }

    /// The end of the trace's pipe, once (see [`TraceTo::Pipe`]).
    pub fn take_pipe(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The end of standard error's pipe, once, if it was to go to one (see [`Setup::stderr_to`]).
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// The trace so far.
    pub fn trace(&self) -> Vec<Line> {
        trace::read(&self.folder().join("trace.jsonl"))
    }

    /// Standard error so far.
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(self.folder().join("stderr")).unwrap_or_default()
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        std::fs::read_to_string(self.folder().join("stdout")).unwrap_or_default()
    }

    /// What to show when something was waited for in vain.
    pub fn state(&self) -> String {
        let trace = self.trace();
        let last = trace.iter().rev().take(5).rev().map(|line| format!("{line:?}")).collect::<Vec<_>>();
        format!(
            "--- {} trace lines, the last:\n{}\n--- stdout:\n{}\n--- stderr:\n{}",
            trace.len(),
            last.join("\n"),
            tail(&self.stdout()),
            tail(&self.stderr())
        )
    }

    /// Waits until standard error has all of these texts.
    pub async fn says(&self, texts: &[&str]) {
        eventually(
            &format!("{texts:?} on standard error"),
            || self.state(),
            async || {
                let stderr = self.stderr();
                texts.iter().all(|text| stderr.contains(text)).then_some(())
            },
        )
        .await;
    }

    /// Waits until it says where its admin port is.
    ///
    /// # Panics
    /// If it says something else.
    pub async fn admin(&self) -> SocketAddr {
        const READY: &str = "admin port ready at http://";
        let said = async || {
            let said = self.stderr() + &self.stdout();
            let (_, after) = said.split_once(READY)?;
            Some(after.lines().next()?.trim().to_owned())
        };
        let address = eventually("the admin port", || self.state(), said).await;
        address.parse().expect("an address")
    }

    /// Waits until standard output has all of these texts.
    pub async fn shows(&self, texts: &[&str]) {
        eventually(
            &format!("{texts:?} on standard output"),
            || self.state(),
            async || {
                let stdout = self.stdout();
                texts.iter().all(|text| stdout.contains(text)).then_some(())
            },
        )
        .await;
    }

    /// Waits until the trace satisfies a condition, and gives the trace.
    pub async fn traces(&self, what: &str, mut condition: impl FnMut(&[Line]) -> bool) -> Vec<Line> {
        eventually(
            what,
            || self.state(),
            async || {
                let trace = self.trace();
                condition(&trace).then_some(trace)
            },
        )
        .await
    }

    /// Whether the process still runs.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn runs(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// The process's number.
    ///
    /// # Panics
    /// If it has ended.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("hark has ended")
    }

    /// Sends a signal by name (`TERM`).
    ///
    /// # Errors
    /// If it cannot be sent.
    pub fn signal(&self, name: &str) -> Result<()> {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status()?;
        anyhow::ensure!(sent.success(), "kill -{name} failed");
        Ok(())
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// If it does not come.
    pub async fn ends(&mut self) -> Result<ExitStatus> {
        let ended = tokio::time::timeout(Duration::from_secs(60), self.child.wait()).await;
        Ok(ended.with_context(|| format!("hark does not end\n{}", self.state()))??)
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
