//! Streams that hang, fail and come back, without any file.

use std::io::ErrorKind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use super::*;

const VOICE: Voice =
    Voice { thread: "test", lost: |lost, why| format!("[{lost} lost: {why}]\n"), failing: |_| {} };

/// Longer than any of these tests takes.
const LONG: Duration = Duration::from_secs(60);

/// Bytes that a test's queue may hold: ten lines of two bytes.
const TEN: Bounds = Bounds { all: 500, plugins: 250 };

/// What a stream does with the next write.
enum Answer {
    Take,
    TakeOnly(usize),
    Fail(ErrorKind),
}

/// A stream that does as it is told, one answer a write; with no more answers, it takes everything.
struct Stream {
    answers: Receiver<Answer>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = match self.answers.recv() {
            Ok(Answer::Fail(kind)) => return Err(kind.into()),
            Ok(Answer::TakeOnly(count)) => count,
            Ok(Answer::Take) | Err(_) => bytes.len(),
        };
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Case {
    lines: Lines,
    /// Nothing is written while there is no answer.
    answers: SyncSender<Answer>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Case {
    fn new() -> Self {
        let (answers, receiver) = sync_channel(64);
        let written = Arc::default();
        let stream = Stream { answers: receiver, written: Arc::clone(&written) };
        Self { lines: Lines::spawn(stream, VOICE, TEN).expect("a thread"), answers, written }
    }

    fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        for answer in answers {
            self.answers.send(answer).expect("the thread is there");
        }
    }

    fn push(&self, speaker: Speaker, lines: &str) {
        for line in lines.split_inclusive('\n') {
            self.lines.push(speaker, line.as_bytes());
        }
    }

    /// How many were lost, and what the stream has in the end.
    fn end(self) -> (u64, String) {
        drop(self.answers);
        self.lines.flush(LONG);
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.lines.lost(), String::from_utf8(written).expect("text"))
    }
}

#[test]
fn everything_that_was_taken_is_written_in_order() {
    let case = Case::new();
    case.push(Speaker::Host, "1\n2\n");
    case.push(Speaker::Plugin, "3\n");
    assert_eq!(case.end(), (0, "1\n2\n3\n".to_owned()));
}

#[test]
fn a_stream_that_hangs_holds_nobody_up_and_the_host_has_room_that_plugins_have_not() {
    let case = Case::new();
    case.push(Speaker::Plugin, "held\n");
    while case.lines.owner.0.waiting() > 0 {
        std::thread::yield_now();
    }
    case.push(Speaker::Plugin, &"p\n".repeat(8));
    case.push(Speaker::Host, &"h\n".repeat(8));
    case.lines.flush(Duration::from_millis(1));
    assert_eq!(case.lines.lost(), 6, "three of the plugin's, since five fit, and three of the host's");
    let expected = format!("held\n[6 lost: too slow]\n{}{}", "p\n".repeat(5), "h\n".repeat(5));
    assert_eq!(case.end(), (6, expected));
}

#[test]
fn a_stream_that_fails_is_tried_again_and_tells_what_it_has_not() {
    let case = Case::new();
    let full = || Answer::Fail(ErrorKind::StorageFull);
    case.push(Speaker::Host, "1\n2\n3\n4\n");
    // The first line, then each time only what tells of the lost ones.
    case.answer([full(), full(), full()]);
    assert_eq!(case.end(), (3, format!("[3 lost: {}]\n4\n", ErrorKind::StorageFull)));
}

#[test]
fn the_beginning_of_a_line_spoils_no_other() {
    let case = Case::new();
    case.push(Speaker::Host, "one\ntwo\n");
    case.answer([Answer::TakeOnly(2), Answer::Fail(ErrorKind::StorageFull)]);
    assert_eq!(case.end(), (1, format!("on\n[1 lost: {}]\ntwo\n", ErrorKind::StorageFull)));
}

#[test]
fn a_signal_or_a_stream_that_is_full_for_a_moment_loses_nothing() {
    let case = Case::new();
    case.push(Speaker::Host, "one\n");
    case.answer([
        Answer::Fail(ErrorKind::Interrupted),
        Answer::TakeOnly(1),
        Answer::Fail(ErrorKind::WouldBlock),
        Answer::TakeOnly(1),
    ]);
    assert_eq!(case.end(), (0, "one\n".to_owned()));
}

#[test]
fn the_thread_ends_with_the_last_who_could_write() {
    let case = Case::new();
    case.push(Speaker::Host, "last\n");
    let Case { lines, answers, written } = case;
    drop(lines);
    answers.send(Answer::Take).expect("the thread has a line to write");
    while answers.send(Answer::Take).is_ok() {
        std::thread::yield_now();
    }
    assert_eq!(*written.lock().unwrap_or_else(PoisonError::into_inner), b"last\n");
}
