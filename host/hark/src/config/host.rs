//! `[host]`: what holds for the whole host, and needs a restart to act.
//!
//! Read with the rest of the file, used by the composition root. Invariant: no difference is passed over.

use std::path::PathBuf;
use std::time::Duration;

use hark_sandbox::RunOptions;

use super::reader::Reader;
use crate::admin::AdminAddress;
use crate::artefacts::CacheFolder;
use crate::folder::WatchMode;
use crate::telemetry::LogFilter;

/// See the file's head.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HostConfig {
    /// `plugins`: the folder, relative to the file's own folder.
    pub(crate) plugins: Option<PathBuf>,
    /// `admin`: where the admin port is, or `off`.
    pub(crate) admin: Option<AdminAddress>,
    /// `state_dir`: where dead letters are kept, relative to the file's own folder.
    pub(crate) state_dir: Option<PathBuf>,
    /// `cache_dir`: where artefacts are kept, relative to the file's own folder, or `off`.
    pub(crate) cache_dir: Option<CacheFolder>,
    /// `cache_size`: bytes of artefacts that are kept.
    pub(crate) cache_size: Option<usize>,
    /// `compile_timeout`: how long a process may compile.
    pub(crate) compile_timeout: Option<Duration>,
    /// `log`: a filter as `RUST_LOG` takes it.
    pub(crate) log: Option<LogFilter>,
    /// `strip_managed_fields`.
    pub(crate) strip_managed_fields: Option<bool>,
    /// `wasm_stack`: bytes of stack of guest code.
    pub(crate) wasm_stack: Option<usize>,
    /// `core_dumps`: where they are kept, relative to the file's own folder; none: nowhere.
    pub(crate) core_dumps: Option<PathBuf>,
    /// `watch`: how changes of files come to be known.
    pub(crate) watch: Option<WatchMode>,
    /// `poll_interval`: how often files are looked at although nothing was told of them.
    pub(crate) poll_interval: Option<Duration>,
}

impl HostConfig {
    /// Reads `[host]`.
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            plugins: reader.path("plugins"),
            admin: reader.parsed("admin"),
            state_dir: reader.path("state_dir"),
            cache_dir: reader
                .unless_off("cache_dir", |reader| reader.path("cache_dir"))
                .map(|folder| folder.map_or(CacheFolder::Off, CacheFolder::At)),
            cache_size: reader.bytes("cache_size", 1 << 20, 1 << 40),
            compile_timeout: reader.duration(
                "compile_timeout",
                Duration::from_millis(10),
                Duration::from_secs(3600),
            ),
            log: reader.parsed("log"),
            strip_managed_fields: reader.boolean("strip_managed_fields"),
            wasm_stack: reader.bytes("wasm_stack", 64 << 10, 64 << 20),
            core_dumps: reader.unless_off("core_dumps", |reader| reader.path("core_dumps")).flatten(),
            watch: reader.choice(
                "watch",
                &[("auto", WatchMode::Auto), ("events", WatchMode::Events), ("poll", WatchMode::Poll)],
            ),
            poll_interval: reader.duration(
                "poll_interval",
                Duration::from_millis(10),
                Duration::from_secs(3600),
            ),
        }
    }

    /// The keys that `other` has otherwise.
    pub(crate) fn differing(&self, other: &Self) -> Vec<&'static str> {
        // Taken apart, so that no key that is still to come is forgotten.
        let Self {
            plugins,
            admin,
            state_dir,
            cache_dir,
            cache_size,
            compile_timeout,
            log,
            strip_managed_fields,
            wasm_stack,
            core_dumps,
            watch,
            poll_interval,
        } = self;
        let keys = [
            ("host.plugins", *plugins != other.plugins),
            ("host.admin", *admin != other.admin),
            ("host.state_dir", *state_dir != other.state_dir),
            ("host.cache_dir", *cache_dir != other.cache_dir),
            ("host.cache_size", *cache_size != other.cache_size),
            ("host.compile_timeout", *compile_timeout != other.compile_timeout),
            ("host.log", *log != other.log),
            ("host.strip_managed_fields", *strip_managed_fields != other.strip_managed_fields),
            ("host.wasm_stack", *wasm_stack != other.wasm_stack),
            ("host.core_dumps", *core_dumps != other.core_dumps),
            ("host.watch", *watch != other.watch),
            ("host.poll_interval", *poll_interval != other.poll_interval),
        ];
        keys.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }

    /// How the Wasm engine runs plugins.
    pub(crate) fn run(&self) -> RunOptions {
        let usual = RunOptions::default();
        RunOptions {
            wasm_stack: self.wasm_stack.unwrap_or(usual.wasm_stack),
            core_dumps: self.core_dumps.is_some(),
        }
    }
}
