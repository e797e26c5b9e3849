//! The hostile guests, and what becomes of each.
//!
//! Invariant: every guest of the folder has one line here; [`has_case`] is asked for each when this is compiled.

use crate::stage::Stage;

/// One guest's case.
pub(crate) struct Case {
    /// The name of its file, and of the plugin.
    pub(crate) guest: &'static str,
    /// `limits` in `hark.toml`, where the suite's own do not bring the fault out.
    pub(crate) limits: &'static str,
    pub(crate) expected: Expected,
    pub(crate) health: Health,
}

/// What becomes of a plugin that runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// It breaks at everything: it ends in quarantine.
    Quarantined,
    /// It answers often enough: it never is in quarantine.
    Spared,
    /// It breaks at some events and answers others: that depends on how they come.
    Either,
}

/// What the host makes of a guest.
#[derive(Clone, Copy)]
pub(crate) enum Expected {
    /// It does not run: the message begins with the reason.
    Refused(&'static str),
    /// An attempt at an event (`add`, `update`, `delete`) ends so, and the log says this: the outcome's message, or,
    /// where it is ok, what the guest or the host says beside it.
    Attempt { op: &'static str, outcome: &'static str, says: &'static str },
}

impl Case {
    const fn new(guest: &'static str, expected: Expected, health: Health) -> Self {
        Self { guest, limits: "", expected, health }
    }

    const fn with(self, limits: &'static str) -> Self {
        Self { limits, ..self }
    }

    /// It breaks at this kind of event only.
    const fn on(self, op: &'static str) -> Self {
        let expected = match self.expected {
            Expected::Attempt { outcome, says, .. } => Expected::Attempt { op, outcome, says },
            refused @ Expected::Refused(_) => refused,
        };
        Self { expected, health: Health::Either, ..self }
    }

    const fn but_spared(self) -> Self {
        Self { health: Health::Spared, ..self }
    }

    /// Whether the log has said that quarantine ended with another version.
    pub(crate) fn is_out_of_quarantine(&self, stage: &Stage) -> bool {
        let (ends, why) =
            (format!("{}: quarantine ends after ", self.guest), "another version begins afresh");
        stage.said.iter().any(|line| line.contains(&ends) && line.contains(why))
    }

    /// For the table.
    pub(crate) fn outcome(&self) -> &'static str {
        match self.expected {
            Expected::Refused(_) => "refused",
            Expected::Attempt { outcome, .. } => outcome,
        }
    }

    /// What the log says of it.
    pub(crate) fn says(&self) -> &'static str {
        match self.expected {
            Expected::Refused(says) | Expected::Attempt { says, .. } => says,
        }
    }

    /// Whether log and trace have shown what is expected.
    pub(crate) fn has_come(&self, stage: &Stage) -> bool {
        let guest = self.guest;
        let said =
            |parts: &[&str]| stage.said.iter().any(|line| parts.iter().all(|part| line.contains(part)));
        match self.expected {
            Expected::Refused(says) => said(&[&format!("{guest}.wasm is refused: {says}")]),
            Expected::Attempt { op, outcome, says } => {
                let traced = stage.lines_of(guest).any(|line| line.op == op && line.outcome == outcome);
                let told = match outcome {
                    "ok" => said(&[guest, says]),
                    _ => said(&[
                        &format!("{guest}: configmaps {op} "),
                        &format!(": {outcome}, attempt "),
                        says,
                    ]),
                };
                let quarantined = self.health == Health::Quarantined;
                traced && told && (!quarantined || said(&[&format!("{guest}: quarantined for ")]))
            }
        }
    }
}

const fn refused(guest: &'static str, says: &'static str) -> Case {
    Case::new(guest, Expected::Refused(says), Health::Spared)
}

const fn answers(guest: &'static str, outcome: &'static str, says: &'static str) -> Case {
    Case::new(guest, Expected::Attempt { op: "add", outcome, says }, Health::Spared)
}

const fn breaks(guest: &'static str, outcome: &'static str, says: &'static str) -> Case {
    Case::new(guest, Expected::Attempt { op: "add", outcome, says }, Health::Quarantined)
}

const fn traps(guest: &'static str, says: &'static str) -> Case {
    breaks(guest, "trap", says)
}

const fn times_out(guest: &'static str, says: &'static str) -> Case {
    breaks(guest, "timeout", says)
}

const fn gives_up(guest: &'static str, says: &'static str) -> Case {
    answers(guest, "permanent", says)
}

const fn is_fine(guest: &'static str, says: &'static str) -> Case {
    answers(guest, "ok", says)
}

/// All cases.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    GROUPS.iter().copied().flatten()
}

/// Whether a guest has a case; asked by the compiler.
pub(crate) const fn has_case(guest: &str) -> bool {
    let (mut group, guest) = (0, guest.as_bytes());
    while group < GROUPS.len() {
        let mut at = 0;
        while at < GROUPS[group].len() {
            if same(GROUPS[group][at].guest.as_bytes(), guest) {
                return true;
            }
            at += 1;
        }
        group += 1;
    }
    false
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

const GROUPS: [&[Case]; 10] =
    [ENTRIES, LIFECYCLE, HOST_CALLS, MEMORY, LARGE, POINTERS, TEXTS, ALLOCATOR, WASI, FILES];

const DEADLINE: &str = "used its deadline of 100ms (limits.deadline)";
const TOO_MUCH: &str = "it hands over more than 8 MiB in one call (limits.call_bytes)";
const DESCRIBES_TOO_MUCH: &str =
    "describe broke: it hands over more than 1 MiB to describe itself (limits.describe)";
/// Every event is an instance's last one.
const LAST: &str = "recycle_events = 1";
const UNREACHABLE: &str = "wasm trap: wasm `unreachable` instruction executed";

/// Traps and endless loops in each entry.
const ENTRIES: &[Case] = &[
    traps("poison", UNREACHABLE).but_spared(),
    traps("trap-on-add", UNREACHABLE).on("add"),
    traps("trap-on-update", UNREACHABLE).on("update"),
    traps("trap-on-delete", UNREACHABLE).on("delete"),
    refused("trap-in-describe", "describe broke: wasm trap: wasm `unreachable` instruction executed in "),
    times_out("spin-on-add", DEADLINE).on("add"),
    times_out("spin-on-update", DEADLINE).on("update"),
    times_out("spin-on-delete", DEADLINE).on("delete"),
    refused("spin-in-describe", "describe took too long: used its deadline of 100ms (limits.deadline)"),
    times_out("spin-in-realloc", DEADLINE),
    times_out("spin-in-post-return", DEADLINE).on("add"),
    refused(
        "start-spins",
        "describe took too long: while starting an instance: used its deadline of 100ms (limits.deadline)",
    ),
    refused(
        "start-traps",
        "describe broke: while starting an instance: wasm trap: wasm `unreachable` instruction executed",
    ),
    times_out("initialize-spins", "while starting an instance: used its deadline of 100ms (limits.deadline)"),
    traps(
        "initialize-traps",
        "while starting an instance: wasm trap: wasm `unreachable` instruction executed",
    ),
];

/// Faults in the functions of `lifecycle`. Where each event is an instance's last one, it saves after it, and the next one
/// restores before it.
const LIFECYCLE: &[Case] = &[
    refused(
        "trap-in-start",
        "it does not start: in start: wasm trap: wasm `unreachable` instruction executed in ",
    ),
    refused(
        "spin-in-start",
        "it does not start in time: in start: used its deadline of 100ms (limits.deadline)",
    ),
    refused("refuse-start", "it refuses to start: xxx"),
    is_fine("trap-in-synced", "it was not told that subscription 0 is synced: in synced: wasm trap: "),
    is_fine(
        "spin-in-synced",
        "it was not told that subscription 0 is synced: in synced: used its deadline of 100ms",
    ),
    is_fine("trap-in-stop", "in stop: wasm trap: ").with(LAST),
    is_fine("spin-in-stop", "in stop: used its deadline of 100ms (limits.deadline)").with(LAST),
    is_fine("trap-in-save", "held in memory is lost: in save: wasm trap: ").with(LAST),
    is_fine("spin-in-save", "held in memory is lost: in save: used its deadline of 100ms (limits.deadline)")
        .with(LAST),
    is_fine("trap-in-restore", "is lost, and it starts afresh: in restore: wasm trap: ").with(LAST),
    is_fine("spin-in-restore", "is lost, and it starts afresh: in restore: used its deadline of 100ms")
        .with(LAST),
    is_fine("giant-state", "is lost: in save: it saves more than 8 MiB (limits.state)").with(LAST),
    is_fine("large-state", "restored 8388606").with(LAST),
    is_fine("state-beyond-memory", "is lost: in save: list pointer/length out of bounds of memory")
        .with(LAST),
    is_fine("state-not-utf8", "is lost: in save: invalid utf-8 sequence").with(LAST),
    refused(
        "partial-lifecycle",
        "the core module exports some functions of `hark:plugin/lifecycle@0.1.0`, but not ",
    ),
    refused("lifecycle-other-type", "the core module cannot be made a component: "),
];

/// Endless calls of the host, and long ones.
const HOST_CALLS: &[Case] = &[
    times_out("flood-log", DEADLINE),
    times_out("flood-settings", DEADLINE),
    times_out("flood-delivery", DEADLINE),
    times_out("flood-cache", DEADLINE),
    times_out("flood-random", DEADLINE),
    times_out("flood-stdout", DEADLINE),
    times_out(
        "sleep-poll-oneoff",
        "one host call, wasi:io/poll.poll, took longer than 200ms (limits.host_call)",
    )
    .with("host_call = \"200ms\""),
    times_out("sleep-io-poll", "used its budget of 300ms for one event (limits.budget)")
        .with("budget = \"300ms\""),
];

/// Memory, tables, instances, stacks.
const MEMORY: &[Case] = &[
    traps("memory-beyond-cap", "its memory cap of 64 MiB is reached: it asked for 64.1 MiB (limits.memory)"),
    is_fine("memory-at-cap", "touched 1024"),
    refused(
        "memory-initial-beyond-cap",
        "describe broke: while starting an instance: its memory cap of 64 MiB is reached: it asked for 64.1 MiB (limits.memory)",
    ),
    refused("many-memories", "describe broke: while starting an instance: it is made of more than 50 core instances, tables or memories (limits.instances)").with("instances = 50"),
    traps("table-growth", "its tables would have 2000001 elements, more than 1048576"),
    refused("table-initial-beyond-cap", "describe broke: while starting an instance: its tables would have 2000000 elements"),
    refused("many-tables", "describe broke: while starting an instance: it is made of more than 50 core instances, tables or memories (limits.instances)").with("instances = 50"),
    refused("many-core-instances", "describe broke: while starting an instance: it is made of more than 256 core instances, tables or memories (limits.instances)"),
    traps("deep-recursion", "wasm trap: out of bounds memory access in deeper < deeper"),
    traps("deep-recursion-in-host-stack", "its stack of 512 KiB is used up (host.wasm_stack)"),
];

/// More of something than anybody needs.
const LARGE: &[Case] = &[
    traps("giant-log", TOO_MUCH),
    is_fine("large-log", "x… [1016 KiB cut]"),
    traps("giant-settings-key", TOO_MUCH),
    traps("giant-cache-key", TOO_MUCH),
    traps("giant-cursor", TOO_MUCH),
    is_fine("large-cursor", "problem 3"),
    traps("million-fields-asked", TOO_MUCH),
    traps("giant-failure", TOO_MUCH),
    gives_up("large-failure", "x… [1020 KiB cut]"),
    refused("giant-describe-name", DESCRIBES_TOO_MUCH),
    is_fine("large-describe-name", "started: redxxx"),
    refused("giant-describe-error", DESCRIBES_TOO_MUCH),
    refused("million-subscriptions", DESCRIBES_TOO_MUCH).with("memory = \"256MiB\""),
    refused("thousand-subscriptions", "its description is wrong: it has 1000 subscriptions, more than 64"),
    refused("million-fields", DESCRIBES_TOO_MUCH),
    refused(
        "many-fields",
        "its description is wrong: subscription 0 (`configmaps`): `fields` has 20000 entries, more than 64",
    ),
    refused("deep-pointer", "its description is wrong: subscription 0 (`configmaps`): `fields` has `/a/a/a"),
    refused(
        "giant-label-selector",
        "its description is wrong: subscription 0 (`configmaps`): `label-selector` has 524288 bytes, more than 4096",
    ),
];

/// Pointers, lengths and numbers that make no sense.
const POINTERS: &[Case] = &[
    traps("log-beyond-memory", "string pointer/length out of bounds of memory"),
    traps("log-across-the-end", "string pointer/length out of bounds of memory"),
    traps("length-overflow", "string pointer/length out of bounds of memory"),
    traps("list-overflow", "list pointer/length out of bounds of memory"),
    traps("list-misaligned", "list pointer is not aligned"),
    refused("describe-beyond-memory", "describe broke: string pointer/length out of bounds of memory"),
    traps("answer-beyond-memory", "pointer out of bounds of memory"),
    traps("answer-misaligned", "return pointer not aligned"),
    traps("answer-unknown", "invalid expected discriminant"),
    traps("log-level-unknown", "unexpected discriminant: 9"),
    traps("failure-unknown", "unexpected discriminant: 9"),
    refused("describe-comparison-unknown", "describe broke: unexpected discriminant: 99"),
    refused("describe-policy-unknown", "describe broke: unexpected discriminant: 9"),
];

/// Texts that are not UTF-8.
const TEXTS: &[Case] = &[
    traps("log-not-utf8", "invalid utf-8 sequence"),
    traps("settings-not-utf8", "invalid utf-8 sequence"),
    traps("cache-key-not-utf8", "invalid utf-8 sequence"),
    traps("cache-field-not-utf8", "invalid utf-8 sequence"),
    traps("cursor-not-utf8", "invalid utf-8 sequence"),
    traps("index-not-utf8", "invalid utf-8 sequence"),
    traps("failure-not-utf8", "invalid utf-8 sequence"),
    refused("describe-not-utf8", "describe broke: invalid utf-8 sequence"),
    refused("describe-error-not-utf8", "describe broke: invalid utf-8 sequence"),
];

/// An allocator that lies, and calls back at the wrong moment.
const ALLOCATOR: &[Case] = &[
    traps("realloc-beyond-memory", "realloc return: beyond end of memory"),
    is_fine("realloc-null", "started: "),
    is_fine("realloc-overlapping", "started: "),
    traps("realloc-misaligned", "realloc return: result not aligned"),
    traps("realloc-traps", UNREACHABLE),
    traps("realloc-logs", "cannot leave component instance"),
    traps("realloc-grows", "its memory cap of 64 MiB is reached"),
    traps("post-return-logs", "cannot leave component instance").on("add"),
];

/// What WASI has, and what of it is refused.
const WASI: &[Case] = &[
    traps("exit", "it ended itself with exit status 1"),
    traps("random-4-gib", "requested len 4294967295 exceeds limit 1048576"),
    is_fine("stdout-binary", "odd\u{fffd}\u{fffd}\u{fffd}!"),
    is_fine("stdout-escapes", "fake\\rERROR eslaf"),
    is_fine("stdout-megabyte-line", "x… ["),
    is_fine("open-file", "open 8 found 0"),
    is_fine("read-environment", "environment 0"),
    gives_up("open-socket", "socket refused"),
    traps("leak-pollables", "it holds more than 4096 handles (limits.handles)"),
    traps("handle-unknown", "unknown handle index 12345"),
];

/// Files that are no plugins, or large ones.
const FILES: &[Case] = &[
    refused(
        "unknown-imports",
        "it imports what this host does not have: env.first, env.second, wasi_unstable.third; a plugin may import",
    ),
    refused(
        "unknown-imports-typed",
        "it imports what this host does not have: test:guest/first, test:guest/second, bare; a plugin may import",
    ),
    refused("other-world", "the core module is not a plugin: it does not export "),
    refused(
        "other-world-typed",
        "the component is not a plugin: it must export `hark:plugin/handler@0.1.0`, and exports hark:plugin/handler@0.2.0",
    ),
    refused("command", "the core module is not a plugin: it does not export "),
    refused("lying-type", "the core module cannot be made a component: failed to decode world from module"),
    refused(
        "lying-type-bytes",
        "the core module cannot be made a component: decoding custom section component-type:guest",
    ),
    refused("cut-short", "the file is cut short: "),
    refused("precompiled", "the file is compiled machine code"),
    refused("empty", "the file is empty"),
    refused("text", "the file is not WebAssembly: it looks like plain text"),
    refused("unknown-version", "the file is WebAssembly of an unknown version"),
    refused("random-bytes", "the file is not valid WebAssembly: invalid leading byte (0xd4) for type"),
    is_fine("huge-function", "started: "),
    is_fine("deep-blocks", "started: "),
    is_fine("many-functions", "started: "),
    is_fine("many-locals", "started: "),
    is_fine("large-data", "started: "),
    refused(
        "deep-type",
        "the component does not compile: failed to parse WebAssembly module: type nesting is too deep",
    ),
    refused(
        "type-bomb",
        "the component does not compile: failed to parse WebAssembly module: effective type size exceeds the limit of 1000000",
    ),
    refused("deep-component-types", "its types or components are in each other more than 256 deep"),
    refused("deep-world", "its types or components are in each other more than 256 deep"),
    refused("deep-components", "its types or components are in each other more than 64 deep"),
    refused("component-bomb", "its components come to more than 4096 instances"),
];
