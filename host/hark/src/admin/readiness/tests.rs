//! Tables: which state of a part gives which line, and whether the host is ready with it.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use hark_informer::delta_fifo::DeltaFifoStats;
use hark_informer::listener::{Listener, ListenerConfig, OnSwap};
use hark_informer::reflector::{ProblemKind, ReflectorMetrics, ReflectorStatus};
use hark_informer::resource::Selector;
use hark_sandbox::{CompileStats, ContentHash, Description, How, Limits};

use super::*;
use crate::folder::Way;
use crate::plugins::view::{NoWayBack, PluginView, Refusal, RollbackView, RunningView, Treatment};

fn line(check: &Check) -> (bool, String) {
    (check.passes(), check.to_string())
}

fn informer_with(synced: bool, phase: Phase, problem: Option<ProblemKind>) -> InformerFacts {
    let since = UNIX_EPOCH + Duration::from_millis(1_795_000_000_123);
    let problem = problem.map(|kind| Problem { kind, message: "not\nso".into(), since });
    InformerFacts {
        selector: Selector::new("apps/v1", "Deployment").in_namespace("web"),
        status: ReflectorStatus { phase, problem, ..ReflectorStatus::default() },
        synced,
        objects: 0,
        bytes: 0,
        queue: DeltaFifoStats::default(),
        metrics: Arc::new(ReflectorMetrics::default()),
    }
}

fn plugin_with(running: bool, coming: Coming, refused: bool) -> PluginFacts {
    let refusal = refused.then(|| Refusal { hash: None, message: "no \x1b[2J\u{7f}Wasm".into() });
    let running = running.then(|| RunningView {
        hash: ContentHash::of(b"abc"),
        how: How::default(),
        has_lifecycle: false,
        description: Arc::new(Description::default()),
        generation: 1,
        since: UNIX_EPOCH,
        treatment: Treatment {
            on_reload: OnSwap::Replay,
            concurrency: 1,
            listener: ListenerConfig::default(),
        },
        limits: Limits::default(),
        listener: Listener::new(ListenerConfig::default(), Arc::new(())),
    });
    PluginFacts {
        view: PluginView { name: "a".into(), running, coming, refusal, ..PluginView::default() },
        queue: None,
        health: None,
        joined: vec![],
        cpu: Duration::ZERO,
    }
}

#[test]
fn an_informer_is_ready_when_it_has_synced_or_is_excused() {
    use ProblemKind::{Absent, Decode, Forbidden, Server, Throttled, Unauthorized, Unreachable};
    let since = "not so since 2026-11-18T11:06:40.123Z";
    for (synced, phase, problem, ready, want) in [
        (true, Phase::Watching, None, true, "[+]ok".to_owned()),
        (true, Phase::Listing, None, true, "[+]ok".to_owned()),
        (true, Phase::Watching, Some(Decode), true, format!("[-]decode: {since}")),
        (true, Phase::Listing, Some(Unreachable), true, format!("[-]unreachable: {since}")),
        (true, Phase::Listing, Some(Forbidden), true, format!("[-]forbidden: {since}")),
        (false, Phase::Listing, Some(Forbidden), true, format!("[-]forbidden: {since}")),
        (false, Phase::Resolving, Some(Absent), true, format!("[-]absent: {since}")),
        (false, Phase::Resolving, Some(Unreachable), false, format!("[-]unreachable: {since}")),
        (false, Phase::Listing, Some(Unauthorized), false, format!("[-]unauthorized: {since}")),
        (false, Phase::Listing, Some(Throttled), false, format!("[-]throttled: {since}")),
        (false, Phase::Listing, Some(Server), false, format!("[-]server: {since}")),
        (false, Phase::Listing, Some(Decode), false, format!("[-]decode: {since}")),
        (false, Phase::Idle, None, false, "[-]not started yet".to_owned()),
        (false, Phase::Stopped, None, false, "[-]stopped".to_owned()),
        (
            false,
            Phase::Resolving,
            None,
            false,
            "[-]silent: the API server has not said yet whether it has this resource".to_owned(),
        ),
        (
            false,
            Phase::Listing,
            None,
            false,
            "[-]silent: the API server has not sent anything of the first list yet".to_owned(),
        ),
    ] {
        let want = want.replace(']', "]informer apps/v1/Deployment in web ");
        assert_eq!(line(&informer(&informer_with(synced, phase, problem))), (ready, want));
    }
}

#[test]
fn a_long_first_list_says_how_far_it_is() {
    assert_eq!(waiting(Phase::Listing, 12_000), "listing: 12000 objects so far");
}

#[test]
fn a_plugin_is_ready_when_a_version_of_it_runs_whatever_its_file_is_now() {
    let refused = "refused: no  [2J Wasm";
    let runs = "plugin a running sha256:ba7816bf8f01";
    let (prepared, waits) =
        ("a new version is being prepared", "a new version takes over after the call under way");
    let file = format!("the file as it is now is {refused}");
    for (running, coming, refused, ready, want) in [
        (true, Coming::Nothing, false, true, format!("[+]{runs}")),
        (true, Coming::Preparing, false, true, format!("[+]{runs}; {prepared}")),
        (true, Coming::TakingOver, false, true, format!("[+]{runs}; {waits}")),
        (true, Coming::Nothing, true, true, format!("[-]{runs}; {file}")),
        (true, Coming::Preparing, true, true, format!("[-]{runs}; {prepared}; {file}")),
        (
            false,
            Coming::Preparing,
            false,
            false,
            "[-]plugin a its first version is being prepared".to_owned(),
        ),
        (false, Coming::Preparing, true, false, "[-]plugin a its first version is being prepared".to_owned()),
        (false, Coming::Nothing, true, false, format!("[-]plugin a does not run: {refused}")),
        (false, Coming::Nothing, false, false, "[-]plugin a does not run".to_owned()),
    ] {
        let check = plugin(&plugin_with(running, coming, refused));
        assert_eq!(line(&check), (ready, want), "and no control character of a message gets through");
    }
}

#[test]
fn a_trial_shows_and_leaves_the_host_ready() {
    let refusal = Refusal { hash: None, message: "abc was rolled back (boom)".into() };
    let runs = "plugin a running sha256:ba7816bf8f01";
    let back = "the file as it is now is refused: abc was rolled back (boom)";
    for (state, refused, want) in [
        (RollbackState::Good, false, format!("[+]{runs}")),
        (RollbackState::OnTrial, false, format!("[+]{runs}; on trial")),
        (RollbackState::RolledBack, true, format!("[-]{runs}; {back}")),
        (
            RollbackState::RollingBack,
            true,
            format!("[-]{runs}; nothing is handed over until the version before is back; {back}"),
        ),
        (
            RollbackState::Overruled,
            false,
            format!("[-]{runs}; its first events broke it, and the version before cannot come back: damaged"),
        ),
    ] {
        let mut facts = plugin_with(true, Coming::Nothing, false);
        facts.view.refusal = refused.then(|| refusal.clone());
        let no_way_back =
            (state == RollbackState::Overruled).then(|| NoWayBack { at: UNIX_EPOCH, why: "damaged".into() });
        let rollback = RollbackView { state, good: None, rolled_back: None, no_way_back, rollbacks: 0 };
        facts.view.rollback = Some(rollback);
        assert_eq!(line(&plugin(&facts)), (true, want));
    }
}

#[test]
fn a_quarantine_shows_and_leaves_the_host_ready() {
    let second = Duration::from_secs(1);
    let health = |state, until: Option<Duration>| Health {
        state,
        lasts: 63 * second,
        until,
        cause: Some("add n/a: trap: \u{1b}boom".into()),
        quarantines: 1,
    };
    let good = "[+]plugin a running sha256:ba7816bf8f01";
    let bad = "[-]plugin a running sha256:ba7816bf8f01; in quarantine for 63 s, ";
    for (health, want) in [
        (health(HealthState::Failing, None), good.to_owned()),
        (
            health(HealthState::Quarantined, Some(4 * second)),
            format!("{bad}an event is tried in 4 s: add n/a: trap:  boom"),
        ),
        (health(HealthState::Probing, None), format!("{bad}an event is being tried: add n/a: trap:  boom")),
    ] {
        let facts = PluginFacts { health: Some(health), ..plugin_with(true, Coming::Nothing, false) };
        assert_eq!(line(&plugin(&facts)), (true, want));
    }
}

#[test]
fn the_host_is_ready_when_its_folder_can_be_read_and_it_is_not_stopping() {
    let view = |folder_state, error: Option<&str>, stopping| View {
        folder: "plugins".into(),
        folder_state,
        folder_way: Way::default(),
        looks: Arc::default(),
        config_error: error.map(str::to_owned),
        stopping,
        reloads: crate::timings::ReloadStats::default(),
        plugins: Vec::new(),
    };
    let gone = || FolderState::Unreadable("it is gone".into());
    let told = "+ok, the file system tells of changes";
    for (view, ready, want) in [
        (view(FolderState::Readable, None, false), true, ["+ok", "+ok", told]),
        (view(FolderState::Unseen, None, false), false, ["+ok", "+ok", "-not looked at yet"]),
        (view(gone(), None, false), false, ["+ok", "+ok", "-cannot be read, what runs goes on: it is gone"]),
        (
            view(FolderState::Readable, Some("f has 2 errors:\n  x: bad\n  y: worse"), false),
            true,
            ["+ok", "-failed: what was configured before stays: f has 2 errors: x: bad; y: worse", told],
        ),
        (view(FolderState::Readable, None, true), false, ["-failed: the host is stopping", "+ok", told]),
    ] {
        let snapshot = Snapshot {
            started: UNIX_EPOCH,
            view: Arc::new(view),
            compiled: CompileStats::default(),
            lost_lines: vec![],
            plugins: vec![],
            informers: vec![],
        };
        let checks = checks(&snapshot);
        let want: Vec<String> = ["shutdown", "configuration", "folder plugins"]
            .iter()
            .zip(want)
            .map(|(subject, text)| format!("[{}]{subject} {}", &text[..1], &text[1..]))
            .collect();
        assert_eq!(checks.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        assert_eq!(checks.iter().all(Check::passes), ready, "{want:?}");
    }
}

#[test]
fn a_manager_that_does_not_answer_is_named() {
    assert_eq!(line(&alive(Ok(()))), (true, "[+]manager ok".into()));
    let silent = "[-]manager failed: the plugin manager's loop has not turned for 2 s";
    assert_eq!(line(&alive(Err(Silent))), (false, silent.into()));
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let long = "ä".repeat(SHOWN + 1);
    assert_eq!(cut(&long), format!("{}…", "ä".repeat(SHOWN)));
    assert_eq!(cut("short"), "short");
}
