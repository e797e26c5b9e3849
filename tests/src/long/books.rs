//! The ledgers of all plugins, fed from the trace as it is written.
//!
//! One task reads the trace's pipe to its end; others look at the ledgers meanwhile. Invariant: every line is entered
//! into exactly one ledger, or is an error.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::Cast;
use crate::ledger::{Entry, Ledger, NoSilence, View};

/// See the file's head. Cheap to clone; clones are the same books.
#[derive(Clone)]
pub struct Books(Arc<Mutex<Vec<(Cast, Ledger)>>>);

impl Books {
    /// Empty ledgers.
    pub fn new(cast: &[Cast]) -> Self {
        let ledgers = cast.iter().map(|one| (*one, Ledger::default()));
        Self(Arc::new(Mutex::new(ledgers.collect())))
    }

    /// Enters all lines of a trace, until it ends.
    ///
    /// # Errors
    /// If a line is none of ours.
    pub async fn keep(self, trace: impl AsyncRead + Unpin) -> Result<()> {
        let mut trace = BufReader::with_capacity(1 << 16, trace);
        let mut line = Vec::new();
        while trace.read_until(b'\n', &mut line).await? > 0 {
            let shown = || String::from_utf8_lossy(&line).into_owned();
            let entry: Entry<'_> = serde_json::from_slice(&line).with_context(shown)?;
            let mut ledgers = self.ledgers();
            let mine = ledgers.iter_mut().find(|(one, _)| one.name == entry.plugin);
            let (one, ledger) = mine.with_context(shown)?;
            if entry.generation > ledger.generation {
                ledger.turn_to(entry.generation, one.replays);
            }
            ledger.enter(&entry, &NoSilence);
            line.clear();
        }
        Ok(())
    }

    /// What every ledger says.
    pub fn each<T>(&self, ask: impl Fn(&Cast, &Ledger) -> T) -> Vec<T> {
        self.ledgers().iter().map(|(one, ledger)| ask(one, ledger)).collect()
    }

    /// The newest version that every plugin has been told of.
    pub fn newest(&self) -> u64 {
        self.each(|_, ledger| ledger.newest).into_iter().min().unwrap_or_default()
    }

    /// Whether every plugin has been told of all that the server has.
    pub fn are_even_with(&self, server: &View) -> bool {
        self.each(|_, ledger| ledger.is_even_with(server, &NoSilence)).into_iter().all(|even| even)
    }

    /// Everything that is wrong, when all should have been told.
    pub fn faults(&self, server: &View) -> Vec<String> {
        let of = |one: &Cast, ledger: &Ledger| -> Vec<String> {
            ledger
                .faults(server, &NoSilence)
                .into_iter()
                .map(|fault| format!("{}: {fault}", one.name))
                .collect()
        };
        self.each(of).concat()
    }

    fn ledgers(&self) -> MutexGuard<'_, Vec<(Cast, Ledger)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::CAST;
    use super::*;

    const LINE: &str = "{\"ts\":\"\",\"plugin\":\"NAME\",\"generation\":1,\"subscription\":\"maps\",\"op\":\"add\",\
        \"key\":\"default/a\",\"uid\":\"u\",\"rv\":\"7\",\"old_rv\":null,\"initial\":true,\"resync\":false,\
        \"reason\":null,\"attempt\":1,\"outcome\":\"ok\",\"micros\":1,\"seq\":1}\n";

    #[tokio::test]
    async fn each_line_goes_to_its_plugin_and_what_is_no_line_is_an_error() {
        let books = Books::new(&CAST);
        let trace: String = CAST.iter().map(|one| LINE.replace("NAME", one.name)).collect();
        books.clone().keep(trace.as_bytes()).await.expect("lines of ours");
        assert_eq!(books.each(|one, ledger| (one.name, ledger.done)), CAST.map(|one| (one.name, 1)));
        assert_eq!((books.newest(), books.faults(&View::new()).len()), (7, 4), "the server has nothing");
        for wrong in [LINE.replace("NAME", "stranger"), "{}\n".to_owned()] {
            assert!(books.clone().keep(wrong.as_bytes()).await.is_err(), "{wrong}");
        }
    }
}
