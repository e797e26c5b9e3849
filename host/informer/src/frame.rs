//! Cuts a stream of byte chunks into lines, whatever the places at which the chunks end.
//!
//! Used for the bodies of watches, which are one JSON object a line. Invariant: memory stays below the line
//! limit plus one chunk, whatever the server sends.

use std::fmt;
use std::io::BufRead as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures::Stream;

/// Longest line accepted unless said otherwise. etcd refuses objects above 1.5 MiB; a watch event is one
/// object and a few bytes.
pub const DEFAULT_MAX_LINE: usize = 8 * 1024 * 1024;

/// Why a line could not be cut.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError<E: fmt::Debug + fmt::Display> {
    /// The stream itself broke.
    #[error("{0}")]
    Stream(E),
    /// A line is longer than the limit.
    #[error("a line is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
}

/// One piece of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A line, without its end.
    Line(Bytes),
    /// What stood after the last line end when the stream ended: a line cut off, or the last one if the
    /// sender ends lines sloppily.
    Rest(Bytes),
}

/// The line cutter: bytes in, lines out. Empty lines are dropped; `\r\n` counts as a line end.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    pending: BytesMut,
    /// How much of `pending` is known to hold no line end.
    scanned: usize,
}

impl Lines {
    /// A cutter that refuses lines of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, pending: BytesMut::new(), scanned: 0 }
    }

    /// Takes in the next chunk.
    pub fn push(&mut self, chunk: &[u8]) {
        self.pending.extend_from_slice(chunk);
    }

    /// The next whole line, if there is one.
    ///
    /// # Errors
    /// The limit, if the line at hand is longer, whether or not its end is there. The cutter is of no use
    /// afterwards.
    pub fn next_line(&mut self) -> Result<Option<Bytes>, usize> {
        loop {
            let mut unseen = self.pending.get(self.scanned..).unwrap_or_default();
            // Reading from a slice cannot fail; `skip_until` is the standard library's fast byte search.
            let passed = unseen.skip_until(b'\n').unwrap_or_default();
            let end = self.scanned + passed;
            let found = passed > 0 && self.pending.get(end - 1) == Some(&b'\n');
            if end - usize::from(found) > self.limit {
                return Err(self.limit);
            }
            if !found {
                self.scanned = end;
                return Ok(None);
            }
            self.scanned = 0;
            let line = trim_end(self.pending.split_to(end).freeze());
            if !line.is_empty() {
                return Ok(Some(line));
            }
        }
    }

    /// What is left when no more will come. None: the last line was whole.
    pub fn finish(&mut self) -> Option<Bytes> {
        self.scanned = 0;
        let rest = trim_end(self.pending.split().freeze());
        (!rest.is_empty()).then_some(rest)
    }
}

fn trim_end(mut line: Bytes) -> Bytes {
    while matches!(line.last(), Some(b'\n' | b'\r')) {
        line.truncate(line.len() - 1);
    }
    line
}

/// A stream of frames over a stream of chunks.
#[derive(Debug)]
pub struct Frames<S> {
    chunks: S,
    lines: Lines,
    ended: bool,
}

impl<S> Frames<S> {
    /// Cuts `chunks` into lines of at most `limit` bytes.
    pub fn new(chunks: S, limit: usize) -> Self {
        Self { chunks, lines: Lines::new(limit), ended: false }
    }
}

impl<S, B, E> Stream for Frames<S>
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: AsRef<[u8]>,
    E: fmt::Debug + fmt::Display,
{
    type Item = Result<Frame, FrameError<E>>;

    /// After an error there is nothing more.
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if this.ended {
                return Poll::Ready(None);
            }
            match this.lines.next_line() {
                Ok(Some(line)) => return Poll::Ready(Some(Ok(Frame::Line(line)))),
                Ok(None) => {}
                Err(limit) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(FrameError::TooLong { limit })));
                }
            }
            match ready!(Pin::new(&mut this.chunks).poll_next(cx)) {
                Some(Ok(chunk)) => this.lines.push(chunk.as_ref()),
                Some(Err(error)) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(FrameError::Stream(error))));
                }
                None => {
                    this.ended = true;
                    return Poll::Ready(this.lines.finish().map(|rest| Ok(Frame::Rest(rest))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{FutureExt as _, StreamExt as _, stream};
    use proptest::prelude::*;

    use super::*;

    fn frames(chunks: &[&[u8]], limit: usize) -> Vec<Result<Frame, FrameError<Infallible>>> {
        let chunks: Vec<_> = chunks.iter().map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        Frames::new(stream::iter(chunks), limit).collect().now_or_never().expect("nothing to wait for")
    }

    fn line(text: &str) -> Result<Frame, FrameError<Infallible>> {
        Ok(Frame::Line(Bytes::copy_from_slice(text.as_bytes())))
    }

    fn rest(text: &str) -> Result<Frame, FrameError<Infallible>> {
        Ok(Frame::Rest(Bytes::copy_from_slice(text.as_bytes())))
    }

    #[test]
    fn lines_come_whole_wherever_the_chunks_end() {
        let text = "{\"a\":\"ü\u{1F600}\"}\n\r\n\n{\"b\":2}\r\n{\"c\":".as_bytes();
        let want = [line("{\"a\":\"ü\u{1F600}\"}"), line("{\"b\":2}"), rest("{\"c\":")];
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let chunks = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(frames(&chunks, 64), want, "cut at {first} and {second}");
            }
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(frames(&bytes, 64), want);
    }

    #[test]
    fn a_line_above_the_limit_is_an_error_and_the_last_thing_heard() {
        assert_eq!(frames(&[b"12345\n12345\n"], 5), [line("12345"), line("12345")]);
        assert_eq!(frames(&[b"123456\n1\n"], 5), [Err(FrameError::TooLong { limit: 5 })]);
        assert_eq!(frames(&[b"1\n12", b"34", b"56"], 5), [line("1"), Err(FrameError::TooLong { limit: 5 })]);
        assert_eq!(frames(&[b"12345"], 5), [rest("12345")]);
    }

    #[test]
    fn an_endless_line_is_not_collected() {
        let mut lines = Lines::new(1000);
        for _ in 0..1000 {
            lines.push(&[b'x'; 100]);
            if lines.next_line().is_err() {
                assert!(lines.pending.len() <= 1100);
                return;
            }
        }
        panic!("the limit was never noticed");
    }

    #[test]
    fn a_broken_stream_is_told_after_the_lines_before_it() {
        let chunks = [Ok(Bytes::from_static(b"a\nb")), Err("reset")];
        let got: Vec<_> = Frames::new(stream::iter(chunks), 9).collect().now_or_never().expect("ready");
        assert_eq!(got, [Ok(Frame::Line(Bytes::from_static(b"a"))), Err(FrameError::Stream("reset"))]);
    }

    proptest! {
        #[test]
        fn any_cutting_gives_the_same_lines(
            lines in prop::collection::vec("[^\r\n]{0,40}", 0..12),
            tail in "[^\r\n]{0,20}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let mut text = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>();
            text.push_str(&tail);
            let mut want: Vec<_> = lines.iter().filter(|text| !text.is_empty()).map(|text| line(text)).collect();
            want.extend((!tail.is_empty()).then(|| rest(&tail)));
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            ends.push(text.len());
            ends.sort_unstable();
            let mut from = 0;
            let mut chunks = Vec::new();
            for end in ends {
                chunks.push(&text.as_bytes()[from..end]);
                from = end;
            }
            prop_assert_eq!(frames(&chunks, 200), want);
        }
    }
}
