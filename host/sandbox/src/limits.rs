//! What one plugin may use.
//!
//! [`Limits`] comes from the operator's file; every store is made with one (see `instance`), and the part of it that
//! is counted in memory is enforced by `limiter`. Invariant: whatever is not said has a safe default.

use std::time::Duration;

/// What each call of one plugin may use. The keys named are those of `limits` in `hark.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `memory`: bytes of linear memory of one instance, all its memories together. Default 64 MiB. Asking for
    /// more traps.
    pub memory: usize,
    /// `tables`: elements of all tables of an instance. Default 1,048,576; a component of Python or SpiderMonkey has
    /// about 20,000 functions in its table, and an element costs the host 8 to 16 bytes. Asking for more traps.
    pub tables: usize,
    /// `instances`: core instances that one instance is made of, and, each for itself, tables and memories. Default
    /// 256; a module with an adapter has 4, a Python program about 40. What needs more does not start.
    pub instances: usize,
    /// `handles`: handles to resources that an instance holds at a time, and pollables that it may wait for at once.
    /// Default 4,096. One more traps.
    pub handles: usize,
    /// `call_bytes`: bytes that a guest may hand to the host in one call, as they lie in its memory: an answer, or
    /// what it gives to a host function. Default 8 MiB: two of the largest objects. Held only during the call. More
    /// traps.
    pub call_bytes: usize,
    /// `describe`: the same, for everything that a guest hands over while it describes itself. Default 1 MiB.
    pub describe: usize,
    /// `state`: bytes that `lifecycle.save` may give, the name of their format included. Default 8 MiB. More is as good
    /// as an error of `save`.
    pub state: usize,
    /// `page`: bytes of text in one answer of the cache, unless its first entry alone is larger. Default 4 MiB. What
    /// does not fit is on the next page.
    pub page: usize,
    /// `deadline`: CPU time of the plugin's thread in one call, host functions included; none (`"off"`): only the
    /// budget ends a guest that spins. Default 1 s. Noticed within 20 ms. Starting an instance is a call too.
    pub deadline: Option<Duration>,
    /// `host_call`: time on the clock that one host call may wait. Default 10 s.
    pub host_call: Duration,
    /// `budget`: what one event may take, from starting an instance (if need be) to the answer: CPU time, and waits in
    /// host calls. Default 30 s. Like the deadline, it does not count the time in which the machine is busy with others.
    pub budget: Duration,
    /// `object`: bytes of one object's text handed over. Default 4 MiB (etcd's own limit is 1.5 MiB). Whoever hands
    /// events over leaves larger ones out; one that comes all the same is given up as permanent.
    pub object: usize,
    /// `log_lines`: lines a second, standard output and error included. Default 1,000. The rest is dropped and
    /// counted.
    pub log_lines: u32,
    /// `log_line`: bytes of one line. Default 8 KiB. The rest is cut.
    pub log_line: usize,
    /// `recycle_events`: after so many events an instance is replaced by a fresh one. Default: never.
    pub recycle_events: Option<u64>,
    /// `recycle_memory`: when an instance has more bytes of linear memory than this after an event, it is replaced
    /// by a fresh one. Default: never.
    pub recycle_memory: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            tables: 1 << 20,
            instances: 256,
            handles: 4096,
            call_bytes: 8 << 20,
            describe: 1 << 20,
            state: 8 << 20,
            page: 4 << 20,
            deadline: Some(Duration::from_secs(1)),
            host_call: Duration::from_secs(10),
            budget: Duration::from_secs(30),
            object: 4 << 20,
            log_lines: 1000,
            log_line: 8 << 10,
            recycle_events: None,
            recycle_memory: None,
        }
    }
}
