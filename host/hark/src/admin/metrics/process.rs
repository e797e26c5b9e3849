//! Metrics of the process, under the names that every Prometheus client gives them.
//!
//! Read from `/proc/self`, which costs no I/O, at the moment of a scrape. Invariant: what the system does not say (a
//! system without `/proc`) is left out, never made up.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Metric;
use crate::admin::exposition::Family;

/// What the system says of this process.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Facts {
    resident_bytes: Option<u64>,
    virtual_bytes: Option<u64>,
    threads: Option<u64>,
    open_fds: Option<usize>,
    max_fds: Option<u64>,
    cpu_seconds: f64,
    start_seconds: f64,
}

impl Facts {
    /// The facts of this moment; `started` is when the host began.
    pub(super) fn read(started: SystemTime) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Self {
            resident_bytes: kilobytes(&status, "VmRSS:"),
            virtual_bytes: kilobytes(&status, "VmSize:"),
            threads: field(&status, "Threads:").and_then(|rest| rest.parse().ok()),
            // The descriptor that reads the folder is not counted.
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count().saturating_sub(1)),
            max_fds: field(&limits, "Max open files").and_then(|rest| rest.split(' ').next()?.parse().ok()),
            cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            start_seconds: started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        }
    }
}

/// The rest of the line that begins with `name`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// A line such as `VmRSS:  1234 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// One series each.
pub(super) static METRICS: &[Metric<Facts>] = &[
    Metric {
        family: Family::counter(
            "process_cpu_seconds_total",
            &[],
            "CPU time of the process, user and system.",
        ),
        read: |facts, series| series.value(facts.cpu_seconds),
    },
    Metric {
        family: Family::gauge("process_resident_memory_bytes", &[], "Memory of the process that is in RAM."),
        read: |facts, series| series.maybe(facts.resident_bytes),
    },
    Metric {
        family: Family::gauge("process_virtual_memory_bytes", &[], "Address space of the process."),
        read: |facts, series| series.maybe(facts.virtual_bytes),
    },
    Metric {
        family: Family::gauge("process_open_fds", &[], "Open file descriptors."),
        read: |facts, series| series.maybe(facts.open_fds),
    },
    Metric {
        family: Family::gauge("process_max_fds", &[], "File descriptors that the process may have open."),
        read: |facts, series| series.maybe(facts.max_fds),
    },
    Metric {
        family: Family::gauge("process_threads", &[], "Threads of the process."),
        read: |facts, series| series.maybe(facts.threads),
    },
    Metric {
        family: Family::gauge(
            "process_start_time_seconds",
            &[],
            "When the host started, in seconds since 1970.",
        ),
        read: |facts, series| series.value(facts.start_seconds),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_are_read_and_odd_ones_are_none() {
        let status =
            "Name:\thark\nVmRSS:\t   12 kB\nThreads:\t7\nVmSize:\t18446744073709551615 kB\nVmPeak: 3 MB\n";
        assert_eq!(kilobytes(status, "VmRSS:"), Some(12 * 1024));
        for odd in ["VmSize:", "VmPeak:", "VmSwap:"] {
            assert_eq!(kilobytes(status, odd), None, "{odd}");
        }
        assert_eq!(field(status, "Threads:"), Some("7"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_numbers_are_those_of_this_process() {
        let started = UNIX_EPOCH + std::time::Duration::from_millis(1500);
        let before = Facts::read(started);
        let file = fs::File::open("/proc/self/status").expect("Linux has it");
        let after = Facts::read(started);
        drop(file);
        assert!(
            after.open_fds > Some(2) && after.open_fds <= after.max_fds.and_then(|max| max.try_into().ok())
        );
        assert!(before.resident_bytes > Some(1 << 18) && before.virtual_bytes >= before.resident_bytes);
        assert!(before.threads >= Some(1) && after.cpu_seconds >= before.cpu_seconds);
        assert_eq!(before.start_seconds, 1.5);
    }
}
