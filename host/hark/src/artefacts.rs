//! How this host compiles: where artefacts are kept, and the process that large plugins are compiled in.
//!
//! Used by the composition root. Invariant: a cache that cannot be had is said once, with the cure, and stops nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hark_sandbox::{ArtefactCache, Compile, CompilerProcess, EngineOptions, LARGE_PLUGIN_BYTES, Priority};

use crate::host::ConfigFile;

/// The hidden subcommand that compiles.
pub(crate) const SUBCOMMAND: &str = "compile-artefact";

/// Bytes kept unless the configuration says otherwise: some fifteen Python plugins with their functions, or thousands in Rust.
const CACHE_SIZE: usize = 1 << 30;

/// Several times what the largest plugins take on one core that is used by others too.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(300);

/// This very program, also after another build was put in its place.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";

/// `host.cache_dir`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CacheFolder {
    /// `off`: nothing is kept.
    Off,
    At(PathBuf),
}

/// What the engine may use, as the configuration says.
pub(crate) fn engine_options(config: &ConfigFile, priority: Priority) -> EngineOptions {
    let host = &config.current().host;
    let process = CompilerProcess {
        program: PathBuf::from(THIS_PROGRAM),
        arguments: vec![SUBCOMMAND.into()],
        smallest: LARGE_PLUGIN_BYTES,
        timeout: host.compile_timeout.unwrap_or(COMPILE_TIMEOUT),
    };
    let bound = host.cache_size.unwrap_or(CACHE_SIZE) as u64;
    EngineOptions {
        cache: folder_or_warning(config).and_then(|folder| open(&folder, bound)),
        process: Some(process),
        priority,
        run: host.run(),
    }
}

/// Where artefacts are kept; said if that is nowhere although nobody wanted that.
fn folder_or_warning(config: &ConfigFile) -> Option<PathBuf> {
    let folder = cache_folder(config);
    if folder.is_none() && config.current().host.cache_dir != Some(CacheFolder::Off) {
        tracing::warn!(
            "plugins are compiled at each start, since there is no folder to keep artefacts in: set \
             host.cache_dir in hark.toml (\"off\": none is wanted), or $XDG_CACHE_HOME or $HOME"
        );
    }
    folder
}

/// The file's (relative to the file), else the user's; none if it is off, or there is no home.
pub(crate) fn cache_folder(config: &ConfigFile) -> Option<PathBuf> {
    let base = config.base();
    match &config.current().host.cache_dir {
        Some(CacheFolder::Off) => None,
        Some(CacheFolder::At(folder)) => Some(base.join(folder)),
        None => default_folder(),
    }
}

/// `$XDG_CACHE_HOME/hark/artefacts`, else `~/.cache/hark/artefacts`; none without a home.
fn default_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("hark/artefacts"))
}

fn open(folder: &Path, bound: u64) -> Option<ArtefactCache> {
    let cache = ArtefactCache::open(folder, bound);
    cache.inspect_err(|error| tracing::warn!("plugins are compiled at each start: {error}")).ok()
}

/// The hidden subcommand's argument.
pub(crate) fn mode(text: &str) -> Result<Compile, String> {
    let found = Compile::ALL.into_iter().find(|mode| mode.as_str() == text);
    found.ok_or_else(|| format!("no way of compiling: {text}"))
}
