//! Builds guests written in Rust: the only place that knows which toolchain does it, and how. Used by
//! `plugins` and `fixtures`. Invariant: the result depends on the sources and the toolchain alone, never on
//! what another clone of the repository left in the shared build folder.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::output;
use crate::tools;

/// `std` has no system here, so a guest imports Hark's contract and nothing else.
const TARGET: &str = "wasm32-unknown-unknown";

/// What to install when nothing fits. `rust-version` of the guests is 1.91.
const ADVICE: &str = "no Rust toolchain for wasm32-unknown-unknown.
Install one of:
  rustup target add wasm32-unknown-unknown
  apt-get install rustc-web cargo-web rust-web-src lld-22    (Debian, Rust 1.91 or newer; std is built from source)";

/// A way to compile Rust to Wasm.
enum Toolchain {
    /// The toolchain that runs this program has the target.
    Active,
    /// Debian's compiler has no such target, but the sources of `std` to build it from.
    Debian { linker: PathBuf },
}

/// Builds crates of the guests' workspace; returns the file built for each of them.
pub(crate) fn build(crates: &[String]) -> Result<BTreeMap<String, Vec<u8>>> {
    if crates.is_empty() {
        return Ok(BTreeMap::new());
    }
    let toolchain = choose()?;
    let folder = BuildFolder::open(&toolchain)?;
    let what = format!("compiling {} (Rust, {toolchain})", crates.join(", "));
    output::step(&what, || tools::run(toolchain.cargo(&folder.path).args(packages(crates))))?;
    let built = folder.path.join(TARGET).join("release");
    let read = |name: &String| {
        let file = built.join(name.replace('-', "_")).with_extension("wasm");
        let content = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok((name.clone(), content))
    };
    crates.iter().map(read).collect()
}

fn packages(crates: &[String]) -> impl Iterator<Item = String> {
    crates.iter().flat_map(|name| ["--package".to_owned(), name.clone()])
}

/// What is there already comes first; what can be fetched quickly comes before what must be installed.
fn choose() -> Result<Toolchain> {
    let wanted = std::env::var("HARK_GUEST_RUST").unwrap_or_default();
    let (rustup, debian) = match wanted.as_str() {
        "" => (true, true),
        "rustup" => (true, false),
        "debian" => (false, true),
        other => bail!("HARK_GUEST_RUST is `{other}`; it may be rustup or debian"),
    };
    if rustup && active_has_target() {
        return Ok(Toolchain::Active);
    }
    if let Some(found) = debian.then(Toolchain::debian).flatten() {
        return Ok(found);
    }
    if rustup && add_target() && active_has_target() {
        return Ok(Toolchain::Active);
    }
    let packages: &[&str] = &["rustc-web", "cargo-web", "rust-web-src", "lld-22"];
    if debian
        && tools::apt_install(&[packages])
        && let Some(found) = Toolchain::debian()
    {
        return Ok(found);
    }
    bail!(ADVICE)
}

/// Whether the toolchain that cargo runs us with has a `std` for the target.
fn active_has_target() -> bool {
    let printed =
        tools::capture(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]));
    let Ok(folder) = printed else { return false };
    let files = fs::read_dir(folder.trim()).into_iter().flatten().flatten();
    files.into_iter().any(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
}

fn add_target() -> bool {
    if tools::find(&["rustup"]).is_none() {
        return false;
    }
    eprintln!("rustup target add {TARGET} …");
    let added = tools::capture(Command::new("rustup").args(["target", "add", TARGET]));
    added.inspect_err(|error| eprintln!("{error:#}")).is_ok()
}

impl Toolchain {
    /// Debian's toolchain, if it is complete: its own compiler and cargo (rustup's come first in `PATH`), the
    /// sources of `std` of the same version, and a Wasm linker.
    fn debian() -> Option<Self> {
        let rustc = Path::new("/usr/bin/rustc");
        let sysroot = tools::capture(Command::new(rustc).args(["--print", "sysroot"])).ok()?;
        let sources = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/Cargo.lock");
        let complete = Path::new("/usr/bin/cargo").is_file() && sources.is_file() && is_recent(rustc);
        Some(Self::Debian { linker: tools::llvm_program("wasm-ld").filter(|_| complete)? })
    }

    fn rustc(&self) -> &Path {
        match self {
            Self::Active => Path::new("rustc"),
            Self::Debian { .. } => Path::new("/usr/bin/rustc"),
        }
    }

    /// `cargo build` for this toolchain, still without packages.
    fn cargo(&self, target_dir: &Path) -> Command {
        let mut command = match self {
            Self::Active => Command::new("cargo"),
            Self::Debian { .. } => Command::new("/usr/bin/cargo"),
        };
        forget_outer_cargo(&mut command, matches!(self, Self::Debian { .. }));
        command.args(["build", "--release", "--target", TARGET]);
        command.arg("--manifest-path").arg(output::root().join("plugins/Cargo.toml"));
        command.env("CARGO_TARGET_DIR", target_dir);
        if let Self::Debian { linker } = self {
            command.arg("-Zbuild-std=std,panic_abort");
            command.env("RUSTC", self.rustc()).env("RUSTC_BOOTSTRAP", "1");
            command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
        }
        command
    }
}

impl std::fmt::Display for Toolchain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Active => "installed target",
            Self::Debian { .. } => "Debian's compiler, std built from source",
        })
    }
}

/// The guests' `rust-version`.
fn is_recent(rustc: &Path) -> bool {
    let version = tools::capture(Command::new(rustc).arg("--version")).unwrap_or_default();
    let mut numbers =
        version.trim_start_matches("rustc ").split('.').map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(1), Some(91))
}

/// What the cargo that runs us, or the user's shell, set for the host's build must not reach the guests'.
fn forget_outer_cargo(command: &mut Command, forget_rustup: bool) {
    for name in
        ["RUSTFLAGS", "RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO", "CARGO_INCREMENTAL"]
    {
        command.env_remove(name);
    }
    if forget_rustup {
        command.env_remove("RUSTUP_TOOLCHAIN");
    }
    let prefixes = [
        "CARGO_BUILD_",
        "CARGO_ENCODED_",
        "CARGO_MANIFEST_",
        "CARGO_PKG_",
        "CARGO_PROFILE_",
        "CARGO_TARGET_",
    ];
    for (name, _) in std::env::vars_os() {
        if prefixes.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
}

/// The shared build folder of one compiler, held by this process alone. In the user's cache, so that a fresh
/// clone finds `std` and the dependencies built.
struct BuildFolder {
    path: PathBuf,
    /// Keeps other xtasks out until the result is read: cargo's own lock ends before that.
    _lock: File,
}

impl BuildFolder {
    fn open(toolchain: &Toolchain) -> Result<Self> {
        let version = tools::capture(Command::new(toolchain.rustc()).arg("-vV"))?;
        let path = tools::cache_folder()?.join("guests-target").join(folder_name(&version));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let lock = File::create(path.join(".hark-lock"))?;
        lock.lock()?;
        disown(&path)?;
        Ok(Self { path, _lock: lock })
    }
}

/// `1.96.0-ac68faa20` of `rustc -vV`, or as much of it as there is.
fn folder_name(version: &str) -> String {
    let line = |key: &str| version.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("unknown");
    let commit = line("commit-hash: ");
    format!("{}-{}", line("release: "), commit.get(..9).unwrap_or(commit))
}

/// Makes cargo compile the workspace's own crates again if another clone used the folder last. Cargo names
/// them by their place in the workspace, and trusts time stamps: it would take that clone's for ours.
fn disown(folder: &Path) -> Result<()> {
    let owner = folder.join(".hark-owner");
    let root = output::root().canonicalize()?;
    let root = root.as_os_str().as_encoded_bytes();
    if fs::read(&owner).is_ok_and(|last| last == root) {
        return Ok(());
    }
    let fingerprints = folder.join(TARGET).join("release/.fingerprint");
    for entry in fs::read_dir(fingerprints).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let crate_name = name.to_str().and_then(|name| name.rsplit_once('-')).map_or("", |(name, _)| name);
        if is_ours(crate_name) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    fs::write(owner, root)?;
    Ok(())
}

/// Whether a crate is of the guests' workspace, not from the registry.
fn is_ours(crate_name: &str) -> bool {
    let folders = ["plugins", "tests/guests"].map(|folder| output::root().join(folder).join(crate_name));
    let in_folders = || folders.iter().any(|folder| folder.is_dir());
    crate_name == "hark-guest" || (!crate_name.is_empty() && in_folders())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_compiler_has_a_folder_of_its_own() {
        let rustup = "rustc 1.95.0 (59807616e 2026-04-14)\nrelease: 1.95.0\ncommit-hash: 59807616e1fa2540\n";
        assert_eq!(folder_name(rustup), "1.95.0-59807616e");
        assert_eq!(folder_name("release: 1.96.0\ncommit-hash: unknown"), "1.96.0-unknown");
        assert_eq!(folder_name(""), "unknown-unknown");
    }

    #[test]
    fn only_the_workspace_s_own_crates_are_ours() {
        for name in ["hark-guest", "event-log", "rust-panic"] {
            assert!(is_ours(name), "{name}");
        }
        for name in ["serde", "std", "wit-bindgen", ""] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
