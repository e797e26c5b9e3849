//! Deadline, budget and the limit on host calls: which of them ends what, in every combination and for every entry.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hark_informer::handler::{DeleteReason, Event, Outcome};
use hark_sandbox::{Cap, DescribeError, Limits, Restart};

use crate::support::{Guest, Host, OK, Objects, add, context, object};

const SPIN: &str = "(loop $l (br $l)) unreachable";

/// A way into a guest that spins there.
#[derive(Debug, Clone, Copy)]
enum Entry {
    Describe,
    Start,
    Add,
    Update,
    Delete,
}

impl Entry {
    const ALL: [Self; 5] = [Self::Describe, Self::Start, Self::Add, Self::Update, Self::Delete];

    fn spinning(self) -> Guest {
        let spin = SPIN.to_owned();
        match self {
            Self::Describe => Guest { describe: spin, ..Guest::default() },
            Self::Start => {
                Guest { extra: "(func $s (loop $l (br $l))) (start $s)".into(), ..Guest::default() }
            }
            Self::Add => Guest { add: spin, ..Guest::default() },
            Self::Update => Guest { update: spin, ..Guest::default() },
            Self::Delete => Guest { delete: spin, ..Guest::default() },
        }
    }

    /// A cause as it is said of this entry.
    fn in_words(self, cause: &str) -> String {
        match self {
            Self::Describe => cause.replace("for one event", "for describe"),
            // For whichever of the two it was started.
            Self::Start => cause.replace(" for one event", ""),
            Self::Add | Self::Update | Self::Delete => cause.to_owned(),
        }
    }

    /// How the spinning ended, and what was counted.
    async fn ends_with(self, limits: Limits) -> (String, [u64; 2]) {
        let plugin = self.spinning().load();
        let object = object("n", "a", 0);
        if let Self::Describe = self {
            let (context, _) = context(limits);
            let error = plugin.describe(&context).await.expect_err("it spins");
            let DescribeError::Timeout(message) = error else { panic!("{error}") };
            return (message, [Cap::Deadline, Cap::Budget].map(|cap| context.usage.cap_hits(cap)));
        }
        let event = match self {
            Self::Update => Event::Update { old: object.clone(), new: object, resync: false },
            Self::Delete => Event::Delete { object, reason: DeleteReason::Deleted },
            Self::Describe | Self::Start | Self::Add => add("a"),
        };
        let mut host = Host::with(plugin, limits, Objects::default());
        let outcome = host.handle(event).await;
        let Outcome::Timeout(message) = outcome else { panic!("{outcome:?}") };
        assert_eq!(host.usage.restarts(Restart::Timeout), 1);
        assert_eq!(host.usage.instances(), 0, "it was thrown away");
        (message, [Cap::Deadline, Cap::Budget].map(|cap| host.usage.cap_hits(cap)))
    }
}

#[tokio::test]
async fn deadline_and_budget_end_every_entry_in_every_combination() {
    let (short, long) = (Duration::from_millis(40), Duration::from_secs(600));
    let deadline = "used its deadline of 40ms (limits.deadline)";
    let budget = "used its budget of 40ms for one event (limits.budget)";
    // The deadline as it is resolved from `[defaults]` and the plugin's own table (see the configuration's tests).
    let cases = [
        (Some(short), long, deadline, [1, 0]),
        (Some(long), short, budget, [0, 1]),
        (None, short, budget, [0, 1]),
        (Some(short), short + long, deadline, [1, 0]),
    ];
    for entry in Entry::ALL {
        for (cpu, time, want, counted) in cases {
            let want = entry.in_words(want);
            let limits = Limits { deadline: cpu, budget: time, ..Limits::default() };
            let (message, counts) = entry.ends_with(limits).await;
            assert!(message.contains(&want), "{entry:?}: {message:?} lacks {want:?}");
            assert_eq!(counts, counted, "{entry:?}: {message}");
            let starts = message.starts_with("while starting an instance: ");
            assert_eq!(starts, matches!(entry, Entry::Start), "{entry:?}: {message}");
        }
    }
}

/// Threads that take the processors away from everybody else, until it is dropped.
struct BusyMachine(Arc<AtomicBool>);

impl BusyMachine {
    fn new() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = 4 * std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..threads {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(stop)
    }
}

impl Drop for BusyMachine {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn time_that_a_busy_machine_takes_is_not_charged_to_the_guest() {
    // `$initial` is a number that is of no further use.
    let works = Guest::adding(&format!(
        "(loop $l
            (local.set $initial (i32.add (local.get $initial) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get $initial) (i32.const 60000000))))
         {OK}"
    ));
    let plugin = works.load();
    let _busy = BusyMachine::new();
    let unlimited = Limits { deadline: None, budget: Duration::from_secs(600), ..Limits::default() };
    let mut host = Host::with(plugin.clone(), unlimited.clone(), Objects::default());
    assert_eq!(host.add().await, Outcome::Ok);
    // What it needs is 60 % of what it may use.
    let deadline = host.usage.cpu() * 10 / 6;
    let mut host = Host::with(plugin, Limits { deadline: Some(deadline), ..unlimited }, Objects::default());
    for _ in 0..100 {
        let begun = Instant::now();
        assert_eq!(host.add().await, Outcome::Ok);
        if begun.elapsed() > deadline {
            return;
        }
    }
    panic!("the machine is never busy enough: the guest's time on the clock stays below {deadline:?}");
}
