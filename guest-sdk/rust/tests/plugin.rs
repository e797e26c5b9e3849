//! What a plugin may rely on, through the public interface alone: the life of its value, settings, cache,
//! delivery, and how errors become failures.

use std::time::{Duration, SystemTime};

use hark_guest::log::Level;
use hark_guest::testing::{Host, Line};
use hark_guest::{
    Added, DeleteReason, Deleted, Described, Failure, OrFailure, Outcome, Plugin, Subscription,
};
use hark_guest::{cache, delivery, log, settings};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    greeting: String,
}

/// Counts adds in its memory, and lists the cache on deletes.
struct Probe {
    greeting: String,
    adds: u32,
}

#[derive(Deserialize)]
struct Named {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

impl Plugin for Probe {
    fn describe() -> Described {
        let _: Settings = settings::load()?;
        Ok(hark_guest::description!().watch(Subscription::new("things", "v1", "ConfigMap")))
    }

    fn start() -> Result<Self, Failure> {
        let Settings { greeting } = settings::load()?;
        Ok(Self { greeting, adds: 0 })
    }

    fn on_add(&mut self, event: Added) -> Outcome {
        self.adds += 1;
        let (adds, greeting) = (self.adds, &self.greeting);
        log::debug!("{greeting} {} {adds} #{}/{}", event.target(), delivery::sequence(), delivery::attempt());
        Ok(())
    }

    fn on_delete(&mut self, event: Deleted) -> Outcome {
        let rest: Vec<Named> = cache::list(0, &event.target().namespace)?;
        let names: Vec<String> = rest.into_iter().map(|object| object.metadata.name).collect();
        log::info!("left: {}", names.join(" "));
        Ok(())
    }
}

fn object(namespace: &str, name: &str) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name}})
}

fn host() -> Host<Probe> {
    Host::with_settings(json!({"greeting": "hello"}))
}

#[test]
fn the_value_lives_between_events_and_ends_with_the_instance() {
    let mut host = host();
    host.add(0, &object("a", "x")).unwrap();
    host.set_attempt(2);
    host.add(0, &object("", "y")).unwrap();
    host.restart();
    host.add(0, &object("a", "z")).unwrap();
    assert_eq!(host.take_lines(), ["hello a/x 1 #1/1", "hello y 2 #2/2", "hello a/z 1 #3/2"]);
    assert_eq!(host.plugin().map(|probe| probe.adds), Some(1));
}

#[test]
fn the_cache_is_as_new_as_the_event() {
    let mut host = host();
    host.cache(0, &object("a", "x"));
    host.cache(0, &object("a", "y"));
    host.cache(0, &object("b", "z"));
    host.delete(0, &object("a", "x"), DeleteReason::Deleted).unwrap();
    assert_eq!(host.take_log(), [Line { level: Level::Info, message: "left: y".into() }]);
}

#[test]
fn a_long_list_comes_in_pages() {
    let mut host = host();
    for number in 0..1200 {
        host.cache(0, &object("a", &format!("{number:04}")));
    }
    host.delete(0, &object("a", "0000"), DeleteReason::Deleted).unwrap();
    let line = host.take_lines().remove(0);
    assert_eq!(line.split(' ').count(), 1 + 1199);
    assert!(line.ends_with(" 1199"));
}

#[test]
fn a_cache_that_is_not_filled_means_retry() {
    let mut host = host();
    host.set_not_synced(0);
    let failure = host.delete(0, &object("a", "x"), DeleteReason::Deleted).unwrap_err();
    assert!(failure.is_retry(), "{failure}");
}

#[test]
fn bad_settings_refuse_the_version_by_name_and_hold_events_back() {
    let mut host = Host::<Probe>::with_settings(json!({"greting": "hello"}));
    assert_eq!(host.describe().unwrap_err(), "settings: unknown field `greting`, expected `greeting`");
    let failure = host.add(0, &object("a", "x")).unwrap_err();
    assert!(failure.is_retry(), "{failure}");
}

#[test]
fn settings_are_read_one_by_one_too() {
    struct Peek;
    impl Plugin for Peek {
        fn describe() -> Described {
            Ok(hark_guest::description!().watch(Subscription::new("x", "v1", "Pod")))
        }
        fn start() -> Result<Self, Failure> {
            Ok(Self)
        }
        fn on_add(&mut self, _: Added) -> Outcome {
            for key in ["text", "number", "list", "absent"] {
                log::trace!("{:?}", settings::get(key));
            }
            Ok(())
        }
    }
    let mut host = Host::<Peek>::with_settings(json!({"text": "a b", "number": 3, "list": ["x"]}));
    host.add(0, &object("a", "x")).unwrap();
    assert_eq!(host.take_lines(), ["Some(\"a b\")", "Some(\"3\")", "Some(\"[\\\"x\\\"]\")", "None"]);
}

#[test]
fn outside_of_an_event_there_is_no_delivery() {
    assert_eq!((delivery::sequence(), delivery::attempt()), (0, 0));
    assert_eq!(delivery::arrived(), SystemTime::UNIX_EPOCH);
}

#[test]
fn failures_say_what_the_host_shall_do() {
    let later = Failure::retry_after("busy", Duration::from_secs(3));
    assert!(later.is_retry());
    assert_eq!(later.to_string(), "busy");
    let parsed: Result<u8, Failure> = "300".parse::<u8>().or_retry("counting");
    assert_eq!(parsed.unwrap_err(), Failure::retry("counting: number too large to fit in target type"));
    assert!(!Failure::permanent("no").is_retry());
}
