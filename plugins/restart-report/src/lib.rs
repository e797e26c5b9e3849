//! restart-report: counts how often containers restart, by namespace and cause, and says so every so many
//! restarts. Invariant: a restart is counted once, also over reloads, since the counts go on with the queue; only when an
//! instance breaks are they lost, and that is said.

mod counts;

use hark_guest::{
    Added, Described, Failure, Outcome, Plugin, QueuePolicy, Refusal, SavedState, StartReason, Stateful,
    StopReason, Subscription, Updated,
};
use hark_guest::{log, settings};
use serde::Deserialize;

use counts::Counts;

/// The layout of what is saved: the counts as JSON.
const FORMAT: &str = "v1";

/// The table `[plugins.restart-report.settings]` of `hark.toml`.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// A namespace is reported at each restart that is a multiple of this.
    every: u64,
    /// Where to look; none: everywhere.
    namespaces: Vec<String>,
    /// Only pods with these labels, as kubectl's `-l` takes them.
    labels: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { every: 10, namespaces: Vec::new(), labels: String::new() }
    }
}

impl Settings {
    fn load() -> Result<Self, Refusal> {
        let settings: Self = settings::load()?;
        if settings.every == 0 { Err("settings: `every` is at least 1".into()) } else { Ok(settings) }
    }
}

/// The part of a pod that tells.
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

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    name: String,
    restart_count: u64,
    last_state: LastState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LastState {
    terminated: Option<Exit>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Exit {
    reason: String,
}

/// What [`Pod`] is read from.
fn fields() -> impl Iterator<Item = String> {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let members = ["name", "restartCount", "lastState/terminated/reason"];
    lists.into_iter().flat_map(move |list| members.map(|member| format!("/status/{list}/*/{member}")))
}

impl Pod {
    fn containers(&self) -> impl Iterator<Item = &Container> {
        self.status.init_container_statuses.iter().chain(&self.status.container_statuses)
    }

    /// Restarts of a container that is there; 0 of one that is not.
    fn restarts(&self, name: &str) -> u64 {
        self.containers()
            .find(|container| container.name == name)
            .map_or(0, |container| container.restart_count)
    }
}

impl Container {
    fn cause(&self) -> &str {
        let reason = self.last_state.terminated.as_ref().map_or("", |exit| &exit.reason);
        if reason.is_empty() { "for an unknown cause" } else { reason }
    }
}

struct RestartReport {
    every: u64,
    counts: Counts,
    /// Pods that were there when the subscription began, and their restarts until then.
    found: (u64, u64),
}

impl Plugin for RestartReport {
    fn describe() -> Described {
        let Settings { namespaces, labels, .. } = Settings::load()?;
        let pods =
            Subscription::new("pods", "v1", "Pod").namespaces(namespaces).labels(labels).fields(fields());
        Ok(hark_guest::description!().watch(pods).on_reload(QueuePolicy::Keep))
    }

    fn start() -> Result<Self, Failure> {
        let settings = Settings::load().map_err(Failure::retry)?;
        Ok(Self { every: settings.every, counts: Counts::default(), found: (0, 0) })
    }

    /// What a pod had restarted before it was seen is not counted.
    fn on_add(&mut self, event: Added) -> Outcome {
        if event.is_initial() {
            let pod: Pod = event.object()?;
            self.found.0 += 1;
            self.found.1 += pod.containers().map(|container| container.restart_count).sum::<u64>();
        }
        Ok(())
    }

    fn on_update(&mut self, event: Updated) -> Outcome {
        let (old, new): (Pod, Pod) = (event.old_object()?, event.object()?);
        for container in new.containers() {
            let restarts = container.restart_count.saturating_sub(old.restarts(&container.name));
            if restarts > 0 {
                self.count(&event.target().namespace, container.cause(), restarts);
            }
        }
        Ok(())
    }
}

impl RestartReport {
    fn count(&mut self, namespace: &str, cause: &str, restarts: u64) {
        let (before, causes) = self.counts.add(namespace, cause, restarts);
        if before / self.every < causes.total() / self.every {
            log::warn!("{namespace}: {causes}");
        }
    }
}

impl Stateful for RestartReport {
    fn begin(reason: StartReason) -> Result<Self, Failure> {
        if reason == StartReason::Restart {
            log::warn!("what was counted is lost, as the plugin broke: it counts from 0");
        }
        Self::start()
    }

    fn save(&mut self) -> Result<Option<SavedState>, Refusal> {
        Ok(Some(SavedState::new(FORMAT, serde_json::to_vec(&self.counts)?)))
    }

    fn restore(&mut self, saved: SavedState) -> Result<(), Refusal> {
        self.counts = serde_json::from_slice(saved.of(FORMAT)?)?;
        Ok(())
    }

    fn synced(&mut self, _subscription: u32) {
        let (pods, restarts) = std::mem::take(&mut self.found);
        log::info!(
            "counts from here on; the {pods} pods that are there had restarted {restarts} times before"
        );
    }

    /// The last word, where nobody goes on from here.
    fn stop(&mut self, reason: StopReason) {
        if matches!(reason, StopReason::Removed | StopReason::Shutdown) {
            for (namespace, causes) in self.counts.namespaces() {
                log::info!("{namespace}: {causes}");
            }
        }
    }
}

hark_guest::export_stateful!(RestartReport);

#[cfg(test)]
mod tests {
    use hark_guest::testing::Host;
    use serde_json::{Value, json};

    use super::*;

    fn pod(namespace: &str, restarts: u64, reason: &str) -> Value {
        let last = if reason.is_empty() { json!({}) } else { json!({"terminated": {"reason": reason}}) };
        json!({
            "metadata": {"namespace": namespace, "name": "web"},
            "status": {"containerStatuses": [{"name": "app", "restartCount": restarts, "lastState": last}]},
        })
    }

    fn host(every: u64) -> Host<RestartReport> {
        Host::stateful(json!({"every": every}))
    }

    /// A pod restarts from one count to another.
    fn restarts(host: &mut Host<RestartReport>, namespace: &str, (from, to): (u64, u64), reason: &str) {
        host.update(0, &pod(namespace, from, ""), &pod(namespace, to, reason)).unwrap();
    }

    #[test]
    fn a_namespace_is_reported_at_each_multiple_with_its_causes() {
        let mut host = host(3);
        restarts(&mut host, "shop", (5, 6), "Error");
        restarts(&mut host, "other", (0, 2), "Error");
        restarts(&mut host, "shop", (6, 7), "OOMKilled");
        assert_eq!(host.take_lines(), [""; 0]);
        restarts(&mut host, "shop", (7, 8), "OOMKilled");
        assert_eq!(host.take_lines(), ["shop: 3 restarts so far: 2 OOMKilled, 1 Error"]);
        restarts(&mut host, "shop", (8, 15), "");
        let line = "shop: 10 restarts so far: 7 for an unknown cause, 2 OOMKilled, 1 Error";
        assert_eq!(host.take_lines(), [line], "two multiples at once are one report");
    }

    #[test]
    fn restarts_before_a_pod_was_seen_are_told_apart() {
        let mut host = host(1);
        host.add_initial(0, &pod("shop", 4, "Error")).unwrap();
        host.add_initial(0, &pod("other", 3, "Error")).unwrap();
        host.synced(0);
        host.add(0, &pod("late", 2, "Error")).unwrap();
        let line = "counts from here on; the 2 pods that are there had restarted 7 times before";
        assert_eq!(host.take_lines(), [line]);
    }

    #[test]
    fn the_counts_go_on_over_a_reload() {
        let mut host = host(2);
        restarts(&mut host, "shop", (0, 1), "Error");
        host.reload().unwrap();
        restarts(&mut host, "shop", (1, 2), "OOMKilled");
        assert_eq!(host.take_lines(), ["shop: 2 restarts so far: 1 Error, 1 OOMKilled"]);
    }

    #[test]
    fn a_state_of_another_version_is_refused() {
        let mut host = host(1);
        let refusal = host.restore(SavedState::new("v2", "{}")).unwrap_err();
        assert_eq!(refusal, "the saved state has format `v2`, which this version does not know");
        assert!(host.restore(SavedState::new("v1", "[]")).is_err());
        host.restore(SavedState::new("v1", r#"{"shop":{"Error":4}}"#)).unwrap();
        restarts(&mut host, "shop", (0, 1), "Error");
        assert_eq!(host.take_lines(), ["shop: 5 restarts so far: 5 Error"]);
    }

    #[test]
    fn what_is_lost_with_an_instance_is_said() {
        let mut host = host(1);
        restarts(&mut host, "shop", (0, 1), "Error");
        host.restart();
        restarts(&mut host, "shop", (1, 2), "Error");
        let lost = "what was counted is lost, as the plugin broke: it counts from 0";
        let one = "shop: 1 restart so far: 1 Error";
        assert_eq!(host.take_lines(), [one, lost, one]);
    }

    #[test]
    fn the_last_word_is_said_where_nobody_goes_on() {
        for (reason, says) in [
            (StopReason::Shutdown, vec!["a: 1 restart so far: 1 Error", "b: 2 restarts so far: 2 Error"]),
            (StopReason::Removed, vec!["a: 1 restart so far: 1 Error", "b: 2 restarts so far: 2 Error"]),
            (StopReason::Reload, vec![]),
            (StopReason::Unused, vec![]),
        ] {
            let mut host = host(100);
            restarts(&mut host, "b", (0, 2), "Error");
            restarts(&mut host, "a", (0, 1), "Error");
            host.stop(reason);
            assert_eq!(host.take_lines(), says);
        }
    }

    #[test]
    fn what_changes_no_count_is_not_even_handed_over() {
        let mut moved = pod("shop", 1, "Error");
        moved["status"]["podIP"] = json!("10.0.0.7");
        let mut host = host(1);
        host.update(0, &pod("shop", 1, "Error"), &moved).unwrap();
        assert!(host.plugin().is_none(), "no event made a value yet");
    }

    #[test]
    fn settings_are_checked_and_narrow_the_subscription() {
        let mut host = Host::<RestartReport>::stateful(json!({"every": 0}));
        assert_eq!(host.describe().unwrap_err(), "settings: `every` is at least 1");
        let mut host = Host::<RestartReport>::stateful(json!({"namespaces": ["prod"], "labels": "tier=web"}));
        let wanted =
            Subscription::new("pods", "v1", "Pod").namespace("prod").labels("tier=web").fields(fields());
        assert_eq!(host.describe().unwrap().subscriptions(), [wanted]);
    }
}
