//! Targets `config` and `units`: files that are nearly a configuration.
//!
//! The first makes a file of keys and values of which it knows whether each is right: the errors must name exactly
//! the keys of those that are wrong. The second damages a right file's text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use hark_fuzz::{Bytes, Target, odd_text};
use proptest::prelude::*;
use toml::{Table, Value};

use super::load::MAX_SIZE;
use super::{Config, ConfigError, units};
use crate::dev::Pattern;
use crate::telemetry::LogFilter;

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Address,
    /// Any text but none, and no zero in it.
    Path,
    /// As the log takes it: asked of the log, whose grammar has its own tests.
    Filter,
    Truth,
    OneOf(&'static [&'static str]),
    Count(i64, i64),
    Bytes(u128, u128),
    Millis(u128, u128),
    Settings,
    /// What is no blank text, and has no zero in it.
    Command,
    /// Some paths.
    Paths,
    /// Any number of patterns, as `.gitignore` has them: asked of the type, which has its own tests.
    Patterns,
    /// A command, or a table for each.
    Builds,
    /// The word `off`, or what another takes.
    OrOff(&'static Takes),
    /// Nothing: there is no such key.
    Unknown,
}

const HOST: &[(&str, Takes)] = &[
    ("plugins", Takes::Path),
    ("admin", Takes::Address),
    ("state_dir", Takes::Path),
    ("cache_dir", Takes::OrOff(&Takes::Path)),
    ("cache_size", Takes::Bytes(1 << 20, 1 << 40)),
    ("compile_timeout", Takes::Millis(10, 3_600_000)),
    ("log", Takes::Filter),
    ("wasm_stack", Takes::Bytes(64 << 10, 64 << 20)),
    ("core_dumps", Takes::OrOff(&Takes::Path)),
    ("strip_managed_fields", Takes::Truth),
    ("watch", Takes::OneOf(&["auto", "events", "poll"])),
    ("poll_interval", Takes::Millis(10, 3_600_000)),
    ("colour", Takes::Unknown),
];
const DEV: &[(&str, Takes)] = &[
    ("build", Takes::Builds),
    ("in", Takes::Path),
    ("sources", Takes::Paths),
    ("ignore", Takes::Patterns),
    ("run", Takes::Unknown),
];
/// Of `[[dev.build]]`.
const BUILD: &[(&str, Takes)] =
    &[("run", Takes::Command), ("in", Takes::Path), ("sources", Takes::Paths), ("ignore", Takes::Patterns)];
const PLUGIN: &[(&str, Takes)] = &[
    ("on_reload", Takes::OneOf(&["replay", "continue"])),
    ("on_restart", Takes::OneOf(&["replay", "continue"])),
    ("delivery", Takes::OneOf(&["all", "latest"])),
    ("concurrency", Takes::Count(1, 64)),
    ("rollback", Takes::Truth),
    ("rollback_after", Takes::Count(1, 100)),
    ("compile", Takes::OneOf(&["fast", "optimized"])),
    ("settings", Takes::Settings),
    ("on-reload", Takes::Unknown),
];
const LIMITS: &[(&str, Takes)] = &[
    ("memory", Takes::Bytes(1 << 16, 4 << 30)),
    ("tables", Takes::Count(1, 100_000_000)),
    ("instances", Takes::Count(1, 100_000)),
    ("handles", Takes::Count(1, 1_000_000)),
    ("call_bytes", Takes::Bytes(1 << 10, 1 << 30)),
    ("describe", Takes::Bytes(1 << 10, 1 << 30)),
    ("state", Takes::Bytes(1 << 10, 1 << 30)),
    ("page", Takes::Bytes(1 << 10, 1 << 30)),
    ("deadline", Takes::OrOff(&Takes::Millis(10, 600_000))),
    ("host_call", Takes::Millis(10, 3_600_000)),
    ("budget", Takes::Millis(10, 3_600_000)),
    ("object", Takes::Bytes(1 << 10, 1 << 30)),
    ("queue", Takes::Count(1, 100_000_000)),
    ("max_attempts", Takes::Count(1, 1_000_000)),
    ("log_lines", Takes::Count(1, 1_000_000)),
    ("log_line", Takes::Bytes(64, 1 << 20)),
    ("recycle_events", Takes::OrOff(&Takes::Count(1, i64::MAX))),
    ("recycle_memory", Takes::OrOff(&Takes::Bytes(1 << 16, 4 << 30))),
    ("speed", Takes::Unknown),
];

/// Names of plugins: any text is one, in quotes.
const NAMES: [&str; 4] = ["pod-audit", "a", "with space", "ünï"];

/// Keys of a file, with their values.
type Keys = BTreeMap<Vec<String>, Value>;

fn place() -> impl Strategy<Value = (Vec<String>, Takes)> {
    let host =
        prop::sample::select(HOST).prop_map(|(key, takes)| (vec!["host".to_owned(), key.to_owned()], takes));
    let of_plugin = prop_oneof![
        prop::sample::select(PLUGIN).prop_map(|(key, takes)| (vec![key.to_owned()], takes)),
        prop::sample::select(LIMITS)
            .prop_map(|(key, takes)| (vec!["limits".to_owned(), key.to_owned()], takes)),
    ];
    let table = prop_oneof![
        Just(vec!["defaults".to_owned()]),
        prop::sample::select(NAMES.to_vec()).prop_map(|name| vec!["plugins".to_owned(), name.to_owned()]),
    ];
    let plugin = (table, of_plugin).prop_map(|(table, (key, takes))| {
        // The defaults have no settings.
        let takes = if table[0] == "defaults" && takes == Takes::Settings { Takes::Unknown } else { takes };
        ([table, key].concat(), takes)
    });
    let dev =
        prop::sample::select(DEV).prop_map(|(key, takes)| (vec!["dev".to_owned(), key.to_owned()], takes));
    prop_oneof![1 => host, 1 => dev, 4 => plugin]
}

/// A number with a unit, or nearly.
fn quantity() -> impl Strategy<Value = String> {
    let numbers =
        vec!["0", "1", "9", "10", "64", "250", "600", "1000", "65536", "4294967296", "18446744073709551615"];
    let odd = vec!["", "-1", "1.5", "1e3", "99999999999999999999", "+1", "0x10", "1_000", "٣", "00"];
    let units =
        vec!["B", "kB", "MB", "GB", "KiB", "MiB", "GiB", "ms", "s", "m", "h", "", "mib", "TiB", "d", "µs"];
    let spaces = vec!["", "", "", " ", "  ", "\t", "\u{2003}", "\u{200b}"];
    let number = prop_oneof![6 => prop::sample::select(numbers), 1 => prop::sample::select(odd)];
    let text = (prop::sample::select(spaces), number, prop::sample::select(units));
    prop_oneof![9 => text.prop_map(|(space, number, unit)| format!("{number}{space}{unit}")), 1 => odd_text(4)]
}

fn value() -> impl Strategy<Value = Value> {
    let words = vec![
        "replay",
        "continue",
        "all",
        "latest",
        "off",
        "127.0.0.1:9464",
        "[::1]:80",
        "localhost:1",
        "info",
    ];
    let number = prop_oneof![-1_i64..70, Just(i64::MAX), Just(i64::MIN), Just(1_000_000), Just(100_000_001)];
    let leaf = prop_oneof![
        3 => prop::sample::select(words).prop_map(|word| Value::String(word.to_owned())),
        4 => quantity().prop_map(Value::String),
        1 => odd_text(6).prop_map(Value::String),
        3 => number.prop_map(Value::Integer),
        1 => prop::sample::select(vec![0.5, f64::NAN, f64::INFINITY, 1e300]).prop_map(Value::Float),
        1 => any::<bool>().prop_map(Value::Boolean),
        1 => Just(Value::Datetime("1979-05-27".parse().expect("a date"))),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        let table = prop::collection::btree_map(
            prop::sample::select(vec!["x", "y", "memory", "ünï", "run", "in", "sources"]),
            inner.clone(),
            0..3,
        );
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Value::Array),
            table.prop_map(|table| Value::Table(
                table.into_iter().map(|(key, one)| (key.to_owned(), one)).collect()
            )),
        ]
    })
}

/// Whether a key may have a value; wrong settings are named by their own paths below it.
fn is_right(takes: Takes, value: &Value, path: &str, wrong: &mut BTreeSet<String>) -> bool {
    match (takes, value) {
        (Takes::Truth, Value::Boolean(_)) => true,
        (Takes::Filter, Value::String(text)) => text.parse::<LogFilter>().is_ok(),
        (Takes::OrOff(_), Value::String(text)) if text == "off" => true,
        (Takes::OrOff(takes), value) => is_right(*takes, value, path, wrong),
        (Takes::Path, Value::String(text)) => !text.is_empty() && !text.contains('\0'),
        (Takes::Address, Value::String(text)) => {
            text == "off" || text.parse::<std::net::SocketAddr>().is_ok()
        }
        (Takes::OneOf(words), Value::String(text)) => words.contains(&text.as_str()),
        (Takes::Count(min, max), Value::Integer(number)) => (min..=max).contains(number),
        (Takes::Bytes(min, max), Value::String(text)) => {
            bytes(text).is_some_and(|size| (min..=max).contains(&size))
        }
        (Takes::Millis(min, max), Value::String(text)) => {
            millis(text).is_some_and(|time| (min..=max).contains(&time))
        }
        (Takes::Command, Value::String(text)) => !text.trim().is_empty() && !text.contains('\0'),
        (Takes::Builds, Value::String(_)) => is_right(Takes::Command, value, path, wrong),
        (Takes::Paths, Value::Array(items)) => {
            wrong_items(Takes::Path, items, path, wrong);
            !items.is_empty()
        }
        (Takes::Patterns, Value::Array(items)) => {
            let is_pattern = |item: &Value| item.as_str().is_some_and(|text| text.parse::<Pattern>().is_ok());
            let places = items.iter().enumerate().filter(|(_, item)| !is_pattern(item));
            wrong.extend(places.map(|(place, _)| format!("{path}[{place}]")));
            true
        }
        (Takes::Builds, Value::Array(items)) => {
            for (place, item) in items.iter().enumerate() {
                wrong_build(item, &format!("{path}[{place}]"), wrong);
            }
            !items.is_empty()
        }
        (Takes::Settings, Value::Table(table)) => {
            table
                .iter()
                .for_each(|(key, value)| wrong_settings(value, &format!("{path}.{}", segment(key)), wrong));
            true
        }
        _ => false,
    }
}

fn wrong_items(takes: Takes, items: &[Value], path: &str, wrong: &mut BTreeSet<String>) {
    for (place, item) in items.iter().enumerate() {
        let path = format!("{path}[{place}]");
        if !is_right(takes, item, &path, wrong) {
            wrong.insert(path);
        }
    }
}

fn wrong_build(build: &Value, path: &str, wrong: &mut BTreeSet<String>) {
    let Value::Table(table) = build else {
        wrong.insert(path.to_owned());
        return;
    };
    if !table.contains_key("run") {
        wrong.insert(format!("{path}.run"));
    }
    for (key, value) in table {
        let path = format!("{path}.{}", segment(key));
        let takes = BUILD.iter().find(|(known, _)| known == key).map_or(Takes::Unknown, |(_, takes)| *takes);
        if !is_right(takes, value, &path, wrong) {
            wrong.insert(path);
        }
    }
}

/// Quoted where TOML would quote it.
fn segment(key: &str) -> String {
    let bare = key.chars().all(|char| char.is_ascii_alphanumeric() || char == '-' || char == '_');
    if bare && !key.is_empty() { key.to_owned() } else { format!("{key:?}") }
}

fn wrong_settings(value: &Value, path: &str, wrong: &mut BTreeSet<String>) {
    match value {
        Value::Datetime(_) => drop(wrong.insert(path.to_owned())),
        Value::Float(number) if !number.is_finite() => drop(wrong.insert(path.to_owned())),
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                wrong_settings(item, &format!("{path}[{place}]"), wrong);
            }
        }
        Value::Table(table) => table
            .iter()
            .for_each(|(key, one)| wrong_settings(one, &format!("{path}.{}", segment(key)), wrong)),
        _ => {}
    }
}

/// The model of sizes: digits, spaces, unit.
fn bytes(text: &str) -> Option<u128> {
    let factors = [
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("B", 1),
    ];
    scaled(text, &factors)
}

/// The model of durations, in milliseconds.
fn millis(text: &str) -> Option<u128> {
    scaled(text, &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)])
}

/// Whole numbers of 64 bits, times a factor, still within 64 bits.
fn scaled(text: &str, factors: &[(&str, u128)]) -> Option<u128> {
    let read = |(unit, factor): &(&str, u128)| {
        let number = text.strip_suffix(unit)?.trim_end();
        let digits = !number.is_empty() && number.chars().all(|char| char.is_ascii_digit());
        let number = if digits { number.parse::<u128>().ok()? } else { return None };
        let most = u128::from(u64::MAX);
        (number <= most && number * factor <= most).then_some(number * factor)
    };
    factors.iter().find_map(read)
}

#[test]
fn fuzz_units() {
    let target = Target { name: "units", cases: 5000, within: Duration::from_millis(100) };
    hark_fuzz::values(target, quantity, |text| {
        prop_assert_eq!(units::bytes(text).map(|size| size as u128), bytes(text));
        prop_assert_eq!(units::duration(text).map(|time| time.as_millis()), millis(text));
        Ok(())
    });
}

fn file() -> impl Strategy<Value = (Keys, BTreeMap<Vec<String>, Takes>)> {
    prop::collection::vec((place(), value()), 0..8).prop_map(|all| {
        let takes = all.iter().map(|((path, takes), _)| (path.clone(), *takes)).collect();
        (all.into_iter().map(|((path, _), value)| (path, value)).collect(), takes)
    })
}

/// The file's text, as the library writes it.
fn written(keys: &Keys) -> String {
    let mut root = Table::new();
    for (path, value) in keys {
        let Some((key, tables)) = path.split_last() else { continue };
        let mut table = &mut root;
        for name in tables {
            let inner = table.entry(name.clone()).or_insert_with(|| Value::Table(Table::new()));
            table = inner.as_table_mut().expect("only values are no tables");
        }
        table.insert(key.clone(), value.clone());
    }
    toml::to_string(&root).expect("TOML")
}

fn parsed(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("hark.toml"))
}

#[test]
fn fuzz_config() {
    let target = Target { name: "config", cases: 1500, within: Duration::from_millis(500) };
    hark_fuzz::values(target, file, |(keys, takes)| {
        let mut wrong = BTreeSet::new();
        for (path, value) in keys {
            let shown = path.iter().map(|key| segment(key)).collect::<Vec<_>>().join(".");
            if !is_right(takes[path], value, &shown, &mut wrong) {
                wrong.insert(shown);
            }
        }
        let named = match parsed(&written(keys)) {
            Ok(config) => {
                prop_assert_eq!(&config, &parsed(&written(keys)).expect("the same"));
                BTreeSet::new()
            }
            Err(ConfigError::Invalid { errors, .. }) => {
                prop_assert_eq!(errors.len(), wrong.len(), "one for each: {:?}", errors);
                let named = |error: &String| error.split_once(": ").map(|(path, _)| path.to_owned());
                prop_assert!(errors.iter().all(|error| !error.contains(char::is_control)), "{errors:?}");
                errors.iter().filter_map(named).collect()
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        prop_assert_eq!(named, wrong);
        Ok(())
    });
}

const WHOLE: &str = r#"
[host]
plugins = "plugins"
admin = "127.0.0.1:9464"
[defaults]
on_reload = "continue"
limits = { memory = "32MiB", deadline = "2s", queue = 10 }
[plugins.pod-audit]
settings = { channel = "ops", kinds = ["v1/Pod", 1, 2.5, true], deep = { a = { b = [[[]]] } } }
limits.deadline = "250ms"
"#;

/// A right file after some changes, or what nests, repeats or goes on for ever.
fn damaged() -> impl Strategy<Value = Bytes> {
    let edits = prop::collection::vec(hark_fuzz::edit(), 1..5)
        .prop_map(|edits| edits.iter().fold(WHOLE.as_bytes().to_vec(), hark_fuzz::edited));
    let pieces = vec![
        "[",
        "[[",
        "{ a = ",
        "a.",
        "[plugins.a]\n",
        "x = 1\n",
        "limits = {",
        "\"\"\"",
        "'''",
        "\\u{110000}",
        "= ",
        "# c\n",
        "\n",
        "[a.b]\n",
        "99999999999999999999",
        "1979-05-27T00:00:00Z",
        "\u{feff}",
        "[plugins.",
        "memory = \"1",
        "\"\\u001b[2J\\n\" = 1\n",
        "\"\" = 1\n",
        "]\n",
        "}",
    ];
    let times = prop_oneof![6 => Just(1), 2 => 2_usize..100, 1 => 1000_usize..30_000];
    let piece = (prop::sample::select(pieces), times).prop_map(|(piece, times)| piece.repeat(times));
    let made = prop::collection::vec(piece, 1..8).prop_map(|pieces| pieces.concat().into_bytes());
    let lines = vec![
        "x = 1\n",
        "\"\\u001b[2J\\n\" = 1\n",
        "\"\" = 1\n",
        "[plugins.\"\\n\"]\n",
        "[plugins.\"\\n\".limits]\n",
        "memory = \"1\\tB\"\n",
        "[host.\"\\u202e\"]\n",
        "[plugins.b.settings.\"\\u0007\"]\n",
        "x.\"\\n\".y = 2020-01-01\n",
        "on_reload = \"\\u0000\"\n",
    ];
    let added = prop::collection::vec(prop::sample::select(lines), 1..4)
        .prop_map(|lines| format!("{WHOLE}{}", lines.concat()).into_bytes());
    prop_oneof![2 => edits, 1 => made, 1 => added].prop_map(Bytes)
}

#[test]
fn fuzz_config_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target { name: "config_text", cases: 600, within: Duration::from_secs(2) };
    hark_fuzz::files(target, damaged, |content| {
        let path = folder.path().join(format!("{:?}.toml", std::thread::current().id()));
        std::fs::write(&path, content).expect("written");
        match (Config::load(&path), std::str::from_utf8(content)) {
            (Ok(config), Ok(text)) => {
                prop_assert!(text.contains(['#', '=', '[']), "it says something");
                prop_assert_eq!(Some(config), parsed(text).ok());
            }
            (Err(ConfigError::Empty { .. }), Ok(text)) => {
                prop_assert!(text.trim_matches('\u{feff}').trim().is_empty(), "{text:?}")
            }
            (Err(ConfigError::Read { .. }), text) => {
                prop_assert!(text.is_err(), "only what is no text cannot be read")
            }
            (Err(ConfigError::TooLarge { size, .. }), _) => prop_assert!(size > MAX_SIZE),
            (Err(error @ ConfigError::Syntax { .. }), Ok(_)) => {
                prop_assert!(error.to_string().contains("TOML"))
            }
            (Err(ConfigError::Invalid { errors, .. }), Ok(_)) => {
                let is_line = |error: &String| error.contains(": ") && !error.contains(char::is_control);
                prop_assert!(!errors.is_empty() && errors.iter().all(is_line), "{errors:?}");
            }
            (other, text) => prop_assert!(false, "{other:?} of {text:?}"),
        }
        Ok(())
    });
}
