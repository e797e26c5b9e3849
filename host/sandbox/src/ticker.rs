//! The clock that makes guests look up: one thread that raises the epochs of an engine's backends every 10 ms.
//!
//! Started by `Engine::with`. Invariant: it keeps no engine alive, and ends within a tick of the last one's end.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wasmtime::EngineWeak;

/// Time between two ticks: how late a guest may notice that its time is over.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Starts the thread for the engines of all backends. Nobody needs to wait for its end.
pub(crate) fn start(engines: Vec<EngineWeak>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("hark-epoch".into()).spawn(move || tick(&engines))
}

/// Ticks at multiples of [`TICK`] after the start, so that the delays of single sleeps do not add up. Ticks
/// that the thread slept through are left out: guests compare clocks, they do not count ticks.
fn tick(engines: &[EngineWeak]) {
    let start = Instant::now();
    loop {
        let past = start.elapsed().as_nanos() % TICK.as_nanos();
        // Less than a tick, so it fits; park may return early, which makes an extra tick and no harm.
        thread::park_timeout(TICK - Duration::from_nanos(u64::try_from(past).unwrap_or_default()));
        let alive: Vec<_> = engines.iter().filter_map(EngineWeak::upgrade).collect();
        if alive.is_empty() {
            return;
        }
        alive.iter().for_each(wasmtime::Engine::increment_epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_with_the_last_of_its_engines() {
        let engines = [wasmtime::Engine::default(), wasmtime::Engine::default()];
        let ticker = start(engines.iter().map(wasmtime::Engine::weak).collect()).expect("a thread");
        let [first, last] = engines;
        drop(first);
        assert!(!ticker.is_finished());
        drop(last);
        ticker.join().expect("ended by itself");
    }
}
