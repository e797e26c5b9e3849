//! The thread that writes down what is kept, so that nobody waits for the disk.
//!
//! Started with the host; it has the cluster's folder for as long as it runs, and ends when the host does. Invariants: a
//! content is on the disk before the document speaks of it, and goes after it; what the disk refuses is tried again, and said
//! once; contents are no more than [`TOTAL`] together: the oldest go, those of plugins that were rolled back last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hark_sandbox::ContentHash;

use super::folder::KeptFolder;
use super::mailbox::{BYTES_MAX, Fresh, Mail, Mailbox};
use super::record::Record;
use crate::state_folder::StatePlace;

/// Bytes of all contents together.
const TOTAL: u64 = 1 << 30;

/// When what could not be written is tried again, unless something else comes before.
const AGAIN: Duration = Duration::from_secs(5);

/// With nothing to write: until something comes.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// Starts the thread.
///
/// # Errors
/// If the system gives none.
pub(super) fn spawn(
    place: StatePlace,
    folder: KeptFolder,
    recalled: BTreeMap<String, Record>,
    mailbox: Arc<Mailbox>,
) -> io::Result<()> {
    let work = Work::new(place, folder, recalled);
    std::thread::Builder::new().name("kept-versions".to_owned()).spawn(move || work.run(&mailbox)).map(drop)
}

/// What the thread has in hand.
pub(super) struct Work {
    place: StatePlace,
    folder: KeptFolder,
    /// What the document is to say.
    records: BTreeMap<String, Record>,
    /// Contents that are not on the disk yet.
    unwritten: HashMap<ContentHash, Fresh>,
    /// The disk may not have what is here.
    behind: bool,
    failing: bool,
    total: u64,
}

impl Work {
    pub(super) fn new(place: StatePlace, folder: KeptFolder, recalled: BTreeMap<String, Record>) -> Self {
        let unwritten = HashMap::new();
        Self { place, folder, records: recalled, unwritten, behind: false, failing: false, total: TOTAL }
    }

    fn run(mut self, mailbox: &Mailbox) {
        self.sweep_after_a_kill();
        loop {
            self.write();
            let Mail { updates, closing } = mailbox.take(if self.behind { AGAIN } else { FOR_EVER });
            for (plugin, update) in updates {
                self.update(plugin, update.record, update.fresh);
            }
            if let Some(done) = closing {
                self.write();
                // The folder is free of it before anybody hears of it.
                drop(self);
                // Whoever waited may have given up.
                let _ = done.send(());
                return;
            }
        }
    }

    /// A host that was killed may have left what its document did not speak of any more, or not yet. If there is no document
    /// to go by, that waits for the first that is written.
    pub(super) fn sweep_after_a_kill(&self) {
        if !self.records.is_empty() && self.place.take().is_ok() {
            // What cannot be removed now is removed, or complained of, when something is written.
            let _ = self.folder.sweep(&self.wanted());
        }
    }

    pub(super) fn update(&mut self, plugin: String, record: Record, fresh: Vec<Fresh>) {
        self.behind = true;
        self.unwritten.extend(fresh.into_iter().map(|fresh| (fresh.hash, fresh)));
        if record.is_empty() {
            self.records.remove(&plugin);
        } else {
            self.records.insert(plugin, record);
        }
    }

    pub(super) fn write(&mut self) {
        if !self.behind {
            return;
        }
        match self.try_write() {
            Ok(()) => {
                self.behind = false;
                if std::mem::take(&mut self.failing) {
                    tracing::info!("versions are kept again in {}", self.folder.path().display());
                }
            }
            Err(error) => {
                self.let_go_of_bytes();
                if !std::mem::replace(&mut self.failing, true) {
                    let path = self.folder.path().display();
                    tracing::error!(
                        "cannot keep versions in {path}: {error}; rolling back works until the host ends; trying again"
                    );
                }
            }
        }
    }

    /// The disk may be full for hours: no more bytes are held for it than wait in the mailbox. Those of the others may
    /// still be in their files by then.
    fn let_go_of_bytes(&mut self) {
        let mut held = 0;
        for fresh in self.unwritten.values_mut() {
            held += fresh.held();
            if held > BYTES_MAX {
                fresh.bytes = None;
            }
        }
    }

    fn try_write(&mut self) -> io::Result<()> {
        self.place.take().map_err(io::Error::other)?;
        self.folder.make()?;
        self.write_contents()?;
        self.forget_what_is_missing();
        self.forget_beyond_total();
        self.folder.write(&self.records)?;
        self.folder.sweep(&self.wanted())
    }

    /// The contents that the records speak of.
    fn wanted(&self) -> BTreeSet<ContentHash> {
        self.records.values().flat_map(Record::contents).collect()
    }

    fn write_contents(&mut self) -> io::Result<()> {
        let wanted = self.wanted();
        self.unwritten.retain(|hash, _| wanted.contains(hash));
        let hashes: Vec<ContentHash> = self.unwritten.keys().copied().collect();
        for hash in hashes {
            let Some(fresh) = self.unwritten.get(&hash) else { continue };
            match &fresh.bytes {
                Some(bytes) => self.folder.write_content(&hash, bytes)?,
                // One that has changed since is missing.
                None => {
                    if let Ok(bytes) = super::read_again(&fresh.path, &hash) {
                        self.folder.write_content(&hash, &bytes)?;
                    }
                }
            }
            self.unwritten.remove(&hash);
        }
        Ok(())
    }

    /// What cannot be rolled back to is not said to be good.
    fn forget_what_is_missing(&mut self) {
        for (plugin, record) in &mut self.records {
            let missing = |hash: &ContentHash| self.folder.size_of(hash).is_none();
            record.candidate = record.candidate.filter(|hash| !missing(hash));
            if let Some(good) = record.good.take_if(|good| missing(&good.hash)) {
                tracing::warn!(
                    "{plugin}: its version {} is not kept, since its bytes are not to be had any more: it cannot be rolled back to after a restart",
                    good.hash.short()
                );
            }
        }
        self.records.retain(|_, record| !record.is_empty());
    }

    fn forget_beyond_total(&mut self) {
        loop {
            let wanted = self.wanted();
            let bytes: u64 = wanted.iter().filter_map(|hash| self.folder.size_of(hash)).sum();
            if bytes <= self.total {
                return;
            }
            let goods = self.records.iter_mut().filter_map(|(plugin, record)| {
                let good = record.good?;
                Some((record.rolled_back.is_some(), good.since, plugin, record))
            });
            // Candidates alone are not enough to be too many for long: they are good, or gone, before the next ones.
            let Some((_, _, plugin, record)) = goods.min_by_key(|(refused, since, ..)| (*refused, *since))
            else {
                return;
            };
            let hash = record.good.take().map(|good| good.hash.short()).unwrap_or_default();
            let most = self.total >> 20;
            tracing::warn!(
                "{plugin}: its version {hash} is kept no longer, since all of them have more than {most} MiB: it cannot be rolled back to after a restart"
            );
        }
    }
}

#[cfg(test)]
impl Work {
    pub(super) fn with_total(self, total: u64) -> Self {
        Self { total, ..self }
    }

    pub(super) fn state(&self) -> (&BTreeMap<String, Record>, bool, bool) {
        (&self.records, self.behind, self.failing)
    }
}
