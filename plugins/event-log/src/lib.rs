//! event-log: one log line for every event of the kinds that its settings name. For seeing what a cluster
//! does, and the first plugin to copy. Invariant: it answers ok to every event, so it never holds one back.

use std::fmt::Display;

use hark_guest::{Added, Deleted, Described, Failure, Outcome, Plugin, Subscription, Target, Updated};
use hark_guest::{log, settings};
use serde::Deserialize;

/// The table `[plugins.event-log.settings]` of `hark.toml`.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// What to watch: `v1/ConfigMap`, `apps/v1/Deployment`.
    kinds: Vec<String>,
    /// Where; none: everywhere.
    namespaces: Vec<String>,
    /// Only objects with these labels, as kubectl's `-l` takes them.
    labels: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { kinds: vec!["v1/ConfigMap".to_owned()], namespaces: Vec::new(), labels: String::new() }
    }
}

/// Knows the kinds by the number of their subscription.
struct EventLog {
    kinds: Vec<String>,
}

impl Plugin for EventLog {
    fn describe() -> Described {
        let Settings { kinds, namespaces, labels } = settings::load()?;
        let mut description = hark_guest::description!();
        for kind in &kinds {
            let subscription = Subscription::to_kind(kind)?.namespaces(&namespaces).labels(&labels);
            description = description.watch(subscription);
        }
        Ok(description)
    }

    fn start() -> Result<Self, Failure> {
        Ok(Self { kinds: settings::load::<Settings>()?.kinds })
    }

    fn on_add(&mut self, event: Added) -> Outcome {
        let detail = if event.is_initial() { "initial" } else { "" };
        self.line("add", event.subscription(), event.target(), detail)
    }

    fn on_update(&mut self, event: Updated) -> Outcome {
        let detail = if event.is_resync() { "resync" } else { "" };
        self.line("update", event.subscription(), event.target(), detail)
    }

    fn on_delete(&mut self, event: Deleted) -> Outcome {
        self.line("delete", event.subscription(), event.target(), event.reason())
    }
}

impl EventLog {
    fn line(&self, op: &str, subscription: u32, target: &Target, detail: impl Display) -> Outcome {
        let kind = self.kinds.get(subscription as usize).map_or("?", String::as_str);
        let line = format!("{op} {kind} {target} rv={} {detail}", target.resource_version);
        log::info!("{}", line.trim_end());
        Ok(())
    }
}

hark_guest::export!(EventLog);

#[cfg(test)]
mod tests {
    use hark_guest::DeleteReason;
    use hark_guest::testing::Host;
    use serde_json::{Value, json};

    use super::*;

    fn object(version: &str) -> Value {
        json!({"metadata": {"namespace": "default", "name": "web", "uid": "1", "resourceVersion": version}})
    }

    #[test]
    fn every_event_is_one_line() {
        let mut host = Host::<EventLog>::new();
        host.add_initial(0, &object("1")).unwrap();
        host.add(0, &object("2")).unwrap();
        host.update(0, &object("2"), &object("3")).unwrap();
        host.resync(0, &object("3")).unwrap();
        host.delete(0, &object("4"), DeleteReason::Unknown).unwrap();
        let lines = host.take_lines();
        assert_eq!(
            lines,
            [
                "add v1/ConfigMap default/web rv=1 initial",
                "add v1/ConfigMap default/web rv=2",
                "update v1/ConfigMap default/web rv=3",
                "update v1/ConfigMap default/web rv=3 resync",
                "delete v1/ConfigMap default/web rv=4 unknown",
            ]
        );
    }

    #[test]
    fn settings_choose_the_kinds() {
        let settings = json!({"kinds": ["v1/Namespace", "apps/v1/Deployment"]});
        let mut host = Host::<EventLog>::with_settings(settings);
        let description = host.describe().unwrap();
        let names: Vec<&str> = description.subscriptions().iter().map(Subscription::name).collect();
        assert_eq!(names, ["v1/Namespace", "apps/v1/Deployment"]);
        host.add(1, &object("7")).unwrap();
        assert_eq!(host.take_lines(), ["add apps/v1/Deployment default/web rv=7"]);
    }

    #[test]
    fn namespaces_and_labels_narrow_every_subscription() {
        let settings = json!({"namespaces": ["a", "b"], "labels": "app=web"});
        let description = Host::<EventLog>::with_settings(settings).describe().unwrap();
        let wanted =
            Subscription::new("v1/ConfigMap", "v1", "ConfigMap").namespaces(["a", "b"]).labels("app=web");
        assert_eq!(description.subscriptions(), [wanted]);
    }

    #[test]
    fn settings_that_make_no_sense_refuse_the_version() {
        let refused = |settings| Host::<EventLog>::with_settings(settings).describe().unwrap_err();
        assert!(refused(json!({"kind": "v1/Pod"})).contains("unknown field `kind`"));
        assert!(refused(json!({"kinds": ["Pod"]})).contains("`Pod` is not a kind"));
        assert!(refused(json!({"kinds": ["v1/Pod", "v1/Pod"]})).contains("two subscriptions"));
        assert!(refused(json!({"kinds": []})).contains("0 subscriptions"));
    }
}
