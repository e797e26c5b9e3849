//! How long instances live, and what is counted of them: recycling, restarts, memory, CPU time, core dumps.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use hark_informer::handler::Outcome;
use hark_sandbox::{
    CoreDump, CoreDumps, Engine, EngineOptions, Limits, LoadOptions, LogLevel, LogSource, PluginHandler,
    Restart, RunOptions, StartReason,
};

use crate::support::{Guest, Host, Lines, OK, Objects, PERMANENT, context, delete, short};

/// Counts its events in its memory: `permanent` for the first one that an instance sees, then ok.
fn counting() -> Guest {
    Guest {
        extra: "(global $count (mut i32) (i32.const 0))".into(),
        ..Guest::adding(&format!(
            "(global.set $count (i32.add (global.get $count) (i32.const 1)))
             (if (result i32) (i32.eq (global.get $count) (i32.const 1)) (then {PERMANENT}) (else {OK}))"
        ))
    }
}

async fn outcomes(host: &mut Host, events: usize) -> String {
    let mut letters = String::new();
    for _ in 0..events {
        letters.push(if host.add().await == Outcome::Ok { '.' } else { 'F' });
    }
    letters
}

#[tokio::test]
async fn an_instance_is_fresh_after_its_share_of_events() {
    let limits = Limits { recycle_events: Some(3), ..Limits::default() };
    let mut host = Host::with(counting().load(), limits, Objects::default());
    assert_eq!(outcomes(&mut host, 8).await, "F..F..F.");
    assert_eq!((host.usage.restarts(Restart::Recycle), host.usage.restarts(Restart::Trap)), (2, 0));
    let said = "its instance is recycled, with what it held in memory: it has handled 3 events, its share of 3 (limits.recycle_events)";
    let lines: Vec<_> = host.lines.all().into_iter().map(|line| (line.level, line.message)).collect();
    assert_eq!(lines, [(LogLevel::Info, said.to_owned())], "the second one within a minute is not said");
}

#[tokio::test]
async fn an_instance_is_fresh_after_it_has_grown_too_large() {
    let grows = Guest::adding(&format!("(drop (memory.grow (i32.const 4))) {OK}"));
    let limits = Limits { recycle_memory: Some(10 << 16), ..Limits::default() };
    let mut host = Host::with(grows.load(), limits, Objects::default());
    let mut pages = Vec::new();
    for _ in 0..4 {
        assert_eq!(host.add().await, Outcome::Ok);
        pages.push(host.usage.memory() >> 16);
    }
    assert_eq!(pages, [8, 0, 8, 0], "of 4 at first, with 4 more each time");
    assert_eq!((host.usage.restarts(Restart::Recycle), host.usage.memory_peak() >> 16), (2, 12));
}

#[tokio::test]
async fn without_a_share_an_instance_lives_on() {
    let mut host = Host::new(counting().load());
    assert_eq!(outcomes(&mut host, 20).await, format!("F{}", ".".repeat(19)));
    assert_eq!(Restart::ALL.map(|reason| host.usage.restarts(reason)), [0, 0, 0]);
    assert_eq!((host.usage.instances(), host.usage.memory()), (1, 4 << 16));
    let usage = Arc::clone(&host.usage);
    drop(host);
    assert_eq!((usage.instances(), usage.memory(), usage.memory_peak()), (0, 0, 4 << 16));
}

#[tokio::test]
async fn a_lost_instance_is_counted_by_its_reason() {
    let guest = Guest { delete: "(loop $l (br $l)) unreachable".into(), ..Guest::adding("unreachable") };
    let mut host = Host::with(guest.load(), short(), Objects::default());
    for _ in 0..2 {
        assert!(matches!(host.add().await, Outcome::Trap(_)));
    }
    assert!(matches!(host.handle(delete("a")).await, Outcome::Timeout(_)));
    assert_eq!(Restart::ALL.map(|reason| host.usage.restarts(reason)), [2, 1, 0]);
}

#[tokio::test]
async fn cpu_time_is_the_threads_and_outlives_the_instance() {
    let guest = Guest::adding("(loop $l (br $l)) unreachable");
    let mut host = Host::with(guest.load(), short(), Objects::default());
    for events in 1..3 {
        assert!(matches!(host.add().await, Outcome::Timeout(_)));
        // Each event uses its deadline of 50 ms; the kernel may be a tick late with the last of it.
        let least = Duration::from_millis(50) * events - Duration::from_millis(10);
        assert!(host.usage.cpu() >= least, "{:?} after {events}", host.usage.cpu());
    }
    let (usage, before) = (Arc::clone(&host.usage), host.usage.cpu());
    drop(host);
    let settled = usage.cpu();
    assert!(settled >= before && settled >= Duration::from_millis(100), "{before:?}, then {settled:?}");
}

// === core dumps ===

/// Keeps what it is given, or refuses it.
#[derive(Default)]
struct Kept {
    dumps: Mutex<Vec<CoreDump>>,
    refuses: bool,
}

impl CoreDumps for Kept {
    fn take(&self, dump: CoreDump) -> Result<Option<PathBuf>, String> {
        if self.refuses {
            return Err("the disk is full".into());
        }
        self.dumps.lock().unwrap_or_else(PoisonError::into_inner).push(dump);
        Ok(Some("/dumps/p.coredump".into()))
    }
}

/// An engine that keeps dumps, and has a small stack.
fn dumping() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let run = RunOptions { core_dumps: true, wasm_stack: 128 << 10 };
    ENGINE.get_or_init(|| Engine::with(EngineOptions { run, ..EngineOptions::default() }).expect("an engine"))
}

fn dumping_host(guest: &Guest, kept: &Arc<Kept>) -> (PluginHandler, Arc<Lines>) {
    let wat = LoadOptions { allow_wat: true, ..LoadOptions::default() };
    let plugin = dumping().load(guest.text().as_bytes(), wat).expect("loads");
    let (mut context, lines) = context(short());
    context.core_dumps = Some(kept.clone());
    (PluginHandler::new(plugin, context, Arc::new(Objects::default()), None, StartReason::First), lines)
}

async fn outcome_of(handler: &mut PluginHandler) -> Outcome {
    let delivery = crate::support::delivery(crate::support::add("a"));
    hark_informer::handler::EventHandler::handle(handler, &delivery).await
}

#[tokio::test]
async fn what_remains_of_a_trapped_instance_can_be_kept() {
    let guest = Guest {
        extra: r#"(data (i32.const 5000) "a secret of the guest's") (global $g (mut i32) (i32.const 77))
            (func $inner unreachable)"#
            .into(),
        ..Guest::adding("(call $inner) unreachable")
    };
    let kept = Arc::new(Kept::default());
    let (mut handler, _) = dumping_host(&guest, &kept);
    let Outcome::Trap(message) = outcome_of(&mut handler).await else { panic!("it traps") };
    assert!(
        message.ends_with("in inner < on_add (core dump, to be written to /dumps/p.coredump)"),
        "{message}"
    );
    let dump = kept.dumps.lock().expect("no panic").pop().expect("a dump");
    assert_eq!(dump.memory(), 4 << 16);
    let bytes = dump.serialize("pod-audit");
    assert!(bytes.starts_with(b"\0asm"), "a Wasm module without code");
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(has(b"corestack") && has(b"pod-audit") && has(b"a secret of the guest's"));
}

#[tokio::test]
async fn spinning_and_overflowing_guests_leave_a_dump_and_waiting_ones_none() {
    let deep =
        Guest { extra: "(func $deep (call $deep))".into(), ..Guest::adding("(call $deep) unreachable") };
    let cases = [
        (Guest::adding("(loop $l (br $l)) unreachable"), "used its deadline of 50ms (limits.deadline)"),
        (deep, "its stack of 128 KiB is used up (host.wasm_stack)"),
    ];
    let kept = Arc::new(Kept::default());
    for (guest, says) in cases {
        let (mut handler, _) = dumping_host(&guest, &kept);
        let outcome = outcome_of(&mut handler).await;
        let message = outcome.message().unwrap_or_default();
        assert!(
            message.starts_with(says) && message.ends_with("(core dump, to be written to /dumps/p.coredump)"),
            "{message}"
        );
        let dump = kept.dumps.lock().expect("no panic").pop().expect("a dump");
        assert!(dump.serialize("p").starts_with(b"\0asm"));
    }
}

#[tokio::test]
async fn why_there_is_no_dump_is_said() {
    let kept = Arc::new(Kept { refuses: true, ..Kept::default() });
    let (mut handler, lines) = dumping_host(&Guest::adding("unreachable"), &kept);
    let Outcome::Trap(message) = outcome_of(&mut handler).await else { panic!("it traps") };
    assert!(message.ends_with("in on_add (no core dump: the disk is full)"), "{message}");
    assert!(lines.of(LogSource::Host).is_empty(), "the outcome says it all");
}
