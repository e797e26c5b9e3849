//! crash-watch: warns of containers that crash: one that restarted, was killed for its memory, or went into
//! CrashLoopBackOff. Invariant: one warning per container and change; nothing is remembered between events,
//! since every update brings the state before it along.

use std::fmt;

use hark_guest::{Added, Described, Failure, Outcome, Plugin, Subscription, Updated};
use hark_guest::{log, settings};
use serde::Deserialize;

/// The table `[plugins.crash-watch.settings]` of `hark.toml`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// Where to look; none: everywhere.
    namespaces: Vec<String>,
    /// Only pods with these labels, as kubectl's `-l` takes them.
    labels: String,
}

/// The part of a pod that tells. (`k8s_openapi`'s `Pod` would do as well, and make the plugin ten times as
/// large: it knows every field there is.)
#[derive(Default, Deserialize)]
#[serde(default)]
struct Pod {
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus {
    container_statuses: Vec<Container>,
    init_container_statuses: Vec<Container>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    name: String,
    restart_count: u32,
    state: State,
    last_state: State,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct State {
    waiting: Option<Waiting>,
    terminated: Option<Exit>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
}

/// How a container ended.
#[derive(Clone, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
struct Exit {
    reason: String,
    exit_code: i32,
    /// Tells two exits apart that are alike otherwise.
    finished_at: String,
}

impl Pod {
    fn containers(&self) -> impl Iterator<Item = &Container> {
        self.status.init_container_statuses.iter().chain(&self.status.container_statuses)
    }

    fn container(&self, name: &str) -> Option<&Container> {
        self.containers().find(|container| container.name == name)
    }
}

impl Container {
    fn is_crash_looping(&self) -> bool {
        self.state.waiting.as_ref().is_some_and(|waiting| waiting.reason == "CrashLoopBackOff")
    }

    /// Its last end: the present one, if it has not started again.
    fn exit(&self) -> Option<&Exit> {
        self.state.terminated.as_ref().or(self.last_state.terminated.as_ref())
    }

    fn oom_kill(&self) -> Option<&Exit> {
        self.exit().filter(|exit| exit.reason == "OOMKilled")
    }

    /// What became worse since `before`, as an operator would say it.
    fn troubles_since(&self, before: &Self) -> Vec<String> {
        let mut troubles = Vec::new();
        let Self { restart_count: now, .. } = *self;
        let then = before.restart_count;
        if now > then {
            troubles.push(format!("restarted (was {then}, now {now}){}", Ended(self.exit())));
        } else if self.oom_kill().is_some() && self.oom_kill() != before.exit() {
            troubles.push("was OOMKilled".to_owned());
        }
        if self.is_crash_looping() && !before.is_crash_looping() {
            troubles.push(format!("is in CrashLoopBackOff (restarts: {now}){}", Ended(self.exit())));
        }
        troubles
    }
}

/// `, last exit: OOMKilled, code 137`; nothing if it never ended.
struct Ended<'a>(Option<&'a Exit>);

impl fmt::Display for Ended<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Exit { reason, exit_code, .. }) = self.0 else { return Ok(()) };
        write!(f, ", last exit: {reason}, code {exit_code}")
    }
}

struct CrashWatch;

/// What [`Pod`] is read from, and so all that is handed over: a pod whose containers go on as they were does not
/// wake the plugin.
fn fields() -> impl Iterator<Item = String> {
    let members = [
        "name",
        "restartCount",
        "state/waiting/reason",
        "state/terminated/reason",
        "state/terminated/exitCode",
        "state/terminated/finishedAt",
        "lastState/terminated/reason",
        "lastState/terminated/exitCode",
        "lastState/terminated/finishedAt",
    ];
    let lists = ["containerStatuses", "initContainerStatuses"];
    lists.into_iter().flat_map(move |list| members.map(|member| format!("/status/{list}/*/{member}")))
}

impl Plugin for CrashWatch {
    fn describe() -> Described {
        let Settings { namespaces, labels } = settings::load()?;
        let pods =
            Subscription::new("pods", "v1", "Pod").namespaces(namespaces).labels(labels).fields(fields());
        Ok(hark_guest::description!().watch(pods))
    }

    fn start() -> Result<Self, Failure> {
        Ok(Self)
    }

    /// A pod seen for the first time has its present trouble reported, not the restarts it had before.
    fn on_add(&mut self, event: Added) -> Outcome {
        let pod: Pod = event.object()?;
        for container in pod.containers() {
            let restarts_known = Container { restart_count: container.restart_count, ..Container::default() };
            warn(event.target(), container, &restarts_known);
        }
        Ok(())
    }

    fn on_update(&mut self, event: Updated) -> Outcome {
        let (old, new): (Pod, Pod) = (event.old_object()?, event.object()?);
        for container in new.containers() {
            let before = old.container(&container.name).cloned().unwrap_or_default();
            warn(event.target(), container, &before);
        }
        Ok(())
    }
}

fn warn(pod: &hark_guest::Target, container: &Container, before: &Container) {
    for trouble in container.troubles_since(before) {
        log::warn!("{pod} container {} {trouble}", container.name);
    }
}

hark_guest::export!(CrashWatch);

#[cfg(test)]
mod tests {
    use hark_guest::testing::Host;
    use serde_json::{Value, json};

    use super::*;

    fn pod(containers: Value) -> Value {
        json!({
            "metadata": {"namespace": "default", "name": "web"},
            "spec": {"containers": [{"name": "app"}]},
            "status": {"phase": "Running", "containerStatuses": containers},
        })
    }

    fn app(restarts: u32, state: Value, last_state: Value) -> Value {
        pod(json!([{"name": "app", "restartCount": restarts, "state": state, "lastState": last_state}]))
    }

    fn running() -> Value {
        json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
    }

    fn exit(reason: &str, code: i32) -> Value {
        json!({"terminated": {"reason": reason, "exitCode": code, "finishedAt": "2026-01-01T00:01:00Z"}})
    }

    fn crash_loop() -> Value {
        json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}})
    }

    /// What is said of a change.
    fn said(old: &Value, new: &Value) -> Vec<String> {
        let mut host = Host::<CrashWatch>::new();
        host.update(0, old, new).unwrap();
        host.take_lines()
    }

    #[test]
    fn a_restart_is_told_with_both_counts_and_the_exit() {
        let old = app(3, running(), exit("Error", 1));
        let new = app(4, running(), exit("OOMKilled", 137));
        assert_eq!(
            said(&old, &new),
            ["default/web container app restarted (was 3, now 4), last exit: OOMKilled, code 137"]
        );
    }

    #[test]
    fn a_crash_loop_is_told_when_it_begins_and_not_again() {
        let before = app(1, exit("Error", 1), json!({}));
        let during = app(1, crash_loop(), exit("Error", 1));
        let line = "default/web container app is in CrashLoopBackOff (restarts: 1), last exit: Error, code 1";
        assert_eq!(said(&before, &during), [line]);
        assert_eq!(said(&during, &during), [""; 0]);
    }

    #[test]
    fn an_oom_kill_without_restart_is_told_once() {
        let dead = app(0, exit("OOMKilled", 137), json!({}));
        assert_eq!(said(&app(0, running(), json!({})), &dead), ["default/web container app was OOMKilled"]);
        assert_eq!(said(&dead, &app(0, running(), exit("OOMKilled", 137))), [""; 0]);
    }

    #[test]
    fn what_does_not_concern_containers_is_not_even_handed_over() {
        let mut moved = app(2, running(), exit("Error", 1));
        moved["status"]["podIP"] = json!("10.0.0.7");
        let mut ready = moved.clone();
        ready["status"]["containerStatuses"][0]["ready"] = json!(true);
        let mut host = Host::<CrashWatch>::new();
        host.update(0, &app(2, running(), exit("Error", 1)), &moved).unwrap();
        host.update(0, &moved, &ready).unwrap();
        assert!(host.plugin().is_none(), "no event made a value yet");
        host.update(0, &ready, &app(3, running(), exit("Error", 1))).unwrap();
        assert_eq!(host.take_lines().len(), 1);
    }

    #[test]
    fn a_healthy_pod_is_no_news() {
        let healthy = app(2, running(), exit("Completed", 0));
        let mut host = Host::<CrashWatch>::new();
        host.add_initial(0, &healthy).unwrap();
        host.update(0, &healthy, &healthy).unwrap();
        host.add(0, &json!({"metadata": {"name": "new"}, "status": {}})).unwrap();
        assert_eq!(host.take_lines(), [""; 0]);
    }

    #[test]
    fn a_pod_found_in_a_crash_loop_is_told() {
        let mut host = Host::<CrashWatch>::new();
        host.add_initial(0, &app(7, crash_loop(), exit("Error", 2))).unwrap();
        assert_eq!(
            host.take_lines(),
            ["default/web container app is in CrashLoopBackOff (restarts: 7), last exit: Error, code 2"]
        );
    }

    #[test]
    fn a_pod_that_does_not_decode_is_given_up() {
        let mut host = Host::<CrashWatch>::new();
        let failure = host.add(0, &pod(json!([{"restartCount": "many"}]))).unwrap_err();
        assert!(!failure.is_retry());
    }

    #[test]
    fn settings_narrow_the_subscription() {
        let mut host =
            Host::<CrashWatch>::with_settings(json!({"namespaces": ["prod"], "labels": "tier=web"}));
        let wanted =
            Subscription::new("pods", "v1", "Pod").namespace("prod").labels("tier=web").fields(fields());
        assert_eq!(host.describe().unwrap().subscriptions(), [wanted]);
    }
}
