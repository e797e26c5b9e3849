//! Logs and standard streams.

use hark_informer::handler::Outcome;
use hark_sandbox::{Limits, LogLevel, LogSource};

use crate::support::{Guest, Host, OK, Objects, PERMANENT};

const LOG: &str = r#"(import "hark:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))"#;
const WRITE: &str = r#"(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "environ_sizes_get" (func $env (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))"#;

/// Writes the text at `at` to a descriptor.
fn write(descriptor: u32, at: u32, length: usize) -> String {
    format!(
        "(i32.store (i32.const 3000) (i32.const {at})) (i32.store (i32.const 3004) (i32.const {length}))
         (if (call $write (i32.const {descriptor}) (i32.const 3000) (i32.const 1) (i32.const 3016)) (then unreachable))"
    )
}

#[tokio::test]
async fn a_line_has_its_level_and_event() {
    let text = "hello\\n\\1b[31mworld\\n";
    let guest = Guest {
        imports: LOG.into(),
        extra: format!(r#"(data (i32.const 4000) "{text}")"#),
        ..Guest::adding(&format!("(call $log (i32.const 4) (i32.const 4000) (i32.const 17)) {OK}"))
    };
    let mut host = Host::new(guest.load());
    assert_eq!(host.add().await, Outcome::Ok);
    let [line] = host.lines.all().try_into().expect("one line");
    assert_eq!((line.level, line.source), (LogLevel::Error, LogSource::Log));
    assert_eq!((line.message.as_str(), line.key.as_deref()), ("hello\\nworld", Some("n/a")));
}

#[tokio::test]
async fn an_unknown_level_or_a_bad_pointer_is_a_trap() {
    for arguments in
        ["(i32.const 9) (i32.const 0) (i32.const 0)", "(i32.const 2) (i32.const 0x7ffffff0) (i32.const 99)"]
    {
        let guest = Guest { imports: LOG.into(), ..Guest::adding(&format!("(call $log {arguments}) {OK}")) };
        let mut host = Host::new(guest.load());
        assert!(matches!(host.add().await, Outcome::Trap(_)));
        host.recovers().await;
    }
}

#[tokio::test]
async fn a_flood_is_dropped_and_counted() {
    // `$initial` is 1 at first.
    let guest = Guest {
        imports: LOG.into(),
        ..Guest::adding(&format!(
            "(loop $l
                (call $log (i32.const 2) (i32.const 256) (i32.const 9))
                (local.set $initial (i32.add (local.get $initial) (i32.const 1)))
                (br_if $l (i32.lt_u (local.get $initial) (i32.const 5001))))
             {OK}"
        ))
    };
    let limits = Limits { log_lines: 10, ..Limits::default() };
    let mut host = Host::with(guest.load(), limits, Objects::default());
    assert_eq!(host.add().await, Outcome::Ok);
    let lines = host.lines.all();
    let dropped: u64 = lines.iter().map(|line| line.dropped).sum();
    let passed = host.lines.of(LogSource::Log).len();
    // 10 in each second that the flood lasted.
    assert!((10..200).contains(&passed), "{passed}");
    assert_eq!(dropped + passed as u64, 5000);
    let told = host.lines.of(LogSource::Host);
    assert!(
        told[0].ends_with("of its log lines were dropped: it may write 10 a second (limits.log_lines)"),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_long_line_is_cut() {
    let guest = Guest {
        imports: LOG.into(),
        ..Guest::adding(&format!(
            "(memory.fill (i32.const 4000) (i32.const 120) (i32.const 60000))
            (call $log (i32.const 2) (i32.const 4000) (i32.const 60000)) {OK}"
        ))
    };
    let mut host = Host::new(guest.load());
    assert_eq!(host.add().await, Outcome::Ok);
    let [line] = host.lines.all().try_into().expect("one line");
    assert_eq!(line.message, "x".repeat(8192) + "… [51808 bytes cut]");
}

#[tokio::test]
async fn standard_streams_become_lines() {
    // 256 is "try later", 272 "never": an unfinished line on each stream, then a line's end on one.
    let guest = Guest {
        imports: WRITE.into(),
        extra: r#"(data (i32.const 4000) "one\ntwo")"#.into(),
        ..Guest::adding(&(write(1, 4000, 7) + &write(2, 256, 9) + &write(1, 272, 5) + OK))
    };
    let mut host = Host::new(guest.load());
    assert_eq!(host.add().await, Outcome::Ok);
    assert_eq!(host.lines.of(LogSource::Stdout), ["one", "twonever"]);
    assert_eq!(host.lines.of(LogSource::Stderr), ["try later"]);
    let levels: Vec<_> = host.lines.all().iter().map(|line| line.level).collect();
    assert_eq!(levels, [LogLevel::Info, LogLevel::Info, LogLevel::Warn]);
}

#[tokio::test]
async fn what_was_said_before_a_trap_is_shown() {
    let guest = Guest { imports: WRITE.into(), ..Guest::adding(&(write(2, 256, 9) + "unreachable")) };
    let mut host = Host::new(guest.load());
    assert!(matches!(host.add().await, Outcome::Trap(_)));
    assert_eq!(host.lines.of(LogSource::Stderr), ["try later"]);
    host.recovers().await;
}

#[tokio::test]
async fn wasi_has_clocks_and_random_numbers_but_no_environment_and_no_files() {
    let guest = Guest {
        imports: WRITE.into(),
        ..Guest::adding(&format!(
            "(if (call $env (i32.const 3000) (i32.const 3004)) (then unreachable))
             (if (i32.load (i32.const 3000)) (then unreachable))
             ;; 8: no such descriptor, so no folder is open
             (if (i32.ne (call $prestat (i32.const 3) (i32.const 3000)) (i32.const 8)) (then unreachable))
             (if (call $random (i32.const 3000) (i32.const 8)) (then unreachable))
             (if (i64.eqz (i64.load (i32.const 3000))) (then unreachable))
             (if (call $clock (i32.const 0) (i64.const 1) (i32.const 3000)) (then unreachable))
             (if (i64.lt_u (i64.load (i32.const 3000)) (i64.const 1700000000000000000)) (then unreachable))
             {PERMANENT}"
        ))
    };
    assert_eq!(Host::new(guest.load()).add().await, Outcome::Permanent("never".into()));
}
