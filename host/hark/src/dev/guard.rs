//! The process that a build runs in the care of: `hark run-build`, started by [`super::runner`] alone.
//!
//! It is there so that nothing of a build outlives Hark, however Hark ends. It has a session of its own, so that keys
//! pressed in Hark's terminal are Hark's alone and a build that asks for a password fails instead of waiting; the command
//! has a process group of its own in it. Standard input is a lifeline: when it ends, the group is ended, with SIGTERM,
//! after [`PATIENCE`] with SIGKILL. The same befalls what a command leaves running behind it. Standard error is the
//! command's output, both streams; standard output has one line of JSON, the [`Report`].
//!
//! Invariant: it ends when the group is empty, not before. What leaves the group on purpose (`setsid`, as the daemons of
//! build tools do) is left alone.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};
use serde::{Deserialize, Serialize};

use crate::cli::RunBuildArgs;
use crate::descriptors;

/// The hidden subcommand.
pub(crate) const SUBCOMMAND: &str = "run-build";

/// How long a process group may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ending {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It never ran, for this reason.
    NotStarted(String),
    /// That is not known, for this reason.
    Lost(String),
}

/// What the process says when it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) ending: Ending,
    /// Processes that still ran when the command was done, and were ended.
    pub(super) left: usize,
    /// From the command's start to its end.
    pub(super) took: Duration,
}

/// What the main thread is told by the others.
enum Told {
    /// The lifeline has ended.
    Unwanted,
    /// The command has ended; others of its group may still run.
    Ended(Ending),
    /// The group is empty; so many were ended by a signal after the command had ended.
    Empty(usize),
}

/// Runs the command and says what became of it.
pub(crate) fn run(args: &RunBuildArgs) -> ExitCode {
    let report = guarded(args).unwrap_or_else(|reason| Report {
        ending: Ending::NotStarted(reason),
        left: 0,
        took: Duration::ZERO,
    });
    let said = serde_json::to_string(&report).map_err(io::Error::other);
    // If Hark is gone, nobody wants to know.
    match said.and_then(|line| writeln!(io::stdout(), "{line}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn guarded(args: &RunBuildArgs) -> Result<Report, String> {
    // Both fail only where they hold already, or the system is not the one that Hark is built for.
    process::setsid().map_err(|error| format!("no session of its own is to be had: {error}"))?;
    process::set_child_subreaper(Some(process::getpid()))
        .map_err(|error| format!("the system hands over no orphans: {error}"))?;
    if let Some(files) = args.files {
        descriptors::set_limit(files)
            .map_err(|error| format!("it may not have {files} files open: {error}"))?;
    }
    let begun = Instant::now();
    let group = start(&args.folder, &args.command)?;
    let (sender, told) = mpsc::channel();
    let threads = [
        thread("lifeline", sender.clone(), |sender| lifeline(&sender)),
        thread("command", sender, move |sender| until_empty(group, &sender)),
    ];
    if let Some(error) = threads.into_iter().find_map(Result::err) {
        // Unguarded, it must not run. What cannot be ended has ended.
        let _ = process::kill_process_group(group, Signal::KILL);
        return Err(format!("no thread to be had: {error}"));
    }
    Ok(guard(group, &told, begun))
}

/// Starts the command as the first of a process group.
fn start(folder: &Path, command: &str) -> Result<Pid, String> {
    if !folder.is_dir() {
        return Err(format!("there is no folder {}", folder.display()));
    }
    let output = || io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
    let both = output().and_then(|first| Ok((first, output()?)));
    let (out, err) = both.map_err(|error| format!("no descriptor to be had: {error}"))?;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder).process_group(0);
    let child = shell.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
    let child = child.map_err(|error| format!("cannot run sh: {error}; it must be in a folder of $PATH"))?;
    Ok(Pid::from_child(&child))
}

fn thread(
    name: &str,
    sender: Sender<Told>,
    work: impl FnOnce(Sender<Told>) + Send + 'static,
) -> io::Result<()> {
    Builder::new().name(name.to_owned()).spawn(move || work(sender)).map(drop)
}

/// Waits until Hark has let go of the other end, or is gone.
fn lifeline(sender: &Sender<Told>) {
    let mut rest = [0; 64];
    loop {
        match io::stdin().read(&mut rest) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
        }
    }
    // The receiver is gone only when all is done.
    let _ = sender.send(Told::Unwanted);
}

/// Waits for the command, then for every other process of its group: they are all this process's own to wait for once
/// their parents are gone, since it takes orphans.
fn until_empty(group: Pid, sender: &Sender<Told>) {
    let ending = match wait(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
        Ok(Some(status)) => ending(status),
        Ok(None) => Ending::Lost("the system does not say how it ended".to_owned()),
        Err(error) => Ending::Lost(format!("the system does not say how it ended: {error}")),
    };
    // As above.
    let _ = sender.send(Told::Ended(ending));
    let mut left = 0;
    // The command itself is among them: it was left unreaped, so that its number stays the group's.
    let mut first = true;
    while let Ok(Some(status)) = wait(WaitId::Pgid(Some(group)), WaitIdOptions::EXITED) {
        left += usize::from(!first && status.terminating_signal().is_some());
        first = false;
    }
    let _ = sender.send(Told::Empty(left));
}

fn wait(of: WaitId<'_>, options: WaitIdOptions) -> Result<Option<WaitIdStatus>, Errno> {
    rustix::io::retry_on_intr(|| process::waitid(of.clone(), options))
}

fn ending(status: WaitIdStatus) -> Ending {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, Some(signal)) => Ending::Killed(signal),
        (None, None) => Ending::Lost("the system does not say how it ended".to_owned()),
    }
}

/// Ends the group when it is unwanted, or left behind; returns when it is empty.
fn guard(group: Pid, told: &Receiver<Told>, begun: Instant) -> Report {
    let lost = Ending::Lost("the thread that waits for it has ended".to_owned());
    let mut report = Report { ending: lost, left: 0, took: Duration::ZERO };
    let mut kill_at: Option<Instant> = None;
    loop {
        let next = match kill_at {
            Some(time) => told.recv_timeout(time.saturating_duration_since(Instant::now())),
            None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        // A group that is empty by now cannot be ended: no error.
        match next {
            Ok(Told::Empty(left)) => return Report { left, ..report },
            Ok(Told::Ended(ending)) => {
                (report.ending, report.took) = (ending, begun.elapsed());
                let _ = process::kill_process_group(group, Signal::TERM);
                kill_at = kill_at.or(Some(Instant::now() + PATIENCE));
            }
            Ok(Told::Unwanted) => {
                let _ = process::kill_process_group(group, Signal::TERM);
                kill_at = kill_at.or(Some(Instant::now() + PATIENCE));
            }
            Err(RecvTimeoutError::Timeout) => {
                let _ = process::kill_process_group(group, Signal::KILL);
                // Again, if somebody in the group was just making a child.
                kill_at = Some(Instant::now() + Duration::from_millis(100));
            }
            Err(RecvTimeoutError::Disconnected) => return report,
        }
    }
}
