//! The thread that writes a stream's lines.
//!
//! Owned by the stream's [`super::Lines`]. Nobody but it is held up by a stream that hangs. A stream that fails is
//! tried again with each line, and every now and then without one. Invariant: the line that says how much was lost
//! stands where it was lost, if the stream failed; if it was too slow, it comes at most once in [`PACE`].

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Voice;
use super::queue::{Queue, Work};
use super::whole::WholeLines;

/// Between two lines about lost ones, while the stream takes some but not all.
const PACE: Duration = Duration::from_secs(1);

/// Why lines are lost when no write fails.
const TOO_SLOW: &str = "too slow";

/// See the file's head.
pub(super) struct Writer<W> {
    queue: Arc<Queue>,
    out: WholeLines<W>,
    voice: Voice,
    /// Why the last write failed, if it did.
    trouble: Option<io::Error>,
    /// When it was last said that lines were lost.
    said: Option<Instant>,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(queue: Arc<Queue>, out: W, voice: Voice) -> Self {
        Self { queue, out: WholeLines::new(out), voice, trouble: None, said: None }
    }

    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self) {
        while let Some(work) = self.queue.next() {
            self.step(&work);
        }
    }

    fn step(&mut self, work: &Work) {
        let line = work.line.as_deref();
        if self.is_due(work)
            && let Err(error) = self.say_lost(work.unsaid)
        {
            return self.failed(error, line.is_some());
        }
        if let Some(line) = line
            && let Err(error) = self.out.write(line)
        {
            self.failed(error, true);
        }
    }

    /// Whether it is to be said now that lines were lost.
    fn is_due(&self, work: &Work) -> bool {
        let has_rested = || self.said.is_none_or(|said| said.elapsed() >= PACE);
        work.unsaid > 0 && (self.trouble.is_some() || work.line.is_none() || has_rested())
    }

    fn say_lost(&mut self, lost: u64) -> io::Result<()> {
        let why = self.trouble.as_ref().map_or_else(|| TOO_SLOW.to_owned(), ToString::to_string);
        self.out.write((self.voice.lost)(lost, &why).as_bytes())?;
        self.trouble = None;
        self.said = Some(Instant::now());
        self.queue.said(lost);
        Ok(())
    }

    fn failed(&mut self, error: io::Error, is_line: bool) {
        if self.trouble.is_none() {
            (self.voice.failing)(&error);
        }
        self.trouble = Some(error);
        self.queue.failed(is_line);
    }
}
