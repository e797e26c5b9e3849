//! Signals: the first one asks for an orderly end, the second one ends at once.
//!
//! Used by the commands. A thread of its own, `signals`, listens: it waits for nothing else, and nothing in the program
//! can keep it busy. Invariant: from [`Signals::start`] on, the second signal ends the process with code 130, whatever
//! the rest of the program is doing (design 4.14). One that comes with the first is not a second one.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::output::Output;

/// Signals so close to the first one are the same wish: `timeout` signals a process and its group, a terminal's end
/// comes with more than one.
const ECHO: Duration = Duration::from_millis(250);

/// Exit code after a second signal, as shells give it for an interrupted program.
const ABORTED: i32 = 130;

/// How long log and screen have for their last lines then, each.
const LAST_LINES: Duration = Duration::from_millis(100);

/// SIGINT, SIGTERM and SIGHUP, from the moment it is made.
pub(crate) struct Signals {
    first: oneshot::Receiver<()>,
}

impl Signals {
    /// Takes the signals over from their defaults.
    ///
    /// # Errors
    /// If the system refuses, or gives no thread.
    pub(crate) async fn start(output: Arc<Output>) -> io::Result<Self> {
        let (tell_started, started) = oneshot::channel();
        let (tell_first, first) = oneshot::channel();
        let thread = move || match Listening::new() {
            Ok(listening) => {
                // Whoever starts it waits for both.
                let _ = tell_started.send(Ok(()));
                listening.run(tell_first, &output);
            }
            Err(error) => {
                let _ = tell_started.send(Err(error));
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(thread)?;
        started.await.map_err(io::Error::other)??;
        Ok(Self { first })
    }

    /// Waits for the first signal.
    pub(crate) async fn first(self) {
        // A thread that is gone could tell of no signal: better an end than a host that hears none.
        let _ = self.first.await;
    }
}

/// What the thread has in hand: a runtime of its own, which needs no other thread to turn.
struct Listening {
    runtime: Runtime,
    sources: Sources,
}

struct Sources {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal is gone.
    hang_up: Signal,
}

impl Listening {
    fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let sources = {
            let _inside = runtime.enter();
            Sources {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hang_up: signal(SignalKind::hangup())?,
            }
        };
        Ok(Self { runtime, sources })
    }

    /// Never ends but with the process.
    fn run(self, tell_first: oneshot::Sender<()>, output: &Output) {
        let Self { runtime, mut sources } = self;
        let name = runtime.block_on(sources.next());
        let first = Instant::now();
        tracing::info!("{name}: stopping; once more aborts");
        // A host that is ending already does not listen.
        let _ = tell_first.send(());
        let mut name = runtime.block_on(sources.next());
        while first.elapsed() < ECHO {
            name = runtime.block_on(sources.next());
        }
        tracing::warn!("{name} again: aborting");
        output.flush(LAST_LINES);
        std::process::exit(ABORTED);
    }
}

impl Sources {
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}
