//! Cuts a stream of bytes into lines, holding no more than one line's worth.
//!
//! Used by `output` for standard output and standard error. Invariant: at most `limit` bytes are kept,
//! whatever is written; what a line has beyond that is counted and dropped.

/// The unfinished line of one stream.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer {
    kept: Vec<u8>,
    /// Bytes of the present line that did not fit.
    beyond: usize,
}

impl LineBuffer {
    /// Takes some bytes, and gives each line that they end to `emit`.
    pub(crate) fn push(&mut self, bytes: &[u8], limit: usize, mut emit: impl FnMut(&str)) {
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let fits = piece.len().min(limit.saturating_sub(self.kept.len()));
            self.kept.extend_from_slice(&piece[..fits]);
            self.beyond += piece.len() - fits;
            if pieces.peek().is_some() {
                self.emit(&mut emit);
            }
        }
    }

    /// Gives an unfinished line to `emit`, if there is one.
    pub(crate) fn finish(&mut self, mut emit: impl FnMut(&str)) {
        if !self.kept.is_empty() {
            self.emit(&mut emit);
        }
    }

    fn emit(&mut self, emit: &mut impl FnMut(&str)) {
        let line = String::from_utf8_lossy(&self.kept);
        if self.beyond == 0 {
            emit(&line);
        } else {
            emit(&format!("{line}… [{} more]", crate::text::bytes(self.beyond)));
        }
        self.kept.clear();
        self.beyond = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(writes: &[&str]) -> Vec<String> {
        let mut buffer = LineBuffer::default();
        let mut lines = Vec::new();
        for write in writes {
            buffer.push(write.as_bytes(), 8, |line| lines.push(line.to_owned()));
        }
        buffer.finish(|line| lines.push(format!("{line} (unfinished)")));
        lines
    }

    #[test]
    fn cuts_at_newlines_wherever_the_writes_end() {
        assert_eq!(lines(&["one\ntwo\n"]), ["one", "two"]);
        assert_eq!(lines(&["o", "ne\n", "\n", "two"]), ["one", "", "two (unfinished)"]);
        assert!(lines(&[""]).is_empty());
    }

    #[test]
    fn keeps_a_bounded_part_of_an_endless_line() {
        assert_eq!(lines(&["12345678", "9", "0\nnext\n"]), ["12345678… [2 bytes more]", "next"]);
    }

    #[test]
    fn shows_bytes_that_are_not_text() {
        let mut buffer = LineBuffer::default();
        let mut lines = Vec::new();
        buffer.push(b"a\xff\n", 8, |line| lines.push(line.to_owned()));
        assert_eq!(lines, ["a\u{fffd}"]);
    }
}
