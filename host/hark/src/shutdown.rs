//! Signals: the first one asks for an orderly end, the second one ends at once.
//!
//! Used by the commands. Invariant: after [`Signals::first`] has answered, a second signal ends the process
//! with code 130, whatever the rest of the program is doing (design 4.14). One that comes with the first is not a
//! second one.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// Signals so close to the first one are the same wish: `timeout` signals a process and its group, a terminal's end
/// comes with more than one.
const ECHO: Duration = Duration::from_millis(250);

/// Exit code after a second signal, as shells give it for an interrupted program.
const ABORTED: i32 = 130;

/// SIGINT, SIGTERM and SIGHUP, from the moment it is made.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal is gone.
    hang_up: Signal,
}

impl Signals {
    /// Takes the signals over from their defaults.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the first signal and arms the second.
    pub(crate) async fn first(mut self) -> &'static str {
        let name = self.next().await;
        let first = Instant::now();
        tokio::spawn(async move {
            let mut name = self.next().await;
            while first.elapsed() < ECHO {
                name = self.next().await;
            }
            tracing::warn!("{name} again: aborting");
            std::process::exit(ABORTED);
        });
        name
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}
