//! Decodes a gzip body while it arrives, any number of members.
//!
//! Used by [`Client`](super::Client) for answers that say `Content-Encoding: gzip`. API servers from 1.37 on send a
//! streaming list as one member per flush (section 1.11, kube#2079). Invariants: what has arrived of a member is
//! decoded at once, without waiting for its end or for another; a body that ends within a member is an error, as any
//! body that is cut off; a piece of the result is at most about four megabytes, however well it was packed, so that
//! the limits on lines and lists come first.

use std::io::Write as _;

use bytes::{Buf as _, Bytes};
use flate2::write::MultiGzDecoder;
use futures::stream::{self, Stream, StreamExt as _};

use crate::status::ApiError;

/// How much is decoded in one go. Deflate makes at most 1,032 bytes out of one.
const STEP: usize = 4 * 1024;

/// The decoded bytes of `chunks`, as they come.
pub(super) fn decode<S>(chunks: S) -> impl Stream<Item = Result<Bytes, ApiError>> + Send
where
    S: Stream<Item = Result<Bytes, ApiError>> + Send + Unpin,
{
    let state = Decoding { chunks, waiting: Bytes::new(), members: Members::default() };
    stream::try_unfold(state, |mut state| async { Ok(state.next().await?.map(|decoded| (decoded, state))) })
}

struct Decoding<S> {
    chunks: S,
    /// What has arrived and is not decoded yet.
    waiting: Bytes,
    members: Members,
}

impl<S: Stream<Item = Result<Bytes, ApiError>> + Unpin> Decoding<S> {
    async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            while !self.waiting.is_empty() {
                let step = self.waiting.split_to(STEP.min(self.waiting.remaining()));
                let decoded = self.members.decode(&step)?;
                if !decoded.is_empty() {
                    return Ok(Some(decoded));
                }
            }
            match self.chunks.next().await {
                Some(chunk) => self.waiting = chunk?,
                None => return self.members.end().map(|()| None),
            }
        }
    }
}

/// The decoder, and whether it has seen anything: no members at all are an empty body.
struct Members {
    decoder: MultiGzDecoder<Vec<u8>>,
    has_begun: bool,
}

impl Default for Members {
    fn default() -> Self {
        Self { decoder: MultiGzDecoder::new(Vec::new()), has_begun: false }
    }
}

impl Members {
    fn decode(&mut self, bytes: &[u8]) -> Result<Bytes, ApiError> {
        self.has_begun = true;
        let decoded = self.decoder.write_all(bytes).and_then(|()| self.decoder.flush());
        decoded.map_err(|error| ApiError::Decode(format!("the answer's gzip does not decode: {error}")))?;
        Ok(std::mem::take(self.decoder.get_mut()).into())
    }

    /// Says whether the last member was whole.
    fn end(&mut self) -> Result<(), ApiError> {
        if !self.has_begun {
            return Ok(());
        }
        self.decoder.try_finish().map_err(|error| {
            ApiError::Unreachable(format!("the answer was cut off within its gzip: {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use futures::FutureExt as _;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).expect("to memory");
        encoder.finish().expect("to memory")
    }

    /// What comes out of these chunks, in pieces, and how it ends.
    fn pieces(chunks: Vec<Vec<u8>>) -> (Vec<Bytes>, Result<(), ApiError>) {
        let chunks = stream::iter(chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk))));
        let results: Vec<_> = decode(chunks).collect().now_or_never().expect("nothing to wait for");
        let mut end = Ok(());
        let whole =
            results.into_iter().filter_map(|piece| piece.map_err(|error| end = Err(error)).ok()).collect();
        (whole, end)
    }

    fn decoded(chunks: Vec<Vec<u8>>) -> (Vec<u8>, Result<(), ApiError>) {
        let (pieces, end) = pieces(chunks);
        (pieces.concat(), end)
    }

    /// Three members, the middle one empty, and one with a file name and a comment in its head.
    fn members() -> (Vec<u8>, Vec<u8>) {
        let mut named = flate2::GzBuilder::new()
            .filename("name")
            .comment("words")
            .extra(vec![1, 2, 3])
            .write(Vec::new(), Compression::best());
        named.write_all(b"third\n").expect("to memory");
        let third = named.finish().expect("to memory");
        let stream = [packed("erste gr\u{f6}\u{df}e\n".as_bytes()), packed(b""), third].concat();
        (stream, "erste gr\u{f6}\u{df}e\nthird\n".as_bytes().to_vec())
    }

    /// kube#2079, 7.12 no. 21.
    #[test]
    fn members_are_decoded_wherever_the_chunks_end() {
        let (stream, want) = members();
        for cut in 0..=stream.len() {
            let (first, second) = stream.split_at(cut);
            let got = decoded(vec![first.to_vec(), second.to_vec()]);
            assert_eq!(got, (want.clone(), Ok(())), "cut at {cut}");
        }
        let bytes = stream.iter().map(|&byte| vec![byte]).collect();
        assert_eq!(decoded(bytes), (want, Ok(())), "byte by byte");
    }

    #[test]
    fn what_is_there_of_a_member_does_not_wait_for_its_end() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let mut sent = Members::default();
        for line in ["one\n", "two\n", "three\n"] {
            encoder.write_all(line.as_bytes()).expect("to memory");
            encoder.flush().expect("to memory");
            let flushed = std::mem::take(encoder.get_mut());
            assert_eq!(sent.decode(&flushed), Ok(Bytes::from(line)));
        }
    }

    #[test]
    fn a_body_that_ends_within_a_member_is_cut_off_and_one_that_ends_after_one_is_not() {
        let (stream, _) = members();
        let ends = [0, packed("erste gr\u{f6}\u{df}e\n".as_bytes()).len()];
        let ends = [ends[0], ends[1], ends[1] + packed(b"").len(), stream.len()];
        for cut in 0..=stream.len() {
            let (_, end) = decoded(vec![stream[..cut].to_vec()]);
            assert_eq!(end.is_ok(), ends.contains(&cut), "cut at {cut}: {end:?}");
            assert!(!matches!(end, Err(ApiError::Decode(_))), "cut off, not damaged, at {cut}: {end:?}");
        }
    }

    #[test]
    fn what_is_damaged_or_no_gzip_is_an_error() {
        let whole = packed(&b"some text, some text".repeat(10));
        for at in [0, 1, 2, 12, whole.len() - 8, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            damaged.extend_from_slice(&packed(b"next"));
            let (_, end) = decoded(vec![damaged]);
            assert!(matches!(end, Err(ApiError::Decode(_))), "at {at}: {end:?}");
        }
        let (text, end) =
            decoded(vec![[packed(b"text"), b"<html>, longer than a gzip's head".to_vec()].concat()]);
        assert_eq!(text, b"", "what came with the damage in one step is not told");
        assert!(matches!(end, Err(ApiError::Decode(_))), "{end:?}");
    }

    #[test]
    fn an_error_of_the_connection_is_passed_on_after_what_came_before() {
        let broken = ApiError::Unreachable("reset".into());
        let chunks = stream::iter([Ok(Bytes::from(packed(b"text"))), Err(broken.clone())]);
        let got: Vec<_> = decode(chunks).collect().now_or_never().expect("nothing to wait for");
        assert_eq!(got, [Ok(Bytes::from_static(b"text")), Err(broken)]);
    }

    #[test]
    fn a_piece_is_bounded_however_well_it_was_packed() {
        let zeros = vec![0; 64 * 1024 * 1024];
        let (pieces, end) = pieces(vec![packed(&zeros)]);
        assert_eq!((pieces.iter().map(Bytes::len).sum(), end), (zeros.len(), Ok(())));
        let largest = pieces.iter().map(Bytes::len).max();
        assert!(largest.is_some_and(|largest| largest <= STEP * 1032 + 64 * 1024), "{largest:?}");
    }
}
