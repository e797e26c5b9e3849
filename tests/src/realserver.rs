//! The real API server: kube-apiserver, etcd and kubectl built from Go modules, a fresh cluster for each
//! [`RealServer`]. Used by the suites of this crate that must not believe the embedded API server's word.
//!
//! Invariants: nothing listens outside of loopback; every process that a `RealServer` starts ends with
//! it, and with the test process however that ends (each holds a pipe from it and exits when the pipe
//! closes); two clusters share no file and no port; a machine without Go skips loudly and never silently,
//! and where [`REQUIRE`] is 1 it fails.
//!
//! All calls block. In async tests, call them before the interesting part begins or through
//! `tokio::task::spawn_blocking`.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use tempfile::TempDir;

pub use crate::go_binary::REQUIRE;
use crate::go_binary::{GoBinary, failure, tail};

const BINARY: GoBinary = GoBinary {
    folder: "realserver",
    name: "hark-realserver",
    what: "kube-apiserver",
    module_file: "go.mod",
    version_of: "k8s.io/kubernetes",
    flags: &["-mod=readonly", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace"],
    linker_flags,
    takes: "about 10 minutes",
};

/// Long enough for a busy machine of two cores; a start takes a few seconds.
const START_LIMIT: Duration = Duration::from_secs(120);

/// How long a running server may take to answer a command on its standard input.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// The path of the binary, built when the user's cache folder lacks it. `None` where it cannot be built, since
/// Go or its module proxy is out of reach: the caller skips, and standard error says why.
///
/// # Errors
/// If the build fails, or [`REQUIRE`] is 1 and it cannot be tried.
pub fn ensure_built() -> Result<Option<PathBuf>> {
    BINARY.ensure_built()
}

/// What `/version` and `kubectl version` say: without these they would know no version at all.
fn linker_flags(kube_version: &str) -> String {
    let mut numbers = kube_version.trim_start_matches('v').split('.');
    let major = numbers.next().unwrap_or_default();
    let minor = numbers.next().unwrap_or_default();
    let package = "k8s.io/component-base/version";
    format!(
        "-s -w -X {package}.gitVersion={kube_version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor} \
         -X {package}.gitTreeState=clean"
    )
}

// ---------------------------------------------------------------------------------------------------
// The cluster
// ---------------------------------------------------------------------------------------------------

/// One cluster: an etcd and a kube-apiserver of its own, with RBAC and without controllers or nodes
/// (pods stay Pending, nothing is garbage-collected, there are no service accounts but those made).
pub struct RealServer {
    // Dropped in this order: the servers end before their folder goes.
    apiserver: Option<Supervised>,
    etcd: Supervised,
    cluster: Cluster,
}

/// What stays the same over restarts of the API server.
struct Cluster {
    binary: PathBuf,
    dir: TempDir,
    port: u16,
    flags: Vec<String>,
}

impl RealServer {
    /// Starts a fresh cluster and returns when `/readyz` is 200 and the namespaces `default` and
    /// `kube-system` exist. `None` where the servers cannot be built, see [`ensure_built`].
    pub fn start() -> Result<Option<Self>> {
        Self::start_with(&[])
    }

    /// Like [`RealServer::start`], with further flags for kube-apiserver; they win over the usual ones.
    pub fn start_with(flags: &[&str]) -> Result<Option<Self>> {
        let Some(binary) = ensure_built()? else { return Ok(None) };
        let mut tries = 3;
        loop {
            tries -= 1;
            match Self::start_once(&binary, flags) {
                // Another process took the port between the look for one and its use.
                Err(error) if tries > 0 && format!("{error:#}").contains("address already in use") => {}
                outcome => return outcome.map(Some),
            }
        }
    }

    fn start_once(binary: &Path, flags: &[&str]) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("hark-realserver-").tempdir()?;
        let flags = flags.iter().map(ToString::to_string).collect();
        let cluster = Cluster { binary: binary.to_owned(), dir, port: free_port()?, flags };
        let mut etcd = cluster.spawn_etcd()?;
        cluster.make_pki()?; // while etcd starts
        let etcd_url = etcd.wait_for("ready", START_LIMIT)?;
        fs::write(cluster.path("etcd-url"), etcd_url)?;
        let mut server = Self { apiserver: None, etcd, cluster };
        server.restart()?;
        Ok(server)
    }

    /// The administrator's kubeconfig; self-contained, so that it may be copied.
    pub fn kubeconfig(&self) -> PathBuf {
        self.cluster.path("kubeconfig")
    }

    /// `https://127.0.0.1:PORT`, the same over restarts.
    pub fn url(&self) -> String {
        self.cluster.url()
    }

    /// The certificate to trust, as a PEM file.
    pub fn ca_file(&self) -> PathBuf {
        self.cluster.path("ca.crt")
    }

    /// A bearer token of the administrator, for clients that speak raw HTTP.
    pub fn token(&self) -> Result<String> {
        let path = self.cluster.path("token");
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    }

    /// kubectl of the server's version as the administrator, ready to run or to be added to.
    pub fn kubectl<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(&self.cluster.binary);
        command.arg("kubectl").args(args).stdin(Stdio::null());
        // Of its own for this cluster: another one may have had the same port and other resources.
        command.env("KUBECONFIG", self.kubeconfig()).env("KUBECACHEDIR", self.cluster.path("kubectl-cache"));
        command.env("KUBERC", "off");
        command
    }

    /// Runs kubectl and returns what it printed; an error when it fails.
    pub fn run_kubectl(&self, args: &[&str]) -> Result<String> {
        let said = self.kubectl(args).output().context("starting kubectl")?;
        printed(&format!("kubectl {}", args.join(" ")), &said)
    }

    /// Applies a manifest, YAML or JSON, of one or more objects.
    pub fn apply(&self, manifest: &str) -> Result<String> {
        let path = self.cluster.path("manifest.yaml");
        fs::write(&path, manifest).with_context(|| format!("writing {}", path.display()))?;
        let said = self.kubectl(["apply", "-f"]).arg(&path).output().context("starting kubectl")?;
        printed(&format!("kubectl apply -f:\n{manifest}\n"), &said)
    }

    /// Ends the API server as `kill -9` does: connections are reset, etcd lives on.
    pub fn kill(&mut self) {
        self.apiserver = None;
    }

    /// Asks the API server to end in order: it refuses new connections at once, while watches may go
    /// on for up to a minute. Returns without waiting for the end.
    pub fn terminate(&mut self) -> Result<()> {
        let server = self.apiserver.as_mut().context("the API server is not running: restart() it")?;
        server.ask("terminate", "terminating").map(drop)
    }

    /// Starts the API server again, on the same port with the same etcd, and waits until it is ready.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        let server = self.apiserver.insert(self.cluster.spawn_apiserver()?);
        server.wait_for("ready", START_LIMIT).map(drop)
    }

    /// Makes etcd forget every revision but the present one, so that older resource versions and continue
    /// tokens get 410 Expired. A running API server goes on from its own caches: up to 15 seconds for
    /// lists, unless it has `--feature-gates=ListFromCacheSnapshot=false`, and longer for watches. One
    /// restarted since has nothing older.
    pub fn compact(&mut self) -> Result<()> {
        self.etcd.ask("compact", "compacted").map(drop)
    }
}

impl Cluster {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    fn make_pki(&self) -> Result<()> {
        let mut command = Command::new(&self.binary);
        command.arg("pki").arg(self.dir.path()).arg(self.url()).stdin(Stdio::null());
        let said = command.output().with_context(|| format!("starting {}", self.binary.display()))?;
        printed("hark-realserver pki", &said).map(drop)
    }

    fn spawn_etcd(&self) -> Result<Supervised> {
        let mut command = Command::new(&self.binary);
        command.args(["-supervised", "etcd"]).arg(self.path("etcd"));
        Supervised::spawn("etcd", command, self.path("etcd.log"))
    }

    fn spawn_apiserver(&self) -> Result<Supervised> {
        let etcd_url = fs::read_to_string(self.path("etcd-url"))?;
        let file = |flag: &str, name: &str| format!("--{flag}={}", self.path(name).display());
        let mut command = Command::new(&self.binary);
        command.arg("-supervised").arg("-kubeconfig").arg(self.path("kubeconfig")).arg("kube-apiserver");
        command.args([
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.port),
            format!("--etcd-servers={etcd_url}"),
            file("tls-cert-file", "server.crt"),
            file("tls-private-key-file", "server.key"),
            file("cert-dir", "apiserver"),
            file("client-ca-file", "ca.crt"),
            file("token-auth-file", "tokens.csv"),
            "--authorization-mode=RBAC".to_owned(),
            file("service-account-key-file", "sa.key"),
            file("service-account-signing-key-file", "sa.key"),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            // It wants a default service account in each namespace, which only a controller makes.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            // Loopback is no address for the endpoints of the `kubernetes` service.
            "--endpoint-reconciler-type=none".to_owned(),
            // A fifth of the start's CPU time; too many requests in flight still get 429.
            "--enable-priority-and-fairness=false".to_owned(),
        ]);
        command.args(&self.flags);
        Supervised::spawn("kube-apiserver", command, self.path("kube-apiserver.log"))
    }
}

/// A free port below those that the system gives to outgoing connections: while the API server is down,
/// no client's connection can take its port, or even connect to itself.
fn free_port() -> Result<u16> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 10_000;
    for _ in 0..100 {
        let random = RandomState::new().build_hasher().finish() % u64::from(COUNT);
        let port = FIRST + u16::try_from(random)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("found no free port on 127.0.0.1 from {FIRST} to {}", FIRST + COUNT - 1)
}

// ---------------------------------------------------------------------------------------------------
// Processes
// ---------------------------------------------------------------------------------------------------

/// A server that answers on standard output, see tests/realserver/control.go. Dropping it kills it.
struct Supervised {
    name: &'static str,
    child: Child,
    /// In a mutex only so that tests may share a `RealServer` between threads.
    answers: Mutex<Receiver<String>>,
    log: PathBuf,
}

impl Supervised {
    /// Standard error goes to the end of `log`, so that one file tells of all restarts.
    fn spawn(name: &'static str, mut command: Command, log: PathBuf) -> Result<Self> {
        let errors = File::options().create(true).append(true).open(&log);
        let errors = errors.with_context(|| format!("opening {}", log.display()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().with_context(|| format!("starting {name} as {command:?}"))?;
        let output = child.stdout.take().with_context(|| format!("{name} has no standard output"))?;
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            // Ends with the process, or when nobody listens any more.
            BufReader::new(output).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        Ok(Self { name, child, answers: Mutex::new(answers), log })
    }

    /// Sends a command and waits for its answer.
    fn ask(&mut self, command: &str, answer: &str) -> Result<String> {
        let input = self.child.stdin.as_mut().with_context(|| format!("{} has no input", self.name))?;
        let sent = writeln!(input, "{command}");
        sent.with_context(|| format!("sending `{command}` to {}: {}", self.name, tail(&self.log)))?;
        self.wait_for(answer, ANSWER_LIMIT)
    }

    /// Waits for the answer that begins with `word` and returns the rest of it.
    fn wait_for(&mut self, word: &str, limit: Duration) -> Result<String> {
        let answers = self.answers.get_mut().unwrap_or_else(PoisonError::into_inner);
        let line = answers.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => anyhow!(
                "{} did not say `{word}` within {} s: {}",
                self.name,
                limit.as_secs(),
                tail(&self.log)
            ),
            RecvTimeoutError::Disconnected => {
                anyhow!("{} ended before it said `{word}`: {}", self.name, tail(&self.log))
            }
        })?;
        let rest = line.strip_prefix(word);
        ensure!(rest.is_some(), "{} said `{line}`, not `{word}`: {}", self.name, tail(&self.log));
        Ok(rest.unwrap_or_default().trim().to_owned())
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // Both fail only for a process that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Standard output of a command that succeeded.
fn printed(command: &str, said: &Output) -> Result<String> {
    ensure!(said.status.success(), "{}", failure(command, said));
    Ok(String::from_utf8_lossy(&said.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_ends_when_its_parent_lets_go_of_the_pipe() -> Result<()> {
        let Some(binary) = ensure_built()? else { return Ok(()) };
        let cluster = Cluster { binary, dir: tempfile::tempdir()?, port: free_port()?, flags: Vec::new() };
        let mut etcd = cluster.spawn_etcd()?;
        etcd.wait_for("ready", START_LIMIT)?;

        drop(etcd.child.stdin.take());
        let end = etcd.wait_for("anything", ANSWER_LIMIT).err().context("etcd went on")?.to_string();
        ensure!(end.contains("ended before"), "etcd outlives its parent: {end}");
        Ok(())
    }

    #[test]
    fn a_cluster_can_be_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<RealServer>();
    }
}
