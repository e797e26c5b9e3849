//! The trace: one JSON line for each delivery attempt. Field names and meanings are part of Hark's contract
//! (design section 6) and are written for every line, null where there is nothing to say.
//!
//! Written by [`super::Output`], read by tests and by anybody who must prove what was delivered. Invariants: a
//! line is written whole, by one write, before the next event of the plugin is begun, so a trace that hangs holds up
//! the plugins, and nobody else; what cannot be written is counted.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hark_informer::handler::Event;
use serde::Serialize;

use super::Attempt;
use crate::lines::WholeLines;

/// The trace file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open trace file {}: {source}", path.display())]
pub(crate) struct TraceError {
    path: PathBuf,
    source: std::io::Error,
}

/// An open trace.
pub(crate) struct Trace {
    file: Mutex<TraceFile>,
    name: String,
    /// Since the start. Beside the lock, which is held for as long as a write takes.
    lost: AtomicU64,
}

struct TraceFile {
    lines: WholeLines<File>,
    /// Lines lost since it began to fail.
    failed: u64,
}

/// One line.
#[derive(Serialize)]
struct Line<'a> {
    /// End of the attempt, RFC 3339 with microseconds.
    ts: String,
    plugin: &'a str,
    /// 1 for the first version that ran in this host, one more after each reload.
    generation: u64,
    /// The subscription's name.
    subscription: &'a str,
    op: &'static str,
    key: String,
    uid: &'a str,
    rv: &'a str,
    old_rv: Option<&'a str>,
    initial: bool,
    resync: bool,
    reason: Option<&'static str>,
    attempt: u32,
    outcome: &'static str,
    micros: u64,
    seq: u64,
}

impl Trace {
    /// Opens a file for appending; `-` is standard output.
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        let file = if path == Path::new("-") {
            // Without the standard library's buffer, which would keep what cannot be written.
            io::stdout().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::options().create(true).append(true).open(path)
        };
        let file = file.map_err(|source| TraceError { path: path.to_owned(), source })?;
        let file = Mutex::new(TraceFile { lines: WholeLines::new(file), failed: 0 });
        Ok(Self { file, name: path.display().to_string(), lost: AtomicU64::new(0) })
    }

    /// Writes one line. A failing file is reported when it begins to fail and when it works again, and tried again each
    /// time.
    pub(crate) fn write(&self, attempt: &Attempt<'_>) {
        let name = &self.name;
        match self.try_write(attempt) {
            Ok(0) => {}
            Ok(lost) => tracing::warn!("trace {name} works again: {lost} lines are lost"),
            Err((error, 1)) => tracing::error!("trace {name}: {error}: lines are being lost"),
            Err(_) => {}
        }
    }

    /// How many lines before this one were lost in a row, or why it is lost, and how many are by now.
    fn try_write(&self, attempt: &Attempt<'_>) -> Result<u64, (io::Error, u64)> {
        let line = serde_json::to_vec(&Line::new(attempt)).map_err(io::Error::from);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = line.and_then(|mut line| {
            line.push(b'\n');
            file.lines.write(&line)
        });
        match written {
            Ok(()) => Ok(std::mem::take(&mut file.failed)),
            Err(error) => {
                file.failed += 1;
                self.lost.fetch_add(1, Ordering::Relaxed);
                Err((error, file.failed))
            }
        }
    }

    /// Lines lost since the start.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl<'a> Line<'a> {
    fn new(attempt: &Attempt<'a>) -> Self {
        let delivery = attempt.delivery;
        let object = delivery.event.object();
        let (mut old_rv, mut initial, mut resync, mut reason) = (None, false, false, None);
        match &delivery.event {
            Event::Add { initial: is_initial, .. } => initial = *is_initial,
            Event::Update { old, resync: is_resync, .. } => {
                old_rv = Some(old.resource_version());
                resync = *is_resync;
            }
            Event::Delete { reason: why, .. } => reason = Some(why.as_str()),
        }
        Self {
            ts: format!("{:.6}", jiff::Timestamp::now()),
            plugin: attempt.plugin,
            generation: attempt.generation,
            subscription: attempt.subscription,
            op: delivery.event.op(),
            key: object.key().to_string(),
            uid: object.uid(),
            rv: object.resource_version(),
            old_rv,
            initial,
            resync,
            reason,
            attempt: delivery.attempt,
            outcome: attempt.outcome.as_str(),
            micros: u64::try_from(attempt.took.as_micros()).unwrap_or(u64::MAX),
            seq: delivery.sequence,
        }
    }
}
