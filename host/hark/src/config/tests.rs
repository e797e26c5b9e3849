//! Tables: what a file means, and what is wrong with one.

use std::num::NonZeroU32;
use std::time::Duration;

use hark_informer::listener::OnSwap;
use hark_sandbox::{Compile, Limits, Proposal};

use super::*;
use crate::artefacts::CacheFolder;

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
    assert_eq!((other.limits.deadline, other.compile), (Some(Duration::from_secs(2)), Some(Compile::Fast)));
}

#[test]
fn quarantine_can_be_switched_off_for_all_and_on_for_one() {
    let config =
        parse("[defaults.limits]\nquarantine_after = \"off\"\n[plugins.a.limits]\nquarantine_after = 7\n")
            .expect("valid");
    assert_eq!((config.plugin("a").quarantine_after, config.plugin("b").quarantine_after), (Some(7), None));
    assert_eq!(Config::default().plugin("a").quarantine_after, Some(5));
    for wrong in ["1", "\"never\"", "true"] {
        let error = parse(&format!("[defaults.limits]\nquarantine_after = {wrong}")).expect_err("invalid");
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
