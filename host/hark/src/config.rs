//! `hark.toml`: the operator's one file, read whole, with every error at once.
//!
//! Used by the composition root at start and by the reloader whenever the file changes. Invariant: a [`Config`]
//! is valid as a whole: a file with any error gives none, and unknown keys are errors, since a misspelt limit
//! would otherwise silently not be one.

mod dev;
mod differences;
#[cfg(test)]
mod fuzz;
mod limits;
mod reader;
mod units;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hark_informer::listener::{OnRestart, OnSwap};
use hark_informer::queue::Merge;
use hark_sandbox::{Compile, Limits, Proposal, RunOptions, Settings};

pub(crate) use dev::{Build, DevConfig};
use limits::LimitsTable;
use reader::Reader;

use crate::admin::AdminAddress;
use crate::artefacts::CacheFolder;
use crate::folder::WatchMode;
use crate::telemetry::LogFilter;

/// `rollback_after` if nothing is said of it: attempts that all have to break a new version.
const ROLLBACK_AFTER: NonZeroU32 = NonZeroU32::new(3).unwrap();

/// Bytes of the largest file that is read: a thousand times what one has.
const MAX_SIZE: u64 = 1 << 20;

/// The file's contents, checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Config {
    /// `[host]`.
    pub(crate) host: HostConfig,
    /// `[dev]`: for `hark dev` alone.
    pub(crate) dev: DevConfig,
    defaults: Overrides,
    plugins: BTreeMap<String, PluginTable>,
}

/// `[host]`: needs a restart to act.
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

/// What `[defaults]` and `[plugins.NAME]` may both say.
#[derive(Debug, Clone, Default, PartialEq)]
struct Overrides {
    on_reload: Option<OnSwap>,
    on_restart: Option<OnRestart>,
    delivery: Option<Merge>,
    concurrency: Option<usize>,
    compile: Option<Compile>,
    rollback: Option<bool>,
    rollback_after: Option<NonZeroU32>,
    limits: LimitsTable,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct PluginTable {
    overrides: Overrides,
    settings: serde_json::Map<String, serde_json::Value>,
}

/// Everything the operator says about one plugin, resolved.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PluginConfig {
    /// `settings`, as the guest reads them.
    pub(crate) settings: Settings,
    /// `on_reload`, `on_restart`, `delivery`, `concurrency`: what the operator says of them. What they do not say,
    /// the plugin may propose.
    pub(crate) treatment: Proposal,
    /// `compile`; none: as is usual for the command.
    pub(crate) compile: Option<Compile>,
    /// `rollback`, and `rollback_after`: attempts that, if all of them break a new version, bring the one before back;
    /// none: it is off.
    pub(crate) rollback: Option<NonZeroU32>,
    /// `limits`, the sandbox's share.
    pub(crate) limits: Limits,
    /// `limits.queue`: events that wait before they are merged.
    pub(crate) queue: usize,
    /// `limits.max_attempts`.
    pub(crate) max_attempts: u32,
    /// `limits.quarantine_after`; none: off.
    pub(crate) quarantine_after: Option<usize>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is a folder, a pipe or a device.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// It is larger than any configuration is.
    #[error("{} has {size} bytes; a configuration has at most {MAX_SIZE}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// There is nothing in it. Valid, but seldom meant: a full disk, or a save that is broken off, leaves such a file.
    #[error("{} is empty, which is seldom meant: to have the defaults, write a comment into it (`# defaults`)", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is not TOML.
    #[error("{} is not valid TOML: {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// The file says things that it may not: one line each, with the key's path.
    #[error("{} has {} error{}:\n  {}", path.display(), errors.len(), if errors.len() == 1 { "" } else { "s" }, errors.join("\n  "))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Each with its key.
        errors: Vec<String>,
    },
}

impl ConfigError {
    /// There is no such file.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }

    /// There is nothing in the file.
    pub(crate) fn is_emptiness(&self) -> bool {
        matches!(self, Self::Empty { .. })
    }
}

impl Config {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file and every key that is wrong. Whoever has nothing to lose may take an empty file for
    /// the defaults.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        let read = |source| ConfigError::Read { path: path.to_owned(), source };
        let metadata = std::fs::metadata(path).map_err(read)?;
        if !metadata.is_file() {
            return Err(ConfigError::NotAFile { path: path.to_owned() });
        }
        if metadata.len() > MAX_SIZE {
            return Err(ConfigError::TooLarge { path: path.to_owned(), size: metadata.len() });
        }
        let text = std::fs::read_to_string(path).map_err(read)?;
        if is_blank(&text) {
            return Err(ConfigError::Empty { path: path.to_owned() });
        }
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let table: toml::Table = toml::from_str(text)
            .map_err(|source| ConfigError::Syntax { path: path.to_owned(), source: Box::new(source) })?;
        let mut errors = Vec::new();
        let mut root = Reader::new(table, String::new(), &mut errors);
        let host = root.table("host", read_host).unwrap_or_default();
        let dev = root.table("dev", DevConfig::read).unwrap_or_default();
        let defaults = root.table("defaults", read_overrides).unwrap_or_default();
        let plugins = root.tables("plugins", read_plugin);
        root.finish();
        if errors.is_empty() {
            Ok(Self { host, dev, defaults, plugins })
        } else {
            Err(ConfigError::Invalid { path: path.to_owned(), errors })
        }
    }

    /// What holds for the plugin with this file stem.
    pub(crate) fn plugin(&self, stem: &str) -> PluginConfig {
        let own = self.plugins.get(stem).cloned().unwrap_or_default();
        let (first, then) = (&own.overrides, &self.defaults);
        let (queue, max_attempts) = first.limits.listener(&then.limits);
        PluginConfig {
            settings: Settings::new(own.settings),
            treatment: Proposal {
                on_reload: first.on_reload.or(then.on_reload),
                on_restart: first.on_restart.or(then.on_restart),
                delivery: first.delivery.or(then.delivery),
                concurrency: first.concurrency.or(then.concurrency),
            },
            compile: first.compile.or(then.compile),
            rollback: first
                .rollback
                .or(then.rollback)
                .unwrap_or(false)
                .then(|| first.rollback_after.or(then.rollback_after).unwrap_or(ROLLBACK_AFTER)),
            queue,
            max_attempts,
            quarantine_after: first.limits.quarantine_after(&then.limits),
            limits: first.limits.sandbox(&then.limits),
        }
    }

    /// The plugins that have a table of their own.
    pub(crate) fn plugin_names(&self) -> impl Iterator<Item = &String> {
        self.plugins.keys()
    }
}

/// White space alone, and the mark that some editors begin every file with.
fn is_blank(text: &str) -> bool {
    text.chars().all(|char| char.is_whitespace() || char == '\u{feff}')
}

fn read_host(reader: &mut Reader<'_>) -> HostConfig {
    HostConfig {
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
        poll_interval: reader.duration("poll_interval", Duration::from_millis(10), Duration::from_secs(3600)),
    }
}

fn read_overrides(reader: &mut Reader<'_>) -> Overrides {
    Overrides {
        limits: reader.table("limits", LimitsTable::read).unwrap_or_default(),
        on_reload: reader.choice("on_reload", &[("replay", OnSwap::Replay), ("continue", OnSwap::Continue)]),
        on_restart: reader
            .choice("on_restart", &[("replay", OnRestart::Replay), ("continue", OnRestart::Continue)]),
        delivery: reader.choice("delivery", &[("all", Merge::All), ("latest", Merge::Latest)]),
        compile: reader.choice("compile", &[("fast", Compile::Fast), ("optimized", Compile::Optimized)]),
        concurrency: reader.count("concurrency", 1, 64),
        rollback: reader.boolean("rollback"),
        rollback_after: reader.count("rollback_after", 1, 100).and_then(NonZeroU32::new),
    }
}

fn read_plugin(reader: &mut Reader<'_>) -> PluginTable {
    PluginTable { overrides: read_overrides(reader), settings: reader.json("settings") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("hark.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_that_says_nothing_gives_the_defaults() {
        assert_eq!(parse("# defaults\n").expect("valid"), Config::default());
        let plugin = Config::default().plugin("any");
        assert_eq!(plugin.limits, Limits::default());
        assert_eq!((plugin.queue, plugin.max_attempts), (10_000, 10));
        assert_eq!(plugin.treatment, Proposal::default(), "left to the plugin");
        assert_eq!(plugin.compile, None, "left to the command");
        assert_eq!(plugin.settings.json(), "{}");
    }

    #[test]
    fn a_plugins_own_table_comes_before_the_defaults() {
        let config = parse(
            r##"
            [defaults]
            on_reload = "continue"
            compile = "fast"
            limits = { memory = "32MiB", deadline = "2s" }
            [plugins.pod-audit]
            compile = "optimized"
            settings = { channel = "#ops", kinds = ["v1/Pod"] }
            limits = { deadline = "250ms" }
            "##,
        )
        .expect("valid");
        let plugin = config.plugin("pod-audit");
        assert_eq!(plugin.limits.deadline, Some(Duration::from_millis(250)));
        assert_eq!(plugin.limits.memory, 32 << 20);
        assert_eq!(plugin.treatment.on_reload, Some(OnSwap::Continue));
        assert_eq!(plugin.settings.get("channel").as_deref(), Some("#ops"));
        assert_eq!(plugin.settings.get("kinds").as_deref(), Some(r#"["v1/Pod"]"#));
        assert_eq!(plugin.compile, Some(Compile::Optimized));
        let other = config.plugin("other");
        assert_eq!(
            (other.limits.deadline, other.compile),
            (Some(Duration::from_secs(2)), Some(Compile::Fast))
        );
    }

    #[test]
    fn quarantine_can_be_switched_off_for_all_and_on_for_one() {
        let config = parse(
            "[defaults.limits]\nquarantine_after = \"off\"\n[plugins.a.limits]\nquarantine_after = 7\n",
        )
        .expect("valid");
        assert_eq!(
            (config.plugin("a").quarantine_after, config.plugin("b").quarantine_after),
            (Some(7), None)
        );
        assert_eq!(Config::default().plugin("a").quarantine_after, Some(5));
        for wrong in ["1", "\"never\"", "true"] {
            let error =
                parse(&format!("[defaults.limits]\nquarantine_after = {wrong}")).expect_err("invalid");
            assert!(error.contains("defaults.limits.quarantine_after: "), "{error}");
        }
    }

    #[test]
    fn rollback_is_off_unless_it_is_switched_on_for_all_or_for_one() {
        let after = |text: &str| parse(text).expect("valid").plugin("a").rollback.map(NonZeroU32::get);
        for (all, own, want) in [
            ("", "", None),
            ("rollback = true", "", Some(3)),
            ("rollback = true", "rollback = false", None),
            ("rollback = false", "rollback = true", Some(3)),
            ("rollback = true\nrollback_after = 7", "", Some(7)),
            ("rollback = true\nrollback_after = 7", "rollback_after = 1", Some(1)),
            ("rollback_after = 7", "rollback = true", Some(7)),
            ("rollback_after = 7", "", None),
        ] {
            assert_eq!(after(&format!("[defaults]\n{all}\n[plugins.a]\n{own}\n")), want, "{all:?} {own:?}");
        }
        for wrong in ["rollback = \"on\"", "rollback_after = 0", "rollback_after = 101"] {
            let error = parse(&format!("[defaults]\n{wrong}")).expect_err("invalid");
            assert!(
                error.contains(&format!("defaults.{}: ", &wrong[..wrong.find(' ').expect("a key")])),
                "{error}"
            );
        }
    }

    #[test]
    fn every_error_is_reported_with_its_key() {
        let error = parse(
            r#"
            colour = "red"
            [host]
            plugins = 7
            admin = "localhost"
            cache_dir = ""
            state_dir = ""
            core_dumps = ""
            log = "hark=bogus"
            compile_timeout = "1ms"
            [defaults]
            on_reload = "sometimes"
            compile = "quick"
            limits = { memory = "64 bananas", deadline = "1 fortnight", queue = 0, speed = 1 }
            [plugins.a]
            limits = 3
            settings = { when = 1979-05-27, all = [nan, { at = 07:32:00, "two\nlines" = inf }] }
            [plugins."a b"]
            limits = { object = "1\tB" }
            "#,
        )
        .expect_err("invalid");
        for want in [
            "hark.toml has 20 errors",
            "colour: unknown key",
            "host.plugins: expected a string, found an integer",
            "host.admin: expected an IP address with a port such as \"127.0.0.1:9464\", or \"off\", found \"localhost\"",
            "host.cache_dir: expected a path, found \"\"",
            "host.state_dir: expected a path, found \"\"",
            "host.core_dumps: expected a path, found \"\"",
            "host.log: log filter \"hark=bogus\": ",
            "host.compile_timeout: \"1ms\" is out of range (10ms to 3600s)",
            "defaults.compile: expected \"fast\" or \"optimized\", found \"quick\"",
            "defaults.on_reload: expected \"replay\" or \"continue\", found \"sometimes\"",
            "defaults.limits.memory: expected a size such as \"64MiB\"",
            "defaults.limits.deadline: expected a duration such as \"250ms\" or \"1s\"",
            "defaults.limits.queue: 0 is out of range",
            "defaults.limits.speed: unknown key",
            "plugins.a.limits: expected a table, found an integer",
            "plugins.a.settings.when: a date or time cannot be a setting: write it as a string",
            "plugins.a.settings.all[0]: NaN cannot be a setting",
            "plugins.a.settings.all[1].at: a date or time cannot be a setting",
            "plugins.a.settings.all[1].\"two\\nlines\": inf cannot be a setting",
            "plugins.\"a b\".limits.object: \"1\\tB\" is out of range (1024 to 1073741824 bytes)",
        ] {
            assert!(error.contains(want), "{want:?} is not in:\n{error}");
        }
    }

    #[test]
    fn a_host_that_runs_takes_no_value_that_it_would_not_start_with() {
        for key in ["plugins", "state_dir", "cache_dir", "core_dumps"] {
            for (wrong, shown) in [("", r#""""#), (r"a\u0000b", r#""a\0b""#)] {
                let error = parse(&format!("[host]\n{key} = \"{wrong}\"")).expect_err("invalid");
                let want = format!("hark.toml has 1 error:\n  host.{key}: expected a path, found {shown}");
                assert_eq!(error, want);
            }
        }
        for log in ["", "loud", "hark=loud", "hark=info,", "hark[=info"] {
            let error = parse(&format!("[host]\nlog = \"{log}\"")).expect_err("invalid");
            assert!(error.contains(&format!("host.log: log filter {log:?}: ")), "{error}");
        }
        let config = parse("[host]\nlog = \"warn,hark_informer=debug\"\ncache_dir = \"off\"").expect("valid");
        assert_eq!(config.host.log.expect("a filter").as_str(), "warn,hark_informer=debug");
        assert_eq!(config.host.cache_dir, Some(CacheFolder::Off));
    }

    #[test]
    fn each_key_of_the_host_that_changed_is_named() {
        let changes = [
            ("plugins", "\"p\""),
            ("admin", "\"off\""),
            ("state_dir", "\"s\""),
            ("cache_dir", "\"off\""),
            ("cache_size", "\"2MiB\""),
            ("compile_timeout", "\"1s\""),
            ("log", "\"warn\""),
            ("strip_managed_fields", "false"),
            ("wasm_stack", "\"1MiB\""),
            ("core_dumps", "\"c\""),
            ("watch", "\"poll\""),
            ("poll_interval", "\"10ms\""),
        ];
        for (key, value) in changes {
            let host = parse(&format!("[host]\n{key} = {value}")).expect("valid").host;
            assert_eq!(host.differing(&HostConfig::default()), [format!("host.{key}")]);
            assert_eq!(HostConfig::default().differing(&host), [format!("host.{key}")]);
            assert!(host.differing(&host).is_empty());
        }
        let all: Vec<String> = changes.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let host = parse(&format!("[host]\n{}", all.join("\n"))).expect("valid").host;
        assert_eq!(host.differing(&HostConfig::default()).len(), changes.len());
    }

    #[test]
    fn an_empty_file_is_told_from_one_that_says_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hark.toml");
        for (text, empty) in
            [("", true), (" \r\n\t\n", true), ("\u{feff}\n", true), ("#", false), ("[host]", false)]
        {
            std::fs::write(&path, text).expect("written");
            match Config::load(&path) {
                Ok(config) => assert!(!empty && config == Config::default(), "{text:?}"),
                Err(error) => {
                    assert!(empty && error.is_emptiness() && !error.is_absence(), "{text:?}: {error}")
                }
            }
        }
    }

    #[test]
    fn what_is_not_toml_is_said_with_its_place() {
        let error = parse("[host\nplugins = 1").expect_err("invalid");
        assert!(error.starts_with("hark.toml is not valid TOML: TOML parse error at line 1"), "{error}");
    }
}
