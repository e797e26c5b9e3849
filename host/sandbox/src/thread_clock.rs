//! CPU time of a plugin's threads, read when somebody asks and not at each call.
//!
//! [`ThreadClock`] is held by whoever runs guest code on a thread (a handler, a `describe`); [`ThreadClocks`], part
//! of `usage`, adds up those that are over and reads those that run. A thread's own clock is a system call, dearer
//! than many a call of a guest; the kernel keeps the same number for others in `/proc`, exact up to the scheduler's
//! last tick. Invariants: the total never falls; a thread that works for a plugin on behalf of two at a time (a handler
//! and the one that takes its place) is counted once.

use std::sync::Arc;
use std::time::Duration;

use rustix::thread::Pid;
use rustix::time::{ClockId, clock_gettime};

use crate::usage::Usage;

/// The CPU time of the present thread.
pub(crate) fn cpu_time() -> Duration {
    // The kernel never gives a negative CPU time.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// The clocks of one plugin's threads.
#[derive(Debug, Default)]
pub(crate) struct ThreadClocks {
    /// Of threads that are over, or no longer the plugin's.
    ended: Duration,
    running: Vec<Running>,
    next: u64,
}

#[derive(Debug)]
struct Running {
    number: u64,
    /// Those that hold a [`ThreadClock`] of it.
    holders: usize,
    thread: Pid,
    /// The thread's clock when it began to work for the plugin.
    began: Duration,
    /// The last reading.
    seen: Duration,
}

impl ThreadClocks {
    /// The number under which a thread is counted, from now on if it is not yet.
    fn hold(&mut self, thread: Pid, now: Duration) -> u64 {
        if let Some(one) = self.running.iter_mut().find(|one| one.thread == thread) {
            one.holders += 1;
            return one.number;
        }
        let number = self.next;
        self.next += 1;
        self.running.push(Running { number, holders: 1, thread, began: now, seen: now });
        number
    }

    pub(crate) fn total(&mut self) -> Duration {
        self.running.iter_mut().map(Running::used).sum::<Duration>() + self.ended
    }
}

impl Running {
    fn used(&mut self) -> Duration {
        if let Some(now) = of_thread(self.thread) {
            self.seen = self.seen.max(now);
        }
        self.seen.saturating_sub(self.began)
    }
}

/// The CPU time of any thread of this process: the first number of its `schedstat`, in nanoseconds. None if the
/// thread is gone or the kernel keeps no such numbers.
fn of_thread(thread: Pid) -> Option<Duration> {
    let path = format!("/proc/self/task/{}/schedstat", thread.as_raw_nonzero());
    let text = std::fs::read_to_string(path).ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Counts the present thread's CPU time as a plugin's, from now until it is dropped (on the same thread).
#[derive(Debug)]
pub(crate) struct ThreadClock {
    usage: Arc<Usage>,
    number: u64,
}

impl ThreadClock {
    pub(crate) fn start(usage: &Arc<Usage>) -> Self {
        let (thread, began) = (rustix::thread::gettid(), cpu_time());
        let number = usage.clocks().hold(thread, began);
        Self { usage: Arc::clone(usage), number }
    }
}

impl Drop for ThreadClock {
    fn drop(&mut self) {
        let mut clocks = self.usage.clocks();
        let Some(place) = clocks.running.iter().position(|one| one.number == self.number) else { return };
        clocks.running[place].holders -= 1;
        if clocks.running[place].holders > 0 {
            return;
        }
        let mut one = clocks.running.swap_remove(place);
        if one.thread == rustix::thread::gettid() {
            one.seen = one.seen.max(cpu_time());
        }
        clocks.ended += one.used();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin(time: Duration) {
        let until = cpu_time() + time;
        while cpu_time() < until {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn the_time_of_threads_adds_up_and_stays_when_they_end() {
        let (usage, each) = (Arc::new(Usage::default()), Duration::from_millis(20));
        let clock = ThreadClock::start(&usage);
        spin(each);
        let other = Arc::clone(&usage);
        let thread = std::thread::spawn(move || {
            let _clock = ThreadClock::start(&other);
            spin(each);
        });
        thread.join().expect("no panic");
        let before = usage.cpu();
        assert!(before >= each, "the other thread is over: {before:?}");
        drop(clock);
        assert!(usage.cpu() >= 2 * each && usage.cpu() >= before);
        let settled = usage.cpu();
        spin(each);
        assert_eq!(usage.cpu(), settled, "nobody counts this thread any more");
    }

    #[test]
    fn a_thread_that_is_counted_twice_is_counted_once() {
        let (usage, each) = (Arc::new(Usage::default()), Duration::from_millis(20));
        let (before, old) = (cpu_time(), ThreadClock::start(&usage));
        let new = ThreadClock::start(&usage);
        spin(each);
        drop(old);
        spin(each);
        drop(new);
        let (counted, used) = (usage.cpu(), cpu_time() - before);
        assert!(counted >= 2 * each && counted <= used, "{counted:?} of {used:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_runs_is_read_from_another_one() {
        let usage = Arc::new(Usage::default());
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (ready, began) = std::sync::mpsc::channel();
        let other = Arc::clone(&usage);
        let thread = std::thread::spawn(move || {
            let _clock = ThreadClock::start(&other);
            spin(Duration::from_millis(20));
            ready.send(()).expect("the test listens");
            // It waits, and so has been switched away from: the kernel has booked its time.
            wait.recv().expect("the test says when");
        });
        began.recv().expect("it began");
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while usage.cpu() < Duration::from_millis(20) {
            assert!(std::time::Instant::now() < until, "its time is never seen: {:?}", usage.cpu());
            std::thread::yield_now();
        }
        done.send(()).expect("it waits");
        thread.join().expect("no panic");
    }
}
