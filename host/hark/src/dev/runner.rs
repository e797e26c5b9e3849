//! Runs a build's command, and ends it.
//!
//! Used by [`super::builder`]. The command runs in the care of [`super::guard`], a process of this program. Invariants:
//! nobody waits for the command's pipe, neither Hark (a task of its own reads it, into a bounded [`Kept`]) nor, for longer
//! than [`LAST`], what a process that has left the group may still write to it; dropping a [`Run`] ends the command.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::guard::{Ending, Report, SUBCOMMAND};
use super::kept::Kept;
use crate::artefacts::THIS_PROGRAM;

/// How long output is read that is in the pipe when all is over.
const LAST: Duration = Duration::from_millis(200);

/// Bytes of the longest report.
const LONGEST_REPORT: u64 = 64 << 10;

/// What is to be run.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// For `sh -c`.
    pub(super) command: String,
    /// Where.
    pub(super) folder: PathBuf,
    /// How many files it may have open; none: no bound.
    pub(super) files: Option<u64>,
    /// `HARK_PLUGINS` of its environment: where built plugins belong, absolute.
    pub(super) plugins: PathBuf,
    /// Whether its output is shown on a terminal, in colours.
    pub(super) colours: bool,
}

/// A command under way.
pub(super) struct Run {
    /// Dropped, it ends the command.
    lifeline: Option<ChildStdin>,
    kept: Arc<Mutex<Kept>>,
    following: JoinHandle<Report>,
    pub(super) began: Instant,
}

/// A command that is over.
pub(super) struct Finished {
    pub(super) report: Report,
    pub(super) kept: Kept,
}

impl Run {
    /// Starts the command. That it cannot be run may also be found out later, by [`Run::finished`].
    ///
    /// # Errors
    /// If the system gives no process.
    pub(super) fn start(job: &Job) -> io::Result<Self> {
        let mut guard = Command::new(THIS_PROGRAM);
        guard.arg(SUBCOMMAND);
        if let Some(files) = job.files {
            guard.args(["--files", &files.to_string()]);
        }
        guard.arg("--").arg(&job.folder).arg(&job.command);
        guard.env("HARK_PLUGINS", &job.plugins);
        if job.colours && std::env::var_os("CARGO_TERM_COLOR").is_none() {
            // It looks at its own output, which is a pipe.
            guard.env("CARGO_TERM_COLOR", "always");
        }
        let mut child = guard.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let kept = Arc::new(Mutex::new(Kept::default()));
        let lifeline = child.stdin.take();
        let following = tokio::spawn(follow(child, kept.clone()));
        Ok(Self { lifeline, kept, following, began: Instant::now() })
    }

    /// Ends the command and all of its group.
    pub(super) fn end(&mut self) {
        self.lifeline = None;
    }

    /// The last line that it has written.
    pub(super) fn last_line(&self) -> Option<String> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).last_line()
    }

    /// Waits until the command and its group have ended. To be called until it has answered, not again.
    pub(super) async fn finished(&mut self) -> Finished {
        let lost = |error| report(Ending::Lost(format!("whoever follows it has ended: {error}")));
        let report = (&mut self.following).await.unwrap_or_else(lost);
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        Finished { report, kept }
    }
}

impl Finished {
    /// Of a command that was not to be started.
    pub(super) fn not_started(error: &io::Error) -> Self {
        let ending = Ending::NotStarted(format!("the system gives no process: {error}"));
        Self { report: report(ending), kept: Kept::default() }
    }
}

fn report(ending: Ending) -> Report {
    Report { ending, left: 0, took: Duration::ZERO }
}

async fn follow(mut child: Child, kept: Arc<Mutex<Kept>>) -> Report {
    let (output, said) = (child.stderr.take(), child.stdout.take());
    let mut reading = std::pin::pin!(read(output, &kept));
    let ended = async {
        let mut line = String::new();
        if let Some(said) = said
            && let Err(error) = said.take(LONGEST_REPORT).read_to_string(&mut line).await
        {
            line = error.to_string();
        }
        (line, child.wait().await)
    };
    let mut ended = std::pin::pin!(ended);
    let (line, status) = tokio::select! {
        ended = &mut ended => {
            // Whatever has left the group may hold the pipe for ever.
            let _ = tokio::time::timeout(LAST, reading).await;
            ended
        }
        () = &mut reading => ended.await,
    };
    serde_json::from_str(&line).unwrap_or_else(|_| {
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        report(Ending::Lost(format!("the process that it ran under ended without a report ({how})")))
    })
}

/// Reads until there is no more.
async fn read(output: Option<impl AsyncRead + Unpin>, kept: &Mutex<Kept>) {
    let Some(mut output) = output else { return };
    let mut buffer = vec![0; 64 << 10];
    // A pipe that cannot be read has no more to tell.
    while let Ok(count @ 1..) = output.read(&mut buffer).await {
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..count]);
    }
}
