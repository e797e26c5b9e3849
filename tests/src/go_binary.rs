//! Programs of ours in Go that suites run against: built from a folder of this crate when first needed, and kept
//! in the user's cache folder.
//!
//! Used by [`crate::realserver`] and [`crate::differential`]. Invariants: a binary's folder is named by the
//! version of what it is built of and by its source, so that a change of either builds it anew; a build that was
//! cut short leaves nothing to trust; two processes that want the same binary build it once; a machine without
//! Go skips loudly and never silently, and where [`REQUIRE`] is 1 it fails.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// The environment variable that turns "cannot be built here" from a skip into an error when it is 1.
pub const REQUIRE: &str = "HARK_REQUIRE_REAL_APISERVER";

const PROGRESS_EVERY: Duration = Duration::from_secs(30);

/// One binary and how it is built.
pub(crate) struct GoBinary {
    /// The folder of its source in this crate, and of its builds in the cache.
    pub(crate) folder: &'static str,
    /// The file's name.
    pub(crate) name: &'static str,
    /// What it is, for people.
    pub(crate) what: &'static str,
    /// The module file that says which versions to build of.
    pub(crate) module_file: &'static str,
    /// The module whose version names the build.
    pub(crate) version_of: &'static str,
    /// Arguments of both `go list` and `go build`.
    pub(crate) flags: &'static [&'static str],
    /// The linker's flags, from the version.
    pub(crate) linker_flags: fn(&str) -> String,
    /// How long a build takes, for people.
    pub(crate) takes: &'static str,
}

impl GoBinary {
    /// The path of the binary, built when the cache lacks it. `None` where it cannot be built, since Go or its
    /// module proxy is out of reach: the caller skips, and standard error says why.
    pub(crate) fn ensure_built(&self) -> Result<Option<PathBuf>> {
        let source = Source::read(self)?;
        let home = cache_home()?.join("hark").join(self.folder).join(source.key());
        let binary = home.join(self.name);
        if binary.is_file() {
            return Ok(Some(binary));
        }
        fs::create_dir_all(&home).with_context(|| format!("creating {}", home.display()))?;
        let _lock = self.lock(&home.join("lock"))?;
        if binary.is_file() {
            return Ok(Some(binary)); // built by the process that held the lock
        }
        if let Err(reason) = source.modules_at_hand() {
            return self.skip(&reason);
        }
        source.build(&home, &binary)?;
        Ok(Some(binary))
    }

    /// Holds the file's lock until the result is dropped, or this process ends in any way.
    fn lock(&self, path: &Path) -> Result<File> {
        let file = create(path)?;
        if let Err(fs::TryLockError::WouldBlock) = file.try_lock() {
            self.say(&format!("waiting for the process that builds {}", self.what));
        }
        file.lock().with_context(|| format!("locking {}", path.display()))?;
        Ok(file)
    }

    fn skip(&self, reason: &str) -> Result<Option<PathBuf>> {
        if std::env::var(REQUIRE).is_ok_and(|value| value == "1") {
            bail!("{REQUIRE}=1, but {} cannot be built here: {reason}", self.what);
        }
        self.say(&format!("SKIPPED: cases that need {} do not run, for {reason}", self.what));
        Ok(None)
    }

    /// Writes past the test harness, which keeps back what `eprintln!` says in a test that passes.
    fn say(&self, line: &str) {
        // A closed standard error must not fail a test.
        let _ = writeln!(io::stderr(), "[{}] {line}", self.folder);
    }
}

/// The Go module of a binary as it is at present.
struct Source<'a> {
    binary: &'a GoBinary,
    dir: PathBuf,
    version: String,
    hash: String,
}

impl<'a> Source<'a> {
    fn read(binary: &'a GoBinary) -> Result<Self> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(binary.folder);
        let listing = fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))?;
        let mut files = Vec::new();
        for entry in listing {
            let path = entry.with_context(|| format!("reading {}", dir.display()))?.path();
            if path.extension().is_some_and(|end| end == "go" || end == "mod" || end == "sum") {
                files.push(path);
            }
        }
        files.sort();
        let mut hash = Sha256::new();
        hash.update(binary.flags.join(" "));
        for path in files {
            let content = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            hash.update(path.file_name().unwrap_or_default().as_encoded_bytes());
            hash.update(content.len().to_le_bytes());
            hash.update(content);
        }
        let hash = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let version = version_of(binary.version_of, &dir.join(binary.module_file))?;
        Ok(Self { binary, dir, version, hash })
    }

    fn key(&self) -> String {
        format!("{}-{}", self.version, self.hash)
    }

    /// The `go` command as everyone's machine is set up, but for what would make the binary depend on it.
    fn go(&self) -> Command {
        let mut go = Command::new("go");
        go.current_dir(&self.dir).env("GOWORK", "off").env("CGO_ENABLED", "0").stdin(Stdio::null());
        go
    }

    /// Fetches the modules. The error is the reason why this machine cannot build the binary.
    fn modules_at_hand(&self) -> Result<(), String> {
        match self.go().arg("version").output() {
            Err(error) => return Err(format!("`go version` does not run ({error}); install Go")),
            Ok(said) if !said.status.success() => return Err(failure("go version", &said)),
            Ok(_) => {}
        }
        self.binary.say(&format!("fetching the Go modules of {} {}", self.binary.what, self.version));
        match self.go().args(["list", "-deps", "-f", ""]).args(self.binary.flags).arg(".").output() {
            Err(error) => Err(format!("`go list` does not run: {error}")),
            Ok(said) if !said.status.success() => Err(failure("go list -deps", &said)),
            Ok(_) => Ok(()),
        }
    }

    /// Builds to a temporary name and renames, so that a build cut short leaves nothing to trust.
    fn build(&self, home: &Path, binary: &Path) -> Result<()> {
        let GoBinary { name, what, takes, .. } = self.binary;
        self.binary.say(&format!("building {what} {} from Go modules, {takes} the first time", self.version));
        let unfinished = home.join(format!("{name}.unfinished"));
        let log = home.join("build.log");
        let mut go = self.go();
        go.args(["build", "-v"]).args(self.binary.flags);
        go.arg("-ldflags").arg((self.binary.linker_flags)(&self.version));
        go.arg("-o").arg(&unfinished).arg(".").stdout(Stdio::null()).stderr(create(&log)?);
        let began = Instant::now();
        let child = go.spawn().context("starting `go build`")?;
        if !self.wait_with_progress(child, began, &log)? {
            bail!("`go build` failed in {}: {}", self.dir.display(), tail(&log));
        }
        fs::rename(&unfinished, binary)
            .with_context(|| format!("renaming {} to {}", unfinished.display(), binary.display()))?;
        self.binary.say(&format!("built {} in {} s", binary.display(), began.elapsed().as_secs()));
        Ok(())
    }

    /// Whether the build succeeded. Says every half minute how far it is, for it is long and mute.
    fn wait_with_progress(&self, mut child: Child, began: Instant, log: &Path) -> Result<bool> {
        let (sender, end) = mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait()));
        loop {
            match end.recv_timeout(PROGRESS_EVERY) {
                Ok(status) => return Ok(status.context("waiting for `go build`")?.success()),
                Err(RecvTimeoutError::Disconnected) => bail!("the thread that waits for `go build` ended"),
                Err(RecvTimeoutError::Timeout) => {
                    let packages = fs::read_to_string(log).unwrap_or_default().lines().count();
                    let seconds = began.elapsed().as_secs();
                    self.binary.say(&format!("building for {seconds} s: {packages} packages done"));
                }
            }
        }
    }
}

/// The version at which a module file requires a module.
fn version_of(module: &str, module_file: &Path) -> Result<String> {
    let text =
        fs::read_to_string(module_file).with_context(|| format!("reading {}", module_file.display()))?;
    let required = text.lines().find_map(|line| line.trim().strip_prefix(module)?.strip_prefix(' '));
    let version = required.and_then(|rest| rest.split_whitespace().next());
    version.map(str::to_owned).with_context(|| format!("{} requires no {module}", module_file.display()))
}

/// The user's cache folder, where the XDG base directory specification puts it.
fn cache_home() -> Result<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .context("no cache folder for built binaries: set HOME or XDG_CACHE_HOME to a full path")
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("creating {}", path.display()))
}

/// What a command that failed said, for an error message.
pub(crate) fn failure(command: &str, said: &Output) -> String {
    format!("`{command}` failed ({}): {}", said.status, last_lines(&String::from_utf8_lossy(&said.stderr)))
}

/// The end of a log file, for an error message.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    format!("the end of {}:\n{}", log.display(), last_lines(&String::from_utf8_lossy(&text)))
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}
