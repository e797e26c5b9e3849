//! The trace: one JSON line for each delivery attempt. Field names and meanings are part of Hark's contract
//! (design section 6) and are written for every line, null where there is nothing to say.
//!
//! Written by [`super::Output`], read by tests and by anybody who must prove what was delivered. Invariant: a
//! line is written whole, by one write, before the next event of the plugin is begun.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use hark_informer::handler::Event;
use serde::Serialize;

use super::Attempt;

/// The trace file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open trace file {}: {source}", path.display())]
pub(crate) struct TraceError {
    path: PathBuf,
    source: std::io::Error,
}

/// An open trace.
pub(crate) struct Trace {
    out: Mutex<Box<dyn Write + Send>>,
    name: String,
    failing: AtomicBool,
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
        let out: Box<dyn Write + Send> = if path == Path::new("-") {
            Box::new(std::io::stdout())
        } else {
            let file = File::options().create(true).append(true).open(path);
            Box::new(file.map_err(|source| TraceError { path: path.to_owned(), source })?)
        };
        Ok(Self { out: Mutex::new(out), name: path.display().to_string(), failing: AtomicBool::new(false) })
    }

    /// Writes one line. A failing file is reported when it begins to fail, and tried again each time.
    pub(crate) fn write(&self, attempt: &Attempt<'_>) {
        let written =
            serde_json::to_vec(&Line::new(attempt)).map_err(std::io::Error::from).and_then(|mut line| {
                line.push(b'\n');
                let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
                out.write_all(&line)?;
                out.flush()
            });
        match written {
            Ok(()) => self.failing.store(false, Ordering::Relaxed),
            Err(error) => {
                if !self.failing.swap(true, Ordering::Relaxed) {
                    tracing::error!("trace {}: {error}: lines are being lost", self.name);
                }
            }
        }
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
