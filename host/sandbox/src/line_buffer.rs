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
    /// Takes some bytes, and gives each line that they end to `emit`, with the number of bytes dropped of it.
    pub(crate) fn push(&mut self, bytes: &[u8], limit: usize, mut emit: impl FnMut(&str, usize)) {
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
    pub(crate) fn finish(&mut self, mut emit: impl FnMut(&str, usize)) {
        if !self.kept.is_empty() || self.beyond > 0 {
            self.emit(&mut emit);
        }
    }

    fn emit(&mut self, emit: &mut impl FnMut(&str, usize)) {
        if self.beyond > 0 {
            let broken = broken_end(&self.kept);
            self.kept.truncate(self.kept.len() - broken);
            self.beyond += broken;
        }
        emit(&String::from_utf8_lossy(&self.kept), self.beyond);
        self.kept.clear();
        self.beyond = 0;
    }
}

/// Bytes of a character at the end whose rest was cut off.
fn broken_end(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map(|chunk| chunk.invalid()).unwrap_or_default();
    let unfinished = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    if unfinished { last.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(writes: &[&str]) -> Vec<String> {
        let mut buffer = LineBuffer::default();
        let mut lines = Vec::new();
        for write in writes {
            buffer.push(write.as_bytes(), 8, |line, beyond| lines.push(format!("{line}+{beyond}")));
        }
        buffer.finish(|line, beyond| lines.push(format!("{line}+{beyond} (unfinished)")));
        lines
    }

    #[test]
    fn cuts_at_newlines_wherever_the_writes_end() {
        assert_eq!(lines(&["one\ntwo\n"]), ["one+0", "two+0"]);
        assert_eq!(lines(&["o", "ne\n", "\n", "two"]), ["one+0", "+0", "two+0 (unfinished)"]);
        assert!(lines(&[""]).is_empty());
    }

    #[test]
    fn keeps_a_bounded_part_of_an_endless_line() {
        assert_eq!(lines(&["12345678", "9", "0\nnext\n"]), ["12345678+2", "next+0"]);
    }

    #[test]
    fn a_character_that_does_not_fit_is_dropped_whole() {
        assert_eq!(lines(&["1234567é\n"]), ["1234567+2"]);
        assert_eq!(lines(&["123456", "\u{20ac}\nab"]), ["123456+3", "ab+0 (unfinished)"]);
        assert_eq!(lines(&["123456é"]), ["123456é+0 (unfinished)"]);
    }

    #[test]
    fn shows_bytes_that_are_not_text() {
        let mut buffer = LineBuffer::default();
        let mut lines = Vec::new();
        buffer.push(b"a\xff\n", 8, |line, _| lines.push(line.to_owned()));
        assert_eq!(lines, ["a\u{fffd}"]);
    }
}
