//! What the actors of a run share: the folder, the operator's file, and the books in which they write what they do.
//!
//! Invariant: the log is read on by whoever asks it, each line once.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::sync::Mutex as Turn;

use super::config::ConfigFile;
use super::history::now;
use super::model::Records;
use super::news::Log;
use super::plan::Fixtures;

/// The longest that a step may take to have its effect, on a busy machine.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// See the file's head.
pub struct Stage {
    /// The plugins folder.
    pub folder: PathBuf,
    /// What builds are made of.
    pub fixtures: Fixtures,
    /// A component of another world.
    pub other_world: Vec<u8>,
    /// The operator's file.
    pub config: Turn<ConfigFile>,
    /// What was done, for the model.
    pub records: Mutex<Records>,
    /// What was done, for people.
    pub diary: Mutex<Vec<String>>,
    /// What Hark's log says.
    pub log: Mutex<Log>,
    /// Builds so far.
    pub builds: AtomicU32,
    /// Steps so far.
    pub steps: AtomicUsize,
}

impl Stage {
    /// The model's books.
    pub fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log, read on.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn log(&self) -> Result<MutexGuard<'_, Log>> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.read()?;
        Ok(log)
    }

    /// Writes down a step, for people.
    pub(super) fn note(&self, plugin: &str, what: &str) {
        let number = self.steps.load(Ordering::Relaxed);
        let entry = format!("{} step {number} {plugin}: {what}", now());
        self.diary.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }
}

/// Waits until the log says something.
pub(super) async fn soon(what: &str, said: impl Fn() -> Result<bool>) -> Result<()> {
    let begun = tokio::time::Instant::now();
    while !said()? {
        if begun.elapsed() > LIMIT {
            bail!("the log does not say {what}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
