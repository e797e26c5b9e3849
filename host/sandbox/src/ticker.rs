//! The clock that makes guests look up: one thread that raises the engine's epoch every 10 ms.
//!
//! Started by `Engine::new`. Invariant: it keeps no engine alive, and ends within a tick of the last one's end.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wasmtime::EngineWeak;

/// Time between two ticks: how late a guest may notice that its time is over.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Starts the thread for one engine. Nobody needs to wait for its end.
pub(crate) fn start(engine: EngineWeak) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("hark-epoch".into()).spawn(move || tick(&engine))
}

/// Ticks at multiples of [`TICK`] after the start, so that the delays of single sleeps do not add up. Ticks
/// that the thread slept through are left out: guests compare clocks, they do not count ticks.
fn tick(engine: &EngineWeak) {
    let start = Instant::now();
    loop {
        let past = start.elapsed().as_nanos() % TICK.as_nanos();
        // Less than a tick, so it fits; park may return early, which makes an extra tick and no harm.
        thread::park_timeout(TICK - Duration::from_nanos(u64::try_from(past).unwrap_or_default()));
        match engine.upgrade() {
            Some(engine) => engine.increment_epoch(),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_with_its_engine() {
        let engine = wasmtime::Engine::default();
        let ticker = start(engine.weak()).expect("a thread");
        drop(engine);
        ticker.join().expect("ended by itself");
    }
}
