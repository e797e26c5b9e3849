//! Where one client's listeners write down what they are told, and where the player waits for it.
//!
//! Used by both clients. Invariant: events of a listener stand in the order in which it was told.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::event::Event;
use super::stage::Held;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    book: Mutex<Book>,
    written: watch::Sender<()>,
}

/// What has been written down.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// By listener.
    pub(super) told: BTreeMap<String, Vec<Event>>,
    /// How many informers a listener has left.
    pub(super) left: BTreeMap<String, usize>,
    /// Caches that were asked for, by key.
    pub(super) caches: Vec<BTreeMap<String, Held>>,
    /// What a client reported as wrong.
    pub(super) errors: Vec<String>,
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, Book> {
        // A book of whole lines is never half written.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes something down.
    pub(super) fn write(&self, line: impl FnOnce(&mut Book)) {
        line(&mut self.lock());
        self.written.send_replace(());
    }

    /// Looks something up.
    pub(super) fn read<R>(&self, look: impl FnOnce(&Book) -> R) -> R {
        look(&self.lock())
    }

    /// Waits until that is so.
    pub(super) async fn until(&self, mut is_so: impl FnMut(&Book) -> bool) {
        let mut written = self.written.subscribe();
        loop {
            written.mark_unchanged();
            if is_so(&self.lock()) {
                return;
            }
            if written.changed().await.is_err() {
                return; // the sender is in `self`
            }
        }
    }
}
