//! `limits`: what one plugin may use, as `[defaults]` and `[plugins.NAME]` may both say it.
//!
//! Used by the configuration alone. Invariant: every key has a range in which the host stays sound, and what neither
//! table says is the sandbox's, or the listener's, default.

use std::time::Duration;

use hark_informer::listener::ListenerConfig;
use hark_sandbox::Limits;

use super::reader::Reader;

/// The keys of one table.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LimitsTable {
    memory: Option<usize>,
    tables: Option<usize>,
    instances: Option<usize>,
    handles: Option<usize>,
    call_bytes: Option<usize>,
    describe: Option<usize>,
    state: Option<usize>,
    page: Option<usize>,
    /// `Some(None)`: it says `"off"`.
    deadline: Option<Option<Duration>>,
    host_call: Option<Duration>,
    budget: Option<Duration>,
    object: Option<usize>,
    queue: Option<usize>,
    max_attempts: Option<u32>,
    quarantine_after: Option<Option<usize>>,
    log_lines: Option<u32>,
    log_line: Option<usize>,
    recycle_events: Option<Option<u64>>,
    recycle_memory: Option<Option<usize>>,
}

/// The shortest time that can be told from none, with a tick of 10 ms.
const SHORTEST: Duration = Duration::from_millis(10);

/// The longest that a call may use its thread: ten minutes.
const LONGEST_CALL: Duration = Duration::from_secs(600);

/// The longest that an event may take, or a host call wait: an hour.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

impl LimitsTable {
    /// Takes every key that there is.
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            memory: reader.bytes("memory", 1 << 16, 4 << 30),
            tables: reader.count("tables", 1, 100_000_000),
            instances: reader.count("instances", 1, 100_000),
            handles: reader.count("handles", 1, 1_000_000),
            call_bytes: reader.bytes("call_bytes", 1 << 10, 1 << 30),
            describe: reader.bytes("describe", 1 << 10, 1 << 30),
            state: reader.bytes("state", 1 << 10, 1 << 30),
            page: reader.bytes("page", 1 << 10, 1 << 30),
            deadline: reader
                .unless_off("deadline", |reader| reader.duration("deadline", SHORTEST, LONGEST_CALL)),
            host_call: reader.duration("host_call", SHORTEST, LONGEST_WAIT),
            budget: reader.duration("budget", SHORTEST, LONGEST_WAIT),
            object: reader.bytes("object", 1 << 10, 1 << 30),
            queue: reader.count("queue", 1, 100_000_000),
            max_attempts: reader.count("max_attempts", 1, 1_000_000),
            // Two at least: one poison object never brings quarantine on.
            quarantine_after: reader
                .unless_off("quarantine_after", |reader| reader.count("quarantine_after", 2, 1000)),
            log_lines: reader.count("log_lines", 1, 1_000_000),
            log_line: reader.bytes("log_line", 64, 1 << 20),
            recycle_events: reader
                .unless_off("recycle_events", |reader| reader.count("recycle_events", 1, i64::MAX)),
            recycle_memory: reader
                .unless_off("recycle_memory", |reader| reader.bytes("recycle_memory", 1 << 16, 4 << 30)),
        }
    }

    /// The sandbox's share: a plugin's own table, then the defaults', then what is usual.
    pub(super) fn sandbox(&self, then: &Self) -> Limits {
        let usual = Limits::default();
        Limits {
            memory: self.memory.or(then.memory).unwrap_or(usual.memory),
            tables: self.tables.or(then.tables).unwrap_or(usual.tables),
            instances: self.instances.or(then.instances).unwrap_or(usual.instances),
            handles: self.handles.or(then.handles).unwrap_or(usual.handles),
            call_bytes: self.call_bytes.or(then.call_bytes).unwrap_or(usual.call_bytes),
            describe: self.describe.or(then.describe).unwrap_or(usual.describe),
            state: self.state.or(then.state).unwrap_or(usual.state),
            page: self.page.or(then.page).unwrap_or(usual.page),
            deadline: self.deadline.or(then.deadline).unwrap_or(usual.deadline),
            host_call: self.host_call.or(then.host_call).unwrap_or(usual.host_call),
            budget: self.budget.or(then.budget).unwrap_or(usual.budget),
            object: self.object.or(then.object).unwrap_or(usual.object),
            log_lines: self.log_lines.or(then.log_lines).unwrap_or(usual.log_lines),
            log_line: self.log_line.or(then.log_line).unwrap_or(usual.log_line),
            recycle_events: self.recycle_events.or(then.recycle_events).unwrap_or(usual.recycle_events),
            recycle_memory: self.recycle_memory.or(then.recycle_memory).unwrap_or(usual.recycle_memory),
        }
    }

    /// The listener's share, likewise: events that wait before they are merged, and attempts.
    pub(super) fn listener(&self, then: &Self) -> (usize, u32) {
        let usual = ListenerConfig::default();
        let queue = self.queue.or(then.queue).unwrap_or(usual.bound);
        (queue, self.max_attempts.or(then.max_attempts).unwrap_or(usual.max_attempts))
    }

    /// Likewise: different objects whose events break the plugin before it is put into quarantine; none: off.
    pub(super) fn quarantine_after(&self, then: &Self) -> Option<usize> {
        let usual = ListenerConfig::default().quarantine_after;
        self.quarantine_after.or(then.quarantine_after).unwrap_or(usual)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn limits(text: &str) -> Limits {
        Config::parse(text, Path::new("hark.toml")).expect("valid").plugin("p").limits
    }

    #[test]
    fn every_key_is_read_from_a_plugins_table_and_from_the_defaults() {
        let table = r#"limits = { memory = "1MiB", tables = 2, instances = 3, handles = 4, call_bytes = "5KiB",
            describe = "6KiB", state = "2KiB", page = "7KiB", deadline = "8s", host_call = "9s", budget = "10s",
            object = "11KiB", log_lines = 12, log_line = "13KiB", recycle_events = 14, recycle_memory = "15MiB" }"#
            .replace("\n            ", " ");
        let want = Limits {
            memory: 1 << 20,
            tables: 2,
            instances: 3,
            handles: 4,
            call_bytes: 5 << 10,
            describe: 6 << 10,
            state: 2 << 10,
            page: 7 << 10,
            deadline: Some(Duration::from_secs(8)),
            host_call: Duration::from_secs(9),
            budget: Duration::from_secs(10),
            object: 11 << 10,
            log_lines: 12,
            log_line: 13 << 10,
            recycle_events: Some(14),
            recycle_memory: Some(15 << 20),
        };
        assert_eq!(limits(&format!("[defaults]\n{table}")), want);
        let both = format!(
            "[defaults]\nlimits = {{ memory = \"9MiB\", deadline = \"off\", recycle_events = 9 }}\n[plugins.p]\n{table}"
        );
        assert_eq!(limits(&both), want, "its own come first");
    }

    #[test]
    fn a_deadline_is_on_or_off_for_all_and_for_one() {
        let (one, two) = (Some(Duration::from_secs(1)), Some(Duration::from_secs(2)));
        let cases = [
            ("", "", one),
            (r#"deadline = "2s""#, "", two),
            (r#"deadline = "off""#, "", None),
            (r#"deadline = "2s""#, r#"deadline = "off""#, None),
            (r#"deadline = "off""#, r#"deadline = "2s""#, two),
            (r#"deadline = "off""#, r#"deadline = "off""#, None),
            (r#"deadline = "1s""#, r#"deadline = "2s""#, two),
        ];
        for (all, own, want) in cases {
            let text = format!("[defaults]\nlimits = {{ {all} }}\n[plugins.p]\nlimits = {{ {own} }}");
            assert_eq!(limits(&text).deadline, want, "{text}");
        }
    }

    #[test]
    fn recycling_can_be_switched_off_for_one() {
        let text = r#"
            [defaults]
            limits = { recycle_events = 7, recycle_memory = "1MiB" }
            [plugins.p]
            limits = { recycle_events = "off", recycle_memory = "off" }
        "#;
        assert_eq!((limits(text).recycle_events, limits(text).recycle_memory), (None, None));
    }

    #[test]
    fn what_cannot_be_off_or_is_out_of_range_is_an_error() {
        for (key, value) in [
            ("budget", r#""off""#),
            ("host_call", r#""off""#),
            ("deadline", r#""never""#),
            ("deadline", r#""1ms""#),
            ("memory", r#""off""#),
            ("recycle_events", "0"),
            ("recycle_events", r#""never""#),
            ("log_line", r#""1B""#),
            ("instances", "0"),
        ] {
            let text = format!("[defaults]\nlimits = {{ {key} = {value} }}");
            let error = Config::parse(&text, Path::new("hark.toml")).expect_err(&text).to_string();
            assert!(error.contains(&format!("defaults.limits.{key}: ")), "{error}");
        }
    }
}
