//! Every cap: what happens when it is hit, what is said, and that it is counted. Those on time have a file of their
//! own.

use hark_informer::handler::Outcome;
use hark_sandbox::{Cap, DescribeError, Limits, LoadOptions, Plugin};

use crate::loading::in_world as typed;
use crate::support::{Guest, Host, OK, Objects, Want, add, context, describe, engine, object};
use crate::wasi;

const LOG: &str = r#"(import "hark:plugin/log@0.1.0" "log" (func $log (param i32 i32 i32)))"#;

/// The first event traps with this message, the cap has one hit, and the next event works.
async fn traps(plugin: Plugin, limits: Limits, cap: Cap, says: &str) {
    let mut host = Host::with(plugin, limits, Objects::default());
    let outcome = host.add().await;
    assert!(
        matches!(&outcome, Outcome::Trap(message) if message.starts_with(says)),
        "{outcome:?} lacks {says:?}"
    );
    let hits = Cap::ALL.map(|one| host.usage.cap_hits(one));
    let want = Cap::ALL.map(|one| u64::from(one == cap));
    assert_eq!(hits, want, "{outcome:?}");
    host.recovers().await;
}

fn in_world(text: &str, world: &str) -> Plugin {
    engine().load(&typed(text, world), LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The instance does not start, with this message.
async fn does_not_start(guest: Guest, limits: Limits, cap: Cap, says: &str) {
    let mut host = Host::with(guest.load(), limits, Objects::default());
    assert_eq!(host.add().await, Outcome::Trap(format!("while starting an instance: {says}")));
    assert_eq!(host.usage.cap_hits(cap), 1);
}

#[tokio::test]
async fn memory() {
    let limits = Limits { memory: 1 << 20, ..Limits::default() };
    let grows = Guest::adding("(drop (memory.grow (i32.const 16))) unreachable");
    let says = "its memory cap of 1 MiB is reached: it asked for 1.2 MiB (limits.memory) in on_add";
    traps(grows.load(), limits.clone(), Cap::Memory, says).await;
    let says = "its memory cap of 1 MiB is reached: it asked for 1.1 MiB (limits.memory)";
    does_not_start(Guest { pages: 17, ..Guest::default() }, limits, Cap::Memory, says).await;
}

#[tokio::test]
async fn tables() {
    let grows = Guest {
        extra: "(table $t 1 funcref)".into(),
        ..Guest::adding("(drop (table.grow $t (ref.null func) (i32.const 100))) unreachable")
    };
    let limits = Limits { tables: 100, ..Limits::default() };
    let says = "its tables would have 101 elements, more than 100 (limits.tables) in on_add";
    traps(grows.load(), limits, Cap::Tables, says).await;
}

#[tokio::test]
async fn instances_tables_and_memories_by_number() {
    let says = "it is made of more than 1 core instances, tables or memories (limits.instances)";
    let limits = Limits { instances: 1, ..Limits::default() };
    for extra in ["(table 1 funcref) (table 1 funcref)", "(memory 1)"] {
        let guest = Guest { extra: extra.into(), ..Guest::default() };
        does_not_start(guest, limits.clone(), Cap::Instances, says).await;
    }
    // With an adapter, a guest is several core instances.
    let guest = Guest {
        imports: r#"(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))"#.into(),
        ..Guest::default()
    };
    does_not_start(guest, limits, Cap::Instances, says).await;
}

#[tokio::test]
async fn the_stack() {
    let guest =
        Guest { extra: "(func $deep (call $deep))".into(), ..Guest::adding("(call $deep) unreachable") };
    let says = "its stack of 512 KiB is used up (host.wasm_stack) in deep < deep";
    traps(guest.load(), Limits::default(), Cap::Stack, says).await;
}

#[tokio::test]
async fn bytes_handed_over_in_a_call() {
    let limits = Limits { call_bytes: 4096, ..Limits::default() };
    let logs = |bytes: u32| Guest {
        imports: LOG.into(),
        ..Guest::adding(&format!("(call $log (i32.const 2) (i32.const 4000) (i32.const {bytes})) {OK}"))
    };
    let mut host = Host::with(logs(4096).load(), limits.clone(), Objects::default());
    assert_eq!(host.add().await, Outcome::Ok);
    let says = "it hands over more than 4 KiB in one call (limits.call_bytes)";
    traps(logs(4097).load(), limits.clone(), Cap::CallBytes, says).await;
    // An answer counts too: the length of the text that goes with it.
    let answers = Guest::adding("(i32.store (i32.const 108) (i32.const 5000)) (i32.const 96)");
    traps(answers.load(), limits, Cap::CallBytes, says).await;
}

#[tokio::test]
async fn bytes_of_a_description() {
    let long = "x".repeat(200);
    let wants: Vec<Want<'_>> = (0..8).map(|_| Want { namespace_selector: &long, ..Want::pods() }).collect();
    let plugin = Guest { description: describe(&wants), ..Guest::default() }.load();
    let (context, _) = context(Limits { describe: 2048, ..Limits::default() });
    let error = plugin.describe(&context).await.expect_err("too long");
    let says = "it hands over more than 2 KiB to describe itself (limits.describe)";
    assert_eq!(error, DescribeError::Trap(says.into()));
    assert_eq!((context.usage.cap_hits(Cap::Describe), context.usage.cap_hits(Cap::CallBytes)), (1, 0));
}

#[tokio::test]
async fn handles_of_the_hosts_resources() {
    let leaks = wasi::adding("(loop $l (drop (call $after (i64.const 1))) (br $l)) unreachable", 4);
    let limits = Limits { handles: 50, ..Limits::default() };
    traps(leaks, limits, Cap::Handles, "it holds more than 50 handles (limits.handles)").await;
}

#[tokio::test]
async fn handles_of_the_guests_own_resources() {
    let guest = Guest {
        imports:
            r#"(import "[export]test:guest/things" "[resource-new]thing" (func $new (param i32) (result i32)))"#
                .into(),
        extra: r#"(func (export "test:guest/things#[dtor]thing") (param i32))"#.into(),
        ..Guest::adding("(loop $l (drop (call $new (i32.const 7))) (br $l)) unreachable")
    };
    let world = "package test:guest;
        interface things { resource thing; }
        world test { include hark:plugin/plugin@0.1.0; export things; }";
    let limits = Limits { handles: 50, ..Limits::default() };
    let says = "it holds more than 50 handles (limits.handles)";
    traps(in_world(&guest.text(), world), limits, Cap::Handles, says).await;
}

#[tokio::test]
async fn an_object() {
    let limits = Limits { object: 1000, ..Limits::default() };
    let mut host = Host::with(Guest::default().load(), limits, Objects::default());
    let large = hark_informer::handler::Event::Add { object: object("n", "a", 1000), initial: false };
    assert!(
        matches!(host.handle(large).await, Outcome::Permanent(message) if message.ends_with("(limits.object)"))
    );
    assert_eq!(host.usage.cap_hits(Cap::Object), 1);
    assert_eq!(host.handle(add("a")).await, Outcome::Ok);
}

#[tokio::test]
async fn log_lines_and_their_length() {
    let guest = Guest {
        imports: LOG.into(),
        ..Guest::adding(&format!(
            "{}{OK}",
            "(call $log (i32.const 2) (i32.const 4000) (i32.const 100))".repeat(3)
        ))
    };
    let limits = Limits { log_line: 99, ..Limits::default() };
    let mut host = Host::with(guest.load(), limits, Objects::default());
    assert_eq!(host.add().await, Outcome::Ok);
    // Zero bytes are control: nothing of them is shown, and nothing is cut.
    assert_eq!((host.usage.cap_hits(Cap::LogLine), host.usage.cap_hits(Cap::LogLines)), (0, 0));
    let text = Guest { extra: format!(r#"(data (i32.const 4000) "{}")"#, "x".repeat(100)), ..guest };
    let limits = Limits { log_line: 99, log_lines: 2, ..Limits::default() };
    let mut host = Host::with(text.load(), limits, Objects::default());
    assert_eq!(host.add().await, Outcome::Ok);
    let (long, many) = (host.usage.cap_hits(Cap::LogLine), host.usage.cap_hits(Cap::LogLines));
    // All in one second, or a second began in between.
    assert!((long, many) == (2, 1) || (long, many) == (3, 0), "{long} {many}");
}
