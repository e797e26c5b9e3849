//! What a plugin that keeps its memory may rely on, through the public interface alone.

use hark_guest::testing::Host;
use hark_guest::{
    Added, Described, Failure, Outcome, Plugin, Refusal, SavedState, StartReason, Stateful, StopReason,
    Subscription,
};
use hark_guest::{cache, delivery, log, settings};
use serde_json::{Value, json};

/// Counts adds, and says what it is called for.
struct Counter {
    adds: u8,
}

impl Plugin for Counter {
    fn describe() -> Described {
        Ok(hark_guest::description!().watch(Subscription::new("things", "v1", "ConfigMap")))
    }

    fn start() -> Result<Self, Failure> {
        Err(Failure::permanent("begin takes its place"))
    }

    fn on_add(&mut self, _: Added) -> Outcome {
        self.adds += 1;
        log::info!("add {} #{}", self.adds, delivery::attempt());
        Ok(())
    }
}

/// What the cache and `delivery` say just now.
fn sees() -> String {
    let cached = cache::get::<Value>(0, "", "a").map(|found| found.is_some());
    format!("{cached:?} #{}", delivery::attempt())
}

/// The fault that the settings name under the name of a call.
fn refuses(call: &str) -> bool {
    settings::get(call).is_some_and(|fault| fault == "refuse")
}

impl Stateful for Counter {
    fn begin(reason: StartReason) -> Result<Self, Failure> {
        log::info!("start {reason:?} {}", sees());
        if refuses(&format!("{reason:?}")) { Err(Failure::retry("not today")) } else { Ok(Self { adds: 0 }) }
    }

    fn save(&mut self) -> Result<Option<SavedState>, Refusal> {
        log::info!("save {} {}", self.adds, sees());
        if refuses("save") {
            return Err("cannot save".into());
        }
        Ok((self.adds > 0).then(|| SavedState::new("v1", [self.adds])))
    }

    fn restore(&mut self, saved: SavedState) -> Result<(), Refusal> {
        let [adds] = *saved.of("v1")? else { return Err("not one byte".into()) };
        log::info!("restore {adds} {}", sees());
        self.adds = adds;
        if refuses("restore") { Err("cannot restore".into()) } else { Ok(()) }
    }

    fn synced(&mut self, subscription: u32) {
        log::info!("synced {subscription} {}", sees());
    }

    fn stop(&mut self, reason: StopReason) {
        log::info!("stop {reason:?} {} {}", self.adds, sees());
    }
}

fn object() -> Value {
    json!({"metadata": {"name": "a"}})
}

fn host(settings: Value) -> Host<Counter> {
    Host::stateful(settings)
}

#[test]
fn a_value_begins_goes_on_and_ends_as_the_host_says() {
    let mut host = host(json!({}));
    host.add_initial(0, &object()).unwrap();
    host.synced(0);
    host.reload().unwrap();
    host.add(0, &object()).unwrap();
    host.stop(StopReason::Shutdown);
    let want = [
        "start First Err(NotSynced) #0",
        "add 1 #1",
        "synced 0 Ok(true) #0",
        "start Reload Err(NotSynced) #0",
        "save 1 Ok(true) #0",
        "restore 1 Err(NotSynced) #0",
        "stop Reload 1 Ok(true) #0",
        "add 2 #1",
        "stop Shutdown 2 Ok(true) #0",
    ];
    assert_eq!(host.take_lines(), want);
    assert!(host.plugin().is_none());
}

#[test]
fn after_a_trap_another_begins_which_sees_the_cache() {
    let mut host = host(json!({}));
    host.add(0, &object()).unwrap();
    host.restart();
    host.add(0, &object()).unwrap();
    let lines = host.take_lines();
    assert_eq!(lines[2..], ["start Restart Ok(true) #0", "add 1 #1"]);
}

#[test]
fn a_start_that_is_refused_holds_the_event_back_and_a_reload_up() {
    let mut host = host(json!({"First": "refuse"}));
    assert_eq!(host.add(0, &object()).unwrap_err().message(), "not today");
    let mut host = self::host(json!({"Reload": "refuse"}));
    host.add(0, &object()).unwrap();
    assert_eq!(host.reload().unwrap_err(), "not today");
    host.add(0, &object()).unwrap();
    assert_eq!(host.plugin().map(|counter| counter.adds), Some(2), "the old one is still there");
}

#[test]
fn what_cannot_be_handed_over_is_lost_and_that_is_said() {
    for (call, why) in [("save", "cannot save"), ("restore", "cannot restore")] {
        let mut host = host(json!({call: "refuse"}));
        host.add(0, &object()).unwrap();
        assert_eq!(host.reload().unwrap_err(), why);
        assert_eq!(host.plugin().map(|counter| counter.adds), Some(0));
        assert_eq!(host.take_lines().last().map(String::as_str), Some("stop Reload 1 Ok(true) #0"));
    }
}

#[test]
fn who_saves_nothing_is_given_nothing() {
    let mut host = host(json!({}));
    host.start(StartReason::First).unwrap();
    assert_eq!(host.save(), Ok(None));
    host.reload().unwrap();
    assert!(!host.take_lines().iter().any(|line| line.starts_with("restore")));
}

#[test]
fn a_state_of_an_unknown_format_is_refused_by_name() {
    let mut host = host(json!({}));
    let refusal = host.restore(SavedState::new("v9", "x")).unwrap_err();
    assert_eq!(refusal, "the saved state has format `v9`, which this version does not know");
    assert_eq!(host.restore(SavedState::new("v1", [7, 7])).unwrap_err(), "not one byte");
    assert_eq!(host.restore(SavedState::new("v1", [7])), Ok(()));
    assert_eq!(host.save(), Ok(Some(SavedState::new("v1", [7]))));
}

#[test]
fn one_that_is_exported_plainly_begins_plainly() {
    let mut host = Host::<Counter>::new();
    assert_eq!(host.add(0, &object()).unwrap_err().message(), "begin takes its place");
}
