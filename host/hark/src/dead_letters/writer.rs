//! The thread that writes dead letters to the disk, so that a plugin waits for none but a full channel.
//!
//! Owned by the host's dead letters. Invariants: what was sent is written in its order; what cannot be written, or has
//! no folder yet, is tried again, up to [`UNSAVED`] letters, and said once; the thread has the cluster's folder for as
//! long as it runs, and ends after [`Writer::close`] or with its last sender.

use std::collections::HashSet;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;

use super::file::LetterFile;
use super::letter::Letter;
use crate::state_folder::StatePlace;

/// Jobs that wait before plugins do.
const WAITING: usize = 64;

/// Letters that are held while the disk refuses them; beyond, the oldest are lost, and that is said.
const UNSAVED: usize = 1000;

/// When what could not be written is tried again, unless something else comes before.
const AGAIN: Duration = Duration::from_secs(5);

/// How long the end of the host waits for a slow disk.
const CLOSING: Duration = Duration::from_secs(5);

/// Time between two looks for room then.
const ROOM: Duration = Duration::from_millis(10);

/// See the file's head.
pub(crate) struct Writer {
    jobs: SyncSender<Job>,
}

enum Job {
    Keep(Box<Letter>),
    Remove(Vec<String>),
    /// What came before is written, and the thread ends.
    Close(oneshot::Sender<()>),
}

impl Writer {
    /// Starts the thread. A folder that is not taken yet, the thread takes when it can.
    ///
    /// # Errors
    /// If the system gives none.
    pub(crate) fn spawn(place: StatePlace) -> io::Result<Self> {
        let (jobs, inbox) = sync_channel(WAITING);
        let work = Work::new(place);
        std::thread::Builder::new().name("dead-letters".to_owned()).spawn(move || work.run(&inbox))?;
        Ok(Self { jobs })
    }

    /// Keeps a letter. Waits while [`WAITING`] jobs do.
    pub(crate) fn keep(&self, letter: Letter) {
        if let Err(lost) = self.jobs.send(Job::Keep(Box::new(letter)))
            && let Job::Keep(letter) = lost.0
        {
            tracing::error!("the host is ending: the dead letter of {} is not kept", letter.key);
        }
    }

    /// Removes letters.
    pub(crate) fn remove(&self, ids: Vec<String>) {
        if !ids.is_empty() {
            // At the host's end they stay, and are replayed once more by whoever wants that.
            let _ = self.jobs.send(Job::Remove(ids));
        }
    }

    /// Waits until what was sent is written, within [`CLOSING`].
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        let closing = async {
            let mut job = Job::Close(done);
            // Sending would block while there is no room, and there may be no thread to block.
            while let Err(TrySendError::Full(back)) = self.jobs.try_send(job) {
                job = back;
                tokio::time::sleep(ROOM).await;
            }
            // A thread that has ended has written what it was sent.
            let _ = closed.await;
        };
        if tokio::time::timeout(CLOSING, closing).await.is_err() {
            tracing::error!("the disk is too slow: dead letters may be lost");
        }
    }
}

/// What the thread has in hand.
struct Work {
    place: StatePlace,
    file: LetterFile,
    /// Not on the disk yet.
    unsaved: Vec<Letter>,
    /// Still on the disk.
    removed: HashSet<String>,
    failing: bool,
}

impl Work {
    fn new(place: StatePlace) -> Self {
        let (file, failing) = (LetterFile::in_folder(&place.path()), !place.is_taken());
        Self { place, file, unsaved: Vec::new(), removed: HashSet::new(), failing }
    }

    fn run(mut self, inbox: &Receiver<Job>) {
        loop {
            let first = match inbox.recv_timeout(AGAIN) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return self.write(),
            };
            let mut closing = None;
            // What waits is written together: one sync for all of it.
            for job in first.into_iter().chain(inbox.try_iter()) {
                match job {
                    Job::Keep(letter) => self.unsaved.push(*letter),
                    Job::Remove(ids) => self.removed.extend(ids),
                    Job::Close(done) => {
                        closing = Some(done);
                        break;
                    }
                }
            }
            self.write();
            if let Some(done) = closing {
                // The folder is free of it before anybody hears of it.
                drop(self);
                // Whoever waited may have given up.
                let _ = done.send(());
                return;
            }
        }
    }

    fn write(&mut self) {
        if self.unsaved.is_empty() && self.removed.is_empty() && self.place.is_taken() {
            return;
        }
        match self.try_write() {
            Ok(()) => self.written(),
            Err(error) => self.failed(&error),
        }
    }

    fn written(&mut self) {
        if std::mem::take(&mut self.failing) {
            tracing::info!("dead letters are kept again in {}", self.file.path().display());
        }
    }

    fn try_write(&mut self) -> io::Result<()> {
        self.place.take().map_err(io::Error::other)?;
        if !self.unsaved.is_empty() {
            let dropped = self.file.append(&self.unsaved)?;
            self.unsaved.clear();
            if dropped > 0 {
                let path = self.file.path().display();
                tracing::warn!("{path}: too many dead letters: the {dropped} oldest are dropped");
            }
        }
        self.file.remove(&self.removed)?;
        self.removed.clear();
        Ok(())
    }

    fn failed(&mut self, error: &io::Error) {
        if !self.failing {
            let path = self.file.path().display();
            tracing::error!("cannot write dead letters to {path}: {error}; trying again");
            self.failing = true;
        }
        let lost = self.unsaved.len().saturating_sub(UNSAVED);
        if lost > 0 {
            self.unsaved.drain(..lost);
            tracing::error!("{lost} dead letters are lost: they could not be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::state_folder::Cluster;

    fn letter(id: u32) -> Letter {
        let text = format!(
            r#"{{"id":"{id:012x}","time":"t","plugin":"p","plugin_sha256":"h","generation":1,"subscription":"s",
            "api_version":"v1","kind":"Pod","op":"add","key":"n/a","uid":"u","rv":"1","reason":null,"attempts":1,
            "outcome":"trap","message":null,"object":null}}"#
        );
        serde_json::from_str(&text).expect("a letter")
    }

    fn ids(file: &LetterFile) -> Vec<String> {
        file.read().expect("read").letters.into_iter().map(|letter| letter.id).collect()
    }

    /// The folder of a cluster in a state folder that is made as it is taken.
    fn place(state: &Path) -> StatePlace {
        StatePlace::new(state, &Cluster::dev(), None)
    }

    #[tokio::test]
    async fn closing_waits_for_everything_that_was_sent_in_its_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = LetterFile::in_folder(&place(folder.path()).path());
        let writer = Writer::spawn(place(folder.path())).expect("a thread");
        for id in 0..200 {
            writer.keep(letter(id));
        }
        writer.remove((0..199).map(|id| letter(id).id).collect());
        writer.close().await;
        assert_eq!(ids(&file), [letter(199).id]);
        // It has ended, and says so.
        writer.keep(letter(7));
        writer.close().await;
        assert_eq!(ids(&file), [letter(199).id]);
    }

    #[test]
    fn what_the_disk_refuses_is_held_and_written_later_and_of_too_many_the_oldest_are_lost() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(folder.path());
        place.take().expect("taken");
        let file = LetterFile::in_folder(&place.path());
        std::fs::create_dir(file.path()).expect("in the way");
        let mut work = Work::new(place);
        work.unsaved = (0..).map(letter).take(UNSAVED + 3).collect();
        work.write();
        assert_eq!((work.unsaved.len(), work.failing), (UNSAVED, true));
        std::fs::remove_dir(file.path()).expect("out of the way");
        work.write();
        assert_eq!((work.unsaved.len(), work.failing), (0, false));
        assert_eq!((ids(&file).len(), ids(&file).first().cloned()), (UNSAVED, Some(letter(3).id)));
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_had_at_first_is_taken_later_and_what_came_meanwhile_is_kept() {
        let above = tempfile::tempdir().expect("a folder");
        let state = above.path().join("state");
        std::fs::write(&state, "in the way").expect("written");
        let mut work = Work::new(place(&state));
        assert!(work.failing, "that was said when it was opened");
        work.unsaved = vec![letter(1)];
        work.write();
        assert_eq!((work.unsaved.len(), work.failing, work.place.is_taken()), (1, true, false));
        std::fs::remove_file(&state).expect("out of the way");
        work.write();
        assert_eq!((work.unsaved.len(), work.failing, work.place.is_taken()), (0, false, true));
        assert_eq!(ids(&work.file), [letter(1).id]);
        assert!(place(&state).take().is_err(), "the thread has it");
        drop(work);
        place(&state).take().expect("free again");
    }
}
