//! Builds guests written in C: the only place that knows the compiler and its flags. Used by `plugins` and
//! `fixtures`. Invariant: no C library is linked (`guest-sdk/c/freestanding` has what guests need of one), so
//! any clang that knows wasm32 will do, and a guest imports Hark's contract and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::output;
use crate::tools;

const ADVICE: &str = "no C toolchain for wasm32. Install clang and lld, version 14 or newer:
  apt-get install clang lld    (Debian, Ubuntu; versioned packages such as clang-22 and lld-22 do as well)
  brew install llvm lld        (macOS: Apple's own clang does not know wasm32; put Homebrew's into PATH)";

const COMPILE: &[&str] =
    &["--target=wasm32", "-std=c11", "-Os", "-ffreestanding", "-mbulk-memory", "-Wall", "-Wextra", "-Werror"];

/// The stack comes first in memory, so that overflowing it traps instead of overwriting data. Function names
/// are kept: a trap's backtrace shows them.
const LINK: &[&str] = &[
    "-nostdlib",
    "-Wl,--no-entry",
    "-Wl,--gc-sections",
    "-Wl,--strip-debug",
    "-Wl,--stack-first",
    "-Wl,-z,stack-size=65536",
];

/// One guest: its name, its own sources, and macros (`NAME=VALUE`) to compile them with.
pub(crate) struct Guest {
    pub(crate) name: String,
    pub(crate) sources: Vec<PathBuf>,
    pub(crate) defines: Vec<String>,
}

impl Guest {
    /// Whether one of its sources includes the header for the export `lifecycle`.
    fn has_lifecycle(&self) -> Result<bool> {
        for source in &self.sources {
            let text =
                fs::read_to_string(source).with_context(|| format!("cannot read {}", source.display()))?;
            if text.lines().any(|line| line == LIFECYCLE_HEADER) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Builds guests into a folder.
pub(crate) fn build(guests: &[Guest], out: &Path) -> Result<()> {
    if guests.is_empty() {
        return Ok(());
    }
    let compiler = Compiler::find()?;
    let names: Vec<&str> = guests.iter().map(|guest| guest.name.as_str()).collect();
    let what = if names.len() > 3 { format!("{} guests", names.len()) } else { names.join(", ") };
    output::step(&format!("compiling {what} (C)"), || {
        let sdk = compiler.sdk()?;
        guests.iter().try_for_each(|guest| compiler.guest(guest, &sdk, out))
    })
}

/// What every guest is linked with.
const SDK: (&str, &[&str]) =
    ("plugin_component_type.o", &["plugin.c", "hark.c", "hark_json.c", "freestanding/runtime.c"]);

/// What a guest is linked with beside that if it includes [`LIFECYCLE_HEADER`].
const LIFECYCLE: (&str, &[&str]) = ("lifecycle_component_type.o", &["lifecycle.c", "hark_lifecycle.c"]);
const LIFECYCLE_HEADER: &str = "#include \"hark_lifecycle.h\"";

/// The SDK's objects.
struct Sdk {
    all: Vec<PathBuf>,
    lifecycle: Vec<PathBuf>,
}

struct Compiler {
    clang: PathBuf,
    linker: PathBuf,
    /// Objects and unpublished modules; this process's own.
    scratch: Scratch,
}

impl Compiler {
    fn find() -> Result<Self> {
        let programs = || Some((clang()?, tools::llvm_program("wasm-ld")?));
        let packages: &[&[&str]] = &[&["clang", "lld"], &["clang-22", "lld-22"]];
        let found = programs().or_else(|| tools::apt_install(packages).then(programs).flatten());
        let Some((clang, linker)) = found else { bail!(ADVICE) };
        Ok(Self { clang, linker, scratch: Scratch::new()? })
    }

    /// Compiles what guests are linked with, once.
    fn sdk(&self) -> Result<Sdk> {
        Ok(Sdk { all: self.objects(SDK)?, lifecycle: self.objects(LIFECYCLE)? })
    }

    fn objects(&self, (world, sources): (&str, &[&str])) -> Result<Vec<PathBuf>> {
        let folder = sdk_folder();
        let mut objects = vec![folder.join(world)];
        for source in sources {
            let object = self.scratch.0.join(source.replace('/', "-")).with_extension("o");
            let mut command = self.compile(&[]);
            tools::capture(command.arg("-c").arg(folder.join(source)).arg("-o").arg(&object))?;
            objects.push(object);
        }
        Ok(objects)
    }

    fn guest(&self, guest: &Guest, sdk: &Sdk, out: &Path) -> Result<()> {
        let module = self.scratch.0.join(&guest.name).with_extension("wasm");
        let mut command = self.compile(&guest.defines);
        command.args(LINK).arg(format!("-fuse-ld={}", self.linker.display()));
        command.args(&guest.sources).args(&sdk.all);
        if guest.has_lifecycle()? {
            command.args(&sdk.lifecycle);
        }
        tools::capture(command.arg("-o").arg(&module))?;
        let content = fs::read(&module).with_context(|| format!("cannot read {}", module.display()))?;
        output::publish(&out.join(&guest.name).with_extension("wasm"), &content)
    }

    fn compile(&self, defines: &[String]) -> Command {
        let mut command = Command::new(&self.clang);
        command.args(COMPILE).args(defines.iter().map(|define| format!("-D{define}")));
        for folder in ["guest-sdk/c", "guest-sdk/c/freestanding"] {
            command.arg("-I").arg(output::root().join(folder));
        }
        command
    }
}

/// The newest clang that has a wasm32 backend.
fn clang() -> Option<PathBuf> {
    let clang = tools::llvm_program("clang")?;
    let targets = tools::capture(Command::new(&clang).arg("--print-targets")).ok()?;
    targets.contains("wasm32").then_some(clang)
}

pub(crate) fn sdk_folder() -> PathBuf {
    output::root().join("guest-sdk/c")
}

/// A folder that goes when its owner does.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let folder = output::target().join("guests-build").join(std::process::id().to_string());
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left behind, it only takes room below target/.
        let _ = fs::remove_dir_all(&self.0);
    }
}
