//! A stream that people read (the log, the screen), written by a thread of its own from a bounded queue.
//!
//! Used by `telemetry` for standard error and by `output` for standard output. A full disk, a pipe whose reader is gone
//! or hangs: none of it is a reason to hold a plugin back or to end. Invariants: [`Lines::push`] never waits and never
//! fails; lines are written in the order in which they were taken; what was not taken, or could not be written, is
//! counted, and said in the stream itself as soon as that works again.

mod queue;
#[cfg(test)]
mod tests;
mod whole;
mod writer;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::queue::Speaker;
use self::queue::{Bounds, Queue};
pub(crate) use self::whole::WholeLines;
use self::writer::Writer;

/// What a stream says of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Voice {
    /// Of its thread.
    pub(crate) thread: &'static str,
    /// The whole line, with its end, which says how many were lost and why.
    pub(crate) lost: fn(lost: u64, why: &str) -> String,
    /// It begins to fail: says so somewhere else, if there is such a place.
    pub(crate) failing: fn(&io::Error),
}

/// See the file's head. Clones write to the same stream; its thread ends with the last of them, when what they left
/// is written.
#[derive(Clone)]
pub(crate) struct Lines {
    owner: Arc<Owner>,
}

struct Owner(Arc<Queue>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Lines {
    /// Starts the thread for one of the process's standard streams.
    ///
    /// # Errors
    /// If the system gives no thread, or no second descriptor.
    pub(crate) fn open(stream: &impl AsFd, voice: Voice) -> io::Result<Self> {
        // A descriptor of its own: the standard library's lock would be held for as long as a write hangs, and its
        // buffer would hide what failed.
        Self::spawn(File::from(stream.as_fd().try_clone_to_owned()?), voice, Bounds::default())
    }

    fn spawn(out: impl Write + Send + 'static, voice: Voice, bounds: Bounds) -> io::Result<Self> {
        let queue = Arc::new(Queue::new(bounds));
        let writer = Writer::new(queue.clone(), out, voice);
        std::thread::Builder::new().name(voice.thread.to_owned()).spawn(move || writer.run())?;
        Ok(Self { owner: Arc::new(Owner(queue)) })
    }

    /// Takes one line, with its end, if there is room.
    pub(crate) fn push(&self, speaker: Speaker, line: &[u8]) {
        self.owner.0.push(speaker, line);
    }

    /// Lines that were not taken or could not be written, since the start.
    pub(crate) fn lost(&self) -> u64 {
        self.owner.0.lost()
    }

    /// Waits until everything that was taken is written, or given up, but no longer than `limit`.
    pub(crate) fn flush(&self, limit: Duration) {
        self.owner.0.flush(limit);
    }
}
