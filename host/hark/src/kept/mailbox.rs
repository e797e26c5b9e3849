//! What waits to be written: the newest word on each plugin, and the bytes that it speaks of.
//!
//! Filled by the manager, emptied by the thread that writes. Invariants: neither waits for the other, but the thread for
//! something to do; there is at most one entry a plugin, with the bytes of two versions; all bytes together are no more than
//! [`BYTES_MAX`], beyond which the file that they came from is read again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use hark_sandbox::ContentHash;
use tokio::sync::oneshot;

use super::record::Record;
use super::unpoisoned;
use crate::plugins::content::Content;

/// Bytes of contents that are held in memory.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// A content that has just been read.
#[derive(Clone)]
pub(crate) struct Fresh {
    pub(crate) hash: ContentHash,
    /// Where it came from, and most likely still is.
    pub(crate) path: PathBuf,
    /// None where that would be too many.
    pub(crate) bytes: Option<Arc<Content>>,
}

/// What is new of a plugin.
#[derive(Default)]
pub(super) struct Update {
    pub(super) record: Record,
    pub(super) fresh: Vec<Fresh>,
}

/// See the file's head.
#[derive(Default)]
pub(super) struct Mailbox {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    updates: BTreeMap<String, Update>,
    closing: Option<oneshot::Sender<()>>,
    closed: bool,
}

/// What the thread is to do.
pub(super) struct Mail {
    pub(super) updates: BTreeMap<String, Update>,
    /// Who waits for the end, if it has come.
    pub(super) closing: Option<oneshot::Sender<()>>,
}

impl Mailbox {
    pub(super) fn put(&self, plugin: &str, record: Record, fresh: Option<Fresh>) {
        let mut waiting = unpoisoned(&self.waiting);
        if waiting.closed {
            return;
        }
        let held: usize = waiting.updates.values().flat_map(|update| &update.fresh).map(Fresh::held).sum();
        let update = waiting.updates.entry(plugin.to_owned()).or_default();
        update.fresh.extend(fresh.map(|fresh| {
            let fits = held + fresh.held() <= BYTES_MAX;
            Fresh { bytes: fresh.bytes.filter(|_| fits), ..fresh }
        }));
        update.fresh.retain(|fresh| record.contents().any(|hash| hash == fresh.hash));
        update.record = record;
        drop(waiting);
        self.changed.notify_one();
    }

    /// Nothing more comes. The thread says so when all of it is written, or drops the sender.
    pub(super) fn close(&self) -> oneshot::Receiver<()> {
        let (done, closed) = oneshot::channel();
        let mut waiting = unpoisoned(&self.waiting);
        if !waiting.closed {
            waiting.closed = true;
            waiting.closing = Some(done);
        }
        drop(waiting);
        self.changed.notify_one();
        closed
    }

    /// Waits for something to do, or for so long.
    pub(super) fn take(&self, patience: Duration) -> Mail {
        let waiting = unpoisoned(&self.waiting);
        let idle = |waiting: &mut Waiting| waiting.updates.is_empty() && waiting.closing.is_none();
        let waited = self.changed.wait_timeout_while(waiting, patience, idle);
        let (mut waiting, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        Mail { updates: std::mem::take(&mut waiting.updates), closing: waiting.closing.take() }
    }
}

impl Fresh {
    /// Bytes that it keeps in memory.
    pub(super) fn held(&self) -> usize {
        self.bytes.as_ref().map_or(0, |bytes| bytes.len())
    }
}
